"""Tests of back-off and retries."""

from __future__ import annotations

import numpy as np

from argosy_runtime.channel import Backoff


def make_backoff() -> Backoff:
    """Return a back-off with a fixed seed."""
    return Backoff(rng=np.random.default_rng(1), first_s=0.1, most_s=1.0)


def test_backoff_doubles_up_to_its_bound_with_chance_below() -> None:
    """The n-th wait lies between half of and the whole of first * 2^n, at most the bound."""
    backoff = make_backoff()
    for bound in (0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0):
        assert bound / 2 <= backoff.next_wait_s() <= bound
    backoff.reset()
    assert backoff.next_wait_s() <= 0.1

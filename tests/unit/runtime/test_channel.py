"""Tests of back-off and retries."""

from __future__ import annotations

import numpy as np
import pytest

from argosy_core.errors import ArgosyError, BackendUnavailable, NotFound
from argosy_runtime.channel import Backoff, retry_unavailable


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


@pytest.mark.parametrize(
    ("faults", "expected"),
    [
        ([], "answer"),
        ([BackendUnavailable("a"), BackendUnavailable("b")], "answer"),
        ([BackendUnavailable("a")] * 3, BackendUnavailable),
        ([NotFound("a")], NotFound),
    ],
)
async def test_retry_repeats_only_what_could_not_be_reached(faults: list[ArgosyError], expected: object) -> None:
    """An unreachable other side is tried again up to the limit; any other error is final at once."""
    left = list(faults)
    waits: list[float] = []

    async def call() -> str:
        if left:
            raise left.pop(0)
        return "answer"

    async def wait(duration_s: float) -> None:
        waits.append(duration_s)

    repeated = retry_unavailable(call, wait=wait, backoff=make_backoff(), attempt_count=3)
    if expected == "answer":
        assert await repeated == "answer"
        assert len(waits) == len(faults)
    else:
        with pytest.raises(expected):  # type: ignore[call-overload]
            await repeated

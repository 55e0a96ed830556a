"""Worlds in which plugins of the leader hold placements back, deny them and fail, while all else goes wrong, too.

A world that fails prints its seed; more of them are in `tests/real/simulation`.
"""

from __future__ import annotations

from collections import Counter

import pytest

from argosy_core.errors import ArgosyError
from argosy_core.leader.permits import Permits
from argosy_testkit.reluctant_plugin import reluctant_world
from argosy_testkit.simulated_worlds import fails_within

SEEDS = (9, 13)


def test_worlds_in_which_placements_wait_for_plugins_come_to_rest_and_leak_nothing() -> None:
    """Leaders die and are replaced while placements wait: their places are given back, and every job ends once."""
    counters: Counter[str] = Counter()
    for seed in SEEDS:
        try:
            counters.update(reluctant_world(seed, check_steps=50).run().counters)
        except (ArgosyError, AssertionError, LookupError, TypeError, ValueError) as error:
            pytest.fail(f"reluctant_world({seed}): {type(error).__name__}: {error}")
    assert counters["placements held back when a leader ended"] > len(SEEDS)
    assert counters["turned_away"] > len(SEEDS)


def test_without_releases_of_what_is_turned_away_a_leak_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sampler must hear that the place is free."""
    original = Permits.__init__

    def init(self: Permits, term: object, release: object) -> None:
        original(self, term, lambda _: None)  # type: ignore[arg-type]

    monkeypatch.setattr(Permits, "__init__", init)
    assert fails_within(4, reluctant_world, first=10)


def test_without_looking_whether_jobs_are_still_there_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job may end while its placement waits."""
    monkeypatch.setattr(Permits, "_drop_gone", lambda _, held: held)
    assert fails_within(1, reluctant_world, first=10)

"""Worlds in which plugins of the leader hold placements back, deny them and fail, while all else goes wrong, too.

A world that fails prints its seed.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from argosy_core.errors import ArgosyError
from argosy_core.framework import PermitBatch
from argosy_core.leader.permits import Permits
from argosy_simulation import draw_world
from argosy_simulation.world import World
from argosy_testkit.simulated_worlds import fails_within

SEEDS = (3, 8, 9, 10, 13)


class Reluctant:
    """Permit, pre-bind and reject: jobs are held back for a while, and some are denied or time out once per leader."""

    def __init__(self) -> None:
        self.asked: Counter[tuple[str, int]] = Counter()

    def _is_first(self, point: str, batch: PermitBatch, mask: np.ndarray) -> np.ndarray:
        """Return which of some lines are met here for the first time."""
        first = np.array([not self.asked[point, handle] for handle in batch.handle.tolist()]) & mask
        self.asked.update((point, handle) for handle in batch.handle[first].tolist())
        return first

    def permit(self, batch: PermitBatch) -> None:
        """Wait for up to six seconds; one of five that waits for long runs into its time limit."""
        draw = batch.handle * 2654435761 >> 7
        batch.wait(batch.waited_s < draw % 7, "not yet", timeout_s=20.0)
        is_late = self._is_first("late", batch, (draw % 5 == 1) & (batch.waited_s == 0))
        batch.wait(is_late, "too late", timeout_s=0.5)
        if self._is_first("fail", batch, draw % 11 == 3).any():
            raise ConnectionError("away")

    def pre_bind(self, batch: PermitBatch) -> np.ndarray:
        """Refuse one of six once."""
        return ~self._is_first("bind", batch, batch.handle * 2654435761 >> 9 & 7 == 2)

    def reject(self, batch: PermitBatch) -> None:
        """Take note."""
        assert (batch.attempt > 0).all()
        self.asked["rejected", 0] += len(batch)


def make_world(seed: int, check_steps: int = 0) -> World:
    """Return a world with faults, every other one wide."""
    return draw_world(
        seed, wide=bool(seed % 2), check_steps=check_steps, make_plugins=lambda: {"reluctant": Reluctant()}
    )


def test_worlds_in_which_placements_wait_for_plugins_come_to_rest_and_leak_nothing() -> None:
    """Leaders die and are replaced while placements wait: their places are given back, and every job ends once."""
    counters: Counter[str] = Counter()
    for seed in SEEDS:
        try:
            counters.update(make_world(seed, check_steps=50).run().counters)
        except (ArgosyError, AssertionError, LookupError, TypeError, ValueError) as error:
            pytest.fail(f"make_world({seed}): {type(error).__name__}: {error}")
    assert counters["placements held back when a leader ended"] > len(SEEDS)
    assert counters["turned_away"] > len(SEEDS)


def test_without_releases_of_what_is_turned_away_a_leak_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sampler must hear that the place is free."""
    original = Permits.__init__

    def init(self: Permits, term: object, release: object) -> None:
        original(self, term, lambda _: None)  # type: ignore[arg-type]

    monkeypatch.setattr(Permits, "__init__", init)
    assert fails_within(4, make_world, first=10)


def test_without_looking_whether_jobs_are_still_there_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job may end while its placement waits."""
    monkeypatch.setattr(Permits, "_drop_gone", lambda _, held: held)
    assert fails_within(1, make_world, first=10)

"""A plugin of the leader that holds placements back, denies them and fails, and random worlds that have it.

Source: design section 7, "Simulation".
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from argosy_core.framework import PermitBatch
from argosy_simulation import World, draw_world

__all__ = ["Reluctant", "reluctant_world"]


class Reluctant:
    """Permit, pre-bind and reject: jobs are held back for a while, and some are denied or time out once per leader."""

    def __init__(self) -> None:
        self.asked: Counter[tuple[str, int]] = Counter()

    def _is_first(self, point: str, batch: PermitBatch, mask: np.ndarray) -> np.ndarray:
        """Return which of some lines are met here for the first time."""
        first: np.ndarray = np.array([not self.asked[point, handle] for handle in batch.handle.tolist()]) & mask
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


def reluctant_world(seed: int, check_steps: int = 0) -> World:
    """Return a world with faults, every other one wide."""
    return draw_world(
        seed, wide=bool(seed % 2), check_steps=check_steps, make_plugins=lambda: {"reluctant": Reluctant()}
    )

"""Moments at which objects are to be looked at again."""

from __future__ import annotations

import heapq

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import has_true

__all__ = ["Timers"]

Int64Array = npt.NDArray[np.int64]


class Timers:
    """Slots by the moment at which they are due, monotonic seconds."""

    def __init__(self) -> None:
        """Start with nothing due."""
        self._heap: list[tuple[float, int, Int64Array]] = []
        self._count = 0

    def add(self, slots: Int64Array, due_s: float) -> None:
        """Look at objects again at a moment. O(log moments)."""
        if slots.size:
            self._count += 1
            heapq.heappush(self._heap, (due_s, self._count, slots))

    def add_each(self, slots: Int64Array, dues_s: npt.NDArray[np.float64]) -> None:
        """Look at each of some objects again at its own moment; one entry per distinct moment."""
        if not dues_s.size:
            return
        if not has_true(dues_s != dues_s[0]):  # as nearly always
            self.add(slots, float(dues_s[0]))
            return
        for due_s in np.unique(dues_s).tolist():
            self.add(slots[dues_s == due_s], due_s)

    def take(self, now_s: float) -> list[Int64Array]:
        """Return and forget what is due."""
        due: list[Int64Array] = []
        while self._heap and self._heap[0][0] <= now_s:
            due.append(heapq.heappop(self._heap)[2])
        return due

    def next_s(self) -> float | None:
        """Return the next moment, or None."""
        return self._heap[0][0] if self._heap else None

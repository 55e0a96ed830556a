"""Runs that take longer than their time limits are stopped, and their jobs fail.

The limit counts from when the first pod of a run ran, by the database, so a leader that takes over goes on with it. The
run is stopped as a cancelled one is, with its grace; one that ends with success before it is gone has succeeded.

Source: design section 5, "Leader lost".
"""

from __future__ import annotations

import heapq
import itertools
import math
from typing import Final

import numpy as np

from argosy_core.arrays import Bools, Int32s
from argosy_core.job.states import IS_RUN_TERMINAL
from argosy_core.job.tables.live import LiveJobs

__all__ = ["TimeLimits"]

_SLACK: Final = 1024
"""Ends of runs that are over which are kept besides as many as there are jobs."""


class TimeLimits:
    """When runs that have a time limit reach it."""

    def __init__(self) -> None:
        """Start with no run."""
        self._ends: list[tuple[float, int, int]] = []
        """Heap of (moment, handle, attempt); runs that ended meanwhile are left until they are first or too many."""

    def __len__(self) -> int:
        """Return how many are kept, those of runs that are over included."""
        return len(self._ends)

    def __deepcopy__(self, memo: dict[int, object]) -> TimeLimits:
        """Return a copy; what it holds never changes, so that a fork of the pool costs no Python object per run."""
        twin = TimeLimits()
        twin._ends = list(self._ends)
        return twin

    def next_s(self, live: LiveJobs) -> float:
        """Return when the next run reaches its limit, seconds since the Unix epoch; infinite if none will.

        Most runs end before their limits. A round at each of these moments would find nothing to do.

        Complexity: a few look-ups in NumPy, and those of runs that are over, amortised, together.
        """
        count = 1
        while self._ends:
            first = [heapq.heappop(self._ends) for _ in range(min(count, len(self._ends)))]
            _, there = _current(live, first)
            for end in itertools.compress(first, there.tolist()):
                heapq.heappush(self._ends, end)
            if there.any():
                return self._ends[0][0]
            count *= 2
        return math.inf

    def note_started(self, live: LiveJobs, slots: Int32s) -> None:
        """Take note of runs that run from now on, as `live.start_time_us` says.

        Complexity: Python work per run with a time limit, amortised.
        """
        slots = slots[live.time_limit_s[slots] >= 0]
        if not slots.size:
            return
        ends_s = live.start_time_us[slots] / 1e6 + live.time_limit_s[slots]
        for end in zip(ends_s.tolist(), live.handle[slots].tolist(), live.attempt[slots].tolist(), strict=True):
            heapq.heappush(self._ends, end)
        if len(self._ends) > 2 * len(live) + _SLACK:
            slots, there = _current(live, self._ends)
            self._ends = [end for end, is_there in zip(self._ends, there.tolist(), strict=True) if is_there]
            heapq.heapify(self._ends)

    def take_due(self, live: LiveJobs, now_s: float) -> Int32s:
        """Return the slots of runs that have reached their limits, each once, and forget them."""
        if not self._ends or self._ends[0][0] > now_s:
            return np.zeros(0, dtype=np.int32)
        due = []
        while self._ends and self._ends[0][0] <= now_s:
            due.append(heapq.heappop(self._ends))
        slots, there = _current(live, due)
        return np.unique(slots[there])


def _current(live: LiveJobs, ends: list[tuple[float, int, int]]) -> tuple[Int32s, Bools]:
    """Return the slots of runs, and which of them are their jobs' present ones and have not ended."""
    slots = live.slots(np.array([handle for _, handle, _ in ends], dtype=np.int64))
    there = (slots >= 0) & (live.attempt[slots] == np.array([attempt for _, _, attempt in ends], dtype=np.int32))
    return slots, there & (live.run_state[slots] > 0) & ~IS_RUN_TERMINAL[live.run_state[slots]]

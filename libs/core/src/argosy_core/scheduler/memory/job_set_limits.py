"""How many jobs of a job set run at once: jobs that say so wait while so many of their set are leased or run.

Nothing is kept or looked up while no job says so. What was promised a start, or has runs stopped for it, counts as if
it had begun, so that no other job of its set takes its place.

Source: 003 "Scheduling constraints"; a running-jobs limit per array or job set.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from argosy_core.arrays import Bools, Int32s, Int64s
from argosy_core.job.tables.ids import grow
from argosy_core.job.tables.live import LiveJobs
from argosy_core.queueing.order import Backlog

__all__ = ["JobSetLimits"]


class JobSetLimits:
    """How many jobs run of each job set of the queues in which some job limits that."""

    def __init__(self) -> None:
        """Start with no job that says anything."""
        self.queues: Counter[int] = Counter()
        """Index of each such queue -> its live jobs that limit how many of their job set run."""
        self.leased_count: Int64s = np.zeros(0, dtype=np.int64)
        """By job set: jobs in flight, leased and running; counted once some job says anything."""
        self._reserved: Int32s = np.zeros(0, dtype=np.int32)
        self._reserved_count: Int64s = np.zeros(0, dtype=np.int64)

    def note(self, live: LiveJobs, slots: Int32s, held: Int32s) -> None:
        """Take note of new jobs.

        Args:
            live: The table of jobs.
            slots: The new ones; none is in flight, leased or running.
            held: All jobs that are.
        """
        is_first = not self.queues
        self.queues.update(self._limited(live, slots))
        if is_first and self.queues:
            self.leased_count, self._reserved_count = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
            self._reserved = self._reserved[:0]
            self._count(live, held, 1)

    def forget(self, live: LiveJobs, slots: Int32s) -> None:
        """Take note of jobs that are about to leave the table, and are counted out."""
        if self.queues:
            self.queues -= self._limited(live, slots)

    @staticmethod
    def _limited(live: LiveJobs, slots: Int32s) -> Counter[int]:
        return Counter(live.queue[slots[live.job_set_limit[slots] >= 0]].tolist())

    def count(self, live: LiveJobs, slots: Int32s, sign: int, orders: dict[int, Backlog]) -> None:
        """Count jobs in (+1) or out (-1) of those that run; where some went, their queues are looked at again."""
        if self.queues:
            self._count(live, slots, sign)
            if sign < 0:
                self.look_again(orders, set(np.unique(live.queue[slots]).tolist()))

    def _count(self, live: LiveJobs, slots: Int32s, sign: int) -> None:
        self._ensure(live.job_set[slots])
        np.add.at(self.leased_count, live.job_set[slots], sign)

    def _ensure(self, job_sets: Int32s) -> None:
        end = int(job_sets.max(initial=-1)) + 1
        if end > self.leased_count.size:
            self.leased_count = grow(self.leased_count, end)
        if self.leased_count.size > self._reserved_count.size:
            self._reserved_count = grow(self._reserved_count, self.leased_count.size)

    def reserve(self, live: LiveJobs, slots: Int32s, orders: dict[int, Backlog]) -> None:
        """Say which waiting jobs count as if they had begun."""
        if not self.queues or np.array_equal(slots, self._reserved):
            return
        self._ensure(live.job_set[slots])
        self._reserved = slots
        self._reserved_count = np.bincount(live.job_set[slots], minlength=self.leased_count.size)
        self.look_again(orders, set(self.queues))

    def look_again(self, orders: dict[int, Backlog], queues: set[int]) -> None:
        """Have the orders of those of some queues that matter forget what they passed over."""
        for row in self.queues.keys() & queues:
            for view in range(2):
                orders[row].look_again(view)

    def taken(self, live: LiveJobs, slots: Int32s) -> Int64s:
        """Return how many others of its set each of some waiting jobs finds running."""
        job_sets = live.job_set[slots]
        self._ensure(job_sets)
        taken: Int64s = self.leased_count[job_sets] + self._reserved_count[job_sets]
        return taken - np.isin(slots, self._reserved)

    def are_full(self, live: LiveJobs, slots: Int32s) -> Bools:
        """Return which waiting jobs may not begin since so many of their sets run."""
        limit = live.job_set_limit[slots]
        full: Bools = (limit >= 0) & (self.taken(live, slots) >= limit)
        return full

    def keep(self, live: LiveJobs, slots: Int32s) -> Bools:
        """Return which waiting jobs, in the order of their turns, may begin if those before them that may do.

        Complexity: O(n log n) in NumPy for each different limit that jobs of one set say.
        """
        taken = self.taken(live, slots)
        rows = np.argsort(live.job_set[slots], kind="stable")
        kept = np.zeros(slots.size, dtype=np.bool_)
        while rows.size:
            sets, limit = live.job_set[slots[rows]], live.job_set_limit[slots[rows]]
            rank = np.arange(rows.size) - np.searchsorted(sets, sets)
            over = np.flatnonzero((limit >= 0) & (taken[rows] + rank >= limit))
            if not over.size:
                kept[rows] = True
                break
            # The first of its set that is too much stays out, and so do those behind it that say no more than it.
            found, first = np.unique(sets[over], return_index=True)
            at = np.minimum(np.searchsorted(found, sets), found.size - 1)
            is_of_one, first = sets == found[at], over[first][at]
            rows = rows[~(is_of_one & (np.arange(rows.size) >= first) & (limit >= 0) & (limit <= limit[first]))]
        return kept

    def narrow(self, wanted: Bools | None, end: int) -> Bools:
        """Return classes wanted such that no job is of one that may not begin.

        Args:
            wanted: Classes asked for, None for all.
            end: Number of classes; waiting heads count as of class `end`, jobs that may not begin as of the next.
        """
        asked = np.ones(end + 1, dtype=np.bool_) if wanted is None else wanted
        return np.append(asked, np.zeros(end + 2 - asked.size, dtype=np.bool_))

"""The queues of a pool, each with a small dense index.

Owns what a queue holds, waits for and is owed: weight, flow, usage, counts, limits and its jobs in order. Columns are
public arrays; the functions of `argosy_core.scheduler` alone change them. May import what queues are made of
(`argosy_core.queueing`) and which stand below which; knows no class, cluster or pool.

Source: design section 6, "Data layout".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import Int32s, Int64s
from argosy_core.job.tables.ids import IdTable, grow
from argosy_core.queueing.limits import QueueLimits
from argosy_core.queueing.order import Backlog
from argosy_core.scheduler.memory.branches import Branches

__all__ = [
    "QueueTable",
]


class QueueTable:
    """Queues with their flow and counts."""

    def __init__(self, column_count: int) -> None:
        """Start empty.

        Args:
            column_count: Resources of the axis.
        """
        self.ids = IdTable()
        self.names: dict[int, str] = {}
        """Index -> name."""
        self.orders: dict[int, Backlog] = {}
        """Index -> waiting jobs in order."""
        self.job_keys: Callable[[Any, Int32s], Int64s] | None = None
        """(pool, n jobs) -> (n, k) keys by which they stand, priority included; None for priority and submission."""
        self.lead_s = 0.0
        """How much earlier a job counts as submitted for each doubling of its usage, by these keys, seconds."""
        self.aged_until_us = 0
        """Who was submitted by then has waited for longer than the age bound, microseconds since the Unix epoch."""
        self.queue_id: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        """Id of each index, 0 where the index is free."""
        self.weight: npt.NDArray[np.float64] = np.zeros(0, dtype=np.float64)
        """Weights."""
        self.cordoned: npt.NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)
        """Whether nothing may be placed."""
        self.flow: npt.NDArray[np.float64] = np.zeros(0, dtype=np.float64)
        """Flow at the pool's flow time, cores."""
        self.usage: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        """Usage of in-flight, leased and running jobs, micro-cores."""
        self.preemptible_usage: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        """Usage of those of them that have a lifetime, micro-cores."""
        self.preemptible_count: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        """How many these are."""
        self.charged_core_s: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        """What they take of the queue's excess flow budget, core-seconds."""
        self.overstated: dict[int, int] = {}
        """Queue's index -> usage of runs that had ended when the last leader leased their room anew, micro-cores."""
        self.non_preemptible_flow: npt.NDArray[np.float64] = np.zeros(0, dtype=np.float64)
        """Flow of jobs without a lifetime at the pool's flow time, cores; kept once a job had a lifetime."""
        self.held: npt.NDArray[np.int64] = np.zeros((0, column_count), dtype=np.int64)
        """(index, resource) what these hold, base units."""
        self.queued_usage: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        """Usage of queued jobs that are not on hold, micro-cores."""
        self.queued_count: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        """Queued jobs."""
        self.on_hold_count: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        """Queued jobs that are held or wait for others: they want nothing now."""
        self.idle_at: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        """`PoolState.wake_count` at which no queued job was of a class that may be placed; -1 if that is not known."""
        self.leased_count: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        """In-flight, leased and running jobs."""
        self.limits: dict[int, QueueLimits] = {}
        """Index -> what it may hold at once; those without limits are left out."""
        self.preempts_unexpired: set[int] = set()
        """Indices of those for whose jobs runs make room that are not past their lifetimes yet."""
        self.preempts_endless: set[int] = set()
        """Indices of those for whose jobs runs without a lifetime make room."""
        self.lease_paid_s: dict[int, float] = {}
        """Index -> when all that it has begun is paid for by its lease rate, seconds since the Unix epoch."""
        self.branches = Branches()
        """Which queues stand below which."""
        self.deleted: set[int] = set()
        """Ids of deleted queues whose last jobs are not known to have ended."""

    def add(self, queue_id: int, order: Backlog) -> int:
        """Add a queue that is not known and return its index."""
        index = self.ids.add(queue_id)
        end = self.ids.end
        self.queue_id = grow(self.queue_id, end)
        self.weight = grow(self.weight, end)
        self.cordoned = grow(self.cordoned, end)
        self.flow = grow(self.flow, end)
        self.non_preemptible_flow = grow(self.non_preemptible_flow, end)
        self.usage = grow(self.usage, end)
        self.preemptible_usage = grow(self.preemptible_usage, end)
        self.preemptible_count = grow(self.preemptible_count, end)
        self.charged_core_s = grow(self.charged_core_s, end)
        self.held = grow(self.held, end)
        self.queued_usage = grow(self.queued_usage, end)
        self.queued_count = grow(self.queued_count, end)
        self.on_hold_count = grow(self.on_hold_count, end)
        self.idle_at = grow(self.idle_at, end)
        self.leased_count = grow(self.leased_count, end)
        counts = (self.queued_count, self.on_hold_count, self.leased_count, self.preemptible_count)
        for column in (self.usage, self.preemptible_usage, self.charged_core_s, self.held, self.queued_usage, *counts):
            column[index] = 0
        self.idle_at[index] = -1
        self.flow[index] = self.non_preemptible_flow[index] = 0.0
        self.queue_id[index] = queue_id
        self.orders[index] = order
        return index

    def add_columns(self, count: int) -> None:
        """Give every resource array `count` more columns."""
        self.held = np.pad(self.held, ((0, 0), (0, count)))

    def keep_columns(self, used: npt.NDArray[np.bool_]) -> None:
        """Take the other resources out of every resource array."""
        self.held = self.held[:, used]

    def open_count(self, index: int) -> int:
        """Return how many live jobs a queue has."""
        return int(self.queued_count[index] + self.leased_count[index])

    def drop(self, queue_id: int) -> None:
        """Forget a queue without live jobs."""
        index = self.ids.drop(queue_id)
        self.deleted.discard(queue_id)
        self.queue_id[index] = 0
        self.weight[index] = 0.0
        self.flow[index] = self.non_preemptible_flow[index] = 0.0
        del self.names[index], self.orders[index]
        self.limits.pop(index, None)
        self.lease_paid_s.pop(index, None)
        self.preempts_unexpired.discard(index)
        self.preempts_endless.discard(index)
        self.branches.forget(index)
        self.branches.arrange(self.names, self.flow)

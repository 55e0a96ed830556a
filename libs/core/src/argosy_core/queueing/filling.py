"""Progressive filling: which queued jobs become pending, and in what order.

The rule is a loop: of all queues with work, take the one whose flow divided by weight would be smallest if its head
were scheduled (ties: smaller queue id), move that head, repeat until the stop rule holds. Flow if scheduled is the flow
formula at this moment with the job in the usage: `max(flow, usage + job)`.

Within one queue that key never falls from one job to the next, so the loop is a merge of sorted sequences, and the
order it gives is that of one stable sort by (key, queue id) over the jobs at the heads. That is how it is computed
here: with the same arithmetic per job as the loop, so with the same result, whether jobs are identical or not.

Source: 003 "Global prioritisation"; design section 6, "filling".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.queueing.usage import to_cores

__all__ = ["Filled", "FillingQueues", "StopRule", "fill", "flow_keys"]

_FIRST_CHUNK: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class FillingQueues:
    """Queues with work that may be moved; q queues, in any order. None of them is cordoned."""

    queue_id: npt.NDArray[np.int64]
    """Ids; they decide ties."""
    weight: npt.NDArray[np.float64]
    """Weights; queues of weight 0 come after all others."""
    flow: npt.NDArray[np.float64]
    """Flows brought up to this moment, cores."""
    usage: npt.NDArray[np.int64]
    """Usage of pending, leased and running jobs, micro-cores."""
    heads: Callable[[int, int], tuple[npt.NDArray[np.int32], bool]]
    """(position here, count) -> the first jobs of the queue in order, and whether these are all it has."""
    job_usage: Callable[[npt.NDArray[np.int32]], npt.NDArray[np.int64]]
    """Usage of jobs, micro-cores, 0 or more."""
    is_blocked: Callable[[npt.NDArray[np.int32]], npt.NDArray[np.bool_]]
    """Which jobs are of a class that fits nowhere now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRule:
    """When filling ends; checked before each job.

    Jobs of blocked classes do not count, so that they cannot keep back work that fits; whoever gives the heads bounds
    them.
    """

    pending_count: int
    """Pending jobs so far, blocked ones not counted."""
    pending_usage: int
    """Their usage, micro-cores."""
    usage_limit: int
    """Filling ends when pending usage is above this, micro-cores, and ..."""
    min_count: int
    """... at least so many jobs are pending."""
    max_pending: int
    """Filling ends at so many pending jobs, blocked ones not counted."""

    def stop(self, usage: npt.NDArray[np.int64], blocked: npt.NDArray[np.bool_]) -> int:
        """Return how many of the given jobs, in order, move before filling ends.

        Args:
            usage: int64[n] usage of the jobs, micro-cores.
            blocked: bool[n] jobs of blocked classes.
        """
        before = np.arange(usage.size)
        blocked_before: npt.NDArray[np.int64] = np.cumsum(blocked) - blocked
        counted = np.where(blocked, 0, usage)
        usage_before = np.cumsum(counted) - counted
        free_before = self.pending_count + before - blocked_before
        ended = (self.pending_usage + usage_before > self.usage_limit) & (free_before >= self.min_count)
        ended |= free_before >= self.max_pending
        return int(np.argmax(ended)) if ended.any() else int(usage.size)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """Jobs that become pending."""

    slots: npt.NDArray[np.int32]
    """The jobs in order."""
    rows: npt.NDArray[np.int64]
    """Position of each job's queue among the queues given."""
    usage: npt.NDArray[np.int64]
    """Usage of each job, micro-cores."""


def flow_keys(
    flow: npt.NDArray[np.float64] | float, usage_after: npt.NDArray[np.int64], weight: npt.NDArray[np.float64] | float
) -> npt.NDArray[np.float64]:
    """Return flow divided by weight if scheduled; for weight 0, the flow itself.

    Args:
        flow: Flow of the queue now, cores.
        usage_after: Usage of the queue with the job, micro-cores.
        weight: Weight of the queue.
    """
    flow_after = np.maximum(flow, to_cores(usage_after))
    divisor = np.where(np.asarray(weight) > 0, weight, 1.0)
    return np.asarray(flow_after / divisor, dtype=np.float64)


class _Window:
    """The jobs at the heads of all queues, as far as they were looked at."""

    def __init__(self, queues: FillingQueues) -> None:
        """Look at nothing yet."""
        self._queues = queues
        count = queues.queue_id.size
        self._parts: list[npt.NDArray[np.int32]] = [np.zeros(0, dtype=np.int32)] * count
        self._exhausted = np.zeros(count, dtype=np.bool_)
        # Ties go by queue id: the rank stands for it and is dense.
        self._rank = np.empty(count, dtype=np.int64)
        self._rank[np.argsort(queues.queue_id, kind="stable")] = np.arange(count)

    def widen(self, rows: npt.NDArray[np.int64], count: int) -> None:
        """Look at the first `count` jobs of some queues."""
        for row in rows.tolist():
            self._parts[row], self._exhausted[row] = self._queues.heads(row, count)

    def merge(self) -> tuple[Filled, int, npt.NDArray[np.int64]]:
        """Return all jobs seen in filling order, how many of them are certain, and which queues limit that.

        A job seen is certain if no job not yet seen can come before it.
        """
        queues = self._queues
        sizes = np.array([part.size for part in self._parts], dtype=np.int64)
        slots = np.concatenate(self._parts) if self._parts else np.zeros(0, dtype=np.int32)
        rows = np.repeat(np.arange(sizes.size), sizes)
        usage = queues.job_usage(slots)
        ends = np.cumsum(sizes)
        running = np.cumsum(usage)
        before = np.concatenate([[0], running])[ends - sizes]
        after = queues.usage[rows] + running - before[rows]
        keys = flow_keys(queues.flow[rows], after, queues.weight[rows])
        zero = queues.weight[rows] <= 0
        order = np.lexsort((self._rank[rows], keys, zero))
        limits = np.flatnonzero(~self._exhausted)
        certain = slots.size
        if limits.size:
            # The last job seen of a queue with more to come is certain, what stands behind it is not.
            position = np.empty(slots.size, dtype=np.int64)
            position[order] = np.arange(slots.size)
            certain = int(position[ends[limits] - 1].min()) + 1
        return Filled(slots=slots[order], rows=rows[order], usage=usage[order]), certain, limits


def fill(queues: FillingQueues, rule: StopRule) -> Filled:
    """Return the jobs that become pending, in order; nothing is changed.

    Exactly the jobs, in exactly the order, that the one-by-one rule gives.

    Args:
        queues: Queues with work.
        rule: When to stop.

    Complexity: O(k log k) in NumPy for k jobs looked at, at most twice as many per queue as it contributes and 32, plus
    one call per queue and doubling.

    Source: 003 "Global prioritisation".
    """
    nothing = np.zeros(0, dtype=np.int64)
    if queues.queue_id.size == 0 or rule.stop(np.ones(1, dtype=np.int64), np.zeros(1, dtype=np.bool_)) == 0:
        return Filled(slots=np.zeros(0, dtype=np.int32), rows=nothing, usage=nothing)
    window = _Window(queues)
    count = _FIRST_CHUNK
    window.widen(np.arange(queues.queue_id.size), count)
    while True:
        seen, certain, limits = window.merge()
        moved = rule.stop(seen.usage, queues.is_blocked(seen.slots))
        # Moving all that was seen is no end while there is more to see.
        if moved <= certain and (moved < seen.slots.size or not limits.size):
            return Filled(slots=seen.slots[:moved], rows=seen.rows[:moved], usage=seen.usage[:moved])
        count *= 2
        window.widen(limits, count)

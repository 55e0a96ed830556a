"""The first step of a round: jobs move from their queues to the pending order.

A queue gives its jobs strictly in order, so a job that fits nowhere now stands before the others of its queue. That is
bounded twice: a queue has at most `max_blocked_per_queue` such jobs pending, then it waits; and a class whose pending
jobs have found no candidate for `park_after_s` is *parked*: its pending jobs stay and are asked for as before, its
queued jobs are passed over, and come back to their places as soon as a sampler answers a candidate for the class. So
jobs that fit nowhere cannot keep others from running for ever, and other queues not at all.

Source: 003 "Global prioritisation"; design section 7, invariant 4.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.job.live import PARKED, PENDING
from argosy_core.queueing import FillingQueues, QueueOrder, StopRule, fill, to_cores
from argosy_core.scheduler.messages import Bools, Int32s
from argosy_core.scheduler.state import PoolState

__all__ = ["move_to_pending", "unpark"]

_PARKING_CHUNK: Final = 4096


def move_to_pending(state: PoolState, blocked: Bools, now_s: float) -> int:
    """Move jobs to the end of the pending order by progressive filling; return how many.

    Args:
        state: The pool, its flows brought up to now.
        blocked: By class index, which classes fit nowhere now.
        now_s: Now.

    Complexity: as `queueing.fill`; parking costs one look per job and time that its class gets stuck.
    """
    live, queues, settings = state.live, state.queues, state.settings
    parked = _watch_stuck(state, blocked, now_s)
    end = queues.ids.end
    rows = np.flatnonzero((queues.queued_count[:end] > 0) & ~queues.cordoned[:end])
    is_blocked = blocked[live.class_index[state.pending]]
    counted = state.pending[~is_blocked]
    blocked_counts = np.bincount(live.queue[state.pending[is_blocked]], minlength=end)[rows].tolist()
    orders = [queues.orders[row] for row in rows.tolist()]

    def heads(row: int, count: int) -> tuple[Int32s, bool]:
        slots, all_of_them = _waiting(state, orders[row], count, parked)
        stop = _room_for_blocked(blocked[live.class_index[slots]], settings.max_blocked_per_queue - blocked_counts[row])
        return slots[:stop], all_of_them or stop < slots.size

    filled = fill(
        FillingQueues(
            queue_id=queues.queue_id[rows],
            weight=queues.weight[rows],
            flow=queues.flow[rows],
            usage=queues.usage[rows],
            heads=heads,
            job_usage=state.job_usage,
            is_blocked=lambda slots: blocked[live.class_index[slots]],
        ),
        StopRule(
            pending_count=int(counted.size),
            pending_usage=int(state.job_usage(counted).sum()),
            usage_limit=int((1.0 + settings.look_ahead_ratio) * state.free_usage()),
            min_count=settings.look_ahead_min_count,
            max_pending=settings.max_pending,
        ),
    )
    if filled.slots.size:
        state.count_queued(filled.slots, -1)
        live.flags[filled.slots] |= PENDING
        state.count_pending(filled.slots, 1)
        state.pending = np.concatenate([state.pending, filled.slots])
        queues.flow = np.maximum(queues.flow, to_cores(queues.usage))
    return int(filled.slots.size)


def _room_for_blocked(blocked: Bools, room: int) -> int:
    """Return how many of some heads may be taken so that not more than `room` of them are blocked."""
    rows = np.flatnonzero(blocked)
    allowed = max(room, 0)
    return int(blocked.size if rows.size <= allowed else rows[allowed])


def _waiting(state: PoolState, order: QueueOrder, count: int, parked: Bools) -> tuple[Int32s, bool]:
    """Return the first jobs of a queue that are not of a parked class; park those that are."""
    while True:
        slots, all_of_them = order.heads(count)
        classes = state.live.class_index[slots]
        away = parked[classes]
        if not away.any():
            return slots, all_of_them
        state.live.flags[slots[away]] |= PARKED
        for index in np.unique(classes[away]).tolist():
            handles = state.live.handle[slots[classes == index]]
            state.parked.setdefault(index, []).append(handles)
        count = max(count, _PARKING_CHUNK) if away.all() else count


def _watch_stuck(state: PoolState, blocked: Bools, now_s: float) -> Bools:
    """Note since when classes have been stuck; return by class index which are parked."""
    classes = state.classes
    end = classes.ids.end
    since = classes.stuck_since_s
    present = np.bincount(state.live.class_index[state.pending], minlength=end) > 0
    newly = np.flatnonzero(blocked & present & np.isinf(since[:end]))
    since[newly] = now_s
    # A class is asked for only through its pending jobs: without one, nothing could ever bring it back.
    unpark(state, np.flatnonzero(~present & ~np.isinf(since[:end])))
    return since[:end] <= now_s - state.settings.park_after_s


def unpark(state: PoolState, classes: npt.NDArray[np.integer]) -> None:
    """Let the queued jobs of classes take part again, at their places.

    Args:
        state: The pool.
        classes: Class indices; those that are not stuck are left alone.
    """
    state.classes.stuck_since_s[classes] = np.inf
    if not state.parked:
        return
    for index in classes.tolist():
        parts = state.parked.pop(index, None)
        if parts is not None:
            slots = state.live.slots(np.concatenate(parts))
            slots = np.unique(slots[slots >= 0])
            slots = slots[(state.live.flags[slots] & PARKED) != 0]
            state.live.flags[slots] &= np.uint8(0xFF ^ PARKED)
            state.push_queued(slots[state.stage_is_queued(slots)])

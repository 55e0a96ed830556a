"""Which job of a queue that is next and has no room is its waiting head, and so is promised a start.

Emptying a node costs what stands idle meanwhile. A large job pays for that, a small one finds room by itself: so of the
first `promise_choice` jobs of the queue in `promise_order` the largest is chosen. With a choice of one in the queue's
own order, the default, it is just the next one.

Urgency comes before both: only jobs of the highest priority among them are compared. In an order by area or response
ratio, whoever has waited longer than the age bound stands in front, oldest first.

Source: design section 5, "Round" 5; decision 0017.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from argosy_core.arrays import Bools, Float64s, Int32s, Int64s, are_among, has_true, true_places
from argosy_core.backfill import SMALLEST_AREA, OrderPolicy, choose_head
from argosy_core.framework import Point
from argosy_core.job.tables.live import BACKING_OFF, HELD
from argosy_core.scheduler.memory.state import PoolState
from argosy_core.scheduler.memory.work_ends import expected_run_time_s
from argosy_core.scheduler.settings import PromiseOrder
from argosy_core.scheduler.turns.limits import heads_within

__all__ = ["choose_of", "find_turn"]

_HEAD_VIEW: Final = 1
_MOST_COMPARED: Final = 1024
"""Jobs of a queue that are compared, the first ones in its order."""
_ORDERS: Final[Mapping[str, OrderPolicy]] = {
    PromiseOrder.SMALLEST_AREA: SMALLEST_AREA,
    PromiseOrder.RESPONSE_RATIO: OrderPolicy(wait_exponent=1.0, run_time_exponent=1.0),
}


def choose_of(state: PoolState, row: int, wanted: Bools, taken: list[int]) -> Int32s:
    """Return the job of a queue that is its next waiting head, (1,) slots; none if no wanted job waits there.

    Args:
        state: The pool.
        row: Index of the queue.
        wanted: By class index, of which classes it may be.
        taken: Jobs of the queue that are heads already, or are promised a start.

    Complexity: as `heads_within` for the jobs taken and one more where heads are just the next ones; else for 1,024
    jobs, and O(1,024 log 1,024) in NumPy.
    """
    settings = state.settings
    is_next = settings.promise_choice == 1 and settings.promise_order == PromiseOrder.QUEUE
    count = 1 + len(taken) if is_next else _MOST_COMPARED + len(taken)
    slots, _ = heads_within(state, row, count, wanted, view=_HEAD_VIEW)
    left = slots[~are_among(slots, np.array(taken))] if taken else slots
    if is_next or left.size < 2 or state.decision_profile.framework.has(Point.QUEUE_SORT):
        return left[:1]
    return _choose(state, left)


def find_turn(state: PoolState, row: int, classes: Bools, free: Int64s) -> tuple[int, Int32s]:
    """Return whose turn a node of a queue is: the slot of a job that has no room there, -1 if all have, and all before.

    In the order of promises jobs take what is free on the node until one finds no room. Of that one and those behind
    it, the largest of the first `promise_choice` that have no room is chosen. Jobs that are heads already or are
    promised a start are among them.

    Args:
        state: The pool.
        row: Index of the queue.
        classes: By class index, which classes only this node may hold.
        free: (r,) what is free on the node, base units.

    Returns:
        The job, and the jobs that have their turn before it and find room.

    Complexity: O(1,024 log 1,024) in NumPy.
    """
    live, choice = state.live, state.settings.promise_choice
    slots, _ = heads_within(state, row, _MOST_COMPARED, None, view=_HEAD_VIEW)
    slots = slots[((live.flags[slots] & (BACKING_OFF | HELD)) == 0) & classes[live.class_index[slots]]]
    if not slots.size:
        return -1, slots
    slots, usage = _in_order(state, slots)
    demand = state.classes.requests[live.class_index[slots], : free.size]
    taken = np.cumsum(demand, axis=0)
    lacks: Bools = np.any(taken > free, axis=1)
    if not has_true(lacks):
        return -1, slots
    stopped = int(np.argmax(lacks))
    left_free = free - (taken[stopped - 1] if stopped else 0)
    has_no_room: Bools = np.any(demand[stopped : stopped + choice + 1] > left_free, axis=1)
    behind = stopped + true_places(has_no_room)
    return int(slots[behind[choose_head(usage[behind], choice)]]), slots[:stopped]


def _in_order(state: PoolState, slots: Int32s) -> tuple[Int32s, Float64s]:
    """Return the most urgent of some jobs of a queue in the order of promises, and their usages."""
    live, settings = state.live, state.settings
    slots = slots[live.priority[slots] == live.priority[slots].max()]
    usage = np.maximum(state.job_usage(slots), 1).astype(np.float64)
    if settings.promise_order != PromiseOrder.QUEUE:
        wait_s = np.maximum(state.flow_time_s - live.submit_time_us[slots] / 1e6, 0.0)
        order = replace(_ORDERS[settings.promise_order], age_bound_s=settings.age_bound_s)
        chosen = order.order(wait_s, expected_run_time_s(state, slots), usage)
        slots, usage = slots[chosen], usage[chosen]
    return slots, usage


def _choose(state: PoolState, slots: Int32s) -> Int32s:
    """Return the largest of the first jobs in order of those that are most urgent."""
    slots, usage = _in_order(state, slots)
    at = choose_head(usage, state.settings.promise_choice)
    return slots[at : at + 1]

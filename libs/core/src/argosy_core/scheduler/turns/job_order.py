"""In which order jobs of a queue that are equally urgent stand: by submission, or the smallest area first.

The area of a job is its usage times how long it is expected to run. Whoever has waited longer than the age bound stands
in front of all who have not, oldest first: so nobody waits for ever while small jobs come. Priorities come before both,
and between queues flow decides as ever.

Source: design section 5, "Round" 5; decision 0017, "Order".
"""

from __future__ import annotations

import math

import numpy as np

from argosy_core.arrays import Int32s, Int64s
from argosy_core.scheduler.memory.state import PoolState
from argosy_core.scheduler.memory.work_ends import expected_run_time_s
from argosy_core.scheduler.settings import JobOrder

__all__ = ["area_keys", "keep_order"]

_MOST_AREA = float(1 << 62)


def area_keys(state: PoolState, slots: Int32s) -> Int64s:
    """Return (n, 3) keys of jobs: priority, whether they are within the age bound, and their areas.

    What is expected of a job is taken as it is now; it keeps its place when more is learned.
    """
    live = state.live
    is_young = live.submit_time_us[slots] > state.queues.aged_until_us
    area = np.minimum(state.job_usage(slots) * expected_run_time_s(state, slots), _MOST_AREA)
    return np.stack(
        [~live.priority[slots].astype(np.int64), is_young, np.where(is_young, area, 0).astype(np.int64)], axis=1
    )


def keep_order(state: PoolState, now_s: float) -> None:
    """Have waiting jobs stand as the settings say now; flows and shares are not touched.

    Args:
        state: The pool, before a round.
        now_s: Now.

    Complexity: nothing for submit order; else O(jobs) in NumPy, and a push of each job that passes the age bound, or of
    every waiting one when the order changes.
    """
    live, settings = state.live, state.settings
    wanted = area_keys if settings.job_order == JobOrder.SMALLEST_AREA else None
    if wanted is None and state.queues.job_keys is None:
        return
    until_us = math.floor((now_s - settings.age_bound_s) * 1e6)
    slots = live.live_slots()
    slots = slots[state.stage_is_queued(slots)]
    if state.queues.job_keys is not wanted:
        state.queues.job_keys, state.queues.aged_until_us = wanted, until_us
        for row in state.queues.orders:
            state.queues.orders[row] = state.make_order()
    else:
        submit_us = live.submit_time_us[slots]
        slots = slots[(submit_us > state.queues.aged_until_us) & (submit_us <= until_us)]
        state.queues.aged_until_us = max(until_us, state.queues.aged_until_us)
    if slots.size:
        state.push_queued(slots)

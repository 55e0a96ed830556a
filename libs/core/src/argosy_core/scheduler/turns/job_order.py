"""In which order jobs of a queue that are equally urgent stand: by submission, with a lead by size, or by area.

The area of a job is its usage times how long it is expected to run. Whoever has waited longer than the age bound stands
in front of all who have not, oldest first: so nobody waits for ever while small jobs come. Priorities come before both,
and between queues flow decides as ever.

With a lead by size a job counts as submitted earlier by so much for each doubling of its usage. That moves it by no
more than the lead times the doublings between the smallest job and the largest.

Source: design section 5, "Round" 5; decision 0017, "Order".
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from argosy_core.arrays import Int32s, Int64s
from argosy_core.scheduler.memory.state import PoolState
from argosy_core.scheduler.memory.work_ends import expected_run_time_s
from argosy_core.scheduler.settings import JobOrder, RoundSettings

__all__ = ["area_keys", "keep_order", "lead_keys"]

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


def lead_keys(state: PoolState, slots: Int32s) -> Int64s:
    """Return (n, 2) keys of jobs: priority, and when they count as submitted, microseconds since the Unix epoch.

    The lead is that of the settings as they are now; a job keeps its place when its usage is weighed otherwise later.
    """
    live = state.live
    doublings = np.log2(np.maximum(state.job_usage(slots), 1))
    lead_us = np.minimum(1e6 * state.settings.size_lead_s * doublings, _MOST_AREA).astype(np.int64)
    return np.stack([~live.priority[slots].astype(np.int64), live.submit_time_us[slots] - lead_us], axis=1)


def _wanted_keys(settings: RoundSettings) -> Callable[[PoolState, Int32s], Int64s] | None:
    """Return the keys by which jobs stand by the settings; None where submit order is all there is to it."""
    if settings.job_order == JobOrder.SMALLEST_AREA:
        return area_keys
    return lead_keys if settings.size_lead_s else None


def keep_order(state: PoolState, now_s: float) -> None:
    """Have waiting jobs stand as the settings say now; flows and shares are not touched.

    Args:
        state: The pool, before a round.
        now_s: Now.

    Complexity: nothing for submit order, with a lead or without; else O(jobs) in NumPy, and a push of each job that
    passes the age bound, or of every waiting one when the order changes.
    """
    live, settings = state.live, state.settings
    wanted, queues = _wanted_keys(settings), state.queues
    is_kept = queues.job_keys is wanted and queues.lead_s == settings.size_lead_s
    if (wanted is None and queues.job_keys is None) or (is_kept and wanted is lead_keys):
        return
    until_us = math.floor((now_s - settings.age_bound_s) * 1e6)
    slots = live.live_slots()
    slots = slots[state.stage_is_queued(slots)]
    if is_kept:
        submit_us = live.submit_time_us[slots]
        slots = slots[(submit_us > queues.aged_until_us) & (submit_us <= until_us)]
        queues.aged_until_us = max(until_us, queues.aged_until_us)
    else:
        queues.job_keys, queues.lead_s, queues.aged_until_us = wanted, settings.size_lead_s, until_us
        for row in queues.orders:
            queues.orders[row] = state.make_order()
    if slots.size:
        state.push_queued(slots)

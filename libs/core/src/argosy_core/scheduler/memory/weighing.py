"""Weights of resources move with the capacity, and everything that was weighed follows them.

Source: 003 "Resource usage".
"""

from __future__ import annotations

import numpy as np

from argosy_core.job.tables.live import ON_HOLD
from argosy_core.queueing import to_cores
from argosy_core.scheduler.memory.extras import preemptible_part
from argosy_core.scheduler.memory.flows import counted_usage, non_preemptible_flow, non_preemptible_usage
from argosy_core.scheduler.memory.state import PoolState

__all__ = ["advance_weights", "weigh_again"]


def advance_weights(state: PoolState, now_s: float) -> None:
    """Move the weights of resources up to a moment; the flows must be right for it (`advance_flows`).

    Args:
        state: The pool, without a round, whose jobs are weighed already.
        now_s: Now.

    Complexity: next to nothing while the weights stay; else as `weigh_again`, at most once in a step of them.
    """
    weights = state.weights
    if weights.is_found:
        totals = state.classes.axis.amounts(state.clusters.total.sum(axis=0))
        if weights.advance(totals, now_s, is_idle=not state.queues.leased_count.any()):
            weigh_again(state)


def weigh_again(state: PoolState) -> None:
    """Give every job and queue the usage that the present weights say; what a flow is above its usage stays.

    Complexity: O(live jobs + classes) in NumPy.
    """
    live, queues = state.live, state.queues
    branches, usage_before = queues.branches, to_cores(counted_usage(state))
    above = np.maximum(queues.flow - usage_before, 0.0)
    lasting_above = np.maximum(non_preemptible_flow(state) - non_preemptible_usage(state, usage_before), 0.0)
    branch_above = np.maximum(branches.flow - branches.sum_below(usage_before), 0.0) if branches else above
    state.classes.weigh_again()
    state.demands.usage = state.classes.weigh(state.demands.permitted)
    slots = live.live_slots()
    usage, queued = state.job_usage(slots), state.stage_is_queued(slots)
    wanted = queued & ((live.flags[slots] & ON_HOLD) == 0)
    part = preemptible_part(live, state.classes, slots, usage)
    for column, rows, amounts in (
        (queues.queued_usage, wanted, usage),
        (queues.usage, ~queued, usage),
        (queues.preemptible_usage, ~queued, part),
    ):
        column[:] = 0
        np.add.at(column, live.queue[slots[rows]], amounts[rows])
    usage_now = to_cores(counted_usage(state))
    queues.flow = usage_now + above
    if state.room.has_lifetimes:
        queues.non_preemptible_flow = non_preemptible_usage(state, usage_now) + lasting_above
    if branches:
        branches.flow = branches.sum_below(usage_now) + branch_above
    queues.idle_at[:] = -1
    state.change_count += 1

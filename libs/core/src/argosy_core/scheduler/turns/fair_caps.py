"""What fair shares make of the queues' caps and budgets: how much they are, and what is charged to them.

The flow of a queue's jobs without a lifetime stays below a cap; a job with a lifetime that begins beyond the share is
charged to the queue's excess flow budget until it leaves. Whom that holds back `limits` says.

Source: 003 "Fair share", "Scheduling constraints"; design section 5, "Round" 5.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import numpy as np

from argosy_core.arrays import Float64s, Int32s, Int64s, has_true, true_places
from argosy_core.queueing import MICRO, to_cores, weigh_vector
from argosy_core.scheduler.memory.caps import MOST, Caps
from argosy_core.scheduler.memory.flows import non_preemptible_flow
from argosy_core.scheduler.memory.state import PoolState

__all__ = ["caps_due_s", "charge_starts", "charges_core_s", "fair_ratios", "find_caps"]

_NOBODY: Final = np.zeros(0, dtype=np.int32)
_LEAST_DELAY_S: Final = 1.0
"""How soon at the earliest it is looked again whether a flow has fallen."""


def fair_ratios(state: PoolState) -> Float64s:
    """Return the fair share of each queue, of 1, with all that stands below it; all queues that there are count."""
    queues, branches = state.queues, state.queues.branches
    weight_sum = float(queues.weight.sum())
    if not branches:
        return queues.weight / weight_sum if weight_sum else queues.weight
    ratio = np.zeros(queues.weight.size)
    beside = np.bincount(branches.above + 1, queues.weight, queues.weight.size + 1)
    beside[1:] += branches.is_parent()  # the queue's own jobs
    for rows in [true_places(branches.above < 0), *branches.levels()]:
        above = branches.above[rows]
        share = np.where(above >= 0, ratio[above], 1.0) * queues.weight[rows]
        ratio[rows] = np.divide(share, beside[above + 1], out=np.zeros(rows.size), where=beside[above + 1] > 0)
    return ratio


def find_caps(state: PoolState) -> Caps:
    """Return the caps of all queues as the capacity and the weights are now.

    Complexity: O(queues) in NumPy; most of it only where the capacity, weights or the queues have changed.
    """
    queues = state.queues
    basis = _find_basis(state)
    lasting = queues.usage - queues.preemptible_usage + queues.queued_usage
    # Nobody holds more than there is: where that alone is in the way, jobs wait for room, and may be promised some.
    most = basis.most_non_preemptible
    binds = (np.maximum(non_preemptible_flow(state) * MICRO, lasting) > most) & (most < basis.capacity)
    if state.room.has_lifetimes:
        binds |= np.maximum(queues.flow * MICRO, queues.usage + queues.queued_usage) > basis.share
    reserved = _NOBODY
    if state.room.nominated or state.promises.keep_nodes:
        reserved = state.live.slots(np.array([*state.room.nominated, *state.promises.handles], dtype=np.int64))
        reserved = np.unique(reserved[reserved >= 0])
        reserved = reserved[state.stage_is_queued(reserved)]
    least_usage = _least_usage(state) if has_true(binds) else 0
    return replace(basis, least_usage=least_usage, binds=binds, reserved=reserved, due_s=math.inf)


def _find_basis(state: PoolState) -> Caps:
    """Return caps of which that is right which follows from capacity, weights and queues; the last ones if they do."""
    queues, settings, clusters = state.queues, state.settings, state.clusters
    names, weights, branches = state.classes.axis.names, state.weights.values, state.queues.branches
    key = (
        queues.weight.tobytes(),
        branches.above.tobytes() if branches else b"",
        clusters.total.tobytes(),
        tuple(clusters.forgotten),
        names,
        tuple(weights.items()),
        settings.non_preemptible_excess_ratio,
        settings.excess_budget_min,
    )
    if state.caps.key == key:
        return state.caps
    ratio = fair_ratios(state)
    if branches:
        own = branches.is_parent()  # its own jobs stand beside its children, with weight 1
        beside = 1.0 + np.bincount(branches.above + 1, queues.weight, queues.weight.size + 1)[1:]
        ratio = np.where(own, ratio / beside, ratio)
    # Clusters to which nothing is given now count, since their runs do.
    total: Int64s = np.delete(clusters.total, list(clusters.forgotten), axis=0).sum(axis=0)
    capacity = weigh_vector(total, names, weights)
    share = ratio * capacity
    return Caps(
        key=key,
        share=share,
        most_non_preemptible=share * (1.0 + settings.non_preemptible_excess_ratio),
        capacity=capacity,
        budget_core_s=to_cores(share.astype(np.int64)) * settings.excess_budget_min * 60.0,
    )


def _least_usage(state: PoolState) -> int:
    """Return what each waiting job counts at least, micro-cores; 0 where that is not known without a look at each."""
    waiting = state.classes.usage[: state.classes.ids.end][state.classes.waiting_count[: state.classes.ids.end] > 0]
    return 0 if len(state.demands) else int(waiting.min(initial=MOST))


def caps_due_s(state: PoolState, now_s: float) -> float:
    """Return when the flow of a queue that is above what it may be has fallen to that; infinite if none will.

    Args:
        state: The pool; its flows are right for `now_s`.
        now_s: Now.
    """
    queues, caps = state.queues, state.caps
    if not has_true(caps.binds):
        return math.inf
    end = min(queues.ids.end, caps.share.size)
    waits = queues.queued_count[:end] > queues.on_hold_count[:end]
    kinds = [(non_preemptible_flow(state), queues.usage - queues.preemptible_usage, caps.most_non_preemptible)]
    if state.room.has_lifetimes:
        kinds.append((queues.flow, queues.usage, caps.share))
    due_s = math.inf
    for flow, usage, most in kinds:
        held, bound = to_cores(usage[:end]), most[:end] / MICRO
        rows = true_places(waits & (flow[:end] * MICRO > most[:end] + 1) & (held < bound))
        if rows.size:
            halvings = np.log2((flow[rows] - held[rows]) / (bound[rows] - held[rows]))
            due_s = min(due_s, float(halvings.min()) * state.settings.half_time_s)
    return now_s + max(due_s, _LEAST_DELAY_S)


def charges_core_s(state: PoolState, slots: Int32s) -> Int64s:
    """Return what jobs cost if they begin beyond the shares of their queues, core-seconds; 0 without a lifetime."""
    live = state.live
    lifetime_s = live.lifetime_s[slots].astype(np.float64)
    safe_s = np.maximum(lifetime_s, state.settings.minimum_run_s)
    limit_s = live.time_limit_s[slots]
    safe_s = np.where(limit_s >= 0, np.minimum(safe_s, limit_s), safe_s)
    core_s = np.ceil(to_cores(state.job_usage(slots)) * safe_s)
    return np.where(lifetime_s >= 0, np.minimum(core_s, MOST), 0).astype(np.int64)


def charge_starts(state: PoolState, slots: Int32s, flow: Float64s) -> None:
    """Charge the runs that a round begins to the budgets of their queues, as far as they begin beyond the shares.

    Args:
        state: The pool, in which they count already.
        slots: Their jobs, each once, in the order of their turns.
        flow: Flow of each queue before the round, cores.
    """
    charges = charges_core_s(state, slots) if state.room.has_lifetimes else np.zeros(0, dtype=np.int64)
    if not has_true(charges):
        return
    live, caps = state.live, state.caps
    by_queue = np.argsort(live.queue[slots], kind="stable")
    slots, charges = slots[by_queue], charges[by_queue]
    rows, usage = live.queue[slots], state.job_usage(slots)
    begun = np.zeros(state.queues.usage.size, dtype=np.int64)
    np.add.at(begun, rows, usage)
    running = np.cumsum(usage)
    before = np.concatenate([[0], running])[np.searchsorted(rows, rows)]
    after = (state.queues.usage - begun)[rows] + running - before
    known = rows < min(caps.share.size, flow.size)
    at = np.where(known, rows, 0)
    beyond = known & (np.maximum(flow[at] * MICRO, after) > caps.share[at] + 1)
    state.charge(slots[beyond], charges[beyond])

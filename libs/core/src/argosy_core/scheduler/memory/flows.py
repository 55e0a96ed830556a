"""How usage becomes flow: what of the queues' usages counts, and how their flows follow it.

Owns how flows are brought to a moment, and what of usage counts for shares. May import the memory; the functions here
change flows and, where a job is permitted another amount, what its queue uses.

Source: 003 "Scheduler architecture"; design section 5.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import Int32s, Int64s, has_true, true_places
from argosy_core.errors import InvalidRequest
from argosy_core.job.tables.live import ON_HOLD
from argosy_core.queueing.flow import advance_flow
from argosy_core.queueing.usage import to_cores
from argosy_core.scheduler.memory.extras import preemptible_part
from argosy_core.scheduler.memory.state import PoolState

__all__ = [
    "advance_flows",
    "counted_usage",
    "left_slots",
    "non_preemptible_flow",
    "non_preemptible_usage",
    "note_lifetimes",
    "raise_flows",
    "set_demands",
]


def advance_flows(state: PoolState, now_s: float) -> None:
    """Bring the flows to a moment; called before usage changes, so that the tick does not matter."""
    queues = state.queues
    elapsed = now_s - state.flow_time_s if state.flow_time_s else 0.0
    usage, half_time_s = to_cores(counted_usage(state)), state.settings.half_time_s
    queues.flow = advance_flow(queues.flow, usage, elapsed_s=elapsed, half_time_s=half_time_s)
    if branches := queues.branches:
        below = branches.sum_below(usage)
        branches.flow = advance_flow(branches.flow, below, elapsed_s=elapsed, half_time_s=half_time_s)
    if state.room.has_lifetimes:
        lasting, usage = queues.non_preemptible_flow, non_preemptible_usage(state, usage)
        lasting = advance_flow(lasting, usage, elapsed_s=elapsed, half_time_s=half_time_s)
        queues.non_preemptible_flow = lasting
    state.flow_time_s = max(state.flow_time_s, now_s)


def raise_flows(state: PoolState) -> None:
    """Bring the flows up to the usages, after usages rose; a flow never lies below its usage."""
    usage = to_cores(counted_usage(state))
    state.queues.flow = np.maximum(state.queues.flow, usage)
    if branches := state.queues.branches:
        branches.flow = np.maximum(branches.flow, branches.sum_below(usage))
    if state.room.has_lifetimes:
        lasting = non_preemptible_usage(state, usage)
        state.queues.non_preemptible_flow = np.maximum(state.queues.non_preemptible_flow, lasting)


def non_preemptible_flow(state: PoolState) -> npt.NDArray[np.float64]:
    """Return the flow of each queue's jobs without a lifetime, by a recursion of its own, cores."""
    return state.queues.non_preemptible_flow if state.room.has_lifetimes else state.queues.flow


def non_preemptible_usage(state: PoolState, usage_cores: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the usage of jobs without a lifetime as it counts, of what each queue counts in all, cores."""
    return np.minimum(to_cores(state.queues.usage - state.queues.preemptible_usage), usage_cores)


def note_lifetimes(state: PoolState) -> None:
    """Keep the flow of jobs without a lifetime apart from now on; up to now there were no others."""
    if not state.room.has_lifetimes:
        state.room.has_lifetimes = True
        state.queues.non_preemptible_flow = state.queues.flow.copy()


def counted_usage(state: PoolState) -> Int64s:
    """Return the usage of each queue as it counts for shares, micro-cores.

    A sampler may give away what a run held before its executor has reported the end, and for that moment more is
    held here than there is. What is too much is ended runs, and a flow that took it in would remember it for long:
    so usages are scaled down to what the pool has. Runs that are seen to have left their nodes are not counted, nor
    what the last leader had heard the end of.
    """
    usage, held = state.queues.usage, state.queues.held
    if state.queues.overstated:
        usage = usage.copy()
        for row, excess in state.queues.overstated.items():
            usage[row] = max(int(usage[row]) - excess, 0)
    if state.promises.left:
        slots = left_slots(state)
        usage, held = usage.copy(), held.copy()
        np.subtract.at(usage, state.live.queue[slots], state.job_usage(slots))
        np.subtract.at(held, state.live.queue[slots], state.job_vectors(slots))
    clusters, names = state.clusters, state.classes.axis.names
    if not len(clusters) or np.count_nonzero(clusters.node_count) < clusters.node_count.size:
        return usage  # not every cluster has told what it has
    total, held = np.add.reduce(clusters.total), np.add.reduce(held)
    # What weighs nothing is in no usage, so there can be too much of it.
    over = [column for column in true_places(held > total) if state.weights.values.get(names[column])]
    if not over:
        return usage
    counted: Int64s = (usage * (total[over] / held[over]).min()).astype(np.int64)
    return counted


def left_slots(state: PoolState) -> Int32s:
    """Return the jobs whose runs are seen to have left their nodes, while their ends are still being reported."""
    slots = state.live.slots(np.array([*state.promises.left], dtype=np.int64))
    left: Int32s = slots[(slots >= 0) & ~state.stage_is_queued(slots)]
    return left


def set_demands(state: PoolState, slots: Int32s, requested: Int64s, permitted: Int64s) -> None:
    """Say what distinct jobs ask for and may hold; usage and free capacity follow at once.

    Bring the flows to now before (`advance_flows`), since usage changes.

    Args:
        state: The pool.
        slots: n jobs.
        requested: (n, resource) in axis order, base units.
        permitted: As `requested`; more than that if the run has grown. It lasts for the run; a job that waits again
            is permitted just what it asks for.

    Raises:
        InvalidRequest: An amount is negative; nothing has changed.
    """
    if has_true(permitted < 0) or has_true(requested < 0):
        raise InvalidRequest("nobody holds or asks for less than nothing")
    live, queued = state.live, state.stage_is_queued(slots)
    wanted = queued & ((live.flags[slots] & ON_HOLD) == 0)
    usage, vectors = state.job_usage(slots), state.job_vectors(slots)
    part = preemptible_part(live, state.classes, slots, usage)
    own = (requested != state.classes.requests[live.class_index[slots]]).any(axis=1)
    own |= (permitted != requested).any(axis=1)
    state.demands.drop(live.demand[slots])
    rows = state.demands.take_rows(int(own.sum()))
    live.demand[slots], live.demand[slots[own]] = -1, rows
    state.demands.requested[rows], state.demands.permitted[rows] = requested[own], permitted[own]
    state.demands.usage[rows] = state.classes.weigh(permitted[own])
    more = state.job_usage(slots) - usage
    np.add.at(state.queues.queued_usage, live.queue[slots[wanted]], more[wanted])
    np.add.at(state.queues.usage, live.queue[slots[~queued]], more[~queued])
    part = preemptible_part(live, state.classes, slots, usage + more) - part
    np.add.at(state.queues.preemptible_usage, live.queue[slots[~queued]], part[~queued])
    vectors = state.job_vectors(slots) - vectors
    np.add.at(state.queues.held, live.queue[slots[~queued]], vectors[~queued])
    placed = true_places(live.cluster[slots] >= 0)
    np.subtract.at(state.clusters.free, live.cluster[slots[placed]], vectors[placed])
    state.queues.idle_at[live.queue[slots]] = -1
    state.change_count += 1
    raise_flows(state)

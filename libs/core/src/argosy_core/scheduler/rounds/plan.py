"""What a round's plan says of the memory: leases as columns, runs to stop, and what the next leader needs.

Source: design section 5, "Round".
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from argosy_core.arrays import Int32s, has_true, true_places
from argosy_core.job.tables.interning import distinct
from argosy_core.job.tables.live import CANCEL_REQUESTED, IN_FLIGHT, STOP_SENT, TIMED_OUT
from argosy_core.job.tables.members import Members
from argosy_core.scheduler.backfill.promises import stored_promises
from argosy_core.scheduler.columns.messages import RoundStateColumns, ShrinkColumns
from argosy_core.scheduler.memory.state import PoolState
from argosy_core.scheduler.runs.preempting import are_preempted

__all__ = ["decide_stops", "lease_columns", "round_state", "time_out_runs"]

_NOBODY: Final = np.zeros(0, dtype=np.int32)


def lease_columns(state: PoolState, slots: Int32s) -> dict[str, Any]:
    """Return the columns of a plan that lease the placements of jobs in flight."""
    live = state.live
    held = live.live_members(slots)
    clusters, cluster = distinct(live.cluster[held.slot])
    nodes, node = state.clusters.node_names(live.cluster[held.slot], held.node)
    return {
        "handle": held.keys.handle,
        "attempt": held.keys.attempt,
        "member": held.keys.numbers(),
        "cluster": cluster.astype(np.int32),
        "node": node.astype(np.int32),
        "clusters": tuple(state.clusters.names[index] for index in clusters.tolist()),
        "nodes": tuple(nodes),
        "charge_core_s": charges if has_true(charges := live.charge_core_s[held.slot]) else None,
    }


def time_out_runs(state: PoolState, now_s: float) -> None:
    """Have the next round stop the runs that have reached their time limits; those that shall end anyway are left."""
    live, slots = state.live, state.time_limits.take_due(state.live, now_s)
    if not slots.size:
        return
    slots = slots[(live.flags[slots] & (CANCEL_REQUESTED | STOP_SENT)) == 0]
    live.flags[slots] |= TIMED_OUT
    state.unsent_stops.update(dict.fromkeys(live.handle[slots].tolist()))


def decide_stops(state: PoolState) -> Members:
    """Return the runs to stop now: those that shall end and are ingested; others wait for the next round."""
    live, extras = state.live, _decide_extras(state)
    if not state.unsent_stops:
        return extras
    handles = np.fromiter(state.unsent_stops, dtype=np.int64, count=len(state.unsent_stops))
    slots = live.slots(handles)
    ready = (slots >= 0) & ((live.flags[slots] & (IN_FLIGHT | STOP_SENT)) == 0) & (live.run_state[slots] > 0)
    ready &= ((live.flags[slots] & (CANCEL_REQUESTED | TIMED_OUT)) != 0) | are_preempted(state, slots)
    chosen = slots[ready]
    live.flags[chosen] |= STOP_SENT
    for handle in handles[ready | (slots < 0)].tolist():
        del state.unsent_stops[handle]
    held = live.live_members(chosen)
    # What is in flight to a run that ends comes to nothing.
    return Members.concatenate([held.take(held.state > 0).keys, extras]).distinct()


def _decide_extras(state: PoolState) -> Members:
    """Return the extras to stop now, each once; those of runs that have ended are forgotten."""
    keys = state.extras.unsent() if state.extras.stopping else []
    members = Members(*np.array(keys, dtype=np.int64).reshape(-1, 2).T) if keys else Members.of([], [])
    if not keys:
        return members
    live, slots = state.live, state.live.slots(members.handle)
    rows = np.where(slots >= 0, live.members.find(slots, members.member), -1)
    there = (rows >= 0) & (live.attempt[slots] == members.attempt)
    there[there] = live.members.state[rows[there]] > 0
    for key, is_there in zip(keys, there.tolist(), strict=True):
        if is_there:
            state.extras.stopping[key] = True
        else:
            del state.extras.stopping[key]
    return members[there]


def round_state(state: PoolState) -> RoundStateColumns:
    """Return what the next leader needs to continue: flows, failed attempts, and promised starts."""
    live, queues = state.live, state.queues
    branches = queues.branches
    has_flow = (queues.flow > 0) | (branches.flow > 0) if branches else queues.flow > 0
    has_lifetimes = state.room.has_lifetimes
    rows = true_places(has_flow & (queues.queue_id > 0))
    attempted = _NOBODY
    if state.attempted:
        attempted = live.slots(np.fromiter(state.attempted, dtype=np.int64, count=len(state.attempted)))
        attempted = attempted[attempted >= 0]
        attempted = attempted[state.stage_is_queued(attempted)]
    return RoundStateColumns(
        queue=queues.queue_id[rows],
        flow=queues.flow[rows],
        flow_time_us=round(state.flow_time_s * 1e6),
        attempted_handle=live.handle[attempted],
        failed_attempt=live.failed_attempts[attempted].astype(np.int32),
        branch_flow=branches.flow[rows] if branches else None,
        non_preemptible_flow=queues.non_preemptible_flow[rows] if has_lifetimes else None,
        weights=state.weights.store(),
        weight_time_us=round(state.weights.time_s * 1e6),
        promises=stored_promises(state),
        shrinks=state.extras.store(state.flow_time_s) if state.classes.elastic else ShrinkColumns(),
    )

"""A new leader's memory, and what reconnecting samplers and executors are told.

Source: design section 5, "Leader lost", "Sampler session", "Sync".
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from argosy_core.arrays import Float64s, Int32s, Int64s
from argosy_core.errors import InvariantViolation
from argosy_core.job.states import IS_RUN_TERMINAL, RUN_RANKS
from argosy_core.job.tables.interning import distinct
from argosy_core.job.tables.live import AWAITING, BACKING_OFF, CANCEL_REQUESTED, HELD, IN_FLIGHT, STOP_SENT
from argosy_core.job.tables.members import Members
from argosy_core.placement import Placements
from argosy_core.queueing import MICRO
from argosy_core.scheduler.backfill.promises import recover_promises
from argosy_core.scheduler.columns.codes import (
    EVENT_CANCELLED,
    JOB_CANCELLED,
    JOB_LEASED,
    JOB_RUNNING,
    OBJECT_SUCCEEDED,
    RUN_CREATED,
    RUN_FAILED,
    RUN_LEASED,
    RUN_RUNNING,
    RUN_UNKNOWN,
)
from argosy_core.scheduler.columns.messages import ClusterRuns, RoundStateColumns
from argosy_core.scheduler.columns.rows import job_ends
from argosy_core.scheduler.incoming.definitions import define_job_sets
from argosy_core.scheduler.incoming.ingest import executor_rows
from argosy_core.scheduler.incoming.intake import add_jobs
from argosy_core.scheduler.memory.flows import note_lifetimes, raise_flows
from argosy_core.scheduler.memory.held_amounts import take_held_amounts
from argosy_core.scheduler.memory.replacing import are_extras, may_be_added_to, note_vacancies
from argosy_core.scheduler.memory.results import BagFailure
from argosy_core.scheduler.memory.run_members import add_members, follow_members, run_states
from argosy_core.scheduler.memory.state import PoolState
from argosy_core.scheduler.memory.weighing import weigh_again
from argosy_core.scheduler.outgoing.effects import (
    AddedMembers,
    EndedMembers,
    LeasePlan,
    LoadedColumns,
    LoadedObjects,
    RecoverEffects,
    RowsMissing,
)
from argosy_core.scheduler.outgoing.events import EventBuffer
from argosy_core.scheduler.rounds.plan import time_out_runs
from argosy_core.scheduler.runs.preempting import recover_preempted
from argosy_core.scheduler.runs.progress import broken_runs
from argosy_core.scheduler.runs.retrying import back_off_s, run_back_off_s
from argosy_core.scheduler.runs.unheard import note_unheard
from argosy_core.scheduler.turns.growing import note_growth
from argosy_core.scheduler.turns.lease_rates import empty_buckets

__all__ = ["adopt_plan", "placements_of", "recover", "rows_missing"]


def recover(state: PoolState, loaded: LoadedColumns, now_s: float) -> RecoverEffects:
    """Build the memory of a new leader from what the database holds.

    Define classes, queues and clusters first. Before the first round take every row of `changes` that can be read: jobs
    among them that were loaded get their SUBMITTED event then.

    Args:
        state: A pool that holds no job.
        loaded: Open jobs, live runs, the last round state.
        now_s: Now.

    Raises:
        InvariantViolation: The pool holds jobs already.
        NotFound: A class, queue or job set is not defined; see `settle_missing`.

    Complexity: O(n log n) in NumPy, Python work per distinct spec, node and job set.
    """
    if len(state.live):
        raise InvariantViolation("recover was called on a pool that holds jobs")
    define_job_sets(state, loaded.job_sets, now_s)
    live = state.live
    slots = add_jobs(state, loaded.jobs, np.arange(loaded.jobs.handle.size, dtype=np.int32))
    live.attempt[slots], live.failures[slots] = loaded.last_attempt, loaded.failures
    asked = slots[loaded.cancel_requested == 1]
    live.flags[asked] |= CANCEL_REQUESTED
    run_count = _recover_runs(state, loaded)
    held = slots[live.run_state[slots] > 0]
    state.unsent_stops.update(dict.fromkeys(live.handle[asked[live.run_state[asked] > 0]].tolist()))
    _recover_objects(state, loaded.objects, now_s)
    if loaded.preempted is not None:
        recover_preempted(state, slots, loaded.preempted)
    time_out_runs(state, now_s)  # the last leader may have stopped them already
    over = asked[live.run_state[asked] == 0]
    events = EventBuffer(state, now_s)
    events.add(over, EVENT_CANCELLED, to_state=JOB_CANCELLED)
    updates = job_ends(live.handle[over], JOB_CANCELLED, round(now_s * 1e6), "")
    draft = events.draft()
    state.remove_jobs(over, JOB_CANCELLED)
    waiting = slots[live.handle[slots] >= 0]
    waiting = waiting[live.run_state[waiting] == 0]
    _recover_back_offs(state, loaded, now_s)
    note_unheard(state, held, now_s)
    state.push_queued(waiting[(live.flags[waiting] & BACKING_OFF) == 0])
    if loaded.round_state is not None:
        _recover_round_state(state, loaded.round_state, now_s)
    raise_flows(state)
    state.flow_time_s = state.flow_time_s or now_s
    empty_buckets(state, now_s)
    note_growth(state, now_s)
    return RecoverEffects(
        events=draft, job_updates=updates, job_count=int(slots.size - over.size), run_count=min(run_count, held.size)
    )


def _recover_runs(state: PoolState, loaded: LoadedColumns) -> int:
    """Give jobs their live runs; return how many."""
    live, runs = state.live, loaded.runs
    slots = live.slots(runs.handle)
    there = slots >= 0
    node_of = np.full(slots.size, -1, dtype=np.int32)
    clusters = np.array([state.clusters.add(name) for name in runs.clusters], dtype=np.int64)
    state.ensure_class_grid()
    for cluster in np.unique(runs.cluster[there]).tolist():
        index = int(clusters[cluster])
        rows = np.flatnonzero(there & (runs.cluster == cluster))
        nodes, which = distinct(runs.node[rows])
        names = state.clusters.nodes[index].intern([runs.nodes[node] for node in nodes.tolist()])
        live.cluster[slots[rows]] = index
        node_of[rows] = names[which]
    places = np.flatnonzero(there)
    # From behind, since the first member of a run stands for it.
    live.node[slots[places[::-1]]] = node_of[places[::-1]]
    live.attempt[slots[places]] = runs.attempt[places]
    held = slots[places] if runs.member is None else np.unique(slots[places])
    state.count_queued(held, -1)
    state.dependencies.drop(live.handle[held])
    live.flags[held] &= np.uint8(0xFF ^ AWAITING)
    live.state[held] = JOB_LEASED
    state.count_held(held, 1)
    if runs.member is not None or loaded.ended_members is not None or state.classes.elastic:
        _recover_members(state, loaded, slots[places], node_of[places])
    live.begin_runs(held, RUN_LEASED)
    if runs.charge_core_s is not None:
        firsts = np.unique(slots[places], return_index=True)[1]  # every member carries the charge of its run
        state.charge(slots[places][firsts], runs.charge_core_s[places][firsts])
    if loaded.ended_members is not None:
        _recover_ends(state, loaded.ended_members)
    if loaded.held is not None:
        take_held_amounts(state, loaded.held, 0.0)
    return int(held.size)


def _recover_members(state: PoolState, loaded: LoadedColumns, slots: Int32s, nodes: Int32s) -> None:
    """Make the members of runs known, those that have ended among them."""
    live, runs, ended = state.live, loaded.runs, loaded.ended_members
    number = np.zeros(runs.handle.size, np.int16) if runs.member is None else runs.member
    number = number[live.slots(runs.handle) >= 0]
    if ended is not None:
        gone = live.slots(ended.members.handle)
        of_live = (gone >= 0) & (live.attempt[gone] == ended.members.attempt)
        slots = np.concatenate([slots, gone[of_live]])
        number = np.concatenate([number, ended.members.member[of_live]])
        nodes = np.concatenate([nodes, np.full(int(of_live.sum()), -1, np.int32)])
    if are_extras(state, slots, number).any():
        note_lifetimes(state)
    add_members(state, slots, number, nodes)


def _recover_ends(state: PoolState, ended: EndedMembers) -> None:
    """Set how members have ended, and of what the first has failed; their jobs hold the rest."""
    live, table = state.live, state.live.members
    slots = live.slots(ended.members.handle)
    rows = np.where(slots >= 0, table.find(slots, ended.members.member), -1)
    rows[live.attempt[slots] != ended.members.attempt] = -1
    known = np.flatnonzero(rows >= 0)
    table.state[rows[known]], table.start_time_us[rows[known]] = ended.state[known], ended.start_time_us[known]
    for place in known[ended.state[known] == RUN_FAILED].tolist():
        failure = BagFailure(
            failure=int(ended.failure[place]), exit_code=int(ended.exit_code[place]), reason=ended.reasons[place]
        )
        state.bag_failures.setdefault(int(ended.members.handle[place]), failure)
    follow_members(state, np.unique(slots[known]))


def _recover_objects(state: PoolState, objects: LoadedObjects, now_s: float) -> None:
    """Set how far runs have got, and since when, from the rows of their objects."""
    live = state.live
    slots = live.slots(objects.handle)
    chosen = (slots >= 0) & (live.attempt[slots] == objects.attempt) & (live.run_state[slots] > 0)
    chosen &= objects.object_index < live.specs.object_counts(np.where(chosen, live.spec[slots], 0))
    held = live.members.find(slots, objects.member)
    chosen &= (held >= 0) | (~live.members.has(slots) if objects.member is None else objects.member == 0)
    slots, index, reported, held = slots[chosen], objects.object_index[chosen], objects.state[chosen], held[chosen]
    started_us = objects.start_time_us[chosen]
    of_members = held >= 0
    # All objects of a run carry the same moment, but those that were not reported since it ran.
    started = slots[started_us > 0]
    live.start_time_us[started] = started_us[started_us > 0]
    # Few have a time limit, and to find each run once among all is as much work as all else here.
    state.time_limits.note_started(live, np.unique(started[live.time_limit_s[started] >= 0]))
    table = live.members
    table.start_time_us[held[of_members & (started_us > 0)]] = started_us[of_members & (started_us > 0)]
    bags = live.bag[slots]
    bags[of_members] = table.bag[held[of_members]]
    live.bag_states[bags[bags >= 0], index[bags >= 0]] = reported[bags >= 0]
    # Only pods say how far a run has got. One that ended was not the last, since the run is live; whether the run had
    # begun by then stands beside it, for a pod may fail before anything runs.
    counts, pods = live.specs.object_counts(live.spec[slots]), live.specs.pod_counts(live.spec[slots])
    is_pod = index >= counts - pods
    began = (started_us > 0) | (reported == OBJECT_SUCCEEDED)
    reached = np.where(IS_RUN_TERMINAL[reported], np.where(began, RUN_RUNNING, RUN_CREATED), reported).astype(np.int8)
    order = np.argsort(RUN_RANKS[reached[is_pod]], kind="stable")
    rows = np.flatnonzero(is_pod)[order]
    live.run_state[slots[rows]] = reached[rows]
    if len(table):
        rows = rows[of_members[rows]]
        rows = rows[~IS_RUN_TERMINAL[table.state[held[rows]]]]
        table.state[held[rows]] = reached[rows]
        several = np.unique(table.slot)
        live.run_state[several], broken = run_states(state, several)
        note_vacancies(state, several[~broken], now_s)
        slots = np.concatenate([slots, several])
    ran = (live.run_state[slots] == RUN_RUNNING) | (live.run_state[slots] == RUN_UNKNOWN)
    live.state[slots[ran]] = JOB_RUNNING


def _recover_back_offs(state: PoolState, loaded: LoadedColumns, now_s: float) -> None:
    """Have jobs whose last run failed wait for as long as they would have without a new leader."""
    live, rows = state.live, np.flatnonzero(loaded.failed_time_us)
    slots = live.slots(loaded.jobs.handle[rows])
    there = slots >= 0
    slots, rows = slots[there], rows[there]
    back_off = run_back_off_s(state, slots)
    moments_s = loaded.failed_time_us[rows] / 1e6 + back_off
    chosen = state.stage_is_queued(slots) & (moments_s > now_s)
    # The database's clock may be ahead.
    state.back_off_until(slots[chosen], np.minimum(moments_s[chosen], now_s + back_off[chosen]))


def _recover_round_state(state: PoolState, stored: RoundStateColumns, now_s: float) -> None:
    """Continue the order of the last leader: flows, failed attempts, and promised starts."""
    live, queues = state.live, state.queues
    state.weights.restore(stored.weights, min(stored.weight_time_us / 1e6, now_s))
    weigh_again(state)
    _restore_flows(state, stored.queue, stored.flow, queues.flow)
    if stored.branch_flow is not None and queues.branches:
        _restore_flows(state, stored.queue, stored.branch_flow, queues.branches.flow)
    if stored.non_preemptible_flow is not None:
        note_lifetimes(state)
        _restore_flows(state, stored.queue, stored.non_preemptible_flow, queues.non_preemptible_flow)
    # A clock that was ahead must not make flows stand still until this one has caught up with it.
    state.flow_time_s = min(stored.flow_time_us / 1e6, now_s)
    attempted = live.slots(stored.attempted_handle)
    there = attempted >= 0
    live.failed_attempts[attempted[there]] = stored.failed_attempt[there]
    state.attempted.update(dict.fromkeys(stored.attempted_handle[there].tolist()))
    slots = attempted[there]
    slots = slots[state.stage_is_queued(slots) & ((live.flags[slots] & BACKING_OFF) == 0)]
    state.back_off_until(slots, now_s + back_off_s(state, live.failed_attempts[slots].astype(np.int64)))
    recover_promises(state, stored.promises)
    members = stored.shrinks.stopping
    slots = live.slots(members.handle)
    rows = np.where(slots >= 0, live.members.find(slots, members.member), -1)
    going = (rows >= 0) & (live.attempt[slots] == members.attempt)
    going[going] = ~IS_RUN_TERMINAL[live.members.state[rows[going]]]
    state.extras.restore(replace(stored.shrinks, stopping=members[going]), now_s)


def _restore_flows(state: PoolState, queue_ids: Int64s, stored: Float64s, flows: Float64s) -> None:
    """Set the flows of those of some queues that are known still."""
    for queue_id, flow in zip(queue_ids.tolist(), stored.tolist(), strict=False):
        index = state.queues.ids.find(queue_id)
        if index is not None and 0 <= flow < math.inf:
            flows[index] = flow


def adopt_plan(state: PoolState, plan: LeasePlan) -> LeasePlan:
    """Take up a plan that an earlier leader published and nobody ingested; return what of it still holds.

    Afterwards its runs are in flight here, as if this leader had decided them: pass the answer to `draft_ingest` and
    `apply_ingested`. Left out are jobs that are not waiting or whose next attempt is another one, and leases to
    clusters that were declared gone: nobody has heard of those, so their jobs wait on. Stops are decided anew from the
    change requests.

    Args:
        state: The pool, after `recover` and before its first round.
        plan: The decoded plan.

    Complexity: O(n) in NumPy, Python work per cluster and node.
    """
    live = state.live
    slots = live.slots(plan.handle)
    fits = (slots >= 0) & state.stage_is_queued(slots)
    fits &= live.attempt[slots].astype(np.int64) + 1 == plan.attempt
    fits &= (live.flags[slots] & CANCEL_REQUESTED) == 0
    if state.clusters.forgotten:
        gone = [state.clusters.find(name) in state.clusters.forgotten for name in plan.clusters]
        fits &= ~np.array(gone, dtype=np.bool_)[plan.cluster]
    rows = np.flatnonzero(fits)
    firsts = plan.firsts
    held = slots[firsts][fits[firsts]]
    _note_overstated(state, held, plan.round_state)
    _leave_order(state, held)
    live.attempt[held] += 1
    node_of = np.full(slots.size, -1, dtype=np.int32)
    for cluster in np.unique(plan.cluster[rows]).tolist():
        index = state.clusters.add(plan.clusters[cluster])
        state.ensure_class_grid()
        mine = rows[plan.cluster[rows] == cluster]
        nodes, which = distinct(plan.node[mine])
        names = state.clusters.nodes[index].intern([plan.nodes[node] for node in nodes.tolist()])
        live.cluster[slots[mine]] = index
        node_of[mine] = names[which]
    live.node[held] = node_of[firsts][fits[firsts]]
    if plan.member is not None or state.classes.elastic:
        add_members(state, slots[rows], plan.members.member[rows], node_of[rows])
    if plan.charge_core_s is not None:
        state.charge(held, plan.charge_core_s[firsts][fits[firsts]])
    added = _adopt_added(state, plan.added) if plan.added is not None else None
    failed_slots = live.slots(plan.failed_handle)
    failed = np.flatnonzero((failed_slots >= 0) & state.stage_is_queued(failed_slots))
    _leave_order(state, failed_slots[failed])
    return replace(
        plan,
        handle=plan.handle[rows],
        attempt=plan.attempt[rows],
        cluster=plan.cluster[rows],
        node=plan.node[rows],
        member=None if plan.member is None else plan.member[rows],
        charge_core_s=None if plan.charge_core_s is None else plan.charge_core_s[rows],
        stops=plan.stops[:0],
        failed_handle=plan.failed_handle[failed],
        failed_reasons=tuple(plan.failed_reasons[row] for row in failed.tolist()),
        added=added,
    )


def _adopt_added(state: PoolState, added: AddedMembers) -> AddedMembers | None:
    """Take up members that an earlier leader added to runs that go on, each once; return them, None for none."""
    live = state.live
    slots = live.slots(added.members.handle)
    fits = (slots >= 0) & (live.attempt[slots] == added.members.attempt) & may_be_added_to(state, slots)
    fits &= np.where(slots >= 0, live.members.find(slots, added.members.member), 0) < 0
    clusters = np.array([state.clusters.add(name) for name in added.clusters], dtype=np.int64)[added.cluster]
    state.ensure_class_grid()
    fits &= (live.cluster[slots] == clusters) & live.members.has(slots)
    if not fits.any():
        return None
    kept = added.take(fits)
    slots, clusters = slots[fits], clusters[fits]
    node = np.zeros(slots.size, dtype=np.int32)
    for cluster in np.unique(clusters).tolist():
        mine = clusters == cluster
        names = [kept.nodes[index] for index in kept.node[mine].tolist()]
        node[mine] = state.clusters.nodes[cluster].intern(names)
    live.members.add(slots, kept.members.member, node)
    if are_extras(state, slots, kept.members.member).any():
        note_lifetimes(state)
    follow_members(state, np.unique(slots))
    return kept


def _note_overstated(state: PoolState, slots: Int32s, decided: RoundStateColumns) -> None:
    """Find what of the usages is runs of which the last leader had heard the end, and stored it no more.

    The room that they left is what it leased, so both count until their executors tell of them again. A flow that took
    this in would keep a queue above its share, or its cap, for a half time or more.

    Args:
        state: The pool; the jobs are waiting still.
        slots: The jobs that the last leader leased.
        decided: What it knew then; a flow is never below the usage, these leases included.
    """
    queues, rows, usage = state.queues, state.live.queue[slots], state.job_usage(slots)
    # A queue that is not there was cut off, since the record had no room for it.
    for queue_id, flow in zip(decided.queue.tolist(), decided.flow.tolist(), strict=False):
        row = queues.ids.find(queue_id)
        if row is None or not (rows == row).any() or not math.isfinite(flow):
            continue
        before = int(queues.usage[row])
        known = math.ceil(max(flow, float(queues.flow[row])) * MICRO)
        over = min(before + int(usage[rows == row].sum()) - known, before)
        if over > queues.overstated.get(row, 0):
            queues.overstated[row] = over


def _leave_order(state: PoolState, slots: Int32s) -> None:
    """Count waiting jobs as held and mark them in flight; whatever they waited for, it was over for their leader."""
    live = state.live
    state.count_queued(slots, -1)
    state.dependencies.drop(live.handle[slots])
    live.flags[slots] = (live.flags[slots] & HELD) | IN_FLIGHT
    state.count_held(slots, 1)
    raise_flows(state)


def placements_of(state: PoolState, cluster: str) -> Placements:
    """Return all placements of a cluster: running, leased, in flight, and committed in the present round.

    Args:
        state: The pool.
        cluster: Name; an unknown cluster has none.

    Complexity: O(live jobs) in NumPy.
    """
    live = state.live
    index = state.clusters.find(cluster)
    slots: Int32s = live.live_slots()
    slots = slots[live.cluster[slots] == (-2 if index is None else index)]
    held = live.live_members(slots)
    nodes, node = distinct(held.node)
    names = state.clusters.nodes[index].names if index is not None else []
    return Placements(
        members=held.keys,
        class_ids=state.classes.class_id[live.class_index[held.slot]],
        node=node.astype(np.int32),
        nodes=tuple(names[row] for row in nodes.tolist()),
    )


def rows_missing(state: PoolState, cluster: str, known: Members) -> RowsMissing:
    """Return what an executor that says hello lacks, and what it shall stop.

    Args:
        state: The pool.
        cluster: Its cluster.
        known: Members of runs that it knows of.

    Raises:
        NotFound: The cluster is not known.

    Complexity: O(live jobs + known log known) in NumPy.
    """
    index = state.clusters.index(cluster)
    live = state.live
    slots = live.live_slots()
    mine = (live.cluster[slots] == index) & (live.run_state[slots] > 0) & ((live.flags[slots] & IN_FLIGHT) == 0)
    slots = slots[mine]
    have = live.live_members(slots)
    have = have.take(have.state > 0)  # a member in flight has no row yet
    told = known[known.attempt > 0]
    stopping = np.concatenate([slots[(live.flags[slots] & STOP_SENT) != 0], broken_runs(state, slots)])
    strange = told[~told.is_in(have.keys)]
    # An executor that restarted knows a run by the objects it found; what a bag lacks, only the row tells.
    is_bag = live.specs.object_counts(live.spec[have.slot]) > 1
    return RowsMissing(
        rows=executor_rows(state, index, have.take(~have.keys.is_in(told) | is_bag)),
        unknown=ClusterRuns(cluster=cluster, members=strange.distinct(), is_unknown=True),
        stops=ClusterRuns(cluster=cluster, members=live.live_members(stopping).keys.distinct()),
    )

"""After the log: leases become runs, or are refused, and executors get their rows.

Source: design section 5, "Ingest".
"""

from __future__ import annotations

import numpy as np

from argosy_core.arrays import Bools, Float64s, Int32s, Int64s, has_true, true_places
from argosy_core.job.reading.naming import naming_ordinal, object_label, object_name, run_suffixes
from argosy_core.job.reading.stop_note import with_stop_note
from argosy_core.job.tables.interning import Layout, distinct
from argosy_core.job.tables.live import CANCEL_REQUESTED, HELD, IN_FLIGHT, LiveMembers
from argosy_core.job.tables.members import Members, member_of, replacement_of
from argosy_core.job.tables.rows import NewObjects, NewRuns
from argosy_core.scheduler.columns.codes import (
    EVENT_CANCELLED,
    EVENT_FAILED,
    EVENT_LEASED,
    EVENT_MEMBER_LEASED,
    JOB_CANCELLED,
    JOB_FAILED,
    JOB_LEASED,
    JOB_QUEUED,
    RUN_LEASED,
)
from argosy_core.scheduler.columns.messages import ClusterRuns, SpecReference
from argosy_core.scheduler.columns.rows import Texts, job_ends, job_updates, runs_by_cluster
from argosy_core.scheduler.memory.flows import advance_flows
from argosy_core.scheduler.memory.replacing import are_extras, may_be_added_to, note_vacancies, rules_of
from argosy_core.scheduler.memory.run_members import follow_members
from argosy_core.scheduler.memory.state import PoolState
from argosy_core.scheduler.outgoing.effects import AddedMembers, ExecutorRows, LeaseEffects, LeasePlan, RefusedEffects
from argosy_core.scheduler.outgoing.events import Detail, EventBuffer
from argosy_core.scheduler.runs.progress import broken_runs

__all__ = [
    "apply_ingested",
    "draft_added",
    "draft_ingest",
    "executor_rows",
    "give_back_placements",
    "give_up_placements",
    "refuse_leases",
    "rows_of",
]

_REFUSED_BACK_OFF_S = 1.0
_MAX_FAILED_HANDLES = 10_000


def _in_flight(state: PoolState, plan: LeasePlan) -> tuple[Int32s, Bools]:
    """Return the slot of each lease of a plan, and whether that very run is still in flight."""
    live = state.live
    slots = live.slots(plan.handle)
    flying = (slots >= 0) & ((live.flags[slots] & IN_FLIGHT) != 0) & (live.attempt[slots] == plan.attempt)
    return slots, flying & (live.cluster[slots] >= 0)


def draft_ingest(state: PoolState, plan: LeasePlan) -> tuple[NewRuns, NewObjects]:
    """Return the rows that a plan makes, for the store to insert; nothing is changed.

    Leases whose job ended meanwhile are left out. The store skips the rows of jobs that are not open or have a cancel
    change request, and answers their handles; pass those to `refuse_leases`.

    Complexity: O(n log n) in NumPy, and about half a microsecond of Python per object for its name.
    """
    slots, flying = _in_flight(state, plan)
    rows = true_places(flying)
    rows = rows[np.argsort(plan.handle[rows], kind="stable")]
    slots = slots[rows]
    runs = NewRuns(
        handle=plan.handle[rows],
        attempt=plan.attempt[rows].astype(np.int16),
        member=None if plan.member is None else plan.member[rows],
        cluster_index=plan.cluster[rows],
        clusters=plan.clusters,
        node_index=plan.node[rows],
        nodes=plan.nodes,
        lease_time_us=np.full(rows.size, plan.create_time_us, dtype=np.int64),
        charge_core_s=None if plan.charge_core_s is None else plan.charge_core_s[rows],
    )
    return runs, _draft_objects(state, slots, runs)


def draft_added(state: PoolState, plan: LeasePlan) -> tuple[NewRuns, NewObjects]:
    """Return the rows of the members that a plan adds to runs under way; nothing is changed.

    Left out are members of runs that have ended meanwhile, or are to. The store refuses none of the others: nobody but
    the leader ends a job that has a run.

    Complexity: as `draft_ingest`.
    """
    added = plan.added
    assert added is not None
    slots, wanted, _ = _added(state, added)
    rows = true_places(wanted)
    rows = rows[np.argsort(added.members.handle[rows], kind="stable")]
    kept = added.take(rows)
    runs = NewRuns(
        handle=kept.members.handle,
        attempt=kept.members.attempt.astype(np.int16),
        member=kept.members.member,
        cluster_index=kept.cluster,
        clusters=kept.clusters,
        node_index=kept.node,
        nodes=kept.nodes,
        lease_time_us=np.full(rows.size, plan.create_time_us, dtype=np.int64),
        charge_core_s=state.live.charge_core_s[slots[rows]],
    )
    return runs, _draft_objects(state, slots[rows], runs)


def _added(state: PoolState, added: AddedMembers) -> tuple[Int32s, Bools, Int64s]:
    """Return the job of each member that is added, whether its run still wants it, and its row in flight or -1."""
    live = state.live
    slots = live.slots(added.members.handle)
    held = np.where(slots >= 0, live.members.find(slots, added.members.member), -1)
    there = (held >= 0) & (live.attempt[slots] == added.members.attempt)
    if len(live.members):
        there &= live.members.state[held] == 0
    held[~there] = -1
    wanted = there & may_be_added_to(state, slots)
    wanted[wanted] = ~np.isin(slots[wanted], broken_runs(state, np.unique(slots[wanted])))
    return slots, wanted, held


def _draft_objects(state: PoolState, slots: Int32s, runs: NewRuns) -> NewObjects:
    """Return the objects of members of runs of some jobs."""
    specs = state.live.specs
    counts = specs.object_counts(state.live.spec[slots]).astype(np.int64)
    objects = np.repeat(np.arange(slots.size), counts)
    places = np.arange(objects.size) - np.repeat(np.cumsum(counts) - counts, counts)
    kinds, kind_index, names = _name_objects(state, slots, Members.of(runs.handle, runs.attempt, runs.member).ordinal)
    return NewObjects(
        handle=runs.handle[objects],
        attempt=runs.attempt[objects],
        member=None if runs.member is None else runs.member[objects],
        object_index=places.astype(np.int16),
        kind_index=kind_index,
        kinds=kinds,
        name=names,
    )


def _name_objects(state: PoolState, slots: Int32s, ordinals: Int64s) -> tuple[tuple[str, ...], Int32s, list[bytes]]:
    """Return the kinds in use, and kind and name of every object, run by run."""
    specs = state.live.specs
    suffixes = run_suffixes(state.live.handle[slots], ordinals)
    kinds = Texts()
    layouts, which = distinct(specs.layout_ids(state.live.spec[slots]))
    parsed: list[Layout] = [specs.layout(layout) for layout in layouts.tolist()]
    labels = [[object_label(name) for name in layout.names] for layout in parsed]
    kind_lists = [[kinds.index(kind) for kind in layout.kinds] for layout in parsed]
    kind_index: list[int] = []
    names: list[bytes] = []
    of_members = member_of(ordinals) > 0
    if has_true(of_members):
        # Their suffixes are longer, so what stands before them may be cut more.
        which = np.where(of_members, which + len(parsed), which)
        labels += [[object_label(name, is_of_member=True) for name in layout.names] for layout in parsed]
        kind_lists += kind_lists
    for row, suffix in zip(which.tolist(), suffixes, strict=True):
        kind_index += kind_lists[row]
        for label in labels[row]:
            names.append(label + suffix)  # noqa: PERF401 - most bags have one object, for which this is the fastest
    if has_true(replacement_of(member_of(ordinals)) > 0):
        _name_services(state, slots, ordinals, names)
    return kinds.all(), np.array(kind_index, dtype=np.int32), names


def _name_services(state: PoolState, slots: Int32s, ordinals: Int64s, names: list[bytes]) -> None:
    """Give the services of members that replace others the names that those had."""
    specs = state.live.specs
    layouts = [specs.layout(layout) for layout in specs.layout_ids(state.live.spec[slots]).tolist()]
    first = 0
    for layout, handle, ordinal in zip(layouts, state.live.handle[slots].tolist(), ordinals.tolist(), strict=True):
        for place, (kind, base) in enumerate(zip(layout.kinds, layout.names, strict=True)):
            named = naming_ordinal(kind, base, ordinal)
            if named != ordinal:
                names[first + place] = object_name(base, handle, named).encode()
        first += len(layout.kinds)


def apply_ingested(state: PoolState, plan: LeasePlan, now_s: float) -> LeaseEffects:
    """Take in that a plan's rows go into the store's transaction, and return what follows.

    Leases that the database refuses after that are taken back by `refuse_leases`.

    Args:
        state: The pool.
        plan: The plan, once.
        now_s: Now.

    Complexity: O(n log n) in NumPy.
    """
    live = state.live
    advance_flows(state, now_s)
    slots, flying = _in_flight(state, plan)
    taken = slots[plan.firsts][flying[plan.firsts]]
    events = EventBuffer(state, now_s)
    events.add(taken, EVENT_LEASED, to_state=JOB_LEASED, time_us=plan.create_time_us, with_run=Detail.PLACE)
    live.state[taken] = JOB_LEASED
    live.flags[taken] &= np.uint8(0xFF ^ IN_FLIGHT)
    live.begin_runs(taken, RUN_LEASED)
    texts = Texts()
    failed, reasons = _failed(state, plan, texts)
    table = np.array([events.reason(text) for text in texts.all()] or [-1], dtype=np.int64)
    events.add(failed, EVENT_FAILED, to_state=JOB_FAILED, reason=table[reasons])
    ended = np.full(failed.size, JOB_FAILED, dtype=np.int16), np.full(failed.size, round(now_s * 1e6), dtype=np.int64)
    updates = job_updates(live.handle[failed], *ended, reason=reasons, texts=texts)
    releases = runs_by_cluster(plan.clusters, plan.cluster[~flying], plan.members[~flying])
    rows = _rows_per_cluster(state, live.live_members(taken))
    if plan.added is not None:
        unwanted, begun = _begin_added(state, plan.added)
        releases, rows = (*releases, *unwanted), (*rows, *_rows_per_cluster(state, begun))
        _say_begun(state, begun, events)
    effects = LeaseEffects(
        events=events.draft(),
        job_updates=updates,
        releases=releases,
        rows=rows,
        stops=_stops_per_cluster(state, plan),
    )
    _remember_failed(state, live.handle[failed])
    state.remove_jobs(failed, JOB_FAILED)
    state.totals["leases"] += int(taken.size)
    state.totals["failed"] += int(failed.size)
    return effects


def _begin_added(state: PoolState, added: AddedMembers) -> tuple[tuple[ClusterRuns, ...], LiveMembers]:
    """Begin members that runs get, and drop those that they want no more; return these, and those that began."""
    live = state.live
    slots, wanted, held = _added(state, added)
    live.begin_members(held[wanted], RUN_LEASED)
    for handle in np.unique(added.members.handle[wanted]).tolist():
        state.bag_failures.pop(handle, None)  # what failed has its successor
    live.members.drop_rows(held[~wanted & (held >= 0)])
    touched = np.unique(slots[slots >= 0])
    follow_members(state, touched[live.members.has(touched)])
    note_vacancies(state, touched[may_be_added_to(state, touched)], state.flow_time_s)
    unwanted = runs_by_cluster(added.clusters, added.cluster[~wanted], added.members[~wanted])
    node = live.members.node[live.members.find(slots[wanted], added.members[wanted].member)]
    begun = LiveMembers(slots[wanted], added.members[wanted], node, np.full(node.size, RUN_LEASED, dtype=np.int8))
    return unwanted, begun


def _say_begun(state: PoolState, begun: LiveMembers, events: EventBuffer) -> None:
    """Write an event for each member that a run was given, and count them."""
    numbers = begun.keys.member
    now_us = round(state.flow_time_s * 1e6)
    events.add_members(begun.slot, EVENT_MEMBER_LEASED, numbers=numbers, nodes=begun.node, time_us=now_us)
    extra_count = int(are_extras(state, begun.slot, numbers).sum())
    state.totals["members_grown"] += extra_count
    state.totals["members_replaced"] += int(numbers.size) - extra_count


def give_back_placements(state: PoolState, slots: Int32s) -> tuple[ClusterRuns, ...]:
    """Count the placements of held jobs as free and return them for their samplers to release."""
    live = state.live
    placed = slots[live.cluster[slots] >= 0]
    state.give_back(placed)
    held = live.live_members(placed)
    return runs_by_cluster(state.clusters.names, live.cluster[held.slot], held.keys)


def refuse_leases(state: PoolState, refused_handles: Int64s, now_s: float) -> RefusedEffects:
    """Take back leases that `apply_ingested` counted and the database then refused.

    For a shell that hands rows to an ordered writer and learns of refusals only after the commit. The job waits again,
    or ends if its cancel request is known here; otherwise the request is on its way. Jobs that are gone, or whose run
    was reported of already, are left alone. What was stored of the lease is `Refusals`' affair: no event says that the
    job was ever leased, so none says that it waits again.

    Args:
        state: The pool.
        refused_handles: Jobs whose rows the store skipped.
        now_s: Now.

    Complexity: O(n log n) in NumPy.
    """
    live = state.live
    slots = live.slots(refused_handles)
    slots = np.unique(slots[slots >= 0])
    slots = slots[(live.run_state[slots] == RUN_LEASED) & ((live.flags[slots] & IN_FLIGHT) == 0)]
    advance_flows(state, now_s)
    live.state[slots] = JOB_QUEUED
    live.end_runs(slots)
    live.flags[slots] |= IN_FLIGHT
    state.totals["refused"] += int(slots.size)
    return _take_back(state, slots, now_s, now_s + _REFUSED_BACK_OFF_S)


def give_up_placements(state: PoolState, handles: Int64s, retry_after_s: Float64s, now_s: float) -> RefusedEffects:
    """Take back placements in flight that plugins turned away; what they belong to waits again, or is cancelled.

    Args:
        state: The pool.
        handles: Jobs in flight.
        retry_after_s: When each may be tried again; 0 for the usual back-off.
        now_s: Now.

    Complexity: O(n log n) in NumPy.
    """
    advance_flows(state, now_s)
    after_s = np.where(retry_after_s > 0, retry_after_s, _REFUSED_BACK_OFF_S)
    return _take_back(state, state.live.slots(handles), now_s, now_s + after_s)


def _take_back(state: PoolState, slots: Int32s, now_s: float, again_s: float | Float64s) -> RefusedEffects:
    """Have jobs in flight wait again, and end those that are to be cancelled."""
    live = state.live
    events = EventBuffer(state, now_s)
    events.add(slots[(live.flags[slots] & CANCEL_REQUESTED) != 0], EVENT_CANCELLED, to_state=JOB_CANCELLED)
    releases = give_back_placements(state, slots)
    cancelled = _wait_again(state, slots, again_s)
    updates = job_ends(live.handle[cancelled], JOB_CANCELLED, round(now_s * 1e6), "")
    draft = events.draft()
    state.remove_jobs(cancelled, JOB_CANCELLED)
    return RefusedEffects(events=draft, job_updates=updates, releases=releases)


def _wait_again(state: PoolState, slots: Int32s, again_s: float | Float64s) -> Int32s:
    """Let jobs whose placement came to nothing wait again, except those to be cancelled, which are returned."""
    live = state.live
    asked = (live.flags[slots] & CANCEL_REQUESTED) != 0
    again = slots[~asked]
    if again.size:
        state.count_held(again, -1)
        state.end_permits(again)
        live.flags[again] &= HELD
        live.leave_places(again)
        live.attempt[again] -= 1
        state.count_queued(again, 1)
        # If a change request refused the lease, it is on its way; until it is here there is no use in trying again.
        state.back_off_until(again, np.broadcast_to(again_s, slots.size)[~asked])
    cancelled: Int32s = slots[asked]
    return cancelled


def _failed(state: PoolState, plan: LeasePlan, texts: Texts) -> tuple[Int32s, Int64s]:
    """Return the jobs that the plan ends and that are still there, and their reasons' indices."""
    slots = state.live.slots(plan.failed_handle)
    there = (slots >= 0) & ((state.live.flags[slots] & IN_FLIGHT) != 0)
    rows = true_places(there)
    return slots[rows], np.array([texts.index(plan.failed_reasons[row]) for row in rows.tolist()], dtype=np.int64)


def _remember_failed(state: PoolState, handles: Int64s) -> None:
    """Keep a bounded number of handles for which a late change request is no news."""
    state.failed_handles.update(dict.fromkeys(handles.tolist()))
    while len(state.failed_handles) > _MAX_FAILED_HANDLES:
        del state.failed_handles[next(iter(state.failed_handles))]


def _rows_per_cluster(state: PoolState, held: LiveMembers) -> tuple[ExecutorRows, ...]:
    """Return the rows of new members of runs for each executor."""
    clusters = state.live.cluster[held.slot]
    return tuple(executor_rows(state, index, held.take(clusters == index)) for index in np.unique(clusters).tolist())


def _stops_per_cluster(state: PoolState, plan: LeasePlan) -> tuple[ClusterRuns, ...]:
    """Return the plan's stops for each executor, without those whose run has ended meanwhile."""
    live = state.live
    slots = live.slots(plan.stops.handle)
    open_run = (slots >= 0) & (live.attempt[slots] == plan.stops.attempt) & (live.run_state[slots] > 0)
    return runs_by_cluster(state.clusters.names, live.cluster[slots[open_run]], plan.stops[open_run])


def rows_of(state: PoolState, members: Members) -> tuple[ExecutorRows, ...]:
    """Return the rows of those of some members of runs that are live, by cluster."""
    live, slots = state.live, state.live.slots(members.handle)
    there = (slots >= 0) & (live.attempt[slots] == members.attempt) & (live.run_state[slots] > 0)
    there &= (live.flags[slots] & IN_FLIGHT) == 0
    held = live.live_members(np.unique(slots[there]))
    clusters = live.cluster[held.slot]
    return tuple(
        executor_rows(state, cluster, held.take(clusters == cluster)) for cluster in np.unique(clusters).tolist()
    )


def executor_rows(state: PoolState, cluster: int, held: LiveMembers) -> ExecutorRows:
    """Return what an executor needs to make members of runs: spec, node, metadata, names.

    Args:
        state: The pool.
        cluster: Cluster index.
        held: Members of ingested runs there.

    Complexity: O(n log n) in NumPy, Python work per distinct spec, node, metadata and job set.
    """
    live, queues, job_sets, slots = state.live, state.queues, state.job_sets, held.slot
    specs, spec = distinct(live.spec[slots])
    nodes, node = distinct(held.node)
    owners, owner = distinct(live.job_set[slots])
    metadata_index, metadata_texts = _metadata(state, slots)
    names = state.clusters.nodes[cluster].names
    references = [live.specs.reference(index) for index in specs.tolist()]
    return ExecutorRows(
        cluster=state.clusters.names[cluster],
        handle=live.handle[slots],
        attempt=held.keys.attempt,
        member=held.keys.numbers(),
        id_high=live.id_high[slots],
        spec=spec.astype(np.int32),
        specs=tuple(SpecReference(hash=key, day=day, layout=layout) for key, day, layout in references),
        node=node.astype(np.int32),
        nodes=tuple(names[index] for index in nodes.tolist()),
        metadata_index=metadata_index,
        metadata=metadata_texts,
        owner=owner.astype(np.int32),
        owners=tuple(
            (queues.names[queues.ids.find(int(job_sets.queue_id[index])) or 0], job_sets.names[index])
            for index in owners.tolist()
        ),
        seen=held.state > RUN_LEASED,
    )


def _metadata(state: PoolState, slots: Int32s) -> tuple[Int32s, tuple[bytes, ...]]:
    """Return the place of each job's metadata among some texts, -1 for none, and the texts."""
    own, index = state.live.metadata[slots], np.full(slots.size, -1, dtype=np.int32)
    has, texts = own >= 0, tuple[bytes, ...]()
    if has_true(has):
        kinds, index[has] = distinct(own[has])
        texts = tuple(state.live.metadata_texts.value(kind) for kind in kinds.tolist())
    return _with_stop_notes(state, slots, index, texts)


def _with_stop_notes(
    state: PoolState, slots: Int32s, index: Int32s, texts: tuple[bytes, ...]
) -> tuple[Int32s, tuple[bytes, ...]]:
    """Return metadata of jobs, by index, with the notes of those that are stopped where no leader is heard."""
    places: dict[bytes, int] = {}
    noted = index.copy()
    for place, rules in rules_of(state, slots):
        if rules.stop_after_s:
            text = with_stop_note(texts[index[place]] if index[place] >= 0 else b"", rules.stop_after_s)
            noted[place] = places.setdefault(text, len(texts) + len(places))
    return noted, (*texts, *places)

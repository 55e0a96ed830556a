"""What comes in from people and clusters: definitions, jobs, change requests, capacity.

Source: design section 5, "Take changes", "Change requests", "Sampler session".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np

from argosy_core.arrays import Int32s, has_true, true_places
from argosy_core.job.tables.ids import grow
from argosy_core.job.tables.live import AWAITING, CANCEL_REQUESTED, STOP_SENT, NewJobs
from argosy_core.placement import WaitReason
from argosy_core.scheduler.columns.codes import (
    EVENT_CANCEL_REQUESTED,
    EVENT_CANCELLED,
    EVENT_REPRIORITIZED,
    EVENT_SUBMITTED,
    JOB_CANCELLED,
    JOB_QUEUED,
)
from argosy_core.scheduler.columns.messages import (
    CapacityColumns,
    ChangeRequestColumns,
    ClusterView,
    EndedJobs,
    JobColumns,
    JobSetView,
    Missing,
    QueueView,
)
from argosy_core.scheduler.columns.rows import job_ends
from argosy_core.scheduler.incoming.holding import hold, release
from argosy_core.scheduler.incoming.ingest import give_back_placements
from argosy_core.scheduler.incoming.unfit import intern_specs, note_unfit
from argosy_core.scheduler.memory.capacity_bounds import check_growth, check_nodes
from argosy_core.scheduler.memory.cluster_table import NodeNames
from argosy_core.scheduler.memory.state import PoolState
from argosy_core.scheduler.outgoing.effects import ChangeRequestEffects, TakeEffects
from argosy_core.scheduler.outgoing.events import Detail, EventBuffer, EventDraft
from argosy_core.scheduler.runs.preempting import preempt

__all__ = [
    "CANCEL",
    "add_jobs",
    "class_definitions",
    "define_classes",
    "define_job_sets",
    "missing",
    "note_ended",
    "queue_weights",
    "remove_queues",
    "set_cluster",
    "set_queues",
    "take_change_requests",
    "take_jobs",
    "update_capacity",
]

CANCEL: Final = 1
"""Kind of a change request."""
_REPRIORITIZE: Final = 2
_PREEMPT: Final = 3
_HOLD: Final = 4
_RELEASE: Final = 5
_READY: Final = 1
"""Flags of a node that may be given work."""
_REMOVED: Final = 4
_ROOMY_AXIS: Final = 64
"""Resources up to which nobody looks whether they are all still used."""


def define_classes(state: PoolState, definitions: Mapping[int, bytes]) -> None:
    """Add scheduling classes; known ones are left alone.

    Args:
        state: The pool.
        definitions: Class id -> canonical JSON (`argosy_core.job.reading.classes`).

    A class that cannot be used, since it is malformed or asks for more different resources than a pool counts, is
    noted with the reason: its jobs fail with that.

    Complexity: O(definitions), and once in a while O(classes).
    """
    is_crowded = len(state.classes.axis) > _ROOMY_AXIS and state.round is None
    for index in state.classes.drop_idle(0) if is_crowded else state.classes.drop_idle():
        state.waits.clear_class(index)
        state.returns.forget_class(index)
        state.asked_complete.discard(index)
        for key in [key for key in state.answers if key[0] == index]:
            del state.answers[key]
    if is_crowded:
        state.shrink_axis()
    before = len(state.classes.axis)
    for class_id, definition in definitions.items():
        state.classes.define(class_id, definition)
    added = len(state.classes.axis) - before
    if added:
        state.add_columns(added)


def class_definitions(state: PoolState, class_ids: Iterable[int]) -> list[bytes]:
    """Return the definitions of classes, as handed to `define_classes`.

    Raises:
        NotFound: A class is not defined.
    """
    indices = state.classes.ids.indices(np.fromiter(class_ids, dtype=np.int64))
    return [state.classes.definitions[index] for index in indices.tolist()]


def set_queues(state: PoolState, queues: Iterable[QueueView]) -> None:
    """Add queues or change their weight, name, cordon, limits and what they stand below; flow and jobs stay."""
    for view in queues:
        index = state.queues.ids.find(view.queue_id)
        if index is None:
            index = state.queues.add(view.queue_id, state.make_order())
        state.queues.names[index] = view.name
        state.queues.weight[index] = view.weight
        state.queues.cordoned[index] = view.cordoned
        state.queues.branches.forget(index)
        if view.parent:
            state.queues.branches.parents[index] = view.parent
        for rows, is_given in (
            (state.queues.preempts_unexpired, view.preempts_unexpired),
            (state.queues.preempts_endless, view.preempts_endless),
        ):
            (rows.add if is_given else rows.discard)(index)
        state.queues.limits.pop(index, None)
        if view.limits:
            state.queues.limits[index] = view.limits
        state.queues.idle_at[index] = -1
        state.change_count += 1
    state.queues.branches.arrange(state.queues.names, state.queues.flow)


def queue_weights(state: PoolState) -> dict[str, float]:
    """Return what the pool's queues weigh by name, those that weigh anything."""
    queues = state.queues
    rows = true_places((queues.queue_id > 0) & (queues.weight > 0)).tolist()
    return {queues.names[row]: float(queues.weight[row]) for row in rows}


def remove_queues(state: PoolState, queue_ids: Iterable[int]) -> None:
    """Forget queues that were deleted or moved to another pool, with their job sets; unknown ones are ignored.

    A queue that comes back brings the numbers that the other pool's leader gave meanwhile. One that has open jobs is
    kept for as long as that is so, and nothing more is placed of it: what ended them before the queue was deleted
    stands in `changes` and has not been read yet.
    """
    queues = state.queues
    queues.deleted.update(queue_id for queue_id in queue_ids if queue_id in queues.ids)
    for queue_id in sorted(queues.deleted):
        index = queues.ids.indices(np.array([queue_id]))[0]
        queues.cordoned[index] = True
        if not queues.open_count(index):
            queues.drop(queue_id)
            state.job_set_limits.queues.pop(index, None)
            state.job_sets.drop_queue(queue_id)


def define_job_sets(state: PoolState, job_sets: Iterable[JobSetView], now_s: float = 0.0) -> None:
    """Add job sets; a known one keeps its own event number."""
    state.job_sets.drop_idle(now_s)
    for view in job_sets:
        state.job_sets.define(view.job_set_id, view.queue_id, view.name, view.last_event_number)


def set_cluster(state: PoolState, view: ClusterView) -> None:
    """Add a cluster or change whether it may be given work.

    A new incarnation drops the meaning of sampler node indices: nothing is placed there until capacity has come again.
    """
    clusters = state.clusters
    index = clusters.add(view.name)
    usable = bool(clusters.usable()[index])
    if view.connected != clusters.connected[index]:
        clusters.session[index] += 1
    if view.incarnation and view.incarnation != clusters.incarnation[index]:
        _start_incarnation(state, index, view.incarnation)
    clusters.connected[index] = view.connected
    clusters.forgotten.discard(index)
    clusters.cordoned[index] = view.cordoned
    _bound(state, index, dict(view.max_capacity))
    if view.delegated != clusters.delegated[index]:
        clusters.delegated[index] = view.delegated
        state.waits.clear_cluster(index)  # what was said of nodes is not what is said of all of them
    state.room.cordoned_nodes.pop(index, None)
    if view.cordoned_nodes:
        state.room.cordoned_nodes[index] = frozenset(view.cordoned_nodes)
    state.ensure_class_grid()
    if not usable and clusters.usable()[index]:
        state.waits.clear_cluster(index)
    state.change_count += 1


def _bound(state: PoolState, index: int, most: dict[str, int]) -> None:
    """Let so much of a cluster count, also of what was told before."""
    clusters = state.clusters
    if most == clusters.most.get(index, {}):
        return
    clusters.most[index] = most
    if index in clusters.told:
        resources, told = clusters.told[index]
        counted = clusters.counted(index, resources, told, node_count=clusters.nodes[index].told_end)
        clusters.total[index] = state.in_axis_order(counted, resources)
        clusters.free[index] = np.minimum(clusters.free[index], clusters.total[index])


def _start_incarnation(state: PoolState, index: int, incarnation: int) -> None:
    """Forget what the sampler's node indices meant."""
    clusters = state.clusters
    clusters.incarnation[index] = incarnation
    clusters.session[index] += 1
    clusters.nodes[index].by_sampler = np.zeros(0, dtype=np.int32)
    clusters.nodes[index].told_end = 0
    clusters.resources[index] = ()
    clusters.allocatable[index] = np.zeros((0, 0), dtype=np.int64)
    state.waits.clear_cluster(index)


def update_capacity(state: PoolState, cluster: str, columns: CapacityColumns) -> None:
    """Take in nodes that changed and the cluster's totals.

    Args:
        state: The pool.
        cluster: Name; the cluster must be known.
        columns: What the sampler sent.

    Raises:
        NotFound: The cluster is not known.
        InvalidRequest: It has more nodes, resources or capacity than a pool counts, a node that cannot be, or numbers
            nodes with gaps; none of that was taken.
    """
    clusters = state.clusters
    index = clusters.index(cluster)
    is_new = columns.incarnation != clusters.incarnation[index]
    told = () if is_new else clusters.resources[index]
    resources = told + tuple(name for name in columns.resources if name not in told)
    told_end = 0 if is_new else clusters.nodes[index].told_end
    check_growth(columns.node, told_end, len(resources))
    check_nodes(columns.names, columns.allocatable, columns.resources)
    state.ensure_columns(resources)
    node_count = max(told_end, int(columns.node.max(initial=-1)) + 1)
    counted = clusters.counted(index, columns.resources, columns.total, node_count=node_count)
    total = state.in_axis_order(counted, columns.resources)
    clusters.check_total(index, total)
    clusters.told[index] = columns.resources, columns.total
    if is_new:
        _start_incarnation(state, index, columns.incarnation)
    if columns.node.size:
        _update_nodes(state, index, columns, resources)
    free = np.minimum(state.in_axis_order(columns.total_free, columns.resources), total)
    if has_true(free > clusters.free[index]) or has_true(total != clusters.total[index]):
        state.change_count += 1
        state.hasten_promised(cluster=index)
    _wake(state, index, columns)
    clusters.total[index], clusters.free[index] = total, free
    clusters.told_count[index] += 1
    clusters.node_count[index] = columns.node_count


def _wake(state: PoolState, index: int, columns: CapacityColumns) -> None:
    """Let the classes be asked again of which a sampler says that they now fit."""
    found = [state.classes.ids.find(class_id) for class_id in columns.fitting.tolist()]
    known = np.array([row is not None for row in found], dtype=np.bool_)
    if has_true(known):
        classes = np.array([row for row in found if row is not None], dtype=np.int32)
        state.ensure_class_grid()
        room = columns.fitting_room[known]
        if len(state.returns):
            classes, room = _put_off(state, index, classes, room)
        state.waits.wake(classes, index, room)
        state.change_count += 1
        if state.round is not None:
            state.round.note_woken(index, classes)


def _put_off(state: PoolState, index: int, classes: Int32s, room: Int32s) -> tuple[Int32s, Int32s]:
    """Return the classes that are woken now; those that the cluster has just returned again are a little later."""
    later = state.returns.not_before_s(classes, index)
    later[state.waits.reason[classes, index] != WaitReason.RETURNED] = 0.0
    for place in true_places(later > 0).tolist():
        state.waits.hasten(WaitReason.RETURNED, later[place], classes=classes[place : place + 1], cluster=index)
    return classes[later == 0], room[later == 0]


def _update_nodes(state: PoolState, index: int, columns: CapacityColumns, resources: tuple[str, ...]) -> None:
    """Take in names and allocatable of some nodes, of a cluster with these resources."""
    clusters = state.clusters
    names: NodeNames = clusters.nodes[index]
    end = int(columns.node.max()) + 1
    names.told_end = max(names.told_end, end)
    names.by_sampler = grow(names.by_sampler, end, -1)
    names.by_sampler[columns.node] = names.intern(columns.names)
    matrix = clusters.allocatable[index]
    matrix = grow(np.pad(matrix, ((0, 0), (0, len(resources) - matrix.shape[1]))), end)
    gone = (columns.flag & _REMOVED) != 0
    matrix[columns.node] = 0
    place = np.array([resources.index(name) for name in columns.resources], dtype=np.int32)
    matrix[np.ix_(columns.node, place)] = np.where(gone[:, None], 0, columns.allocatable)
    clusters.resources[index], clusters.allocatable[index] = resources, matrix
    clusters.ready[index] = grow(clusters.ready[index], end)
    clusters.ready[index][columns.node] = columns.flag == _READY
    clusters.largest[index] = state.in_axis_order(matrix.max(axis=0), resources)
    if names.is_crowded and state.round is None:
        state.compact_node_names(index)


def missing(state: PoolState, columns: JobColumns) -> Missing:
    """Return what must be defined before `take_jobs` takes these columns."""
    return Missing(
        class_ids=state.classes.ids.unknown(columns.class_id),
        queue_ids=state.queues.ids.unknown(columns.queue),
        job_set_ids=state.job_sets.ids.unknown(columns.job_set),
    )


def add_jobs(state: PoolState, columns: JobColumns, rows: Int32s) -> Int32s:
    """Add some of the jobs to the table, counted as queued but in no order yet, and return their slots.

    Raises:
        NotFound: A class, queue or job set is not defined; nothing was changed.
    """
    live = state.live
    queue = state.queues.ids.indices(columns.queue[rows])
    job_set = state.job_sets.ids.indices(columns.job_set[rows])
    class_index = state.classes.ids.indices(columns.class_id[rows])
    specs, bad_specs = intern_specs(state, columns.specs)
    texts = live.metadata_texts.intern(columns.metadata)
    metadata_index = columns.metadata_index[rows]
    if texts.size:
        metadata = np.where(metadata_index >= 0, texts[metadata_index], np.int32(-1))
    else:
        metadata = np.full(rows.size, -1, dtype=np.int32)
    slots = live.add(
        NewJobs(
            handle=columns.handle[rows],
            id_high=columns.id_high[rows],
            queue=queue,
            job_set=job_set,
            class_index=class_index,
            priority=columns.priority[rows],
            submit_time_us=columns.submit_time_us[rows],
            spec=specs[columns.spec[rows]] if rows.size else np.zeros(0, dtype=np.int32),
            metadata=metadata.astype(np.int32),
            options=None if columns.options is None else columns.options[rows],
            submitter=None if columns.submitter is None else columns.submitter[rows],
        )
    )
    live.specs.forget_unused(specs)
    live.metadata_texts.forget_unused(texts)
    np.add.at(state.classes.job_count, class_index, 1)
    np.add.at(state.job_sets.job_count, job_set, 1)
    _add_dependencies(state, columns, slots)
    state.children.note(live, slots)
    if columns.options is not None and has_true(columns.options.lifetime_s >= 0):
        state.note_lifetimes()
    if columns.options is not None and has_true(columns.options.job_set_limit >= 0):
        everyone = live.live_slots()
        state.job_set_limits.note(live, slots, everyone[~state.stage_is_queued(everyone)])
    state.count_queued(slots, 1)
    if bad_specs or state.classes.refused:
        note_unfit(state, slots, columns.spec[rows], bad_specs)
    return slots


def _add_dependencies(state: PoolState, columns: JobColumns, slots: Int32s) -> None:
    """Take note of what jobs that are being added wait for."""
    live = state.live
    state.dependencies.note_live(live.handle[slots])
    pairs = None if columns.after is None else columns.after.of(live.handle[slots])
    if pairs is None:
        return
    settled = state.dependencies.add(pairs, (live.slots(pairs.other) >= 0).tolist())
    waiting = np.setdiff1d(pairs.handle, np.array(settled.free, dtype=np.int64))
    live.flags[live.slots(waiting)] |= AWAITING
    state.unfit.update(settled.doomed)
    state.dependencies.has_doomed |= bool(settled.doomed)


def take_jobs(state: PoolState, columns: JobColumns, now_s: float) -> TakeEffects:
    """Take accepted jobs: they wait in their queues from now on.

    A job that `recover` brought already gets its SUBMITTED event and nothing else, because a row of `changes` is taken
    exactly once, in the transaction that stores its events.

    Args:
        state: The pool; classes, queues and job sets must be defined (`missing`).
        columns: The jobs.
        now_s: Now.

    Raises:
        NotFound: A class, queue or job set is not defined; nothing was changed.

    Complexity: O(n log n) in NumPy, one dict look-up per distinct spec.
    """
    known = state.live.slots(columns.handle) >= 0
    rows = true_places(~known).astype(np.int32)
    slots = add_jobs(state, columns, rows)
    state.push_queued(slots)
    events = EventBuffer(state, now_s)
    everyone = state.live.slots(columns.handle)
    events.add(
        everyone,
        EVENT_SUBMITTED,
        to_state=JOB_QUEUED,
        time_us=columns.submit_time_us,
    )
    return TakeEffects(events=events.draft(), added_count=int(rows.size), known_count=int(known.sum()))


def take_change_requests(state: PoolState, columns: ChangeRequestColumns, now_s: float) -> ChangeRequestEffects:
    """Take change requests.

    Cancel: a job that waits, or whose row the API ended, ends now; a job that is in flight, leased or running is
    stopped by the next round's plan. Reprioritise: a queued job moves in its queue, any other only
    keeps the number. Preempt: see `preempting`. Hold and release: see `holding`.

    Args:
        state: The pool.
        columns: The change requests; of several for one job the last counts.
        now_s: Now.

    Complexity: O(n log n) in NumPy.
    """
    live = state.live
    slots = live.slots(columns.handle)
    unknown = slots < 0
    ended = columns.ended != 0
    cancel = columns.kind == CANCEL
    strange = columns.handle[unknown & ended & cancel]
    strange = strange[[handle not in state.failed_handles for handle in strange.tolist()]]
    events = EventBuffer(state, now_s)
    reason = events.reason(columns.reason)
    state.advance_flow(now_s)
    _reprioritize(state, columns, true_places(~unknown & (columns.kind == _REPRIORITIZE)), events)
    if has_true(columns.kind == _PREEMPT):
        preempt(state, np.unique(slots[~unknown & (columns.kind == _PREEMPT)]), columns.reason)
    for kind, act in ((_HOLD, hold), (_RELEASE, release)):
        chosen = slots[~unknown & (columns.kind == kind)]
        if chosen.size:
            act(state, np.unique(chosen), events, reason)
    rows = true_places(~unknown & cancel)
    _, first = np.unique(slots[rows], return_index=True)
    rows = rows[np.sort(first)]
    chosen, chosen_ended = slots[rows], ended[rows]
    waiting = state.stage_is_queued(chosen)
    # The API ends a job only while the database has no live run of it: a lease that counts here is refused there.
    over = waiting | chosen_ended
    held = chosen[~over]
    held = held[(live.flags[held] & CANCEL_REQUESTED) == 0]
    live.flags[held] |= CANCEL_REQUESTED
    unstopped = held[(live.flags[held] & STOP_SENT) == 0]  # else its time limit has stopped it already
    state.unsent_stops.update(dict.fromkeys(live.handle[unstopped].tolist()))
    events.add(held, EVENT_CANCEL_REQUESTED, to_state=live.state[held], reason=reason, with_run=Detail.ATTEMPT)
    events.add(chosen[over], EVENT_CANCELLED, to_state=JOB_CANCELLED, reason=reason)
    updates = job_ends(live.handle[chosen[waiting & ~chosen_ended]], JOB_CANCELLED, round(now_s * 1e6), columns.reason)
    draft = events.draft()
    releases = give_back_placements(state, chosen[over & ~waiting])
    state.remove_jobs(chosen[over], JOB_CANCELLED)
    return ChangeRequestEffects(
        events=draft,
        job_updates=updates,
        releases=releases,
        unknown_ended=strange,
    )


def _reprioritize(
    state: PoolState,
    columns: ChangeRequestColumns,
    rows: np.ndarray[tuple[int], np.dtype[np.intp]],
    events: EventBuffer,
) -> None:
    """Give live jobs another priority; queued ones move in their queue. The API has stored it already."""
    live = state.live
    slots = live.slots(columns.handle[rows])
    # The last change request for a job counts.
    _, from_end = np.unique(slots[::-1], return_index=True)
    rows = rows[np.sort(rows.size - 1 - from_end)] if rows.size else rows
    slots = live.slots(columns.handle[rows])
    changed = live.priority[slots] != columns.priority[rows]
    slots, priority = slots[changed], columns.priority[rows][changed]
    events.add(slots, EVENT_REPRIORITIZED, to_state=live.state[slots], reason=events.reason(columns.reason))
    live.priority[slots] = priority
    state.push_queued(slots[state.stage_is_queued(slots)])


def note_ended(state: PoolState, jobs: EndedJobs, *, reason: str, now_s: float) -> EventDraft:
    """Number the CANCELLED events of jobs that the API ended and that this leader never held.

    That happens after a change of leader: the job's row was ended, so it was not loaded, but its request was unread.

    Args:
        state: The pool; the job sets must be defined.
        jobs: What the database knows of them.
        reason: Reason of the change request.
        now_s: Now.

    Raises:
        NotFound: A job set is not defined.
    """
    events = EventBuffer(state, now_s)
    job_set = state.job_sets.ids.indices(jobs.job_set)
    events.add_ended(jobs.handle, jobs.id_high, job_set, reason=events.reason(reason))
    return events.draft()

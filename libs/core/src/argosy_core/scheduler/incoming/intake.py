"""What comes in from people: jobs, and requests to change them.

Owns how rows of `changes` are taken; what they refer to is in `definitions`, clusters in `capacity`.

Source: design section 5, "Take changes", "Change requests".
"""

from __future__ import annotations

from typing import Final

import numpy as np

from argosy_core.arrays import Int32s, has_true, true_places
from argosy_core.job.tables.live import AWAITING, CANCEL_REQUESTED, STOP_SENT, NewJobs
from argosy_core.scheduler.columns.codes import (
    EVENT_CANCEL_REQUESTED,
    EVENT_CANCELLED,
    EVENT_REPRIORITIZED,
    EVENT_SUBMITTED,
    JOB_CANCELLED,
    JOB_QUEUED,
)
from argosy_core.scheduler.columns.messages import (
    ChangeRequestColumns,
    EndedJobs,
    JobColumns,
    Missing,
)
from argosy_core.scheduler.columns.rows import job_ends
from argosy_core.scheduler.incoming.holding import hold, release
from argosy_core.scheduler.incoming.ingest import give_back_placements
from argosy_core.scheduler.incoming.unfit import intern_specs, note_too_large, note_unfit
from argosy_core.scheduler.memory.flows import advance_flows, note_lifetimes
from argosy_core.scheduler.memory.state import PoolState
from argosy_core.scheduler.outgoing.effects import ChangeRequestEffects, TakeEffects
from argosy_core.scheduler.outgoing.events import Detail, EventBuffer, EventDraft
from argosy_core.scheduler.runs.preempting import preempt

__all__ = [
    "CANCEL",
    "add_jobs",
    "missing",
    "note_ended",
    "take_change_requests",
    "take_jobs",
]

CANCEL: Final = 1
"""Kind of a change request."""
_REPRIORITIZE: Final = 2
_PREEMPT: Final = 3
_HOLD: Final = 4
_RELEASE: Final = 5


def missing(state: PoolState, columns: JobColumns) -> Missing:
    """Return what must be defined before `take_jobs` takes these columns."""
    return Missing(
        class_ids=state.classes.ids.unknown(columns.class_id),
        queue_ids=state.queues.ids.unknown(columns.queue),
        job_set_ids=state.job_sets.ids.unknown(columns.job_set),
    )


def add_jobs(state: PoolState, columns: JobColumns, rows: Int32s, *, most_metadata_bytes: int | None = None) -> Int32s:
    """Add some of the jobs to the table, counted as queued but in no order yet, and return their slots.

    Args:
        state: The pool.
        columns: The jobs.
        rows: Which of them.
        most_metadata_bytes: Labels and annotations that a queue may have; jobs with more are unfit and have none. None
            for those that an earlier leader took.

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
    too_large = live.metadata_texts.charge(metadata.astype(np.int32), queue, most_metadata_bytes)
    metadata = np.where(too_large, np.int32(-1), metadata)
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
        note_lifetimes(state)
    if columns.options is not None and has_true(columns.options.job_set_limit >= 0):
        everyone = live.live_slots()
        state.job_set_limits.note(live, slots, everyone[~state.stage_is_queued(everyone)])
    state.count_queued(slots, 1)
    if bad_specs or state.classes.refused:
        note_unfit(state, slots, columns.spec[rows], bad_specs)
    if has_true(too_large):
        note_too_large(state, slots[too_large])
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
    slots = add_jobs(state, columns, rows, most_metadata_bytes=state.settings.queue_metadata_bytes)
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
    """Carry out what users ask of jobs: to end, move, preempt, hold or release them.

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
    advance_flows(state, now_s)
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

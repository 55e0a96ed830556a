"""What becomes of runs that ended and of their jobs: ends, events, releases, and another attempt or none.

Source: design section 4, "States and rows"; section 5, "Sync", "Node lost".
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import Bools, Int8s, Int32s, Int64s, are_among, has_true, true_places
from argosy_core.job.reading.retry_rules import RETRIED
from argosy_core.job.states import (
    FAILURE_REASONS,
    IS_RUN_TERMINAL,
    FailureKind,
)
from argosy_core.job.tables.live import BACKING_OFF, CANCEL_REQUESTED, HELD, STOP_SENT, TIMED_OUT
from argosy_core.job.tables.members import MAX_STORED_ATTEMPT, Members
from argosy_core.job.tables.rows import JobUpdates, RunUpdates
from argosy_core.scheduler.columns.codes import (
    EVENT_CANCELLED,
    EVENT_FAILED,
    EVENT_MEMBER_ENDED,
    EVENT_REQUEUED,
    EVENT_SUCCEEDED,
    JOB_CANCELLED,
    JOB_FAILED,
    JOB_QUEUED,
    JOB_SUCCEEDED,
    RUN_CANCELLED,
    RUN_FAILED,
    RUN_LOST,
    RUN_PREEMPTED,
    RUN_RETURNED,
    RUN_SUCCEEDED,
)
from argosy_core.scheduler.columns.messages import ClusterRuns, StateColumns
from argosy_core.scheduler.columns.rows import Texts, job_ends, job_updates, run_updates, runs_by_cluster
from argosy_core.scheduler.memory.replacing import are_extras
from argosy_core.scheduler.memory.run_members import follow_members, run_states
from argosy_core.scheduler.memory.state import PoolState
from argosy_core.scheduler.memory.work_ends import note_ended
from argosy_core.scheduler.outgoing.events import Detail, EventBuffer
from argosy_core.scheduler.runs.preempting import are_preempted
from argosy_core.scheduler.runs.progress import Progress
from argosy_core.scheduler.runs.retrying import failed_run_limits, run_back_off_s
from argosy_core.scheduler.runs.returning import note_returned

__all__ = ["NOTHING_ENDED", "Ended", "finish"]

_RETURNED: Final = int(FailureKind.RETURNED)
_NO_NODES: Final = np.array([FailureKind.REJECTED, FailureKind.TIME_LIMIT, _RETURNED])
"""Failures with which no node has to do."""
_TIMED_OUT: Final = "its run reached its time limit"
_BROKEN: Final = "stopped: a member of its run failed, was lost or was cancelled"
_TAKEN_BACK: Final = "taken back: a job that waits needs its room"
_REQUEUE: Final = JOB_QUEUED
_NO_SLOTS: Final = np.zeros(0, dtype=np.int32)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ends:
    """Runs that ended, one element each."""

    slots: Int32s
    """Jobs."""
    pod_end: Int8s
    """SUCCEEDED, FAILED, CANCELLED or LOST, as the pods did."""
    time_us: Int64s
    """When."""
    failure: Int64s
    """FailureKind."""
    exit_code: Int64s
    """Exit codes."""
    reason: Int64s
    """Index into `texts`, or -1."""
    texts: Texts
    """Reasons."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _RunEnds:
    """Ends of members as rows of `runs`, one element each; runs without rows of members are their member 0."""

    slots: Int32s
    """Jobs."""
    keys: Members
    """Who ended."""
    node: Int32s
    """Node name indices."""
    end: npt.NDArray[np.int16]
    """Run states."""
    start_time_us: Int64s
    """When each began to run."""
    time_us: Int64s
    """When."""
    failure: Int64s
    """FailureKind."""
    exit_code: Int64s
    """Exit codes."""
    reason: Int64s
    """Index into the texts, or -1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What follows from ended runs."""

    run_updates: RunUpdates
    """Rows of the runs."""
    job_updates: JobUpdates
    """Rows of the jobs that ended with them."""
    releases: tuple[ClusterRuns, ...]
    """Placements that ended."""
    requeued_count: int
    """Jobs that wait again."""


NOTHING_ENDED: Final = Ended(
    run_updates=run_updates([np.zeros(0, dtype=np.int64)] * 8, Texts(), None),
    job_updates=job_ends(np.zeros(0, dtype=np.int64), JOB_CANCELLED, 0, ""),
    releases=(),
    requeued_count=0,
)
"""What follows where no run ended."""


def finish(state: PoolState, columns: StateColumns, progress: Progress, *, events: EventBuffer, now_s: float) -> Ended:
    """End runs and members: decide what becomes of their jobs, write events, free what they held.

    Args:
        state: The pool.
        columns: What was reported.
        progress: What ended by it.
        events: Takes the last event of each run.
        now_s: Now.

    Complexity: O(n log n) in NumPy for n ends; Python work per distinct failure and for failing bags.
    """
    ends = _collect(state, columns, progress, Texts())
    live, slots = state.live, ends.slots
    handle, attempt = live.handle[slots], live.attempt[slots].astype(np.int32)
    ends = _preempt(state, _time_out(state, ends))
    run_end, job_end, limits = _judge(state, ends)
    exhausted = (job_end == _REQUEUE) & (limits > 0)
    reason = ends.reason.copy()
    worn = ~exhausted & (job_end == _REQUEUE) & (attempt >= MAX_STORED_ATTEMPT)
    texts = [(exhausted & (limits == limit), limit) for limit in np.unique(limits[exhausted]).tolist()]
    for chosen, text in (
        *((chosen, f"{limit} runs ended for reasons that are not the job's own") for chosen, limit in texts),
        (worn, f"a job has at most {MAX_STORED_ATTEMPT} runs"),
    ):
        if has_true(chosen):
            job_end[chosen] = JOB_FAILED
            reason[chosen] = ends.texts.index(text)
    rows = _run_ends(state, replace(ends, reason=reason), run_end, columns=columns, progress=progress)
    releases = runs_by_cluster(state.clusters.names, live.cluster[rows.slots], rows.keys)
    _note_nodes(state, rows, now_s)
    runs = run_updates(
        (
            rows.keys.handle, rows.keys.attempt, rows.end, rows.start_time_us, rows.time_us, rows.exit_code,
            rows.failure, rows.reason,
        ),
        ends.texts,
        rows.keys.numbers(),
    )  # fmt: skip
    if progress.ended_members:
        touched = np.unique(rows.slots)
        follow_members(state, touched[~IS_RUN_TERMINAL[live.run_state[touched]] & live.members.has(touched)])
        _say_members(state, rows, texts=ends.texts, events=events)
    again = job_end == _REQUEUE
    done = job_end == JOB_SUCCEEDED
    note_ended(state, slots[done], ends.time_us[done])
    _say_ends(events, slots, ends, job_end=job_end, reason=reason)
    state.give_back(slots)
    returned = run_end == RUN_RETURNED
    if has_true(returned):
        note_returned(state, slots[returned], texts=ends.texts.all(), reason=ends.reason[returned], now_s=now_s)
    _requeue(state, slots[again], np.where(returned, 0, ends.failure)[again], now_s)
    over = ~again
    jobs = job_updates(handle[over], job_end[over], ends.time_us[over], reason=reason[over], texts=ends.texts)
    state.remove_jobs(slots[over], job_end[over].astype(np.int32))
    state.totals["requeued"] += int(again.sum())
    for name, code in (
        ("succeeded", JOB_SUCCEEDED),
        ("failed", JOB_FAILED),
        ("cancelled", JOB_CANCELLED),
    ):
        state.totals[name] += int((job_end == code).sum())
    return Ended(
        run_updates=runs,
        job_updates=jobs,
        releases=releases,
        requeued_count=int(again.sum()),
    )


def _collect(state: PoolState, columns: StateColumns, progress: Progress, texts: Texts) -> _Ends:
    """Return the runs that ended by reports, with what their failure was."""
    slots = np.concatenate([_NO_SLOTS, *(part.slots for part in progress.ended)])
    rows = np.concatenate([np.zeros(0, np.int64), *(part.rows for part in progress.ended)])
    end = np.concatenate([np.zeros(0, np.int8), *(part.end for part in progress.ended)])
    failure = columns.failure[rows].astype(np.int64)
    exit_code = columns.exit_code[rows].astype(np.int64)
    reason = _reasons(columns, rows, end, texts)
    if state.bag_failures:
        # The element that ended a bag's run may be about another object than the one that failed first.
        for row, handle in enumerate(state.live.handle[slots].tolist()):
            first = state.bag_failures.pop(handle, None)
            if first is not None:
                failure[row], exit_code[row] = first.failure, first.exit_code
                reason[row] = texts.index(first.reason or FAILURE_REASONS.get(FailureKind(first.failure), ""))
    return _Ends(
        slots=slots,
        pod_end=end,
        time_us=columns.time_us[rows],
        failure=failure,
        exit_code=exit_code,
        reason=reason,
        texts=texts,
    )


def _reasons(columns: StateColumns, rows: Int64s, end: Int8s, texts: Texts) -> Int64s:
    """Return the index of the reason of each end that is no success, -1 for the others."""
    reason = np.full(rows.size, -1, dtype=np.int64)
    bad = true_places(end != RUN_SUCCEEDED)
    if bad.size:
        failure, message = columns.failure[rows[bad]].astype(np.int64), columns.message[rows[bad]].astype(np.int64)
        pairs, inverse = np.unique(failure << 32 | (message + 1), return_inverse=True)
        indices = [texts.index(_reason(pair >> 32, columns.texts, (pair & 0xFFFFFFFF) - 1)) for pair in pairs.tolist()]
        reason[bad] = np.array(indices, dtype=np.int64)[inverse.ravel()]
    return reason


def _reason(failure: int, texts: tuple[str, ...], message: int) -> str:
    """Return the executor's message, or the general text for the kind of failure."""
    if message >= 0:
        return texts[message]
    return FAILURE_REASONS[FailureKind(failure)] if failure in FailureKind.__members__.values() else ""


def _run_ends(
    state: PoolState, ends: _Ends, run_end: npt.NDArray[np.int16], *, columns: StateColumns, progress: Progress
) -> _RunEnds:
    """Return the ends of members: of the runs that ended and have no rows of members, and of those that have."""
    live, slots = state.live, ends.slots
    alone = true_places(~live.members.has(slots)) if progress.ended_members else slice(None)
    single = _RunEnds(
        slots=slots[alone],
        keys=Members.of(live.handle[slots[alone]], live.attempt[slots[alone]]),
        node=live.node[slots[alone]],
        end=run_end[alone],
        start_time_us=live.start_time_us[slots[alone]],
        time_us=ends.time_us[alone],
        failure=ends.failure[alone],
        exit_code=ends.exit_code[alone],
        reason=ends.reason[alone],
    )
    if not progress.ended_members:
        return single
    parts = [single]
    for part in progress.ended_members:
        stopped = (live.flags[part.slots] & STOP_SENT) != 0
        keys = Members.of(live.handle[part.slots], live.attempt[part.slots], part.numbers)
        reason = _reasons(columns, part.rows, part.end, ends.texts)
        parts.append(
            _RunEnds(
                slots=part.slots,
                keys=keys,
                node=part.nodes,
                end=np.where(stopped & (part.end != RUN_SUCCEEDED), _stopped_end(state, part.slots), part.end).astype(
                    np.int16
                ),
                start_time_us=part.start_time_us,
                time_us=columns.time_us[part.rows],
                failure=columns.failure[part.rows].astype(np.int64),
                exit_code=columns.exit_code[part.rows].astype(np.int64),
                reason=_say_why_stopped(state, part.slots, keys, end=part.end, reason=reason, texts=ends.texts),
            )
        )
    names = [field.name for field in fields(_RunEnds) if field.name != "keys"]
    joined = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    return _RunEnds(keys=Members.concatenate([part.keys for part in parts]), **joined)


def _say_why_stopped(
    state: PoolState, slots: Int32s, keys: Members, *, end: Int8s, reason: Int64s, texts: Texts
) -> Int64s:
    """Return the reasons of members' ends, with why it was of those that were stopped by this leader or the last.

    Args:
        state: The pool.
        slots: Job of each.
        keys: Who ended.
        end: How each did, as its pods.
        reason: What its cluster says, as index into the texts, or -1.
        texts: Takes the reasons.
    """
    live, told = state.live, reason.copy()
    flags, cancelled = live.flags[slots], end == RUN_CANCELLED
    stopped = ((flags & STOP_SENT) != 0) & (end != RUN_SUCCEEDED)
    timed_out, preempted = (flags & TIMED_OUT) != 0, are_preempted(state, slots)
    of_others = cancelled & (reason < 0) & ((flags & (CANCEL_REQUESTED | TIMED_OUT)) == 0) & ~preempted
    taken_back = np.zeros(slots.size, dtype=np.bool_)
    if state.extras.stopping:
        taken_back = cancelled & np.array([key in state.extras.stopping for key in keys.pairs()], dtype=np.bool_)
    of_others &= ~taken_back
    if has_true(of_others):
        jobs, which = np.unique(slots, return_inverse=True)
        of_others &= run_states(state, jobs)[1][which]
    for chosen, text in (
        (of_others, _BROKEN),
        (~stopped & taken_back, _TAKEN_BACK),
        (stopped & timed_out, _TIMED_OUT),
    ):
        if has_true(chosen):
            told[chosen] = texts.index(text)
    for row in true_places(stopped & preempted & ~timed_out).tolist():
        told[row] = texts.index(f"preempted: {state.room.preempted[int(live.handle[slots[row]])]}")
    return told


def _note_nodes(state: PoolState, ends: _RunEnds, now_s: float) -> None:
    """Remember on which nodes runs failed."""
    failed = (ends.end == RUN_FAILED) & ~are_among(ends.failure, _NO_NODES)
    slots = ends.slots[failed]
    if slots.size:
        live = state.live
        job_sets = state.job_sets.job_set_id[live.job_set[slots]].tolist()
        class_ids = state.classes.class_id[live.class_index[slots]].tolist()
        nodes = zip(live.cluster[slots].tolist(), ends.node[failed].tolist(), strict=True)
        state.node_failures.note(zip(job_sets, class_ids, nodes, strict=True), now_s)


def _time_out(state: PoolState, ends: _Ends) -> _Ends:
    """Return the ends with those of runs that were stopped at their time limits as failures of that kind."""
    live = state.live
    flags = live.flags[ends.slots]
    is_ours = ((flags & STOP_SENT) != 0) | (ends.pod_end == RUN_CANCELLED)
    rows = true_places(((flags & TIMED_OUT) != 0) & is_ours & (ends.pod_end != RUN_SUCCEEDED))
    if not rows.size:
        return ends
    pod_end, failure, reason = ends.pod_end.copy(), ends.failure.copy(), ends.reason.copy()
    pod_end[rows], failure[rows] = RUN_FAILED, FailureKind.TIME_LIMIT
    limits_s = live.time_limit_s[ends.slots[rows]].tolist()
    reason[rows] = [ends.texts.index(f"the run took longer than its time limit of {limit_s} s") for limit_s in limits_s]
    return replace(ends, pod_end=pod_end, failure=failure, reason=reason)


def _preempt(state: PoolState, ends: _Ends) -> _Ends:
    """Return the ends with those of runs that were stopped to make room as no failures, and with that as the reason."""
    preempted = are_preempted(state, ends.slots) & ((state.live.flags[ends.slots] & STOP_SENT) != 0)
    rows = true_places(preempted & (ends.pod_end != RUN_SUCCEEDED) & (ends.failure != FailureKind.TIME_LIMIT))
    if not rows.size:
        return ends
    failure, reason = ends.failure.copy(), ends.reason.copy()
    failure[rows] = FailureKind.NONE
    handles = state.live.handle[ends.slots[rows]].tolist()
    reason[rows] = [ends.texts.index(f"preempted: {state.room.preempted[handle]}") for handle in handles]
    return replace(ends, failure=failure, reason=reason)


def _stopped_end(state: PoolState, slots: Int32s) -> npt.NDArray[np.int16]:
    """Return how runs have ended that were stopped, and did not succeed before that."""
    asked = (state.live.flags[slots] & CANCEL_REQUESTED) != 0
    return np.where(are_preempted(state, slots) & ~asked, RUN_PREEMPTED, RUN_CANCELLED).astype(np.int16)


def _judge(state: PoolState, ends: _Ends) -> tuple[npt.NDArray[np.int16], npt.NDArray[np.int16], Int64s]:
    """Return how each run ended, what its job becomes (QUEUED: waits again), and how many failed runs are too many.

    The third is 0 where the run did not fail, or where so many have not failed yet. What the pod did wins over what was
    asked; a pod that did not succeed after its stop was sent was killed by it.
    """
    live, slots = state.live, ends.slots
    flags = live.flags[slots]
    asked, stopped = (flags & CANCEL_REQUESTED) != 0, ((flags & STOP_SENT) != 0) & ((flags & TIMED_OUT) == 0)
    succeeded = ends.pod_end == RUN_SUCCEEDED
    run_end = np.where(stopped & ~succeeded, _stopped_end(state, slots), ends.pod_end).astype(np.int16)
    run_end[_are_returned(ends) & (run_end == RUN_FAILED) & (live.start_time_us[slots] == 0)] = (
        RUN_RETURNED  # which is nobody's failure
    )
    limits = np.zeros(slots.size, dtype=np.int64)
    failed = true_places((run_end == RUN_FAILED) | (run_end == RUN_LOST))
    if failed.size:
        live.failures[slots[failed]] += 1
        limits[failed] = failed_run_limits(state, slots[failed], run_end[failed], ends.failure[failed])
        limits[live.failures[slots] < limits] = 0
    own = (run_end == RUN_FAILED) & (limits > 0) & ~are_among(ends.failure, np.array(RETRIED))
    otherwise = np.where(own, JOB_FAILED, np.where(asked, JOB_CANCELLED, JOB_QUEUED))
    job_end = np.where(succeeded, JOB_SUCCEEDED, otherwise)
    return run_end, job_end.astype(np.int16), limits


def _are_returned(ends: _Ends) -> Bools:
    """Return which runs their clusters gave back unplaced."""
    returned: Bools = (ends.pod_end == RUN_FAILED) & (ends.failure == _RETURNED)
    return returned


def _say_ends(
    events: EventBuffer, slots: Int32s, ends: _Ends, *, job_end: npt.NDArray[np.int16], reason: Int64s
) -> None:
    """Write the last event of each run."""
    texts = ends.texts.all()
    table = np.array([events.reason(text) for text in texts] + [-1], dtype=np.int64)
    kinds = (
        (JOB_SUCCEEDED, EVENT_SUCCEEDED, False),
        (JOB_FAILED, EVENT_FAILED, True),
        (JOB_CANCELLED, EVENT_CANCELLED, False),
        (JOB_QUEUED, EVENT_REQUEUED, True),
    )
    for code, kind, place in kinds:
        chosen = job_end == code
        if has_true(chosen):
            events.add(
                slots[chosen],
                int(kind),
                to_state=int(code),
                time_us=ends.time_us[chosen],
                reason=table[reason[chosen]],
                with_run=Detail.PLACE if place else Detail.ATTEMPT,
            )


def _say_members(state: PoolState, ends: _RunEnds, *, texts: Texts, events: EventBuffer) -> None:
    """Write an event for each member that ended while its run goes on and nobody stops it, and count those taken back.

    What is stopped with its run is told by the run's own end.
    """
    live = state.live
    goes_on = ~IS_RUN_TERMINAL[live.run_state[ends.slots]] & ((live.flags[ends.slots] & STOP_SENT) == 0)
    rows = true_places(goes_on)
    if not rows.size:
        return
    table = np.array([events.reason(text) for text in texts.all()] + [-1], dtype=np.int64)
    numbers, slots = ends.keys.member[rows], ends.slots[rows]
    events.add_members(
        slots,
        EVENT_MEMBER_ENDED,
        numbers=numbers,
        nodes=ends.node[rows],
        time_us=ends.time_us[rows],
        reason=table[ends.reason[rows]],
    )
    is_extra, is_cancelled = are_extras(state, slots, numbers), ends.end[rows] == RUN_CANCELLED
    state.totals["members_taken_back"] += int((is_extra & is_cancelled).sum())


def _requeue(state: PoolState, slots: Int32s, failure: Int64s, now_s: float) -> None:
    """Put jobs back to their places in their queues; after a failure only when a back-off is over."""
    if slots.size == 0:
        return
    live = state.live
    state.count_held(slots, -1)
    state.end_permits(slots)
    live.state[slots] = JOB_QUEUED
    live.start_time_us[slots] = 0
    live.flags[slots] &= HELD
    state.totals["preempted"] += int(are_preempted(state, slots).sum())
    for handle in live.handle[slots].tolist() if state.room.preempted else ():
        state.room.preempted.pop(handle, None)
    live.leave_places(slots)
    state.count_queued(slots, 1)
    failed = failure > 0
    if has_true(failed):
        state.back_off_until(slots[failed], now_s + run_back_off_s(state, slots[failed]))
    state.push_queued(slots[(live.flags[slots] & BACKING_OFF) == 0])

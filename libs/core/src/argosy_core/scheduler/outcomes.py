"""What executors report: states of objects become states of runs and jobs, ends, releases and new attempts.

Source: design section 4, "States and rows"; section 5, "Sync", "Node lost", "Executor lost".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import Bools, Int8s, Int32s, Int64s
from argosy_core.job.live import BACKING_OFF, CANCEL_REQUESTED, IN_FLIGHT, STOP_SENT
from argosy_core.job.members import MAX_STORED_ATTEMPT, Members, waves
from argosy_core.job.rows import JobUpdates, ObjectUpdates, RunUpdates
from argosy_core.job.states import (
    FAILURE_REASONS,
    IS_RUN_TERMINAL,
    FailureKind,
)
from argosy_core.scheduler.codes import (
    EVENT_CANCELLED,
    EVENT_FAILED,
    EVENT_REQUEUED,
    EVENT_SUCCEEDED,
    FAILURE_EVICTED,
    FAILURE_INFRASTRUCTURE,
    JOB_CANCELLED,
    JOB_FAILED,
    JOB_QUEUED,
    JOB_SUCCEEDED,
    OBJECT_FAILED,
    OBJECT_LEASED,
    OBJECT_LOST,
    OBJECT_UNKNOWN,
    RUN_CANCELLED,
    RUN_FAILED,
    RUN_LOST,
    RUN_SUCCEEDED,
)
from argosy_core.scheduler.effects import StateEffects
from argosy_core.scheduler.events import Detail, EventBuffer
from argosy_core.scheduler.messages import ClusterRuns, StateColumns, join_states
from argosy_core.scheduler.progress import Progress
from argosy_core.scheduler.rows import Texts, job_ends, job_updates, object_updates, run_updates, runs_by_cluster
from argosy_core.scheduler.state import PoolState

__all__ = ["failed_states", "forget_cluster", "take_states"]

_RETRIED: Final = (FAILURE_EVICTED, FAILURE_INFRASTRUCTURE)
"""Failures that are not the job's own."""
_REQUEUE: Final = JOB_QUEUED


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
class _Outcome:
    """What follows from ended runs."""

    run_updates: RunUpdates
    """Rows of the runs."""
    job_updates: JobUpdates
    """Rows of the jobs that ended with them."""
    releases: tuple[ClusterRuns, ...]
    """Placements that ended."""
    requeued_count: int
    """Jobs that wait again."""


_NOTHING_ENDED: Final = _Outcome(
    run_updates=run_updates([np.zeros(0, dtype=np.int64)] * 8, Texts()),
    job_updates=job_ends(np.zeros(0, dtype=np.int64), JOB_CANCELLED, 0, ""),
    releases=(),
    requeued_count=0,
)


def take_states(state: PoolState, reports: Sequence[tuple[str, StateColumns]], now_s: float) -> StateEffects:
    """Take states of objects from executors, all at once: a round costs the same however many clusters report.

    States apply by rank, never backwards, and what has ended absorbs everything. Every state that a job reached gets
    its event, also one that was overtaken: a pod that ended was created, and one that ended by itself ran. Elements of
    runs that are not live here change nothing but their own rows; such a run is told to stop unless it has ended.

    Args:
        state: The pool.
        reports: One or more (cluster, its states); those of a cluster in order of observation.
        now_s: Now.

    Raises:
        NotFound: A cluster is not known.

    Complexity: O(n log n) in NumPy for n elements; Python work only per cluster with ended or strange runs, per
    distinct failure and for failing bags.
    """
    live = state.live
    indices = [state.clusters.index(cluster) for cluster, _ in reports]
    clusters = np.repeat(indices, [part.handle.size for _, part in reports])
    columns = join_states([part for _, part in reports])
    slots = live.slots(columns.handle)
    current = _is_current(state, clusters, columns, slots)
    state.advance_flow(now_s)
    events = EventBuffer(state, now_s)
    progress = Progress(state, columns, events)
    rows = np.flatnonzero(current)
    for wave in waves(slots[rows]):
        progress.apply(rows[wave], slots[rows[wave]])
    stale = ~current
    stale_count = columns.handle.size - rows.size
    ended: tuple[tuple[str, ObjectUpdates], ...] = ()
    if stale_count:
        # An attempt that no row can have would be written to another's.
        has_row = stale & (columns.attempt > 0) & (columns.attempt <= MAX_STORED_ATTEMPT)
        ended_stale = np.flatnonzero(has_row & IS_RUN_TERMINAL[np.clip(columns.state, 0, len(IS_RUN_TERMINAL) - 1)])
        ended = _ended_updates(state, (clusters, columns), ended_stale)
        state.totals["stale"] += stale_count
    # Read before anything that ended leaves its slot.
    start_time_us = np.where(current, live.start_time_us[slots], 0)
    updates = object_updates(columns, np.concatenate([*progress.applied, rows[:0]]), start_time_us)
    stops: tuple[ClusterRuns, ...] = ()
    if stale_count or progress.broken:
        broken = np.concatenate([*progress.broken, np.zeros(0, dtype=np.int32)])
        stops = _stops(state, (clusters, columns), slots, stale=stale, broken=broken)
    outcome = _NOTHING_ENDED
    if progress.ended:
        outcome = _finish(state, _collect(state, columns, progress), events=events, now_s=now_s)
    return StateEffects(
        object_updates=updates,
        ended_updates=ended,
        run_updates=outcome.run_updates,
        job_updates=outcome.job_updates,
        events=events.draft(),
        releases=outcome.releases,
        stops=stops,
        requeued_count=outcome.requeued_count,
        stale_count=stale_count,
    )


def _ended_updates(
    state: PoolState, reported: tuple[Int64s, StateColumns], rows: npt.NDArray[np.integer]
) -> tuple[tuple[str, ObjectUpdates], ...]:
    """Return what clusters say of runs that are not live here, apart: one must not write another's rows."""
    clusters, columns = reported
    nothing = np.zeros(columns.handle.size, dtype=np.int64)
    return tuple(
        (state.clusters.names[index], object_updates(columns, rows[clusters[rows] == index], nothing))
        for index in np.unique(clusters[rows]).tolist()
    )


def _is_current(state: PoolState, clusters: Int64s, columns: StateColumns, slots: Int32s) -> Bools:
    """Return which elements are about the current, ingested run of a live job in the cluster that reports."""
    live = state.live
    current: Bools = slots >= 0
    current &= (live.attempt[slots] == columns.attempt) & (live.cluster[slots] == clusters)
    current &= ((live.flags[slots] & IN_FLIGHT) == 0) & (live.run_state[slots] > 0)
    objects = live.specs.object_counts(np.where(current, live.spec[slots], 0))
    current &= (columns.object_index >= 0) & (columns.object_index < objects)
    return current & (columns.state >= OBJECT_LEASED) & (columns.state <= OBJECT_UNKNOWN)


def _stops(
    state: PoolState, reported: tuple[Int64s, StateColumns], slots: Int32s, *, stale: Bools, broken: Int32s
) -> tuple[ClusterRuns, ...]:
    """Return the runs to stop: those that are not live here and have not ended, and bags that broke."""
    live = state.live
    clusters, columns = reported
    strange = (
        stale
        & (columns.attempt > 0)
        & (columns.state > 0)
        & ~IS_RUN_TERMINAL[np.clip(columns.state, 0, len(IS_RUN_TERMINAL) - 1)]
    )
    # A run that is just being ingested is live although nothing may be reported of it yet.
    strange &= ~((slots >= 0) & ((live.flags[slots] & IN_FLIGHT) != 0) & (live.attempt[slots] == columns.attempt))
    return runs_by_cluster(
        state.clusters.names,
        np.concatenate([clusters[strange], live.cluster[broken]]),
        Members.of(
            np.concatenate([columns.handle[strange], live.handle[broken]]),
            np.concatenate([columns.attempt[strange], live.attempt[broken]]),
        ),
    )


def _collect(state: PoolState, columns: StateColumns, progress: Progress) -> _Ends:
    """Return the runs that ended by reports, with what their failure was."""
    slots = np.concatenate([part.slots for part in progress.ended])
    rows = np.concatenate([part.rows for part in progress.ended])
    end = np.concatenate([part.end for part in progress.ended])
    texts = Texts()
    failure = columns.failure[rows].astype(np.int64)
    exit_code = columns.exit_code[rows].astype(np.int64)
    message = columns.message[rows].astype(np.int64)
    reason = np.full(rows.size, -1, dtype=np.int64)
    bad = np.flatnonzero(end != RUN_SUCCEEDED)
    if bad.size:
        pairs, inverse = np.unique(failure[bad] << 32 | (message[bad] + 1), return_inverse=True)
        indices = [texts.index(_reason(pair >> 32, columns.texts, (pair & 0xFFFFFFFF) - 1)) for pair in pairs.tolist()]
        reason[bad] = np.array(indices, dtype=np.int64)[inverse.ravel()]
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


def _reason(failure: int, texts: tuple[str, ...], message: int) -> str:
    """Return the executor's message, or the general text for the kind of failure."""
    if message >= 0:
        return texts[message]
    return FAILURE_REASONS[FailureKind(failure)] if failure in FailureKind.__members__.values() else ""


def _finish(state: PoolState, ends: _Ends, *, events: EventBuffer, now_s: float) -> _Outcome:
    """End runs: decide what becomes of their jobs, write events, free what they held."""
    live, slots = state.live, ends.slots
    handle, attempt = live.handle[slots], live.attempt[slots].astype(np.int32)
    releases = runs_by_cluster(state.clusters.names, live.cluster[slots], Members.of(handle, attempt))
    run_end, job_end = _judge(state, ends)
    failed = (run_end == RUN_FAILED) | (run_end == RUN_LOST)
    live.failures[slots[failed]] += 1
    _note_nodes(state, slots[(run_end == RUN_FAILED) & (ends.failure != FailureKind.REJECTED)], now_s)
    exhausted = (job_end == _REQUEUE) & (live.failures[slots] >= state.settings.max_runs)
    reason = ends.reason.copy()
    worn = ~exhausted & (job_end == _REQUEUE) & (attempt >= MAX_STORED_ATTEMPT)
    for chosen, text in (
        (exhausted, f"{state.settings.max_runs} runs ended for reasons that are not the job's own"),
        (worn, f"a job has at most {MAX_STORED_ATTEMPT} runs"),
    ):
        if chosen.any():
            job_end[chosen] = JOB_FAILED
            reason[chosen] = ends.texts.index(text)
    runs = run_updates(
        (handle, attempt, run_end, live.start_time_us[slots], ends.time_us, ends.exit_code, ends.failure, reason),
        ends.texts,
    )
    again = job_end == _REQUEUE
    _say_ends(events, slots, ends, job_end=job_end, reason=reason)
    state.give_back(slots)
    _requeue(state, slots[again], ends.failure[again], now_s)
    over = ~again
    jobs = job_updates(handle[over], job_end[over], ends.time_us[over], reason=reason[over], texts=ends.texts)
    state.remove_jobs(slots[over])
    state.totals["requeued"] += int(again.sum())
    for name, code in (
        ("succeeded", JOB_SUCCEEDED),
        ("failed", JOB_FAILED),
        ("cancelled", JOB_CANCELLED),
    ):
        state.totals[name] += int((job_end == code).sum())
    return _Outcome(
        run_updates=runs,
        job_updates=jobs,
        releases=releases,
        requeued_count=int(again.sum()),
    )


def _note_nodes(state: PoolState, slots: Int32s, now_s: float) -> None:
    """Remember on which nodes runs failed; no node has to do with an object that the API server refused."""
    if slots.size:
        live = state.live
        job_sets = state.job_sets.job_set_id[live.job_set[slots]].tolist()
        class_ids = state.classes.class_id[live.class_index[slots]].tolist()
        nodes = zip(live.cluster[slots].tolist(), live.node[slots].tolist(), strict=True)
        state.node_failures.note(zip(job_sets, class_ids, nodes, strict=True), now_s)


def _judge(state: PoolState, ends: _Ends) -> tuple[npt.NDArray[np.int16], npt.NDArray[np.int16]]:
    """Return how each run ended and what its job becomes (QUEUED: waits again).

    What the pod did wins over what was asked; a pod that did not succeed after its stop was sent was killed by it.
    """
    flags = state.live.flags[ends.slots]
    asked, stopped = (flags & CANCEL_REQUESTED) != 0, (flags & STOP_SENT) != 0
    succeeded = ends.pod_end == RUN_SUCCEEDED
    run_end = np.where(stopped & ~succeeded, RUN_CANCELLED, ends.pod_end).astype(np.int16)
    own = run_end == RUN_FAILED
    if own.any():
        own &= ~np.isin(ends.failure, _RETRIED)
    job_end = np.select([succeeded, own, asked], [JOB_SUCCEEDED, JOB_FAILED, JOB_CANCELLED], JOB_QUEUED)
    return run_end, job_end.astype(np.int16)


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
        if chosen.any():
            events.add(
                slots[chosen],
                int(kind),
                to_state=int(code),
                time_us=ends.time_us[chosen],
                reason=table[reason[chosen]],
                with_run=Detail.PLACE if place else Detail.ATTEMPT,
            )


def _requeue(state: PoolState, slots: Int32s, failure: Int64s, now_s: float) -> None:
    """Put jobs back to their places in their queues; after a failure only when a back-off is over."""
    if slots.size == 0:
        return
    live = state.live
    state.count_held(slots, -1)
    state.end_permits(slots)
    live.state[slots] = JOB_QUEUED
    live.run_state[slots] = 0
    live.cluster[slots] = -1
    live.node[slots] = -1
    live.start_time_us[slots] = 0
    live.flags[slots] = 0
    live.free_bags(slots)
    state.count_queued(slots, 1)
    failed = failure > 0
    if failed.any():
        state.back_off_until(slots[failed], now_s + back_off_s(state, live.failures[slots[failed]].astype(np.int64)))
    state.push_queued(slots[(live.flags[slots] & BACKING_OFF) == 0])


def back_off_s(state: PoolState, failures: Int64s) -> npt.NDArray[np.float64]:
    """Return how long to back off after so many failures, seconds: doubling from the first, bounded.

    Args:
        state: The pool.
        failures: int64[n]; 0 counts as 1.
    """
    settings = state.settings
    doublings = np.clip(failures - 1, 0, 40).astype(np.float64)
    return np.minimum(settings.back_off_initial_s * 2.0**doublings, settings.back_off_max_s)


def forget_cluster(state: PoolState, cluster: str, now_s: float) -> StateEffects:
    """Take a cluster for gone, on an administrator's word: its runs are lost and their jobs wait again.

    The cluster counts as gone until `set_cluster` says otherwise; plans adopted until then lease nothing to it. Runs
    that are in flight to it are not touched; call again once their plan was ingested.

    Args:
        state: The pool.
        cluster: Name.
        now_s: Now.

    Raises:
        NotFound: The cluster is not known.
    """
    index = state.clusters.index(cluster)
    state.clusters.connected[index] = False
    state.clusters.forgotten.add(index)
    live = state.live
    slots = live.live_slots()
    slots = slots[(live.cluster[slots] == index) & ((live.flags[slots] & IN_FLIGHT) == 0) & (live.run_state[slots] > 0)]
    text = f"cluster {cluster} was forgotten"
    columns = _every_object(state, slots, OBJECT_LOST, failure=FailureKind.NONE, text=text, now_s=now_s)
    return take_states(state, [(cluster, columns)], now_s)


def failed_states(state: PoolState, runs: Members, reason: str, now_s: float) -> StateColumns:
    """Return states as if an executor had reported that every object of some runs failed, by the job's own fault.

    Args:
        state: The pool.
        runs: The runs; those that are not live are left out.
        reason: Why.
        now_s: Now.
    """
    live = state.live
    slots = live.slots(runs.handle)
    slots = slots[(slots >= 0) & (live.attempt[slots] == runs.attempt) & (live.run_state[slots] > 0)]
    return _every_object(state, slots, OBJECT_FAILED, failure=FailureKind.REJECTED, text=reason, now_s=now_s)


def _every_object(
    state: PoolState, slots: Int32s, reached: int, *, failure: FailureKind, text: str, now_s: float
) -> StateColumns:
    """Return one state for all objects of the present runs of jobs."""
    live = state.live
    counts = live.specs.object_counts(live.spec[slots]).astype(np.int64)
    every = np.repeat(slots, counts)
    place = np.arange(every.size) - np.repeat(np.cumsum(counts) - counts, counts)
    return StateColumns(
        handle=live.handle[every],
        attempt=live.attempt[every].astype(np.int32),
        object_index=place.astype(np.int16),
        state=np.full(every.size, reached, dtype=np.int8),
        time_us=np.full(every.size, round(now_s * 1e6), dtype=np.int64),
        exit_code=np.zeros(every.size, dtype=np.int32),
        failure=np.full(every.size, failure, dtype=np.int8),
        message=np.zeros(every.size, dtype=np.int32),
        uid=bytes(16 * every.size),
        texts=(text,),
    )

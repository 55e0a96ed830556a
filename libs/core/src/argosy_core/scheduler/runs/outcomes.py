"""What executors report: states of objects become states of runs and jobs. What follows from ends is in `ends`.

Source: design section 4, "States and rows"; section 5, "Sync", "Node lost", "Executor lost".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import Bools, Int32s, Int64s, true_places
from argosy_core.job.states import (
    IS_RUN_TERMINAL,
    FailureKind,
)
from argosy_core.job.tables.live import IN_FLIGHT, LiveMembers
from argosy_core.job.tables.members import MAX_STORED_ATTEMPT, Members, waves
from argosy_core.job.tables.rows import ObjectUpdates
from argosy_core.scheduler.columns.codes import (
    OBJECT_FAILED,
    OBJECT_LEASED,
    OBJECT_LOST,
    OBJECT_UNKNOWN,
    RUN_UNKNOWN,
)
from argosy_core.scheduler.columns.messages import ClusterRuns, StateColumns, join_states
from argosy_core.scheduler.columns.rows import object_updates, runs_by_cluster
from argosy_core.scheduler.memory.flows import advance_flows
from argosy_core.scheduler.memory.replacing import rules_of
from argosy_core.scheduler.memory.silence import LOOK_PERIOD_S
from argosy_core.scheduler.memory.state import PoolState
from argosy_core.scheduler.outgoing.effects import StateEffects
from argosy_core.scheduler.outgoing.events import EventBuffer
from argosy_core.scheduler.runs.ends import NOTHING_ENDED, finish
from argosy_core.scheduler.runs.progress import Progress
from argosy_core.scheduler.runs.unheard import next_replacement_s, note_unheard, take_unheard

__all__ = ["failed_states", "forget_cluster", "silent_states", "take_states", "unheard_states"]


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
    held = live.members.find(slots, columns.member) if len(live.members) else None
    current = _is_current(state, clusters, columns, slots=slots, held=held)
    advance_flows(state, now_s)
    events = EventBuffer(state, now_s)
    progress = Progress(state, columns, events)
    rows = true_places(current)
    # What is said of one object twice is taken one after the other, and of members of a run at once.
    subjects = slots[rows] if held is None else np.where(held[rows] < 0, slots[rows], -1 - held[rows])
    for wave in waves(subjects):
        chosen = rows[wave]
        progress.apply(chosen, slots[chosen], None if held is None else held[chosen])
    stale = ~current
    stale_count = columns.handle.size - rows.size
    foreign_counts: dict[str, int] = {}
    ended: tuple[tuple[str, ObjectUpdates], ...] = ()
    if stale_count:
        # An attempt that no row can have would be written to another's.
        has_row = stale & (columns.attempt > 0) & (columns.attempt <= MAX_STORED_ATTEMPT)
        ended_stale = true_places(has_row & IS_RUN_TERMINAL[np.clip(columns.state, 0, len(IS_RUN_TERMINAL) - 1)])
        ended = _ended_updates(state, (clusters, columns), ended_stale)
        state.totals["stale"] += stale_count
        foreign_counts = _foreign_counts(state, clusters, columns, slots)
    # Read before anything that ended leaves its slot.
    start_time_us = np.where(current, live.start_time_us[slots], 0)
    if held is not None:
        start_time_us = np.where(held < 0, start_time_us, live.members.start_time_us[held])
    updates = object_updates(columns, np.concatenate([*progress.applied, rows[:0]]), start_time_us)
    if live.specs.has_rules:
        note_unheard(state, np.unique(slots[current]), now_s)
    stops: tuple[ClusterRuns, ...] = ()
    if stale_count or progress.broken:
        broken = np.concatenate([*progress.broken, np.zeros(0, dtype=np.int32)])
        stops = _stops(state, (clusters, columns), slots, stale=stale, broken=broken)
    outcome = NOTHING_ENDED
    if progress.ended or progress.ended_members:
        outcome = finish(state, columns, progress, events=events, now_s=now_s)
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
        foreign_counts=foreign_counts,
    )


def _foreign_counts(state: PoolState, clusters: Int64s, columns: StateColumns, slots: Int32s) -> dict[str, int]:
    """Return how many elements each cluster told of runs that are live in another, now: nobody gave it those."""
    live = state.live
    foreign = (slots >= 0) & (live.attempt[slots] == columns.attempt) & (live.run_state[slots] > 0)
    foreign &= (live.flags[slots] & IN_FLIGHT) == 0
    found, counts = np.unique(clusters[foreign & (live.cluster[slots] != clusters)], return_counts=True)
    return {state.clusters.names[index]: count for index, count in zip(found.tolist(), counts.tolist(), strict=True)}


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


def _is_current(
    state: PoolState, clusters: Int64s, columns: StateColumns, *, slots: Int32s, held: Int64s | None
) -> Bools:
    """Return which elements are about the current, ingested run of a live job in the cluster that reports.

    Of a run of several members those are not that are about one which has ended: what is left of its objects is told to
    be stopped, as what is left of an ended run.
    """
    live = state.live
    current: Bools = slots >= 0
    current &= (live.attempt[slots] == columns.attempt) & (live.cluster[slots] == clusters)
    current &= ((live.flags[slots] & IN_FLIGHT) == 0) & (live.run_state[slots] > 0)
    if held is not None:
        is_open = ~IS_RUN_TERMINAL[live.members.state[held]] if len(live.members) else False
        current &= ((held >= 0) & is_open) | ~live.members.has(slots)
    if columns.member is not None:
        current &= (columns.member == 0) | (False if held is None else held >= 0)
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
    members = None if columns.member is None else columns.member[strange]
    others = live.live_members(broken)
    others = others.take(others.state > 0)
    return runs_by_cluster(
        state.clusters.names,
        np.concatenate([clusters[strange], live.cluster[others.slot]]),
        Members.concatenate([Members.of(columns.handle[strange], columns.attempt[strange], members), others.keys]),
    )


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
    columns = _every_object(
        state, live.live_members(slots), OBJECT_LOST, failure=FailureKind.NONE, text=text, now_s=now_s
    )
    return take_states(state, [(cluster, columns)], now_s)


def unheard_states(state: PoolState, now_s: float) -> list[tuple[str, StateColumns]]:
    """Return states by cluster as if executors had reported as lost what has not been heard of for too long."""
    if next_replacement_s(state) > now_s:
        return []
    held = state.live.live_members(take_unheard(state, now_s))
    held = held.take(held.state == RUN_UNKNOWN)  # the others are stopped since the run has broken
    clusters = state.live.cluster[held.slot]
    text = "its node was not heard of for as long as the job waits"
    return [
        (
            state.clusters.names[cluster],
            _every_object(
                state, held.take(clusters == cluster), OBJECT_LOST, failure=FailureKind.NONE, text=text, now_s=now_s
            ),
        )
        for cluster in np.unique(clusters).tolist()
    ]


def silent_states(state: PoolState, now_s: float) -> list[tuple[str, StateColumns]]:
    """Return states by cluster as if executors had reported as lost what their jobs do not wait for any longer.

    Complexity: nothing while all executors are heard, O(live jobs) for each cluster that is looked at.
    """
    lost: list[tuple[str, StateColumns]] = []
    live = state.live
    for cluster, since_s in state.silence.take_due(now_s):
        slots = live.live_slots()
        is_there = (live.cluster[slots] == cluster) & (live.run_state[slots] > 0)
        slots = slots[is_there & ((live.flags[slots] & IN_FLIGHT) == 0)]
        due_s = np.full(slots.size, np.inf)
        for place, rules in rules_of(state, slots):
            due_s[place] = since_s + rules.stop_after_s if rules.stop_after_s else np.inf
        next_s = float(due_s[due_s > now_s].min(initial=np.inf))
        again_s = max(now_s, since_s) + LOOK_PERIOD_S if live.specs.has_rules else np.inf
        state.silence.look_at(cluster, min(next_s, again_s))
        held = live.live_members(slots[due_s <= now_s])
        if held.slot.size:
            text = "its executor was not heard of for as long as the job waits"
            columns = _every_object(state, held, OBJECT_LOST, failure=FailureKind.NONE, text=text, now_s=now_s)
            lost.append((state.clusters.names[cluster], columns))
    return lost


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
    slots = np.unique(slots[(slots >= 0) & (live.attempt[slots] == runs.attempt) & (live.run_state[slots] > 0)])
    return _every_object(
        state, live.live_members(slots), OBJECT_FAILED, failure=FailureKind.REJECTED, text=reason, now_s=now_s
    )


def _every_object(
    state: PoolState, held: LiveMembers, reached: int, *, failure: FailureKind, text: str, now_s: float
) -> StateColumns:
    """Return one state for all objects of members of runs."""
    live = state.live
    counts = live.specs.object_counts(live.spec[held.slot]).astype(np.int64)
    every = held.keys[np.repeat(np.arange(held.slot.size), counts)]
    place = np.arange(len(every)) - np.repeat(np.cumsum(counts) - counts, counts)
    return StateColumns(
        handle=every.handle,
        attempt=every.attempt,
        member=every.numbers(),
        object_index=place.astype(np.int16),
        state=np.full(place.size, reached, dtype=np.int8),
        time_us=np.full(place.size, round(now_s * 1e6), dtype=np.int64),
        exit_code=np.zeros(place.size, dtype=np.int32),
        failure=np.full(place.size, failure, dtype=np.int8),
        message=np.zeros(place.size, dtype=np.int32),
        uid=bytes(16 * place.size),
        texts=(text,),
    )

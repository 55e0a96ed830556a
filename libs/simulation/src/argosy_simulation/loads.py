"""What a new leader reads of the store's rows, as columns.

Source: design section 5, "Leader lost".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from argosy_core.arrays import Int32s
from argosy_core.job.reading.options import UNSET, JobOptions
from argosy_core.job.tables.members import attempt_of
from argosy_core.scheduler import (
    EndedMembers,
    JobColumns,
    LoadedColumns,
    LoadedObjects,
    LoadedRuns,
    RoundStateColumns,
)
from argosy_simulation.plan import JobIndex
from argosy_simulation.stored_rows import JobRow, held_of, keys_of

__all__ = ["load_columns"]


def load_columns(
    job_index: JobIndex,
    open_jobs: Mapping[int, JobRow],
    *,
    with_states: Callable[[JobColumns], JobColumns],
    event_numbers: Mapping[int, int],
    round_state: RoundStateColumns | None,
) -> LoadedColumns:
    """Return what a new leader reads.

    Args:
        job_index: The jobs there will be.
        open_jobs: Open jobs by handle, ascending.
        with_states: Adds what has become of the jobs that others wait for.
        event_numbers: Number of the last event by job set id.
        round_state: What was stored of the last round.
    """
    handles, jobs = list(open_jobs), list(open_jobs.values())
    rows = np.array([job.index for job in jobs], dtype=np.int64)
    columns = job_index.columns(
        rows,
        np.array([job.submit_time_us for job in jobs], dtype=np.int64),
        np.array([job.priority for job in jobs], dtype=np.int32),
    )
    members = [
        (handle, ordinal, run)
        for handle, job in zip(handles, jobs, strict=True)
        if job.live_attempt
        for ordinal, run in sorted(job.members().items())
    ]
    live, ended = [one for one in members if not one[2].ended], [one for one in members if one[2].ended]
    keys = keys_of(live)
    clusters = sorted({run.cluster for _, _, run in live})
    nodes = sorted({run.node for _, _, run in live})
    objects = [(place, state, run.start_time_us) for _, _, run in live for place, state in enumerate(run.objects)]
    of_objects = keys_of([one for one in live for _ in one[2].objects])
    sets = sorted(set(columns.job_set.tolist()))
    return LoadedColumns(
        jobs=replace(with_states(columns), options=_held_now(columns, jobs)),
        cancel_requested=np.array([job.change_request for job in jobs], dtype=np.int8),
        last_attempt=np.array([max(map(attempt_of, job.runs), default=0) for job in jobs], dtype=np.int32),
        failures=np.array([job.failure_count() for job in jobs], dtype=np.int32),
        failed_time_us=np.array([job.failed_time_us for job in jobs], dtype=np.int64),
        runs=LoadedRuns(
            handle=keys.handle,
            attempt=keys.attempt,
            member=keys.numbers(),
            cluster=np.array([clusters.index(run.cluster) for _, _, run in live], dtype=np.int32),
            clusters=tuple(clusters),
            node=np.array([nodes.index(run.node) for _, _, run in live], dtype=np.int32),
            nodes=tuple(nodes),
            charge_core_s=np.array([run.charge_core_s for _, _, run in live], dtype=np.int64),
        ),
        objects=LoadedObjects(
            handle=of_objects.handle,
            attempt=of_objects.attempt,
            member=of_objects.numbers(),
            object_index=np.array([o[0] for o in objects], dtype=np.int16),
            state=np.array([o[1] for o in objects], dtype=np.int8),
            start_time_us=np.array([o[2] for o in objects], dtype=np.int64),
        ),
        ended_members=EndedMembers(
            members=keys_of(ended),
            state=np.array([run.state for _, _, run in ended], dtype=np.int8),
            failure=np.array([run.failure for _, _, run in ended], dtype=np.int8),
            exit_code=np.array([run.exit_code for _, _, run in ended], dtype=np.int32),
            start_time_us=np.array([run.start_time_us for _, _, run in ended], dtype=np.int64),
            reasons=tuple(run.reason for _, _, run in ended),
        )
        if ended
        else None,
        held=held_of([one for one in live if one[2].held]),
        round_state=round_state,
        preempted=_preempted(jobs),
        job_sets=tuple(job_index.job_set_views({key: event_numbers.get(key, 0) for key in sets})),
    )


def _held_now(columns: JobColumns, jobs: list[JobRow]) -> JobOptions | None:
    """Return the options of jobs as their rows stand now."""
    held = np.array([1 if job.held else UNSET for job in jobs], dtype=np.int32)
    if columns.options is None and (held == UNSET).all():
        return None
    return replace(columns.options or JobOptions.unset(len(jobs)), held=held)


def _preempted(jobs: list[JobRow]) -> Int32s | None:
    """Return which attempts of jobs somebody asked to preempt, 0 for none; None if nobody asked."""
    attempts = np.array([job.preempt_attempt for job in jobs], dtype=np.int32)
    return attempts if attempts.any() else None

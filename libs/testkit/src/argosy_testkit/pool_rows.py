"""What the database would hold for a `PoolWorld`, and what a new leader would load of it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from argosy_core.resources import DEFAULT_AXIS
from argosy_core.scheduler import (
    JobColumns,
    JobSetView,
    LoadedColumns,
    LoadedDemands,
    LoadedObjects,
    LoadedRuns,
    RoundStateColumns,
    SpecReference,
)

__all__ = ["StoredJob", "load_columns", "spec_hash"]


def spec_hash(text: bytes) -> bytes:
    """Return 16 bytes for a spec."""
    return hashlib.blake2b(text, digest_size=16).digest()


@dataclass(slots=True)
class StoredJob:
    """What the database would hold of a job."""

    state: int = 0
    """0 open, else the terminal JobState."""
    cancel_requested: bool = False
    """Whether a cancel request is set."""
    live_attempt: int = 0
    """Attempt of the live run, 0 if none."""
    last_attempt: int = 0
    """Attempt of the newest run."""
    failures: int = 0
    """Its runs that failed or were lost."""
    failed_time_us: int = 0
    """When the last of its runs that failed ended."""
    row: dict[str, int] = field(default_factory=dict)
    """Columns of the submit."""
    layout: bytes = b""
    """Layout of the spec."""
    demand: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    """What it asks for and what its run may hold, in the order of `DEFAULT_AXIS`; None for what its class says."""
    place: tuple[str, str] = ("", "")
    """Cluster and node of the newest run."""
    objects: dict[int, int] = field(default_factory=dict)
    """States of the objects of the newest run."""
    starts: dict[int, int] = field(default_factory=dict)
    """Start times stored with the objects of the newest run, microseconds."""


def load_columns(
    stored: Mapping[int, StoredJob],
    job_sets: Mapping[tuple[int, str], int],
    event_numbers: Mapping[int, int],
    round_state: RoundStateColumns | None,
) -> LoadedColumns:
    """Return what a new leader reads from the database.

    Args:
        stored: Jobs by handle.
        job_sets: (queue id, name) -> id.
        event_numbers: Job set id -> number of its last event.
        round_state: The last stored one.
    """
    jobs = {handle: job for handle, job in sorted(stored.items()) if job.state == 0}
    live = {handle: job for handle, job in jobs.items() if job.live_attempt}
    layouts = sorted({job.layout for job in jobs.values()})
    places = sorted({job.place for job in live.values()})
    handles = np.array(list(jobs), dtype=np.int64)
    demands = {handle: job.demand for handle, job in jobs.items() if job.demand is not None}
    amounts = np.array(list(demands.values()), dtype=np.int64).reshape(-1, 2, len(DEFAULT_AXIS))
    rows = [job.row for job in jobs.values()]
    objects = [
        (h, job.live_attempt, i, state, job.starts.get(i, 0))
        for h, job in live.items()
        for i, state in job.objects.items()
    ]
    object_rows = np.array(objects, dtype=np.int64).reshape(-1, 5)
    specs = [SpecReference(hash=spec_hash(text), day=20_000, layout=text) for text in layouts]
    which = np.array([places.index(job.place) for job in live.values()], dtype=np.int32)
    return LoadedColumns(
        demands=LoadedDemands(
            handle=np.array(list(demands), dtype=np.int64),
            names=DEFAULT_AXIS.names,
            requested=amounts[:, 0],
            permitted=amounts[:, 1],
        ),
        jobs=JobColumns(
            handle=handles,
            id_high=handles * 7,
            queue=np.array([row["queue"] for row in rows], dtype=np.int32),
            job_set=np.array([row["job_set"] for row in rows], dtype=np.int64),
            class_id=np.array([row["class_id"] for row in rows], dtype=np.int32),
            priority=np.array([row["priority"] for row in rows], dtype=np.int32),
            submit_time_us=np.array([row["submit_time_us"] for row in rows], dtype=np.int64),
            spec=np.array([layouts.index(job.layout) for job in jobs.values()], dtype=np.int32),
            metadata_index=np.full(handles.size, -1, dtype=np.int32),
            specs=tuple(specs),
        ),
        cancel_requested=np.array([job.cancel_requested for job in jobs.values()], dtype=np.int8),
        last_attempt=np.array([job.last_attempt for job in jobs.values()], dtype=np.int32),
        failures=np.array([job.failures for job in jobs.values()], dtype=np.int32),
        failed_time_us=np.array([job.failed_time_us for job in jobs.values()], dtype=np.int64),
        runs=LoadedRuns(
            handle=np.array(list(live), dtype=np.int64),
            attempt=np.array([job.live_attempt for job in live.values()], dtype=np.int32),
            cluster=which,
            clusters=tuple(cluster for cluster, _ in places),
            node=which,
            nodes=tuple(node for _, node in places),
        ),
        objects=LoadedObjects(
            handle=object_rows[:, 0],
            attempt=object_rows[:, 1].astype(np.int32),
            object_index=object_rows[:, 2].astype(np.int16),
            state=object_rows[:, 3].astype(np.int8),
            start_time_us=object_rows[:, 4],
        ),
        round_state=round_state,
        job_sets=tuple(
            JobSetView(job_set_id=i, queue_id=q, name=n, last_event_number=event_numbers.get(i, 0))
            for (q, n), i in job_sets.items()
        ),
    )

"""Builders of what a store is given: submits, leases, reports.

Every builder has defaults for all that a test does not care about.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np

from argosy_core.job.identity import DAY_SHIFT, id_high
from argosy_core.job.reading.options import JobOptions
from argosy_core.job.tables.rows import JobUpdates, NewObjects, NewRuns, ObjectUpdates, RunUpdates
from argosy_store import SpecRow, SubmitRequest
from argosy_store.replicas.queue_limits import QueueLimit

__all__ = [
    "make_job_ends",
    "make_leases",
    "make_objects",
    "make_reports",
    "make_request",
    "make_run_ends",
    "make_spec",
]

_MANIFEST = b'[{"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"name":"main","image":"busybox"}]}}]'


def make_spec(body: bytes = _MANIFEST) -> SpecRow:
    """Return a spec with the hash of its body."""
    return SpecRow(hash=hashlib.blake2b(body, digest_size=16).digest(), body=body, layout=b"layout")


def make_request(  # noqa: PLR0913 - one argument per thing that a test may care about
    *,
    first: int,
    count: int,
    day: int,
    queue_id: int = 1,
    job_set_id: int = 1,
    class_id: int = 1,
    pool: str = "default",
    priority: int = 0,
    specs: tuple[SpecRow, ...] | None = None,
    client_ids: Sequence[str | None] = (),
    payloads: Sequence[bytes] = (),
    metadata: tuple[bytes, ...] = (),
    submit_time_us: int = 1_700_000_000_000_000,
    limits: Mapping[int, QueueLimit] | None = None,
    options: JobOptions | None = None,
    submitter: str = "",
) -> SubmitRequest:
    """Return a request for `count` jobs with the numbers from `first` on.

    Args:
        first: First sequence number, as reserved.
        count: Number of jobs.
        day: Submit day, days since the Unix epoch.
        queue_id: Queue of all jobs.
        job_set_id: Job set of all jobs.
        class_id: Scheduling class of all jobs.
        pool: Pool.
        priority: Priority of all jobs.
        specs: Specs, used in turn; one pod if none are given.
        client_ids: One per job, or none at all.
        payloads: What is hashed per job; the same for all if none are given.
        metadata: Used in turn.
        submit_time_us: Acceptance of all jobs.
        limits: Limits of queues by id; none are kept if none are given.
        options: How long the jobs run by what their submitter says.
        submitter: Who submits them.
    """
    handles = np.arange(first, first + count, dtype=np.int64) + (day << DAY_SHIFT)
    given = specs or (make_spec(),)
    per_job = list(payloads) or [b"payload"] * count
    return SubmitRequest(
        pool=pool,
        handles=handles,
        id_highs=np.full(count, id_high(submit_time_us // 1000, 7), dtype=np.int64),
        queue_ids=np.full(count, queue_id, dtype=np.int32),
        job_set_ids=np.full(count, job_set_id, dtype=np.int64),
        class_ids=np.full(count, class_id, dtype=np.int32),
        priorities=np.full(count, priority, dtype=np.int32),
        submit_time_us=np.full(count, submit_time_us, dtype=np.int64),
        spec_index=(np.arange(count) % len(given)).astype(np.int32),
        specs=given,
        metadata_index=(np.arange(count) % len(metadata) if metadata else np.full(count, -1)).astype(np.int32),
        metadata=metadata,
        client_ids=tuple(client_ids),
        payload_hashes=b"".join(hashlib.blake2b(value, digest_size=16).digest() for value in per_job),
        limits=limits or {},
        options=options,
        submitter=submitter,
    )


def make_leases(
    handles: np.typing.NDArray[np.int64],
    *,
    attempt: int = 1,
    clusters: tuple[str, ...] = ("east",),
    nodes: tuple[str, ...] = ("node-1",),
    lease_time_us: int = 1_700_000_001_000_000,
) -> NewRuns:
    """Return leases of jobs, spread over clusters and nodes in turn."""
    count = len(handles)
    places = np.arange(count, dtype=np.int32)
    return NewRuns(
        handle=handles,
        attempt=np.full(count, attempt, dtype=np.int16),
        cluster_index=places % len(clusters),
        clusters=clusters,
        node_index=places % len(nodes),
        nodes=nodes,
        lease_time_us=np.full(count, lease_time_us, dtype=np.int64),
    )


def make_objects(
    handles: np.typing.NDArray[np.int64], *, attempt: int = 1, kinds: tuple[str, ...] = ("Pod",)
) -> NewObjects:
    """Return the objects of runs: one of each kind per run, the pod by default."""
    per_run = len(kinds)
    count = len(handles) * per_run
    spread = np.repeat(handles, per_run)
    places = np.tile(np.arange(per_run), len(handles))
    return NewObjects(
        handle=spread,
        attempt=np.full(count, attempt, dtype=np.int16),
        object_index=places.astype(np.int16),
        kind_index=places.astype(np.int32),
        kinds=kinds,
        name=[b"main-%d-%d" % (handle, attempt) for handle in spread.tolist()],
    )


def make_reports(
    handles: np.typing.NDArray[np.int64],
    state: int,
    *,
    attempt: int = 1,
    message: str | None = None,
    start_time_us: int = 0,
) -> ObjectUpdates:
    """Return reports that the first object of runs is in a state, and since when their runs run."""
    count = len(handles)
    return ObjectUpdates(
        handle=handles,
        attempt=np.full(count, attempt, dtype=np.int16),
        object_index=np.zeros(count, dtype=np.int16),
        state=np.full(count, state, dtype=np.int16),
        uid=np.zeros(count, dtype="V16"),
        message_index=np.full(count, -1 if message is None else 0, dtype=np.int32),
        messages=() if message is None else (message,),
        start_time_us=np.full(count, start_time_us, dtype=np.int64),
    )


def make_run_ends(
    handles: np.typing.NDArray[np.int64], state: int = 4, *, attempt: int = 1, reason: str | None = None
) -> RunUpdates:
    """Return updates that end one run of each job."""
    count = len(handles)
    return RunUpdates(
        handle=handles,
        attempt=np.full(count, attempt, dtype=np.int16),
        state=np.full(count, state, dtype=np.int16),
        start_time_us=np.full(count, 1_700_000_002_000_000, dtype=np.int64),
        end_time_us=np.full(count, 1_700_000_003_000_000, dtype=np.int64),
        exit_code=np.zeros(count, dtype=np.int32),
        failure=np.zeros(count, dtype=np.int16),
        reason_index=np.full(count, -1 if reason is None else 0, dtype=np.int32),
        reasons=() if reason is None else (reason,),
    )


def make_job_ends(
    handles: np.typing.NDArray[np.int64],
    state: int = 4,
    *,
    reason: str | None = None,
    end_time_us: int = 1_700_000_003_000_000,
) -> JobUpdates:
    """Return updates that end each job."""
    count = len(handles)
    return JobUpdates(
        handle=handles,
        state=np.full(count, state, dtype=np.int16),
        end_time_us=np.full(count, end_time_us, dtype=np.int64),
        reason_index=np.full(count, -1 if reason is None else 0, dtype=np.int32),
        reasons=() if reason is None else (reason,),
    )

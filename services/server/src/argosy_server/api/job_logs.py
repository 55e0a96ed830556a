"""Logs of jobs: found by their rows, read through the pool's leader by the executor of the cluster they run on.

While that is away, or its pod gone, what was kept of the log of a run that has ended is read from where it was kept.

Source: design section 3, "Replicas forward calls that need the leader's memory"; `proto/argosy/api/v1/job.proto`.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncGenerator
from typing import Final

import grpc

from argosy.api.v1 import job_pb2, job_pb2_grpc
from argosy_core.errors import BackendUnavailable, NotFound
from argosy_core.job.reading.pod_groups import is_of_groups
from argosy_core.job.states import JobState, RunState
from argosy_core.job.tables.members import ordinal_of, place_of
from argosy_runtime.log_archives.archive import LogChoice
from argosy_server.api.calls import Context
from argosy_server.api.kept_logs import KeptLogs
from argosy_server.api.leadership.leader_view import LogRequest
from argosy_server.api.leadership.routing import LeaderRouter
from argosy_store.rows import JobRecord, RunRecord

__all__ = ["find_run", "forward_log", "pod_position", "read_log"]

_LAST_S = 253_402_300_799  # the year 9999 ends
_CHUNK_BYTES: Final = 32 << 10
_AWAY: Final = frozenset({grpc.StatusCode.NOT_FOUND, grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED})
"""Answers of a leader that cannot read a log now, or finds none."""
_OVER = frozenset(
    {RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED, RunState.LOST, RunState.RETURNED, RunState.PREEMPTED}
)


def find_run(record: JobRecord, attempt: int, member: int = 0) -> RunRecord:
    """Return a member of a run of a job, the last one in its place; attempt 0 means the newest.

    Raises:
        NotFound: The job has no such run, or it no such member.
    """
    if not record.runs:
        ended = f"it ended, {JobState(record.state).name.lower()}, without one" if record.end_time_us else "it waits"
        raise NotFound(
            f"job {record.job_id} has no run yet, so nothing was written: {ended}; `argosy explain` says why"
        )
    newest = record.runs[-1].attempt
    members = [run for run in record.runs if run.attempt == (attempt or newest)]
    if not members:
        raise NotFound(f"job {record.job_id} has no attempt {attempt}; its newest is {newest}")
    for run in reversed(members):  # of those in one place the newest comes last
        if place_of(run.member) == member:
            return run
    last = max(place_of(run.member) for run in members)
    raise NotFound(f"attempt {members[0].attempt} of job {record.job_id} has no member {member}; its last is {last}")


def pod_position(record: JobRecord, pod: int) -> int:
    """Return the position in the bag of a job's pod.

    Args:
        record: The job with its spec.
        pod: Which of its pods, from 0.

    Raises:
        NotFound: It has no such pod.
    """
    manifests = json.loads(record.spec_body or b"[]")
    places = [place for place, manifest in enumerate(manifests) if manifest.get("kind") == "Pod"]
    if is_of_groups(record.spec_body or b""):
        places = places[:1]  # each member has one pod, in the same place
    if pod >= len(places):
        raise NotFound(f"job {record.job_id} has {len(places)} pods, counted from 0; there is no pod {pod}")
    return places[pod]


async def read_log(
    router: LeaderRouter,
    pool: str,
    record: JobRecord,
    request: job_pb2.GetJobLogRequest,
    *,
    context: Context,
    kept: KeptLogs,
) -> AsyncGenerator[job_pb2.GetJobLogResponse, None]:
    """Give a log through the leader: this process, or one hop away; else what was kept of it.

    Args:
        router: Finds the leader.
        pool: The job's pool.
        record: The job with its runs and spec.
        request: What was asked for.
        context: The call's context.
        kept: Reads what executors have kept.

    Raises:
        NotFound: There is no such run, pod or container, or its pod is gone and nothing was kept.
        QuotaExceeded: Too many logs of the cluster are read at once.
        BackendUnavailable: There is no leader now, or the cluster's executor is not connected, and nothing was kept.
    """
    run = find_run(record, request.attempt, request.member)
    position = pod_position(record, request.pod)
    is_begun = False
    try:
        pieces = _read_live(router, pool, record, request, context=context, found=(run, position))
        async with contextlib.aclosing(pieces):
            async for response in pieces:
                is_begun = True
                yield response
    except (NotFound, BackendUnavailable, grpc.aio.AioRpcError) as error:
        if is_begun or run.state not in _OVER or not _may_be_kept(error):
            raise
        choice = LogChoice(
            container=request.container,
            tail_line_count=_tail_of(request),
            timestamps=request.timestamps,
            since_s=_since_of(request),
        )
        place = record.handle, ordinal_of(run.attempt, run.member), position
        text = await kept.read(run.cluster, place, choice)
        if text is None:
            if isinstance(error, BackendUnavailable):
                raise BackendUnavailable(f"{error.message}; {_nothing_kept(kept)}") from error
            raise
        for start in range(0, len(text), _CHUNK_BYTES):
            yield job_pb2.GetJobLogResponse(data=text[start : start + _CHUNK_BYTES])


async def _read_live(
    router: LeaderRouter,
    pool: str,
    record: JobRecord,
    request: job_pb2.GetJobLogRequest,
    *,
    context: Context,
    found: tuple[RunRecord, int],
) -> AsyncGenerator[job_pb2.GetJobLogResponse, None]:
    """Give a log through the leader, as the executor of its cluster reads it."""
    run, position = found
    view = router.view(pool)
    if view is None:
        async with contextlib.aclosing(forward_log(router, pool, request, context=context)) as responses:
            async for response in responses:
                yield response
        return
    asked = LogRequest(
        handle=record.handle,
        attempt=run.attempt,
        object_index=position,
        member=run.member,
        container=request.container,
        follow=request.follow,
        tail_line_count=_tail_of(request),
        timestamps=request.timestamps,
        since_s=_since_of(request),
    )
    try:
        async with contextlib.aclosing(view.read_log(run.cluster, asked)) as pieces:
            async for piece in pieces:
                yield job_pb2.GetJobLogResponse(data=piece)
    except NotFound as error:
        raise NotFound(_why(record, run, error.message)) from error


def _tail_of(request: job_pb2.GetJobLogRequest) -> int | None:
    return request.tail_line_count if request.HasField("tail_line_count") else None


def _since_of(request: job_pb2.GetJobLogRequest) -> int:
    return min(max(request.since_time.seconds, 0), _LAST_S)


def _may_be_kept(error: Exception) -> bool:
    """Return whether what was kept may stand for what could not be read, and not an error of the caller's."""
    return not isinstance(error, grpc.aio.AioRpcError) or error.code() in _AWAY


def _nothing_kept(kept: KeptLogs) -> str:
    """Return what to do about a log that could be read nowhere."""
    if kept.is_known:
        return "nothing was kept of this log where the server's log_archive.target looks; try again once it is back"
    return "log_archive.target of the servers says where they find what it has kept of ended pods meanwhile"


async def forward_log(
    router: LeaderRouter, pool: str, request: job_pb2.GetJobLogRequest, *, context: Context
) -> AsyncGenerator[job_pb2.GetJobLogResponse, None]:
    """Give what the leader answers; whoever stops reading here stops the leader, too.

    Raises:
        BackendUnavailable: There is no leader now, or the call was forwarded already.
        grpc.RpcError: The leader's own answer, if it is an error.
    """
    channel = await router.channel(pool, context)
    call = job_pb2_grpc.JobServiceStub(channel).GetJobLog(request, metadata=router.metadata(pool))
    try:
        async for response in call:
            yield response
    except grpc.aio.AioRpcError as error:
        router.lost(pool, error)
        raise
    finally:
        call.cancel()


def _why(record: JobRecord, run: RunRecord, message: str) -> str:
    """Return why there is no log, and what to do."""
    where = f"attempt {run.attempt} of job {record.job_id} on cluster {run.cluster}"
    if run.state in _OVER:
        return (
            f"{message}: {where} ended {RunState(run.state).name.lower()} and its pod is gone; pods stay for the time "
            "the leader's keep_finished_s and keep_failed_s say; log_archive.target of the executor keeps logs longer"
        )
    return f"{message}: {where} is {RunState(run.state).name.lower()}; try again once its pod is there"

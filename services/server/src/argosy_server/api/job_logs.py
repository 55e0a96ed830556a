"""Logs of jobs: found by their rows, read through the pool's leader by the executor of the cluster they run on.

Source: design section 3, "Replicas forward calls that need the leader's memory"; `proto/argosy/api/v1/job.proto`.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncGenerator

import grpc

from argosy.api.v1 import job_pb2, job_pb2_grpc
from argosy_core.errors import NotFound
from argosy_core.job.reading.pod_groups import is_of_groups
from argosy_core.job.states import JobState, RunState
from argosy_server.api.calls import Context
from argosy_server.api.leadership.leader_view import LogRequest
from argosy_server.api.leadership.routing import LeaderRouter
from argosy_store.rows import JobRecord, RunRecord

__all__ = ["find_run", "forward_log", "pod_position", "read_log"]

_LAST_S = 253_402_300_799  # the year 9999 ends
_OVER = frozenset(
    {RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED, RunState.LOST, RunState.RETURNED, RunState.PREEMPTED}
)


def find_run(record: JobRecord, attempt: int, member: int = 0) -> RunRecord:
    """Return a member of a run of a job; attempt 0 means the newest.

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
    for run in members:
        if run.member == member:
            return run
    raise NotFound(
        f"attempt {members[0].attempt} of job {record.job_id} has no member {member}; its last is {members[-1].member}"
    )


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
    router: LeaderRouter, pool: str, record: JobRecord, request: job_pb2.GetJobLogRequest, *, context: Context
) -> AsyncGenerator[job_pb2.GetJobLogResponse, None]:
    """Give a log through the leader: this process, or one hop away.

    Args:
        router: Finds the leader.
        pool: The job's pool.
        record: The job with its runs and spec.
        request: What was asked for.
        context: The call's context.

    Raises:
        NotFound: There is no such run, pod or container, or its pod is gone.
        QuotaExceeded: Too many logs of the cluster are read at once.
        BackendUnavailable: There is no leader now, or the cluster's executor is not connected.
    """
    run = find_run(record, request.attempt, request.member)
    position = pod_position(record, request.pod)
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
        tail_line_count=request.tail_line_count if request.HasField("tail_line_count") else None,
        timestamps=request.timestamps,
        since_s=min(max(request.since_time.seconds, 0), _LAST_S),
    )
    try:
        async with contextlib.aclosing(view.read_log(run.cluster, asked)) as pieces:
            async for piece in pieces:
                yield job_pb2.GetJobLogResponse(data=piece)
    except NotFound as error:
        raise NotFound(_why(record, run, error.message)) from error


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

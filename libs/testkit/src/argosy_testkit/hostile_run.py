"""Making hostile calls to a server, and judging its answers."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import grpc
import numpy as np
from google.protobuf.message import Message

from argosy.api.v1 import access_pb2, cluster_pb2, event_pb2, job_pb2, queue_pb2, scheduling_pb2
from argosy.executor.v1 import executor_pb2
from argosy.lease.v1 import outlook_pb2
from argosy.sampler.v1 import sampler_pb2
from argosy_testkit.hostile_requests import METHODS, HostileCall

__all__ = ["Verdict", "call_all", "good_calls", "read_corpus", "submit_one"]

_LEAK: Final = re.compile(r"Traceback|Exception|Error\b|File \"|psycopg|numpy|argosy_[a-z]+\.")
_REFUSED: Final = (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN)
_LOCAL: Final = "Internal error from Core"
_CALL_S: Final = 5.0
_SESSION_S: Final = 1.0
_JOB_ID: Final = "01a1fed6-54aa-7a51-8051-2a00000fffff"


@dataclass(slots=True)
class Verdict:
    """What a server answered."""

    codes: Counter[str] = field(default_factory=Counter)
    """Answers by code."""
    levels: Counter[str] = field(default_factory=Counter)
    """Calls by what they attacked."""
    faults: list[dict[str, Any]] = field(default_factory=list)
    """Answers that no server may give, as entries of the corpus."""


def _submit(queue: str = "red") -> job_pb2.SubmitJobsRequest:
    resources = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}
    container = {"name": "main", "image": "busybox", "resources": resources}
    pod = json.dumps({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [container]}})
    return job_pb2.SubmitJobsRequest(
        specs=[job_pb2.JobSpec(manifests=[pod])], items=[job_pb2.JobItem(queue=queue, job_set="one")]
    )


def submit_one(queue: str) -> bytes:
    """Return a good submit of one job to a queue, as bytes."""
    return _submit(queue).SerializeToString()


def _columns(code: str, *values: int) -> bytes:
    return np.array(values, dtype=code).tobytes()


def _sessions(pool: str) -> Mapping[str, Sequence[Message]]:
    """Return good messages of the two sessions of a cluster."""
    hello: dict[str, Any] = {"cluster_uid": "u", "process_id": bytes(16), "host": "h", "pool": pool}
    capacity = sampler_pb2.Capacity(
        resources=["cpu", "memory"],
        node_column=_columns("<i4", 0, 1),
        names=["n0", "n1"],
        allocatable_column=_columns("<i8", 8, 8, 8, 8),
        free_column=_columns("<i8", 8, 8, 8, 8),
        flag_column=_columns("i1", 1, 1),
        groups=[b'{"labels":{},"taints":[]}'],
        group_column=_columns("<i4", 0, 0),
        total_column=_columns("<i8", 16, 16),
        total_free_column=_columns("<i8", 16, 16),
        node_count=2,
    )
    states = executor_pb2.StateBatch(
        batch=1,
        handle_column=_columns("<i8", 1),
        attempt_column=_columns("<i4", 1),
        object_column=_columns("<i2", 0),
        state_column=_columns("i1", 3),
        time_us_column=_columns("<i8", 1_700_000_000_000_000),
        exit_code_column=_columns("<i4", 0),
        failure_column=_columns("i1", 0),
        message_column=_columns("<i4", -1),
        uid_column=bytes(16),
    )
    sync, session = executor_pb2.SyncRequest, sampler_pb2.SessionRequest
    return {
        "/argosy.executor.v1.ExecutorService/Sync": [
            sync(hello=executor_pb2.Hello(cluster="c", **hello)),
            sync(states=states),
            sync(seen=executor_pb2.SeenRuns(handle_column=_columns("<i8", 1), attempt_column=_columns("<i4", 1))),
            sync(log_chunk=executor_pb2.LogChunk(request=1, data=b"x")),
            sync(log_end=executor_pb2.LogEnd(request=1)),
            sync(heartbeat=executor_pb2.Heartbeat()),
        ],
        "/argosy.sampler.v1.SamplerService/Session": [
            session(hello=sampler_pb2.Hello(cluster="c", **hello)),
            session(capacity=capacity),
            session(ready=sampler_pb2.Ready()),
            session(sample=sampler_pb2.SampleResponse(round=1, incarnation=1)),
            session(commit=sampler_pb2.CommitResponse(round=1, stage=1, incarnation=1)),
            session(heartbeat=sampler_pb2.Heartbeat()),
        ],
    }


def good_calls(pool: str = "default") -> Mapping[str, Sequence[Message]]:
    """Return a good call of each method that needs more than an empty request; queue red is theirs."""
    api = "/argosy.api.v1."
    selector = job_pb2.JobSelector(queue="red", job_set="one")
    grant = access_pb2.Grant(subject="user:x", queue="red", verb="watch")
    spare = queue_pb2.Queue(name="spare", weight=1.0)
    return {
        f"{api}JobService/SubmitJobs": [_submit()],
        f"{api}JobService/GetJob": [job_pb2.GetJobRequest(id=_JOB_ID)],
        f"{api}JobService/BatchGetJobs": [job_pb2.BatchGetJobsRequest(ids=[_JOB_ID])],
        f"{api}JobService/ListJobs": [job_pb2.ListJobsRequest(selector=selector)],
        f"{api}JobService/ListJobSets": [job_pb2.ListJobSetsRequest(queue="red")],
        f"{api}JobService/CancelJobs": [job_pb2.CancelJobsRequest(selector=selector)],
        f"{api}JobService/HoldJobs": [job_pb2.HoldJobsRequest(selector=selector)],
        f"{api}JobService/ReleaseJobs": [job_pb2.ReleaseJobsRequest(selector=selector)],
        f"{api}JobService/PreemptJobs": [job_pb2.PreemptJobsRequest(selector=selector)],
        f"{api}JobService/PlanJobs": [job_pb2.PlanJobsRequest(submission=_submit())],
        f"{api}JobService/ReprioritizeJobs": [job_pb2.ReprioritizeJobsRequest(selector=selector)],
        f"{api}JobService/ExplainJob": [job_pb2.ExplainJobRequest(id=_JOB_ID)],
        f"{api}JobService/BatchGetJobStages": [job_pb2.BatchGetJobStagesRequest(ids=[_JOB_ID])],
        f"{api}JobService/ListPendingJobs": [job_pb2.ListPendingJobsRequest(selector=selector)],
        f"{api}JobService/GetJobLog": [job_pb2.GetJobLogRequest(id=_JOB_ID)],
        f"{api}EventService/WatchJobSet": [event_pb2.WatchJobSetRequest(queue="red", job_set="one")],
        f"{api}QueueService/CreateQueue": [queue_pb2.CreateQueueRequest(queue=spare)],
        f"{api}QueueService/GetQueue": [queue_pb2.GetQueueRequest(name="red")],
        f"{api}QueueService/UpdateQueue": [queue_pb2.UpdateQueueRequest(queue=spare)],
        f"{api}QueueService/DeleteQueue": [queue_pb2.DeleteQueueRequest(name="spare")],
        f"{api}QueueService/CordonQueue": [queue_pb2.CordonQueueRequest(name="spare", reason="r")],
        f"{api}QueueService/UncordonQueue": [queue_pb2.UncordonQueueRequest(name="spare")],
        f"{api}QueueService/GetQueuePolicy": [queue_pb2.GetQueuePolicyRequest(name="red")],
        f"{api}QueueService/SetQueuePolicy": [queue_pb2.SetQueuePolicyRequest(name="spare", policy='{"kinds": []}')],
        f"{api}ClusterService/GetCluster": [cluster_pb2.GetClusterRequest(name="c")],
        f"{api}ClusterService/ListNodes": [cluster_pb2.ListNodesRequest(cluster="c")],
        f"{api}ClusterService/ListScaledPods": [cluster_pb2.ListScaledPodsRequest(cluster="c", with_history=True)],
        f"{api}ClusterService/CordonCluster": [cluster_pb2.CordonClusterRequest(name="c", reason="r")],
        f"{api}ClusterService/UncordonCluster": [cluster_pb2.UncordonClusterRequest(name="c")],
        f"{api}ClusterService/CordonNode": [cluster_pb2.CordonNodeRequest(cluster="c", node="n0", reason="r")],
        f"{api}ClusterService/UncordonNode": [cluster_pb2.UncordonNodeRequest(cluster="c", node="n0")],
        f"{api}ClusterService/SetMaxCapacity": [cluster_pb2.SetMaxCapacityRequest(name="c", amounts={"cpu": 8000})],
        "/argosy.lease.v1.OutlookService/FindMissing": [outlook_pb2.FindMissingRequest(definitions=[b'{"cpu": "1"}'])],
        f"{api}SchedulingService/SetPoolSettings": [
            scheduling_pb2.SetPoolSettingsRequest(settings={"half_time_s": "60"}, validate_only=True)
        ],
        f"{api}AccessService/AddGrants": [access_pb2.AddGrantsRequest(grants=[grant])],
        f"{api}AccessService/RemoveGrants": [access_pb2.RemoveGrantsRequest(grants=[grant])],
        f"{api}AccessService/ListGrants": [access_pb2.ListGrantsRequest(subject=grant.subject)],
        f"{api}AccessService/ListAuditRecords": [access_pb2.ListAuditRecordsRequest(principal="x")],
        f"{api}AccessService/InviteCluster": [access_pb2.InviteClusterRequest(name="c")],
        f"{api}AccessService/RevokeCluster": [access_pb2.RevokeClusterRequest(name="c")],
        f"{api}AccessService/JoinCluster": [access_pb2.JoinClusterRequest(certificate_request="x", part="agent")],
        f"{api}ClusterService/ForgetCluster": [cluster_pb2.ForgetClusterRequest(name="c")],
        **_sessions(pool),
    }


async def _answer(
    channel: Any,  # noqa: ANN401 - grpc has no type for calls of bytes
    call: HostileCall,
) -> tuple[grpc.StatusCode, str]:
    """Make one call; return the code and text it ended with, OK if it went well or goes on."""
    try:
        if call.is_session:
            made = channel.stream_stream(call.method)(timeout=_SESSION_S)
            for message in call.messages:
                await made.write(message)
            await made.done_writing()
            async for _ in made:
                pass
        elif call.is_stream:
            made = channel.unary_stream(call.method)(call.messages[0], timeout=_CALL_S)
            await made.read()
            made.cancel()
        else:
            await channel.unary_unary(call.method)(call.messages[0], timeout=_CALL_S)
    except grpc.aio.AioRpcError as error:
        # A client that writes to a session which the server has ended makes up this answer by itself.
        return (grpc.StatusCode.OK, "") if error.details() == _LOCAL else (error.code(), error.details() or "")
    except asyncio.InvalidStateError:  # likewise: the call was over
        return grpc.StatusCode.OK, ""
    return grpc.StatusCode.OK, ""


async def call_all(
    channel: grpc.aio.Channel, calls: Iterable[HostileCall], *, at_once: int = 8, per_s: float = 0.0
) -> Verdict:
    """Make calls, several at once, and judge the answers.

    Args:
        channel: Leads to the server.
        calls: What to send.
        at_once: Calls under way at once.
        per_s: Most calls begun in a second; 0 for as many as there can be.
    """
    verdict = Verdict()
    left = iter(calls)
    started, count = time.monotonic(), 0

    async def work() -> None:
        nonlocal count
        for call in left:
            count += 1
            if per_s:
                await asyncio.sleep(max(0.0, started + count / per_s - time.monotonic()))
            code, details = await _answer(channel, call)
            verdict.codes[code.name] += 1
            verdict.levels[call.level] += 1
            if code in _REFUSED or _LEAK.search(details):
                messages = [base64.b64encode(message).decode() for message in call.messages]
                verdict.faults.append(
                    {"answer": f"{code.name}: {details[:200]}", "method": call.method, "messages": messages}
                )

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(work())
    return verdict


def read_corpus(path: Path) -> list[HostileCall]:
    """Return the calls that found a fault once."""
    return [
        HostileCall(
            method=entry["method"],
            messages=tuple(base64.b64decode(message) for message in entry["messages"]),
            level="corpus",
            is_stream=METHODS[entry["method"]].server_streaming,
            is_session=METHODS[entry["method"]].client_streaming,
        )
        for entry in json.loads(path.read_text())
    ]

"""An API server in the test's process: keeps what it is sent, answers what it is told, breaks when it is told.

For tests of clients; it knows no rule of the real server but idempotency by client id.
"""

# ruff: noqa: N802, ANN401 - methods are the protocol's, and generated servicers are not typed

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
from google.rpc import code_pb2, error_details_pb2, status_pb2  # type: ignore[import-untyped]

from argosy.api.v1 import (
    access_pb2,
    access_pb2_grpc,
    cluster_pb2_grpc,
    event_pb2,
    event_pb2_grpc,
    job_pb2,
    job_pb2_grpc,
    queue_pb2,
    queue_pb2_grpc,
    scheduling_pb2_grpc,
    server_pb2,
    server_pb2_grpc,
)
from argosy.debug.v1 import debug_pb2, debug_pb2_grpc
from argosy_testkit.fake_access import FakeAccess
from argosy_testkit.fake_clusters import FakeClusters
from argosy_testkit.fake_jobs import FakeJobs
from argosy_testkit.fake_scheduling import FakeScheduling

__all__ = ["FakeApi", "start_fake"]


class FakeApi:
    """State of the server, and what goes wrong next."""

    def __init__(self) -> None:
        """Start empty, and in order."""
        self.queues: dict[str, queue_pb2.Queue] = {}
        """Queues by name."""
        self.policies: dict[str, str] = {}
        """Policies by name of the queue."""
        self.grants: dict[tuple[str, str, str], access_pb2.Grant] = {}
        """Grants by subject, queue and verb."""
        self.jobs: dict[str, job_pb2.Job] = {}
        """Jobs by id."""
        self.ids: dict[str, str] = {}
        """Job id by client id and copy."""
        self.warnings: list[job_pb2.SubmitWarning] = []
        """What submits are warned of."""
        self.submitted_state: job_pb2.JobState = job_pb2.JOB_STATE_QUEUED
        """State of jobs as soon as they are submitted."""
        self.submitted_runs: list[job_pb2.Run] = []
        """Their runs."""
        self.when_explained: Callable[[str], None] = lambda _: None
        """Is told of each job that somebody asks about, before the answer."""
        self.when_stages_asked: Callable[[], None] = lambda: None
        """Is called before stages of jobs are told."""
        self.pools_without_leader: list[str] = []
        """Pools that nobody leads."""
        self.stages: dict[str, job_pb2.JobStage] = {}
        """Stages of jobs that are not pending, by id."""
        self.needs_queues = False
        """Refuse submits to queues that do not exist."""
        self.requests: dict[str, list[Any]] = defaultdict(list)
        """Requests by method, in the order they came."""
        self.metadata: dict[str, dict[str, Any]] = {}
        """Metadata of each method's last call."""
        self.log_pieces = [b"first li", b"ne\nsecond line\n"]
        """What the container of any job wrote."""
        self.log_goes_on = False
        """The container still runs: whoever follows its log waits."""
        self.failures: dict[str, deque[grpc.StatusCode]] = defaultdict(deque)
        """Codes with which the next calls of a method fail before anything is done."""
        self.failures_after: dict[str, deque[grpc.StatusCode]] = defaultdict(deque)
        """The same, after everything was done: only the answer is lost."""
        self.violations: list[tuple[str, str]] = []
        """(field, description) pairs that failures carry."""
        self.retry_delay_s: float | None = None
        """How long failures ask to wait."""
        self.events: list[event_pb2.JobEvent] = []
        """Events of the one job set."""
        self.watch_breaks_after: deque[int | None] = deque()
        """After how many messages the next watches fail; None for never."""
        self.watch_ends_after: deque[int | None] = deque()
        """After how many messages the next watches end without an error."""
        self.open_watches = 0
        """Watches under way."""
        self.plan = job_pb2.PlanJobsResponse(complete=True)
        """Answer to whoever plans."""
        self.knows_capacity = True
        """Whether any cluster is connected to the leader."""
        self.pool_settings: list[Any] = []
        """Versions of settings, oldest first."""
        self.settings_fault = ""
        """Why the newest of them cannot be used."""
        self.state_counts: dict[str, int] = {}
        """State counts of every message, if given."""

    async def enter(self, name: str, request: Any, context: Any) -> None:
        """Keep a request and fail if that is due."""
        self.requests[name].append(request)
        self.metadata[name] = dict(context.invocation_metadata() or ())
        if self.failures[name]:
            await self.abort(context, self.failures[name].popleft(), "not now")

    async def leave(self, name: str, context: Any) -> None:
        """Fail after the work was done, if that is due."""
        if self.failures_after[name]:
            await self.abort(context, self.failures_after[name].popleft(), "lost the answer")

    async def abort(self, context: Any, code: grpc.StatusCode, text: str) -> None:
        """End a call with a status and the violations that are set."""
        status = status_pb2.Status(code=code_pb2.Code.Value(code.name), message=text)
        if self.violations:
            request = error_details_pb2.BadRequest()
            for field, description in self.violations:
                request.field_violations.add(field=field, description=description)
            status.details.add().Pack(request)
        if self.retry_delay_s is not None:
            retry = error_details_pb2.RetryInfo()
            retry.retry_delay.FromNanoseconds(int(self.retry_delay_s * 1e9))
            status.details.add().Pack(retry)
        await context.abort(code, text, (("grpc-status-details-bin", status.SerializeToString()),))


class _Queues(queue_pb2_grpc.QueueServiceServicer):
    """Queues in memory."""

    def __init__(self, api: FakeApi) -> None:
        self.api = api

    async def CreateQueue(self, request: Any, context: Any) -> Any:
        await self.api.enter("CreateQueue", request, context)
        known = self.api.queues.get(request.queue.name)
        if known is not None and known.weight != request.queue.weight:
            await self.api.abort(context, grpc.StatusCode.ALREADY_EXISTS, "there is another queue by that name")
        stored = self.api.queues.setdefault(request.queue.name, queue_pb2.Queue())
        stored.CopyFrom(request.queue)
        stored.etag = "1"
        stored.create_time.FromSeconds(1_700_000_000)
        await self.api.leave("CreateQueue", context)
        return queue_pb2.CreateQueueResponse(queue=stored)

    async def GetQueue(self, request: Any, context: Any) -> Any:
        await self.api.enter("GetQueue", request, context)
        if request.name not in self.api.queues:
            await self.api.abort(context, grpc.StatusCode.NOT_FOUND, f"there is no queue {request.name!r}")
        return queue_pb2.GetQueueResponse(queue=self.api.queues[request.name])

    async def GetQueuePolicy(self, request: Any, context: Any) -> Any:
        await self.api.enter("GetQueuePolicy", request, context)
        return queue_pb2.GetQueuePolicyResponse(policy=self.api.policies.get(request.name, ""))

    async def SetQueuePolicy(self, request: Any, context: Any) -> Any:
        await self.api.enter("SetQueuePolicy", request, context)
        self.api.policies[request.name] = request.policy
        return queue_pb2.SetQueuePolicyResponse()

    async def ListQueues(self, request: Any, context: Any) -> Any:
        await self.api.enter("ListQueues", request, context)
        names = sorted(name for name in self.api.queues if name > request.page_token)
        page = names[: request.page_size]
        token = page[-1] if len(names) > len(page) else ""
        return queue_pb2.ListQueuesResponse(queues=[self.api.queues[name] for name in page], next_page_token=token)

    async def UpdateQueue(self, request: Any, context: Any) -> Any:
        await self.api.enter("UpdateQueue", request, context)
        stored = self.api.queues[request.queue.name]
        if request.queue.etag != stored.etag:
            await self.api.abort(context, grpc.StatusCode.ABORTED, "the queue was changed meanwhile")
        stored.CopyFrom(request.queue)
        stored.etag += "1"
        return queue_pb2.UpdateQueueResponse(queue=stored)

    async def DeleteQueue(self, request: Any, context: Any) -> Any:
        await self.api.enter("DeleteQueue", request, context)
        if self.api.queues.pop(request.name, None) is None:
            await self.api.abort(context, grpc.StatusCode.NOT_FOUND, f"there is no queue {request.name!r}")
        await self.api.leave("DeleteQueue", context)
        return queue_pb2.DeleteQueueResponse()

    async def CordonQueue(self, request: Any, context: Any) -> Any:
        await self.api.enter("CordonQueue", request, context)
        stored = self.api.queues[request.name]
        stored.cordon.reason = request.reason
        stored.cordon.SetInParent()
        return queue_pb2.CordonQueueResponse(queue=stored)

    async def UncordonQueue(self, request: Any, context: Any) -> Any:
        await self.api.enter("UncordonQueue", request, context)
        stored = self.api.queues[request.name]
        stored.ClearField("cordon")
        return queue_pb2.UncordonQueueResponse(queue=stored)


class _Events(event_pb2_grpc.EventServiceServicer):
    """The fake's events, one a message; breaks or ends where it is told."""

    def __init__(self, api: FakeApi) -> None:
        self.api = api

    async def WatchJobSet(self, request: Any, context: Any) -> AsyncIterator[Any]:
        await self.api.enter("WatchJobSet", request, context)
        breaks_after = self.api.watch_breaks_after.popleft() if self.api.watch_breaks_after else None
        ends_after = self.api.watch_ends_after.popleft() if self.api.watch_ends_after else None
        self.api.open_watches += 1
        try:
            for sent, event in enumerate(self.api.events[int(request.cursor or 0) :]):
                if sent == breaks_after:
                    await self.api.abort(context, grpc.StatusCode.UNAVAILABLE, "shutting down")
                if sent == ends_after:
                    return
                is_last = event is self.api.events[-1]
                counts = self.api.state_counts or ({"SUCCEEDED": 1} if is_last else {"RUNNING": 1})
                yield event_pb2.WatchJobSetResponse(
                    events=[event],
                    cursor=str(event.number),
                    state_counts=[
                        job_pb2.JobStateCount(state=f"JOB_STATE_{name.upper()}", job_count=count)
                        for name, count in counts.items()
                    ],
                )
            if not request.until_finished:
                await asyncio.Event().wait()
        finally:
            self.api.open_watches -= 1


class _Debug(debug_pb2_grpc.DebugServiceServicer):
    """A dump in two pieces."""

    def __init__(self, api: FakeApi) -> None:
        self.api = api

    async def DumpState(self, request: Any, context: Any) -> AsyncIterator[Any]:
        await self.api.enter("DumpState", request, context)
        for chunk in ('{"round"', ": 5}"):
            yield debug_pb2.DumpStateResponse(chunk=chunk)


class _Server(server_pb2_grpc.ServerServiceServicer):
    """A server of one limit and one feature."""

    def __init__(self, api: FakeApi) -> None:
        self.api = api

    async def GetServerInfo(self, request: Any, context: Any) -> Any:
        await self.api.enter("GetServerInfo", request, context)
        return server_pb2.GetServerInfoResponse(
            version="1.2.3",
            default_pool="default",
            limits=server_pb2.ServerLimits(max_jobs_per_request=100_000),
            features=[server_pb2.FEATURE_YAML_MANIFESTS],
        )


async def start_fake(api: FakeApi) -> tuple[grpc.aio.Server, str]:
    """Serve a fake on a free port; return the server and its address."""
    server = grpc.aio.server()
    queue_pb2_grpc.add_QueueServiceServicer_to_server(_Queues(api), server)
    job_pb2_grpc.add_JobServiceServicer_to_server(FakeJobs(api), server)
    event_pb2_grpc.add_EventServiceServicer_to_server(_Events(api), server)
    cluster_pb2_grpc.add_ClusterServiceServicer_to_server(FakeClusters(api), server)
    scheduling_pb2_grpc.add_SchedulingServiceServicer_to_server(FakeScheduling(api), server)
    server_pb2_grpc.add_ServerServiceServicer_to_server(_Server(api), server)
    debug_pb2_grpc.add_DebugServiceServicer_to_server(_Debug(api), server)
    access_pb2_grpc.add_AccessServiceServicer_to_server(FakeAccess(api), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    return server, f"127.0.0.1:{port}"

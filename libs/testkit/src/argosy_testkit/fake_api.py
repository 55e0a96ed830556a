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
from google.protobuf.timestamp_pb2 import Timestamp
from google.rpc import code_pb2, error_details_pb2, status_pb2  # type: ignore[import-untyped]

from argosy.api.v1 import (
    access_pb2,
    access_pb2_grpc,
    cluster_pb2,
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
from argosy_testkit.fake_scheduling import FakeScheduling

__all__ = ["FakeApi", "start_fake"]


_LOOK_S = 0.02
SCALED_JOB = "01900000-0000-7000-8000-0000000000aa"
"""Job whose pod is resized."""


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


class _Jobs(job_pb2_grpc.JobServiceServicer):
    """Jobs in memory, deduplicated by client id."""

    def __init__(self, api: FakeApi) -> None:
        self.api = api

    async def SubmitJobs(self, request: Any, context: Any) -> Any:
        await self.api.enter("SubmitJobs", request, context)
        missing = [item.queue for item in request.items if item.queue not in self.api.queues]
        if missing and self.api.needs_queues:
            await self.api.abort(context, grpc.StatusCode.NOT_FOUND, f"there is no queue {missing[0]}")
        ids: list[str] = []
        existing: list[int] = []
        for item in request.items if not request.validate_only else ():
            for copy in range(max(item.count, 1)):
                key = f"{item.client_id}~{copy}"
                known = self.api.ids.get(key) if item.client_id else None
                if known is not None:
                    existing.append(len(ids))
                if known is None:
                    known = f"01890000-0000-7000-8000-{len(self.api.jobs) + 1:012d}"
                    self.api.ids[key] = known
                    self.api.jobs[known] = job_pb2.Job(
                        id=known,
                        queue=item.queue,
                        job_set=item.job_set,
                        state=self.api.submitted_state,
                        runs=self.api.submitted_runs,
                        priority=item.priority,
                        client_id=item.client_id,
                        labels=item.labels,
                        spec=request.specs[item.spec],
                        scaling=item.scaling if item.HasField("scaling") else None,
                        operator=item.operator,
                        parent=item.parent if item.HasField("parent") else None,
                    )
                ids.append(known)
        await self.api.leave("SubmitJobs", context)
        return job_pb2.SubmitJobsResponse(job_ids=ids, warnings=self.api.warnings, existing_jobs=existing)

    async def GetJob(self, request: Any, context: Any) -> Any:
        await self.api.enter("GetJob", request, context)
        if request.id not in self.api.jobs:
            await self.api.abort(context, grpc.StatusCode.NOT_FOUND, f"there is no job {request.id}")
        return job_pb2.GetJobResponse(job=self.api.jobs[request.id])

    async def BatchGetJobs(self, request: Any, context: Any) -> Any:
        await self.api.enter("BatchGetJobs", request, context)
        found = {
            one: next((job for job_id, job in self.api.jobs.items() if job_id.endswith(one)), None)
            for one in request.ids
        }
        return job_pb2.BatchGetJobsResponse(
            jobs=[job for job in found.values() if job is not None],
            unknown_ids=[one for one, job in found.items() if job is None],
        )

    async def ListJobSets(self, request: Any, context: Any) -> Any:
        await self.api.enter("ListJobSets", request, context)
        names = sorted({job.job_set for job in self.api.jobs.values() if job.queue == request.queue})
        return job_pb2.ListJobSetsResponse(
            job_sets=[
                job_pb2.JobSet(
                    queue=request.queue,
                    name=name,
                    state_counts=[
                        job_pb2.JobStateCount(
                            state=job_pb2.JOB_STATE_QUEUED,
                            job_count=sum(job.job_set == name for job in self.api.jobs.values()),
                        )
                    ],
                )
                for name in names
            ]
        )

    async def ListJobs(self, request: Any, context: Any) -> Any:
        await self.api.enter("ListJobs", request, context)
        found = self._select(request.selector)
        first = int(request.page_token or 0)
        last = first + request.page_size
        return job_pb2.ListJobsResponse(jobs=found[first:last], next_page_token=str(last) if last < len(found) else "")

    async def CancelJobs(self, request: Any, context: Any) -> Any:
        await self.api.enter("CancelJobs", request, context)
        found, unknown = self._target(request)
        if not request.validate_only:
            for job in found:
                job.cancel_requested = True
        return job_pb2.CancelJobsResponse(job_count=len(found), unknown_ids=unknown, sample=found[:20])

    async def ReprioritizeJobs(self, request: Any, context: Any) -> Any:
        await self.api.enter("ReprioritizeJobs", request, context)
        found, unknown = self._target(request)
        if not request.validate_only:
            for job in found:
                job.priority = request.priority
        return job_pb2.ReprioritizeJobsResponse(job_count=len(found), unknown_ids=unknown, sample=found[:20])

    async def HoldJobs(self, request: Any, context: Any) -> Any:
        await self.api.enter("HoldJobs", request, context)
        return self._set_held(request, job_pb2.HoldJobsResponse, held=True)

    async def ReleaseJobs(self, request: Any, context: Any) -> Any:
        await self.api.enter("ReleaseJobs", request, context)
        return self._set_held(request, job_pb2.ReleaseJobsResponse, held=False)

    async def PreemptJobs(self, request: Any, context: Any) -> Any:
        await self.api.enter("PreemptJobs", request, context)
        found, unknown = self._target(request)
        if not request.validate_only:
            for job in found:
                job.state = job_pb2.JOB_STATE_QUEUED
        return job_pb2.PreemptJobsResponse(job_count=len(found), unknown_ids=unknown, sample=found[:20])

    def _set_held(self, request: Any, response: Any, *, held: bool) -> Any:
        found, unknown = self._target(request)
        if not request.validate_only:
            for job in found:
                job.held = held
        return response(job_count=len(found), unknown_ids=unknown, sample=found[:20])

    async def ExplainJob(self, request: Any, context: Any) -> Any:
        await self.api.enter("ExplainJob", request, context)
        self.api.when_explained(request.id)
        return job_pb2.ExplainJobResponse(
            job=self.api.jobs[request.id],
            stage=job_pb2.JOB_STAGE_PENDING,
            summary="It waits for room.",
            queue_position=3,
            wait_reason=job_pb2.WAIT_REASON_NO_ROOM,
            cluster_reasons=[
                job_pb2.ClusterWaitReason(cluster="c1", reason=job_pb2.WAIT_REASON_NO_ROOM, able_node_count=7)
            ],
            queue_standing=job_pb2.QueueStanding(
                usage_cores=12.5,
                share_cores=16,
                usage_ratio=0.625,
                share_ratio=0.25,
                dominant_resource="memory",
                dominant_ratio=0.9,
                before_count=2,
                first_before=[job_pb2.QueueBefore(queue="physics", flow_per_weight=2)],
            ),
            expected_start=job_pb2.StartBand(
                earliest=Timestamp(seconds=1_000_000_000), likely=Timestamp(seconds=1_000_000_600)
            ),
            largest_node="c1/n7 (8 cpu)",
            missing=["no node has disk=ssd; nodes have disk=hdd"],
            filters=[job_pb2.FilterCount(filter="resources", node_count=12, text="insufficient resources on 12 nodes")],
            examined_node_count=12,
            nearest_miss="c1/n7 lacks 2 cpu",
            last_choice_nodes=["c1/n9"],
            promised_start=job_pb2.PromisedStart(time=Timestamp(seconds=1_000_000_000), firm=True, node="c1/n7"),
        )

    async def BatchGetJobStages(self, request: Any, context: Any) -> Any:
        await self.api.enter("BatchGetJobStages", request, context)
        return job_pb2.BatchGetJobStagesResponse(
            jobs=[
                job_pb2.JobStanding(
                    id=one,
                    stage=self.api.stages.get(one, job_pb2.JOB_STAGE_PENDING),
                    wait_reason=job_pb2.WAIT_REASON_NO_ROOM,
                )
                for one in request.ids
                if one in self.api.jobs
            ],
            pools_without_leader=self.api.pools_without_leader,
        )

    async def ListPendingJobs(self, request: Any, context: Any) -> Any:
        await self.api.enter("ListPendingJobs", request, context)
        pending, queued = job_pb2.JOB_STAGE_PENDING, job_pb2.JOB_STATE_QUEUED
        found = [job for job in self._select(request.selector) if job.state == queued]
        return job_pb2.ListPendingJobsResponse(
            jobs=[job for job in found if self.api.stages.get(job.id, pending) == pending],
            pools_without_leader=self.api.pools_without_leader,
        )

    async def PlanJobs(self, request: Any, context: Any) -> Any:
        await self.api.enter("PlanJobs", request, context)
        return self.api.plan

    async def GetJobLog(self, request: Any, context: Any) -> AsyncIterator[Any]:
        await self.api.enter("GetJobLog", request, context)
        for piece in self.api.log_pieces:
            yield job_pb2.GetJobLogResponse(data=piece)
        while request.follow and self.api.log_goes_on:  # noqa: ASYNC110 - tests end it from their own thread
            await asyncio.sleep(_LOOK_S)

    def _target(self, request: Any) -> tuple[list[Any], list[str]]:
        if request.WhichOneof("target") == "selector":
            return self._select(request.selector), []
        found = [self.api.jobs[one] for one in request.jobs.ids if one in self.api.jobs]
        return found, [one for one in request.jobs.ids if one not in self.api.jobs]

    def _select(self, selector: Any) -> list[Any]:
        return [
            job
            for job in self.api.jobs.values()
            if selector.queue in {"", job.queue}
            and selector.job_set in {"", job.job_set}
            and (not selector.states or job.state in selector.states)
        ]


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


class _Clusters(cluster_pb2_grpc.ClusterServiceServicer):
    """One cluster of three nodes."""

    def __init__(self, api: FakeApi) -> None:
        self.api = api
        amounts = cluster_pb2.ResourceAmounts(amounts={"cpu": 32_000, "memory": 64 << 30})
        self.cluster = cluster_pb2.Cluster(
            name="c1",
            pools=["default"],
            sampler_connected=True,
            executor_connected=True,
            node_count=3,
            total=amounts,
            free=amounts,
        )

    async def ListClusters(self, request: Any, context: Any) -> Any:
        await self.api.enter("ListClusters", request, context)
        return cluster_pb2.ListClustersResponse(clusters=[self.cluster])

    async def GetCluster(self, request: Any, context: Any) -> Any:
        await self.api.enter("GetCluster", request, context)
        return cluster_pb2.GetClusterResponse(cluster=self.cluster)

    async def ListNodes(self, request: Any, context: Any) -> Any:
        await self.api.enter("ListNodes", request, context)
        amounts = cluster_pb2.ResourceAmounts(amounts={"cpu": 16_000, "memory": 8 << 30})
        nodes = [cluster_pb2.Node(name=f"n{n}", ready=True, allocatable=amounts, free=amounts) for n in range(3)]
        nodes[2].last_choice_for.append("science/night")
        return cluster_pb2.ListNodesResponse(nodes=[node for node in nodes if request.node in {"", node.name}])

    async def ListScaledPods(self, request: Any, context: Any) -> Any:
        await self.api.enter("ListScaledPods", request, context)

        def pod(state: int, **cores: int) -> cluster_pb2.ScaledPod:
            sizes: Any = {name: cluster_pb2.ResourceAmounts(amounts={"cpu": amount}) for name, amount in cores.items()}
            number = cluster_pb2.ScaledPodState.Name(state)
            return cluster_pb2.ScaledPod(job_id=SCALED_JOB, attempt=1, queue="science", state=number, **sizes)

        if request.job_id not in {"", SCALED_JOB}:
            return cluster_pb2.ListScaledPodsResponse()
        return cluster_pb2.ListScaledPodsResponse(
            pods=[pod(2, requested=4000, approved=2000, actual=2000)],
            history=[pod(1, requested=1000, approved=1000, actual=1000)] if request.with_history else [],
        )

    async def CordonCluster(self, request: Any, context: Any) -> Any:
        await self.api.enter("CordonCluster", request, context)
        self.cluster.cordon.CopyFrom(queue_pb2.Cordon(reason=request.reason))
        return cluster_pb2.CordonClusterResponse(cluster=self.cluster)

    async def UncordonCluster(self, request: Any, context: Any) -> Any:
        await self.api.enter("UncordonCluster", request, context)
        self.cluster.ClearField("cordon")
        return cluster_pb2.UncordonClusterResponse(cluster=self.cluster)

    async def DelegateCluster(self, request: Any, context: Any) -> Any:
        await self.api.enter("DelegateCluster", request, context)
        self.cluster.delegated = request.delegated
        return cluster_pb2.DelegateClusterResponse(cluster=self.cluster)

    async def CordonNode(self, request: Any, context: Any) -> Any:
        await self.api.enter("CordonNode", request, context)
        cordon = queue_pb2.Cordon(reason=request.reason)
        self.cluster.cordoned_nodes.add(name=request.node, cordon=cordon)
        return cluster_pb2.CordonNodeResponse(cluster=self.cluster)

    async def UncordonNode(self, request: Any, context: Any) -> Any:
        await self.api.enter("UncordonNode", request, context)
        del self.cluster.cordoned_nodes[:]
        return cluster_pb2.UncordonNodeResponse(cluster=self.cluster)

    async def SetMaxCapacity(self, request: Any, context: Any) -> Any:
        await self.api.enter("SetMaxCapacity", request, context)
        self.cluster.max_capacity.CopyFrom(cluster_pb2.ResourceAmounts(amounts=request.amounts))
        return cluster_pb2.SetMaxCapacityResponse(cluster=self.cluster)

    async def ForgetCluster(self, request: Any, context: Any) -> Any:
        await self.api.enter("ForgetCluster", request, context)
        return cluster_pb2.ForgetClusterResponse(lost_run_count=7)


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
    job_pb2_grpc.add_JobServiceServicer_to_server(_Jobs(api), server)
    event_pb2_grpc.add_EventServiceServicer_to_server(_Events(api), server)
    cluster_pb2_grpc.add_ClusterServiceServicer_to_server(_Clusters(api), server)
    scheduling_pb2_grpc.add_SchedulingServiceServicer_to_server(FakeScheduling(api), server)
    server_pb2_grpc.add_ServerServiceServicer_to_server(_Server(api), server)
    debug_pb2_grpc.add_DebugServiceServicer_to_server(_Debug(api), server)
    access_pb2_grpc.add_AccessServiceServicer_to_server(FakeAccess(api), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    return server, f"127.0.0.1:{port}"

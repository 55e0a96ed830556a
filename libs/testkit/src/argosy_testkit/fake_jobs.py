"""The part of the fake API server that knows jobs."""

# ruff: noqa: N802, ANN401, D102 - methods are the protocol's, and generated servicers are not typed

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
from google.protobuf.timestamp_pb2 import Timestamp

from argosy.api.v1 import job_pb2, job_pb2_grpc

__all__ = ["FakeJobs"]

_LOOK_S = 0.02


class FakeJobs(job_pb2_grpc.JobServiceServicer):
    """Jobs in memory, deduplicated by client id."""

    def __init__(self, api: Any) -> None:
        """Keep the state of the whole server."""
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
                weightless_resources=["example.com/gpu"],
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
        self.api.when_stages_asked()
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

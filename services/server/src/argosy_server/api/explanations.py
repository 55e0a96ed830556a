"""Where jobs stand and why they wait, for JobService: by their rows, by the memory of their pool's leader, by nodes.

Of pools that others lead, their leaders are asked, each once a call.

Source: design sections 5 and 9; seed 004 (explanations); `proto/argosy/api/v1/job.proto`.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

import grpc

from argosy.api.v1 import job_pb2, job_pb2_grpc
from argosy_core.access import Verb
from argosy_core.errors import BackendUnavailable, NotFound, Resource
from argosy_core.job.identity import parse_id
from argosy_core.job.states import JobStage, JobState
from argosy_core.placement import WaitReason
from argosy_core.scheduler import Explanation, may_be_put_by_nodes
from argosy_runtime.access.guard import CALLER
from argosy_server.api.calls import Context
from argosy_server.api.change_requests import read_filter, read_ids
from argosy_server.api.codecs.event_codec import STATE_NAMES
from argosy_server.api.codecs.job_codec import explain_response, job_message
from argosy_server.api.job_logs import read_log
from argosy_server.api.kept_logs import KeptLogs
from argosy_server.api.leadership.causes import cluster_standings, explain_causes
from argosy_server.api.leadership.leader_view import LeaderView
from argosy_server.api.leadership.routing import LeaderRouter, is_forwarded
from argosy_server.api.store_threads import StoreThreads
from argosy_server.api.submits.outlook import KnownNodes, Wait
from argosy_store.replicas.api import ApiStore
from argosy_store.replicas.job_filters import JobFilter
from argosy_store.rows import JobRecord

__all__ = ["JobExplanations"]

_MOST_PENDING: Final = 1000
"""Of one pool, as the protocol says."""


class JobExplanations:
    """Says where a job stands: of ended jobs by their rows, of others by the leader's memory.

    Args:
        store: Where jobs are.
        threads: Where blocking calls run.
        router: Finds the leader.
        kept: Reads what executors have kept of logs.
        nodes: Says what nodes say of the reasons of lists.
    """

    def __init__(
        self, store: ApiStore, threads: StoreThreads, router: LeaderRouter, *, kept: KeptLogs, nodes: KnownNodes
    ) -> None:
        """Keep what it needs."""
        self._store = store
        self._threads = threads
        self._router = router
        self._kept = kept
        self._nodes = nodes

    async def read_job(self, job_id: str) -> JobRecord:
        """Return a job with its runs and spec.

        Raises:
            InvalidRequest: The id is none of this system.
            NotFound: No job has it that the caller may see.
        """
        _, handle = parse_id(job_id)
        record = await self._threads.run(self._store.get_job, handle)
        if record is None or record.job_id != job_id.lower() or not CALLER.get().may(Verb.WATCH, record.queue):
            raise NotFound(
                f"no job has the id {job_id}; jobs are forgotten some days after their end",
                resource=Resource(kind="Job", name=job_id),
            )
        return record

    async def explain(self, request: job_pb2.ExplainJobRequest, context: Context) -> job_pb2.ExplainJobResponse:
        """Return where a job stands and, if it waits, why.

        Raises:
            InvalidRequest: The id is none of this system.
            NotFound: No job has it.
            BackendUnavailable: The pool has no leader now.
        """
        record = await self.read_job(request.id)
        if record.end_time_us is not None:
            state = STATE_NAMES[record.state]
            because = f" because: {record.reason}" if record.reason else ""
            ended = Explanation(stage=_stage_of(record), summary=f"The job has ended, {state}{because}.")
            return explain_response(record, ended)
        queue = (await self._threads.run(self._store.queues_by_id, [record.queue_id]))[record.queue_id]
        view = self._router.view(queue.pool)
        if view is None:
            try:
                return await self._router.forward(
                    queue.pool,
                    lambda channel: job_pb2_grpc.JobServiceStub(channel).ExplainJob,
                    request,
                    context=context,
                )
            except BackendUnavailable as error:
                if error.reason != "NO_LEADER" or is_forwarded(context):
                    raise
                return explain_response(record, _without_leader(record, queue.pool))
        explanation = view.explain(record.handle)
        if explanation is None:
            waits = record.state == JobState.QUEUED
            explanation = Explanation(
                stage=_stage_of(record),
                summary="The job is accepted and stored; the leader takes it in with its next round."
                if waits
                else f"The job is {STATE_NAMES[record.state]}; the leader has taken note of its end.",
            )
        elif explanation.stage <= JobStage.PENDING:  # read off the loop: a large pool has many nodes
            explanation = await self._threads.run(
                explain_causes,
                self._store,
                explanation,
                view.definitions([record.handle])[0],
                queue=queue.name,
                nodes=view.node_columns(),
                gauges=view.clusters(),
            )
        return explain_response(record, explanation)

    async def stages(
        self, request: job_pb2.BatchGetJobStagesRequest, context: Context
    ) -> job_pb2.BatchGetJobStagesResponse:
        """Return where jobs stand and what they wait for, asking the leader of each pool once.

        Raises:
            InvalidRequest: Some ids are none of this system.
        """
        handles = read_ids(request.ids, field="ids")
        names = await self._threads.run(self._store.queues_of, list(handles.values()))
        permissions = CALLER.get().permissions
        seen = {job_id: name for job_id, name in names.items() if permissions.may(Verb.WATCH, name)}
        chosen = set(seen.values())
        queues = await self._threads.run(lambda: self._store.list_queues(limit=len(chosen), names=chosen))
        pools = {queue.name: queue.pool for queue in queues}
        cordoned = {queue.name for queue in queues if queue.cordoned}
        by_pool: dict[str, list[str]] = {}
        for job_id, name in seen.items():
            if job_id in handles and name in pools:
                by_pool.setdefault(pools[name], []).append(job_id)
        response = job_pb2.BatchGetJobStagesResponse()
        for pool, ids in by_pool.items():
            view = self._router.view(pool)
            if view is not None:
                by_handle = {handles[job_id]: job_id for job_id in ids}
                told = view.standings(list(by_handle))
                of_cordoned = {handle for handle in told if seen[by_handle[handle]] in cordoned}
                reasons = await self._reasons_by_nodes(view, told, of_cordoned)
                response.jobs.extend(
                    job_pb2.JobStanding(
                        id=by_handle[handle],
                        stage=job_pb2.JobStage.Name(stage),
                        wait_reason=job_pb2.WaitReason.Name(reasons.get(handle, reason)),
                    )
                    for handle, (stage, reason) in told.items()
                )
                continue
            try:
                forwarded = await self._router.forward(
                    pool,
                    lambda channel: job_pb2_grpc.JobServiceStub(channel).BatchGetJobStages,
                    job_pb2.BatchGetJobStagesRequest(ids=ids),
                    context=context,
                )
            except (BackendUnavailable, grpc.aio.AioRpcError):
                response.pools_without_leader.append(pool)
            else:
                response.MergeFrom(forwarded)
        return response

    async def _reasons_by_nodes(
        self, view: LeaderView, told: Mapping[int, tuple[JobStage, WaitReason]], of_cordoned: Collection[int]
    ) -> dict[int, WaitReason]:
        """Return why jobs wait, by handle, where nodes may say it otherwise than the leader's memory."""
        asked = [
            handle
            for handle, (stage, reason) in told.items()
            if stage <= JobStage.PENDING and may_be_put_by_nodes(reason)
        ]
        waits: dict[int, Wait] = {
            handle: (told[handle][1], definition, handle in of_cordoned)
            for handle, definition in zip(asked, view.definitions(asked), strict=True)
        }
        gauges = view.clusters() if waits else ()
        found = await self._nodes.find_reasons(
            view, dict.fromkeys(waits.values()), lambda: cluster_standings(self._store, gauges, says_who=False)
        )
        return {handle: found[wait] for handle, wait in waits.items() if wait in found}

    async def pending(
        self, request: job_pb2.ListPendingJobsRequest, context: Context
    ) -> job_pb2.ListPendingJobsResponse:
        """Return the pending jobs that a selector means, asking the leader of each pool once.

        Raises:
            InvalidRequest: The selector cannot be read.
            NotFound: Its queue does not exist.
        """
        permissions = CALLER.get().permissions
        selector = job_pb2.JobSelector()
        selector.CopyFrom(request.selector)
        selector.states[:] = [job_pb2.JOB_STATE_QUEUED]
        if request.selector.states and job_pb2.JOB_STATE_QUEUED not in request.selector.states:
            return job_pb2.ListPendingJobsResponse()

        def read() -> tuple[JobFilter, list[str]]:
            job_filter = read_filter(self._store, selector, permissions, Verb.WATCH, needs_queue=False)
            if request.pool:
                return job_filter, [request.pool]
            if selector.queue:
                return job_filter, [self._store.get_queue(selector.queue).pool]
            return job_filter, self._store.list_pools()

        job_filter, pools = await self._threads.run(read)
        response = job_pb2.ListPendingJobsResponse()
        for pool in pools:
            view = self._router.view(pool)
            if view is not None:
                handles = tuple(view.pending()[-_MOST_PENDING:])
                if handles:
                    newest = partial(self._store.list_jobs, newest_first=True)
                    page = await self._threads.run(newest, replace(job_filter, handles=handles), 0, _MOST_PENDING)
                    response.jobs.extend(job_message(record) for record in page.jobs)
                continue
            try:
                forwarded = await self._router.forward(
                    pool,
                    lambda channel: job_pb2_grpc.JobServiceStub(channel).ListPendingJobs,
                    job_pb2.ListPendingJobsRequest(selector=selector, pool=pool),
                    context=context,
                )
            except (BackendUnavailable, grpc.aio.AioRpcError):
                response.pools_without_leader.append(pool)
            else:
                response.MergeFrom(forwarded)
        return response

    async def read_log(
        self, request: job_pb2.GetJobLogRequest, context: Context
    ) -> AsyncGenerator[job_pb2.GetJobLogResponse, None]:
        """Give what a container of a job wrote; see `argosy_server.api.job_logs`."""
        record = await self.read_job(request.id)
        queue = (await self._threads.run(self._store.queues_by_id, [record.queue_id]))[record.queue_id]
        pieces = read_log(self._router, queue.pool, record, request, context=context, kept=self._kept)
        async with contextlib.aclosing(pieces):
            async for response in pieces:
                yield response


def _without_leader(record: JobRecord, pool: str) -> Explanation:
    """Return where a job of a pool stands that nobody leads."""
    why = f"nobody leads pool {pool!r} now: a server with the leader role and `pool` set to it has to run"
    stage = _stage_of(record)
    waits = stage <= JobStage.PENDING
    told = f"The job waits; {why}." if waits else f"The job is {STATE_NAMES[record.state]}; {why}."
    reason = WaitReason.NO_LEADER if waits else WaitReason.NONE
    return Explanation(stage=stage, summary=told, why=why if waits else "", reason=reason)


def _stage_of(record: JobRecord) -> JobStage:
    """Return the stage of a job of which the database alone tells."""
    return JobStage[JobState(record.state).name]

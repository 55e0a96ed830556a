"""JobService: submit, read, cancel, reprioritise, hold, release, preempt, explain, logs.

Source: design sections 3 and 5; `proto/argosy/api/v1/job.proto`.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, Final

from google.protobuf.timestamp_pb2 import Timestamp

from argosy.api.v1 import job_pb2, job_pb2_grpc
from argosy_core.access import Verb
from argosy_core.errors import ArgosyError, FieldViolation, InvalidRequest
from argosy_core.job.reading.findings import printable
from argosy_runtime.access.guard import CALLER
from argosy_runtime.traces import active
from argosy_runtime.validation import check_request
from argosy_server.api.calls import Context
from argosy_server.api.change_requests import (
    ChangeRequest,
    ChangeRequestOutcome,
    has_endings,
    make_change_request,
    one_each,
    read_endings,
    read_filter,
    read_ids,
)
from argosy_server.api.codecs.cursors import read_handle_token, read_name_token, write_handle_token, write_name_token
from argosy_server.api.codecs.event_codec import state_counts
from argosy_server.api.codecs.job_codec import job_message
from argosy_server.api.explanations import JobExplanations
from argosy_server.api.store_threads import StoreThreads
from argosy_server.api.submits.planning import JobPlanning
from argosy_server.api.submits.submit import Submission
from argosy_store.replicas.api import ApiStore
from argosy_store.replicas.jobs import JobPage

__all__ = ["JobService", "LeaderJobService"]

_PAGE_SIZE: Final = 100
_DAY_US: Final = 86_400_000_000


class LeaderJobService(job_pb2_grpc.JobServiceServicer):
    """What a process with the leader role alone serves: what replicas forward to it.

    Args:
        explanations: Says where jobs stand.
        planning: Says what would become of jobs.
    """

    def __init__(self, explanations: JobExplanations, planning: JobPlanning) -> None:
        """Keep what it needs."""
        self._explanations = explanations
        self._planning = planning

    async def PlanJobs(self, request: job_pb2.PlanJobsRequest, context: Context) -> job_pb2.PlanJobsResponse:  # noqa: N802 - the protocol's name
        """Answer what would become of jobs if they were submitted now."""
        if not request.HasField("submission"):  # what is in it is checked as a submit's
            check_request(request)
        return await self._planning.plan(request, context)

    async def ExplainJob(  # noqa: N802 - the protocol's name
        self, request: job_pb2.ExplainJobRequest, context: Context
    ) -> job_pb2.ExplainJobResponse:
        """Answer where a job stands and, if it waits, why."""
        check_request(request)
        return await self._explanations.explain(request, context)

    async def BatchGetJobStages(  # noqa: N802 - the protocol's name
        self, request: job_pb2.BatchGetJobStagesRequest, context: Context
    ) -> job_pb2.BatchGetJobStagesResponse:
        """Answer where jobs stand and what they wait for."""
        check_request(request)
        return await self._explanations.stages(request, context)

    async def ListPendingJobs(  # noqa: N802 - the protocol's name
        self, request: job_pb2.ListPendingJobsRequest, context: Context
    ) -> job_pb2.ListPendingJobsResponse:
        """Answer the pending jobs."""
        check_request(request)
        return await self._explanations.pending(request, context)

    async def GetJobLog(  # noqa: N802 - the protocol's name
        self, request: job_pb2.GetJobLogRequest, context: Context
    ) -> AsyncIterator[job_pb2.GetJobLogResponse]:
        """Stream what a container of the job wrote."""
        check_request(request)
        async with contextlib.aclosing(self._explanations.read_log(request, context)) as responses:
            async for response in responses:
                yield response


class JobService(LeaderJobService):
    """The whole service of an API replica.

    Args:
        store: Where jobs are.
        threads: Where blocking calls run.
        submission: Takes submits.
        explanations: Says where jobs stand.
        planning: Says what would become of jobs.
    """

    def __init__(
        self,
        store: ApiStore,
        threads: StoreThreads,
        *,
        submission: Submission,
        explanations: JobExplanations,
        planning: JobPlanning,
    ) -> None:
        """Keep what it needs."""
        super().__init__(explanations, planning)
        self._store = store
        self._threads = threads
        self._submission = submission
        self._tracing = active()

    async def SubmitJobs(  # noqa: N802 - the protocol's name
        self, request: job_pb2.SubmitJobsRequest, context: Context
    ) -> job_pb2.SubmitJobsResponse:
        """Accept jobs, all of them or none."""
        if self._tracing is None:
            return await self._submission.submit(request)
        call = self._tracing.begin_call("submit", context.invocation_metadata())
        error = "the call was given up"
        try:
            traceparent = call.span.traceparent if call.is_traced else ""
            response = await self._submission.submit(request, traceparent=traceparent)
            call.span.note_jobs(response.job_ids, len(response.job_ids))
            error = ""
        except ArgosyError as refusal:
            error = refusal.message
            raise
        finally:
            call.span.end(error=error)
        return response

    async def GetJob(self, request: job_pb2.GetJobRequest, context: Context) -> job_pb2.GetJobResponse:  # noqa: N802 - the protocol's name
        """Answer one job with its runs and its spec."""
        del context
        check_request(request)
        return job_pb2.GetJobResponse(job=job_message(await self._explanations.read_job(request.id)))

    async def BatchGetJobs(  # noqa: N802 - the protocol's name
        self, request: job_pb2.BatchGetJobsRequest, context: Context
    ) -> job_pb2.BatchGetJobsResponse:
        """Answer jobs by their ids, each once."""
        del context
        check_request(request)
        endings: dict[str, list[int]] = {}
        if has_endings(request.ids):
            numbers = await self._threads.run(self._store.job_numbers)
            today = await self._threads.run(self._store.now_us) // _DAY_US
            endings = read_endings(request.ids, numbers, today=today, field="ids")
        handles = read_ids(request.ids, field="ids", endings=endings)
        wanted = [*handles.values(), *(handle for found in endings.values() for handle in found)]
        records = await self._threads.run(self._store.get_jobs, wanted)
        permissions = CALLER.get().permissions
        seen = [record for record in records if permissions.may(Verb.WATCH, record.queue)]
        by_id = {record.job_id: record for record in seen} | one_each(endings, seen, field="ids")
        found = {by_id[text].job_id: by_id[text] for text in map(str.lower, request.ids) if text in by_id}
        return job_pb2.BatchGetJobsResponse(
            jobs=[job_message(record) for record in found.values()],
            unknown_ids=[text for text in dict.fromkeys(map(str.lower, request.ids)) if text not in by_id],
        )

    async def ListJobSets(  # noqa: N802 - the protocol's name
        self, request: job_pb2.ListJobSetsRequest, context: Context
    ) -> job_pb2.ListJobSetsResponse:
        """Answer the job sets of a queue by name, with their jobs by state if that is asked for."""
        del context
        check_request(request)
        after = read_name_token(request.page_token)
        size = request.page_size or _PAGE_SIZE
        CALLER.get().require(Verb.WATCH, request.queue)
        queue = await self._threads.run(self._store.get_queue, request.queue)
        rows = await self._threads.run(self._store.list_job_sets, queue.queue_id, after, size + 1)
        page = rows[:size]
        counts = {}
        if request.count_states and page:
            counts = await self._threads.run(self._store.count_states_by_set, [row.job_set_id for row in page])
        return job_pb2.ListJobSetsResponse(
            job_sets=[
                job_pb2.JobSet(
                    queue=queue.name,
                    name=row.name,
                    last_event_number=row.last_event_number,
                    state_counts=state_counts(counts.get(row.job_set_id, {})),
                )
                for row in page
            ],
            next_page_token=write_name_token(page[-1].name) if len(rows) > size else "",
        )

    async def ListJobs(self, request: job_pb2.ListJobsRequest, context: Context) -> job_pb2.ListJobsResponse:  # noqa: N802 - the protocol's name
        """Answer jobs by selector."""
        del context
        check_request(request)
        query = _query(request)
        after = read_handle_token(request.page_token, query)
        size = request.page_size or _PAGE_SIZE
        permissions = CALLER.get().permissions

        def read() -> JobPage:
            job_filter = replace(
                read_filter(self._store, request.selector, permissions, Verb.WATCH, needs_queue=False),
                from_time_us=_time_us(request, "create_time_from"),
                before_time_us=_time_us(request, "create_time_before"),
            )
            newest_first = request.order == job_pb2.JOB_ORDER_NEWEST_FIRST
            return self._store.list_jobs(job_filter, after, size + 1, newest_first=newest_first)

        page = await self._threads.run(read)
        after = page.jobs[size - 1].handle if len(page.jobs) > size else page.next_handle
        return job_pb2.ListJobsResponse(
            jobs=[job_message(record) for record in page.jobs[:size]],
            next_page_token=write_handle_token(after, query) if after else "",
        )

    async def CancelJobs(self, request: job_pb2.CancelJobsRequest, context: Context) -> job_pb2.CancelJobsResponse:  # noqa: N802 - the protocol's name
        """Ask that jobs end."""
        del context
        check_request(request)
        change_request = ChangeRequest(
            kind="cancel",
            **_target_of(request),
            reason=printable(request.reason),
        )
        outcome = await self._change_request(change_request)
        return job_pb2.CancelJobsResponse(**_answer_of(outcome))

    async def ReprioritizeJobs(  # noqa: N802 - the protocol's name
        self, request: job_pb2.ReprioritizeJobsRequest, context: Context
    ) -> job_pb2.ReprioritizeJobsResponse:
        """Give jobs another priority."""
        del context
        check_request(request)
        change_request = ChangeRequest(
            kind="reprioritize",
            **_target_of(request),
            priority=request.priority,
        )
        outcome = await self._change_request(change_request)
        return job_pb2.ReprioritizeJobsResponse(**_answer_of(outcome))

    async def PreemptJobs(self, request: job_pb2.PreemptJobsRequest, context: Context) -> job_pb2.PreemptJobsResponse:  # noqa: N802 - the protocol's name
        """Stop the runs of jobs; they wait again."""
        del context
        check_request(request)
        outcome = await self._change_request(
            ChangeRequest(
                kind="preempt",
                **_target_of(request),
                reason=printable(request.reason),
            )
        )
        return job_pb2.PreemptJobsResponse(**_answer_of(outcome))

    async def HoldJobs(self, request: job_pb2.HoldJobsRequest, context: Context) -> job_pb2.HoldJobsResponse:  # noqa: N802 - the protocol's name
        """Hold jobs back."""
        del context
        check_request(request)
        outcome = await self._change_request(
            ChangeRequest(
                kind="hold",
                **_target_of(request),
                reason=printable(request.reason),
            )
        )
        return job_pb2.HoldJobsResponse(**_answer_of(outcome))

    async def ReleaseJobs(self, request: job_pb2.ReleaseJobsRequest, context: Context) -> job_pb2.ReleaseJobsResponse:  # noqa: N802 - the protocol's name
        """Let held jobs go."""
        del context
        check_request(request)
        outcome = await self._change_request(
            ChangeRequest(
                kind="release",
                **_target_of(request),
            )
        )
        return job_pb2.ReleaseJobsResponse(**_answer_of(outcome))

    async def _change_request(self, change_request: ChangeRequest) -> ChangeRequestOutcome:
        return await self._threads.run(make_change_request, self._store, change_request, CALLER.get().permissions)


def _target_of(request: Any) -> dict[str, Any]:  # noqa: ANN401 - generated types have no common base
    """Return which jobs a change request means, and whether it only asks, as fields of `ChangeRequest`."""
    return {
        "job_ids": tuple(request.jobs.ids) if request.HasField("jobs") else None,
        "selector": request.selector if request.HasField("selector") else None,
        "is_preview": request.validate_only,
    }


def _answer_of(outcome: ChangeRequestOutcome) -> dict[str, Any]:
    """Return the fields that the answers to change requests have."""
    return {
        "job_count": outcome.job_count,
        "unknown_ids": outcome.unknown_ids,
        "sample": [job_message(record) for record in outcome.sample],
    }


def _query(request: job_pb2.ListJobsRequest) -> bytes:
    """Return all of a request but its page, so that a token goes on with the same query only."""
    query = job_pb2.ListJobsRequest()
    query.CopyFrom(request)
    query.ClearField("page_size")
    query.ClearField("page_token")
    return query.SerializeToString(deterministic=True)


def _time_us(request: job_pb2.ListJobsRequest, field: str) -> int | None:
    """Return a bound of the time, rounded up to microseconds; None if it is not set.

    Raises:
        InvalidRequest: It is no time.
    """
    if not request.HasField(field):
        return None
    time: Timestamp = getattr(request, field)
    try:
        return -(-int(time.ToNanoseconds()) // 1000)
    except ValueError as cause:
        violation = FieldViolation(field=field, description="must be a time of the years 1 to 9999")
        raise InvalidRequest("one field is wrong in the request", violations=(violation,)) from cause

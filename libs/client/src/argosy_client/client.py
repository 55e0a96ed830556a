"""The client: every RPC of argosy.api.v1 as a coroutine that takes and answers values.

Every call is repeated while the server cannot be reached, does not answer in time, or says how long to wait. That is
safe because every mutation is idempotent: submits carry client ids (made here if the user gave none), cancelling sets
what is set already, an equal queue is success. The two that are not quite so (deleting a queue, updating one at a
stated version) say below what a repetition does.

Source: design section 2 ("client"), section 3, section 5 ("Submit", "Change requests").
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from datetime import datetime
from random import Random
from typing import TYPE_CHECKING, Literal

from argosy.api.v1 import event_pb2, event_pb2_grpc, job_pb2, job_pb2_grpc
from argosy.channel_credentials import ChannelCredentials
from argosy_client import codec
from argosy_client.access_calls import AccessCalls
from argosy_client.backoff import RetryPolicy
from argosy_client.cluster_calls import ClusterCalls
from argosy_client.deferred import DeferredModule
from argosy_client.pool_calls import PoolCalls
from argosy_client.queue_calls import QueueCalls
from argosy_client.values import (
    ChangeResult,
    EventBatch,
    Job,
    JobDraft,
    JobPage,
    JobSelector,
    JobSet,
    JobStanding,
    ServerInfo,
    Submitted,
)
from argosy_client.watching import EventStream, watch_job_set

if TYPE_CHECKING:
    from argosy.api.v1 import server_pb2, server_pb2_grpc
    from argosy_client import explanations, planning
    from argosy_client.explanations import Explanation
    from argosy_client.login import Login
    from argosy_client.planning import Plan
else:
    server_pb2 = DeferredModule("argosy.api.v1.server_pb2")
    server_pb2_grpc = DeferredModule("argosy.api.v1.server_pb2_grpc")
    explanations = DeferredModule("argosy_client.explanations")
    planning = DeferredModule("argosy_client.planning")

__all__ = ["ArgosyClient"]


class ArgosyClient(AccessCalls, ClusterCalls, PoolCalls, QueueCalls):
    """A client of one installation; use it as `async with ArgosyClient(address) as client`.

    Args:
        address: host:port of any API replica.
        timeout_s: Deadline of each attempt of a call.
        retries: How long and how often calls are repeated.
        random: Where jitter comes from; given in tests.
        credentials: How the server is known, and who calls; none calls in the clear and without a name.
        login: What the user logged in for, whose token is sent and refreshed in time; from `contexts`.

    Every method raises the errors of `argosy_core.errors`: BackendUnavailable once the retries are used up, others at
    once.
    """

    def __init__(
        self,
        address: str,
        *,
        timeout_s: float = 30.0,
        retries: RetryPolicy | None = None,
        random: Random | None = None,
        credentials: ChannelCredentials | None = None,
        login: Login | None = None,
    ) -> None:
        """Prepare the channel; nothing is dialled before the first call."""
        super().__init__(
            address, timeout_s=timeout_s, retries=retries, random=random, credentials=credentials, login=login
        )
        self._jobs = job_pb2_grpc.JobServiceStub(self._channel)
        self._events = event_pb2_grpc.EventServiceStub(self._channel)

    # --- jobs -----------------------------------------------------------------------------------------------------

    async def submit(
        self, drafts: Sequence[JobDraft], *, validate_only: bool = False, repeat: bool = True
    ) -> tuple[str, ...]:
        """Return the job ids of `submit_checked`, whose warnings nobody wants to see."""
        return (await self.submit_checked(drafts, validate_only=validate_only, repeat=repeat)).job_ids

    async def submit_checked(
        self,
        drafts: Sequence[JobDraft],
        *,
        validate_only: bool = False,
        repeat: bool = True,
        validation: Literal["", "strict", "warn", "ignore"] = "",
    ) -> Submitted:
        """Submit jobs in one request, all of them or none; `argosy_client.batches.split_drafts` cuts long lists.

        Args:
            drafts: What to submit.
            validate_only: Check everything, store nothing, answer no ids.
            repeat: Repeat while the server cannot be reached. Drafts without a client id then get one, so that a
                repetition makes no second job.
            validation: What happens with fields of manifests that their kinds do not have: they are refused (strict,
                or empty), told in the warnings, or ignored.

        Raises:
            InvalidRequest: Something is wrong; every bad item is in the violations.
            AlreadyExists: A client id was used before for something else.
            QuotaExceeded: A queue is full or the server is busy.
        """
        made = uuid.uuid4().hex if repeat and not validate_only else ""
        client_ids = [draft.client_id or (f"auto-{made}-{index}" if made else "") for index, draft in enumerate(drafts)]
        request = codec.submit_message(
            drafts, client_ids=client_ids, validate_only=validate_only, validation=validation
        )
        return codec.submitted_of(await self.call(self._jobs.SubmitJobs, request, repeat=repeat))

    async def get_job(self, job_id: str) -> Job:
        """Return a job with its runs and spec.

        Raises:
            NotFound: There is none.
        """
        return codec.job_of((await self.call(self._jobs.GetJob, job_pb2.GetJobRequest(id=job_id))).job)

    async def get_jobs(self, job_ids: Sequence[str]) -> tuple[tuple[Job, ...], tuple[str, ...]]:
        """Return jobs by their ids, without specs, and the ids that name none; at most 1,000."""
        response = await self.call(self._jobs.BatchGetJobs, job_pb2.BatchGetJobsRequest(ids=job_ids))
        return tuple(codec.job_of(job) for job in response.jobs), tuple(response.unknown_ids)

    async def list_job_sets(
        self, queue: str, *, count_states: bool = False, page_size: int = 100
    ) -> AsyncIterator[JobSet]:
        """Give a queue's job sets in order of their names, page by page.

        Args:
            queue: Queue.
            count_states: Count the jobs of each by state, which takes a look at every job.
            page_size: Most job sets of a page.
        """
        token = ""
        while True:
            request = job_pb2.ListJobSetsRequest(
                queue=queue, count_states=count_states, page_size=page_size, page_token=token
            )
            response = await self.call(self._jobs.ListJobSets, request)
            for job_set in response.job_sets:
                yield codec.job_set_of(job_set)
            token = response.next_page_token
            if not token:
                return

    async def list_jobs(
        self,
        selector: JobSelector,
        *,
        page_size: int = 1000,
        newest_first: bool = False,
        created_from: datetime | None = None,
        created_before: datetime | None = None,
    ) -> AsyncIterator[Job]:
        """Give the selected jobs, page by page.

        Args:
            selector: Which jobs.
            page_size: Most jobs of a page.
            newest_first: The newest first, instead of in order of submit.
            created_from: Only those accepted then or later; an aware time.
            created_before: Only those accepted before then; an aware time.
        """
        token = ""
        while True:
            page = await self.list_jobs_page(
                selector,
                page_size=page_size,
                page_token=token,
                newest_first=newest_first,
                created_from=created_from,
                created_before=created_before,
            )
            for job in page.jobs:
                yield job
            token = page.next_page_token
            if not token:
                return

    async def list_jobs_page(
        self,
        selector: JobSelector,
        *,
        page_size: int = 1000,
        page_token: str = "",
        newest_first: bool = False,
        created_from: datetime | None = None,
        created_before: datetime | None = None,
    ) -> JobPage:
        """Return one page of what `list_jobs` gives, from the token of the page before on.

        Raises:
            InvalidRequest: The token is none, or belongs to another list.
        """
        order = job_pb2.JOB_ORDER_NEWEST_FIRST if newest_first else job_pb2.JOB_ORDER_OLDEST_FIRST
        request = job_pb2.ListJobsRequest(
            selector=codec.selector_message(selector),
            page_size=page_size,
            page_token=page_token,
            order=order,
            create_time_from=created_from,
            create_time_before=created_before,
        )
        response = await self.call(self._jobs.ListJobs, request)
        return JobPage(jobs=tuple(codec.job_of(job) for job in response.jobs), next_page_token=response.next_page_token)

    async def get_job_stages(self, job_ids: Sequence[str]) -> tuple[dict[str, JobStanding], tuple[str, ...]]:
        """Return where at most 1,000 jobs stand, by id, and pools of theirs without leader; ended ones are left out."""
        request = job_pb2.BatchGetJobStagesRequest(ids=job_ids)
        response = await self.call(self._jobs.BatchGetJobStages, request)
        return {job.id: codec.standing_of(job) for job in response.jobs}, tuple(response.pools_without_leader)

    async def list_pending_jobs(self, selector: JobSelector) -> tuple[list[Job], tuple[str, ...]]:
        """Return the pending jobs that a selector means, and the pools without leader, which cannot tell of theirs."""
        request = job_pb2.ListPendingJobsRequest(selector=codec.selector_message(selector))
        response = await self.call(self._jobs.ListPendingJobs, request)
        return [codec.job_of(job) for job in response.jobs], tuple(response.pools_without_leader)

    async def cancel_jobs(
        self, target: Sequence[str] | JobSelector, *, reason: str = "", validate_only: bool = False
    ) -> ChangeResult:
        """Ask that jobs end, by ids or by selector.

        Args:
            target: Job ids, or a selector.
            reason: Shown in the jobs' events.
            validate_only: Only count and show a sample.
        """
        request = job_pb2.CancelJobsRequest(reason=reason, validate_only=validate_only)
        _set_target(request, target)
        answer = await self.call(self._jobs.CancelJobs, request)
        return codec.change_result_of(answer)

    async def reprioritize_jobs(
        self, target: Sequence[str] | JobSelector, priority: int, *, validate_only: bool = False
    ) -> ChangeResult:
        """Give jobs another priority, by ids or by selector; jobs that have a run do not move."""
        request = job_pb2.ReprioritizeJobsRequest(priority=priority, validate_only=validate_only)
        _set_target(request, target)
        answer = await self.call(self._jobs.ReprioritizeJobs, request)
        return codec.change_result_of(answer)

    async def hold_jobs(
        self, target: Sequence[str] | JobSelector, *, reason: str = "", validate_only: bool = False
    ) -> ChangeResult:
        """Hold jobs back, by ids or by selector; those that have a run go on, and are held once they wait again."""
        request = job_pb2.HoldJobsRequest(reason=reason, validate_only=validate_only)
        _set_target(request, target)
        answer = await self.call(self._jobs.HoldJobs, request)
        return codec.change_result_of(answer)

    async def release_jobs(self, target: Sequence[str] | JobSelector, *, validate_only: bool = False) -> ChangeResult:
        """Let held jobs go, by ids or by selector."""
        request = job_pb2.ReleaseJobsRequest(validate_only=validate_only)
        _set_target(request, target)
        answer = await self.call(self._jobs.ReleaseJobs, request)
        return codec.change_result_of(answer)

    async def preempt_jobs(
        self, target: Sequence[str] | JobSelector, *, reason: str = "", validate_only: bool = False
    ) -> ChangeResult:
        """Stop the runs of jobs, by ids or by selector; the jobs keep their places and wait again."""
        request = job_pb2.PreemptJobsRequest(reason=reason, validate_only=validate_only)
        _set_target(request, target)
        answer = await self.call(self._jobs.PreemptJobs, request)
        return codec.change_result_of(answer)

    async def plan_jobs(
        self, drafts: Sequence[JobDraft], *, validation: Literal["", "strict", "warn", "ignore"] = ""
    ) -> Plan:
        """Return what would become of jobs if they were submitted now; at most 10,000 of 1,000 drafts.

        Args:
            drafts: What would be submitted.
            validation: As of a submit.

        Raises:
            InvalidRequest: Something is wrong; every bad item is in the violations.
            QuotaExceeded: Too many plans are wanted at once.
        """
        ids = [draft.client_id for draft in drafts]
        submission = codec.submit_message(drafts, client_ids=ids, validate_only=False, validation=validation)
        answer = await self.call(self._jobs.PlanJobs, job_pb2.PlanJobsRequest(submission=submission))
        return planning.plan_of(answer)

    async def explain_job(self, job_id: str) -> Explanation:
        """Return where a job stands and, if it waits, why.

        Raises:
            NotFound: There is no such job.
        """
        return explanations.explanation_of(await self.call(self._jobs.ExplainJob, job_pb2.ExplainJobRequest(id=job_id)))

    async def read_log(  # noqa: PLR0913 - one parameter per field of the request
        self,
        job_id: str,
        *,
        attempt: int = 0,
        member: int = 0,
        pod: int = 0,
        container: str = "",
        follow: bool = False,
        tail_line_count: int | None = None,
        timestamps: bool = False,
        since: datetime | None = None,
    ) -> AsyncGenerator[bytes, None]:
        """Give what a container of a job wrote, in pieces that may end within a line.

        Not repeated: a log that broke off has been given in part. Leaving the loop ends the reading everywhere; use
        `contextlib.aclosing` where that must happen at once.

        Args:
            job_id: Id of the job.
            attempt: Attempt; 0 means the newest.
            member: Which member of the attempt, from 0.
            pod: Which of its pods, in order of its spec, from 0.
            container: Name of the container; empty means the first.
            follow: Go on while the container writes.
            tail_line_count: Last lines to begin with; None means all.
            timestamps: Each line begins with the time (RFC 3339) at which the cluster took it, and a space.
            since: Only lines that the cluster took at this time, to the second, or later; aware, None means all.

        Raises:
            NotFound: There is no such job, run, pod or container, or its pod is gone; the message says what to do.
            QuotaExceeded: Too many logs of its cluster are read at once.
            BackendUnavailable: The server, the leader, or the cluster's executor cannot be reached.
        """
        request = job_pb2.GetJobLogRequest(
            id=job_id,
            attempt=attempt,
            member=member,
            pod=pod,
            container=container,
            follow=follow,
            tail_line_count=tail_line_count,
            timestamps=timestamps,
            since_time=since,
        )
        async with aclosing(self.stream(self._jobs.GetJobLog, request)) as responses:
            async for response in responses:
                yield response.data

    def watch(
        self,
        queue: str,
        job_set: str,
        *,
        cursor: str = "",
        until_finished: bool = False,
        job_ids: Sequence[str] = (),
        label_selector: str = "",
        allow_missing: bool = False,
    ) -> AsyncIterator[EventBatch]:
        """Give a job set's events from a cursor on; goes on from the last one when the connection breaks.

        Args:
            queue: Queue.
            job_set: Job set.
            cursor: That of the last batch received; empty for the beginning.
            until_finished: End once all watched jobs are terminal and all their events were given.
            job_ids: Only events of these jobs; none for all of the set.
            label_selector: Only events of jobs with such labels.
            allow_missing: Wait for the first job of a set that has none yet.

        Raises:
            NotFound: There is no such queue or job set.
            OutOfRange: The cursor is older than retention.
            BackendUnavailable: The server was away for longer than the retries last.
        """

        async def open_stream(at: str) -> EventStream:
            return self._events.WatchJobSet(
                event_pb2.WatchJobSetRequest(
                    queue=queue,
                    job_set=job_set,
                    cursor=at,
                    until_finished=until_finished,
                    job_ids=job_ids,
                    label_selector=label_selector,
                    allow_missing=allow_missing,
                ),
                metadata=await self.identity(),
            )

        return watch_job_set(
            open_stream,
            cursor=cursor,
            until_finished=until_finished,
            pause=self.pause,
            can_identify_anew=self.can_identify_anew,
        )

    # --- the server -----------------------------------------------------------------------------------------------

    async def server_info(self) -> ServerInfo:
        """Return the server's version, limits and features."""
        stub = server_pb2_grpc.ServerServiceStub(self._channel)
        return codec.server_info_of(await self.call(stub.GetServerInfo, server_pb2.GetServerInfoRequest()))


def _set_target(
    request: job_pb2.CancelJobsRequest
    | job_pb2.ReprioritizeJobsRequest
    | job_pb2.HoldJobsRequest
    | job_pb2.ReleaseJobsRequest
    | job_pb2.PreemptJobsRequest,
    target: Sequence[str] | JobSelector,
) -> None:
    """Say in a change request which jobs are meant."""
    if isinstance(target, JobSelector):
        request.selector.CopyFrom(codec.selector_message(target))
    else:
        request.jobs.ids.extend(target)

"""PlanJobs: what would become of jobs if they were submitted now.

The leader's memory is forked between rounds, on the event loop; the rounds of the plan are done in a thread, one plan
at a time, so that they take no more than a part of one core from the leader's own.

Source: design section 9 (`argosy plan`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Final

import numpy as np

from argosy.api.v1 import job_pb2, job_pb2_grpc
from argosy_core.errors import InvalidRequest, QuotaExceeded, Resource
from argosy_core.job.identity import compose_id
from argosy_core.job.reading.findings import printable
from argosy_core.job.reading.options import UNSET
from argosy_core.nodes import NodeColumns, NodeTable
from argosy_core.scheduler import PoolState
from argosy_core.scheduler.explain.planning import MOST_PLANNED, Plan, PlannedItem, plan_jobs
from argosy_runtime.access.guard import CALLER
from argosy_server.api.calls import Context
from argosy_server.api.codecs.job_codec import explain_response
from argosy_server.api.leadership.routing import LeaderRouter
from argosy_server.api.submits.admission import AdmittedJobs
from argosy_server.api.submits.submit import Submission

__all__ = ["JobPlanning"]

_MOST_WAITING: Final = 4
_MOST_S: Final = 2.0
"""How long the rounds of a plan may take, seconds: a call that is forwarded takes at most five."""
_RETRY_S: Final = 2.0


class JobPlanning:
    """Plans jobs.

    Args:
        submission: Reads and checks what would be submitted.
        router: Finds the leader.
    """

    def __init__(self, submission: Submission, router: LeaderRouter) -> None:
        """Start with no plan under way."""
        self._submission = submission
        self._router = router
        self._turn = asyncio.Lock()
        self._waiting_count = 0

    async def plan(self, request: job_pb2.PlanJobsRequest, context: Context) -> job_pb2.PlanJobsResponse:
        """Return what would become of jobs.

        Raises:
            InvalidRequest: As a submit, or there are too many jobs.
            NotFound: As a submit, or the leader does not know a queue yet.
            NotPermitted: As a submit.
            QuotaExceeded: Too many plans are wanted at once.
            BackendUnavailable: The pool has no leader now, or does one round after the other.
        """
        jobs, _, warnings = await self._submission.admit(request.submission)
        if jobs.count > MOST_PLANNED:
            raise InvalidRequest(f"a plan is of at most {MOST_PLANNED:,} jobs, and these are {jobs.count:,}")
        view = self._router.view(jobs.pool)
        if view is None:
            return await self._router.forward(
                jobs.pool,
                lambda channel: job_pb2_grpc.JobServiceStub(channel).PlanJobs,
                request,
                context=context,
            )
        if self._waiting_count >= _MOST_WAITING:
            raise QuotaExceeded(
                f"{self._waiting_count} plans wait already; try again in a few seconds",
                reason="TOO_MANY_PLANS",
                resource=Resource(kind="Pool", name=jobs.pool),
                retry_delay_s=_RETRY_S,
            )
        self._waiting_count += 1
        try:
            async with self._turn:
                fork = await view.fork()
                plan = await asyncio.to_thread(_plan, fork, view.node_columns(), _items(jobs), view.now_s())
        finally:
            self._waiting_count -= 1
        return _response(fork, plan, warnings)


def _plan(fork: PoolState, nodes: Mapping[str, NodeColumns], items: tuple[PlannedItem, ...], now_s: float) -> Plan:
    """Return the plan of items on a fork, by the leader's clock; takes as long as its rounds."""
    until_s = time.monotonic() + _MOST_S
    return plan_jobs(
        fork,
        {name: NodeTable.of(columns) for name, columns in nodes.items()},
        items,
        now_s=now_s,
        rng=np.random.default_rng(fork.round_number),
        should_stop=lambda: time.monotonic() > until_s,
    )


def _items(jobs: AdmittedJobs) -> tuple[PlannedItem, ...]:
    """Return the items of a request."""
    _, first, counts = np.unique(jobs.items, return_index=True, return_counts=True)
    said = jobs.options.columns() if jobs.options is not None else {}
    return tuple(
        PlannedItem(
            queue_id=int(jobs.queue_ids[at]),
            definition=jobs.specs[int(jobs.spec_index[at])].definition,
            count=count,
            priority=int(jobs.priorities[at]),
            job_set=jobs.job_sets[int(jobs.job_set_index[at])][1],
            options={name: int(values[at]) for name, values in said.items() if values[at] != UNSET},
        )
        for at, count in zip(first.tolist(), counts.tolist(), strict=True)
    )


def _response(fork: PoolState, plan: Plan, warnings: list[job_pb2.SubmitWarning]) -> job_pb2.PlanJobsResponse:
    """Return a plan as a message, as far as the caller may see it."""
    sees = CALLER.get().permissions.sees
    return job_pb2.PlanJobsResponse(
        items=[
            job_pb2.ItemPlan(
                placed_count=one.placed_count,
                places=[
                    job_pb2.PlannedPlace(
                        cluster=place.cluster,
                        node=place.node,
                        job_count=place.count,
                        member_count=place.member_count,
                    )
                    for place in one.places
                ],
                waiting_count=one.waiting_count,
                first_waiting=explain_response(None, one.waiting) if one.waiting is not None else None,
            )
            for one in plan.items
        ],
        preemptions=[
            job_pb2.PlannedPreemption(
                job_id=_job_id(fork, one.handle),
                queue=one.queue,
                cluster=one.cluster,
                node=one.node,
                reason=printable(one.reason),
            )
            for one in plan.preemptions
            if sees(one.queue)
        ],
        share_changes=[
            job_pb2.ShareChange(
                queue=one.queue,
                usage_before_cores=one.usage_before_cores,
                usage_after_cores=one.usage_after_cores,
                entitled_before_cores=one.entitled_before_cores,
                entitled_after_cores=one.entitled_after_cores,
            )
            for one in plan.shares
            if sees(one.queue)
        ],
        other_started_count=plan.other_count,
        complete=plan.is_complete,
        capacity_cores=plan.capacity_cores,
        weightless_resources=plan.weightless_resources,
        warnings=warnings,
    )


def _job_id(fork: PoolState, handle: int) -> str:
    slot = int(fork.live.slots(np.array([handle], dtype=np.int64))[0])
    return compose_id(int(fork.live.id_high[slot]), handle)

"""What would become of jobs if they were submitted now: the call, and what it answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from argosy.api.v1 import job_pb2, job_pb2_grpc
from argosy_client import codec
from argosy_client.explanations import Explanation, explanation_of
from argosy_client.repeated_calls import RepeatedCalls
from argosy_client.values import JobDraft, SubmitWarning

__all__ = ["ItemPlan", "Plan", "PlanCalls", "PlannedPlace", "PlannedPreemption", "ShareChange"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPlace:
    """Where jobs would start at once."""

    cluster: str
    """Cluster."""
    node: str
    """Node."""
    job_count: int
    """Jobs of the draft whose first member, or only one, is there."""
    member_count: int = 0
    """Members of these and of others of the draft that are there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemPlan:
    """What would become of the jobs of one draft."""

    placed_count: int
    """Jobs that would start at once."""
    places: tuple[PlannedPlace, ...]
    """Where, those with most jobs first; at most 100."""
    waiting_count: int
    """Jobs that would wait."""
    first_waiting: Explanation | None
    """Why the first of these would wait; its job is an empty one."""

    @property
    def can_never_run(self) -> bool:
        """Whether no node that is known could ever hold one of them."""
        return self.first_waiting is not None and bool(self.first_waiting.missing)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPreemption:
    """A run that would be stopped to make room."""

    job_id: str
    """Id of its job."""
    queue: str
    """Queue of the job."""
    cluster: str
    """Cluster of the run."""
    node: str
    """Node of the run."""
    reason: str
    """Why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareChange:
    """What a queue would hold, in cores of weighted resources."""

    queue: str
    """Queue."""
    usage_before_cores: float
    """What it holds now."""
    usage_after_cores: float
    """What it would hold once all that could start has started."""
    entitled_before_cores: float
    """What it is entitled to now."""
    entitled_after_cores: float
    """What it would be entitled to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What would become of jobs if they were submitted now."""

    items: tuple[ItemPlan, ...]
    """By draft."""
    preemptions: tuple[PlannedPreemption, ...]
    """Runs that would be stopped to make room for waiting jobs, of queues that the caller may see."""
    share_changes: tuple[ShareChange, ...]
    """Queues whose usage or entitlement would change, of those that the caller may see."""
    other_started_count: int
    """Jobs of others that wait already and would start before or beside these."""
    complete: bool
    """False if time was up before nothing more could be placed."""
    warnings: tuple[SubmitWarning, ...]
    """What is probably not meant."""
    capacity_cores: float = 0.0
    """What the whole pool counts, in cores of weighted resources."""


class PlanCalls(RepeatedCalls):
    """The call that plans; see `argosy_client.client.ArgosyClient`."""

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
        answer = await self.call(
            job_pb2_grpc.JobServiceStub(self._channel).PlanJobs, job_pb2.PlanJobsRequest(submission=submission)
        )
        return Plan(
            items=tuple(_item_of(item) for item in answer.items),
            preemptions=tuple(
                PlannedPreemption(
                    job_id=one.job_id, queue=one.queue, cluster=one.cluster, node=one.node, reason=one.reason
                )
                for one in answer.preemptions
            ),
            share_changes=tuple(
                ShareChange(
                    queue=one.queue,
                    usage_before_cores=one.usage_before_cores,
                    usage_after_cores=one.usage_after_cores,
                    entitled_before_cores=one.entitled_before_cores,
                    entitled_after_cores=one.entitled_after_cores,
                )
                for one in answer.share_changes
            ),
            other_started_count=answer.other_started_count,
            complete=answer.complete,
            warnings=tuple(SubmitWarning(field=one.field, description=one.description) for one in answer.warnings),
            capacity_cores=answer.capacity_cores,
        )


def _item_of(message: job_pb2.ItemPlan) -> ItemPlan:
    """Return what would become of the jobs of one draft."""
    return ItemPlan(
        placed_count=message.placed_count,
        places=tuple(
            PlannedPlace(cluster=one.cluster, node=one.node, job_count=one.job_count, member_count=one.member_count)
            for one in message.places
        ),
        waiting_count=message.waiting_count,
        first_waiting=explanation_of(message.first_waiting) if message.HasField("first_waiting") else None,
    )

"""What would become of jobs if they were submitted now: what the call answers."""

from __future__ import annotations

from dataclasses import dataclass

from argosy.api.v1 import job_pb2
from argosy_client.explanations import Explanation, explanation_of
from argosy_client.values import SubmitWarning

__all__ = ["ItemPlan", "Plan", "PlannedPlace", "PlannedPreemption", "ShareChange", "plan_of"]


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
    weightless_resources: tuple[str, ...] = ()
    """What the pool has that weighs nothing: whoever holds it is not seen as using anything."""


def plan_of(answer: job_pb2.PlanJobsResponse) -> Plan:
    """Return the plan of an answer."""
    return Plan(
        items=tuple(_item_of(item) for item in answer.items),
        preemptions=tuple(
            PlannedPreemption(job_id=one.job_id, queue=one.queue, cluster=one.cluster, node=one.node, reason=one.reason)
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
        weightless_resources=tuple(answer.weightless_resources),
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

"""Where a job stands and why it waits: values, and how they are read off the wire."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from argosy.api.v1 import job_pb2
from argosy_client.codec import JOB_STAGE_NAMES, job_of, reason_of, time_of
from argosy_client.values import Job

__all__ = [
    "ClusterWaitReason",
    "Explanation",
    "FilterCount",
    "PromisedStart",
    "QueueBefore",
    "QueueStanding",
    "StartBand",
    "explanation_of",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterCount:
    """How many nodes a filter turned away."""

    filter: str
    """Name of the filter."""
    node_count: int
    """Nodes that this filter turned away first."""
    text: str
    """The same for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterWaitReason:
    """Why one cluster has no node for a job."""

    cluster: str
    """Name of the cluster."""
    reason: str
    """As in `Explanation.wait_reason`."""
    text: str
    """What a plugin or a failed filter said, who cordoned the cluster and why, or since when it is away; or empty."""
    filters: tuple[FilterCount, ...] = ()
    """Counts of this cluster, most first."""
    examined_node_count: int = 0
    """Nodes looked at for these counts."""
    able_node_count: int | None = None
    """Nodes that could hold it if nothing else ran there, whatever their state; None where nobody looked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromisedStart:
    """The promise of a start to a job that waits."""

    time: datetime | None
    """The job starts no later."""
    firm: bool
    """It follows from time limits, and is broken by nothing but lost capacity; else it follows from estimates."""
    node: str
    """The node that is kept for it, as `cluster/node`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueBefore:
    """A queue whose turn comes before another's."""

    queue: str
    """Name."""
    flow_per_weight: float
    """Its flow by its weight, cores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStanding:
    """What a queue holds of its share, and who comes before it."""

    usage_cores: float
    """Weighted usage of its leased and running jobs, cores."""
    share_cores: float
    """Its share of the pool by weight among all queues, cores."""
    flow_per_weight: float
    """Its flow by its weight, cores."""
    before_count: int
    """Queues with waiting jobs that have a smaller flow per weight, and so come first."""
    first_before: tuple[QueueBefore, ...]
    """The first three of these."""
    usage_ratio: float = 0.0
    """Usage, of what the whole pool counts, 0 to 1."""
    share_ratio: float = 0.0
    """Share, of what the whole pool counts, 0 to 1."""
    dominant_resource: str = ""
    """The resource of which these jobs hold the largest part; empty if they hold nothing."""
    dominant_ratio: float = 0.0
    """That part, of what the pool has of it, 0 to 1."""
    weightless_resources: tuple[str, ...] = ()
    """What these jobs hold that weighs nothing, so that it does not count as usage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartBand:
    """When a job is expected to start."""

    earliest: datetime | None
    """If the whole pool served its queue alone."""
    latest: datetime | None
    """If its queue got just its share, or when it was promised; None for a queue without a share."""
    likely: datetime | None = None
    """When it is most likely, by the median of what runs like those before it took; None where nobody knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Where a job stands and, if it waits, why."""

    job: Job
    """The job."""
    stage: str
    """queued, pending, in_flight, leased, running, succeeded, failed or cancelled."""
    summary: str
    """One or two sentences for people."""
    queue_position: int
    """Jobs of its queue before it."""
    wait_reason: str
    """Why it waits: mismatch, no_room, conflict, plugin, fault, held, dependency, promised, limit, cordoned, away,
    no_leader, back_off, rate; empty if for its turn, or not."""
    cluster_reasons: tuple[ClusterWaitReason, ...]
    """Why single clusters have no node for it."""
    filters: tuple[FilterCount, ...]
    """Counts over all clusters asked, most first."""
    examined_node_count: int
    """Nodes looked at."""
    nearest_miss: str
    """The node that came closest and what it lacks."""
    failed_attempt_count: int
    """Attempts that failed by conflict."""
    queue_flow_per_weight: float
    """Flow of its queue divided by the queue's weight."""
    least_flow_per_weight: float
    """Smallest flow per weight among queues with work."""
    last_choice_nodes: tuple[str, ...]
    """Nodes, as `cluster/node`, where its like failed so often that it gets them only if there is no other."""
    promised_start: PromisedStart | None
    """What it was promised, if anything."""
    why: str = ""
    """Why it waits, for people, as it stands in the summary; empty if it does not wait."""
    queue_standing: QueueStanding | None = None
    """How its queue stands, if it waits."""
    expected_start: StartBand | None = None
    """When it is expected to start; None if that depends on more than on work that ends."""
    largest_node: str = ""
    """The largest node that could hold it if nothing else ran there, with what that has; empty for none."""
    missing: tuple[str, ...] = ()
    """What it asks for that no node has; empty if some node could hold it."""


def explanation_of(message: job_pb2.ExplainJobResponse) -> Explanation:
    """Return where a job stands."""
    return Explanation(
        job=job_of(message.job),
        stage=JOB_STAGE_NAMES.get(message.stage, "unspecified"),
        summary=message.summary,
        queue_position=message.queue_position,
        wait_reason=reason_of(message.wait_reason),
        cluster_reasons=tuple(
            ClusterWaitReason(
                cluster=one.cluster,
                reason=reason_of(one.reason),
                text=one.text,
                filters=_counts_of(one.filters),
                examined_node_count=one.examined_node_count,
                able_node_count=one.able_node_count if one.HasField("able_node_count") else None,
            )
            for one in message.cluster_reasons
        ),
        filters=_counts_of(message.filters),
        examined_node_count=message.examined_node_count,
        nearest_miss=message.nearest_miss,
        failed_attempt_count=message.failed_attempt_count,
        queue_flow_per_weight=message.queue_flow_per_weight,
        least_flow_per_weight=message.least_flow_per_weight,
        last_choice_nodes=tuple(message.last_choice_nodes),
        promised_start=_promise_of(message.promised_start) if message.HasField("promised_start") else None,
        why=message.why,
        queue_standing=_standing_of(message.queue_standing) if message.HasField("queue_standing") else None,
        expected_start=StartBand(
            earliest=time_of(message.expected_start, "earliest"),
            latest=time_of(message.expected_start, "latest"),
            likely=time_of(message.expected_start, "likely"),
        )
        if message.HasField("expected_start")
        else None,
        largest_node=message.largest_node,
        missing=tuple(message.missing),
    )


def _counts_of(counts: Iterable[job_pb2.FilterCount]) -> tuple[FilterCount, ...]:
    """Return counts per filter."""
    return tuple(FilterCount(filter=one.filter, node_count=one.node_count, text=one.text) for one in counts)


def _standing_of(message: job_pb2.QueueStanding) -> QueueStanding:
    """Return how a queue stands."""
    return QueueStanding(
        usage_cores=message.usage_cores,
        share_cores=message.share_cores,
        flow_per_weight=message.flow_per_weight,
        before_count=message.before_count,
        first_before=tuple(
            QueueBefore(queue=one.queue, flow_per_weight=one.flow_per_weight) for one in message.first_before
        ),
        usage_ratio=message.usage_ratio,
        share_ratio=message.share_ratio,
        dominant_resource=message.dominant_resource,
        dominant_ratio=message.dominant_ratio,
        weightless_resources=tuple(message.weightless_resources),
    )


def _promise_of(message: job_pb2.PromisedStart) -> PromisedStart:
    """Return a promised start."""
    return PromisedStart(time=time_of(message, "time"), firm=message.firm, node=message.node)

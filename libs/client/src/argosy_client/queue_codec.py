"""Wire messages of queues, shares and rounds to values and back."""

from __future__ import annotations

from typing import Final

from google.protobuf.duration_pb2 import Duration

from argosy.api.v1 import queue_pb2, scheduling_pb2
from argosy_client.codec import enum_names, time_of
from argosy_client.queue_values import (
    LastRound,
    Queue,
    QueueShare,
    ResourceCapacity,
    ResourceShare,
    Shares,
    StageLatency,
)

__all__ = ["last_round_of", "queue_message", "queue_of", "shares_of"]

_STAGE_NAMES: Final = enum_names(scheduling_pb2.LatencyStage, "LATENCY_STAGE_")


def queue_message(queue: Queue) -> queue_pb2.Queue:
    """Return the message of a queue; what only the server sets is left out."""
    return queue_pb2.Queue(
        name=queue.name,
        weight=queue.weight,
        pool=queue.pool,
        namespaces=queue.namespaces,
        max_queued_count=queue.max_queued_count,
        parent=queue.parent,
        max_running_count=queue.max_running_count,
        max_running_amounts=queue.max_running_amounts,
        submit_rate_per_s=queue.submit_rate_per_s,
        lease_rate_per_s=queue.lease_rate_per_s,
        preempts_unexpired=queue.preempts_unexpired,
        preempts_endless=queue.preempts_endless,
        etag=queue.etag,
    )


def queue_of(message: queue_pb2.Queue) -> Queue:
    """Return the queue of a message."""
    return Queue(
        name=message.name,
        weight=message.weight,
        pool=message.pool,
        max_queued_count=message.max_queued_count,
        parent=message.parent,
        max_running_count=message.max_running_count,
        max_running_amounts=dict(message.max_running_amounts),
        submit_rate_per_s=message.submit_rate_per_s,
        lease_rate_per_s=message.lease_rate_per_s,
        preempts_unexpired=message.preempts_unexpired,
        preempts_endless=message.preempts_endless,
        namespaces=tuple(message.namespaces),
        cordoned=message.HasField("cordon"),
        cordon_reason=message.cordon.reason,
        etag=message.etag,
        create_time=time_of(message, "create_time"),
    )


def shares_of(message: scheduling_pb2.GetSharesResponse) -> Shares:
    """Return the shares of a pool's queues."""
    is_known = not message.capacity_unknown
    return Shares(
        capacity_cores=message.capacity_cores if is_known else None,
        shares=tuple(
            QueueShare(
                queue=share.queue,
                parent=share.parent,
                weight=share.weight,
                fair_share_ratio=share.fair_share_ratio,
                usage_cores=share.usage_cores,
                flow_cores=share.flow_cores,
                demand_cores=share.demand_cores,
                entitled_cores=share.entitled_cores if is_known else None,
                queued_count=share.queued_count,
                pending_count=share.pending_count,
                leased_count=share.leased_count,
                non_preemptible_flow_cores=share.non_preemptible_flow_cores,
                non_preemptible_cap_cores=share.non_preemptible_cap_cores if is_known else None,
                charged_core_min=share.charged_core_min,
                budget_core_min=share.budget_core_min if is_known else None,
                limited_count=share.limited_count,
                rate_limited_count=share.rate_limited_count,
                max_running_count=share.max_running_count,
                lease_rate_per_s=share.lease_rate_per_s,
                resources=tuple(
                    ResourceShare(
                        resource=one.resource,
                        requested=one.requested,
                        running=one.running,
                        entitled=one.entitled if is_known else None,
                    )
                    for one in share.resources
                ),
            )
            for share in message.shares
        ),
        resources=tuple(
            ResourceCapacity(resource=one.resource, capacity=one.capacity, unit_cores=one.unit_cores)
            for one in message.resources
        ),
    )


def last_round_of(message: scheduling_pb2.GetLastRoundResponse) -> LastRound:
    """Return what the last round did."""
    return LastRound(
        round=message.round,
        epoch=message.epoch,
        queued_count=message.queued_count,
        pending_count=message.pending_count,
        leased_count=message.leased_count,
        conflict_count=message.conflict_count,
        class_count=message.class_count,
        phases_ms={phase.phase: _ms_of(phase.duration) for phase in message.phases},
        totals=dict(message.totals),
        latencies={
            stage: StageLatency(
                stage=stage,
                job_count=latency.job_count,
                p50_ms=_ms_of(latency.p50),
                p90_ms=_ms_of(latency.p90),
                p99_ms=_ms_of(latency.p99),
                bounds_ms=tuple(_ms_of(bound) for bound in latency.bucket_bounds),
                bucket_counts=tuple(latency.bucket_counts),
            )
            for stage, latency in ((_STAGE_NAMES.get(one.stage, "unspecified"), one) for one in message.latencies)
        },
    )


def _ms_of(duration: Duration) -> float:
    return duration.ToNanoseconds() / 1e6

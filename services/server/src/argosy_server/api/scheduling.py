"""SchedulingService: what the leader sees, asked of it or forwarded.

Source: design section 3; `proto/argosy/api/v1/scheduling.proto`.
"""

from __future__ import annotations

import math
from functools import lru_cache

from google.protobuf.duration_pb2 import Duration

from argosy.api.v1 import scheduling_pb2, scheduling_pb2_grpc
from argosy_core.scheduler import PoolShares
from argosy_runtime.access.guard import CALLER
from argosy_runtime.validation import check_request
from argosy_server.api.calls import Context
from argosy_server.api.leadership.leader_view import RoundGauges
from argosy_server.api.leadership.routing import LeaderRouter
from argosy_server.api.pool_settings import PoolSettings

__all__ = ["SchedulingService"]


class SchedulingService(scheduling_pb2_grpc.SchedulingServiceServicer):
    """Answers from the leader's memory.

    Args:
        router: Finds the leader.
        settings: Reads and changes settings of pools.
        default_pool: Pool meant by an empty name.
    """

    def __init__(self, router: LeaderRouter, settings: PoolSettings, *, default_pool: str) -> None:
        """Keep what it needs."""
        self._router = router
        self._settings = settings
        self._default_pool = default_pool

    async def GetShares(  # noqa: N802 - the protocol's name
        self, request: scheduling_pb2.GetSharesRequest, context: Context
    ) -> scheduling_pb2.GetSharesResponse:
        """Answer usage, flow, share and demand of each queue that the caller may see."""
        check_request(request)
        pool = request.pool or self._default_pool
        view = self._router.view(pool)
        if view is not None:
            return _shares_message(view.shares())
        return await self._router.forward(
            pool,
            lambda channel: scheduling_pb2_grpc.SchedulingServiceStub(channel).GetShares,
            request,
            context=context,
            is_named=bool(request.pool),
        )

    async def GetLastRound(  # noqa: N802 - the protocol's name
        self, request: scheduling_pb2.GetLastRoundRequest, context: Context
    ) -> scheduling_pb2.GetLastRoundResponse:
        """Answer what the last round did and what it cost."""
        check_request(request)
        pool = request.pool or self._default_pool
        view = self._router.view(pool)
        if view is not None:
            return _round_message(view.last_round())
        return await self._router.forward(
            pool,
            lambda channel: scheduling_pb2_grpc.SchedulingServiceStub(channel).GetLastRound,
            request,
            context=context,
            is_named=bool(request.pool),
        )

    async def GetPoolSettings(  # noqa: N802 - the protocol's name
        self, request: scheduling_pb2.GetPoolSettingsRequest, context: Context
    ) -> scheduling_pb2.GetPoolSettingsResponse:
        """Answer the settings of a pool's rounds that change while it is led."""
        check_request(request)
        return await self._settings.get(request.pool or self._default_pool, request, context)

    async def SetPoolSettings(  # noqa: N802 - the protocol's name
        self, request: scheduling_pb2.SetPoolSettingsRequest, context: Context
    ) -> scheduling_pb2.SetPoolSettingsResponse:
        """Change some of them, all or none."""
        check_request(request)
        return await self._settings.set(request.pool or self._default_pool, request, context)

    async def ListPoolSettings(  # noqa: N802 - the protocol's name
        self, request: scheduling_pb2.ListPoolSettingsRequest, context: Context
    ) -> scheduling_pb2.ListPoolSettingsResponse:
        """List what was set, by whom, when and why."""
        del context
        check_request(request)
        return await self._settings.list(request.pool or self._default_pool, request)


def _shares_message(shares: PoolShares) -> scheduling_pb2.GetSharesResponse:
    permissions, is_known = CALLER.get().permissions, shares.is_known
    return scheduling_pb2.GetSharesResponse(
        capacity_unknown=not is_known,
        capacity_cores=shares.capacity_cores if is_known else None,
        resources=[
            scheduling_pb2.ResourceCapacity(resource=one.resource, capacity=one.capacity, unit_cores=one.unit_cores)
            for one in (shares.resources if is_known else ())
        ],
        shares=[
            scheduling_pb2.QueueShare(
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
                resources=[
                    scheduling_pb2.ResourceShare(
                        resource=one.resource,
                        requested=one.requested,
                        running=one.running,
                        entitled=one.entitled if is_known else None,
                    )
                    for one in share.resources
                ],
            )
            for share in shares.queues
            if permissions.sees(share.queue)
        ],
    )


def _round_message(gauges: RoundGauges) -> scheduling_pb2.GetLastRoundResponse:
    return scheduling_pb2.GetLastRoundResponse(
        round=gauges.round,
        epoch=gauges.epoch,
        queued_count=gauges.queued_count,
        pending_count=gauges.pending_count,
        leased_count=gauges.leased_count,
        conflict_count=gauges.conflict_count,
        class_count=gauges.class_count,
        phases=[scheduling_pb2.PhaseDuration(phase=phase, duration=_duration(value)) for phase, value in gauges.phases],
        totals=dict(gauges.totals),
        latencies=[
            scheduling_pb2.StageLatency(
                stage=f"LATENCY_STAGE_{latency.stage.upper()}",
                job_count=latency.job_count,
                p50=_duration(latency.p50_ms),
                p90=_duration(latency.p90_ms),
                p99=_duration(latency.p99_ms),
                bucket_bounds=_bounds(latency.bound_ms),
                bucket_counts=latency.bucket_count,
            )
            for latency in gauges.latencies
        ],
    )


@lru_cache
def _bounds(bound_ms: tuple[float, ...]) -> tuple[Duration, ...]:
    """Return bounds of buckets, which are the same in every answer."""
    return tuple(_duration(bound) or Duration() for bound in bound_ms)


def _duration(value_ms: float) -> Duration | None:
    """Return milliseconds as a Duration; None for what is no number."""
    if not math.isfinite(value_ms):
        return None
    duration = Duration()
    duration.FromNanoseconds(round(value_ms * 1e6))
    return duration

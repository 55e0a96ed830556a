"""The part of the fake API server that knows shares, rounds and settings of pools."""

# ruff: noqa: N802, ANN401, D102 - methods are the protocol's, and generated servicers are not typed

from __future__ import annotations

from typing import Any

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from argosy.api.v1 import scheduling_pb2, scheduling_pb2_grpc

__all__ = ["FakeScheduling"]


def _ms(value_ms: float) -> Duration:
    duration = Duration()
    duration.FromNanoseconds(int(value_ms * 1e6))
    return duration


class FakeScheduling(scheduling_pb2_grpc.SchedulingServiceServicer):
    """One queue with a share."""

    def __init__(self, api: Any) -> None:
        """Keep the state of the whole server."""
        self.api = api

    async def GetShares(self, request: Any, context: Any) -> Any:
        await self.api.enter("GetShares", request, context)
        amounts = {"cpu": (40_000, 12_500, 20_000), "memory": (4 << 30, 1 << 30, 2 << 30), "example.com/gpu": (3, 1, 2)}
        capacities = {"cpu": (64_000, 1.0), "memory": (64 << 30, 1 / (1 << 30)), "example.com/gpu": (8, 0.0)}
        known = self.api.knows_capacity
        share = scheduling_pb2.QueueShare(
            queue="science",
            weight=2,
            fair_share_ratio=0.5,
            usage_cores=12.5,
            demand_cores=40,
            entitled_cores=20 if known else None,
            limited_count=8,
            max_running_count=12,
            rate_limited_count=3,
            lease_rate_per_s=0.5,
            resources=[
                scheduling_pb2.ResourceShare(
                    resource=name, requested=asked, running=held, entitled=fair if known else None
                )
                for name, (asked, held, fair) in amounts.items()
            ],
        )
        return scheduling_pb2.GetSharesResponse(
            shares=[share],
            capacity_cores=64 if known else None,
            capacity_unknown=not known,
            resources=[
                scheduling_pb2.ResourceCapacity(resource=name, capacity=amount, unit_cores=cores)
                for name, (amount, cores) in (capacities if known else {}).items()
            ],
        )

    async def GetLastRound(self, request: Any, context: Any) -> Any:
        await self.api.enter("GetLastRound", request, context)
        return scheduling_pb2.GetLastRoundResponse(
            round=5,
            epoch=2,
            phases=[scheduling_pb2.PhaseDuration(phase="sample", duration=_ms(1.5))],
            totals={"conflicts": 3},
            latencies=[
                scheduling_pb2.StageLatency(
                    stage=scheduling_pb2.LATENCY_STAGE_LEASED,
                    job_count=4,
                    bucket_bounds=[_ms(1.0), _ms(2.0)],
                    bucket_counts=[1, 3],
                )
            ],
        )

    async def GetPoolSettings(self, request: Any, context: Any) -> Any:
        await self.api.enter("GetPoolSettings", request, context)
        newest = self.api.pool_settings[-1] if self.api.pool_settings else scheduling_pb2.PoolSettingsVersion()
        configured = {"leader.round.half_time_s": "300.0", "leader.round.waiting_heads": "1"}
        return scheduling_pb2.GetPoolSettingsResponse(
            newest=newest,
            version_in_effect=newest.version,
            fault=self.api.settings_fault,
            settings=[
                scheduling_pb2.PoolSetting(
                    key=key,
                    value=newest.settings.get(key, value),
                    configured_value=value,
                    is_set=key in newest.settings,
                    text="What it means.",
                )
                for key, value in configured.items()
            ],
        )

    async def SetPoolSettings(self, request: Any, context: Any) -> Any:
        await self.api.enter("SetPoolSettings", request, context)
        versions = self.api.pool_settings
        kept = {k: v for k, v in (versions[-1].settings if versions else {}).items() if k not in request.unset_keys}
        version = scheduling_pb2.PoolSettingsVersion(
            version=len(versions) + 1,
            settings={**kept, **request.settings},
            create_time=Timestamp(seconds=1_000_000_000),
            principal="root",
            comment=request.comment,
        )
        if not request.validate_only:
            versions.append(version)
        return scheduling_pb2.SetPoolSettingsResponse(version=version)

    async def ListPoolSettings(self, request: Any, context: Any) -> Any:
        await self.api.enter("ListPoolSettings", request, context)
        first = len(self.api.pool_settings) - int(request.page_token or 0)
        page = self.api.pool_settings[:first][::-1][: request.page_size]
        more = first > len(page)
        return scheduling_pb2.ListPoolSettingsResponse(
            versions=page, next_page_token=str(int(request.page_token or 0) + len(page)) if more else ""
        )

"""Calls about pools: their shares, their rounds, settings of these, and the leader's state.

Source: `proto/argosy/api/v1/scheduling.proto`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from functools import cached_property
from typing import TYPE_CHECKING

from argosy_client.deferred import DeferredModule
from argosy_client.repeated_calls import RepeatedCalls

if TYPE_CHECKING:
    from argosy.api.v1 import scheduling_pb2, scheduling_pb2_grpc
    from argosy.debug.v1 import debug_pb2, debug_pb2_grpc
    from argosy_client import pool_settings, queue_codec
    from argosy_client.pool_settings import PoolSettings, PoolSettingsVersion
    from argosy_client.queue_values import LastRound, Shares
else:
    scheduling_pb2 = DeferredModule("argosy.api.v1.scheduling_pb2")
    scheduling_pb2_grpc = DeferredModule("argosy.api.v1.scheduling_pb2_grpc")
    debug_pb2 = DeferredModule("argosy.debug.v1.debug_pb2")
    debug_pb2_grpc = DeferredModule("argosy.debug.v1.debug_pb2_grpc")
    pool_settings = DeferredModule("argosy_client.pool_settings")
    queue_codec = DeferredModule("argosy_client.queue_codec")

__all__ = ["PoolCalls"]


class PoolCalls(RepeatedCalls):
    """The calls about pools; see `argosy_client.client.ArgosyClient`."""

    @cached_property
    def _scheduling(self) -> scheduling_pb2_grpc.SchedulingServiceAsyncStub:
        return scheduling_pb2_grpc.SchedulingServiceStub(self._channel)

    async def get_shares(self, pool: str = "") -> Shares:
        """Return each queue's usage, flow, share and demand."""
        request = scheduling_pb2.GetSharesRequest(pool=pool)
        return queue_codec.shares_of(await self.call(self._scheduling.GetShares, request))

    async def get_last_round(self, pool: str = "") -> LastRound:
        """Return what the leader's last round did and what it cost."""
        request = scheduling_pb2.GetLastRoundRequest(pool=pool)
        return queue_codec.last_round_of(await self.call(self._scheduling.GetLastRound, request))

    async def dump_state(self, pool: str = "") -> AsyncIterator[str]:
        """Give the leader's state as pieces of JSON text, to be joined; not repeated, since the state moves on."""
        request = debug_pb2.DumpStateRequest(pool=pool)
        async with aclosing(
            self.stream(debug_pb2_grpc.DebugServiceStub(self._channel).DumpState, request)
        ) as responses:
            async for response in responses:
                yield response.chunk

    async def get_pool_settings(self, pool: str = "") -> PoolSettings:
        """Return the settings of a pool's rounds that change while it is led."""
        answer = await self.call(self._scheduling.GetPoolSettings, scheduling_pb2.GetPoolSettingsRequest(pool=pool))
        return pool_settings.PoolSettings(
            newest=pool_settings.pool_settings_version_of(answer.newest),
            version_in_effect=answer.version_in_effect,
            fault=answer.fault,
            settings=tuple(
                pool_settings.PoolSetting(
                    key=one.key,
                    value=one.value,
                    configured_value=one.configured_value,
                    is_set=one.is_set,
                    text=one.text,
                )
                for one in answer.settings
            ),
        )

    async def set_pool_settings(
        self,
        settings: Mapping[str, str],
        *,
        pool: str = "",
        unset: Sequence[str] = (),
        comment: str = "",
        expected_version: int | None = None,
        validate_only: bool = False,
    ) -> PoolSettingsVersion:
        """Change settings of a pool's rounds, all or none, from the next round on, and return what is set by then.

        Args:
            settings: Values to set, by key.
            pool: Pool; the default one if empty.
            unset: Keys to set no more.
            comment: Why, for people.
            expected_version: Do nothing if the newest version is another one.
            validate_only: Only check.

        Raises:
            InvalidRequest: A setting does not change while a pool is led, or values are wrong; nothing has changed.
            StateConflict: The newest version is another one.
            NotPermitted: The caller is no administrator.
        """
        request = scheduling_pb2.SetPoolSettingsRequest(
            pool=pool,
            settings=settings,
            unset_keys=unset,
            comment=comment,
            expected_version=expected_version,
            validate_only=validate_only,
        )
        return pool_settings.pool_settings_version_of(
            (await self.call(self._scheduling.SetPoolSettings, request)).version
        )

    async def list_pool_settings(self, pool: str = "", *, page_size: int = 100) -> AsyncIterator[PoolSettingsVersion]:
        """Give what was set of a pool, newest first, page by page."""
        request = scheduling_pb2.ListPoolSettingsRequest(pool=pool, page_size=page_size)
        while True:
            answer = await self.call(self._scheduling.ListPoolSettings, request)
            for message in answer.versions:
                yield pool_settings.pool_settings_version_of(message)
            request.page_token = answer.next_page_token
            if not request.page_token:
                return

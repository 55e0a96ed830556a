"""Settings of a pool's rounds that change while it is led: the calls, and what they answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from argosy.api.v1 import scheduling_pb2, scheduling_pb2_grpc
from argosy_client.repeated_calls import RepeatedCalls

__all__ = ["PoolSetting", "PoolSettings", "PoolSettingsCalls", "PoolSettingsVersion"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSetting:
    """One setting of a pool's rounds."""

    key: str
    """Key, as in a configuration file."""
    value: str
    """Value in effect."""
    configured_value: str
    """Value that the leader's own configuration says, which holds where nothing is set."""
    is_set: bool
    """Whether it is set."""
    text: str
    """Meaning and unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSettingsVersion:
    """One version of what is set of a pool."""

    version: int
    """Number, from 1; 0 if nothing was ever set."""
    settings: Mapping[str, str]
    """All that is set, by key."""
    create_time: datetime | None
    """When."""
    principal: str
    """Who; empty where callers are not asked who they are."""
    comment: str
    """Why, as they said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSettings:
    """The settings of a pool's rounds that change while it is led."""

    newest: PoolSettingsVersion
    """The newest version."""
    version_in_effect: int
    """Version by which the last round was decided."""
    fault: str
    """Why the newest version cannot be used; empty if it can."""
    settings: tuple[PoolSetting, ...]
    """Every setting that can be changed."""


class PoolSettingsCalls(RepeatedCalls):
    """The calls about settings of pools; see `argosy_client.client.ArgosyClient`."""

    async def get_pool_settings(self, pool: str = "") -> PoolSettings:
        """Return the settings of a pool's rounds that change while it is led."""
        stub = scheduling_pb2_grpc.SchedulingServiceStub(self._channel)
        answer = await self.call(stub.GetPoolSettings, scheduling_pb2.GetPoolSettingsRequest(pool=pool))
        return PoolSettings(
            newest=_version_of(answer.newest),
            version_in_effect=answer.version_in_effect,
            fault=answer.fault,
            settings=tuple(
                PoolSetting(
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
        stub = scheduling_pb2_grpc.SchedulingServiceStub(self._channel)
        return _version_of((await self.call(stub.SetPoolSettings, request)).version)

    async def list_pool_settings(self, pool: str = "", *, page_size: int = 100) -> AsyncIterator[PoolSettingsVersion]:
        """Give what was set of a pool, newest first, page by page."""
        request = scheduling_pb2.ListPoolSettingsRequest(pool=pool, page_size=page_size)
        stub = scheduling_pb2_grpc.SchedulingServiceStub(self._channel)
        while True:
            answer = await self.call(stub.ListPoolSettings, request)
            for message in answer.versions:
                yield _version_of(message)
            request.page_token = answer.next_page_token
            if not request.page_token:
                return


def _version_of(message: scheduling_pb2.PoolSettingsVersion) -> PoolSettingsVersion:
    """Return one version."""
    return PoolSettingsVersion(
        version=message.version,
        settings=dict(message.settings),
        create_time=message.create_time.ToDatetime(tzinfo=UTC) if message.HasField("create_time") else None,
        principal=message.principal,
        comment=message.comment,
    )

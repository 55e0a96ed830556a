"""Settings of a pool's rounds that change while it is led: what the calls about them answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from argosy.api.v1 import scheduling_pb2

__all__ = ["PoolSetting", "PoolSettings", "PoolSettingsVersion", "pool_settings_version_of"]


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


def pool_settings_version_of(message: scheduling_pb2.PoolSettingsVersion) -> PoolSettingsVersion:
    """Return what was set at one time, by whom and why."""
    return PoolSettingsVersion(
        version=message.version,
        settings=dict(message.settings),
        create_time=message.create_time.ToDatetime(tzinfo=UTC) if message.HasField("create_time") else None,
        principal=message.principal,
        comment=message.comment,
    )

"""Settings of rounds that change while this process leads: checked whole, and the last good ones kept.

Source: design section 9, "Settings".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import structlog

from argosy_core.errors import ArgosyError
from argosy_core.leader.events import ChangedSettings
from argosy_runtime.config import change_config
from argosy_server.leader.settings import changes_profile, require_hot

if TYPE_CHECKING:
    from argosy_server.config import ServerConfig
    from argosy_store.replicas.pool_settings import PoolSettingsRow

__all__ = ["HotSettings"]

_log = structlog.get_logger(__name__)
_FAULT_LIMIT: Final = 1000


class HotSettings:
    """What was set of the pool that this process stands for.

    Args:
        config: The process's own configuration, over which settings are laid.
    """

    def __init__(self, config: ServerConfig) -> None:
        """Start with the configuration alone."""
        self.base = config
        """The process's own configuration."""
        self.present = config
        """The configuration in effect, or about to be from the next round on."""
        self.fault = ""
        """Why the newest version is not in effect; empty if it is."""

    def check(self, settings: Mapping[str, str]) -> ServerConfig:
        """Return the configuration with all that is set.

        Raises:
            InvalidRequest: A setting does not change while a pool is led, or a value does not fit; every fault of a
                single one is listed.
        """
        require_hot(settings)
        return change_config(self.base, settings)

    def take(self, row: PoolSettingsRow | None) -> ChangedSettings | None:
        """Return a version as the machine takes it; None if nothing was ever set, or if it cannot be used.

        A version that cannot be used, as after a change of the configuration or a release without one of its keys, ends
        no leadership: the last good one holds, and people are told.
        """
        if row is None:
            return None
        try:
            config = self.check(row.settings)
            has_new_profile = changes_profile(self.present.leader, config.leader)
            profile = config.leader.make_profile() if has_new_profile else None
        except Exception as error:  # noqa: BLE001 - whatever a plugin says to its settings
            text = error.message if isinstance(error, ArgosyError) else f"{type(error).__name__}: {error}"
            self.fault = f"version {row.version} cannot be used, and the one before holds: {text}"[:_FAULT_LIMIT]
            _log.error(
                "stored settings cannot be used; the last good ones hold", reason=f"version {row.version}: {text}"
            )
            return None
        self.present, self.fault = config, ""
        _log.info(
            "settings change from the next round on",
            reason=f"version {row.version} by {row.principal or 'nobody known'}",
        )
        return ChangedSettings(version=row.version, round=config.leader.round, decision_profile=profile)

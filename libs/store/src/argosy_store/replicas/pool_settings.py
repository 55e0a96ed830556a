"""Settings of a pool that change while it is led, as versions: each is all that was set, by whom, when and why.

Source: design section 9, "Settings".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from psycopg.types.json import Jsonb

from argosy_core.errors import Resource, StateConflict
from argosy_store.changes import tell
from argosy_store.postgres.connection import StoreConnection
from argosy_store.postgres.pool import Connections
from argosy_store.replicas.audit import ACTOR, note_changes

__all__ = ["SETTINGS_COLUMNS", "PoolSettingsCalls", "PoolSettingsRow", "read_pool_settings"]

SETTINGS_COLUMNS: Final = "version, settings, create_time_us, principal, comment"
_NEWEST: Final = f"SELECT {SETTINGS_COLUMNS} FROM pool_settings WHERE pool = %s ORDER BY version DESC LIMIT 1"
_LIST: Final = (
    f"SELECT {SETTINGS_COLUMNS} FROM pool_settings WHERE pool = %s AND (%s = 0 OR version < %s)"
    " ORDER BY version DESC LIMIT %s"
)
_ADD: Final = (
    "INSERT INTO pool_settings (pool, version, settings, principal, comment) VALUES (%s, %s, %s, %s, %s)"
    f" ON CONFLICT DO NOTHING RETURNING {SETTINGS_COLUMNS}"
)
_FORGET: Final = "DELETE FROM pool_settings WHERE pool = %s AND version <= %s"
_KEPT_VERSIONS: Final = 1000


@dataclass(frozen=True, slots=True)
class PoolSettingsRow:
    """One version of a pool's settings."""

    version: int
    """Number, from 1; later ones are higher."""
    settings: Mapping[str, str]
    """All that is set, as text by key; what is not named is as the leader's own configuration says."""
    create_time_us: int
    """When, microseconds since the Unix epoch by the database's clock."""
    principal: str
    """Who; empty where callers are not asked who they are."""
    comment: str
    """Why, as they said."""


def read_pool_settings(connection: StoreConnection, pool: str) -> PoolSettingsRow | None:
    """Return the newest version of a pool's settings; None if nothing was ever set."""
    row = connection.execute(_NEWEST, [pool]).fetchone()
    return None if row is None else PoolSettingsRow(*row)


class PoolSettingsCalls:
    """What an API replica does with settings of pools."""

    def __init__(self, connections: Connections) -> None:
        """Keep the connections."""
        self._connections = connections

    def pool_settings(self, pool: str) -> PoolSettingsRow | None:
        """Return the newest version of a pool's settings; None if nothing was ever set.

        Raises:
            BackendUnavailable: Postgres cannot be reached.
        """
        with self._connections.read() as connection:
            return read_pool_settings(connection, pool)

    def list_pool_settings(self, pool: str, before_version: int = 0, limit: int = 100) -> list[PoolSettingsRow]:
        """Return versions of a pool's settings, the newest first.

        Args:
            pool: Pool.
            before_version: Only those before this one; 0 for the newest.
            limit: Most of them.

        Raises:
            BackendUnavailable: Postgres cannot be reached.
        """
        with self._connections.read() as connection:
            rows: list[Any] = connection.execute(_LIST, [pool, before_version, before_version, limit]).fetchall()
            return [PoolSettingsRow(*row) for row in rows]

    def set_pool_settings(
        self, pool: str, settings: Mapping[str, str], *, version: int, comment: str, news: bytes, detail: str
    ) -> PoolSettingsRow:
        """Store a version of a pool's settings, tell its leader, and note who did it, in one transaction.

        Of each pool 1,000 versions are kept.

        Args:
            pool: Pool.
            settings: All that is set from now on.
            version: Its number, one more than that of the newest.
            comment: Why.
            news: What tells the leader.
            detail: What changed, for the audit.

        Raises:
            StateConflict: Somebody else stored a version meanwhile.
            BackendUnavailable: Postgres cannot be reached.
        """
        actor = ACTOR.get()
        values = [pool, version, Jsonb(dict(settings)), actor.principal if actor is not None else "", comment]
        with self._connections.read() as connection, connection.transaction_block():
            newest = read_pool_settings(connection, pool)
            row = connection.execute(_ADD, values).fetchone() if _follows(newest, version) else None
            if row is None:
                raise StateConflict(
                    f"the settings of pool {pool} were changed meanwhile; look at them and try again",
                    reason="SETTINGS_CHANGED",
                    resource=Resource(kind="Pool", name=pool),
                )
            connection.execute(_FORGET, [pool, version - _KEPT_VERSIONS])
            tell(connection, [pool], news)
            note_changes(connection, [("PoolSettings", pool, detail)])
            return PoolSettingsRow(*row)


def _follows(newest: PoolSettingsRow | None, version: int) -> bool:
    return version == (newest.version if newest is not None else 0) + 1

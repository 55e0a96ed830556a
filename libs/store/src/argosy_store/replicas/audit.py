"""The audit: who changed what, from where, written in the transaction of the change itself.

Whoever makes a call sets `ACTOR` around it in the thread that makes it; every change of the store that somebody asked
for notes itself. Where callers are not asked who they are nothing is set, and nothing is noted. Submits note themselves
in their jobs, which keep who submitted them.

Each record stands in an outbox, too, from the same statement on until the relay has published it (`AuditOutbox`).

Source: design section 5, "Who is who".
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

from argosy_store.postgres.connection import (
    MAINTENANCE_SETTINGS,
    READ_SETTINGS,
    Line,
    StoreConnection,
    connect,
    translated,
)
from argosy_store.postgres.pool import Connections

__all__ = ["ACTOR", "Actor", "AuditCalls", "AuditOutbox", "AuditRow", "forget_audit", "note_changes", "note_claim"]

_BATCH: Final = 10_000
_DAY_US: Final = 86_400_000_000
_COLUMNS: Final = "id, create_time_us, method, principal, acted_by, host, kind, name, detail"
_NOTE: Final = "WITH noted AS (INSERT INTO audit_records (method, principal, acted_by, host, kind, name, detail)"
_RELAY: Final = " RETURNING id) INSERT INTO audit_outbox (id) SELECT id FROM noted"
_INSERT: Final = f"{_NOTE} SELECT %s, %s, %s, %s, n.* FROM unnest(%s::text[], %s::text[], %s::text[]) AS n{_RELAY}"
_INSERT_REFUSED: Final = (
    f"{_NOTE} SELECT n.method, n.principal, n.acted_by, n.host, 'Call', n.name, n.detail FROM unnest(%s::text[],"
    " %s::text[], %s::text[], %s::text[], %s::text[], %s::text[])"
    f" AS n (method, principal, acted_by, host, name, detail){_RELAY}"
)
_WAITING: Final = f"SELECT {_COLUMNS} FROM audit_outbox JOIN audit_records USING (id) ORDER BY id LIMIT %s"
_LIST: Final = (
    f"SELECT {_COLUMNS} FROM audit_records WHERE (%s = 0 OR id < %s) AND (%s = '' OR principal = %s)"
    " AND (%s = '' OR name = %s) AND create_time_us >= %s ORDER BY id DESC LIMIT %s"
)
_FORGET: Final = (
    "DELETE FROM audit_records WHERE id IN (SELECT id FROM audit_records"
    " WHERE create_time_us < argosy_now_us() - %s ORDER BY id LIMIT %s)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """Who makes a change, and how."""

    method: str
    """Method that was called."""
    principal: str
    """Name of the caller."""
    acted_by: str
    """Who called as the principal; empty where it called itself."""
    host: str
    """Host that called."""


ACTOR: Final[ContextVar[Actor | None]] = ContextVar("ACTOR", default=None)
"""Who makes the changes of the present thread; None where that is not known, and not noted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRow:
    """One change that somebody made."""

    id: int
    """Number; later ones are higher."""
    create_time_us: int
    """When, microseconds since the Unix epoch by the database's clock."""
    actor: Actor
    """Who, and by which method."""
    kind: str
    """Kind of what was changed."""
    name: str
    """Its name."""
    detail: str
    """What was changed of it, for people."""


def note_changes(connection: StoreConnection, changes: Sequence[tuple[str, str, str]]) -> None:
    """Note changes in the present transaction: kind and name of what was changed, and what of it.

    O(changes), in one statement; nothing where it is not known who makes them.
    """
    actor = ACTOR.get()
    if actor is None or not changes:
        return
    who = (actor.method, actor.principal, actor.acted_by, actor.host)
    connection.execute(_INSERT, [*who, *(list(column) for column in zip(*changes, strict=True))])


def note_claim(connection: StoreConnection, cluster: str, text: str) -> None:
    """Note what a cluster's sampler said of it beside its work; the sampler is who did it."""
    who = ("/argosy.sampler.v1.SamplerService/Session", f"sampler of {cluster}", "", "")
    connection.execute(_INSERT, [*who, ["Cluster"], [cluster], [text]])


class AuditCalls:
    """What an API replica does with the audit beside changes."""

    def __init__(self, connections: Connections) -> None:
        """Keep the connections."""
        self._connections = connections

    def note_refused_calls(self, calls: Sequence[tuple[Actor, str]]) -> None:
        """Note calls that were refused for who makes them: who, and how it was answered; in one statement.

        Raises:
            BackendUnavailable: Postgres cannot be reached.
        """
        rows = [(one.method, one.principal, one.acted_by, one.host, one.method, text) for one, text in calls]
        with self._connections.read() as connection:
            connection.execute(_INSERT_REFUSED, [list(column) for column in zip(*rows, strict=True)])

    def list_audit(
        self, before_id: int = 0, limit: int = 100, *, principal: str = "", name: str = "", from_time_us: int = 0
    ) -> list[AuditRow]:
        """Return changes, the newest first.

        Args:
            before_id: Only those before this one; 0 for the newest.
            limit: Most of them.
            principal: Only those of this principal, if named.
            name: Only those of what is called so, if named.
            from_time_us: Only those of this time or later.

        Raises:
            BackendUnavailable: Postgres cannot be reached.
        """
        values = [before_id, before_id, principal, principal, name, name, from_time_us, limit]
        with self._connections.read() as connection:
            return [_row(row) for row in connection.execute(_LIST, values)]


class AuditOutbox:
    """What of the audit the relay has still to publish. Thread-safe.

    A record is written with what it tells of, and leaves when it was published: a transaction that commits late is
    never passed over, and a relay that stops in between publishes again.

    Args:
        url: Database, migrated.
    """

    def __init__(self, url: str) -> None:
        """Open no connection yet."""
        self._line = Line(url, {**READ_SETTINGS, "application_name": "argosy-relay"})

    def read(self, limit: int) -> list[AuditRow]:
        """Return the first records by their numbers, `limit` at most; nothing is taken away.

        Raises:
            BackendUnavailable: Postgres cannot be reached.
        """
        with self._line.use() as connection:
            return [_row(row) for row in connection.execute(_WAITING, [limit])]

    def delete(self, ids: Sequence[int]) -> None:
        """Note that records were published.

        Raises:
            BackendUnavailable: Postgres cannot be reached; they may be given out again.
        """
        with self._line.use() as connection:
            connection.execute("DELETE FROM audit_outbox WHERE id = ANY (%s)", [list(ids)])

    def close(self) -> None:
        """Close the connection."""
        self._line.close()


def _row(row: Sequence[Any]) -> AuditRow:
    return AuditRow(
        id=row[0],
        create_time_us=row[1],
        actor=Actor(method=row[2], principal=row[3], acted_by=row[4], host=row[5]),
        kind=row[6],
        name=row[7],
        detail=row[8],
    )


@translated
def forget_audit(url: str, retention_days: int) -> int:
    """Delete what was noted longer ago than some days, by the database's clock, in steps; return how much it was.

    Raises:
        BackendUnavailable: Postgres cannot be reached.
    """
    count = 0
    with connect(url, MAINTENANCE_SETTINGS) as connection:
        while True:
            deleted = connection.execute(_FORGET, [retention_days * _DAY_US, _BATCH]).rowcount
            count += deleted
            if deleted < _BATCH:
                return count

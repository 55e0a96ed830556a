"""Which sessions leaders ended because of what a cluster's sampler or executor said there: the table `ended_sessions`.

Source: design section 7, invariant 11: whatever peers say is bounded, this table too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import psycopg

from argosy_store.postgres.connection import MAINTENANCE_SETTINGS, StoreConnection, connection_options, translated

__all__ = ["KEPT_COUNT", "EndedSession", "list_ended_sessions", "note_ended_session"]

KEPT_COUNT: Final = 100
"""Sessions of a cluster with one pool's leader that are remembered, the newest."""
_MAX_REASON: Final = 1000
_NOTE: Final = (
    "INSERT INTO ended_sessions (pool, cluster, role, host, reason, end_time_us)"
    " VALUES (%(pool)s, %(cluster)s, %(role)s, %(host)s, %(reason)s, argosy_now_us())"
)
_FORGET: Final = (
    "DELETE FROM ended_sessions WHERE pool = %(pool)s AND cluster = %(cluster)s AND id <= (SELECT id FROM"
    " ended_sessions WHERE pool = %(pool)s AND cluster = %(cluster)s ORDER BY id DESC OFFSET %(kept)s LIMIT 1)"
)
_LIST: Final = "SELECT pool, cluster, role, host, reason, end_time_us FROM ended_sessions ORDER BY id"


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedSession:
    """A session that a leader ended."""

    pool: str
    """Pool of the leader."""
    cluster: str
    """Name of the cluster."""
    role: str
    """`executor` or `sampler`."""
    host: str
    """Where it runs, as it said."""
    reason: str
    """What was wrong."""
    end_time_us: int
    """When, microseconds since the Unix epoch, by the database's clock."""


def note_ended_session(
    connection: StoreConnection, pool: str, *, cluster: str, role: str, host: str, reason: str
) -> None:
    """Remember that a session was ended, and forget the oldest ones of its cluster."""
    values = {"pool": pool, "cluster": cluster, "role": role, "host": host, "kept": KEPT_COUNT}
    connection.execute(_NOTE, {**values, "reason": reason.replace("\0", " ")[:_MAX_REASON]})
    connection.execute(_FORGET, values)


@translated
def list_ended_sessions(url: str) -> list[EndedSession]:
    """Return the sessions that leaders ended, oldest first.

    Raises:
        BackendUnavailable: Postgres cannot be reached.
    """
    with psycopg.connect(connection_options(url, MAINTENANCE_SETTINGS), autocommit=True) as connection:
        return [
            EndedSession(pool=pool, cluster=cluster, role=role, host=host, reason=reason, end_time_us=time_us)
            for pool, cluster, role, host, reason, time_us in connection.execute(_LIST)
        ]

"""What ended leader terms, and what leaders and operators do with it: the table `suspects`.

Source: design section 7, invariant 15.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import psycopg

from argosy_core.errors import BackendUnavailable, NotAllowedNow, NotFound
from argosy_store.postgres.connection import MAINTENANCE_SETTINGS, StoreConnection, connection_options, translated
from argosy_store.quarantine import drop_quarantined, return_to_changes

__all__ = ["SetAsideRow", "count_suspects", "drop_set_aside", "list_set_aside", "note_suspects", "read_suspects",
           "refuse_suspect", "retry_set_aside"]  # fmt: skip

_MAX_ERROR: Final = 2000
_NOTE: Final = (
    "INSERT INTO suspects (pool, kind, key, epoch, error, create_time_us)"
    " SELECT %(pool)s, n.kind, n.key, %(epoch)s, %(error)s, argosy_now_us()"
    " FROM unnest(%(kinds)s::text[], %(keys)s::text[]) AS n (kind, key) ON CONFLICT DO NOTHING"
)
_LIST: Final = (
    "SELECT pool, kind, key, error, create_time_us FROM suspects"
    " UNION ALL SELECT pool, CASE position WHEN 0 THEN 'unread change' ELSE 'unread record' END, id::text, error,"
    " create_time_us FROM quarantine ORDER BY 5, 1, 2, 3"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAsideRow:
    """One thing that leaders have set aside."""

    pool: str
    """Pool."""
    kind: str
    """What it is: job, change, record, class, sampler or executor; `unread change` or `unread record` in quarantine."""
    key: str
    """Handle, id, position or name of the cluster; of what is in quarantine its id there."""
    error: str
    """Why."""
    create_time_us: int
    """Since when, microseconds since the Unix epoch."""


def note_suspects(
    connection: StoreConnection, pool: str, *, epoch: int, origins: Sequence[tuple[str, str]], error: str
) -> None:
    """Note what ended a term; what was noted before stays as it is."""
    connection.execute(
        _NOTE,
        {
            "pool": pool,
            "epoch": epoch,
            "error": error.replace("\0", " ")[:_MAX_ERROR],
            "kinds": [kind for kind, _ in origins],
            "keys": [key for _, key in origins],
        },
    )


def read_suspects(connection: StoreConnection, pool: str) -> tuple[list[tuple[str, str]], list[bytes]]:
    """Return (kind, key) of a pool's suspects, and what stands in those that are changes."""
    suspects = connection.execute("SELECT kind, key FROM suspects WHERE pool = %s ORDER BY 1, 2", [pool]).fetchall()
    payloads = connection.execute(
        "SELECT c.payload FROM changes c JOIN suspects s ON s.pool = c.pool AND s.kind = 'change'"
        " AND s.key = c.id::text WHERE c.pool = %s ORDER BY c.id",
        [pool],
    ).fetchall()
    return [(kind, key) for kind, key in suspects], [bytes(payload) for (payload,) in payloads]


def count_suspects(connection: StoreConnection, pool: str) -> int:
    """Return how many suspects a pool has."""
    row = connection.execute("SELECT count(*) FROM suspects WHERE pool = %s", [pool]).fetchone()
    return int(row[0]) if row is not None else 0


def refuse_suspect(connection: StoreConnection, pool: str, kind: str, key: str) -> None:
    """Refuse who ended a term.

    Raises:
        BackendUnavailable: It did; it may dial again until an operator has let it in.
    """
    row = connection.execute(
        "SELECT FROM suspects WHERE pool = %s AND kind = %s AND key = %s", [pool, kind, key]
    ).fetchone()
    if row is not None:
        raise BackendUnavailable(
            f"what the {kind} of cluster {key} said ended a leader term; `argosy admin quarantine list` tells why, and"
            f" `argosy admin quarantine retry {kind} {key}` lets it in again"
        )


@translated
def list_set_aside(url: str) -> list[SetAsideRow]:
    """Return everything that was set aside, oldest first.

    Raises:
        BackendUnavailable: Postgres cannot be reached.
    """
    with psycopg.connect(connection_options(url, MAINTENANCE_SETTINGS), autocommit=True) as connection:
        return [
            SetAsideRow(pool=pool, kind=kind, key=key, error=error, create_time_us=time_us)
            for pool, kind, key, error, time_us in connection.execute(_LIST)
        ]


@translated
def retry_set_aside(url: str, pool: str, *, kind: str, key: str) -> None:
    """Forget a suspicion, or put what is in quarantine back among the changes.

    Changes and clusters are tried again at once, everything else by the next leader.

    Raises:
        NotFound: There is no such thing.
        NotAllowedNow: It is a record of the log, whose runs were taken back long ago.
        BackendUnavailable: Postgres cannot be reached.
    """
    if kind in {"record", "unread record"}:
        raise NotAllowedNow("a record of the log is not applied later: its runs were taken back; drop it")
    with psycopg.connect(connection_options(url, MAINTENANCE_SETTINGS)) as connection:
        if kind == "unread change":
            count = return_to_changes(connection, pool, key)
        else:
            count = connection.execute(
                "DELETE FROM suspects WHERE pool = %s AND kind = %s AND key = %s", [pool, kind, key]
            ).rowcount
        _require_one(count, kind, key)


@translated
def drop_set_aside(url: str, pool: str, *, kind: str, key: str) -> None:
    """Give up a change or record for good.

    Raises:
        NotFound: There is no such thing.
        NotAllowedNow: It is neither.
        BackendUnavailable: Postgres cannot be reached.
    """
    if kind not in {"change", "record", "unread change", "unread record"}:
        raise NotAllowedNow(f"a {kind} cannot be dropped; `retry` lets it in again")
    with psycopg.connect(connection_options(url, MAINTENANCE_SETTINGS)) as connection:
        if kind.startswith("unread"):
            count = drop_quarantined(connection, pool, key)
        else:
            count = connection.execute(
                "DELETE FROM suspects WHERE pool = %s AND kind = %s AND key = %s", [pool, kind, key]
            ).rowcount
            if kind == "change":
                connection.execute("DELETE FROM changes WHERE pool = %s AND id::text = %s", [pool, key])
        _require_one(count, kind, key)


def _require_one(count: int, kind: str, key: str) -> None:
    if count != 1:
        raise NotFound(f"no {kind} {key} is set aside; see `argosy admin quarantine list`")

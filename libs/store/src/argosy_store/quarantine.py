"""Records and changes that cannot be applied, kept where they can be looked at: the table `quarantine`.

A record of the log stands there by its position; a change that could not be read, at position 0.

Source: design section 4, the table of tables; section 5, "Ingest".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import psycopg

from argosy_eventlog import QuarantinedLogRecord
from argosy_store.postgres.binary import INT8, TEXT, array, bytes_array, fields, scalar, text_array
from argosy_store.postgres.connection import StoreConnection

__all__ = ["drop_quarantined", "insert_once", "insert_quarantined", "list_quarantined", "return_to_changes"]

_INSERT: Final = (
    "INSERT INTO quarantine (pool, position, payload, error, create_time_us)"
    " SELECT $1::text, n.* FROM unnest($2::bigint[], $3::bytea[], $4::text[], $5::bigint[]) AS n"
)
_INSERT_ONCE: Final = (
    "INSERT INTO quarantine (pool, position, payload, error, create_time_us)"
    " SELECT %(pool)s, %(position)s, %(payload)s, %(error)s, %(time)s WHERE NOT EXISTS"
    " (SELECT FROM quarantine WHERE pool = %(pool)s AND position = %(position)s)"
)
_LIST: Final = (
    "SELECT position, payload, error, create_time_us FROM quarantine WHERE pool = %s ORDER BY position LIMIT %s"
)
_DROP: Final = "DELETE FROM quarantine WHERE id::text = %s AND pool = %s"
_RETURN: Final = (
    f"WITH q AS ({_DROP} AND position = 0 RETURNING pool, payload)"
    " INSERT INTO changes (pool, payload) SELECT pool, payload FROM q"
)


def insert_quarantined(connection: StoreConnection, pool: str, records: Sequence[QuarantinedLogRecord]) -> None:
    """Put records out of the way, where they can be looked at."""
    connection.bulk(
        _INSERT,
        scalar(TEXT, pool),
        array(INT8, [record.position for record in records]),
        bytes_array(record.payload for record in records),
        text_array(fields([_without_nul(record.error).encode() for record in records])),
        array(INT8, [record.create_time_us for record in records]),
    )


def insert_once(connection: StoreConnection, pool: str, record: QuarantinedLogRecord) -> None:
    """Put a record of the log out of the way; twice the same is one."""
    connection.execute(
        _INSERT_ONCE,
        {
            "pool": pool,
            "position": record.position,
            "payload": record.payload,
            "error": _without_nul(record.error),
            "time": record.create_time_us,
        },
    )


def list_quarantined(connection: StoreConnection, pool: str, limit: int) -> list[QuarantinedLogRecord]:
    """Return a pool's quarantined records by position."""
    return [
        QuarantinedLogRecord(position=position, payload=bytes(payload), error=error, create_time_us=time_us)
        for position, payload, error, time_us in connection.execute(_LIST, [pool, limit])
    ]


def return_to_changes(connection: psycopg.Connection, pool: str, key: str) -> int:
    """Put a change that could not be read back among the changes; return how many there were of that id, 0 or 1."""
    return connection.execute(_RETURN, [key, pool]).rowcount


def drop_quarantined(connection: psycopg.Connection, pool: str, key: str) -> int:
    """Give up what is in quarantine; return how many there were of that id, 0 or 1."""
    return connection.execute(_DROP, [key, pool]).rowcount


def _without_nul(text: str) -> str:
    """Return a text that Postgres can store."""
    return text.replace("\0", " ")

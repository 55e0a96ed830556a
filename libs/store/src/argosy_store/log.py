"""The event log on Postgres: one table, positions without gap, appends fenced by the epoch in `pools`.

A pool's appends are one after another: each locks the row with the log's end, so positions become visible in order and
a reader never skips one that commits late.

Source: design section 5, "Ingest"; section 7, invariant 9.
"""

from __future__ import annotations

from typing import Final

from argosy_core.errors import StateConflict
from argosy_eventlog import LogRecord
from argosy_store.postgres.binary import BYTEA, INT8, TEXT, scalar
from argosy_store.postgres.connection import LEADER_SETTINGS, Line
from argosy_store.register import PostgresRegister

__all__ = ["PostgresLog"]

_FIND: Final = "SELECT position FROM log_records WHERE pool = $1::text AND epoch = $2::bigint AND sequence = $3::bigint"
_APPEND: Final = (
    "WITH ended AS (INSERT INTO log_ends AS e (pool, position) VALUES ($1::text, 1)"
    " ON CONFLICT (pool) DO UPDATE SET position = e.position + 1 RETURNING position)"
    " INSERT INTO log_records (pool, position, epoch, sequence, payload)"
    " SELECT $1::text, position, $2::bigint, $3::bigint, $4::bytea FROM ended RETURNING position"
)
_READ: Final = (
    "SELECT position, epoch, sequence, payload FROM log_records WHERE pool = %s AND position > %s"
    " ORDER BY position LIMIT %s"
)


class PostgresLog(PostgresRegister):
    """A pool's event log in Postgres. Thread-safe.

    Args:
        url: Database, migrated.
        pool: Pool.
    """

    def __init__(self, url: str, pool: str) -> None:
        """Open no connection yet."""
        super().__init__(url, pool)
        self._writer = Line(url, {**LEADER_SETTINGS, "application_name": "argosy-log"})

    def close(self) -> None:
        """Close the connections."""
        self._writer.close()
        super().close()

    def append(self, epoch: int, sequence: int, payload: bytes, *, traceparent: str = "") -> int:
        """Append a record; return its position.

        Repeating (epoch, sequence) gives the same position and no second record.

        Raises:
            StateConflict: The epoch is not the one in `pools`.
            BackendUnavailable: Postgres cannot be reached; the record may have been appended. Repeat it.
        """
        del traceparent  # nobody else reads this log
        quoted = self._pool.replace("'", "''")
        opening = (
            f"BEGIN; SELECT FROM log_ends WHERE pool = '{quoted}' FOR UPDATE;"
            f" SELECT epoch FROM pools WHERE pool = '{quoted}' FOR SHARE"
        )
        key = (scalar(TEXT, self._pool), scalar(INT8, epoch), scalar(INT8, sequence))
        with self._writer.use() as connection, connection.transaction_block(opening) as state:
            current = int(state.get_value(0, 0) or b"0") if state.ntuples else 0
            if current != epoch:
                raise StateConflict(f"epoch {epoch} may not write to the log of {self._pool}: the epoch is {current}")
            result = connection.bulk(_FIND, *key)
            if result.ntuples == 0:
                result = connection.bulk(_APPEND, *key, scalar(BYTEA, payload))
            return int.from_bytes(result.get_value(0, 0) or b"", "big")

    def read(self, after_position: int, limit: int) -> list[LogRecord]:
        """Return up to `limit` records after a position, in order.

        Raises:
            BackendUnavailable: Postgres cannot be reached.
        """
        with self._reader.use() as connection:
            cursor = connection.execute(_READ, [self._pool, after_position, limit], binary=True)
            return [LogRecord(position=row[0], epoch=row[1], sequence=row[2], payload=bytes(row[3])) for row in cursor]

    def trim(self, before_position: int) -> None:
        """Delete the records before a position; the numbering goes on.

        Raises:
            BackendUnavailable: Postgres cannot be reached.
        """
        with self._reader.use() as connection:
            connection.execute(
                "DELETE FROM log_records WHERE pool = %s AND position < %s", [self._pool, before_position]
            )

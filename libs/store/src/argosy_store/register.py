"""A pool's register: its epoch, and its quarantine, for logs on Postgres or elsewhere.

Source: design section 4, the table of tables; section 5, "Ingest".
"""

from __future__ import annotations

from argosy_eventlog import LogRecord, QuarantinedLogRecord
from argosy_store.postgres.connection import READ_SETTINGS, Line
from argosy_store.quarantine import insert_once, list_quarantined

__all__ = ["PostgresRegister"]


class PostgresRegister:
    """A pool's epoch and quarantine in Postgres. Thread-safe.

    Args:
        url: Database, migrated.
        pool: Pool.
    """

    def __init__(self, url: str, pool: str) -> None:
        """Open no connection yet."""
        self._pool = pool
        self._reader = Line(url, {**READ_SETTINGS, "application_name": "argosy-log"})

    def close(self) -> None:
        """Close the connection."""
        self._reader.close()

    def current_epoch(self) -> int:
        """Return the pool's epoch, 0 if it never had a leader.

        Raises:
            BackendUnavailable: Postgres cannot be reached.
        """
        with self._reader.use() as connection:
            row = connection.execute("SELECT epoch FROM pools WHERE pool = %s", [self._pool]).fetchone()
            return int(row[0]) if row is not None else 0

    def quarantine(self, record: LogRecord, error: str, create_time_us: int) -> None:
        """Keep a record that cannot be applied where it can be looked at. Twice the same is one.

        Raises:
            BackendUnavailable: Postgres cannot be reached.
        """
        with self._reader.use() as connection:
            bad = QuarantinedLogRecord(
                position=record.position, payload=record.payload, error=error, create_time_us=create_time_us
            )
            insert_once(connection, self._pool, bad)

    def list_quarantined(self, limit: int = 100) -> list[QuarantinedLogRecord]:
        """Return quarantined records by position.

        Raises:
            BackendUnavailable: Postgres cannot be reached.
        """
        with self._reader.use() as connection:
            return list_quarantined(connection, self._pool, limit)

"""A pool's register: its epoch, and its quarantine, for logs on Postgres or elsewhere.

Source: design section 4, the table of tables; section 5, "Ingest".
"""

from __future__ import annotations

from argosy_eventlog import LogRecord, QuarantinedLogRecord
from argosy_store.postgres.connection import READ_SETTINGS, Line

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
            connection.execute(
                "INSERT INTO quarantine (pool, position, payload, error, create_time_us)"
                " SELECT %(pool)s, %(position)s, %(payload)s, %(error)s, %(time)s WHERE NOT EXISTS"
                " (SELECT FROM quarantine WHERE pool = %(pool)s AND position = %(position)s)",
                {
                    "pool": self._pool,
                    "position": record.position,
                    "payload": record.payload,
                    "error": error.replace("\0", " "),
                    "time": create_time_us,
                },
            )

    def list_quarantined(self, limit: int = 100) -> list[QuarantinedLogRecord]:
        """Return quarantined records by position.

        Raises:
            BackendUnavailable: Postgres cannot be reached.
        """
        with self._reader.use() as connection:
            cursor = connection.execute(
                "SELECT position, payload, error, create_time_us FROM quarantine WHERE pool = %s"
                " ORDER BY position LIMIT %s",
                [self._pool, limit],
            )
            return [
                QuarantinedLogRecord(position=row[0], payload=bytes(row[1]), error=row[2], create_time_us=row[3])
                for row in cursor
            ]

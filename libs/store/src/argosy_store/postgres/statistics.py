"""What the database has done since it was started, for benchmarks that count rows and log bytes per job.

Source: design section 8, "at most 4 rows inserted and 4 updated a one-pod job ... HOT".
"""

from __future__ import annotations

from dataclasses import dataclass

import psycopg

from argosy_store.postgres.connection import CONNECT_TIMEOUT_S, translating

__all__ = ["DatabaseStatistics", "read_statistics"]

_ROWS = """
SELECT coalesce(sum(n_tup_ins), 0)::bigint, coalesce(sum(n_tup_upd), 0)::bigint,
       coalesce(sum(n_tup_hot_upd), 0)::bigint, coalesce(sum(n_tup_del), 0)::bigint
FROM pg_stat_user_tables
"""
_LOG = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint"
_SIZE = "SELECT pg_database_size(current_database())"


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseStatistics:
    """Totals since the database was started, or differences of two of them."""

    inserted_count: int
    """Rows inserted."""
    updated_count: int
    """Rows updated."""
    hot_updated_count: int
    """Rows updated without touching an index."""
    deleted_count: int
    """Rows deleted."""
    wal_bytes: int
    """Bytes of write-ahead log."""
    size_bytes: int
    """Size of the database; not a total, so differences are growth."""

    def __sub__(self, earlier: DatabaseStatistics) -> DatabaseStatistics:
        """Return what was done since an earlier moment."""
        return DatabaseStatistics(
            inserted_count=self.inserted_count - earlier.inserted_count,
            updated_count=self.updated_count - earlier.updated_count,
            hot_updated_count=self.hot_updated_count - earlier.hot_updated_count,
            deleted_count=self.deleted_count - earlier.deleted_count,
            wal_bytes=self.wal_bytes - earlier.wal_bytes,
            size_bytes=self.size_bytes - earlier.size_bytes,
        )


def read_statistics(url: str) -> DatabaseStatistics:
    """Return the totals of a database; rows of other sessions count at most about a second late.

    Raises:
        BackendUnavailable: The database cannot be reached.
    """
    with translating(), psycopg.connect(url, autocommit=True, connect_timeout=CONNECT_TIMEOUT_S) as connection:
        rows = connection.execute(_ROWS).fetchone()
        log = connection.execute(_LOG).fetchone()
        size = connection.execute(_SIZE).fetchone()
    assert rows is not None
    assert log is not None
    assert size is not None
    return DatabaseStatistics(
        inserted_count=rows[0],
        updated_count=rows[1],
        hot_updated_count=rows[2],
        deleted_count=rows[3],
        wal_bytes=log[0],
        size_bytes=size[0],
    )

"""Connections of an API replica: a pool for bulk transactions and one for questions.

Source: design section 5, "Submit".
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from psycopg_pool import ConnectionPool

from argosy_store.connection import (
    BULK_SETTINGS,
    READ_SETTINGS,
    StoreConnection,
    check_alive,
    connection_options,
    translating,
)

__all__ = ["Connections"]


class Connections:
    """Two pools of connections, opened as needed. Thread-safe.

    Args:
        url: Database.
        max_size: Most connections of each kind.
        wait_s: How long a caller waits for one.
    """

    def __init__(self, url: str, *, max_size: int = 8, wait_s: float = 10.0) -> None:
        """Open no connection yet."""
        self._bulk = _pool(url, BULK_SETTINGS, max_size, wait_s)
        self._read = _pool(url, READ_SETTINGS, max_size, wait_s)

    @contextmanager
    def bulk(self) -> Iterator[StoreConnection]:
        """Lend a connection for bulk statements, whose joins are index look-ups only.

        Raises:
            BackendUnavailable: None could be had, or it broke.
        """
        with translating(), self._bulk.connection() as connection:
            yield connection

    @contextmanager
    def read(self) -> Iterator[StoreConnection]:
        """Lend a connection for everything else.

        Raises:
            BackendUnavailable: None could be had, or it broke.
        """
        with translating(), self._read.connection() as connection:
            yield connection

    def close(self) -> None:
        """Close all connections."""
        self._bulk.close()
        self._read.close()


def _pool(url: str, settings: dict[str, str], max_size: int, wait_s: float) -> ConnectionPool[StoreConnection]:
    """Return an open pool that makes its connections when they are first wanted."""
    return ConnectionPool(
        connection_options(url, settings),
        connection_class=StoreConnection,
        kwargs={"autocommit": True},
        min_size=0,
        max_size=max_size,
        timeout=wait_s,
        max_idle=300.0,
        reconnect_timeout=wait_s,
        check=check_alive,
        open=True,
    )

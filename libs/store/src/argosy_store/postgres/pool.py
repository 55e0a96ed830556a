"""Connections of an API replica: pools for submits, for other bulk transactions, and for requests.

Source: design section 5, "Submit".
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, Self

import psycopg
from psycopg import pq
from psycopg_pool import ConnectionPool, PoolTimeout

from argosy_store.postgres.connection import (
    BULK_SETTINGS,
    QUERY_SETTINGS,
    StoreConnection,
    check_alive,
    connection_options,
    leaving_standby,
    translating,
)
from argosy_store.postgres.locks import STALLED_S, end_stalled_sessions

__all__ = ["Connections"]

_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""One that goes on while the machine sleeps."""
_CLOCK_KEPT_US: Final = 60_000_000
"""How long the database's time is carried on before it is asked again."""


class _Failure:
    """Why the last attempt to connect failed; the pool itself only tells how long it has tried."""

    def __init__(self) -> None:
        """Begin without any."""
        self.last: psycopg.Error | None = None

    def connection_class(self) -> type[StoreConnection]:
        """Return a class of connections that remembers here why one could not be made."""
        failure = self

        class Remembering(StoreConnection):
            """A connection as any other."""

            @classmethod
            def connect(cls, conninfo: str = "", **options: Any) -> Self:  # noqa: ANN401 - psycopg's own signature
                try:
                    made = super().connect(conninfo, **options)
                except psycopg.Error as error:
                    failure.last = error
                    raise
                failure.last = None
                return made

        return Remembering

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Raise the reason in place of the pool's own error."""
        try:
            yield
        except PoolTimeout as cause:
            raise self.last or cause from cause


class Connections:
    """Three pools of connections, opened as needed: none of them can use up what another needs. Thread-safe.

    Args:
        url: Database.
        max_size: Most connections for bulk statements and for requests, each.
        max_submits: Most connections for submits.
        wait_s: How long a caller waits for one.
        stalled_s: When a process is taken for stopped whose locks others wait for; see `end_stalled_sessions`.
    """

    def __init__(
        self,
        url: str,
        *,
        max_size: int = 8,
        max_submits: int = 4,
        wait_s: float = 10.0,
        stalled_s: float = STALLED_S,
    ) -> None:
        """Open no connection yet."""
        self._stalled_s = stalled_s
        self._failure = _Failure()
        kind = self._failure.connection_class()
        self._bulk = _pool(connection_options(url, BULK_SETTINGS), kind, max_size, wait_s)
        self._submits = _pool(connection_options(url, BULK_SETTINGS), kind, max_submits, wait_s)
        self._read = _pool(connection_options(url, QUERY_SETTINGS), kind, max_size, wait_s)
        self._pools = (self._submits, self._bulk, self._read)
        self._clock_lock = threading.Lock()
        self._clock_ahead_us = self._clock_until_us = 0

    @contextmanager
    def submits(self) -> Iterator[StoreConnection]:
        """Lend a connection for a submit, or for what it must look up; set as those for bulk statements are.

        Raises:
            BackendUnavailable: None could be had, or it broke.
        """
        with translating(), self._lend(self._submits) as connection:
            yield connection

    @contextmanager
    def bulk(self) -> Iterator[StoreConnection]:
        """Lend a connection for bulk statements, whose joins are index look-ups only.

        Raises:
            BackendUnavailable: None could be had, or it broke.
        """
        with translating(), self._lend(self._bulk) as connection:
            yield connection

    @contextmanager
    def read(self) -> Iterator[StoreConnection]:
        """Lend a connection for everything else.

        Raises:
            BackendUnavailable: None could be had, or it broke.
        """
        with translating(), self._lend(self._read) as connection:
            yield connection

    @contextmanager
    def _lend(self, pool: ConnectionPool[StoreConnection]) -> Iterator[StoreConnection]:
        """Lend a connection; if its server turns out to be read-only, all others to it are given up as well.

        Whoever waited for a lock in vain makes way for the next attempt, if a stopped process held it.
        """
        try:
            with self._failure.telling(), pool.connection() as connection, leaving_standby(connection):
                try:
                    yield connection
                except psycopg.errors.LockNotAvailable:
                    if connection.pgconn.transaction_status == pq.TransactionStatus.IDLE:
                        end_stalled_sessions(connection, after_s=self._stalled_s)
                    raise
        except psycopg.errors.ReadOnlySqlTransaction:
            for each in self._pools:
                each.drain()
            raise

    def now_us(self) -> int:
        """Return the present time by the database's clock, microseconds since the Unix epoch.

        The database is asked once a minute; between, a clock of ours that nobody sets carries its time on.

        Raises:
            BackendUnavailable: The database cannot be reached.
        """
        with self._clock_lock:
            ours_us = time.clock_gettime_ns(_CLOCK) // 1000
            if ours_us >= self._clock_until_us:
                with self.submits() as connection:
                    row = connection.execute("SELECT argosy_now_us()").fetchone()
                assert row is not None
                ours_us = time.clock_gettime_ns(_CLOCK) // 1000
                self._clock_ahead_us, self._clock_until_us = row[0] - ours_us, ours_us + _CLOCK_KEPT_US
            return ours_us + self._clock_ahead_us

    def close(self) -> None:
        """Close all connections."""
        for each in self._pools:
            each.close()


def _pool(options: str, kind: type[StoreConnection], max_size: int, wait_s: float) -> ConnectionPool[StoreConnection]:
    """Return an open pool that makes its connections when they are first wanted."""
    return ConnectionPool(
        options,
        connection_class=kind,
        kwargs={"autocommit": True},
        min_size=0,
        max_size=max_size,
        timeout=wait_s,
        max_idle=300.0,
        reconnect_timeout=wait_s,
        check=check_alive,
        open=True,
    )

"""Queries that run beside each other and yet see one moment.

Postgres works on such a query with one process. So what does not depend on each other is read through connections of
their own, all with the snapshot of one transaction: a load takes as long as its longest query, not as all of them.

Source: design section 5, "Leader lost".
"""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from argosy_store.postgres.binary import Kind, read_array
from argosy_store.postgres.connection import StoreConnection, connect

__all__ = ["SharedReads"]

_CONNECTION_COUNT: Final = 3
_WORK_MEMORY: Final = "256MB"
_PARTS: Final = 16
"""Rows of arrays that a result comes in: one of a hundred megabytes costs both sides several times as much as parts."""


class SharedReads:
    """Reads with the snapshot of a transaction; use it as a context within that transaction.

    Args:
        url: Database.
        settings: Session settings of the further connections.
        connection: Where the transaction is under way; repeatable read.
    """

    def __init__(self, url: str, settings: dict[str, str], connection: StoreConnection) -> None:
        """Export the snapshot; connections are opened when there is something to read."""
        snapshot = connection.run("SELECT pg_export_snapshot()").get_value(0, 0) or b""
        # For as long as the transaction lasts: joins of a million rows, once. The planner cannot know that a result
        # falls into a few parts, and would sort a million rows by the part that each belongs to.
        self._prologue = (
            f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET TRANSACTION SNAPSHOT '{snapshot.decode()}';"
            f" SET LOCAL work_mem = '{_WORK_MEMORY}'; SET LOCAL enable_sort = off"
        )
        self._url, self._settings = url, settings
        self._threads = ThreadPoolExecutor(_CONNECTION_COUNT, thread_name_prefix="argosy-load")
        self._local = threading.local()
        self._connections: list[StoreConnection] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._threads.shutdown(cancel_futures=True)
        for connection in self._connections:
            connection.close()

    def columns(self, query: str, kinds: list[Kind]) -> Future[list[npt.NDArray[Any]]]:
        """Begin a query, whose first column is a handle, and return its result to come: one array per column."""
        return self._threads.submit(self._read_columns, query, kinds)

    def rows(self, query: str) -> Future[list[tuple[Any, ...]]]:
        """Begin a query with few rows and return its result to come."""
        return self._threads.submit(self._read_rows, query)

    def _connection(self) -> StoreConnection:
        """Return the connection of this thread."""
        connection: StoreConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = connect(self._url, self._settings)
            self._connections.append(connection)
            connection.run(self._prologue)
        return connection

    def _read_columns(self, query: str, kinds: list[Kind]) -> list[npt.NDArray[Any]]:
        """Read each column as one binary array; the columns of the query are called c0, c1 and so on here."""
        arrays = ", ".join(f"array_agg(q.c{place})" for place in range(len(kinds)))
        names = ", ".join(f"c{place}" for place in range(len(kinds)))
        result = self._connection().bulk(f"SELECT {arrays} FROM ({query}) AS q ({names}) GROUP BY q.c0 % {_PARTS}")
        return [
            np.concatenate(
                [
                    read_array(None, kind),
                    *(read_array(result.get_value(row, place), kind) for row in range(result.ntuples)),
                ]
            )
            for place, kind in enumerate(kinds)
        ]

    def _read_rows(self, query: str) -> list[tuple[Any, ...]]:
        return self._connection().execute(query.encode()).fetchall()

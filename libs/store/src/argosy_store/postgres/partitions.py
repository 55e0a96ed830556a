"""Day partitions: made ahead, named directly by bulk statements, dropped by retention.

Every bulk transaction begins with `prologue`: it takes the partition lock in shared mode and then reads which days have
partitions. Whoever changes that takes the lock exclusively, so a transaction never writes to a partition that is being
emptied, and no error has to be repeated.

Partitions are made and dropped by functions of the database that run with the rights of the tables' owner
(migration 0002), so a service needs the right to call them and none to change tables.

Source: design section 4, "Finished jobs and events leave by partition; open jobs are moved out first".
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count, pairwise
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt
import psycopg
from psycopg.pq.abc import PGresult

from argosy_core.job.identity import DAY_SHIFT
from argosy_store.postgres.connection import MAINTENANCE_SETTINGS, StoreConnection, connect, translated
from argosy_store.postgres.locks import PARTITION_LOCK, STALLED_S, UNREAD_S, end_stalled_sessions

__all__ = [
    "STATE_COLUMNS",
    "database_time_us",
    "ensure_partitions",
    "exclusively",
    "learn_state",
    "partition",
    "prologue",
    "split_days",
]

ChangedT = TypeVar("ChangedT")
_DAY_US: Final = 86_400_000_000
STATE_COLUMNS: Final = 5
"""Columns of a prologue's result before those of its tail."""
_LOCK_WAIT: Final = "100ms"
"""How long a change of partitions waits for a lock: for so long it may hold up whoever comes after it."""
_LOCK_ATTEMPTS: Final = 60
_LOCK_PAUSE_S: Final = 0.25
"""Between two attempts, so that those who were held up get by."""


def prologue(*locks: str, tail: str = "") -> str:
    """Return the statements that open a bulk transaction, sent as one message.

    The last result has the columns (days, closed days, deleted queue ids, first open day) of partition_state and the
    database's timeline, then those of `tail`.

    Args:
        locks: Further locking statements.
        tail: What else to select, as `, p.epoch FROM pools p WHERE ...` after `partition_state s`; empty for nothing.
    """
    script = f"BEGIN; SELECT pg_advisory_xact_lock_shared({PARTITION_LOCK}); "
    script += "".join(f"{lock}; " for lock in locks)
    columns = "s.days, s.closed_days, s.deleted_queue_ids, s.first_open_day, argosy_timeline()"
    return script + f"SELECT {columns}{tail or ' FROM partition_state s'}"


def learn_state(connection: StoreConnection, result: PGresult) -> None:
    """Remember what the prologue's result says, reading it only when it has changed."""
    state = tuple(result.get_value(0, column) or b"{}" for column in range(STATE_COLUMNS))
    if state != connection.shared_state:
        connection.shared_state = state
        connection.days, connection.closed_days, connection.deleted_queue_ids = map(_integers, state[:3])
        connection.first_open_day = int(state[3])
        connection.timeline = state[4].decode()


def exclusively(
    connection: StoreConnection,
    change: Callable[[], ChangedT],
    *,
    takes_lock: bool = False,
    stalled_s: float = STALLED_S,
    unread_s: float = UNREAD_S,
) -> ChangedT:
    """Run a change under the exclusive partition lock, in a transaction of its own, and return what it answers.

    Whoever waits for a lock holds up all that come after it, so every wait in it is short (for the tables' locks too,
    behind readers) and the whole is tried again after a pause. Sessions of stopped processes that hold it are ended.

    Args:
        connection: Where; no transaction may be open.
        change: What to do; it may be called several times, and what it did before is rolled back.
        takes_lock: Whether the change takes the lock itself, as late as it can.
        stalled_s: When a process is taken for stopped; see `end_stalled_sessions`.
        unread_s: When one is that reads nothing, likewise.

    Raises:
        psycopg.errors.LockNotAvailable: Long transactions held a lock all the time.
    """
    lock = "" if takes_lock else f"SELECT pg_advisory_xact_lock({PARTITION_LOCK})"
    for attempt in count(1):
        try:
            with connection.transaction_block():
                connection.run(f"SET LOCAL lock_timeout = '{_LOCK_WAIT}'; {lock}")
                return change()
        except psycopg.errors.LockNotAvailable:
            end_stalled_sessions(connection, after_s=stalled_s, unread_s=unread_s)
            if attempt == _LOCK_ATTEMPTS:
                raise
        time.sleep(_LOCK_PAUSE_S)
    raise AssertionError  # count has no end


def database_time_us(connection: StoreConnection) -> int:
    """Return the time by the clock of the database, microseconds since the Unix epoch: days go by it alone."""
    row = connection.execute("SELECT argosy_now_us()").fetchone()
    assert row is not None
    return int(row[0])


def _integers(text: bytes) -> frozenset[int]:
    """Return the elements of an integer[] in text form."""
    return frozenset(int(item) for item in text.strip(b"{}").split(b",") if item)


def partition(connection: StoreConnection, table: str, day: int) -> str:
    """Return the name of the partition that holds a day's rows of a table."""
    return f"{table}_d{day}" if day in connection.days else f"{table}_carried"


def split_days(handles: npt.NDArray[np.int64]) -> Iterator[tuple[int, slice]]:
    """Yield (day, slice) for each day in sorted handles. Complexity: O(1) for one day, else O(n)."""
    size = len(handles)
    if size == 0:
        return
    first, last = int(handles[0]) >> DAY_SHIFT, int(handles[-1]) >> DAY_SHIFT
    if first == last:
        yield first, slice(0, size)
        return
    days = handles >> DAY_SHIFT
    starts = np.concatenate(([0], np.flatnonzero(np.diff(days)) + 1, [size])).tolist()
    for start, end in pairwise(starts):
        yield int(days[start]), slice(start, end)


@translated
def ensure_partitions(url: str, today: int | None = None, days_ahead: int = 3) -> tuple[int, ...]:
    """Make the partitions of a day and the days after it, where they are missing.

    Rows that came before their partition (they went to the default one) are moved into it.

    Args:
        url: Database.
        today: Days since the Unix epoch; the day before the database's today if None, since at midnight jobs of the
            day before are still on their way.
        days_ahead: Days after that which get partitions too.

    Returns:
        The days that were made.

    Raises:
        BackendUnavailable: Postgres cannot be reached.
    """
    with connect(url, MAINTENANCE_SETTINGS) as connection:
        first = database_time_us(connection) // _DAY_US - 1 if today is None else today
        wanted = set(range(first, first + days_ahead + 1))
        missing = sorted(wanted - set(_present_days(connection)))
        # One day a transaction: what is locked meanwhile is locked for an instant.
        return tuple(day for day in missing if exclusively(connection, partial(_make_day, connection, day)))


def _make_day(connection: StoreConnection, day: int) -> bool:
    """Make the partitions of a day; return whether they were missing."""
    row = connection.execute("SELECT argosy_make_partitions(%s)", [day]).fetchone()
    return row is not None and bool(row[0])


def _present_days(connection: StoreConnection) -> list[int]:
    """Return the days that have partitions."""
    row = connection.execute("SELECT days FROM partition_state").fetchone()
    return list(row[0]) if row else []

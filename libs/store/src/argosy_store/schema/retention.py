"""Retention: what has ended long ago leaves by dropped partitions.

A day's partitions are dropped once the day is older than retention. Jobs of it that are open, or that ended within
retention, are carried over into the default partitions first, with their runs, objects and specs; they leave from there
when their time has come. Client ids leave after their jobs, and so do scheduling classes, metadata and job
sets that nobody has used for so long; a job set keeps the number of its last event until then, so a cursor that is
older than what is kept is told from one that is ahead.

Days without open jobs are *closed*: no job can come into them any more, so leaders do not look there.

All of this goes by the clock of the database, which refuses to close or drop a day from yesterday on: no server whose
clock is wrong can take anything away.

Source: design section 4, "Finished jobs and events leave by partition; open jobs are moved out first".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

from argosy_core.job.identity import first_handle_of_day
from argosy_store.postgres.connection import MAINTENANCE_SETTINGS, StoreConnection, connect, translated
from argosy_store.postgres.partitions import database_time_us, exclusively

__all__ = ["NOTHING_RETAINED", "Retained", "retain"]

_DAY_US: Final = 86_400_000_000
_BATCH: Final = 5000
_PAGES: Final = 512
"""Pages of client ids that one transaction looks through."""
_OPEN_DAYS: Final = 2
"""Days, today included, into which jobs may still be submitted; their clocks may differ by less than a day."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retained:
    """What one run of retention did."""

    dropped_days: tuple[int, ...]
    """Days whose partitions were dropped."""
    closed_days: tuple[int, ...]
    """Days that were found to hold no open job."""
    carried_job_count: int
    """Jobs that were moved out of dropped days."""
    deleted_client_id_count: int
    """Client ids that were forgotten."""
    deleted_unused_count: int
    """Scheduling classes, job sets and metadata that no job uses any more."""


NOTHING_RETAINED: Final = Retained(
    dropped_days=(), closed_days=(), carried_job_count=0, deleted_client_id_count=0, deleted_unused_count=0
)
"""What a run did that was left to others."""


@translated
def retain(url: str, retention_days: int) -> Retained:
    """Close past days, drop aged ones, and forget what hangs on them. Repeating it does nothing.

    Args:
        url: Database.
        retention_days: Full days that ended jobs, events and client ids stay.

    Raises:
        BackendUnavailable: Postgres cannot be reached, or long transactions held the partitions.
    """
    with connect(url, MAINTENANCE_SETTINGS) as connection:
        now_us = database_time_us(connection)
        today = now_us // _DAY_US
        cutoff_us = now_us - retention_days * _DAY_US
        closed = _close_days(connection, today - _OPEN_DAYS)
        row = connection.execute("SELECT days FROM partition_state").fetchone()
        aged = sorted(day for day in (row[0] if row else ()) if day < today - retention_days)
        carried = sum(_drop_day(connection, day, cutoff_us) for day in aged)
        _clean_carried(connection, cutoff_us, today - retention_days)
        forgotten = _forget_client_ids(connection, first_handle_of_day(today - retention_days))
        unused = _delete_unused(connection, today - retention_days)
    return Retained(
        dropped_days=tuple(aged),
        closed_days=closed,
        carried_job_count=carried,
        deleted_client_id_count=forgotten,
        deleted_unused_count=unused,
    )


def _close_days(connection: StoreConnection, last: int) -> tuple[int, ...]:
    """Mark days up to `last` that hold no open job; return those that were not marked before."""
    exclusively(connection, partial(connection.execute, "SELECT argosy_open_from(%s)", [last + 1]))
    row = connection.execute("SELECT days, closed_days FROM partition_state").fetchone()
    days, closed = (row[0], row[1]) if row else ([], [])
    candidates = [day for day in days if day <= last and day not in closed]
    # The lock is taken by the function, once it has found that the day has no open job.
    close = partial(_call, connection, "SELECT argosy_close_day(%s)")
    return tuple(day for day in candidates if exclusively(connection, partial(close, [day]), takes_lock=True))


def _call(connection: StoreConnection, statement: str, arguments: list[int]) -> int:
    """Return the number that a function of the database answers."""
    row = connection.execute(statement, arguments).fetchone()
    return int(row[0]) if row is not None else 0


def _drop_day(connection: StoreConnection, day: int, cutoff_us: int) -> int:
    """Carry over what must stay of a day, drop its partitions; return the number of jobs carried over."""
    return exclusively(
        connection, partial(_call, connection, "SELECT argosy_drop_partitions(%s, %s)", [day, cutoff_us])
    )


def _clean_carried(connection: StoreConnection, cutoff_us: int, first_day: int) -> None:
    """Delete carried jobs that have ended before the cutoff, with what belongs to them, and events that came late."""
    _delete_in_batches(connection, "jobs_carried", f"t.state <> 0 AND t.end_time_us < {cutoff_us}")
    orphaned = "NOT EXISTS (SELECT FROM jobs j WHERE j.handle = t.handle)"
    _delete_in_batches(connection, "objects_carried", orphaned)
    _delete_in_batches(connection, "runs_carried", orphaned)
    _delete_in_batches(
        connection,
        "job_specs_carried",
        "NOT EXISTS (SELECT FROM jobs_carried j WHERE (j.handle >> 40) = t.day AND j.spec_hash = t.hash)"
        f" AND t.day < {first_day}",
    )
    _delete_in_batches(connection, "job_set_events_carried", f"t.day < {first_day}")


def _forget_client_ids(connection: StoreConnection, first_handle: int) -> int:
    """Delete client ids of jobs that are gone; return how many.

    Days before the first handle's have been dropped, so what is left of their jobs was carried over. Complexity: one
    pass over the client ids, some pages a transaction.
    """
    partitions = connection.execute(
        "SELECT inhrelid::regclass::text, pg_relation_size(inhrelid) / current_setting('block_size')::bigint"
        " FROM pg_inherits WHERE inhparent = 'deduplication'::regclass ORDER BY 1"
    ).fetchall()
    total = 0
    for name, page_count in partitions:
        statement = (
            f"DELETE FROM {name} t WHERE t.ctid >= %s::tid AND t.ctid < %s::tid AND t.handle < %s"
            " AND NOT EXISTS (SELECT FROM jobs_carried j WHERE j.handle = t.handle)"
        )
        for page in range(0, page_count, _PAGES):
            total += connection.execute(statement, [f"({page},0)", f"({page + _PAGES},0)", first_handle]).rowcount
    return total


def _delete_unused(connection: StoreConnection, first_day: int) -> int:
    """Delete what no job uses any more; return how many rows. Jobs of days from the first on may be there.

    A replica stores the first use of each of its days, and its clock may differ by some days from ours.
    """
    total = 0
    for table, key, used in (
        ("scheduling_classes", "class_id", "class_id"),
        ("job_sets", "job_set_id", "job_set_id"),
        ("job_metadata", "hash", "metadata_hash"),
    ):
        unused = f"NOT EXISTS (SELECT FROM jobs_carried j WHERE j.{used} = t.{key})"
        if table == "job_sets":
            unused += " AND NOT EXISTS (SELECT FROM job_set_events e WHERE e.job_set_id = t.job_set_id)"
        total += _delete_in_batches(connection, table, f"t.last_used_day < {first_day - _OPEN_DAYS} AND {unused}")
    return total


def _delete_in_batches(connection: StoreConnection, table: str, condition: str) -> int:
    """Delete rows of a table in short transactions; return how many."""
    statement = (
        f"DELETE FROM {table} WHERE ctid = ANY (ARRAY(SELECT t.ctid FROM {table} t WHERE {condition} LIMIT {_BATCH}))"
    )
    total = 0
    while True:
        count = connection.execute(statement).rowcount
        total += count
        if count < _BATCH:
            return total

"""Change requests: cancel, reprioritise, hold, release and preempt, by handles or by a bounded filter, in chunks.

A change request is durable once its transaction is; the leader learns of it from `changes`. A job without a live run
ends right there. Leases and change requests exclude each other by a lock per pool, so none overlooks the other.

Source: design section 5, "Change requests".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from argosy_core.job.states import JobState
from argosy_store.changes import tell
from argosy_store.open_jobs import COUNT_ENDED
from argosy_store.postgres.binary import INT4, INT8, TEXT, array, scalar
from argosy_store.postgres.connection import StoreConnection
from argosy_store.postgres.locks import change_request_lock
from argosy_store.postgres.partitions import learn_state, partition, prologue, split_days
from argosy_store.postgres.pool import Connections
from argosy_store.replicas.audit import ACTOR, note_changes
from argosy_store.replicas.job_filters import (
    OPEN_STATES,
    JobFilter,
    by_index,
    conditions,
    filter_values,
    read_windows,
    window_values,
)
from argosy_store.rows import ChangeRequestResult
from argosy_store.schema.tables import jobs, queues

__all__ = ["BoundedFilter", "ChangeRequestCalls", "ChangeRequestName", "EncodeChangeRequests"]

ChangeRequestName: TypeAlias = Literal["cancel", "reprioritize", "hold", "release", "preempt"]
"""What may be asked."""

EncodeChangeRequests = Callable[[npt.NDArray[np.int64], npt.NDArray[np.int8]], bytes]
"""Makes the payload of a `changes` row out of handles and, for each, whether the job ended in the transaction."""

CHUNK: Final = 5000
"""Most jobs of one transaction."""
_CANCEL: Final = (
    "WITH done AS (UPDATE {jobs} t SET cancel_requested = 1, state = CASE WHEN l.live THEN 0 ELSE 6 END::smallint,"
    " end_time_us = CASE WHEN l.live THEN NULL ELSE $2::bigint END,"
    " reason = $3::text"
    " FROM unnest($1::bigint[]) AS n (handle) CROSS JOIN LATERAL (SELECT EXISTS (SELECT FROM {runs} r"
    " WHERE r.handle = n.handle AND r.end_time_us IS NULL) AS live) l"
    " WHERE t.handle = n.handle AND t.state = 0 AND t.cancel_requested = 0 AND t.queue_id = ANY ($4::integer[])"
    f" RETURNING t.handle, t.state, t.submitter){COUNT_ENDED} SELECT handle, state FROM done"
)
_REPRIORITIZE: Final = (
    "UPDATE {jobs} t SET priority = $2::integer FROM unnest($1::bigint[]) AS n (handle)"
    " WHERE t.handle = n.handle AND t.state = 0 AND t.priority <> $2::integer AND t.queue_id = ANY ($3::integer[])"
    " RETURNING t.handle, t.state"
)
_PREEMPT: Final = (
    "UPDATE {jobs} t SET preempt_attempt = l.attempt FROM unnest($1::bigint[]) AS n (handle) CROSS JOIN LATERAL"
    " (SELECT max(r.attempt)::integer AS attempt FROM {runs} r WHERE r.handle = n.handle AND r.end_time_us IS NULL) l"
    " WHERE t.handle = n.handle AND t.state = 0 AND t.preempt_attempt IS DISTINCT FROM l.attempt"
    " AND l.attempt IS NOT NULL AND t.queue_id = ANY ($2::integer[]) RETURNING t.handle, t.state"
)
_HOLD: Final = (
    "UPDATE {jobs} t SET held = $2::integer FROM unnest($1::bigint[]) AS n (handle)"
    " WHERE t.handle = n.handle AND t.state = 0 AND t.held IS DISTINCT FROM $2::integer"
    " AND t.queue_id = ANY ($3::integer[]) RETURNING t.handle, t.state"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedFilter:
    """Open jobs that a filter means, among those that existed when the change request was taken."""

    job_filter: JobFilter
    """Which jobs; ended ones are never meant."""
    upper_handle: int
    """Highest handle that is meant."""


class ChangeRequestCalls:
    """What an API replica writes when somebody asks for a change."""

    def __init__(self, connections: Connections) -> None:
        """Keep the connections."""
        self._connections = connections

    def set_change_requests(
        self,
        pool: str | None,
        target: Sequence[int] | npt.NDArray[np.int64] | BoundedFilter,
        kind: ChangeRequestName,
        *,
        encode: EncodeChangeRequests,
        priority: int = 0,
        reason: str = "",
    ) -> ChangeRequestResult:
        """Set a change request on open jobs; repeating it changes nothing and tells the leader nothing.

        Args:
            pool: Pool whose jobs are meant; None for those of all pools.
            target: Handles, or a bounded filter.
            kind: `cancel` ends jobs without a live run at once; `reprioritize` stores the new priority; `hold` and
                `release` store whether jobs are held; `preempt` stores which run shall make room.
            encode: Makes the leader's news, once per pool and chunk.
            priority: The new priority.
            reason: Why, kept with jobs that are cancelled.

        Returns:
            How many open jobs are meant, and which handles name no job.

        Raises:
            BackendUnavailable: Postgres cannot be reached; chunks before may have been applied. Repeat it.
        """
        end_time_us = self._connections.now_us()
        change_request = _ChangeRequest(
            kind=kind, encode=encode, priority=priority, reason=reason, end_time_us=end_time_us
        )
        count = 0
        after = 0
        handles = None if isinstance(target, BoundedFilter) else np.unique(np.asarray(target, dtype=np.int64))
        while True:
            with self._connections.read() as reader, by_index(reader):
                if handles is None:
                    assert isinstance(target, BoundedFilter)
                    found, after, more = _find_open(reader, target, pool, after)
                else:
                    chunk, handles = handles[:CHUNK], handles[CHUNK:]
                    found = _look_up(reader, chunk, pool)
                    more = len(handles) > 0
            if found:
                count += len(found)
                with self._connections.bulk() as connection:
                    _apply(connection, found, change_request)
            if not more:
                return ChangeRequestResult(job_count=count)

    def sample_change_requests(self, target: BoundedFilter, count: int) -> list[int]:
        """Return handles of the first jobs that a change request would be set on, ascending.

        Raises:
            BackendUnavailable: Postgres cannot be reached.
        """
        with self._connections.read() as reader, by_index(reader):
            return [row[0] for row in _find_open(reader, target, None, 0, count=count)[0]]

    def count_change_requests(self, target: BoundedFilter) -> int:
        """Return on how many jobs a change request would be set.

        Raises:
            BackendUnavailable: Postgres cannot be reached.
        """
        total, after, more = 0, 0, True
        while more:
            with self._connections.read() as reader, by_index(reader):
                found, after, more = _find_open(reader, target, None, after)
            total += len(found)
        return total

    def highest_handle(self) -> int:
        """Return the highest handle that exists, the upper bound for a filter; 0 without jobs.

        Raises:
            BackendUnavailable: Postgres cannot be reached.
        """
        with self._connections.read() as connection:
            row = connection.execute("SELECT max(handle) FROM jobs").fetchone()
        return 0 if row is None or row[0] is None else int(row[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class _ChangeRequest:
    """A change request on its way through the chunks."""

    kind: ChangeRequestName
    encode: EncodeChangeRequests
    priority: int
    reason: str
    end_time_us: int


_Found = list[tuple[int, int, str]]
"""(handle, queue id, pool) of open jobs, ascending by handle."""


def _find_open(
    connection: StoreConnection, target: BoundedFilter, pool: str | None, after: int, *, count: int = 0
) -> tuple[_Found, int, bool]:
    """Return open jobs that a filter means, after which handle to go on, and whether to.

    Some thousand jobs are looked at, and as many more until there is one that is meant; nothing counts them first.
    """
    size = count or CHUNK
    open_filter = replace(target.job_filter, states=target.job_filter.states or OPEN_STATES)
    asked = filter_values(target.job_filter)
    beside = {"upper_handle": target.upper_handle, "pool": pool, "limit": size}
    for window in read_windows(connection, open_filter, after_handle=after, size=CHUNK):
        found: _Found = []
        if window.handles:
            meant = {**window_values(window.handles), **asked}
            rows = connection.select(_open_jobs, meant, pool is not None, **beside)
            found = [(row[0], row[1], row[2]) for row in rows]
        if found or window.last_handle > target.upper_handle:
            return found, window.last_handle, window.last_handle <= target.upper_handle
    return [], after, False


def _open_jobs(names: tuple[str, ...], in_pool: bool) -> sa.Select[tuple[int, int, str]]:  # noqa: FBT001 - part of a shape
    beside = [queues.c.pool == sa.bindparam("pool")] if in_pool else []
    return (
        sa.select(jobs.c.handle, jobs.c.queue_id, queues.c.pool)
        .join(queues, queues.c.queue_id == jobs.c.queue_id)
        .where(*conditions(names), jobs.c.state == 0, jobs.c.handle <= sa.bindparam("upper_handle"), *beside)
        .order_by(jobs.c.handle)
        .limit(sa.bindparam("limit", type_=sa.Integer))
    )


def _look_up(connection: StoreConnection, handles: npt.NDArray[np.int64], pool: str | None) -> _Found:
    """Return which handles are open jobs."""
    cursor = connection.execute(
        "SELECT j.handle, j.queue_id, q.pool, j.state FROM jobs j JOIN queues q ON q.queue_id = j.queue_id"
        " WHERE j.handle = ANY (%s::bigint[]) ORDER BY j.handle",
        [handles.tolist()],
    )
    return [(row[0], row[1], row[2]) for row in cursor if row[3] == 0 and pool in {None, row[2]}]


def _apply(connection: StoreConnection, found: _Found, change_request: _ChangeRequest) -> None:
    """Set a change request on one chunk of open jobs, in one transaction."""
    pools = sorted({row[2] for row in found})
    locks = [change_request_lock(pool, shared=True) for pool in pools] if change_request.kind == "cancel" else []
    with connection.transaction_block(prologue(*locks)) as state:
        learn_state(connection, state)
        for pool in pools:
            handles = np.array([row[0] for row in found if row[2] == pool], dtype=np.int64)
            queue_ids = sorted({row[1] for row in found if row[2] == pool})
            changed, ended = _update(connection, handles, queue_ids, change_request)
            if len(changed):
                tell(connection, [pool], change_request.encode(changed, ended))
                _note(connection, changed, change_request)


def _note(connection: StoreConnection, changed: npt.NDArray[np.int64], change_request: _ChangeRequest) -> None:
    """Note for the audit that jobs were changed, by the first one's id and their number."""
    if ACTOR.get() is None:
        return
    row = connection.execute("SELECT job_id FROM jobs WHERE handle = %s", [int(changed[0])]).fetchone()
    assert row is not None
    others = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
    detail = f"{change_request.kind}{others} {change_request.reason}".rstrip()
    note_changes(connection, [("Job", str(row[0]), detail)])


def _update(
    connection: StoreConnection,
    handles: npt.NDArray[np.int64],
    queue_ids: Sequence[int],
    change_request: _ChangeRequest,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int8]]:
    """Return the handles that changed, ascending, and which of the jobs ended."""
    changed: list[tuple[int, int]] = []
    for day, piece in split_days(handles):
        table = partition(connection, "jobs", day)
        if change_request.kind == "cancel":
            result = connection.bulk(
                _CANCEL.format(jobs=table, runs=partition(connection, "runs", day)),
                array(INT8, handles[piece]),
                scalar(INT8, change_request.end_time_us),
                scalar(TEXT, change_request.reason or None),
                array(INT4, queue_ids),
            )
        elif change_request.kind == "preempt":
            result = connection.bulk(
                _PREEMPT.format(jobs=table, runs=partition(connection, "runs", day)),
                array(INT8, handles[piece]),
                array(INT4, queue_ids),
            )
        else:
            values = {"reprioritize": change_request.priority, "hold": 1, "release": None}
            result = connection.bulk(
                (_REPRIORITIZE if change_request.kind == "reprioritize" else _HOLD).format(jobs=table),
                array(INT8, handles[piece]),
                scalar(INT4, values[change_request.kind]),
                array(INT4, queue_ids),
            )
        changed += [
            (
                int.from_bytes(result.get_value(row, 0) or b"", "big"),
                int.from_bytes(result.get_value(row, 1) or b"", "big"),
            )
            for row in range(result.ntuples)
        ]
    changed.sort()
    states = np.array([row[1] for row in changed], dtype=np.int8)
    return np.array([row[0] for row in changed], dtype=np.int64), (states == JobState.CANCELLED).astype(np.int8)

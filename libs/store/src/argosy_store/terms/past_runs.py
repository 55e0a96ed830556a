"""What a new leader keeps of runs that are over: attempts, failures, and members that ended before their run.

Source: design section 5, "Leader lost".
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from argosy_core.job.states import RunState
from argosy_core.job.tables.members import Members
from argosy_core.scheduler import EndedMembers, LoadedRuns
from argosy_store.postgres.binary import INT2, INT8
from argosy_store.postgres.connection import StoreConnection
from argosy_store.postgres.shared_reads import SharedReads
from argosy_store.terms.load_scope import Columns, Scope

__all__ = ["begin_past_runs", "count_past_runs", "load_ended_members"]

_ATTEMPT_BITS: Final = 16


def begin_past_runs(reads: SharedReads, scope: Scope) -> Future[Columns]:
    """Ask which runs of open jobs are over, and how."""
    return reads.columns(
        "SELECT r.handle, r.attempt,"
        f" (r.state IN ({int(RunState.FAILED)}, {int(RunState.LOST)}))::integer::smallint,"
        " CASE WHEN r.failure > 0 THEN r.end_time_us ELSE 0 END"
        " FROM runs r JOIN jobs j ON j.handle = r.handle"
        f" WHERE r.end_time_us IS NOT NULL AND {scope.jobs} AND {scope.handles('r')}",
        [INT8, INT2, INT2, INT8],
    )


def count_past_runs(
    columns: Sequence[npt.NDArray[Any]], handles: npt.NDArray[np.int64], runs: LoadedRuns
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return of each open job the newest attempt, how many runs failed or were lost, and when one last failed.

    The fourth column names the jobs whose live run has members that have ended.
    """
    ended, ended_attempts, has_failed, ended_time_us = columns
    attempts, failures = np.zeros(len(handles), dtype=np.int32), np.zeros(len(handles), dtype=np.int32)
    failed_time_us = np.zeros(len(handles), dtype=np.int64)
    rows = np.searchsorted(handles, ended)
    live_attempts = np.zeros(len(handles), dtype=np.int32)
    live_attempts[np.searchsorted(handles, runs.handle)] = runs.attempt
    is_over = live_attempts[rows] != ended_attempts
    np.maximum.at(attempts, rows, ended_attempts)
    # A run fails once, however many of its members did.
    failed = np.flatnonzero(is_over & (has_failed > 0))
    failed_runs = np.unique(rows[failed] << _ATTEMPT_BITS | ended_attempts[failed])
    np.add.at(failures, failed_runs >> _ATTEMPT_BITS, 1)
    np.maximum.at(failed_time_us, rows[is_over], ended_time_us[is_over])
    np.maximum.at(attempts, np.searchsorted(handles, runs.handle), runs.attempt)
    return attempts, failures, failed_time_us, np.unique(ended[~is_over])


def load_ended_members(connection: StoreConnection, handles: npt.NDArray[np.int64]) -> EndedMembers | None:
    """Return the members that have ended of the live runs of some jobs; None if there are no such jobs."""
    if not len(handles):
        return None
    rows = connection.execute(
        "SELECT r.handle, r.attempt, r.member, r.state, coalesce(r.failure, 0), coalesce(r.exit_code, 0),"
        " coalesce(r.start_time_us, 0), coalesce(r.reason, '') FROM runs r"
        " WHERE r.handle = ANY (%s::bigint[]) AND r.end_time_us IS NOT NULL"
        " AND EXISTS (SELECT FROM runs l WHERE l.handle = r.handle AND l.attempt = r.attempt AND l.end_time_us IS NULL)"
        " ORDER BY r.end_time_us, r.handle, r.attempt, r.member",
        [handles.tolist()],
    ).fetchall()
    columns = np.array([row[:7] for row in rows], dtype=np.int64).reshape(-1, 7)
    return EndedMembers(
        members=Members.of(columns[:, 0], columns[:, 1], columns[:, 2]),
        state=columns[:, 3].astype(np.int8),
        failure=columns[:, 4].astype(np.int8),
        exit_code=columns[:, 5].astype(np.int32),
        start_time_us=columns[:, 6],
        reasons=tuple(row[7] for row in rows),
    )

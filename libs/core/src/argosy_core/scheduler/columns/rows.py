"""Rows for the store, put together from columns and sorted by key.

Source: design section 4, "Bulk statements work in key order, so there are no deadlocks".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import Int16s, Int64s, find_begins, has_true, run_sizes, true_places
from argosy_core.job.tables.members import Members
from argosy_core.job.tables.rows import JobUpdates, ObjectUpdates, RunUpdates
from argosy_core.scheduler.columns.messages import ClusterRuns, StateColumns

__all__ = ["Texts", "job_ends", "job_updates", "object_updates", "run_updates", "runs_by_cluster"]


class Texts:
    """Distinct texts in order of first use."""

    def __init__(self) -> None:
        """Start empty."""
        self._index: dict[str, int] = {}

    def index(self, text: str) -> int:
        """Return the index of a text, -1 for an empty one."""
        return self._index.setdefault(text, len(self._index)) if text else -1

    def all(self) -> tuple[str, ...]:
        """Return the texts."""
        return tuple(self._index)


def job_updates(
    handle: Int64s,
    state: npt.NDArray[np.integer],
    end_time_us: Int64s,
    *,
    reason: npt.NDArray[np.integer],
    texts: Texts,
) -> JobUpdates:
    """Return rows for jobs that ended, sorted by handle.

    Args:
        handle: Job handles.
        state: Terminal JobState of each.
        end_time_us: When each ended.
        reason: Index into the texts, or -1.
        texts: The reasons.
    """
    order = np.argsort(handle, kind="stable")
    return JobUpdates(
        handle=handle[order],
        state=state[order].astype(np.int16),
        end_time_us=end_time_us[order],
        reason_index=reason[order].astype(np.int32),
        reasons=texts.all(),
    )


def job_ends(handle: Int64s, state: int, end_time_us: int, reason: str) -> JobUpdates:
    """Return rows for jobs that ended in one way at one moment."""
    texts = Texts()
    count = handle.size
    return job_updates(
        handle,
        np.full(count, state, dtype=np.int16),
        np.full(count, end_time_us, dtype=np.int64),
        reason=np.full(count, texts.index(reason), dtype=np.int32),
        texts=texts,
    )


def run_updates(columns: Sequence[npt.NDArray[np.generic]], texts: Texts, numbers: Int16s | None) -> RunUpdates:
    """Return rows for runs that ended, sorted by handle.

    Args:
        columns: Handle, attempt, state, start_time_us, end_time_us, exit_code, failure, reason index.
        texts: The reasons.
        numbers: Numbers of the members; None where all are 0.
    """
    order = np.argsort(columns[0], kind="stable")
    handle, attempt, state, start, end, exit_code, failure, reason = (column[order] for column in columns)
    return RunUpdates(
        handle=handle.astype(np.int64),
        attempt=attempt.astype(np.int16),
        state=state.astype(np.int16),
        start_time_us=start.astype(np.int64),
        end_time_us=end.astype(np.int64),
        exit_code=exit_code.astype(np.int32),
        failure=failure.astype(np.int16),
        reason_index=reason.astype(np.int32),
        reasons=texts.all(),
        member=None if numbers is None else numbers[order],
    )


def object_updates(columns: StateColumns, rows: npt.NDArray[np.integer], start_time_us: Int64s) -> ObjectUpdates:
    """Return the last of the chosen states of each object, sorted by key.

    Args:
        columns: States as observed.
        rows: Chosen elements, later ones later.
        start_time_us: Per element of the columns, when the first pod of its run ran; 0 unknown or not yet.

    Complexity: O(n log n) in NumPy.
    """
    handle, ordinal, index = columns.handle[rows], columns.attempt[rows], columns.object_index[rows]
    if columns.member is not None:
        ordinal = Members.of(handle, ordinal, columns.member[rows]).ordinal
    order = np.lexsort((rows, index, ordinal, handle))
    rows, handle, ordinal, index = rows[order], handle[order], ordinal[order], index[order]
    if rows.size:
        same = (handle[1:] == handle[:-1]) & (ordinal[1:] == ordinal[:-1]) & (index[1:] == index[:-1])
        rows = rows[np.append(~same, True)]
    message = columns.message[rows]
    texts: tuple[str, ...] = ()
    if (message >= 0).any():
        used, inverse = np.unique(message, return_inverse=True)
        shift = 1 if used[0] < 0 else 0
        message = (inverse.ravel() - shift).astype(np.int32)
        texts = tuple(columns.texts[text] for text in used[shift:].tolist())
    return ObjectUpdates(
        handle=columns.handle[rows],
        attempt=columns.attempt[rows].astype(np.int16),
        object_index=columns.object_index[rows],
        state=columns.state[rows].astype(np.int16),
        uid=np.frombuffer(columns.uid, dtype="V16")[rows],
        message_index=message,
        messages=texts,
        start_time_us=start_time_us[rows],
        member=None if columns.member is None else columns.member[rows],
    )


def runs_by_cluster(
    names: Sequence[str], cluster: npt.NDArray[np.integer], members: Members
) -> tuple[ClusterRuns, ...]:
    """Return members cluster by cluster, each once, sorted by key.

    Args:
        names: Names of the clusters by index.
        cluster: Index of each member's cluster.
        members: The members.
    """
    if not cluster.size:
        return ()
    order = np.lexsort((members.ordinal, members.handle, cluster))
    cluster, members = cluster[order], members[order]
    is_again = (cluster[1:] == cluster[:-1]) & members[1:].equal(members[:-1])
    if has_true(is_again):
        kept = true_places(~np.concatenate([[False], is_again]))
        cluster, members = cluster[kept], members[kept]
    begins = find_begins(cluster)
    ends = begins + run_sizes(begins, cluster.size)
    return tuple(
        ClusterRuns(cluster=names[index], members=members[begin:end])
        for index, begin, end in zip(cluster[begins].tolist(), begins.tolist(), ends.tolist(), strict=True)
    )

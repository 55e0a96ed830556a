"""The live runs of a pool as a new leader reads them: their members, what these hold, and their objects.

What `begin_` asks for comes as it lies, beside other queries; the rest orders and matches it.

Source: design section 5, "Leader lost".
"""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import numpy as np
import numpy.typing as npt

from argosy_core.errors import InvariantViolation
from argosy_core.job.tables.members import Members
from argosy_core.job.tables.rows import HeldAmounts
from argosy_core.scheduler import LoadedObjects, LoadedRuns
from argosy_core.scheduler.memory.capacity_bounds import MAX_TOTAL
from argosy_store.postgres.binary import INT2, INT8
from argosy_store.postgres.shared_reads import SharedReads
from argosy_store.terms.load_scope import Columns, Scope

__all__ = [
    "begin_held",
    "begin_objects",
    "begin_runs",
    "find_unreadable",
    "held_amounts",
    "order_objects",
    "order_runs",
]


def begin_runs(reads: SharedReads, scope: Scope) -> tuple[Future[Columns], Future[list[tuple[Any, ...]]]]:
    """Ask for the members of live runs, and for the names of their clusters and nodes."""
    seed = scope.hash_seed
    columns = reads.columns(
        f"SELECT r.handle, r.attempt, hashtextextended(r.cluster, {seed}), hashtextextended(r.node, {seed}), r.member,"
        f" greatest(r.charge_core_s, 0) FROM runs r WHERE {scope.live_runs}",
        [INT8, INT2, INT8, INT8, INT2, INT8],
    )
    names = reads.rows(
        f"SELECT hashtextextended(cluster, {seed}), cluster, hashtextextended(node, {seed}), node"
        f" FROM (SELECT DISTINCT cluster, node FROM runs r WHERE {scope.live_runs}) places"
    )
    return columns, names


def order_runs(columns: Columns, places: list[tuple[Any, ...]], handles: npt.NDArray[np.int64]) -> LoadedRuns:
    """Return the live runs of jobs, ascending by handle, attempt and member."""
    order = np.lexsort((columns[4], columns[1], columns[0]))
    order = order[_among(handles, columns[0][order])]
    columns = [column[order] for column in columns]
    clusters, cluster = _names({(value, name) for value, name, _, _ in places}, columns[2])
    nodes, node = _names({(value, name) for _, _, value, name in places}, columns[3])
    return LoadedRuns(
        handle=columns[0],
        attempt=columns[1].astype(np.int32),
        cluster=cluster,
        clusters=clusters,
        node=node,
        nodes=nodes,
        member=_numbers(columns[4]),
        charge_core_s=columns[5] if columns[5].any() else None,
    )


def _names(named: set[tuple[int, str]], hashes: npt.NDArray[np.int64]) -> tuple[tuple[str, ...], npt.NDArray[np.int32]]:
    """Return the distinct names that live runs have in a column, and each run's index into them.

    Args:
        named: (hash, name) of each name.
        hashes: Hash of each run's name.

    Raises:
        InvariantViolation: Two names have one hash of 64 bits.
    """
    known, index = np.unique(hashes, return_inverse=True)
    names = dict(named)
    if len(names) != len(named):
        raise InvariantViolation("two names of clusters or nodes have the same hash")
    return tuple(names[value] for value in known.tolist()), index.astype(np.int32)


def _numbers(members: npt.NDArray[np.int16]) -> npt.NDArray[np.int16] | None:
    """Return numbers of members as columns hold them: None where all are 0."""
    return members if members.any() else None


def _among(wanted: npt.NDArray[np.int64], handles: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return which handles are among wanted ones, which ascend."""
    if not len(wanted):
        return np.zeros(len(handles), dtype=np.bool_)
    found: npt.NDArray[np.bool_] = wanted[np.minimum(np.searchsorted(wanted, handles), len(wanted) - 1)] == handles
    return found


def begin_objects(reads: SharedReads, scope: Scope) -> Future[Columns]:
    """Ask for the objects of live runs."""
    return reads.columns(
        "SELECT o.handle, o.attempt, o.object, o.state, coalesce(o.start_time_us, 0), o.member"
        " FROM objects o JOIN runs r ON r.handle = o.handle AND r.attempt = o.attempt AND r.member = o.member"
        f" WHERE {scope.live_runs} AND {scope.handles('o')}",
        [INT8, INT2, INT2, INT2, INT8, INT2],
    )


def order_objects(columns: Columns, handles: npt.NDArray[np.int64]) -> LoadedObjects:
    """Return the objects of live runs of jobs, ascending by handle, attempt, member and place in the bag."""
    order = np.lexsort((columns[2], columns[5], columns[1], columns[0]))
    order = order[_among(handles, columns[0][order])]
    columns = [column[order] for column in columns]
    return LoadedObjects(
        handle=columns[0],
        attempt=columns[1].astype(np.int32),
        object_index=columns[2],
        state=columns[3].astype(np.int8),
        start_time_us=columns[4],
        member=_numbers(columns[5]),
    )


def begin_held(reads: SharedReads, scope: Scope) -> Future[list[tuple[Any, ...]]]:
    """Ask which members of live runs hold what is not as their class says."""
    return reads.rows(
        "SELECT r.handle, r.attempt, r.member, r.held_amounts FROM runs r"
        f" WHERE r.held_amounts IS NOT NULL AND {scope.live_runs}"
    )


def held_amounts(rows: list[tuple[Any, ...]]) -> HeldAmounts | None:
    """Return what members of live runs hold that is not as their classes say; None if there are none.

    What cannot be read counts as the class says, until the sampler tells of it again.
    """
    rows = [row for row in rows if _are_amounts(row[3])]
    if not rows:
        return None
    names = tuple(sorted({name for *_, held in rows for name in held}))
    columns = np.array([row[:3] for row in rows], dtype=np.int64)
    return HeldAmounts(
        members=Members.of(columns[:, 0], columns[:, 1], columns[:, 2]),
        names=names,
        amounts=np.array([[held.get(name, -1) for name in names] for *_, held in rows], dtype=np.int64),
    )


def _are_amounts(held: object) -> bool:
    """Return whether a stored document says amounts by resource, as leaders write them."""
    return isinstance(held, dict) and all(type(amount) is int and 0 <= amount <= MAX_TOTAL for amount in held.values())


def find_unreadable(jobs: set[int], runs: LoadedRuns) -> tuple[int, ...]:
    """Return the jobs to leave out.

    Args:
        jobs: Those of which nobody knows what they wait for; one that has a run waits no more.
        runs: All live runs.
    """
    is_bad = runs.attempt < 1
    if runs.member is not None:
        is_bad |= runs.member < 0
    waiting = jobs - set(runs.handle.tolist()) if jobs else jobs
    return tuple(sorted(waiting.union(runs.handle[is_bad].tolist())))

"""Everything a new leader keeps in memory, read as columns.

Each column comes as one binary array, which becomes one of NumPy without an object per row, not even a message of the
protocol (COPY sends one per row, which costs more than all else). Rows come as they lie; they are sorted and matched
here, where that takes a tenth of the time. Texts are few: they come as tables, and rows name them by their hash.

Source: design section 5, "Leader lost"; section 6, "the leader keeps live jobs as structure of arrays".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from argosy_core.errors import InvariantViolation, NotFound
from argosy_core.job.identity import DAY_SHIFT
from argosy_core.job.states import RunState
from argosy_core.scheduler import JobColumns, JobSetView, LoadedColumns, LoadedObjects, LoadedRuns, SpecReference
from argosy_store.binary import INT2, INT4, INT8, UUID, Kind, read_array
from argosy_store.connection import StoreConnection
from argosy_store.rows import CLUSTER_COLUMNS, OF_POOL, QUEUE_COLUMNS, ClusterRow, QueueRow
from argosy_store.suspects import read_suspects

__all__ = ["LoadedPool", "load_pool"]


_WORK_MEMORY: Final = "256MB"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedPool:
    """All of one pool, as of one moment."""

    queues: tuple[QueueRow, ...]
    """Queues of the pool; deleted ones only if open jobs name them."""
    clusters: tuple[ClusterRow, ...]
    """Clusters of the pool that are not forgotten."""
    classes: dict[int, bytes]
    """Definitions of the scheduling classes of open jobs by id."""
    columns: LoadedColumns
    """Open jobs and their live runs, ascending by handle, with their job sets; without the state of the last round."""
    log_position: int
    """Position up to which the log has been applied."""
    round_state: bytes
    """State of the last round applied."""
    suspects: tuple[tuple[str, str], ...] = ()
    """(kind, key) of what ended terms."""
    suspect_changes: tuple[bytes, ...] = ()
    """What stands in the changes among them."""


def load_pool(connection: StoreConnection, pool: str) -> LoadedPool:
    """Read a pool inside a repeatable-read transaction, under the partition lock.

    Days that are known to hold no open job are left out, so the time goes with recent and open jobs, not with history.

    Raises:
        NotFound: Nobody has ever led the pool.
        psycopg.Error: As the driver raises it.
    """
    head = connection.execute("SELECT log_position, round_state FROM pools WHERE pool = %s", [pool]).fetchone()
    if head is None:
        raise NotFound(f"pool {pool} has never had a leader")
    # For as long as the transaction lasts: joins of a million rows, once.
    connection.run(f"SET LOCAL work_mem = '{_WORK_MEMORY}'")
    scope = _read_scope(connection, pool)
    jobs, cancel_requested, hashes = _load_jobs(connection, scope)
    handles = jobs["handle"]
    specs, spec_index = _load_specs(connection, handles, hashes)
    metadata, metadata_index = _load_metadata(connection, scope, handles)
    runs = _load_runs(connection, scope, handles)
    suspects, suspect_changes = read_suspects(connection, pool)
    last_attempt, failures, failed_time_us = _past_runs(connection, scope, handles, runs)
    return LoadedPool(
        queues=_load_queues(connection, pool, jobs["queue"]),
        clusters=tuple(
            ClusterRow.of(row)
            for row in connection.execute(
                f"SELECT {CLUSTER_COLUMNS} FROM clusters WHERE {OF_POOL} AND NOT forgotten ORDER BY name",
                [pool],
            )
        ),
        classes=_load_classes(connection, jobs["class_id"]),
        columns=LoadedColumns(
            jobs=JobColumns(**jobs, spec=spec_index, metadata_index=metadata_index, specs=specs, metadata=metadata),
            cancel_requested=cancel_requested.astype(np.int8),
            last_attempt=last_attempt,
            failures=failures,
            failed_time_us=failed_time_us,
            runs=runs,
            objects=_load_objects(connection, scope, runs.handle),
            round_state=None,
            job_sets=_load_job_sets(connection, jobs["job_set"]),
        ),
        log_position=head[0],
        round_state=bytes(head[1]),
        suspects=tuple(suspects),
        suspect_changes=tuple(suspect_changes),
    )


@dataclass(frozen=True, slots=True)
class _Scope:
    """Which jobs are loaded, as conditions that let the planner leave out days. COPY takes no parameters."""

    low: int
    """First handle of the first day that may hold open jobs."""
    carried_below: int
    """First handle of the first day that has partitions: open jobs below were carried over."""
    queue_ids: tuple[int, ...]
    """Queues of the pool."""

    def handles(self, alias: str) -> str:
        """Return the condition on the handle of a table."""
        return f"({alias}.handle >= {self.low} OR {alias}.handle < {self.carried_below})"

    @property
    def jobs(self) -> str:
        """The condition of an open job `j` of the pool."""
        queues = ",".join(map(str, self.queue_ids))
        return f"j.state = 0 AND {self.handles('j')} AND j.queue_id = ANY ('{{{queues}}}'::integer[])"

    @property
    def live_runs(self) -> str:
        """The condition of a live run `r`, of whatever pool."""
        return f"r.end_time_us IS NULL AND {self.handles('r')}"


def _columns(connection: StoreConnection, query: str, kinds: list[Kind]) -> list[npt.NDArray[Any]]:
    """Return a query's result as arrays, one per column; its columns are called c0, c1 and so on."""
    arrays = ", ".join(f"array_agg(q.c{place})" for place in range(len(kinds)))
    names = ", ".join(f"c{place}" for place in range(len(kinds)))
    result = connection.bulk(f"SELECT {arrays} FROM ({query}) AS q ({names})")
    return [read_array(result.get_value(0, place), kind) for place, kind in enumerate(kinds)]


def _among(wanted: npt.NDArray[np.int64], handles: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return which handles are among wanted ones, which ascend."""
    if not len(wanted):
        return np.zeros(len(handles), dtype=np.bool_)
    found: npt.NDArray[np.bool_] = wanted[np.minimum(np.searchsorted(wanted, handles), len(wanted) - 1)] == handles
    return found


def _read_scope(connection: StoreConnection, pool: str) -> _Scope:
    """Return which jobs are loaded."""
    row = connection.execute(
        "SELECT min(day), min(day) FILTER (WHERE NOT day = ANY (closed_days)) FROM partition_state, unnest(days) AS day"
    ).fetchone()
    first, first_open = row or (None, None)
    queue_ids = connection.execute("SELECT queue_id FROM queues WHERE pool = %s ORDER BY 1", [pool]).fetchall()
    return _Scope(
        low=0 if first_open is None else first_open << DAY_SHIFT,
        carried_below=0 if first is None else first << DAY_SHIFT,
        queue_ids=tuple(queue_id for (queue_id,) in queue_ids),
    )


def _load_jobs(
    connection: StoreConnection, scope: _Scope
) -> tuple[dict[str, npt.NDArray[Any]], npt.NDArray[np.int16], npt.NDArray[np.void]]:
    """Return columns of open jobs as `JobColumns` names them, which have cancel requests, and their spec hashes."""
    columns = _columns(
        connection,
        "SELECT j.handle, j.job_id, j.queue_id, j.job_set_id, j.class_id, j.priority, j.submit_time_us,"
        f" j.cancel_requested, j.spec_hash FROM jobs j WHERE {scope.jobs}",
        [INT8, UUID, INT4, INT8, INT4, INT4, INT8, INT2, UUID],
    )
    order = np.argsort(columns[0], kind="stable")
    columns = [column[order] for column in columns]
    ids = columns[1].view(">i8").reshape(-1, 2)[:, 0].astype(np.int64) if len(columns[1]) else columns[0]
    names = ("handle", "id_high", "queue", "job_set", "class_id", "priority", "submit_time_us")
    return dict(zip(names, (columns[0], ids, *columns[2:7]), strict=True)), columns[7], columns[8]


def _load_specs(
    connection: StoreConnection, handles: npt.NDArray[np.int64], hashes: npt.NDArray[np.void]
) -> tuple[tuple[SpecReference, ...], npt.NDArray[np.int32]]:
    """Return the distinct specs of open jobs and each job's index into them."""
    if not len(handles):
        return (), np.empty(0, dtype=np.int32)
    keys = np.empty((len(handles), 3), dtype=">u8")
    keys[:, 0] = handles >> DAY_SHIFT
    keys[:, 1:] = hashes.view(">u8").reshape(-1, 2)
    _, first, index = np.unique(keys.reshape(-1).view("V24"), return_index=True, return_inverse=True)
    days = (handles[first] >> DAY_SHIFT).tolist()
    wanted = [bytes(value) for value in hashes[first].tolist()]
    cursor = connection.execute(
        "SELECT s.day, s.hash, s.layout FROM unnest(%s::integer[], %s::uuid[]) AS n (day, hash)"
        " JOIN job_specs s ON s.day = n.day AND s.hash = n.hash",
        [days, [value.hex() for value in wanted]],
    )
    layouts = {(row[0], row[1].bytes): bytes(row[2]) for row in cursor}
    specs = tuple(
        SpecReference(day=day, hash=value, layout=layouts.get((day, value), b""))
        for day, value in zip(days, wanted, strict=True)
    )
    return specs, index.reshape(-1).astype(np.int32)


def _load_metadata(
    connection: StoreConnection, scope: _Scope, handles: npt.NDArray[np.int64]
) -> tuple[tuple[bytes, ...], npt.NDArray[np.int32]]:
    """Return the distinct metadata of open jobs and each job's index into them."""
    owners, hashes = _columns(
        connection,
        f"SELECT j.handle, j.metadata_hash FROM jobs j WHERE {scope.jobs} AND j.metadata_hash IS NOT NULL",
        [INT8, UUID],
    )
    index = np.full(len(handles), -1, dtype=np.int32)
    if not len(owners):
        return (), index
    wanted, place = np.unique(hashes, return_inverse=True)
    index[np.searchsorted(handles, owners)] = place
    found = {
        row[0].bytes: row[1].encode()
        for row in connection.execute(
            "SELECT hash, jsonb_build_object('labels', labels, 'annotations', annotations)::text FROM job_metadata"
            " WHERE hash = ANY (%s::uuid[])",
            [[value.hex() for value in wanted.tolist()]],
        )
    }
    return tuple(found.get(value, b"{}") for value in wanted.tolist()), index


def _load_runs(connection: StoreConnection, scope: _Scope, handles: npt.NDArray[np.int64]) -> LoadedRuns:
    """Return the live runs of jobs."""
    columns = _columns(
        connection,
        "SELECT r.handle, r.attempt, hashtextextended(r.cluster, 0), hashtextextended(r.node, 0)"
        f" FROM runs r WHERE {scope.live_runs}",
        [INT8, INT2, INT8, INT8],
    )
    order = np.lexsort((columns[1], columns[0]))
    order = order[_among(handles, columns[0][order])]
    columns = [column[order] for column in columns]
    clusters, cluster = _names(connection, scope, "cluster", columns[2])
    nodes, node = _names(connection, scope, "node", columns[3])
    return LoadedRuns(
        handle=columns[0],
        attempt=columns[1].astype(np.int32),
        cluster=cluster,
        clusters=clusters,
        node=node,
        nodes=nodes,
    )


def _names(
    connection: StoreConnection, scope: _Scope, column: str, hashes: npt.NDArray[np.int64]
) -> tuple[tuple[str, ...], npt.NDArray[np.int32]]:
    """Return the distinct names that live runs have in a column, and each run's index into them.

    Raises:
        InvariantViolation: Two names have one hash of 64 bits.
    """
    known, index = np.unique(hashes, return_inverse=True)
    statement = f"SELECT DISTINCT hashtextextended(r.{column}, 0), r.{column} FROM runs r WHERE {scope.live_runs}"
    rows = connection.execute(statement.encode()).fetchall()
    names = dict(rows)
    if len(names) != len(rows):
        raise InvariantViolation(f"two names of a {column} have the same hash")
    return tuple(names[value] for value in known.tolist()), index.astype(np.int32)


def _load_objects(connection: StoreConnection, scope: _Scope, handles: npt.NDArray[np.int64]) -> LoadedObjects:
    """Return the objects of live runs, ascending by handle, attempt and place in the bag."""
    columns = _columns(
        connection,
        "SELECT o.handle, o.attempt, o.object, o.state, coalesce(o.start_time_us, 0)"
        " FROM objects o JOIN runs r ON r.handle = o.handle AND r.attempt = o.attempt"
        f" WHERE {scope.live_runs} AND {scope.handles('o')}",
        [INT8, INT2, INT2, INT2, INT8],
    )
    order = np.lexsort((columns[2], columns[1], columns[0]))
    order = order[_among(handles, columns[0][order])]
    columns = [column[order] for column in columns]
    return LoadedObjects(
        handle=columns[0],
        attempt=columns[1].astype(np.int32),
        object_index=columns[2],
        state=columns[3].astype(np.int8),
        start_time_us=columns[4],
    )


def _past_runs(
    connection: StoreConnection, scope: _Scope, handles: npt.NDArray[np.int64], runs: LoadedRuns
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """Return of each open job the newest attempt, how many runs failed or were lost, and when one last failed."""
    ended, ended_attempts, has_failed, ended_time_us = _columns(
        connection,
        "SELECT r.handle, r.attempt,"
        f" (r.state IN ({int(RunState.FAILED)}, {int(RunState.LOST)}))::integer::smallint,"
        " CASE WHEN r.failure > 0 THEN r.end_time_us ELSE 0 END"
        " FROM runs r JOIN jobs j ON j.handle = r.handle"
        f" WHERE r.end_time_us IS NOT NULL AND {scope.jobs} AND {scope.handles('r')}",
        [INT8, INT2, INT2, INT8],
    )
    attempts, failures = np.zeros(len(handles), dtype=np.int32), np.zeros(len(handles), dtype=np.int32)
    failed_time_us = np.zeros(len(handles), dtype=np.int64)
    rows = np.searchsorted(handles, ended)
    np.maximum.at(attempts, rows, ended_attempts)
    np.add.at(failures, rows, has_failed)
    np.maximum.at(failed_time_us, rows, ended_time_us)
    np.maximum.at(attempts, np.searchsorted(handles, runs.handle), runs.attempt)
    return attempts, failures, failed_time_us


def _load_queues(connection: StoreConnection, pool: str, queue_ids: npt.NDArray[np.int32]) -> tuple[QueueRow, ...]:
    """Return the pool's queues."""
    cursor = connection.execute(
        f"SELECT {QUEUE_COLUMNS} FROM queues WHERE pool = %s AND (NOT deleted OR queue_id = ANY (%s))"
        " ORDER BY queue_id",
        [pool, np.unique(queue_ids).tolist()],
    )
    return tuple(QueueRow.of(row) for row in cursor)


def _load_classes(connection: StoreConnection, class_ids: npt.NDArray[np.int32]) -> dict[int, bytes]:
    """Return the definitions of scheduling classes."""
    cursor = connection.execute(
        "SELECT class_id, definition FROM scheduling_classes WHERE class_id = ANY (%s)", [np.unique(class_ids).tolist()]
    )
    return {row[0]: bytes(row[1]) for row in cursor}


def _load_job_sets(connection: StoreConnection, job_set_ids: npt.NDArray[np.int64]) -> tuple[JobSetView, ...]:
    """Return job sets."""
    cursor = connection.execute(
        "SELECT job_set_id, queue_id, name, last_event_number FROM job_sets WHERE job_set_id = ANY (%s)",
        [np.unique(job_set_ids).tolist()],
    )
    return tuple(
        JobSetView(job_set_id=row[0], queue_id=row[1], name=row[2], last_event_number=row[3]) for row in cursor
    )

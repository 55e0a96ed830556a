"""Everything a new leader keeps in memory, read as columns.

Each column comes as one binary array, which becomes one of NumPy without an object per row, not even a message of the
protocol (COPY sends one per row, which costs more than all else). Rows come as they lie; they are sorted and matched
here, where that takes a tenth of the time. Texts are few: they come as tables, and rows name them by their hash. The
large queries run beside each other (`shared_reads`).

Source: design section 5, "Leader lost"; section 6, "the leader keeps live jobs as structure of arrays".
"""

from __future__ import annotations

import secrets
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from argosy_core.errors import InvalidRequest, InvariantViolation, NotFound
from argosy_core.job.identity import DAY_SHIFT, NOBODY, SUBMITTER_BITS
from argosy_core.job.reading.after import AfterJobs
from argosy_core.job.reading.options import OPTION_NAMES, UNSET, JobOptions
from argosy_core.job.states import RunState
from argosy_core.job.tables.members import Members
from argosy_core.job.tables.rows import HeldAmounts
from argosy_core.scheduler import (
    JobColumns,
    JobSetView,
    LoadedColumns,
    LoadedObjects,
    LoadedRuns,
    SpecReference,
)
from argosy_core.scheduler.memory.capacity_bounds import MAX_TOTAL
from argosy_store.postgres.binary import INT2, INT4, INT8, UUID
from argosy_store.postgres.connection import StoreConnection
from argosy_store.postgres.shared_reads import SharedReads
from argosy_store.replicas.pool_settings import PoolSettingsRow, read_pool_settings
from argosy_store.rows import CLUSTER_COLUMNS, OF_POOL, QUEUE_COLUMNS, ClusterRow, QueueRow
from argosy_store.terms.past_runs import count_past_runs, load_ended_members
from argosy_store.terms.suspects import read_suspects

__all__ = ["LoadedPool", "load_pool", "read_states"]

_Columns: TypeAlias = list[npt.NDArray[Any]]
_SPREAD: Final = np.uint64(0x9E3779B97F4A7C15)
"""2^64 over the golden ratio, as in Knuth's multiplicative hashing."""
_DAY_SPREAD: Final = np.uint64(0xC2B2AE3D27D4EB4F)
"""Another odd number of 64 bits."""


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
    unreadable: tuple[int, ...] = ()
    """Handles of waiting jobs of which nobody can say what they wait for, and of those with a run that cannot be."""
    suspects: tuple[tuple[str, str], ...] = ()
    """(kind, key) of what ended terms."""
    suspect_changes: tuple[bytes, ...] = ()
    """What stands in the changes among them."""
    settings: PoolSettingsRow | None = None
    """What was set of the pool's rounds; None if nothing was."""


def load_pool(connection: StoreConnection, reads: SharedReads, pool: str) -> LoadedPool:
    """Read a pool inside a repeatable-read transaction, under the partition lock.

    Days that are known to hold no open job are left out, so the time goes with recent and open jobs, not with history.

    Args:
        connection: Where the transaction is under way.
        reads: Further connections with its snapshot.
        pool: Pool.

    Raises:
        NotFound: Nobody has ever led the pool.
        psycopg.Error: As the driver raises it.
    """
    head = connection.execute("SELECT log_position, round_state FROM pools WHERE pool = %s", [pool]).fetchone()
    if head is None:
        raise NotFound(f"pool {pool} has never had a leader")
    # It waits for the others, each of which may take its time.
    connection.run("SET LOCAL idle_in_transaction_session_timeout = '300s'")
    scope = _read_scope(connection, pool)
    # The longest come first; nothing of what follows waits for more than it needs.
    pending_jobs, pending_objects = _begin_jobs(reads, scope), _begin_objects(reads, scope)
    pending_runs, pending_names = _begin_runs(reads, scope)
    pending_metadata, pending_past = _begin_metadata(reads, scope), _begin_past_runs(reads, scope)
    pending_options, pending_held = _begin_options(reads, scope), _begin_held(reads, scope)
    pending_after, pending_preempted = _begin_after(reads, scope), _begin_preempted(reads, scope)
    pending_submitters = _begin_submitters(reads, scope)
    jobs, cancel_requested, hashes = _order_jobs(pending_jobs.result())
    handles = jobs["handle"]
    specs, spec_index = _load_specs(connection, handles, hashes)
    objects = _order_objects(pending_objects.result(), handles)
    runs = _order_runs(pending_runs.result(), pending_names.result(), handles)
    metadata, metadata_index = _load_metadata(connection, pending_metadata.result(), handles)
    last_attempt, failures, failed_time_us, parted = count_past_runs(pending_past.result(), handles, runs)
    after, unreadable = _load_after(connection, pending_after.result())
    suspects, suspect_changes = read_suspects(connection, pool)
    settings = read_pool_settings(connection, pool)
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
            jobs=JobColumns(
                **jobs,
                spec=spec_index,
                metadata_index=metadata_index,
                specs=specs,
                metadata=metadata,
                options=_spread_options(pending_options.result(), handles),
                after=after,
                submitter=_spread(pending_submitters.result(), handles, missing=NOBODY),
            ),
            cancel_requested=cancel_requested.astype(np.int8),
            last_attempt=last_attempt,
            failures=failures,
            failed_time_us=failed_time_us,
            runs=runs,
            objects=objects,
            ended_members=load_ended_members(connection, parted),
            held=_held_amounts(pending_held.result()),
            round_state=None,
            preempted=_spread(pending_preempted.result(), handles, missing=0),
            job_sets=_load_job_sets(connection, jobs["job_set"]),
        ),
        log_position=head[0],
        round_state=bytes(head[1]),
        unreadable=_find_unreadable(unreadable, runs),
        suspects=tuple(suspects),
        suspect_changes=tuple(suspect_changes),
        settings=settings,
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
    hash_seed: int
    """Another one with each load: clusters choose their nodes' names, and two of one hash would end every load."""

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
        hash_seed=secrets.randbits(63),
    )


def _begin_jobs(reads: SharedReads, scope: _Scope) -> Future[_Columns]:
    return reads.columns(
        "SELECT j.handle, j.job_id, j.queue_id, j.job_set_id, j.class_id, j.priority, j.submit_time_us,"
        f" j.cancel_requested, j.spec_hash FROM jobs j WHERE {scope.jobs}",
        [INT8, UUID, INT4, INT8, INT4, INT4, INT8, INT2, UUID],
    )


def _order_jobs(
    columns: _Columns,
) -> tuple[dict[str, npt.NDArray[Any]], npt.NDArray[np.int16], npt.NDArray[np.void]]:
    """Return columns of open jobs as `JobColumns` names them, which have cancel requests, and their spec hashes."""
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
    first, index = _distinct_specs(handles >> DAY_SHIFT, hashes)
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
    return specs, index


def _distinct_specs(
    days: npt.NDArray[np.int64], hashes: npt.NDArray[np.void]
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.int32]]:
    """Return where each distinct (day, hash) stands first, and of each element its place among them.

    Numbers of 64 bits made of them are sorted in a sixth of the time that their bytes take. Should two have one
    number, the bytes are sorted.
    """
    halves = hashes.view("u8").reshape(-1, 2)
    mixed = halves[:, 0] ^ halves[:, 1] * _SPREAD ^ days.astype(np.uint64) * _DAY_SPREAD
    _, first, index = np.unique(mixed, return_index=True, return_inverse=True)
    same = days[first][index] == days
    same &= (halves[first][index] == halves).all(axis=1)
    if not same.all():
        keys = np.column_stack([days.astype(np.uint64), halves]).view("V24").reshape(-1)
        _, first, index = np.unique(keys, return_index=True, return_inverse=True)
    return first, index.reshape(-1).astype(np.int32)


def _begin_metadata(reads: SharedReads, scope: _Scope) -> Future[_Columns]:
    return reads.columns(
        f"SELECT j.handle, j.metadata_hash FROM jobs j WHERE {scope.jobs} AND j.metadata_hash IS NOT NULL",
        [INT8, UUID],
    )


def _load_metadata(
    connection: StoreConnection, columns: _Columns, handles: npt.NDArray[np.int64]
) -> tuple[tuple[bytes, ...], npt.NDArray[np.int32]]:
    """Return the distinct metadata of open jobs and each job's index into them."""
    owners, hashes = columns
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


def _begin_options(reads: SharedReads, scope: _Scope) -> Future[_Columns]:
    names = OPTION_NAMES
    return reads.columns(
        f"SELECT j.handle, {', '.join(f'coalesce(j.{name}, {UNSET})' for name in names)} FROM jobs j"
        f" WHERE {scope.jobs} AND ({' OR '.join(f'j.{name} IS NOT NULL' for name in names)})",
        [INT8, *[INT4] * len(names)],
    )


def _begin_preempted(reads: SharedReads, scope: _Scope) -> Future[_Columns]:
    return reads.columns(
        f"SELECT j.handle, j.preempt_attempt FROM jobs j WHERE {scope.jobs} AND j.preempt_attempt IS NOT NULL",
        [INT8, INT4],
    )


def _begin_submitters(reads: SharedReads, scope: _Scope) -> Future[_Columns]:
    """Read who submitted jobs as the numbers that `submitter_number` makes of names."""
    first_bits = "('x' || encode(substr(sha256(convert_to(j.submitter, 'UTF8')), 1, 4), 'hex'))::bit(32)::bigint"
    return reads.columns(
        f"SELECT j.handle, ({first_bits} >> {32 - SUBMITTER_BITS})::integer"
        f" FROM jobs j WHERE {scope.jobs} AND j.submitter <> ''",
        [INT8, INT4],
    )


def _spread(columns: _Columns, handles: npt.NDArray[np.int64], *, missing: int) -> npt.NDArray[np.int32] | None:
    """Return what is known of some jobs as a column of all, `missing` of the others; None if nothing is of any."""
    owners, values = columns
    if not len(owners):
        return None
    spread = np.full(len(handles), missing, dtype=np.int32)
    spread[np.searchsorted(handles, owners)] = values
    return spread


def _begin_after(reads: SharedReads, scope: _Scope) -> Future[list[tuple[Any, ...]]]:
    return reads.rows(
        f"SELECT j.handle, j.run_after FROM jobs j WHERE {scope.jobs} AND j.run_after IS NOT NULL ORDER BY j.handle"
    )


def _load_after(connection: StoreConnection, rows: list[tuple[Any, ...]]) -> tuple[AfterJobs | None, set[int]]:
    """Return which jobs open jobs wait for, with what these have come to, and the jobs of which that cannot be read."""
    payloads, unreadable = {row[0]: bytes(row[1]) for row in rows}, set[int]()
    for handle, payload in payloads.items():
        try:
            AfterJobs.of_payloads((handle,), (payload,))
        except (InvalidRequest, ValueError):
            unreadable.add(handle)
    pairs = AfterJobs.of_payloads(payloads, (b"" if key in unreadable else it for key, it in payloads.items()))
    return None if pairs is None else pairs.with_states(read_states(connection, pairs.other)), unreadable


def read_states(connection: StoreConnection, handles: npt.NDArray[np.int64]) -> dict[int, int]:
    """Return what jobs have come to, by handle: JobState, 0 while they are open; others have no row."""
    cursor = connection.execute(
        "SELECT handle, state FROM jobs WHERE handle = ANY (%s::bigint[])", [np.unique(handles).tolist()]
    )
    return dict(cursor.fetchall())


def _spread_options(columns: _Columns, handles: npt.NDArray[np.int64]) -> JobOptions | None:
    """Return what the submitters of open jobs say of them, None if nothing is said of any."""
    owners, *given = columns
    if not len(owners):
        return None
    options = JobOptions.unset(len(handles))
    rows = np.searchsorted(handles, owners)
    for column, values in zip(options.columns().values(), given, strict=True):
        column[rows] = values
    return options


def _begin_runs(reads: SharedReads, scope: _Scope) -> tuple[Future[_Columns], Future[list[tuple[Any, ...]]]]:
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


def _begin_held(reads: SharedReads, scope: _Scope) -> Future[list[tuple[Any, ...]]]:
    return reads.rows(
        "SELECT r.handle, r.attempt, r.member, r.held_amounts FROM runs r"
        f" WHERE r.held_amounts IS NOT NULL AND {scope.live_runs}"
    )


def _held_amounts(rows: list[tuple[Any, ...]]) -> HeldAmounts | None:
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


def _order_runs(columns: _Columns, places: list[tuple[Any, ...]], handles: npt.NDArray[np.int64]) -> LoadedRuns:
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


def _find_unreadable(jobs: set[int], runs: LoadedRuns) -> tuple[int, ...]:
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


def _numbers(members: npt.NDArray[np.int16]) -> npt.NDArray[np.int16] | None:
    """Return numbers of members as columns hold them: None where all are 0."""
    return members if members.any() else None


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


def _begin_objects(reads: SharedReads, scope: _Scope) -> Future[_Columns]:
    return reads.columns(
        "SELECT o.handle, o.attempt, o.object, o.state, coalesce(o.start_time_us, 0), o.member"
        " FROM objects o JOIN runs r ON r.handle = o.handle AND r.attempt = o.attempt AND r.member = o.member"
        f" WHERE {scope.live_runs} AND {scope.handles('o')}",
        [INT8, INT2, INT2, INT2, INT8, INT2],
    )


def _order_objects(columns: _Columns, handles: npt.NDArray[np.int64]) -> LoadedObjects:
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


def _begin_past_runs(reads: SharedReads, scope: _Scope) -> Future[_Columns]:
    return reads.columns(
        "SELECT r.handle, r.attempt,"
        f" (r.state IN ({int(RunState.FAILED)}, {int(RunState.LOST)}))::integer::smallint,"
        " CASE WHEN r.failure > 0 THEN r.end_time_us ELSE 0 END"
        " FROM runs r JOIN jobs j ON j.handle = r.handle"
        f" WHERE r.end_time_us IS NOT NULL AND {scope.jobs} AND {scope.handles('r')}",
        [INT8, INT2, INT2, INT8],
    )


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

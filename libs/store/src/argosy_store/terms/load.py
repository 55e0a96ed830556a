"""Everything a new leader keeps in memory, read as columns.

Each column comes as one binary array, which becomes one of NumPy without an object per row, not even a message of the
protocol (COPY sends one per row, which costs more than all else). Rows come as they lie; they are sorted and matched
here, where that takes a tenth of the time. Texts are few: they come as tables, and rows name them by their hash. The
large queries run beside each other (`shared_reads`): of open jobs (`open_jobs`), live runs (`live_runs`) and runs that
are over (`past_runs`).

Source: design section 5, "Leader lost"; section 6, "the leader keeps live jobs as structure of arrays".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from argosy_core.errors import NotFound
from argosy_core.job.identity import NOBODY
from argosy_core.scheduler import JobColumns, JobSetView, LoadedColumns
from argosy_store.postgres.connection import StoreConnection
from argosy_store.postgres.shared_reads import SharedReads
from argosy_store.replicas.pool_settings import PoolSettingsRow, read_pool_settings
from argosy_store.rows import CLUSTER_COLUMNS, OF_POOL, QUEUE_COLUMNS, ClusterRow, QueueRow
from argosy_store.terms.live_runs import (
    begin_held,
    begin_objects,
    begin_runs,
    find_unreadable,
    held_amounts,
    order_objects,
    order_runs,
)
from argosy_store.terms.load_scope import read_scope
from argosy_store.terms.open_jobs import (
    begin_after,
    begin_jobs,
    begin_metadata,
    begin_options,
    begin_preempted,
    begin_submitters,
    load_after,
    load_metadata,
    load_specs,
    order_jobs,
    spread,
    spread_options,
)
from argosy_store.terms.past_runs import begin_past_runs, count_past_runs, load_ended_members
from argosy_store.terms.suspects import read_suspects

__all__ = ["LoadedPool", "load_classes", "load_clusters", "load_job_sets", "load_pool"]


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
    scope = read_scope(connection, pool)
    # The longest come first; nothing of what follows waits for more than it needs.
    pending_jobs, pending_objects = begin_jobs(reads, scope), begin_objects(reads, scope)
    pending_runs, pending_names = begin_runs(reads, scope)
    pending_metadata, pending_past = begin_metadata(reads, scope), begin_past_runs(reads, scope)
    pending_options, pending_held = begin_options(reads, scope), begin_held(reads, scope)
    pending_after, pending_preempted = begin_after(reads, scope), begin_preempted(reads, scope)
    pending_submitters = begin_submitters(reads, scope)
    jobs, cancel_requested, hashes = order_jobs(pending_jobs.result())
    handles = jobs["handle"]
    specs, spec_index = load_specs(connection, handles, hashes)
    objects = order_objects(pending_objects.result(), handles)
    runs = order_runs(pending_runs.result(), pending_names.result(), handles)
    metadata, metadata_index = load_metadata(connection, pending_metadata.result(), handles)
    last_attempt, failures, failed_time_us, parted = count_past_runs(pending_past.result(), handles, runs)
    after, unreadable = load_after(connection, pending_after.result())
    suspects, suspect_changes = read_suspects(connection, pool)
    settings = read_pool_settings(connection, pool)
    return LoadedPool(
        queues=_load_queues(connection, pool, jobs["queue"]),
        clusters=load_clusters(connection, pool),
        classes=load_classes(connection, jobs["class_id"]),
        columns=LoadedColumns(
            jobs=JobColumns(
                **jobs,
                spec=spec_index,
                metadata_index=metadata_index,
                specs=specs,
                metadata=metadata,
                options=spread_options(pending_options.result(), handles),
                after=after,
                submitter=spread(pending_submitters.result(), handles, missing=NOBODY),
            ),
            cancel_requested=cancel_requested.astype(np.int8),
            last_attempt=last_attempt,
            failures=failures,
            failed_time_us=failed_time_us,
            runs=runs,
            objects=objects,
            ended_members=load_ended_members(connection, parted),
            held=held_amounts(pending_held.result()),
            round_state=None,
            preempted=spread(pending_preempted.result(), handles, missing=0),
            job_sets=load_job_sets(connection, jobs["job_set"]),
        ),
        log_position=head[0],
        round_state=bytes(head[1]),
        unreadable=find_unreadable(unreadable, runs),
        suspects=tuple(suspects),
        suspect_changes=tuple(suspect_changes),
        settings=settings,
    )


def _load_queues(connection: StoreConnection, pool: str, queue_ids: npt.NDArray[np.int32]) -> tuple[QueueRow, ...]:
    """Return the pool's queues."""
    cursor = connection.execute(
        f"SELECT {QUEUE_COLUMNS} FROM queues WHERE pool = %s AND (NOT deleted OR queue_id = ANY (%s))"
        " ORDER BY queue_id",
        [pool, np.unique(queue_ids).tolist()],
    )
    return tuple(QueueRow.of(row) for row in cursor)


def load_clusters(connection: StoreConnection, pool: str, names: Sequence[str] | None = None) -> tuple[ClusterRow, ...]:
    """Return clusters by name, or all of the pool."""
    chosen, value = (f"{OF_POOL} AND NOT forgotten", pool) if names is None else ("name = ANY (%s)", list(names))
    cursor = connection.execute(f"SELECT {CLUSTER_COLUMNS} FROM clusters WHERE {chosen} ORDER BY name", [value])
    return tuple(ClusterRow.of(row) for row in cursor)


def load_classes(connection: StoreConnection, class_ids: npt.ArrayLike) -> dict[int, bytes]:
    """Return the definitions of scheduling classes by id."""
    cursor = connection.execute(
        "SELECT class_id, definition FROM scheduling_classes WHERE class_id = ANY (%s)", [np.unique(class_ids).tolist()]
    )
    return {row[0]: bytes(row[1]) for row in cursor}


def load_job_sets(connection: StoreConnection, job_set_ids: npt.ArrayLike) -> tuple[JobSetView, ...]:
    """Return job sets with the numbers of their last events."""
    cursor = connection.execute(
        "SELECT job_set_id, queue_id, name, last_event_number FROM job_sets WHERE job_set_id = ANY (%s)",
        [np.unique(job_set_ids).tolist()],
    )
    return tuple(
        JobSetView(job_set_id=row[0], queue_id=row[1], name=row[2], last_event_number=row[3]) for row in cursor
    )

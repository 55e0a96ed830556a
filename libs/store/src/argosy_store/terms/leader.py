"""The store of a pool's leader: election, taking changes, applying effects, loading.

Writes go through one connection, reads through another, the election through a third, each used by one thread at a
time. Every write checks the epoch under a lock on the pool's row, so a leader that has been replaced changes nothing:
it gets StateConflict.

Applying the same log position twice is StateConflict as well: the position is moved from its expected value.

Source: design section 5, "Ingest" and "Leader lost"; section 7, invariant 9.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.errors import StateConflict
from argosy_core.job.identity import parse_id
from argosy_store.binding import Binding, Caller, bind
from argosy_store.changes import CHANGES_BYTES, delete_changes, read_changes
from argosy_store.postgres.binary import INT4, UUID, array, uuid_column
from argosy_store.postgres.connection import LEADER_SETTINGS, READ_SETTINGS, Line, StoreConnection
from argosy_store.postgres.locks import PARTITION_LOCK, change_request_lock
from argosy_store.postgres.partitions import (
    STATE_COLUMNS,
    learn_state,
    prologue,
)
from argosy_store.postgres.shared_reads import SharedReads
from argosy_store.quarantine import insert_quarantined
from argosy_store.replicas.audit import note_claim
from argosy_store.replicas.pool_settings import PoolSettingsRow, read_pool_settings
from argosy_store.rows import QUEUE_COLUMNS, ClusterRow, QueueRow
from argosy_store.sealing import SpecSeal, open_body
from argosy_store.terms import apply
from argosy_store.terms.effects import AppliedEffects, Effects
from argosy_store.terms.election import UNTRIED, Election, Leadership, LogState
from argosy_store.terms.ended_sessions import note_ended_session
from argosy_store.terms.load import LoadedPool, load_classes, load_clusters, load_job_sets, load_pool
from argosy_store.terms.open_jobs import read_states
from argosy_store.terms.outbox import insert_outbox
from argosy_store.terms.pool_row import note_progress
from argosy_store.terms.suspects import count_suspects, note_suspects, refuse_suspect

__all__ = ["LeaderStore"]

_READ_SPECS: Final = (
    "SELECT s.day, s.hash, s.body, s.layout FROM unnest($1::integer[], $2::uuid[]) AS n (day, hash)"
    " JOIN job_specs s ON s.day = n.day AND s.hash = n.hash"
)


_READER_SETTINGS: Final = {**READ_SETTINGS, "application_name": "argosy-leader"}


class LeaderStore:
    """The database as one pool's leader sees it. Thread-safe: calls of one kind wait for each other.

    Args:
        url: Database, migrated.
        pool: Pool; jobs belong to it through their queue.
        relays_events: Whether what is written is noted in the outbox of events, for the relay.
    """

    def __init__(self, url: str, pool: str, *, relays_events: bool = False, seal: SpecSeal | None = None) -> None:
        """Remember; connections are opened when they are needed and again after they broke."""
        self._seal = seal
        self._url = url
        self._relays_events = relays_events
        self._pool = pool
        self._writer = Line(url, {**LEADER_SETTINGS})
        self._reader = Line(url, _READER_SETTINGS)
        self._election = Election(url, pool)

    def close(self) -> None:
        """Close the connections."""
        self._writer.close()
        self._reader.close()
        self._election.close()

    def try_lead(self, leader_id: str, address: str, lease_s: float) -> Leadership | None:
        """Take the pool if it is free, expired or ours already; see `Election.try_lead`.

        Raises:
            BackendUnavailable: Postgres cannot be reached.
        """
        return self._election.try_lead(leader_id, address, lease_s)

    def renew(self, epoch: int, lease_s: float, log: LogState = UNTRIED) -> int:
        """Lead on, and return the database's time; see `Election.renew`.

        Raises:
            StateConflict: Another leader took the pool, or this one resigned.
            BackendUnavailable: Postgres cannot be reached.
        """
        return self._election.renew(epoch, lease_s, log)

    def resign(self, epoch: int, log: LogState = UNTRIED) -> None:
        """Leave the pool to whoever comes, with what is known of the log; nothing if the lead was lost before.

        Raises:
            BackendUnavailable: Postgres cannot be reached.
        """
        self._election.resign(epoch, log)

    def read_changes(
        self, limit: int, is_new: Callable[[int], bool] = lambda _: True, *, most_bytes: int = CHANGES_BYTES
    ) -> list[tuple[int, bytes]]:
        """Return the first new ones of up to `limit` visible changes of the pool in id order.

        A change that commits late may have a lower id than one read before, so callers keep no cursor: they delete what
        they took, and say what they hold until then. Changes that ended a term are left out.

        Args:
            limit: Changes that are looked at.
            is_new: Returns whether the caller lacks a change.
            most_bytes: Size of what is returned, so that no backlog costs more memory than that; at least one is.

        Raises:
            BackendUnavailable: Postgres cannot be reached.
        """
        with self._reader.use() as connection:
            return read_changes(connection, self._pool, limit, is_new=is_new, most_bytes=most_bytes)

    def apply(self, epoch: int, effects: Effects) -> AppliedEffects:
        """Write everything in one transaction.

        Order: ends of runs, leases and their objects, states of objects, ends of runs that were leased in here, jobs,
        events, changes, quarantine, contacts, position and round state.

        Args:
            epoch: The caller's epoch.
            effects: What to write.

        Returns:
            What was refused.

        Raises:
            StateConflict: The epoch or the log position is not the current one; nothing was written.
            BackendUnavailable: Postgres cannot be reached; the transaction may have happened. The position tells.
            InvariantViolation: Events leave a gap; nothing was written.
        """
        with self._writer.use() as connection:
            locks = [] if effects.new_runs is None else [change_request_lock(self._pool, shared=False)]
            with connection.transaction_block(_opening(self._pool, locks)) as state:
                if state.ntuples == 0 or int(state.get_value(0, STATE_COLUMNS) or b"0") != epoch:
                    raise StateConflict(f"epoch {epoch} does not lead pool {self._pool} any more")
                position = int(state.get_value(0, STATE_COLUMNS + 1) or b"0")
                if effects.log_position is not None and effects.log_position[0] != position:
                    raise StateConflict(
                        f"the log of {self._pool} is applied up to {position}, not {effects.log_position[0]}"
                    )
                learn_state(connection, state)
                if self._election.timeline not in {"", connection.timeline}:
                    raise StateConflict(
                        f"the database was replaced by a standby, which may lack what epoch {epoch} knows: load again"
                    )
                return self._write(connection, epoch, effects)

    def _write(self, connection: StoreConnection, epoch: int, effects: Effects) -> AppliedEffects:
        """Execute the statements of one transaction."""
        refused = _write_runs(connection, epoch, effects)
        absorbed = np.empty(0, dtype=np.int64)
        if effects.job_updates is not None:
            absorbed = apply.end_jobs(connection, effects.job_updates)
        applied = AppliedEffects(refused_handles=refused, absorbed_handles=absorbed)
        events = effects.events(applied) if callable(effects.events) else effects.events
        if events:
            apply.write_events(connection, events)
            if self._relays_events:
                insert_outbox(connection, self._pool, events)
        if effects.deleted_change_ids is not None and len(effects.deleted_change_ids):
            delete_changes(connection, self._pool, effects.deleted_change_ids)
        if effects.quarantined:
            insert_quarantined(connection, self._pool, effects.quarantined)
        if effects.contacts:
            apply.set_contacts(connection, self._pool, effects.contacts)
        if effects.queued_counts:
            apply.set_queued_counts(connection, effects.queued_counts, effects.queued_count_time_us)
        self._move(connection, effects)
        return applied

    def _move(self, connection: StoreConnection, effects: Effects) -> None:
        """Store position and round state; last, so that the pool's row is locked exclusively for a moment only."""
        position = None if effects.log_position is None else effects.log_position[1]
        note_progress(connection, self._pool, position=position, round_state=effects.round_state)

    def note_suspects(self, epoch: int, origins: Sequence[tuple[str, str]], error: str) -> None:
        """Note what ended a term, so that the next leader sets it aside.

        Args:
            epoch: Epoch of the term.
            origins: (kind, key).
            error: What it came to.

        Raises:
            BackendUnavailable: Postgres cannot be reached.
        """
        with self._reader.use() as connection:
            note_suspects(connection, self._pool, epoch=epoch, origins=origins, error=error)

    def count_suspects(self) -> int:
        """Return how many suspects the pool has.

        Raises:
            BackendUnavailable: Postgres cannot be reached.
        """
        with self._reader.use() as connection:
            return count_suspects(connection, self._pool)

    def note_ended_session(self, *, cluster: str, role: str, host: str, reason: str) -> None:
        """Remember that a session of the pool was ended because of what was said there.

        Raises:
            BackendUnavailable: Postgres cannot be reached.
        """
        with self._reader.use() as connection, connection.transaction_block():
            note_ended_session(connection, self._pool, cluster=cluster, role=role, host=host, reason=reason)

    def note_excess(self, *, cluster: str, text: str) -> None:
        """Note in the audit that a cluster tells of more capacity than counts.

        Raises:
            BackendUnavailable: Postgres cannot be reached.
        """
        with self._reader.use() as connection:
            note_claim(connection, cluster, text)

    def load(self) -> LoadedPool:
        """Return everything the leader keeps in memory, as of one moment.

        Raises:
            BackendUnavailable: Postgres cannot be reached.
        """
        # The lock is taken before the transaction begins: its view must not be older than the partitions it reads.
        # Both come in one message, as both ends do: a session that is idle outside a transaction is ended by nothing,
        # so a process that is stopped there would keep the lock.
        with (
            self._reader.use() as connection,
            connection.transaction_block(
                f"BEGIN; SELECT pg_advisory_lock_shared({PARTITION_LOCK}); COMMIT;"
                " BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
                epilogue=f"SELECT pg_advisory_unlock_shared({PARTITION_LOCK})",
            ),
            SharedReads(self._url, _READER_SETTINGS, connection) as reads,
        ):
            return load_pool(connection, reads, self._pool)

    def read_classes(self, class_ids: Sequence[int]) -> dict[int, bytes]:
        """Return definitions of scheduling classes by id."""
        with self._reader.use() as connection:
            return load_classes(connection, class_ids)

    def read_queues(self, queue_ids: Sequence[int]) -> list[QueueRow]:
        """Return queues by id, deleted ones included."""
        with self._reader.use() as connection:
            statement = f"SELECT {QUEUE_COLUMNS} FROM queues WHERE queue_id = ANY (%s) ORDER BY queue_id"
            cursor = connection.execute(statement, [list(queue_ids)])
            return [QueueRow.of(row) for row in cursor]

    def read_settings(self) -> PoolSettingsRow | None:
        """Return what was set of the pool's rounds; None if nothing was."""
        with self._reader.use() as connection:
            return read_pool_settings(connection, self._pool)

    def read_job_sets(self, job_set_ids: Sequence[int]) -> dict[int, tuple[int, str, int]]:
        """Return (queue id, name, last event number) of job sets by id."""
        with self._reader.use() as connection:
            found = load_job_sets(connection, job_set_ids)
            return {row.job_set_id: (row.queue_id, row.name, row.last_event_number) for row in found}

    def read_specs(self, keys: Sequence[tuple[int, bytes]]) -> dict[tuple[int, bytes], tuple[bytes, bytes]]:
        """Return (body, layout) of specs by (day, hash), bodies opened.

        Raises:
            BackendUnavailable: Postgres cannot be reached, or a body is sealed by a key that is not here.
        """
        with self._reader.use() as connection:
            result = connection.bulk(
                _READ_SPECS,
                array(INT4, [key[0] for key in keys]),
                array(UUID, uuid_column(b"".join(key[1] for key in keys))),
            )
            rows = [[result.get_value(row, column) or b"" for column in range(4)] for row in range(result.ntuples)]
        return {
            (int.from_bytes(day, "big", signed=True), spec_hash): (open_body(self._seal, spec_hash, body), layout)
            for day, spec_hash, body, layout in rows
        }

    def read_ended_jobs(self, handles: Sequence[int] | npt.NDArray[np.int64]) -> list[tuple[int, int, int]]:
        """Return (handle, upper half of the id, job set id) of jobs, ended ones too; unknown handles are left out."""
        statement = "SELECT handle, job_id, job_set_id FROM jobs WHERE handle = ANY (%s) ORDER BY handle"
        with self._reader.use() as connection:
            cursor = connection.execute(statement, [[int(handle) for handle in handles]])
            return [(row[0], parse_id(str(row[1]))[0], row[2]) for row in cursor]

    def read_states(self, handles: Sequence[int] | npt.NDArray[np.int64]) -> dict[int, int]:
        """Return what jobs of any pool have come to, by handle: JobState, 0 while open; others have no row."""
        with self._reader.use() as connection:
            return read_states(connection, np.asarray(handles, dtype=np.int64))

    def leader_addresses(self) -> dict[str, str]:
        """Return host:port of the leader of each pool that has one."""
        statement = "SELECT pool, address FROM pools WHERE leader_id <> '' AND expire_time > clock_timestamp()"
        with self._reader.use() as connection:
            return {pool: str(address) for pool, address in connection.execute(statement)}

    def read_foreign_jobs(self, handles: Sequence[int]) -> list[int]:
        """Return those jobs, of some handles, that belong to queues of other pools."""
        statement = (
            "SELECT j.handle FROM jobs j JOIN queues q ON q.queue_id = j.queue_id"
            " WHERE j.handle = ANY (%s) AND q.pool <> %s"
        )
        with self._reader.use() as connection:
            return [row[0] for row in connection.execute(statement, [list(handles), self._pool])]

    def read_clusters(self, names: Sequence[str] | None = None) -> list[ClusterRow]:
        """Return clusters by name, or all of the pool."""
        with self._reader.use() as connection:
            return list(load_clusters(connection, self._pool, names))

    def bind_cluster(  # noqa: PLR0913 - what a hello says, by name
        self,
        epoch: int,
        name: str,
        *,
        uid: str,
        role: str,
        process: bytes,
        keep_s: float,
        host: str = "",
        delegated: bool | None = None,
    ) -> Binding:
        """Bind a cluster's name to its uid, and the cluster's part in this pool to one process; see `bind`.

        Args:
            epoch: The caller's epoch.
            name: Name of the cluster.
            uid: Uid of the cluster.
            role: `executor` or `sampler`.
            process: Which process dials: 16 random bytes.
            keep_s: For how long it keeps its session without being heard.
            host: Where it runs, for people.
            delegated: Whether the cluster asks to choose nodes itself; None where it has not said.

        Raises:
            StateConflict: The epoch is not the current one, or another process holds the session.
            NotAllowedNow: The name belongs to another uid.
            BackendUnavailable: Postgres cannot be reached, or what the service said ended a term.
        """
        with self._writer.use() as connection, connection.transaction_block(_opening(self._pool, [])) as state:
            if state.ntuples == 0 or int(state.get_value(0, STATE_COLUMNS) or b"0") != epoch:
                raise StateConflict(f"epoch {epoch} does not lead pool {self._pool} any more")
            refuse_suspect(connection, self._pool, role, name)
            caller = Caller(cluster=name, pool=self._pool, role=role, process=process, host=host, delegated=delegated)
            return bind(connection, caller, uid=uid, keep_s=keep_s)


_NOBODY: Final = np.empty(0, dtype=np.int64)


def _write_runs(connection: StoreConnection, epoch: int, effects: Effects) -> npt.NDArray[np.int64]:
    """Write runs and objects; return the handles of refused leases."""
    refused = np.empty(0, dtype=np.int64)
    if effects.run_updates is not None:
        apply.end_runs(connection, effects.run_updates)
    if effects.new_runs is not None:
        refused = apply.refuse_runs(connection, effects.new_runs)
        apply.insert_runs(connection, effects.new_runs, epoch, refused)
    if effects.new_objects is not None:
        apply.insert_objects(connection, effects.new_objects, refused)
    if effects.added_runs is not None and effects.added_objects is not None:
        apply.insert_runs(connection, effects.added_runs, epoch, _NOBODY)
        apply.insert_objects(connection, effects.added_objects, _NOBODY)
    if effects.held is not None:
        apply.set_held_amounts(connection, effects.held)
    if effects.placed is not None:
        apply.set_nodes(connection, effects.placed)
    if effects.object_updates is not None:
        apply.update_objects(connection, effects.object_updates)
    for cluster, updates in effects.ended_updates:
        apply.update_objects(connection, updates, cluster)
    if effects.run_updates is not None and effects.new_runs is not None:
        apply.end_runs(connection, effects.run_updates)
    return refused


def _opening(pool: str, locks: Sequence[str]) -> str:
    """Return the statements that open an epoch-checked transaction; its last columns are epoch and position."""
    quoted = pool.replace("'", "''")
    tail = f", p.epoch, p.log_position FROM partition_state s, pools p WHERE p.pool = '{quoted}' FOR SHARE OF p"
    return prologue(*locks, tail=tail)

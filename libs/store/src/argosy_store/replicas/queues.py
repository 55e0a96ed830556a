"""Queues: made, changed, cordoned, deleted; every change is news for the pool's leader.

Source: design section 3, QueueService; section 4, table queues.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from argosy_core.errors import AlreadyExists, NotAllowedNow, NotFound, Resource, StateConflict
from argosy_store.changes import tell
from argosy_store.postgres.connection import StoreConnection
from argosy_store.postgres.partitions import exclusively
from argosy_store.postgres.pool import Connections
from argosy_store.replicas.audit import note_changes
from argosy_store.replicas.queue_limits import read_waiting
from argosy_store.replicas.queue_trees import check_parent, refuse_parent_of
from argosy_store.rows import QUEUE_COLUMNS, QueueRow

__all__ = ["EncodeQueues", "QueueCalls"]

EncodeQueues = Callable[[Sequence[int]], bytes]
"""Makes the payload of a `changes` row out of the ids of queues that changed."""

_CHANGEABLE: Final = frozenset(
    {
        "weight",
        "pool",
        "namespaces",
        "max_queued_count",
        "parent",
        "max_running_count",
        "max_running_amounts",
        "submit_rate_per_s",
        "lease_rate_per_s",
        "preempts_unexpired",
        "preempts_endless",
    }
)
_INSERT: Final = (
    "INSERT INTO queues (name, weight, pool, namespaces, max_queued_count, parent, max_running_count,"
    " max_running_amounts, submit_rate_per_s, lease_rate_per_s, preempts_unexpired, preempts_endless, create_time_us)"
    " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
    " ON CONFLICT (name) WHERE NOT deleted DO NOTHING"
    f" RETURNING {QUEUE_COLUMNS}"
)
_OPEN_JOBS: Final = (
    "SELECT EXISTS (SELECT FROM job_sets s JOIN jobs j ON j.job_set_id = s.job_set_id"
    " WHERE s.queue_id = %s AND j.state = 0)"
)


class QueueCalls:
    """What an API replica does with queues."""

    def __init__(self, connections: Connections) -> None:
        """Keep the connections."""
        self._connections = connections

    def create_queue(  # noqa: PLR0913 - a column each, and all go by name
        self,
        name: str,
        *,
        weight: float,
        pool: str,
        create_time_us: int,
        encode: EncodeQueues,
        namespaces: Sequence[str] = (),
        max_queued_count: int = 0,
        parent: str = "",
        max_running_count: int = 0,
        max_running_amounts: Sequence[str] = (),
        submit_rate_per_s: float = 0.0,
        lease_rate_per_s: float = 0.0,
        preempts_unexpired: bool = False,
        preempts_endless: bool = False,
    ) -> QueueRow:
        """Make a queue; an equal one by the same name is success.

        Raises:
            AlreadyExists: There is another one by that name.
            NotAllowedNow: It cannot stand below that parent.
            BackendUnavailable: Postgres cannot be reached.
        """
        with self._connections.read() as connection, connection.transaction_block():
            if parent:
                check_parent(connection, name, parent=parent, pool=pool)
            limits = (max_running_count, list(max_running_amounts), submit_rate_per_s, lease_rate_per_s)
            rights = (preempts_unexpired, preempts_endless)
            values = [name, weight, pool, list(namespaces), max_queued_count, parent, *limits, *rights, create_time_us]
            row = connection.execute(_INSERT, values).fetchone()
            if row is not None:
                made = QueueRow.of(row)
                tell(connection, [made.pool], encode([made.queue_id]))
                note_changes(connection, [("Queue", name, "")])
                return made
            present = _find(connection, name)
        wanted = replace(
            present,
            weight=weight,
            pool=pool,
            namespaces=tuple(namespaces),
            max_queued_count=max_queued_count,
            parent=parent,
            max_running_count=max_running_count,
            max_running_amounts=tuple(max_running_amounts),
            submit_rate_per_s=submit_rate_per_s,
            lease_rate_per_s=lease_rate_per_s,
            preempts_unexpired=preempts_unexpired,
            preempts_endless=preempts_endless,
        )
        if present != wanted:
            raise AlreadyExists(f"queue {name} exists with other settings; update it instead", resource=_resource(name))
        return present

    def get_queue(self, name: str) -> QueueRow:
        """Return a queue by its name.

        Raises:
            NotFound: There is none by that name.
            BackendUnavailable: Postgres cannot be reached.
        """
        with self._connections.read() as connection:
            return _find(connection, name)

    def find_queues(self, names: Sequence[str]) -> dict[str, tuple[QueueRow, int]]:
        """Return those of some queues that exist, by name, each with how many of its jobs wait.

        Asked for all of them at once, because a replica asks again and again for every queue that it takes submits for.

        Raises:
            BackendUnavailable: Postgres cannot be reached.
        """
        statement = f"SELECT {QUEUE_COLUMNS} FROM queues WHERE name = ANY (%s) AND NOT deleted"
        with self._connections.submits() as connection:
            rows = [QueueRow.of(row) for row in connection.execute(statement, [list(names)])]
            waiting = read_waiting(connection, {row.pool for row in rows}, [row.queue_id for row in rows])
        return {row.name: (row, waiting[row.queue_id]) for row in rows}

    def list_queues(
        self, after_name: str = "", limit: int = 100, *, names: Collection[str] | None = None
    ) -> list[QueueRow]:
        """Return queues in order of their names, those after a name; only some of them, if these are named.

        Raises:
            BackendUnavailable: Postgres cannot be reached.
        """
        statement = (
            f"SELECT {QUEUE_COLUMNS} FROM queues WHERE NOT deleted AND name > %s"
            " AND (%s::text[] IS NULL OR name = ANY (%s)) ORDER BY name LIMIT %s"
        )
        chosen = None if names is None else list(names)
        with self._connections.read() as connection:
            rows = connection.execute(statement, [after_name, chosen, chosen, limit])
            return [QueueRow.of(row) for row in rows]

    def queues_by_id(self, queue_ids: Sequence[int]) -> dict[int, QueueRow]:
        """Return queues by id, deleted ones included.

        Raises:
            BackendUnavailable: Postgres cannot be reached.
        """
        statement = f"SELECT {QUEUE_COLUMNS} FROM queues WHERE queue_id = ANY (%s)"
        with self._connections.read() as connection:
            cursor = connection.execute(statement, [list(queue_ids)])
            return {row[0]: QueueRow.of(row) for row in cursor}

    def update_queue(
        self,
        name: str,
        *,
        etag: str,
        changes: Mapping[str, float | str | list[str] | int],
        encode: EncodeQueues,
    ) -> QueueRow:
        """Change a queue.

        Args:
            name: Which queue.
            etag: That of the queue as the caller read it.
            changes: New values of weight, pool, namespaces, parent and limits, as far as they change. The pool can
                only change while the queue has no open jobs and stands neither above nor below another. It may
                move in its tree at any time, with its jobs and all below it.
            encode: Makes the leader's news.

        Raises:
            NotFound: There is none by that name.
            StateConflict: The queue was changed, or made anew, since the caller read it.
            NotAllowedNow: The pool would change under open jobs, or before its leader has numbered their last events,
                or the queues would be no trees of one pool each.
            BackendUnavailable: Postgres cannot be reached.
        """

        def change() -> QueueRow:
            present = _find(connection, name, lock=True)
            if etag != present.etag:
                raise StateConflict(
                    f"queue {name} was changed since etag {etag!r} was read; read it again, then decide",
                    resource=_resource(name),
                )
            pool = str(changes.get("pool", present.pool))
            if pool != present.pool and moves and _has_untaken_changes(connection, present):
                raise NotAllowedNow(
                    f"the leader of pool {present.pool} has yet to take what happened to jobs of queue {name}; try"
                    " again",
                    reason="QUEUE_HAS_UNTAKEN_CHANGES",
                    resource=_resource(name),
                )
            if pool != present.pool and (not moves or _has_open_jobs(connection, present.queue_id)):
                raise NotAllowedNow(
                    f"queue {name} has open jobs, so it cannot move to another pool",
                    reason="QUEUE_HAS_OPEN_JOBS",
                    resource=_resource(name),
                )
            assert changes.keys() <= _CHANGEABLE, changes
            parent = str(changes.get("parent", present.parent))
            if pool != present.pool:
                refuse_parent_of(connection, name, to="move to another pool")
            if parent and (parent, pool) != (present.parent, present.pool):
                check_parent(connection, name, parent=parent, pool=pool)
            assignments = "".join(f"{column} = %s, " for column in changes)
            row = connection.execute(
                f"UPDATE queues SET {assignments}version = version + 1 WHERE queue_id = %s RETURNING {QUEUE_COLUMNS}",
                [*changes.values(), present.queue_id],
            ).fetchone()
            assert row is not None
            for told in sorted({present.pool, pool}):
                tell(connection, [told], encode([present.queue_id]))
            note_changes(connection, [("Queue", name, _named(changes))])
            return QueueRow.of(row)

        with self._connections.read() as connection:
            moves = "pool" in changes and _find(connection, name).pool != changes["pool"]
            if moves:
                return exclusively(connection, change)
            with connection.transaction_block():
                return change()

    def set_queue_cordon(self, name: str, *, cordoned: bool, reason: str, encode: EncodeQueues) -> QueueRow:
        """Cordon or uncordon a queue.

        Raises:
            NotFound: There is none by that name.
            BackendUnavailable: Postgres cannot be reached.
        """
        with self._connections.read() as connection, connection.transaction_block():
            row = connection.execute(
                "UPDATE queues SET cordoned = %s, cordon_reason = %s, version = version + 1"
                f" WHERE name = %s AND NOT deleted RETURNING {QUEUE_COLUMNS}",
                [cordoned, reason if cordoned else "", name],
            ).fetchone()
            if row is None:
                raise NotFound(f"there is no queue {name}", resource=_resource(name))
            changed = QueueRow.of(row)
            tell(connection, [changed.pool], encode([changed.queue_id]))
            note_changes(connection, [("Queue", name, reason)])
            return changed

    def delete_queue(self, name: str, *, encode: EncodeQueues) -> None:
        """Delete a queue that has no open jobs; one that was deleted before is fine. Submits that raced are refused.

        Raises:
            NotFound: There never was one by that name.
            NotAllowedNow: It has open jobs, or queues below it.
            BackendUnavailable: Postgres cannot be reached.
        """
        with self._connections.read() as connection:
            # Asked first without the lock that holds up submits.
            if _was_deleted(connection, name):
                return
            self._refuse_open(connection, _find(connection, name))
            exclusively(connection, partial(self._delete, connection, name, encode))

    def _delete(self, connection: StoreConnection, name: str, encode: EncodeQueues) -> None:
        """Delete a queue in the present transaction, which holds the exclusive lock."""
        present = _find(connection, name, lock=True)
        self._refuse_open(connection, present)
        refuse_parent_of(connection, name, to="be deleted")
        connection.execute(
            "UPDATE queues SET deleted = true, version = version + 1 WHERE queue_id = %s", [present.queue_id]
        )
        connection.execute("DELETE FROM grants WHERE queue = %s", [name])
        connection.execute("DELETE FROM queue_rates WHERE queue_id = %s", [present.queue_id])
        connection.execute(
            "UPDATE partition_state SET deleted_queue_ids = array_append(deleted_queue_ids, %s)", [present.queue_id]
        )
        tell(connection, [present.pool], encode([present.queue_id]))
        note_changes(connection, [("Queue", name, "")])

    @staticmethod
    def _refuse_open(connection: StoreConnection, queue: QueueRow) -> None:
        """Raise if a queue has open jobs."""
        if _has_open_jobs(connection, queue.queue_id):
            raise NotAllowedNow(
                f"queue {queue.name} has open jobs; cancel them or wait for them",
                reason="QUEUE_HAS_OPEN_JOBS",
                resource=_resource(queue.name),
            )


def _find(connection: StoreConnection, name: str, *, lock: bool = False) -> QueueRow:
    """Return a queue by name."""
    statement = f"SELECT {QUEUE_COLUMNS} FROM queues WHERE name = %s AND NOT deleted{' FOR UPDATE' if lock else ''}"
    row = connection.execute(statement, [name]).fetchone()
    if row is None:
        raise NotFound(f"there is no queue {name}", resource=_resource(name))
    return QueueRow.of(row)


def _was_deleted(connection: StoreConnection, name: str) -> bool:
    """Return whether there was a queue by this name, and is none now."""
    row = connection.execute("SELECT bool_and(deleted) FROM queues WHERE name = %s", [name]).fetchone()
    return row is not None and bool(row[0])


def _has_open_jobs(connection: StoreConnection, queue_id: int) -> bool:
    """Return whether a queue has open jobs."""
    row = connection.execute(_OPEN_JOBS, [queue_id]).fetchone()
    return row is not None and bool(row[0])


def _has_untaken_changes(connection: StoreConnection, queue: QueueRow) -> bool:
    """Return whether changes wait for the pool's leader that may be about a queue; few are not about submits."""
    statement = (
        "SELECT EXISTS (SELECT FROM changes WHERE pool = %s AND (queue_ids IS NULL OR queue_ids @> ARRAY[%s::integer]))"
    )
    row = connection.execute(statement, [queue.pool, queue.queue_id]).fetchone()
    return row is not None and bool(row[0])


def _named(values: Mapping[str, object]) -> str:
    """Return new values for people."""
    return ", ".join(f"{name}={value}" for name, value in values.items())


def _resource(name: str) -> Resource:
    """Return what errors about a queue name."""
    return Resource(kind="Queue", name=name)

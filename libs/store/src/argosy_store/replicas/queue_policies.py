"""Policies of queues' pods: one document for each queue that has one.

Source: design section 5, "Submit" ("then policy").
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from argosy_core.errors import NotFound, Resource
from argosy_store.postgres.pool import Connections
from argosy_store.replicas.audit import note_changes
from argosy_store.replicas.queue_trees import MAX_DEPTH

__all__ = ["QueuePolicyCalls"]

_LOCK: Final = "SELECT queue_id FROM queues WHERE name = %s AND NOT deleted FOR UPDATE"
_SET: Final = (
    "INSERT INTO queue_policies (queue_id, document) VALUES (%s, %s)"
    " ON CONFLICT (queue_id) DO UPDATE SET document = excluded.document"
)
_FIND: Final = (
    "WITH RECURSIVE above (name, queue_id, at, parent, depth) AS ("
    " SELECT name, queue_id, name, parent, 1 FROM queues WHERE name = ANY (%s) AND NOT deleted"
    " UNION ALL SELECT a.name, q.queue_id, q.name, q.parent, a.depth + 1"
    " FROM queues q JOIN above a ON q.name = a.parent WHERE NOT q.deleted AND a.depth < %s"
    " AND NOT EXISTS (SELECT FROM queue_policies p WHERE p.queue_id = a.queue_id))"
    " SELECT a.name, p.document, a.at FROM above a JOIN queue_policies p ON p.queue_id = a.queue_id"
)


class QueuePolicyCalls:
    """What an API replica does with policies of queues."""

    def __init__(self, connections: Connections) -> None:
        """Keep the connections."""
        self._connections = connections

    def set_queue_policy(self, name: str, document: str) -> None:
        """Give a queue a policy, instead of the one that it has; an empty document takes it away.

        Raises:
            NotFound: There is no such queue.
            BackendUnavailable: Postgres cannot be reached.
        """
        with self._connections.read() as connection, connection.transaction_block():
            row = connection.execute(_LOCK, [name]).fetchone()
            if row is None:
                raise NotFound(f"there is no queue {name}", resource=Resource(kind="Queue", name=name))
            if document:
                connection.execute(_SET, [row[0], document])
            else:
                connection.execute("DELETE FROM queue_policies WHERE queue_id = %s", [row[0]])
            note_changes(connection, [("Queue", name, f"policy {document or 'of the installation'}")])

    def queue_policies(self, names: Sequence[str]) -> dict[str, tuple[str, str]]:
        """Return the documents that hold for some queues and whose they are, by name.

        It is the queue's own, else that of the nearest queue above it that has one; others are left out.

        Raises:
            BackendUnavailable: Postgres cannot be reached.
        """
        with self._connections.submits() as connection:
            rows = connection.execute(_FIND, [list(names), MAX_DEPTH])
            return {name: (document, owner) for name, document, owner in rows}

"""Queues below queues: what is refused, so that they are trees of one pool.

Source: 003 "Fair share", at each level of a tree of queues.
"""

from __future__ import annotations

from typing import Final

from argosy_core.errors import NotAllowedNow, Resource
from argosy_store.postgres.connection import StoreConnection

__all__ = ["MAX_DEPTH", "check_parent", "refuse_parent_of"]

MAX_DEPTH: Final = 8
"""Levels of queues; the leader orders each of them in every round."""
_LOCK: Final = "SELECT pg_advisory_xact_lock(hashtext('argosy queue trees'))"
_ABOVE: Final = (
    "WITH RECURSIVE above (name, pool, parent, depth) AS ("
    " SELECT name, pool, parent, 1 FROM queues WHERE name = %s AND NOT deleted"
    " UNION ALL SELECT q.name, q.pool, q.parent, a.depth + 1 FROM queues q JOIN above a ON q.name = a.parent"
    " WHERE NOT q.deleted AND a.depth < %s) SELECT name, pool FROM above ORDER BY depth"
)
_LEVELS_BELOW: Final = (
    "WITH RECURSIVE below (name, depth) AS ("
    " SELECT name, 1 FROM queues WHERE parent = %s AND NOT deleted"
    " UNION ALL SELECT q.name, b.depth + 1 FROM queues q JOIN below b ON q.parent = b.name"
    " WHERE NOT q.deleted AND b.depth < %s) SELECT coalesce(max(depth), 0) FROM below"
)
_CHILD: Final = "SELECT name FROM queues WHERE parent = %s AND NOT deleted ORDER BY name LIMIT 1"


def check_parent(connection: StoreConnection, name: str, *, parent: str, pool: str) -> None:
    """Do nothing if a queue may stand below another; until the transaction ends no other queue moves.

    Args:
        connection: In a transaction.
        name: The queue, which need not be there yet.
        parent: What it shall stand below.
        pool: Its pool.

    Raises:
        NotAllowedNow: There is no such parent, it is of another pool, stands below the queue itself, or too deep.
    """
    connection.execute(_LOCK)
    above = [(row[0], row[1]) for row in connection.execute(_ABOVE, [parent, MAX_DEPTH + 1])]
    if not above:
        raise NotAllowedNow(f"there is no queue {parent} for {name} to stand below", resource=_resource(parent))
    if name in {one for one, _ in above}:
        path = " below ".join([name, *(one for one, _ in above)])
        text = f"a queue cannot stand below itself: {path}"
        raise NotAllowedNow(text, reason="QUEUE_CYCLE", resource=_resource(name))
    if above[0][1] != pool:
        raise NotAllowedNow(
            f"queue {parent} is of pool {above[0][1]}, and {name} of pool {pool}; a tree of queues is of one pool",
            resource=_resource(parent),
        )
    below = connection.execute(_LEVELS_BELOW, [name, MAX_DEPTH + 1]).fetchone()
    levels = len(above) + 1 + (below[0] if below else 0)
    if levels > MAX_DEPTH:
        raise NotAllowedNow(
            f"with {name} below {parent} queues would stand in {levels} levels, but at most {MAX_DEPTH} are allowed",
            resource=_resource(name),
        )


def refuse_parent_of(connection: StoreConnection, name: str, *, to: str) -> None:
    """Do nothing if no queue stands below one; until the transaction ends none comes to.

    Args:
        connection: In a transaction.
        name: The queue.
        to: What it cannot do else, for people.

    Raises:
        NotAllowedNow: One does.
    """
    connection.execute(_LOCK)
    child = connection.execute(_CHILD, [name]).fetchone()
    if child is not None:
        raise NotAllowedNow(
            f"queue {child[0]} stands below queue {name}, so that cannot {to}; move or delete what is below it first",
            reason="QUEUE_HAS_QUEUES_BELOW",
            resource=_resource(name),
        )


def _resource(name: str) -> Resource:
    return Resource(kind="Queue", name=name)

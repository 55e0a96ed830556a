"""Clusters and pools as the API sees them.

Source: design section 3, ClusterService; section 5, "Executor lost".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from argosy_core.errors import NotAllowedNow, NotFound, Resource
from argosy_store.changes import tell
from argosy_store.postgres.connection import StoreConnection
from argosy_store.postgres.pool import Connections
from argosy_store.replicas.audit import note_changes
from argosy_store.rows import CLUSTER_COLUMNS, ClusterRow

__all__ = ["ClusterCalls", "EncodeClusters", "put_max_capacity"]

EncodeClusters = Callable[[Sequence[str]], bytes]
"""Makes the payload of a `changes` row out of the names of clusters that changed."""
_PUT_BOUND: Final = (
    "INSERT INTO cluster_bounds (cluster, max_capacity) VALUES (%s, %s)"
    " ON CONFLICT (cluster) DO UPDATE SET max_capacity = excluded.max_capacity"
)
_HELD: Final = "SELECT FROM cluster_pools WHERE cluster = %s AND held_until_us > argosy_now_us() LIMIT 1"


def put_max_capacity(connection: StoreConnection, cluster: str, amounts: Sequence[str]) -> None:
    """Set in the present transaction what a cluster has at most, `resource=amount` each; nothing for no bound."""
    if amounts:
        connection.execute(_PUT_BOUND, [cluster, sorted(amounts)])
    else:
        connection.execute("DELETE FROM cluster_bounds WHERE cluster = %s", [cluster])


class ClusterCalls:
    """What an API replica does with clusters."""

    def __init__(self, connections: Connections) -> None:
        """Keep the connections."""
        self._connections = connections

    def pool_leader(self, pool: str) -> tuple[str, int] | None:
        """Return (address, epoch) of the leader whose lease holds, None if there is none.

        Raises:
            BackendUnavailable: Postgres cannot be reached.
        """
        with self._connections.read() as connection:
            row = connection.execute(
                "SELECT address, epoch FROM pools"
                " WHERE pool = %s AND leader_id <> '' AND expire_time > clock_timestamp()",
                [pool],
            ).fetchone()
        return None if row is None else (row[0], row[1])

    def list_pools(self) -> list[str]:
        """Return the names of the pools that were ever led, in order.

        Raises:
            BackendUnavailable: Postgres cannot be reached.
        """
        with self._connections.read() as connection:
            return [name for (name,) in connection.execute("SELECT pool FROM pools ORDER BY pool")]

    def list_clusters(self, after_name: str = "", limit: int = 100) -> list[ClusterRow]:
        """Return clusters that are not forgotten in order of their names, those after a name.

        Raises:
            BackendUnavailable: Postgres cannot be reached.
        """
        statement = f"SELECT {CLUSTER_COLUMNS} FROM clusters WHERE NOT forgotten AND name > %s ORDER BY name LIMIT %s"
        with self._connections.read() as connection:
            return [ClusterRow.of(row) for row in connection.execute(statement, [after_name, limit])]

    def get_cluster(self, name: str) -> ClusterRow:
        """Return a cluster that is not forgotten.

        Raises:
            NotFound: There is none by that name.
            BackendUnavailable: Postgres cannot be reached.
        """
        statement = f"SELECT {CLUSTER_COLUMNS} FROM clusters WHERE NOT forgotten AND name = %s"
        with self._connections.read() as connection:
            row = connection.execute(statement, [name]).fetchone()
        if row is None:
            raise NotFound(f"there is no cluster {name}", resource=Resource(kind="Cluster", name=name))
        return ClusterRow.of(row)

    def set_cluster_cordon(self, name: str, *, cordoned: bool, reason: str, encode: EncodeClusters) -> ClusterRow:
        """Cordon or uncordon a cluster.

        Raises:
            NotFound: There is none by that name.
            BackendUnavailable: Postgres cannot be reached.
        """
        return self._change(
            name,
            "cordoned = %s, cordon_reason = %s",
            [cordoned, reason if cordoned else ""],
            encode=encode,
            detail=reason,
        )

    def set_node_cordon(
        self, name: str, node: str, *, cordoned: bool, encode: EncodeClusters, reason: str = ""
    ) -> ClusterRow:
        """Cordon or uncordon a node of a cluster.

        Raises:
            NotFound: There is no cluster by that name.
            BackendUnavailable: Postgres cannot be reached.
        """
        without = "array_remove(cordoned_nodes, %s)"
        change = f"cordoned_nodes = {f'array_append({without}, %s)' if cordoned else without}"
        change += ", node_cordon_reasons = node_cordon_reasons - %s"
        values = [node, node, node] if cordoned else [node, node]
        if cordoned and reason:
            change += " || jsonb_build_object(%s::text, %s::text)"
            values += [node, reason]
        return self._change(name, change, values, encode=encode, detail=f"node {node} {reason}".rstrip())

    def set_max_capacity(self, name: str, amounts: Sequence[str], *, encode: EncodeClusters) -> ClusterRow:
        """Set what a cluster has at most, `resource=amount` each; nothing for no bound.

        Raises:
            NotFound: There is none by that name.
            BackendUnavailable: Postgres cannot be reached.
        """
        return self._change(
            name,
            "cordoned = cordoned",
            [],
            encode=encode,
            detail=f"max capacity {' '.join(amounts) or 'none'}",
            before=lambda connection: put_max_capacity(connection, name, amounts),
        )

    def set_delegated(self, name: str, *, delegated: bool | None, encode: EncodeClusters) -> ClusterRow:
        """Have a cluster place by itself from now on, or not, whatever it asks for itself.

        Args:
            name: Which.
            delegated: Whether; None to take back what was said so: what the cluster asks for counts from the next hello
                of its sampler on.
            encode: Encodes the change.

        Raises:
            NotFound: There is none by that name.
            BackendUnavailable: Postgres cannot be reached.
        """
        if delegated is None:
            return self._change(name, "delegated_by_operator = false", [], encode=encode, detail="as installed")
        detail = "delegated" if delegated else "not delegated"
        change = "delegated = %s, delegated_by_operator = true"
        return self._change(name, change, [delegated], encode=encode, detail=detail)

    def forget_cluster(self, name: str, *, encode: EncodeClusters) -> ClusterRow:
        """Declare a cluster gone for good; the leaders of its pools then take its runs for lost.

        Raises:
            NotFound: There is none by that name.
            NotAllowedNow: One of its services is heard, or was lately.
            BackendUnavailable: Postgres cannot be reached.
        """
        return self._change(name, "forgotten = true", [], encode=encode, unless_held=True)

    def _change(
        self,
        name: str,
        assignments: str,
        values: Sequence[Any],
        *,
        encode: EncodeClusters,
        unless_held: bool = False,
        detail: str = "",
        before: Callable[[StoreConnection], None] = lambda _: None,
    ) -> ClusterRow:
        """Change a cluster and tell the leaders of its pools."""
        statement = f"UPDATE clusters SET {assignments} WHERE name = %s AND NOT forgotten RETURNING {CLUSTER_COLUMNS}"
        with self._connections.read() as connection, connection.transaction_block():
            before(connection)
            row = connection.execute(statement, [*values, name]).fetchone()
            if row is None:
                raise NotFound(f"there is no cluster {name}", resource=Resource(kind="Cluster", name=name))
            cluster = ClusterRow.of(row)
            # Asked after the update, which holds the lock that binding takes: nobody comes in between.
            if unless_held and connection.execute(_HELD, [name]).fetchone() is not None:
                raise NotAllowedNow(
                    f"cluster {name!r} is connected; stop its executor and sampler first, so that its pods cannot go on"
                    " while their jobs run elsewhere; one that was killed counts as connected for some seconds",
                    reason="CLUSTER_CONNECTED",
                    resource=Resource(kind="Cluster", name=name),
                )
            tell(connection, cluster.pools, encode([cluster.name]))
            note_changes(connection, [("Cluster", name, detail)])
            return cluster

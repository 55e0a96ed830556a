"""Who speaks for a cluster: one process for each role, to the leaders of all its pools.

A process is known by 16 random bytes, and each one that is let in gets a number, its incarnation, from the database, so
that no clock of a cluster's machine decides anything. Whoever holds a session keeps it while it is heard; leaders store
until when that is, by the database's clock. Another process is told who holds it.

Source: design section 5, "Fencing executors"; section 7, invariant 9.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from argosy_core.errors import NotAllowedNow, QuotaExceeded, StateConflict
from argosy_store.postgres.connection import StoreConnection
from argosy_store.replicas.audit import note_claim
from argosy_store.rows import CLUSTER_COLUMNS, ClusterRow

__all__ = ["ADD_CLUSTER", "MAX_CLUSTERS", "Binding", "Caller", "bind"]

MAX_CLUSTERS: Final = 1000
"""Clusters that are not forgotten: what a leader holds grows with them, and anybody may dial with a new name."""
ADD_CLUSTER: Final = (
    "INSERT INTO clusters (name, uid) SELECT %s, %s WHERE (SELECT count(*) FROM clusters WHERE NOT forgotten) < %s"
    " ON CONFLICT DO NOTHING"
)
"""Adds a cluster unless it is known, or there are too many: name, uid, `MAX_CLUSTERS`."""
_HOLDERS: Final = (
    "SELECT pool, process, host, incarnation, held_until_us - argosy_now_us() FROM cluster_pools"
    " WHERE cluster = %(cluster)s AND role = %(role)s ORDER BY pool FOR UPDATE"
)
_FORGET: Final = (
    "UPDATE cluster_pools SET process = '00000000-0000-0000-0000-000000000000', host = '', heard_time_us = 0,"
    " held_until_us = 0 WHERE cluster = %s"
)
_DELEGATE: Final = (
    "UPDATE clusters SET delegated = %(delegated)s WHERE name = %(name)s AND NOT delegated_by_operator"
    " AND delegated <> %(delegated)s RETURNING name"
)
_HOLD: Final = """
INSERT INTO cluster_pools AS t (cluster, pool, role, process, host, incarnation, heard_time_us, held_until_us)
VALUES (%(cluster)s, %(pool)s, %(role)s, %(process)s, %(host)s, 1, argosy_now_us(), argosy_now_us() + %(keep_us)s)
ON CONFLICT (cluster, pool, role) DO UPDATE SET process = excluded.process, host = excluded.host,
    incarnation = t.incarnation + CASE WHEN t.process = excluded.process THEN 0 ELSE 1 END,
    heard_time_us = greatest(t.heard_time_us, excluded.heard_time_us), held_until_us = excluded.held_until_us
RETURNING incarnation
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who wants to speak for a cluster."""

    cluster: str
    """Name of the cluster."""
    pool: str
    """Pool whose leader is spoken to."""
    role: str
    """`executor` or `sampler`."""
    process: bytes
    """Which process: 16 random bytes."""
    host: str = ""
    """Where it runs, for people."""
    delegated: bool | None = None
    """Whether the cluster asks to choose nodes itself; None where it has not said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """A process that may speak for a cluster."""

    cluster: ClusterRow
    """The cluster."""
    incarnation: int
    """Number of the process in its pool, from 1; the same for as long as nobody else is let in."""
    is_first: bool
    """No other process was ever let in for its role, in any pool."""


def bind(connection: StoreConnection, caller: Caller, *, uid: str, keep_s: float) -> Binding:
    """Bind a cluster's name to its uid, and its part in a pool to a process, in the present transaction.

    A forgotten cluster's name may be bound anew, to whatever uid. Whether it asks to be delegated holds unless an
    operator has said something about that since the name was bound.

    Args:
        connection: Within a transaction.
        caller: Who.
        uid: Uid of its cluster.
        keep_s: For how long it keeps its session without being heard.

    Raises:
        StateConflict: Another process holds a session of this role, with this pool's leader or another's.
        NotAllowedNow: The name belongs to another uid.
        QuotaExceeded: There are too many clusters for one more.
    """
    name = caller.cluster
    connection.execute(ADD_CLUSTER, [name, uid, MAX_CLUSTERS])
    # The lock lets the leaders of all pools of a cluster bind one after another.
    row = connection.execute("SELECT uid, forgotten FROM clusters WHERE name = %s FOR UPDATE", [name]).fetchone()
    if row is None:
        raise QuotaExceeded(
            f"cluster {name} is not known, and there are {MAX_CLUSTERS} already, which is all that leaders count;"
            " forget one that is gone with `argosy cluster forget`"
        )
    known_uid, forgotten = row
    if forgotten:
        connection.execute(
            "UPDATE clusters SET uid = %s, forgotten = false, delegated_by_operator = false WHERE name = %s",
            [uid, name],
        )
        # Numbers go on: leaders may remember what nodes meant under the last ones.
        connection.execute(_FORGET, [name])
    elif known_uid != uid:
        raise NotAllowedNow(
            f"the name {name} is bound to another cluster, by the uid of its namespace kube-system; call this one"
            " otherwise, or forget the other with `argosy cluster forget`"
        )
    values: dict[str, Any] = {
        "cluster": name,
        "pool": caller.pool,
        "role": caller.role,
        "process": UUID(bytes=caller.process),
        "host": caller.host,
        "keep_us": round(keep_s * 1e6),
    }
    others = 0
    for pool, process, host, incarnation, held_us in connection.execute(_HOLDERS, values).fetchall():
        is_mine = process == values["process"]
        others += not (is_mine and incarnation == 1)
        if not is_mine and held_us > 0:
            raise StateConflict(
                f"the {caller.role} of cluster {name} is process {str(process)[:8]} on host {host or '(not told)'};"
                f" pool {pool} hears it, so process {str(values['process'])[:8]} has to wait"
            )
    number = connection.execute(_HOLD, values).fetchone()
    assert number is not None
    if caller.delegated is not None:
        _take_wish(connection, name, delegated=caller.delegated)
    cluster = connection.execute(f"SELECT {CLUSTER_COLUMNS} FROM clusters WHERE name = %s", [name]).fetchone()
    assert cluster is not None
    return Binding(cluster=ClusterRow.of(cluster), incarnation=number[0], is_first=forgotten or not others)


def _take_wish(connection: StoreConnection, name: str, *, delegated: bool) -> None:
    """Have a cluster choose nodes by itself, or not, as its sampler asks, unless an operator has said so."""
    if connection.execute(_DELEGATE, {"delegated": delegated, "name": name}).fetchone() is not None:
        note_claim(connection, name, "delegated" if delegated else "not delegated")

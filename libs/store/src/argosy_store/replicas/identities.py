"""Which certificates speak for a cluster, and who is invited to get one.

A cluster with a row in `cluster_identities` was invited or revoked once: from then on only the certificates that it
fetched speak for it, and no token or certificate that somebody made otherwise. Tokens of invitations are kept as
hashes.

Source: design section 5, "Who is who".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from argosy_core.errors import NotAllowedNow, NotAuthenticated, NotPermitted, QuotaExceeded
from argosy_store.binding import ADD_CLUSTER, MAX_CLUSTERS
from argosy_store.postgres.connection import StoreConnection
from argosy_store.postgres.pool import Connections
from argosy_store.replicas.audit import note_changes
from argosy_store.replicas.clusters import put_max_capacity

__all__ = ["Certificate", "IdentityCalls"]

_MAX_COUNT: Final = 20  # invitations, and certificates, of one cluster: three processes, each renewed now and then
_MANAGE: Final = "INSERT INTO cluster_identities (cluster) VALUES (%s) ON CONFLICT DO NOTHING"
_LOCK: Final = "SELECT uid FROM cluster_identities WHERE cluster = %s FOR UPDATE"
_INVITE: Final = (
    "INSERT INTO cluster_invitations (token_hash, cluster, expire_time_us)"
    " VALUES (%s, %s, argosy_now_us() + %s) RETURNING expire_time_us"
)
_INVITED: Final = "SELECT cluster FROM cluster_invitations WHERE token_hash = %s AND expire_time_us > argosy_now_us()"
_USE: Final = (
    "UPDATE cluster_invitations SET used_keys = jsonb_build_object(%(part)s::text, %(key)s::text) || used_keys"
    " WHERE token_hash = %(token)s AND cluster = %(cluster)s AND expire_time_us > argosy_now_us()"
    " RETURNING used_keys ->> %(part)s"
)
_ADD: Final = "INSERT INTO cluster_certificates (fingerprint, cluster, part, expire_time_us) VALUES (%s, %s, %s, %s)"
_COUNTED: Final = (
    "SELECT ARRAY(SELECT c.fingerprint FROM cluster_certificates c WHERE c.cluster = i.cluster"
    " AND c.expire_time_us > argosy_now_us()) FROM cluster_identities i WHERE i.cluster = %s"
)
_TABLES: Final = ("cluster_invitations", "cluster_certificates")


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """A certificate for a process of a cluster."""

    cluster: str
    """Name of the cluster."""
    part: str
    """Which process."""
    fingerprint: str
    """SHA-256, small hexadecimal digits."""
    key_hash: str
    """SHA-256 of the public key."""
    expire_time_us: int
    """When it ends, microseconds since the Unix epoch."""


class IdentityCalls:
    """What an API replica does with the identities of clusters."""

    def __init__(self, connections: Connections) -> None:
        """Keep the connections."""
        self._connections = connections

    def invite_cluster(
        self, cluster: str, token_hash: str, *, lifetime_s: float, max_capacity: Sequence[str] = ()
    ) -> int:
        """Add an invitation and return when it ends, microseconds since the Unix epoch.

        Args:
            cluster: Name, which need not be known yet.
            token_hash: SHA-256 of the token.
            lifetime_s: How long the invitation is good for.
            max_capacity: What the cluster has at most, `resource=amount` each; nothing to leave it as it is.

        Raises:
            QuotaExceeded: The cluster has as many as it may have.
            BackendUnavailable: Postgres cannot be reached.
        """
        with self._connections.read() as connection, connection.transaction_block():
            connection.execute(_MANAGE, [cluster])
            connection.execute(_LOCK, [cluster])
            _require_room(connection, "cluster_invitations", cluster)
            row = connection.execute(_INVITE, [token_hash, cluster, round(lifetime_s * 1e6)]).fetchone()
            if max_capacity:
                put_max_capacity(connection, cluster, max_capacity)
            said = f"invitation, max capacity {' '.join(sorted(max_capacity))}" if max_capacity else "invitation"
            note_changes(connection, [("Cluster", cluster, said)])
        assert row is not None
        return int(row[0])

    def invited_cluster(self, token_hash: str) -> str:
        """Return which cluster a token invites; empty if none, or no more.

        Raises:
            BackendUnavailable: Postgres cannot be reached.
        """
        with self._connections.submits() as connection:
            row = connection.execute(_INVITED, [token_hash]).fetchone()
        return "" if row is None else str(row[0])

    def add_certificate(self, certificate: Certificate, *, cluster_uid: str, invitation: str, renewed: str) -> None:
        """Let a certificate speak for its cluster, whose name is bound to a uid by its first.

        An invitation is good for one key of each part, so that a process whose answer was lost may ask again.

        Args:
            certificate: The certificate.
            cluster_uid: What its process says the cluster's uid is.
            invitation: Hash of the token that it was asked for with; empty for a renewal.
            renewed: Fingerprint of the certificate that it was asked for with, unless invited.

        Raises:
            NotAuthenticated: The invitation has ended, or the certificate counts no more.
            NotPermitted: Another process has used the invitation, or the certificate is of another part.
            NotAllowedNow: The name is bound to another cluster.
            QuotaExceeded: There are too many clusters, or too many certificates of this one.
            BackendUnavailable: Postgres cannot be reached.
        """
        name, part = certificate.cluster, certificate.part
        with self._connections.read() as connection, connection.transaction_block():
            row = connection.execute(_LOCK, [name]).fetchone()
            if row is None:
                raise NotAuthenticated(f"cluster {name} was never invited; ask an administrator for an invitation")
            if invitation:
                values = {"part": part, "key": certificate.key_hash, "token": invitation, "cluster": name}
                used = connection.execute(_USE, values).fetchone()
                if used is None:
                    raise NotAuthenticated("the invitation has ended; ask an administrator for another")
                if used[0] != certificate.key_hash:
                    raise NotPermitted(f"the invitation was used by another {part}; ask an administrator for another")
            else:
                _require_part(connection, name, part, renewed)
            if row[0] not in {"", cluster_uid}:
                raise NotAllowedNow(
                    f"the name {name} is bound to another cluster, by the uid of its namespace kube-system; join under"
                    " another name, or revoke that one with `argosy cluster revoke`"
                )
            connection.execute("UPDATE cluster_identities SET uid = %s WHERE cluster = %s", [cluster_uid, name])
            _bind(connection, name, cluster_uid)
            _require_room(connection, "cluster_certificates", name)
            connection.execute(_ADD, [certificate.fingerprint, name, part, certificate.expire_time_us])
            note_changes(connection, [("Cluster", name, f"certificate of its {part}")])

    def counted_certificates(self, cluster: str) -> frozenset[str] | None:
        """Return the fingerprints that speak for a cluster; None for one that was never invited or revoked.

        Raises:
            BackendUnavailable: Postgres cannot be reached.
        """
        with self._connections.submits() as connection:
            row = connection.execute(_COUNTED, [cluster]).fetchone()
        return None if row is None else frozenset(row[0])

    def revoke_cluster(self, cluster: str) -> None:
        """End what speaks for a cluster, and its invitations; its uid is free.

        Raises:
            BackendUnavailable: Postgres cannot be reached.
        """
        with self._connections.read() as connection, connection.transaction_block():
            connection.execute(_MANAGE, [cluster])
            connection.execute("UPDATE cluster_identities SET uid = '' WHERE cluster = %s", [cluster])
            for table in _TABLES:
                connection.execute(f"DELETE FROM {table} WHERE cluster = %s", [cluster])
            note_changes(connection, [("Cluster", cluster, "revoked")])


def _require_part(connection: StoreConnection, cluster: str, part: str, fingerprint: str) -> None:
    row = connection.execute(
        "SELECT part FROM cluster_certificates WHERE fingerprint = %s AND cluster = %s AND expire_time_us >"
        " argosy_now_us()",
        [fingerprint, cluster],
    ).fetchone()
    if row is None:
        raise NotAuthenticated("the certificate was not fetched with an invitation, or has ended, or was revoked")
    if row[0] != part:
        raise NotPermitted(f"the certificate is of the cluster's {row[0]}, and cannot be renewed as of its {part}")


def _require_room(connection: StoreConnection, table: str, cluster: str) -> None:
    """Forget what has ended, and refuse one more than there may be."""
    connection.execute(f"DELETE FROM {table} WHERE cluster = %s AND expire_time_us <= argosy_now_us()", [cluster])
    count = connection.execute(f"SELECT count(*) FROM {table} WHERE cluster = %s", [cluster]).fetchone()
    if count is not None and count[0] >= _MAX_COUNT:
        raise QuotaExceeded(f"cluster {cluster} has {count[0]} of {table.rpartition('_')[2]}, which is all it may have")


def _bind(connection: StoreConnection, name: str, uid: str) -> None:
    """Make the cluster's row, or hold it against the uid."""
    connection.execute(ADD_CLUSTER, [name, uid, MAX_CLUSTERS])
    row = connection.execute("SELECT uid, forgotten FROM clusters WHERE name = %s", [name]).fetchone()
    if row is None:
        raise QuotaExceeded(f"there are {MAX_CLUSTERS} clusters already; forget one with `argosy cluster forget`")
    if row[0] != uid and not row[1]:
        raise NotAllowedNow(
            f"the name {name} is bound to another cluster, by the uid of its namespace kube-system; join under another"
            " name, or forget that one with `argosy cluster forget`"
        )

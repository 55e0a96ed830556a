"""Clusters: what was decided about each, who speaks for it, and by what it proves that."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, UUID

from argosy_store.schema.tables.base import EMPTY, FALSE, ZERO, metadata

__all__ = [
    "cluster_bounds",
    "cluster_certificates",
    "cluster_identities",
    "cluster_invitations",
    "cluster_pools",
    "clusters",
]

clusters: Final = sa.Table(
    "clusters",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("uid", sa.Text, nullable=False, server_default=EMPTY),
    sa.Column("cordoned", sa.Boolean, nullable=False, server_default=FALSE),
    sa.Column("cordon_reason", sa.Text, nullable=False, server_default=EMPTY),
    sa.Column("cordoned_nodes", ARRAY(sa.Text), nullable=False, server_default=sa.text("'{}'")),
    sa.Column("forgotten", sa.Boolean, nullable=False, server_default=FALSE),
    sa.Column("node_cordon_reasons", JSONB, nullable=False, server_default=sa.text("'{}'")),
    sa.Column("delegated", sa.Boolean, nullable=False, server_default=FALSE),
    sa.Column("delegated_by_operator", sa.Boolean, nullable=False, server_default=FALSE),
)
"""A cluster, the uid its name is bound to, and what an administrator decided about it."""

cluster_bounds: Final = sa.Table(
    "cluster_bounds",
    metadata,
    sa.Column("cluster", sa.Text, primary_key=True),
    sa.Column("max_capacity", ARRAY(sa.Text), nullable=False),
)
"""What a cluster, which need not be known yet, has at most by an administrator's word: `resource=amount`."""

cluster_pools: Final = sa.Table(
    "cluster_pools",
    metadata,
    sa.Column("cluster", sa.Text, primary_key=True),
    sa.Column("pool", sa.Text, primary_key=True),
    sa.Column("role", sa.Text, primary_key=True),
    sa.Column("process", UUID, nullable=False),
    sa.Column("host", sa.Text, nullable=False, server_default=EMPTY),
    sa.Column("incarnation", sa.BigInteger, nullable=False),
    sa.Column("heard_time_us", sa.BigInteger, nullable=False, server_default=ZERO),
    sa.Column("held_until_us", sa.BigInteger, nullable=False, server_default=ZERO),
    sa.CheckConstraint("role IN ('executor', 'sampler')", name="cluster_pools_role_check"),
)
"""Which process speaks for a cluster to a pool's leader, as `executor` or `sampler`: its incarnation, when it was heard
last and until when it keeps its session, by the clock of the database."""

cluster_identities: Final = sa.Table(
    "cluster_identities",
    metadata,
    sa.Column("cluster", sa.Text, primary_key=True),
    sa.Column("uid", sa.Text, nullable=False, server_default=EMPTY),
)
"""A cluster that was invited or revoked: only certificates that it fetched speak for it. `uid` is empty before."""

cluster_invitations: Final = sa.Table(
    "cluster_invitations",
    metadata,
    sa.Column("token_hash", sa.Text, primary_key=True),
    sa.Column("cluster", sa.Text, nullable=False),
    sa.Column("expire_time_us", sa.BigInteger, nullable=False),
    sa.Column("used_keys", JSONB, nullable=False, server_default=sa.text("'{}'")),
)
"""A token that each process of a cluster may use once; `used_keys` has the hash of each one's public key."""

cluster_certificates: Final = sa.Table(
    "cluster_certificates",
    metadata,
    sa.Column("fingerprint", sa.Text, primary_key=True),
    sa.Column("cluster", sa.Text, nullable=False),
    sa.Column("part", sa.Text, nullable=False),
    sa.Column("expire_time_us", sa.BigInteger, nullable=False),
    sa.Index("cluster_certificates_of_cluster", "cluster"),
)
"""A certificate that speaks for a cluster."""

"""Which certificates speak for a cluster, and who is invited to get one."""

from __future__ import annotations

from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the tables; nobody is invited, so every cluster is known as before."""
    op.execute("CREATE TABLE cluster_identities (cluster text PRIMARY KEY, uid text NOT NULL DEFAULT '')")
    op.execute(
        "CREATE TABLE cluster_invitations (token_hash text PRIMARY KEY, cluster text NOT NULL,"
        " expire_time_us bigint NOT NULL, used_keys jsonb NOT NULL DEFAULT '{}')"
    )
    op.execute(
        "CREATE TABLE cluster_certificates (fingerprint text PRIMARY KEY, cluster text NOT NULL, part text NOT NULL,"
        " expire_time_us bigint NOT NULL)"
    )
    op.execute("CREATE INDEX cluster_certificates_of_cluster ON cluster_certificates (cluster)")

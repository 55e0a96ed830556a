"""Settings of pools that change while they are led."""

from __future__ import annotations

from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table."""
    op.execute(
        "CREATE TABLE pool_settings (pool text NOT NULL, version bigint NOT NULL, settings jsonb NOT NULL,"
        " create_time_us bigint NOT NULL DEFAULT argosy_now_us(), principal text NOT NULL, comment text NOT NULL,"
        " PRIMARY KEY (pool, version))"
    )

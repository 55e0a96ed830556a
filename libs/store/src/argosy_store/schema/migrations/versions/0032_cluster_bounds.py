"""What clusters may have at most."""

from __future__ import annotations

from alembic import op

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table; nobody has set a bound for any cluster."""
    op.execute("CREATE TABLE cluster_bounds (cluster text PRIMARY KEY, max_capacity text[] NOT NULL)")

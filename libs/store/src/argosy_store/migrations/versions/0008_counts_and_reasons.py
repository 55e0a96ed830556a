"""How many jobs of which queues a row of `changes` brings, so that queues stay bounded while no leader counts them."""

from __future__ import annotations

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns; no row is rewritten, and rows without them bring no jobs."""
    op.execute("ALTER TABLE changes ADD COLUMN queue_ids integer[], ADD COLUMN job_counts bigint[]")

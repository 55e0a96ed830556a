"""How many jobs of which queues a row of `changes` brings, and why nodes are cordoned.

The former bounds queues while no leader counts their jobs.
"""

from __future__ import annotations

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns; no row is rewritten, and changes without them bring no jobs."""
    op.execute("ALTER TABLE changes ADD COLUMN queue_ids integer[], ADD COLUMN job_counts bigint[]")
    op.execute("ALTER TABLE clusters ADD COLUMN node_cordon_reasons jsonb NOT NULL DEFAULT '{}'")

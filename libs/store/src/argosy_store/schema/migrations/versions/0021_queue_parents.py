"""Queues below queues."""

from __future__ import annotations

from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; no row is rewritten, and the queues that there are stand side by side."""
    op.execute("ALTER TABLE queues ADD COLUMN parent text NOT NULL DEFAULT ''")

"""Limits of what a queue holds at once."""

from __future__ import annotations

from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns; no row is rewritten, and the queues that there are have no such limits."""
    op.execute(
        "ALTER TABLE queues ADD COLUMN max_running_count bigint NOT NULL DEFAULT 0,"
        " ADD COLUMN max_running_amounts text[] NOT NULL DEFAULT '{}'"
    )

"""Runs that somebody asks to preempt."""

from __future__ import annotations

from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; no row is rewritten, and nothing is asked for."""
    op.execute("ALTER TABLE jobs ADD COLUMN preempt_attempt integer")

"""Since when a pool's leader cannot publish to the event log, and why, so that whoever looks is told."""

from __future__ import annotations

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns; no row is rewritten."""
    op.execute(
        "ALTER TABLE pools ADD COLUMN log_failure_time timestamptz, ADD COLUMN log_failure text NOT NULL DEFAULT ''"
    )

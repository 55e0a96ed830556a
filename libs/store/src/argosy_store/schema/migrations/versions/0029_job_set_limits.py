"""How many jobs of a job set run at once."""

from __future__ import annotations

from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; no row is rewritten, and the jobs that there are have no such limit."""
    op.execute("ALTER TABLE jobs ADD COLUMN job_set_limit integer")

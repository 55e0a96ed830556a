"""Jobs that run after others."""

from __future__ import annotations

from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; no row is rewritten, and no job waits for others."""
    op.execute("ALTER TABLE jobs ADD COLUMN run_after bytea")

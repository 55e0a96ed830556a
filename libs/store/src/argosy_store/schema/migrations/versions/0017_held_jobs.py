"""Jobs that are held until somebody releases them."""

from __future__ import annotations

from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; no row is rewritten, and no job is held."""
    op.execute("ALTER TABLE jobs ADD COLUMN held integer")

"""What a member of a run holds where that is not what its class says: pods that were resized in place."""

from __future__ import annotations

from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; no row is rewritten, and every run holds what its class says."""
    op.execute("ALTER TABLE runs ADD COLUMN held_amounts jsonb")

"""What a run takes of its queue's excess flow budget."""

from __future__ import annotations

from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; no row is rewritten, and nothing is charged for the runs that there are."""
    op.execute("ALTER TABLE runs ADD COLUMN charge_core_s bigint")

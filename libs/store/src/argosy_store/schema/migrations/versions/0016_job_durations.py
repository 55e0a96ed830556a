"""How long jobs run by what their submitters say: lifetime, time limit and estimate."""

from __future__ import annotations

from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns; no row is rewritten, and of jobs without them nothing is said."""
    op.execute(
        "ALTER TABLE jobs ADD COLUMN lifetime_s integer, ADD COLUMN time_limit_s integer, ADD COLUMN estimate_s integer"
    )

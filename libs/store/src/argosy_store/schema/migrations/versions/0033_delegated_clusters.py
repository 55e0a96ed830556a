"""Which clusters place by themselves."""

from __future__ import annotations

from alembic import op

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; no row is rewritten, and no cluster that there is does so."""
    op.execute("ALTER TABLE clusters ADD COLUMN delegated boolean NOT NULL DEFAULT false")

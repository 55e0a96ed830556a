"""Whose word it is that a cluster chooses nodes by itself, or not."""

from __future__ import annotations

from alembic import op

revision = "0036"
down_revision = "0035"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; whoever is delegated already is so by an operator's word."""
    op.execute("ALTER TABLE clusters ADD COLUMN delegated_by_operator boolean NOT NULL DEFAULT false")
    op.execute("UPDATE clusters SET delegated_by_operator = true WHERE delegated")

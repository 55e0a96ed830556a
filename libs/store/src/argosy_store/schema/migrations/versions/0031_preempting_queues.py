"""Which queues have others' runs stopped that are not past their lifetimes."""

from __future__ import annotations

from alembic import op

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns; no row is rewritten, and no queue that there is may do so."""
    op.execute(
        "ALTER TABLE queues ADD COLUMN preempts_unexpired boolean NOT NULL DEFAULT false,"
        " ADD COLUMN preempts_endless boolean NOT NULL DEFAULT false"
    )

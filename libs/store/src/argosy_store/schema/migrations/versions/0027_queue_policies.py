"""What queues let their jobs' pods do."""

from __future__ import annotations

from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table; no queue has a policy of its own."""
    op.execute("CREATE TABLE queue_policies (queue_id integer PRIMARY KEY, document text NOT NULL)")

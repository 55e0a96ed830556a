"""How many jobs are submitted to a queue, and begin, in a second."""

from __future__ import annotations

from alembic import op

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns, which rewrites no row, and the table; the queues that there are have no such limits."""
    op.execute(
        "ALTER TABLE queues ADD COLUMN submit_rate_per_s double precision NOT NULL DEFAULT 0,"
        " ADD COLUMN lease_rate_per_s double precision NOT NULL DEFAULT 0"
    )
    op.execute("CREATE TABLE queue_rates (queue_id integer PRIMARY KEY, paid_time_us bigint NOT NULL)")

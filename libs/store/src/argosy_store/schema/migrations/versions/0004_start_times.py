"""Since when a live run runs, with its objects, so that the next leader knows it.

The row of a run changes once, at its end; a column there would cost each job an update more. Rows from before have
none.
"""

from __future__ import annotations

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column to the table and its partitions; no row is rewritten."""
    op.execute("ALTER TABLE objects ADD COLUMN start_time_us bigint")

"""The column of cancel requests says what it holds.

Binaries of older versions name the column that was renamed, so they do not work with this version: this upgrade needs
its one stop.
"""

from __future__ import annotations

from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Rename; no row is rewritten."""
    op.execute("ALTER TABLE jobs RENAME COLUMN wish TO cancel_requested")
    op.execute("UPDATE schema_support SET oldest_version = '0009'")

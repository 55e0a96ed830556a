"""What ended a leader term, so that the next one does not meet it again."""

from __future__ import annotations

from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

_CREATE = """
CREATE TABLE suspects (
    pool text NOT NULL,
    kind text NOT NULL,
    key text NOT NULL,
    epoch bigint NOT NULL,
    error text NOT NULL,
    create_time_us bigint NOT NULL,
    PRIMARY KEY (pool, kind, key)
)
"""


def upgrade() -> None:
    """Make the table; leaders of older versions do not look at it."""
    op.execute(_CREATE)

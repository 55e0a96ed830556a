"""Which sessions of samplers and executors leaders ended because of what was said there."""

from __future__ import annotations

from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

_CREATE = """
CREATE TABLE ended_sessions (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pool text NOT NULL,
    cluster text NOT NULL,
    role text NOT NULL,
    host text NOT NULL,
    reason text NOT NULL,
    end_time_us bigint NOT NULL
);
CREATE INDEX ended_sessions_of_cluster ON ended_sessions (pool, cluster, id);
"""


def upgrade() -> None:
    """Make the table; leaders of older versions do not write it."""
    op.execute(_CREATE)

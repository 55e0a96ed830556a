"""What of the audit the relay has still to publish."""

from __future__ import annotations

from alembic import op

revision = "0034"
down_revision = "0033"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table; what was noted before is not published."""
    op.execute(
        "CREATE TABLE audit_outbox ("
        " id bigint PRIMARY KEY REFERENCES audit_records ON DELETE CASCADE"
        ") WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000)"
    )

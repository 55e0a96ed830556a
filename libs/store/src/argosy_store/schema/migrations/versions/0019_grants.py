"""Who may do what: grants of verbs on queues and of roles to users and groups; and who submitted a job."""

from __future__ import annotations

from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table and the column; nothing is granted before somebody does, and of stored jobs it is not known."""
    op.execute("ALTER TABLE jobs ADD COLUMN submitter text")
    op.execute(
        "CREATE TABLE grants (subject text NOT NULL, queue text NOT NULL, verb text NOT NULL,"
        " PRIMARY KEY (subject, queue, verb))"
    )
    op.execute("CREATE INDEX grants_of_queue ON grants (queue)")

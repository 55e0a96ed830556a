"""A new database numbers its jobs from somewhere else than the one before it.

Objects on a cluster are named and labelled by the handles of their jobs. A database that is made anew beside clusters
that still hold objects of an earlier one would give the same handles on the same day, and its executors would take the
old pods for those of the new jobs. Beginning at a random number of 2^38 makes that as good as impossible; 8 * 10^11
numbers are left above it.
"""

from __future__ import annotations

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Move the numbers of a database that has given none yet."""
    op.execute(
        "UPDATE shared_state SET next_number = floor(random() * (1::bigint << 38))::bigint"
        " WHERE NOT EXISTS (SELECT FROM jobs)"
    )

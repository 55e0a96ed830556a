"""Runs and their objects stand by member: what of a run is placed on one node.

Runs of older versions have one member, of number 0; so have those that older binaries write, who work on with these
tables. Nobody has ever read or written what objects were desired to be, so the number of the member takes that column's
place, and rows stay as short as they were, on which it depends whether their updates are HOT. Objects are written anew,
and so are the indices: some minutes for ten million of them.
"""

from __future__ import annotations

from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

_STATEMENTS = """
ALTER TABLE runs ADD COLUMN member smallint NOT NULL DEFAULT 0;
ALTER TABLE runs DROP CONSTRAINT runs_pkey, ADD PRIMARY KEY (handle, attempt, member);
ALTER TABLE objects RENAME COLUMN desired TO member;
ALTER TABLE objects ALTER COLUMN member SET DEFAULT 0, ALTER COLUMN member TYPE smallint USING 0,
    DROP CONSTRAINT objects_pkey, ADD PRIMARY KEY (handle, attempt, member, object);
CREATE OR REPLACE VIEW object_rows AS
    SELECT j.job_id, r.cluster AS executor_id, (convert_from(s.body, 'UTF8')::jsonb) -> o.object::integer AS spec,
           o.name, o.state
    FROM objects o
    JOIN runs r ON r.handle = o.handle AND r.attempt = o.attempt AND r.member = o.member
    JOIN jobs j ON j.handle = o.handle
    JOIN job_specs s ON s.day = (j.handle >> 40)::integer AND s.hash = j.spec_hash;
"""


def upgrade() -> None:
    """Add the columns and put them into the keys."""
    op.get_bind().exec_driver_sql(_STATEMENTS)

"""Which pools a cluster serves, and which process speaks for it to each pool's leader.

Who speaks is known by a number that the database gives, so no clock of a cluster's machine decides it. Binaries of
older versions write the columns that went, so they do not work with this version.
"""

from __future__ import annotations

from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

# What was seen counts as one process that nobody is: it holds nothing, but it may have been there, so whoever comes
# next is not the first.
_STATEMENTS = """
CREATE TABLE cluster_pools (
    cluster text NOT NULL,
    pool text NOT NULL,
    role text NOT NULL CONSTRAINT cluster_pools_role_check CHECK (role IN ('executor', 'sampler')),
    process uuid NOT NULL,
    host text NOT NULL DEFAULT '',
    incarnation bigint NOT NULL,
    heard_time_us bigint NOT NULL DEFAULT 0,
    held_until_us bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (cluster, pool, role)
) WITH (fillfactor = 50);
INSERT INTO cluster_pools (cluster, pool, role, process, incarnation, heard_time_us)
    SELECT c.name, c.pool, r.role, '00000000-0000-0000-0000-000000000000', 1,
        CASE r.role WHEN 'executor' THEN c.contact_time_us ELSE 0 END
    FROM clusters c CROSS JOIN LATERAL (
        VALUES ('executor', c.executor_incarnation), ('sampler', c.sampler_incarnation)) AS r (role, seen)
    WHERE NOT c.forgotten AND (r.seen > 0 OR r.role = 'sampler');
ALTER TABLE clusters DROP COLUMN pool, DROP COLUMN executor_incarnation, DROP COLUMN sampler_incarnation,
    DROP COLUMN contact_time_us;
UPDATE schema_support SET oldest_version = '0013';
"""


def upgrade() -> None:
    """Make the table out of the columns."""
    op.execute(_STATEMENTS)

"""Labels and annotations stand once by their hash, and what names jobs says when it was last used.

Labels are indexed once per hash, and jobs by the hash, which never changes. Classes, job sets and metadata that no job
uses any more can go: none is used by a job whose day is later than the last day it was used on.

Binaries of older versions read the column that is dropped, so they do not work with these tables.
"""

from __future__ import annotations

from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

_TODAY = "(argosy_now_us() / 86400000000)::integer"
_STATEMENTS = f"""
CREATE TABLE job_metadata (
    hash uuid PRIMARY KEY,
    labels jsonb NOT NULL,
    annotations jsonb NOT NULL,
    last_used_day integer NOT NULL DEFAULT {_TODAY}
);
CREATE INDEX job_metadata_labels_idx ON job_metadata USING gin (labels);
ALTER TABLE jobs ADD COLUMN metadata_hash uuid;
INSERT INTO job_metadata (hash, labels, annotations, last_used_day)
    SELECT md5(metadata::text)::uuid, coalesce(metadata -> 'labels', '{{}}'),
        coalesce(metadata -> 'annotations', '{{}}'), max(handle >> 40)::integer
    FROM jobs WHERE metadata IS NOT NULL GROUP BY metadata;
UPDATE jobs SET metadata_hash = md5(metadata::text)::uuid WHERE metadata IS NOT NULL;
ALTER TABLE jobs DROP COLUMN metadata;
CREATE INDEX jobs_metadata_hash_handle_idx ON jobs (metadata_hash, handle) WHERE metadata_hash IS NOT NULL;
ALTER TABLE scheduling_classes ADD COLUMN last_used_day integer NOT NULL DEFAULT {_TODAY};
ALTER TABLE job_sets ADD COLUMN last_used_day integer NOT NULL DEFAULT {_TODAY};
UPDATE schema_support SET oldest_version = '0012';
"""


def upgrade() -> None:
    """Move what is stored; rows of jobs with labels are rewritten."""
    op.get_bind().exec_driver_sql(_STATEMENTS)

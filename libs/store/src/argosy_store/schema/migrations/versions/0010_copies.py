"""Copies of a job are called `id~1`, `id~2` and so on, where `id/1` could be another job's client id.

What was a copy is told from a job that its client named so by its handle, which follows that of the first copy.
"""

from __future__ import annotations

from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

_RENAME = r"""
UPDATE deduplication d SET client_id = regexp_replace(d.client_id, '/([1-9][0-9]{0,5})$', '~\1')
FROM deduplication f
WHERE d.client_id ~ '/[1-9][0-9]{0,5}$'
    AND f.queue_id = d.queue_id AND f.client_id = regexp_replace(d.client_id, '/[1-9][0-9]{0,5}$', '')
    AND f.payload_hash = d.payload_hash
    AND d.handle = f.handle + substring(d.client_id FROM '/([1-9][0-9]{0,5})$')::integer
"""


def upgrade() -> None:
    """Rename; jobs that have been accepted still show the names they had."""
    op.get_bind().exec_driver_sql(_RENAME)

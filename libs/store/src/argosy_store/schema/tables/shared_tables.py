"""What there is once in an installation: grants, the audit, and its rows of shared state."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY

from argosy_store.schema.tables.base import EMPTY, ZERO, metadata

__all__ = [
    "audit_outbox",
    "audit_records",
    "grants",
    "partition_state",
    "schema_support",
    "shared_state",
]

grants: Final = sa.Table(
    "grants",
    metadata,
    sa.Column("subject", sa.Text, primary_key=True),
    sa.Column("queue", sa.Text, primary_key=True),
    sa.Column("verb", sa.Text, primary_key=True),
    sa.Index("grants_of_queue", "queue"),
)
"""What a user or group may do: a verb with a queue, or a role where the queue is empty."""

audit_records: Final = sa.Table(
    "audit_records",
    metadata,
    sa.Column("id", sa.BigInteger, sa.Identity(), primary_key=True),
    sa.Column("create_time_us", sa.BigInteger, nullable=False, server_default=sa.text("argosy_now_us()")),
    sa.Column("method", sa.Text, nullable=False),
    sa.Column("principal", sa.Text, nullable=False),
    sa.Column("acted_by", sa.Text, nullable=False),
    sa.Column("host", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("detail", sa.Text, nullable=False),
    sa.Index("audit_records_of_principal", "principal", "id"),
)
"""Who changed what, and from where; written in the transaction of the change."""

audit_outbox: Final = sa.Table(
    "audit_outbox",
    metadata,
    sa.Column(
        "id",
        sa.BigInteger,
        sa.ForeignKey("audit_records.id", ondelete="CASCADE"),
        primary_key=True,
        autoincrement=False,
    ),
)
"""Records of the audit that the relay has still to publish; one leaves with its record at the latest."""

shared_state: Final = sa.Table(
    "shared_state",
    metadata,
    sa.Column("singleton", sa.Boolean, primary_key=True, server_default=sa.text("true")),
    sa.Column("next_number", sa.BigInteger, nullable=False, server_default=sa.text("1")),
    sa.Column("timeline", sa.Text, nullable=False, server_default=EMPTY),
    sa.CheckConstraint("singleton", name="shared_state_singleton_check"),
)
"""One row: the next sequence number for handles, and the timeline of the database that gave the last one."""

partition_state: Final = sa.Table(
    "partition_state",
    metadata,
    sa.Column("singleton", sa.Boolean, primary_key=True, server_default=sa.text("true")),
    sa.Column("days", ARRAY(sa.Integer), nullable=False),
    sa.Column("closed_days", ARRAY(sa.Integer), nullable=False),
    sa.Column("deleted_queue_ids", ARRAY(sa.Integer), nullable=False),
    sa.Column("first_open_day", sa.Integer, nullable=False, server_default=ZERO),
    sa.CheckConstraint("singleton", name="partition_state_singleton_check"),
)
"""One row that every bulk transaction reads under a shared lock: days with partitions, days without open jobs, queues
that take no jobs any more, and the first day that still takes jobs. It changes under the exclusive lock only, so nobody
acts on an older one."""

schema_support: Final = sa.Table(
    "schema_support",
    metadata,
    sa.Column("singleton", sa.Boolean, primary_key=True, server_default=sa.text("true")),
    sa.Column("oldest_version", sa.Text, nullable=False),
    sa.CheckConstraint("singleton", name="schema_support_singleton_check"),
)
"""One row: the oldest version of Argosy that works with these tables."""

"""Pools: who leads each, what its leader is told and tells, its log, and what ended its terms and sessions."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, BYTEA, JSONB

from argosy_store.schema.tables.base import EMPTY, ZERO, metadata

__all__ = [
    "changes",
    "ended_sessions",
    "event_outbox",
    "log_ends",
    "log_records",
    "pool_settings",
    "pools",
    "quarantine",
    "suspects",
]

pools: Final = sa.Table(
    "pools",
    metadata,
    sa.Column("pool", sa.Text, primary_key=True),
    sa.Column("leader_id", sa.Text, nullable=False, server_default=EMPTY),
    sa.Column("address", sa.Text, nullable=False, server_default=EMPTY),
    sa.Column("epoch", sa.BigInteger, nullable=False, server_default=ZERO),
    sa.Column("expire_time", sa.DateTime(timezone=True), nullable=False),
    sa.Column("log_position", sa.BigInteger, nullable=False, server_default=ZERO),
    sa.Column("round_state", BYTEA, nullable=False, server_default=EMPTY),
    sa.Column("log_failure_time", sa.DateTime(timezone=True)),
    sa.Column("log_failure", sa.Text, nullable=False, server_default=EMPTY),
    sa.Column("timeline", sa.Text, nullable=False, server_default=EMPTY),
)
"""Who leads a pool, until when by the database's clock, how far the log has been applied, and since when and why its
leaders cannot publish to the log, null and empty while they can."""

pool_settings: Final = sa.Table(
    "pool_settings",
    metadata,
    sa.Column("pool", sa.Text, primary_key=True),
    sa.Column("version", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("settings", JSONB, nullable=False),
    sa.Column("create_time_us", sa.BigInteger, nullable=False, server_default=sa.text("argosy_now_us()")),
    sa.Column("principal", sa.Text, nullable=False),
    sa.Column("comment", sa.Text, nullable=False),
)
"""Settings of pools that change while they are led, each version whole; the newest holds."""

changes: Final = sa.Table(
    "changes",
    metadata,
    sa.Column("pool", sa.Text, primary_key=True),
    sa.Column("id", sa.BigInteger, sa.Identity(), primary_key=True),
    sa.Column("payload", BYTEA, nullable=False),
    sa.Column("queue_ids", ARRAY(sa.Integer)),
    sa.Column("job_counts", ARRAY(sa.BigInteger)),
)
"""One transaction's news for a pool's leader, who takes and deletes it; how many jobs of which queues it brings."""

event_outbox: Final = sa.Table(
    "event_outbox",
    metadata,
    sa.Column("pool", sa.Text, primary_key=True),
    sa.Column("id", sa.BigInteger, sa.Identity(), primary_key=True),
    sa.Column("create_time_us", sa.BigInteger, nullable=False),
    sa.Column("payload", BYTEA, nullable=False),
)
"""One transaction's events that are still to be published to other systems, by the keys of their rows."""

log_records: Final = sa.Table(
    "log_records",
    metadata,
    sa.Column("pool", sa.Text, primary_key=True),
    sa.Column("position", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("epoch", sa.BigInteger, nullable=False),
    sa.Column("sequence", sa.BigInteger, nullable=False),
    sa.Column("payload", BYTEA, nullable=False),
    sa.UniqueConstraint("pool", "epoch", "sequence", name="log_records_pool_epoch_sequence_key"),
)
"""The event log on Postgres: positions of a pool count from 1 without gap."""

log_ends: Final = sa.Table(
    "log_ends",
    metadata,
    sa.Column("pool", sa.Text, primary_key=True),
    sa.Column("position", sa.BigInteger, nullable=False),
)
"""Last position of each pool's log, which outlives its records."""

quarantine: Final = sa.Table(
    "quarantine",
    metadata,
    sa.Column("id", sa.BigInteger, sa.Identity(), primary_key=True),
    sa.Column("pool", sa.Text, nullable=False),
    sa.Column("position", sa.BigInteger, nullable=False),
    sa.Column("payload", BYTEA, nullable=False),
    sa.Column("error", sa.Text, nullable=False),
    sa.Column("create_time_us", sa.BigInteger, nullable=False),
)
"""A record that could not be applied: out of the way, and never lost."""

ended_sessions: Final = sa.Table(
    "ended_sessions",
    metadata,
    sa.Column("id", sa.BigInteger, sa.Identity(always=True), primary_key=True),
    sa.Column("pool", sa.Text, nullable=False),
    sa.Column("cluster", sa.Text, nullable=False),
    sa.Column("role", sa.Text, nullable=False),
    sa.Column("host", sa.Text, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("end_time_us", sa.BigInteger, nullable=False),
    sa.Index("ended_sessions_of_cluster", "pool", "cluster", "id"),
)
"""A session that a leader ended because of what was said there; the newest of each cluster."""

suspects: Final = sa.Table(
    "suspects",
    metadata,
    sa.Column("pool", sa.Text, primary_key=True),
    sa.Column("kind", sa.Text, primary_key=True),
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("epoch", sa.BigInteger, nullable=False),
    sa.Column("error", sa.Text, nullable=False),
    sa.Column("create_time_us", sa.BigInteger, nullable=False),
)
"""An input that ended a leader term on an error that nobody foresaw; leaders set it aside until an operator forgets
the suspicion."""

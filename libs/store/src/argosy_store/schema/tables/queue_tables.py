"""Queues: what was said of each, and what counts and rates bound submits to it."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY

from argosy_store.schema.tables.base import EMPTY, FALSE, ZERO, metadata

__all__ = [
    "open_job_counts",
    "queue_counts",
    "queue_policies",
    "queue_rates",
    "queues",
]

queues: Final = sa.Table(
    "queues",
    metadata,
    sa.Column("queue_id", sa.Integer, sa.Identity(), primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("weight", sa.Double, nullable=False),
    sa.Column("pool", sa.Text, nullable=False),
    sa.Column("cordoned", sa.Boolean, nullable=False, server_default=FALSE),
    sa.Column("cordon_reason", sa.Text, nullable=False, server_default=EMPTY),
    sa.Column("version", sa.BigInteger, nullable=False, server_default=sa.text("1")),
    sa.Column("create_time_us", sa.BigInteger, nullable=False),
    sa.Column("namespaces", ARRAY(sa.Text), nullable=False, server_default=sa.text("'{}'")),
    sa.Column("max_queued_count", sa.BigInteger, nullable=False, server_default=ZERO),
    sa.Column("deleted", sa.Boolean, nullable=False, server_default=FALSE),
    sa.Column("parent", sa.Text, nullable=False, server_default=EMPTY),
    sa.Column("max_running_count", sa.BigInteger, nullable=False, server_default=ZERO),
    sa.Column("max_running_amounts", ARRAY(sa.Text), nullable=False, server_default=sa.text("'{}'")),
    sa.Column("submit_rate_per_s", sa.Double, nullable=False, server_default=ZERO),
    sa.Column("lease_rate_per_s", sa.Double, nullable=False, server_default=ZERO),
    sa.Column("preempts_unexpired", sa.Boolean, nullable=False, server_default=FALSE),
    sa.Column("preempts_endless", sa.Boolean, nullable=False, server_default=FALSE),
    sa.Index("queues_name", "name", unique=True, postgresql_where=sa.text("NOT deleted")),
)
"""A queue. Deleted ones keep their row, since finished jobs still name them; their name is free again."""

queue_policies: Final = sa.Table(
    "queue_policies",
    metadata,
    sa.Column("queue_id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("document", sa.Text, nullable=False),
)
"""What a queue lets its jobs' pods do, JSON; a queue without a row has the installation's policy."""

queue_counts: Final = sa.Table(
    "queue_counts",
    metadata,
    sa.Column("queue_id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("queued_count", sa.BigInteger, nullable=False),
    sa.Column("update_time_us", sa.BigInteger, nullable=False),
)
"""How many jobs of a queue wait, as its leader counts them; lets an API replica bound a queue without counting rows."""

queue_rates: Final = sa.Table(
    "queue_rates",
    metadata,
    sa.Column("queue_id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("paid_time_us", sa.BigInteger, nullable=False),
)
"""When all jobs that were submitted to a queue are paid for by its submit rate; only of queues that have one."""

open_job_counts: Final = sa.Table(
    "open_job_counts",
    metadata,
    sa.Column("id", sa.BigInteger, sa.Identity(), primary_key=True),
    sa.Column("submitter", sa.Text, nullable=False),
    sa.Column("job_count", sa.BigInteger, nullable=False),
    sa.Index("open_job_counts_of_submitter", "submitter"),
)
"""How many jobs of a submitter came or ended; the sum of its rows is how many are open. Rows come and go, and never
change."""

"""The tables, as SQLAlchemy Core metadata; `migrations` makes them.

Tables of jobs (jobs, runs, objects, job_specs, job_set_events) are partitioned by the day of the submit, respectively
of the event, so that what has aged leaves by dropping partitions. Bulk statements name a day's partition directly: that
saves routing and, above all, planning over all days. A default partition named `<table>_carried` holds open jobs of
days that have been dropped.

Updated tables have fillfactor 50 and no index on what changes, so updates stay HOT.

Source: design section 4; 003 "Architecture", the tuple (jobId, executorId, spec, name, state).
"""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, BYTEA, JSONB, UUID

__all__ = [
    "audit_outbox",
    "audit_records",
    "changes",
    "cluster_certificates",
    "cluster_identities",
    "cluster_invitations",
    "cluster_pools",
    "clusters",
    "deduplication",
    "ended_sessions",
    "grants",
    "job_metadata",
    "job_set_events",
    "job_sets",
    "job_specs",
    "jobs",
    "log_records",
    "metadata",
    "objects",
    "pools",
    "quarantine",
    "queue_policies",
    "queues",
    "runs",
    "scheduling_classes",
    "shared_state",
    "suspects",
]

metadata: Final = sa.MetaData()

_ZERO: Final = sa.text("0")
_FALSE: Final = sa.text("false")
_EMPTY: Final = sa.text("''")
_TODAY: Final = sa.text("(argosy_now_us() / 86400000000)::integer")

queues: Final = sa.Table(
    "queues",
    metadata,
    sa.Column("queue_id", sa.Integer, sa.Identity(), primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("weight", sa.Double, nullable=False),
    sa.Column("pool", sa.Text, nullable=False),
    sa.Column("cordoned", sa.Boolean, nullable=False, server_default=_FALSE),
    sa.Column("cordon_reason", sa.Text, nullable=False, server_default=_EMPTY),
    sa.Column("version", sa.BigInteger, nullable=False, server_default=sa.text("1")),
    sa.Column("create_time_us", sa.BigInteger, nullable=False),
    sa.Column("namespaces", ARRAY(sa.Text), nullable=False, server_default=sa.text("'{}'")),
    sa.Column("max_queued_count", sa.BigInteger, nullable=False, server_default=_ZERO),
    sa.Column("deleted", sa.Boolean, nullable=False, server_default=_FALSE),
    sa.Column("parent", sa.Text, nullable=False, server_default=_EMPTY),
    sa.Column("max_running_count", sa.BigInteger, nullable=False, server_default=_ZERO),
    sa.Column("max_running_amounts", ARRAY(sa.Text), nullable=False, server_default=sa.text("'{}'")),
    sa.Column("submit_rate_per_s", sa.Double, nullable=False, server_default=_ZERO),
    sa.Column("lease_rate_per_s", sa.Double, nullable=False, server_default=_ZERO),
    sa.Column("preempts_unexpired", sa.Boolean, nullable=False, server_default=_FALSE),
    sa.Column("preempts_endless", sa.Boolean, nullable=False, server_default=_FALSE),
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

job_sets: Final = sa.Table(
    "job_sets",
    metadata,
    sa.Column("job_set_id", sa.BigInteger, sa.Identity(), primary_key=True),
    sa.Column("queue_id", sa.Integer, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("last_event_number", sa.BigInteger, nullable=False, server_default=_ZERO),
    sa.Column("last_used_day", sa.Integer, nullable=False, server_default=_TODAY),
    sa.UniqueConstraint("queue_id", "name", name="job_sets_queue_id_name_key"),
)
"""A job set: (queue, name), and the number of its last event, which only grows, also when events age out.

On `last_used_day` a job was last submitted to it, so it can go once that day's jobs and events have.
"""

scheduling_classes: Final = sa.Table(
    "scheduling_classes",
    metadata,
    sa.Column("class_id", sa.Integer, sa.Identity(), primary_key=True),
    sa.Column("hash", UUID, nullable=False),
    sa.Column("definition", BYTEA, nullable=False),
    sa.Column("last_used_day", sa.Integer, nullable=False, server_default=_TODAY),
    sa.UniqueConstraint("hash", name="scheduling_classes_hash_key"),
)
"""A scheduling class by the hash of its canonical definition."""

jobs: Final = sa.Table(
    "jobs",
    metadata,
    sa.Column("handle", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("job_id", UUID, nullable=False),
    sa.Column("queue_id", sa.Integer, nullable=False),
    sa.Column("job_set_id", sa.BigInteger, nullable=False),
    sa.Column("class_id", sa.Integer, nullable=False),
    sa.Column("priority", sa.Integer, nullable=False),
    sa.Column("submit_time_us", sa.BigInteger, nullable=False),
    sa.Column("spec_hash", UUID, nullable=False),
    sa.Column("state", sa.SmallInteger, nullable=False, server_default=_ZERO),
    sa.Column("cancel_requested", sa.SmallInteger, nullable=False, server_default=_ZERO),
    sa.Column("end_time_us", sa.BigInteger),
    sa.Column("reason", sa.Text),
    sa.Column("client_id", sa.Text),
    sa.Column("metadata_hash", UUID),
    sa.Column("lifetime_s", sa.Integer),
    sa.Column("time_limit_s", sa.Integer),
    sa.Column("estimate_s", sa.Integer),
    sa.Column("submitter", sa.Text),
    sa.Column("held", sa.Integer),
    sa.Column("run_after", sa.LargeBinary),
    sa.Column("preempt_attempt", sa.Integer),
    sa.Column("job_set_limit", sa.Integer),
    sa.Index("jobs_job_set_id_handle_idx", "job_set_id", "handle"),
    sa.Index(
        "jobs_metadata_hash_handle_idx",
        "metadata_hash",
        "handle",
        postgresql_where=sa.text("metadata_hash IS NOT NULL"),
    ),
    postgresql_partition_by="RANGE (handle)",
)
"""A job. `state` is 0 while it is open, then its terminal JobState; `cancel_requested` is 1 once somebody did.
Durations and `job_set_limit` are null where nothing is said, `held` where it is not 1, `run_after`
(`job.reading.after`) where that is nothing, and `preempt_attempt`, the run that somebody asked to preempt, where
nobody did: most rows are no longer for them."""

job_metadata: Final = sa.Table(
    "job_metadata",
    metadata,
    sa.Column("hash", UUID, primary_key=True),
    sa.Column("labels", JSONB, nullable=False),
    sa.Column("annotations", JSONB, nullable=False),
    sa.Column("last_used_day", sa.Integer, nullable=False, server_default=_TODAY),
    sa.Index("job_metadata_labels_idx", "labels", postgresql_using="gin"),
)
"""Labels and annotations of jobs, once however many jobs have them."""

job_specs: Final = sa.Table(
    "job_specs",
    metadata,
    sa.Column("day", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("hash", UUID, primary_key=True),
    sa.Column("body", BYTEA, nullable=False),
    sa.Column("layout", BYTEA, nullable=False),
    postgresql_partition_by="RANGE (day)",
)
"""A spec: the bytes of its manifests, a JSON array, and a layout that is the API's own affair."""

deduplication: Final = sa.Table(
    "deduplication",
    metadata,
    sa.Column("queue_id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("client_id", sa.Text, primary_key=True),
    sa.Column("handle", sa.BigInteger, nullable=False),
    sa.Column("id_high", sa.BigInteger, nullable=False),
    sa.Column("payload_hash", UUID, nullable=False),
    postgresql_partition_by="HASH (queue_id, client_id)",
)
"""Which job a client id became."""

runs: Final = sa.Table(
    "runs",
    metadata,
    sa.Column("handle", sa.BigInteger, nullable=False, autoincrement=False),
    sa.Column("attempt", sa.SmallInteger, nullable=False, autoincrement=False),
    sa.Column("cluster", sa.Text, nullable=False),
    sa.Column("node", sa.Text, nullable=False),
    sa.Column("epoch", sa.BigInteger, nullable=False),
    sa.Column("state", sa.SmallInteger, nullable=False),
    sa.Column("lease_time_us", sa.BigInteger, nullable=False),
    sa.Column("start_time_us", sa.BigInteger),
    sa.Column("end_time_us", sa.BigInteger),
    sa.Column("exit_code", sa.Integer),
    sa.Column("failure", sa.SmallInteger),
    sa.Column("reason", sa.Text),
    sa.Column("member", sa.SmallInteger, server_default=_ZERO, nullable=False),
    sa.Column("held_amounts", JSONB),
    sa.Column("charge_core_s", sa.BigInteger),
    sa.PrimaryKeyConstraint("handle", "attempt", "member"),
    postgresql_partition_by="RANGE (handle)",
)
"""A member of a run, which nearly always is the whole run. It is live while `end_time_us` is null, and the run while
one of its members is; what it does meanwhile stands in its objects. `held_amounts` has by resource what it holds where
that is not what its class says, in base units, and `charge_core_s` what the run takes of its queue's excess flow
budget; they are null for nearly all, which costs a row nothing.
"""

objects: Final = sa.Table(
    "objects",
    metadata,
    sa.Column("handle", sa.BigInteger, nullable=False, autoincrement=False),
    sa.Column("attempt", sa.SmallInteger, nullable=False, autoincrement=False),
    sa.Column("object", sa.SmallInteger, nullable=False, autoincrement=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("state", sa.SmallInteger, nullable=False),
    sa.Column("node", sa.Text),
    sa.Column("uid", UUID),
    sa.Column("message", sa.Text),
    sa.Column("member", sa.SmallInteger, server_default=_ZERO, nullable=False),
    sa.Column("start_time_us", sa.BigInteger),
    sa.PrimaryKeyConstraint("handle", "attempt", "member", "object"),
    postgresql_partition_by="RANGE (handle)",
)
"""One Kubernetes object of a member of a run; `object` is its place in the bag.
`start_time_us` is when the member's first pod ran: it comes with a report that is stored anyway, so the row of a live
run stays as it is.
"""

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

job_set_events: Final = sa.Table(
    "job_set_events",
    metadata,
    sa.Column("day", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("job_set_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("first_number", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("last_number", sa.BigInteger, nullable=False),
    sa.Column("create_time_us", sa.BigInteger, nullable=False),
    sa.Column("payload", BYTEA, nullable=False),
    postgresql_partition_by="RANGE (day)",
)
"""A batch of numbered events of one job set. Partitioned by the day of writing, so retention drops whole partitions."""

pools: Final = sa.Table(
    "pools",
    metadata,
    sa.Column("pool", sa.Text, primary_key=True),
    sa.Column("leader_id", sa.Text, nullable=False, server_default=_EMPTY),
    sa.Column("address", sa.Text, nullable=False, server_default=_EMPTY),
    sa.Column("epoch", sa.BigInteger, nullable=False, server_default=_ZERO),
    sa.Column("expire_time", sa.DateTime(timezone=True), nullable=False),
    sa.Column("log_position", sa.BigInteger, nullable=False, server_default=_ZERO),
    sa.Column("round_state", BYTEA, nullable=False, server_default=_EMPTY),
    sa.Column("log_failure_time", sa.DateTime(timezone=True)),
    sa.Column("log_failure", sa.Text, nullable=False, server_default=_EMPTY),
    sa.Column("timeline", sa.Text, nullable=False, server_default=_EMPTY),
)
"""Who leads a pool, until when by the database's clock, how far the log has been applied, and since when and why its
leaders cannot publish to the log, null and empty while they can."""

clusters: Final = sa.Table(
    "clusters",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("uid", sa.Text, nullable=False, server_default=_EMPTY),
    sa.Column("cordoned", sa.Boolean, nullable=False, server_default=_FALSE),
    sa.Column("cordon_reason", sa.Text, nullable=False, server_default=_EMPTY),
    sa.Column("cordoned_nodes", ARRAY(sa.Text), nullable=False, server_default=sa.text("'{}'")),
    sa.Column("forgotten", sa.Boolean, nullable=False, server_default=_FALSE),
    sa.Column("node_cordon_reasons", JSONB, nullable=False, server_default=sa.text("'{}'")),
    sa.Column("delegated", sa.Boolean, nullable=False, server_default=_FALSE),
)
"""A cluster, the uid its name is bound to, and what an administrator decided about it."""

cluster_bounds: Final = sa.Table(
    "cluster_bounds",
    metadata,
    sa.Column("cluster", sa.Text, primary_key=True),
    sa.Column("max_capacity", ARRAY(sa.Text), nullable=False),
)
"""What a cluster, which need not be known yet, has at most by an administrator's word: `resource=amount`."""

cluster_pools: Final = sa.Table(
    "cluster_pools",
    metadata,
    sa.Column("cluster", sa.Text, primary_key=True),
    sa.Column("pool", sa.Text, primary_key=True),
    sa.Column("role", sa.Text, primary_key=True),
    sa.Column("process", UUID, nullable=False),
    sa.Column("host", sa.Text, nullable=False, server_default=_EMPTY),
    sa.Column("incarnation", sa.BigInteger, nullable=False),
    sa.Column("heard_time_us", sa.BigInteger, nullable=False, server_default=_ZERO),
    sa.Column("held_until_us", sa.BigInteger, nullable=False, server_default=_ZERO),
    sa.CheckConstraint("role IN ('executor', 'sampler')", name="cluster_pools_role_check"),
)
"""Which process speaks for a cluster to a pool's leader, as `executor` or `sampler`: its incarnation, when it was heard
last and until when it keeps its session, by the clock of the database."""

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

grants: Final = sa.Table(
    "grants",
    metadata,
    sa.Column("subject", sa.Text, primary_key=True),
    sa.Column("queue", sa.Text, primary_key=True),
    sa.Column("verb", sa.Text, primary_key=True),
    sa.Index("grants_of_queue", "queue"),
)
"""What a user or group may do: a verb with a queue, or a role where the queue is empty."""

cluster_identities: Final = sa.Table(
    "cluster_identities",
    metadata,
    sa.Column("cluster", sa.Text, primary_key=True),
    sa.Column("uid", sa.Text, nullable=False, server_default=_EMPTY),
)
"""A cluster that was invited or revoked: only certificates that it fetched speak for it. `uid` is empty before."""

cluster_invitations: Final = sa.Table(
    "cluster_invitations",
    metadata,
    sa.Column("token_hash", sa.Text, primary_key=True),
    sa.Column("cluster", sa.Text, nullable=False),
    sa.Column("expire_time_us", sa.BigInteger, nullable=False),
    sa.Column("used_keys", JSONB, nullable=False, server_default=sa.text("'{}'")),
)
"""A token that each process of a cluster may use once; `used_keys` has the hash of each one's public key."""

cluster_certificates: Final = sa.Table(
    "cluster_certificates",
    metadata,
    sa.Column("fingerprint", sa.Text, primary_key=True),
    sa.Column("cluster", sa.Text, nullable=False),
    sa.Column("part", sa.Text, nullable=False),
    sa.Column("expire_time_us", sa.BigInteger, nullable=False),
    sa.Index("cluster_certificates_of_cluster", "cluster"),
)
"""A certificate that speaks for a cluster."""

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

shared_state: Final = sa.Table(
    "shared_state",
    metadata,
    sa.Column("singleton", sa.Boolean, primary_key=True, server_default=sa.text("true")),
    sa.Column("next_number", sa.BigInteger, nullable=False, server_default=sa.text("1")),
    sa.Column("timeline", sa.Text, nullable=False, server_default=_EMPTY),
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
    sa.Column("first_open_day", sa.Integer, nullable=False, server_default=_ZERO),
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

"""What stands of jobs: sets, classes, jobs with their specs, runs, objects and events.

Jobs, runs, objects, specs and events are partitioned by day; see `argosy_store.schema.tables`.
"""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import BYTEA, JSONB, UUID

from argosy_store.schema.tables.base import TODAY, ZERO, metadata

__all__ = [
    "deduplication",
    "job_metadata",
    "job_set_events",
    "job_sets",
    "job_specs",
    "jobs",
    "objects",
    "runs",
    "scheduling_classes",
]

job_sets: Final = sa.Table(
    "job_sets",
    metadata,
    sa.Column("job_set_id", sa.BigInteger, sa.Identity(), primary_key=True),
    sa.Column("queue_id", sa.Integer, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("last_event_number", sa.BigInteger, nullable=False, server_default=ZERO),
    sa.Column("last_used_day", sa.Integer, nullable=False, server_default=TODAY),
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
    sa.Column("last_used_day", sa.Integer, nullable=False, server_default=TODAY),
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
    sa.Column("state", sa.SmallInteger, nullable=False, server_default=ZERO),
    sa.Column("cancel_requested", sa.SmallInteger, nullable=False, server_default=ZERO),
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
    sa.Column("last_used_day", sa.Integer, nullable=False, server_default=TODAY),
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
    sa.Column("member", sa.SmallInteger, server_default=ZERO, nullable=False),
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
    sa.Column("member", sa.SmallInteger, server_default=ZERO, nullable=False),
    sa.Column("start_time_us", sa.BigInteger),
    sa.PrimaryKeyConstraint("handle", "attempt", "member", "object"),
    postgresql_partition_by="RANGE (handle)",
)
"""One Kubernetes object of a member of a run; `object` is its place in the bag.
`start_time_us` is when the member's first pod ran: it comes with a report that is stored anyway, so the row of a live
run stays as it is.
"""

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

"""The tables, as SQLAlchemy Core metadata; `migrations` makes them. Each module has those of one subject.

Tables of jobs (jobs, runs, objects, job_specs, job_set_events) are partitioned by the day of the submit, respectively
of the event, so that what has aged leaves by dropping partitions. Bulk statements name a day's partition directly: that
saves routing and, above all, planning over all days. A default partition named `<table>_carried` holds open jobs of
days that have been dropped.

Updated tables have fillfactor 50 and no index on what changes, so updates stay HOT.

Source: design section 4; 003 "Architecture", the tuple (jobId, executorId, spec, name, state).
"""

from argosy_store.schema.tables.base import metadata
from argosy_store.schema.tables.cluster_tables import (
    cluster_bounds,
    cluster_certificates,
    cluster_identities,
    cluster_invitations,
    cluster_pools,
    clusters,
)
from argosy_store.schema.tables.job_tables import (
    deduplication,
    job_metadata,
    job_set_events,
    job_sets,
    job_specs,
    jobs,
    objects,
    runs,
    scheduling_classes,
)
from argosy_store.schema.tables.pool_tables import (
    changes,
    ended_sessions,
    event_outbox,
    log_ends,
    log_records,
    pool_settings,
    pools,
    quarantine,
    suspects,
)
from argosy_store.schema.tables.queue_tables import open_job_counts, queue_counts, queue_policies, queue_rates, queues
from argosy_store.schema.tables.shared_tables import (
    audit_outbox,
    audit_records,
    grants,
    partition_state,
    schema_support,
    shared_state,
)

__all__ = [
    "audit_outbox",
    "audit_records",
    "changes",
    "cluster_bounds",
    "cluster_certificates",
    "cluster_identities",
    "cluster_invitations",
    "cluster_pools",
    "clusters",
    "deduplication",
    "ended_sessions",
    "event_outbox",
    "grants",
    "job_metadata",
    "job_set_events",
    "job_sets",
    "job_specs",
    "jobs",
    "log_ends",
    "log_records",
    "metadata",
    "objects",
    "open_job_counts",
    "partition_state",
    "pool_settings",
    "pools",
    "quarantine",
    "queue_counts",
    "queue_policies",
    "queue_rates",
    "queues",
    "runs",
    "scheduling_classes",
    "schema_support",
    "shared_state",
    "suspects",
]

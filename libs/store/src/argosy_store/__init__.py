"""Postgres tables, migrations, transactions and event log of Argosy.

What others use:

* `ApiStore` for API replicas, `LeaderStore` for a pool's leader, `PostgresLog` as event log.
* `migrate`, `check`, `ensure_partitions` and `retain` for whoever runs the installation.
* `EmbeddedPostgres` for one machine.

Owns: tables, migrations, database roles, and every statement.
May import: argosy_core and argosy_eventlog, whose log it implements; nobody else knows Postgres.
Start: `tables`; then `submission` (what the API writes) and `apply` (what a leader writes).

All classes are synchronous and thread-safe; asynchronous services call them in threads. Errors are those of
`argosy_core.errors`.
"""

from __future__ import annotations

from argosy_store.embedded import EmbeddedPostgres
from argosy_store.log import PostgresLog
from argosy_store.postgres.partitions import ensure_partitions
from argosy_store.replicas.api import ApiStore
from argosy_store.replicas.change_requests import BoundedFilter
from argosy_store.replicas.job_filters import JobFilter, LabelRequirement
from argosy_store.replicas.submits import SpecRow, SubmitRequest, SubmitResult
from argosy_store.rows import ClusterRow, JobRecord
from argosy_store.schema.migrate import check, create_database, drop_database, migrate
from argosy_store.schema.retention import Retained, retain
from argosy_store.terms.effects import (
    Effects,
    EventRow,
    QuarantinedRecord,
)
from argosy_store.terms.leader import Leadership, LeaderStore

__all__ = [
    "ApiStore",
    "BoundedFilter",
    "ClusterRow",
    "Effects",
    "EmbeddedPostgres",
    "EventRow",
    "JobFilter",
    "JobRecord",
    "LabelRequirement",
    "LeaderStore",
    "Leadership",
    "PostgresLog",
    "QuarantinedRecord",
    "Retained",
    "SpecRow",
    "SubmitRequest",
    "SubmitResult",
    "check",
    "create_database",
    "drop_database",
    "ensure_partitions",
    "migrate",
    "retain",
]

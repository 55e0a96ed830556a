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

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
    )
    from argosy_store.terms.election import Leadership
    from argosy_store.terms.leader import LeaderStore

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

_HOMES = {
    "argosy_store.embedded": "EmbeddedPostgres",
    "argosy_store.log": "PostgresLog",
    "argosy_store.postgres.partitions": "ensure_partitions",
    "argosy_store.replicas.api": "ApiStore",
    "argosy_store.replicas.change_requests": "BoundedFilter",
    "argosy_store.replicas.job_filters": "JobFilter LabelRequirement",
    "argosy_store.replicas.submits": "SpecRow SubmitRequest SubmitResult",
    "argosy_store.rows": "ClusterRow JobRecord",
    "argosy_store.schema.migrate": "check create_database drop_database migrate",
    "argosy_store.schema.retention": "Retained retain",
    "argosy_store.terms.effects": "Effects EventRow",
    "argosy_store.terms.election": "Leadership",
    "argosy_store.terms.leader": "LeaderStore",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the package has
    """Import what is asked for: who only starts a database needs no leader's statements."""
    home = next((module for module, names in _HOMES.items() if name in names.split()), "")
    if not home:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found = getattr(importlib.import_module(home), name)
    return found

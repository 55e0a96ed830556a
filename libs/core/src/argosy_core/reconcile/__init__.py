"""The executor's next actions: rows of the leader against objects of the cluster; names, labels and references.

It owns what an executor knows of its cluster's objects. It imports `argosy_core.job` and `argosy_core.errors`, and is
used by the executor, its codecs and the simulated worlds. Begin with `machine` (the life of an object), `planning`
(what is next for a run) and `reconciler`, which brings events to both; docs/executor.md draws them.
"""

from argosy_core.reconcile.claims import PoolClaims
from argosy_core.reconcile.columns import (
    Actions,
    CreateResponses,
    Creates,
    DeleteResponses,
    Deletes,
    Instant,
    Observations,
    ReportBatch,
    RunRows,
)
from argosy_core.reconcile.fence import Fence, settle_time_s
from argosy_core.reconcile.reconciler import Reconciler
from argosy_core.reconcile.spec_cache import SpecCache
from argosy_core.reconcile.timeouts import StartTimeouts

__all__ = [
    "Actions",
    "CreateResponses",
    "Creates",
    "DeleteResponses",
    "Deletes",
    "Fence",
    "Instant",
    "Observations",
    "PoolClaims",
    "Reconciler",
    "ReportBatch",
    "RunRows",
    "SpecCache",
    "StartTimeouts",
    "settle_time_s",
]

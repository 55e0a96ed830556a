"""The executor's next actions: rows of the leader against objects of the cluster; names, labels and references."""

from argosy_core.reconcile.columns import (
    Actions,
    CreateAnswers,
    Creates,
    DeleteAnswers,
    Deletes,
    Instant,
    Observations,
    ReportBatch,
    RunRows,
)
from argosy_core.reconcile.fence import SETTLE_MARGIN_S, Fence, settle_time_s
from argosy_core.reconcile.reconciler import Reconciler
from argosy_core.reconcile.spec_cache import SPEC_CACHE_BYTES, SpecCache
from argosy_core.reconcile.timeouts import StartTimeouts

__all__ = [
    "SETTLE_MARGIN_S",
    "SPEC_CACHE_BYTES",
    "Actions",
    "CreateAnswers",
    "Creates",
    "DeleteAnswers",
    "Deletes",
    "Fence",
    "Instant",
    "Observations",
    "Reconciler",
    "ReportBatch",
    "RunRows",
    "SpecCache",
    "StartTimeouts",
    "settle_time_s",
]

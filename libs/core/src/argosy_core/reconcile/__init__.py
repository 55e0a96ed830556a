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
from argosy_core.reconcile.mirrored_cache import MIRRORED_CACHE_BYTES, MirroredCache
from argosy_core.reconcile.reconciler import Reconciler
from argosy_core.reconcile.timeouts import StartTimeouts

__all__ = [
    "MIRRORED_CACHE_BYTES",
    "SETTLE_MARGIN_S",
    "Actions",
    "CreateAnswers",
    "Creates",
    "DeleteAnswers",
    "Deletes",
    "Fence",
    "Instant",
    "MirroredCache",
    "Observations",
    "Reconciler",
    "ReportBatch",
    "RunRows",
    "StartTimeouts",
    "settle_time_s",
]

"""The node ledger of a cluster: placements, unmanaged pods, permits to grow, and what they leave free."""

from argosy_core.ledger.ledger import NodeLedger
from argosy_core.ledger.permit_notes import PermitNote
from argosy_core.ledger.permit_records import PermitSettings, RefusalReason
from argosy_core.ledger.permits import PermitLedger
from argosy_core.ledger.pod_sizes import PodSizes, PodSizeState
from argosy_core.ledger.records import PodEvents

__all__ = [
    "NodeLedger",
    "PermitLedger",
    "PermitNote",
    "PermitSettings",
    "PodEvents",
    "PodSizeState",
    "PodSizes",
    "RefusalReason",
]

"""The node ledger of a cluster: placements, unmanaged pods, and what they leave free."""

from argosy_core.ledger.ledger import NodeLedger
from argosy_core.ledger.placements import Hold
from argosy_core.ledger.records import LedgerTotals, ListOutcome, ObserveOutcome, PodEvents
from argosy_core.ledger.run_pods import RunPods

__all__ = ["Hold", "LedgerTotals", "ListOutcome", "NodeLedger", "ObserveOutcome", "PodEvents", "RunPods"]

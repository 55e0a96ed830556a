"""Backfill: when a job that waits will have room, and which others may start before it without delaying it.

Owns the profile of a node over time (`profile`), promised starts and what they leave to others (`promises`), run times
learned from history (`estimates`), order policies (`order`), and one decision of all of them over a table of nodes
(`starts`, where to begin). Knows of no queue, class or cluster: jobs are demands with ends.

Source: 003 "Scheduler architecture"; design section 5, "Round" 5; section 7, invariant 13.
"""

from argosy_core.backfill.estimates import EstimateError, RunTimes
from argosy_core.backfill.order import SMALLEST_AREA, SUBMIT_ORDER, OrderPolicy, choose_head
from argosy_core.backfill.profile import Releases, find_earliest
from argosy_core.backfill.promises import Promise, PromiseKind, Reservations
from argosy_core.backfill.starts import BackfillPolicy, RunningWork, Starts, WaitingWork, choose_starts

__all__ = [
    "SMALLEST_AREA",
    "SUBMIT_ORDER",
    "BackfillPolicy",
    "EstimateError",
    "OrderPolicy",
    "Promise",
    "PromiseKind",
    "Releases",
    "Reservations",
    "RunTimes",
    "RunningWork",
    "Starts",
    "WaitingWork",
    "choose_head",
    "choose_starts",
    "find_earliest",
]

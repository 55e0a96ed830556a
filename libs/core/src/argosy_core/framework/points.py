"""Extension points, what is registered at them, and which of them each profile calls.

Source: seed 002 "Plugin registration" and "Extension points".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

__all__ = ["BINDING", "COMMIT", "DECISION", "SAMPLING", "Point", "ProfileKind", "Registration"]


class Point(StrEnum):
    """Extension points in the order in which a pod comes to them."""

    QUEUE_SORT = "queue-sort"
    PRE_FILTER = "pre-filter"
    FILTER = "filter"
    POST_FILTER = "post-filter"
    SCORE = "score"
    POST_SCORE = "post-score"
    CHECK_CONFLICTS = "check-conflicts"
    RESERVE = "reserve"
    PERMIT = "permit"
    PRE_BIND = "pre-bind"
    BIND = "bind"
    POST_BIND = "post-bind"
    UNRESERVE = "unreserve"
    EVENT = "event"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileKind:
    """Where a profile runs and what it calls."""

    name: str
    """sampling or decision."""
    methods: Mapping[Point, str]
    """By point that it calls: the method of a plugin object."""


SAMPLING: Final = ProfileKind(
    name="sampling",
    methods={
        Point.PRE_FILTER: "pre_filter",
        Point.FILTER: "filter",
        Point.POST_FILTER: "post_filter",
        Point.SCORE: "score",
        Point.POST_SCORE: "post_score",
        Point.RESERVE: "reserve",
        Point.UNRESERVE: "unreserve",
        Point.EVENT: "event",
    },
)
"""At a sampler: pre-filter to score for each request for candidates, the next three in the commit.

=========== ============== ============================================================================================
method      is given       returns
=========== ============== ============================================================================================
pre_filter  Cycle          (k,) bool: which pods go on; None for all
filter      Cycle          (k, n), (1, n) or (k, 1) bool: which nodes can run which pods; None for all
post_filter Cycle          as pre_filter; `cycle.alive` has the nodes left, perhaps none
score       Cycle          the same shapes, numbers: usually 0 to 100, higher is better
post_score  PlacementBatch (n,) bool: which run may be placed on which node; None for all
reserve     PlacementBatch (n,) bool: which placements stand; None for all
unreserve   PlacementBatch nothing; called for placements that were given up before a pod was seen
event       an event       true if what its plugin turned away is to be asked for again; else nothing
=========== ============== ============================================================================================

Events are `NodesChanged`; `PodEvents`, of pods seen on the cluster; and a `PlacementBatch` of all placements that a new
leader lists, which replaces what reserve and unreserve told before.
"""

DECISION: Final = ProfileKind(
    name="decision",
    methods={
        Point.QUEUE_SORT: "queue_sort",
        Point.FILTER: "filter_candidates",
        Point.SCORE: "score_candidates",
        Point.PERMIT: "permit",
        Point.PRE_BIND: "pre_bind",
        Point.POST_BIND: "post_bind",
        Point.UNRESERVE: "reject",
    },
)
"""At the leader: jobs as they come to their queues, the candidates of all clusters, and what samplers have committed.

================= ============== ======================================================================================
method            is given       returns
================= ============== ======================================================================================
queue_sort        JobBatch       (n,) integers: in a queue the smaller goes first, then higher priority, then earlier
filter_candidates CandidateCycle (k,) bool: which candidates may be used; None for all
score_candidates  CandidateCycle (k,) numbers, added to the sampler's score
permit            PermitBatch    (n,) bool: which are not denied; None for all; `batch.wait` holds them back
pre_bind          PermitBatch    (n,) bool: which may be bound; None for all; on a thread of its own, so it may wait
post_bind         PermitBatch    nothing; called for runs of which an executor reports first that they are there
reject            PermitBatch    nothing; called for all that comes to nothing after permit and before a pod
================= ============== ======================================================================================

A job keeps the key that it got when it came to its queue, or came back to it.
"""


COMMIT: Final = ProfileKind(name="commit", methods={Point.CHECK_CONFLICTS: "check_conflicts"})
"""At a sampler, in the commit: `check_conflicts` is given a `PlacementBatch` of placements that are reserved, so that
the table has what they leave, and returns (n,) bool: which of them bear it; None for all. A run that does not goes on
to its next candidate, and has met a conflict if it has none left. That nothing is over-committed the ledger checks.

Source: seed 000 "Commit Phase" (CheckConflicts)."""

BINDING: Final = ProfileKind(name="binding", methods={Point.BIND: "bind"})
"""At an executor, before it creates objects: `bind` is given a `BindBatch` and returns (n,) bool: which objects it has
made itself, in its own way; None for none. Nobody else is asked about what one has made, and the executor creates what
nobody has. On a thread of its own, so it may wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """A function at an extension point."""

    point: Point
    """Where it is called."""
    name: str
    """Name of the plugin, unique per point; in counts, explanations and configuration."""
    function: Callable[..., object]
    """The function, with the signature of its point."""
    weight: float = 1.0
    """Score plugins: what the score is multiplied by."""
    explanation: str = ""
    """Filter plugins: what to say of the nodes turned away, with `{nodes}` for "1 node" or "7 nodes"."""
    reads_nodes_only: bool = True
    """Filter plugins: the answer depends on the pod's class and the node's row only, so that it holds until the row
    changes."""

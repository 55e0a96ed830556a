"""What people are told of one job: where it stands, why it waits, and the counts that say so.

Source: design section 9; seed 004 (explanations).
"""

from __future__ import annotations

from dataclasses import dataclass

from argosy_core.job.states import JobStage
from argosy_core.placement import WaitReason
from argosy_core.plugins import turned_away_text
from argosy_core.scheduler.explain.outlook import QueueStanding, StartBand

__all__ = ["ClusterReason", "Explanation", "FilterCount", "ToldPromise", "filter_counts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterCount:
    """How many nodes a filter turned away first."""

    filter: str
    """Name of the filter."""
    node_count: int
    """Nodes."""
    text: str
    """The same for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterReason:
    """Why one cluster has no node for a job."""

    cluster: str
    """Cluster."""
    reason: WaitReason
    """Why."""
    text: str
    """What a plugin or a failed filter said; empty otherwise."""
    filters: tuple[FilterCount, ...] = ()
    """Counts of this cluster, most first."""
    examined_node_count: int = 0
    """Nodes looked at for these counts."""
    able_node_count: int = -1
    """Nodes that could hold it if nothing else ran there, whatever their state; -1 where that was not looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldPromise:
    """The promise of a start to a job that waits."""

    moment_s: float
    """It starts no later, seconds since the Unix epoch."""
    is_firm: bool
    """It follows from time limits, and is broken by nothing but lost capacity; else it follows from estimates."""
    node: str
    """The node that is kept for it, as `cluster/node`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Where a job stands, and why it waits if it does."""

    stage: JobStage
    """Where it stands."""
    summary: str
    """One or two sentences for people."""
    why: str = ""
    """Why it waits, for people, as it stands in the summary; empty if it does not wait or nothing is known of that."""
    queue_position: int = 0
    """Jobs of its queue before it, if it waits."""
    reason: WaitReason = WaitReason.NONE
    """Why it waits, or is held back in flight, as far as is known; NONE if it does not, or only for its turn."""
    cluster_reasons: tuple[ClusterReason, ...] = ()
    """Why clusters have no node for it, if it waits; those that may be asked are left out."""
    objection: str = ""
    """What a plugin says that holds it back, or has turned it away when it was placed last; empty if none does."""
    filters: tuple[FilterCount, ...] = ()
    """Counts over all clusters, most first."""
    examined_node_count: int = 0
    """Nodes looked at for these counts."""
    nearest_miss: str = ""
    """The node that came closest and what it lacks, as `cluster: text`; empty if none is known."""
    failed_attempt_count: int = 0
    """Rounds in which all its commit candidates conflicted."""
    queue_flow_per_weight: float = 0.0
    """Flow of its queue divided by the weight, cores."""
    least_flow_per_weight: float = 0.0
    """Smallest such number among queues with work, cores."""
    last_choice_nodes: tuple[str, ...] = ()
    """Nodes, as `cluster/node`, where its like failed so often that it gets them only if there is no other."""
    promise: ToldPromise | None = None
    """What it was promised, if anything."""
    standing: QueueStanding | None = None
    """How its queue stands, if it waits."""
    start: StartBand | None = None
    """When it is expected to start, if it waits and something is known of that."""
    largest_node: str = ""
    """The largest node that could hold it, with what that has; empty if none is known, or nobody looked."""
    missing: tuple[str, ...] = ()
    """What no node has and it asks for, if it can never run on what is known; empty if nobody looked."""


def filter_counts(names: tuple[str, ...], texts: tuple[str, ...], counts: tuple[int, ...]) -> tuple[FilterCount, ...]:
    """Return how many nodes filters turned away, most first; those that turned away none are left out."""
    found = [
        FilterCount(filter=name, node_count=count, text=turned_away_text(text, count))
        for name, text, count in zip(names, texts, counts, strict=False)
        if count
    ]
    return tuple(sorted(found, key=lambda one: -one.node_count))

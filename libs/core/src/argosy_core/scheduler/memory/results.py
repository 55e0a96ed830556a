"""What rounds and clusters came to, as the leader remembers it."""

from __future__ import annotations

from dataclasses import dataclass, field

from argosy_core.placement import WaitReason

__all__ = ["BagFailure", "ClassResult", "RoundStatistics", "Unheard"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BagFailure:
    """The first failure of a bag whose run has not ended yet."""

    failure: int
    """FailureKind."""
    exit_code: int
    """Exit code."""
    reason: str
    """The executor's message, or empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassResult:
    """What a cluster last said of a class that it has no node for."""

    reason: WaitReason
    """Why."""
    text: str
    """What a plugin or a failed filter said; empty otherwise."""
    filters: tuple[str, ...] = ()
    """Names of the filters."""
    filter_texts: tuple[str, ...] = ()
    """What to say of the nodes that each turned away."""
    rejections: tuple[int, ...] = ()
    """Nodes that each turned away first."""
    examined_count: int = 0
    """Nodes looked at."""
    nearest_miss: str = ""
    """The node that came closest and what it lacks."""
    round_number: int
    """Round of the answer."""


@dataclass(slots=True, kw_only=True)
class RoundStatistics:
    """What the last round did."""

    round_number: int = 0
    """Number of the round since the leader started."""
    queued_count: int = 0
    """Jobs that wait, after the round, pending ones apart."""
    pending_count: int = 0
    """Waiting heads, after the round."""
    class_count: int = 0
    """Classes sampled."""
    decided_count: int = 0
    """Runs with at least one commit candidate."""
    leased_count: int = 0
    """Runs leased."""
    conflict_count: int = 0
    """Commits that met a conflict."""
    has_new_promises: bool = False
    """Promised starts were given or ended."""
    failed_attempt_count: int = 0
    """Runs all of whose candidates conflicted."""
    totals: dict[str, int] = field(default_factory=dict)
    """Counts since the leader started, by name: rounds, leases, conflicts, retries, refused, requeued, stale and
    faults."""


@dataclass(slots=True)
class Unheard:
    """Runs on nodes that are not heard of, whose specs say that they are to be replaced (`unheard`)."""

    since: dict[int, tuple[int, float]] = field(default_factory=dict)
    """Handle -> (attempt, when it counts as lost)."""
    due: list[tuple[float, int]] = field(default_factory=list)
    """Heap of (moment, handle); those that are heard of again, or have ended, are left until they are due."""

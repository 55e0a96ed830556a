"""Queues, what each holds of its pool and is entitled to, and what the last round did: plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

__all__ = ["LastRound", "Queue", "QueueShare", "ResourceCapacity", "ResourceShare", "Shares", "StageLatency"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A queue; the fields below `preempts_endless` are given by the server."""

    name: str
    """Name, unique in the installation."""
    weight: float = 1.0
    """Weight of the queue's fair share."""
    pool: str = ""
    """Pool whose leader schedules the queue's jobs; empty for the default."""
    max_queued_count: int = 0
    """Most jobs that may wait; 0 for the installation's limit."""
    namespaces: tuple[str, ...] = ()
    """Namespaces in which the queue's jobs may make objects."""
    parent: str = ""
    """Queue that this one stands below; empty for none."""
    max_running_count: int = 0
    """Most jobs that are leased or run at once; 0 for no limit."""
    max_running_amounts: Mapping[str, int] = field(default_factory=dict)
    """Most of each resource that these hold together, base units; a resource that is not named has no limit."""
    submit_rate_per_s: float = 0.0
    """Most jobs that may be submitted in a second, ten seconds' worth at once; 0 for no limit."""
    lease_rate_per_s: float = 0.0
    """Most jobs that begin in a second, ten seconds' worth at once; 0 for no limit."""
    preempts_unexpired: bool = False
    """Runs that are not past their lifetimes yet make room for its jobs, too, while it is under its share."""
    preempts_endless: bool = False
    """Runs without a lifetime do."""
    cordoned: bool = False
    """No job of the queue becomes pending."""
    cordon_reason: str = ""
    """Why."""
    etag: str = ""
    """Stands for the queue as it was read; an update needs it."""
    create_time: datetime | None = None
    """When it was made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceShare:
    """What one queue has of one resource, base units."""

    resource: str
    """Resource."""
    requested: int
    """What all its jobs ask for, waiting ones included."""
    running: int
    """What its leased and running jobs hold."""
    entitled: int | None
    """By weighted water-filling over the demands; None while the pool's capacity is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueShare:
    """What one queue has and is entitled to; cores are weighted resources."""

    queue: str
    """Queue."""
    weight: float
    """Weight."""
    fair_share_ratio: float
    """Weight divided by the sum of weights of the queues beside it, times the share of the queue above."""
    usage_cores: float
    """Leased and running jobs."""
    flow_cores: float
    """Flow."""
    demand_cores: float
    """If all its jobs ran."""
    entitled_cores: float | None
    """By weighted water-filling over the demands; jobs that no node could hold demand nothing here. None while the
    pool's capacity is not known."""
    queued_count: int
    """Jobs queued, not pending."""
    pending_count: int
    """Jobs pending."""
    leased_count: int
    """Jobs leased or running."""
    resources: tuple[ResourceShare, ...] = ()
    """The same of every resource that it asks for."""
    parent: str = ""
    """Queue above it; amounts of a queue with others below it are those of all of them together."""
    non_preemptible_flow_cores: float = 0.0
    """Flow of its own jobs without a lifetime."""
    non_preemptible_cap_cores: float | None = None
    """What that may be at most; None while the pool's capacity is not known."""
    charged_core_min: float = 0.0
    """What its own jobs that began beyond its fair share take of its excess flow budget, core-minutes."""
    budget_core_min: float | None = None
    """That budget, core-minutes; None while the pool's capacity is not known."""
    limited_count: int = 0
    """Own jobs that wait since as many run of the queue, or of their job set, as may."""
    rate_limited_count: int = 0
    """Own jobs that wait since the queue has begun as many lately as its lease rate lets it."""
    max_running_count: int = 0
    """Most own jobs that are leased or run at once; 0 for no limit."""
    lease_rate_per_s: float = 0.0
    """Most own jobs that begin in a second; 0 for no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceCapacity:
    """What a pool has of one resource."""

    resource: str
    """Resource."""
    capacity: int
    """Sum over the clusters that may be given work, base units."""
    unit_cores: float
    """What one unit (core, byte, whole unit) counts, cores; 0 is a resource that weighs nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """Shares of a pool's queues."""

    capacity_cores: float | None
    """Capacity of the pool; None while none of its clusters is connected, as in the first moment of a leader's term."""
    shares: tuple[QueueShare, ...]
    """By queue name."""
    resources: tuple[ResourceCapacity, ...] = ()
    """Every resource that the pool counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageLatency:
    """Distribution of the time from submit to a stage, over all jobs since the leader started."""

    stage: str
    """considered, leased, running or finished."""
    job_count: int
    """Jobs counted."""
    p50_ms: float
    """Median."""
    p90_ms: float
    """90th percentile."""
    p99_ms: float
    """99th percentile."""
    bounds_ms: tuple[float, ...]
    """b upper bounds of the buckets, ascending."""
    bucket_counts: tuple[int, ...]
    """b or b + 1 jobs per bucket; a last one without bound holds the rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastRound:
    """What the leader's last round did."""

    round: int
    """Number since the leader started."""
    epoch: int
    """Epoch of the leader."""
    queued_count: int
    """Jobs that wait for their turn."""
    pending_count: int
    """Jobs that are pending."""
    leased_count: int
    """Runs leased in the round."""
    conflict_count: int
    """Commits that met a conflict."""
    class_count: int
    """Classes sampled."""
    phases_ms: Mapping[str, float]
    """Duration of each phase."""
    totals: Mapping[str, int]
    """Totals since the leader started."""
    latencies: Mapping[str, StageLatency]
    """By stage."""

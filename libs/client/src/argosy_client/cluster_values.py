"""Clusters, their nodes and the pods that are resized there: plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

__all__ = ["Cluster", "Node", "ScaledPod"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A cluster: what is stored of it, and what its pool's leader knows of it now."""

    name: str
    """Name."""
    pools: tuple[str, ...]
    """Pools it serves."""
    sampler_connected: bool
    """Its sampler has a session with the leader."""
    executor_connected: bool
    """Its executor has a stream to the leader."""
    cordoned: bool
    """Nothing is placed on it."""
    cordon_reason: str
    """Why."""
    node_count: int
    """Nodes."""
    run_count: int
    """Runs placed."""
    total: Mapping[str, int]
    """Allocatable on usable nodes, base units by resource."""
    free: Mapping[str, int]
    """Free on usable nodes, base units by resource."""
    contact_time: datetime | None
    """Last contact with its executor."""
    cordoned_nodes: Mapping[str, str]
    """Cordoned nodes with the reasons given, by name."""
    max_capacity: Mapping[str, int] = field(default_factory=dict)
    """What it has at most by an administrator's word, base units by resource."""
    told: Mapping[str, int] = field(default_factory=dict)
    """What its sampler tells of those resources of which less counts, base units by resource."""
    delegated: bool = False
    """It places by itself: leases name the cluster only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node of a cluster."""

    name: str
    """Name."""
    ready: bool
    """The node is ready."""
    cordoned: bool
    """Nothing is placed on it."""
    cordon_reason: str
    """Why."""
    allocatable: Mapping[str, int]
    """Base units by resource."""
    free: Mapping[str, int]
    """Base units by resource; may be negative for a moment."""
    labels: Mapping[str, str]
    """Labels."""
    last_choice_for: tuple[str, ...]
    """Job sets, as `queue/job set`, that failed on it so often that it is the last choice for some of their jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaledPod:
    """A pod that is resized while it runs, as it was from some time on; amounts in base units by resource."""

    cluster: str
    """Cluster it runs in."""
    job_id: str
    """Id of its job."""
    attempt: int
    """Attempt."""
    member: int
    """Number of the member in its run."""
    queue: str
    """Queue of its job."""
    requested: Mapping[str, int]
    """What its agent asked for."""
    approved: Mapping[str, int]
    """What it is permitted; nothing where no agent holds it."""
    actual: Mapping[str, int]
    """What the cluster shows: the most of desired, allocated and actual."""
    state: str
    """What keeps it there: as asked, waits for room, node drains, is moved, no agent, uncertain."""
    since: datetime | None
    """Since when it is so."""

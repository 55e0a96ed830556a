"""The leader's memory during one leadership: the scheduler's state and what the shell knows beside it.

Source: design section 5, "Round"; section 6, "Data layout".
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from argosy_core.scheduler import PoolState
from argosy_server.leader.latency import LatencyHistogram

if TYPE_CHECKING:
    from argosy.sampler.v1 import sampler_pb2
    from argosy_core.scheduler.messages import CapacityColumns, Int64s, StateColumns
    from argosy_server.leader.sync_sessions import SyncSession

__all__ = ["ClusterNotes", "LeaderMemory", "NodeNote", "ReportedStates", "SpecBodies"]

INBOX_LIMIT = 64
"""State batches that may wait for a round; a full inbox stops the streams from being read."""
STAGES = ("considered", "leased", "running", "finished")


@dataclass(slots=True)
class NodeNote:
    """A node as its sampler describes it, for people."""

    name: str
    """Name."""
    resources: tuple[str, ...]
    """Names of the amounts below."""
    allocatable: tuple[int, ...]
    """Total minus what the system keeps."""
    free: tuple[int, ...]
    """Free now."""
    flag: int
    """Bits: 1 ready, 2 cordoned."""
    group: bytes
    """Labels and taints as JSON."""

    def labels(self) -> dict[str, str]:
        """Return the node's labels."""
        labels: dict[str, str] = json.loads(self.group).get("labels", {}) if self.group else {}
        return labels


@dataclass(slots=True)
class ClusterNotes:
    """What the leader knows of a cluster beside the scheduler's view."""

    name: str
    """Name."""
    uid: str = ""
    """Uid the name is bound to."""
    cordoned: bool = False
    """Whether an administrator cordoned it."""
    cordon_reason: str = ""
    """Why."""
    cordoned_nodes: tuple[str, ...] = ()
    """Names of cordoned nodes."""
    nodes: dict[int, NodeNote] = field(default_factory=dict)
    """Nodes by index."""
    capacity: CapacityColumns | None = None
    """Totals as last told."""
    contact_time_us: int = 0
    """Last contact with its executor."""

    def take_capacity(self, columns: CapacityColumns, message: sampler_pb2.Capacity) -> None:
        """Take in changed nodes and totals."""
        self.capacity = columns
        groups = list(message.groups)
        group_index = np.frombuffer(message.group_column, dtype="<i4").tolist()
        rows = zip(
            columns.node.tolist(),
            columns.names,
            columns.allocatable.tolist(),
            columns.free.tolist(),
            columns.flag.tolist(),
            group_index,
            strict=True,
        )
        for index, name, allocatable, free, flag, group in rows:
            if flag & 4:
                self.nodes.pop(index, None)
            else:
                self.nodes[index] = NodeNote(
                    name, columns.resources, tuple(allocatable), tuple(free), flag, groups[group]
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedStates:
    """A batch of states that waits for a round."""

    session: SyncSession
    """Who reported."""
    batch: int
    """Number to answer once stored."""
    columns: StateColumns
    """The states."""


class SpecBodies:
    """Bodies of specs by hash, the most recently used ones, bounded by bytes.

    Args:
        limit_bytes: Most bytes kept.
    """

    def __init__(self, limit_bytes: int = 64 << 20) -> None:
        """Start empty."""
        self._bodies: OrderedDict[bytes, bytes] = OrderedDict()
        self._limit_bytes = limit_bytes
        self._size_bytes = 0

    def get(self, spec_hash: bytes) -> bytes | None:
        """Return a body if it is kept."""
        body = self._bodies.get(spec_hash)
        if body is not None:
            self._bodies.move_to_end(spec_hash)
        return body

    def add(self, bodies: Iterable[tuple[bytes, bytes]]) -> None:
        """Keep bodies; the least recently used ones go."""
        for spec_hash, body in bodies:
            if spec_hash not in self._bodies:
                self._bodies[spec_hash] = body
                self._size_bytes += len(body)
        while self._size_bytes > self._limit_bytes:
            _, body = self._bodies.popitem(last=False)
            self._size_bytes -= len(body)


@dataclass(slots=True)
class LeaderMemory:
    """All of one leadership's memory. Only the event loop touches it."""

    pool: str
    """Pool."""
    epoch: int
    """Epoch."""
    state: PoolState
    """The scheduler's state."""
    rng: np.random.Generator
    """The leader's random choices."""
    clock: Callable[[], float]
    """Seconds since the Unix epoch."""
    clusters: dict[str, ClusterNotes] = field(default_factory=dict)
    """Clusters by name."""
    definitions: dict[int, bytes] = field(default_factory=dict)
    """Definitions of scheduling classes by id."""
    specs: SpecBodies = field(default_factory=SpecBodies)
    """Bodies of specs."""
    inbox: deque[ReportedStates] = field(default_factory=deque)
    """State batches that wait for a round."""
    inbox_has_room: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while the inbox takes more."""
    news: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when something arrived that a round should see."""
    latencies: dict[str, LatencyHistogram] = field(
        default_factory=lambda: {stage: LatencyHistogram() for stage in STAGES}
    )
    """Time from submit to each stage."""
    totals: dict[str, int] = field(default_factory=dict)
    """Counts since the leader started."""
    phases_ms: dict[str, float] = field(default_factory=dict)
    """Where the last round's time went."""
    last_round: dict[str, Any] = field(default_factory=dict)
    """Figures of the last round."""

    def __post_init__(self) -> None:
        """Start with room in the inbox."""
        self.inbox_has_room.set()

    def cluster(self, name: str) -> ClusterNotes:
        """Return the notes of a cluster, made if new."""
        notes = self.clusters.get(name)
        if notes is None:
            notes = self.clusters[name] = ClusterNotes(name)
        return notes

    def count(self, name: str, amount: int) -> None:
        """Add to a total."""
        if amount:
            self.totals[name] = self.totals.get(name, 0) + amount

    def put_states(self, reported: ReportedStates) -> None:
        """Put a state batch in the inbox."""
        self.inbox.append(reported)
        if len(self.inbox) >= INBOX_LIMIT:
            self.inbox_has_room.clear()
        self.news.set()

    def take_inbox(self) -> list[ReportedStates]:
        """Take everything out of the inbox."""
        taken = list(self.inbox)
        self.inbox.clear()
        self.inbox_has_room.set()
        return taken

    def note_latency(self, stage: str, submit_time_us: Int64s, now_us: int) -> None:
        """Count the time from submit to a stage."""
        self.latencies[stage].add(submit_time_us, now_us)

"""The leader's memory during one leadership: the scheduler's state and what the shell knows beside it.

Source: design section 5, "Round"; section 6, "Data layout".
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from argosy_core.scheduler import PoolState
from argosy_server.leader.latency import LatencyHistogram
from argosy_server.leader.round_traces import RoundTraces, round_traces

if TYPE_CHECKING:
    from argosy_core.scheduler.messages import CapacityColumns, Int64s, StateColumns
    from argosy_server.leader.sync_sessions import SyncSession

__all__ = ["ClusterNotes", "LeaderMemory", "NodeNote", "NodeNotes", "ReportedStates", "SpecBodies"]

_REMOVED = 4
INBOX_LIMIT = 64
"""State batches that may wait for a round; a full inbox stops the streams from being read."""
STAGES = ("considered", "leased", "running", "finished")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeNote:
    """A node as its sampler describes it, for people."""

    name: str
    """Name."""
    allocatable: dict[str, int]
    """Total minus what the system keeps, base units by resource."""
    free: dict[str, int]
    """Free now."""
    flag: int
    """Bits: 1 ready, 2 cordoned."""
    labels: dict[str, str]
    """Labels."""


class NodeNotes:
    """A cluster's nodes as columns: a busy cluster tells of thousands of changes a second."""

    def __init__(self) -> None:
        """Start without nodes."""
        self._names: list[str] = []
        self._groups: list[bytes] = []
        self._resources: tuple[str, ...] = ()
        self._flag = np.zeros(0, dtype=np.int8)
        self._amounts = np.zeros((2, 0, 0), dtype=np.int64)

    def take(self, columns: CapacityColumns, groups: Sequence[bytes], group: npt.NDArray[np.int32]) -> None:
        """Take in changed nodes.

        Args:
            columns: The nodes.
            groups: Distinct labels and taints, JSON.
            group: Index into `groups` per node.
        """
        if not columns.node.size:
            return
        self._grow(int(columns.node.max()) + 1, columns.resources)
        self._flag[columns.node] = columns.flag
        place = np.array([self._resources.index(name) for name in columns.resources], dtype=np.int32)
        self._amounts[0][np.ix_(columns.node, place)] = columns.allocatable
        self._amounts[1][np.ix_(columns.node, place)] = columns.free
        for index, name, which in zip(columns.node.tolist(), columns.names, group.tolist(), strict=True):
            self._names[index] = name
            self._groups[index] = groups[which]

    def _grow(self, end: int, resources: tuple[str, ...]) -> None:
        """Make room for more nodes and resources."""
        self._resources += tuple(name for name in resources if name not in self._resources)
        missing = end - len(self._names)
        if missing > 0:
            self._names += [""] * missing
            self._groups += [b""] * missing
            self._flag = np.append(self._flag, np.full(missing, _REMOVED, dtype=np.int8))
        old = self._amounts
        if old.shape[1:] != (len(self._names), len(self._resources)):
            self._amounts = np.zeros((2, len(self._names), len(self._resources)), dtype=np.int64)
            self._amounts[:, : old.shape[1], : old.shape[2]] = old

    def rows(self) -> list[NodeNote]:
        """Return the nodes that are there, in order of their names."""
        there = np.flatnonzero((self._flag & _REMOVED) == 0).tolist()
        return [self._row(index) for index in sorted(there, key=self._names.__getitem__)]

    def _row(self, index: int) -> NodeNote:
        """Return one node."""
        allocatable, free = self._amounts[0, index].tolist(), self._amounts[1, index].tolist()
        group = json.loads(self._groups[index]) if self._groups[index] else {}
        return NodeNote(
            name=self._names[index],
            allocatable={name: amount for name, amount in zip(self._resources, allocatable, strict=True) if amount},
            free={
                name: amount
                for name, amount, whole in zip(self._resources, free, allocatable, strict=True)
                if amount or whole
            },
            flag=int(self._flag[index]),
            labels=group.get("labels", {}),
        )


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
    nodes: NodeNotes = field(default_factory=NodeNotes)
    """Its nodes."""
    capacity: CapacityColumns | None = None
    """Totals as last told."""
    contact_time_us: int = 0
    """Last contact with its executor, microseconds since the Unix epoch."""
    stored_contact_us: int = 0
    """The one that was last given to the database."""


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
    seed: int
    """What the leader's random choices are made of."""
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
    deciding: bool = False
    """True while a round is under way; what arrives meanwhile is read after it."""
    inbox_has_room: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while the inbox takes more."""
    unstored_handles: set[int] = field(default_factory=set)
    """Jobs whose lease is taken in here and not stored yet: no executor may hear of it."""
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
    rng: np.random.Generator = field(init=False)
    """The leader's random choices."""
    traces: RoundTraces | None = field(init=False)
    """Makes spans; None if this process does not trace."""

    def __post_init__(self) -> None:
        """Start with room in the inbox."""
        self.inbox_has_room.set()
        self.rng = np.random.default_rng(self.seed)
        self.traces = round_traces(self.pool)

    def cluster(self, name: str) -> ClusterNotes:
        """Return the notes of a cluster, made if new."""
        notes = self.clusters.get(name)
        if notes is None:
            notes = self.clusters[name] = ClusterNotes(name)
        return notes

    def note_contact(self, cluster: str) -> None:
        """Note that a cluster's executor was heard."""
        self.cluster(cluster).contact_time_us = int(self.clock() * 1e6)

    def take_contacts(self) -> dict[str, int]:
        """Return the last contacts by cluster that were not taken before, microseconds since the Unix epoch."""
        fresh = {}
        for name, notes in self.clusters.items():
            if notes.contact_time_us > notes.stored_contact_us:
                fresh[name] = notes.stored_contact_us = notes.contact_time_us
        return fresh

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

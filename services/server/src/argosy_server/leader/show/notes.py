"""What the leader's shell knows beside the machine: nodes for people, bodies of specs, how long things took.

Source: design section 5, "Round"; section 6, "Data layout".
"""

from __future__ import annotations

import json
import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from argosy_core.errors import InvalidRequest
from argosy_core.leader import Phase
from argosy_core.nodes import NodeColumns, NodeGroup, Taint
from argosy_core.scheduler import check_growth
from argosy_runtime.metrics import METRICS
from argosy_server.leader.show.latency import LatencyHistogram
from argosy_server.leader.show.pod_sizes import SizeNotes
from argosy_server.leader.show.round_traces import RoundTraces, round_traces

if TYPE_CHECKING:
    from argosy_core.arrays import Int64s
    from argosy_core.scheduler.columns.messages import CapacityColumns
    from argosy_store import ClusterRow

__all__ = ["ClusterNotes", "LeaderNotes", "NodeNote", "NodeNotes", "PhaseClock", "SpecBodies"]

_REMOVED = 4
_MAX_GROUPS_BYTES = 64 << 20
"""Labels and taints that one cluster's nodes may have, each distinct set once."""
_UNTIMED = (Phase.IDLE, Phase.LOADING, Phase.REPLAYING)
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
        self._distinct: dict[bytes, bytes] = {}
        self._distinct_bytes = 0
        self._resources: tuple[str, ...] = ()
        self._flag = np.zeros(0, dtype=np.int8)
        self._amounts = np.zeros((2, 0, 0), dtype=np.int64)

    def take(self, columns: CapacityColumns, groups: Sequence[bytes], group: npt.NDArray[np.int32]) -> None:
        """Take in changed nodes.

        Args:
            columns: The nodes.
            groups: Distinct labels and taints, JSON.
            group: Index into `groups` per node.

        Raises:
            InvalidRequest: There would be too much of them, or a group is not what it should be; nothing was taken.
        """
        if not columns.node.size:
            return
        resources = self._resources + tuple(name for name in columns.resources if name not in self._resources)
        check_growth(columns.node, len(self._names), len(resources))
        groups = self._intern(groups)
        self._grow(int(columns.node.max()) + 1, resources)
        self._flag[columns.node] = columns.flag
        place = np.array([self._resources.index(name) for name in columns.resources], dtype=np.int32)
        self._amounts[0][np.ix_(columns.node, place)] = columns.allocatable
        self._amounts[1][np.ix_(columns.node, place)] = columns.free
        for index, name, which in zip(columns.node.tolist(), columns.names, group.tolist(), strict=True):
            self._names[index] = name
            self._groups[index] = groups[which]

    def _intern(self, groups: Sequence[bytes]) -> list[bytes]:
        """Return groups, all of which can be read, as objects that stand once however many nodes have them.

        Raises:
            InvalidRequest: One cannot be read, or there would be too many.
        """
        fresh = {group for group in groups if group not in self._distinct}
        size_bytes = sum(map(len, fresh))
        if self._distinct_bytes + size_bytes > _MAX_GROUPS_BYTES:
            self._distinct = {group: group for group in self._groups}
            self._distinct_bytes = sum(map(len, self._distinct))
            if self._distinct_bytes + size_bytes > _MAX_GROUPS_BYTES:
                raise InvalidRequest(f"labels and taints of the nodes take more than {_MAX_GROUPS_BYTES >> 20} MiB")
        for group in fresh:
            _check_group(group)
        self._distinct.update((group, group) for group in fresh)
        self._distinct_bytes += size_bytes
        return [self._distinct[group] for group in groups]

    def _grow(self, end: int, resources: tuple[str, ...]) -> None:
        """Make room for more nodes and resources."""
        self._resources = resources
        missing = end - len(self._names)
        if missing > 0:
            self._names += [""] * missing
            self._groups += [b""] * missing
            self._flag = np.append(self._flag, np.full(missing, _REMOVED, dtype=np.int8))
        old = self._amounts
        if old.shape[1:] != (len(self._names), len(self._resources)):
            self._amounts = np.zeros((2, len(self._names), len(self._resources)), dtype=np.int64)
            self._amounts[:, : old.shape[1], : old.shape[2]] = old

    def columns(self) -> NodeColumns:
        """Return a copy of the nodes, those that went among them. Complexity: O(nodes), measured: 8 ms for 30,000."""
        distinct = {group: at for at, group in enumerate(dict.fromkeys(self._groups))}
        return NodeColumns(
            names=list(self._names),
            groups=[_read_group(group) for group in distinct],
            group=np.fromiter((distinct[group] for group in self._groups), np.int32, len(self._groups)),
            flags=self._flag.astype(np.uint8),
            resources=self._resources,
            allocatable=self._amounts[0].copy(),
            free=self._amounts[1].copy(),
        )

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


def _read_group(group: bytes) -> NodeGroup:
    """Return labels and taints as filters see them; what is no taint is left out."""
    document = json.loads(group) if group else {}
    told = document.get("taints", [])
    taints = [
        Taint(*(str(taint.get(part, "")) for part in ("key", "value", "effect")))
        for taint in (told if isinstance(told, list) else ())
        if isinstance(taint, dict)
    ]
    return NodeGroup.of(document.get("labels", {}), tuple(taints), ("", ""))


def _check_group(group: bytes) -> None:
    """Do nothing if labels and taints of a node can be read.

    Raises:
        InvalidRequest: They cannot.
    """
    try:
        document = json.loads(group) if group else {}
    except (ValueError, RecursionError) as cause:
        raise InvalidRequest("labels and taints of a node are no JSON") from cause
    labels = document.get("labels", {}) if isinstance(document, dict) else None
    if not isinstance(labels, dict) or not all(isinstance(value, str) for value in labels.values()):
        raise InvalidRequest("labels and taints of a node are no object with labels that are texts")
    try:
        "".join((*labels, *labels.values())).encode()
    except UnicodeEncodeError as cause:
        raise InvalidRequest("a label of a node is no UTF-8") from cause


@dataclass(slots=True)
class ClusterNotes:
    """What the leader knows of a cluster beside the scheduler's view."""

    name: str
    """Name."""
    cordoned_nodes: tuple[str, ...] = ()
    """Names of cordoned nodes."""
    nodes: NodeNotes = field(default_factory=NodeNotes)
    """Its nodes."""
    capacity: CapacityColumns | None = None
    """Totals as last told."""
    sizes: SizeNotes = field(default_factory=SizeNotes)
    """Its scaled pods."""


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


class LeaderNotes:
    """What a leader's shell knows beside the machine. Only the event loop touches it.

    Args:
        pool: Pool.
    """

    def __init__(self, pool: str) -> None:
        """Start with nothing known."""
        self.clusters: dict[str, ClusterNotes] = {}
        """Clusters by name."""
        self.specs = SpecBodies()
        """Bodies of specs."""
        self.traces: RoundTraces | None = round_traces(pool)
        """Makes spans; None if this process does not trace."""
        self.clock = PhaseClock()
        """Times phases and stages."""

    def cluster(self, name: str) -> ClusterNotes:
        """Return the notes of a cluster, made if new."""
        notes = self.clusters.get(name)
        if notes is None:
            notes = self.clusters[name] = ClusterNotes(name)
        return notes

    def note_cluster(self, row: ClusterRow) -> None:
        """Note a cluster's settings as the database has them."""
        self.cluster(row.name).cordoned_nodes = tuple(row.cordoned_nodes)


class PhaseClock:
    """Times a machine's phases and its jobs' stages; implements `argosy_core.leader.Observer`."""

    def __init__(self) -> None:
        """Start with nothing measured."""
        self.phases_ms: dict[str, float] = {}
        """Where the last cycle's time went."""
        self.latencies = {stage: LatencyHistogram() for stage in STAGES}
        """Time from submit to each stage."""
        self._phase = Phase.LOADING
        self._begun_s = time.perf_counter()

    def enter(self, phase: Phase) -> None:
        """Take note that a phase begins; with idleness a cycle has ended."""
        now_s = time.perf_counter()
        if self._phase not in _UNTIMED:
            took_ms = (now_s - self._begun_s) * 1000
            self.phases_ms[self._phase] = self.phases_ms.get(self._phase, 0.0) + took_ms
        if phase is Phase.TAKING:
            self.phases_ms = {}
        elif phase is Phase.IDLE:
            for name, took_ms in self.phases_ms.items():
                METRICS.round_phase_seconds.labels(name).observe(took_ms / 1000)
        self._phase, self._begun_s = phase, now_s

    def reach(self, stage: str, submit_time_us: Int64s, now_us: int) -> None:
        """Count the time from submit to a stage."""
        self.latencies[stage].add(submit_time_us, now_us)

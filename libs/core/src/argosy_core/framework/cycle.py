"""One sampling cycle: what plugins are given, and where they leave notes for each other.

A cycle judges k pods against n nodes each at once. Plugins see all of it through one object; gathers from the node
table are made once and shared.

Source: seed 002 "Communication and statefulness of plugins"; design section 6, "vectorised plugins".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import cast

import numpy as np
import numpy.typing as npt

from argosy_core.framework.faults import Fault
from argosy_core.framework.pods import ClassTable, PodBatch
from argosy_core.job.reading.classes import SchedulingClass
from argosy_core.job.tables.members import Members
from argosy_core.nodes import NodeSpec, NodeTable

__all__ = ["Cycle", "NodesChanged", "PlacementBatch"]

Bools = npt.NDArray[np.bool_]
Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
Gather = Callable[[str, npt.NDArray[np.generic]], npt.NDArray[np.generic]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementBatch:
    """n members of runs and the node of each, in the sampler's commit; one may stand several times in post-score."""

    table: NodeTable
    """The node table."""
    classes: ClassTable
    """The class table."""
    members: Members
    """(n,) members of runs."""
    class_slots: Int32s
    """(n,) slots of the class table."""
    nodes: Int32s
    """(n,) rows of the node table."""
    state: dict[str, object] = field(default_factory=dict)
    """Notes by key, shared by all plugins of one commit."""

    def __len__(self) -> int:
        """Return the number of lines."""
        return len(self.members)

    def take(self, lines: npt.NDArray[np.integer] | Bools | slice) -> PlacementBatch:
        """Return some of the lines as a batch of their own, with the same notes."""
        return replace(self, members=self.members[lines], class_slots=self.class_slots[lines], nodes=self.nodes[lines])

    def definition(self, line: int) -> SchedulingClass:
        """Return the class of a line's run."""
        return self.classes[int(self.class_slots[line])]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesChanged:
    """An event: nodes that came or are otherwise, and nodes that went."""

    put: tuple[NodeSpec, ...]
    """As they are now."""
    removed: tuple[str, ...]
    """Names."""


class Cycle:
    """k pods against n nodes each, and the notes of this cycle.

    Args:
        table: The node table.
        pods: k pods.
        nodes: (k, n) rows of the table, or (1, n) if all pods look at the same nodes; -1 is a place left empty.
            Gathers are fastest if they are of NumPy's index type.
        gather: How to look a column of the table up for `nodes`, given a name that is the column's own; for callers
            whose nodes stand in an order that allows it faster than one by one.
    """

    __slots__ = ("_gather", "_gathered", "alive", "faults", "nodes", "plugin", "pods", "state", "table")

    def __init__(
        self, table: NodeTable, pods: PodBatch, nodes: npt.NDArray[np.integer], gather: Gather | None = None
    ) -> None:
        """Begin a cycle."""
        self.table = table
        self.pods = pods
        self.nodes = nodes.astype(np.intp, copy=False)
        self.state: dict[str, object] = {}
        """Notes by key; trusted plugins may read and write all of them. Gone with the cycle."""
        self.alive: Bools = np.broadcast_to(nodes >= 0, (len(pods), nodes.shape[1]))
        """(k, n): nodes that no earlier filter turned away; a filter need not look at the others."""
        self.faults: dict[int, Fault] = {}
        """By class slot: the error or request to wait that turned the class away on some node; the first one counts."""
        self.plugin = ""
        """Name of the plugin that is being asked."""
        # A method of our own would make a ring of references, and what was gathered stay until the next collection.
        self._gather = gather
        self._gathered: dict[str, npt.NDArray[np.generic]] = {}

    def __len__(self) -> int:
        """Return the number of pods."""
        return len(self.pods)

    def postpone(self, pods: npt.NDArray[np.integer] | Bools, reason: str, *, retry_after_s: float = 0.0) -> None:
        """Turn pods away for a while; for pre-filter, filter and post-filter functions.

        Args:
            pods: Positions in the batch, or a mask of it.
            reason: What users read.
            retry_after_s: In how many seconds to ask again; 0 leaves it to the scheduler.
        """
        self.turn_away(pods, Fault(plugin=self.plugin, reason=reason, retry_after_s=retry_after_s, is_objection=True))

    def turn_away(self, pods: npt.NDArray[np.integer] | Bools, fault: Fault) -> None:
        """Leave no node to some pods of the batch, because of a fault."""
        for slot in self.pods.slots[pods].tolist():
            self.faults.setdefault(slot, fault)
        alive = self.alive.copy()
        alive[pods] = False
        self.alive = alive

    def halves(self) -> tuple[Cycle, Cycle]:
        """Return the cycle as two, with half of the pods each; both write the same notes and faults."""
        middle = len(self) // 2
        first, second = self._rows(slice(0, middle)), self._rows(slice(middle, None))
        return first, second

    def _rows(self, rows: slice) -> Cycle:
        pods = self.pods.table.batch(self.pods.slots[rows])
        part = Cycle(self.table, pods, self.nodes[rows] if len(self.nodes) > 1 else self.nodes)
        part.alive, part.state, part.faults, part.plugin = self.alive[rows], self.state, self.faults, self.plugin
        return part

    def narrowed(self, width: int) -> Cycle:
        """Return the cycle with the nodes that are left only, moved to the front of (k, width) places.

        Args:
            width: At least as many as any pod has nodes left.
        """
        pods, places = np.nonzero(self.alive)
        begins = np.searchsorted(pods, np.arange(len(self.pods)))
        nodes = np.full((len(self.pods), width), -1, np.intp)
        rows = self.nodes[pods, places] if len(self.nodes) > 1 else self.nodes[0, places]
        nodes[pods, np.arange(len(pods)) - begins[pods]] = rows
        narrow = Cycle(self.table, self.pods, nodes)
        narrow.state, narrow.faults = self.state, self.faults
        return narrow

    @property
    def shape(self) -> tuple[int, int]:
        """(k, n)."""
        return len(self.pods), self.nodes.shape[1]

    def free(self, resource: int) -> Int64s:
        """Return what is free of a resource, shaped as `nodes`."""
        return cast("Int64s", self._look_up(f"free {resource}", self.table.free[resource]))

    def inverse_allocatable(self, resource: int) -> npt.NDArray[np.float64]:
        """Return 1 / allocatable of a resource, shaped as `nodes`."""
        column = self._look_up(f"inverse {resource}", self.table.inverse_allocatable[resource])
        return cast("npt.NDArray[np.float64]", column)

    def group(self) -> Int32s:
        """Return the group of each node, shaped as `nodes`."""
        return cast("Int32s", self._look_up("group", self.table.group))

    def flags(self) -> npt.NDArray[np.uint8]:
        """Return the flags of each node (bits of NodeFlag), shaped as `nodes`."""
        return cast("npt.NDArray[np.uint8]", self._look_up("flags", self.table.flags))

    def _look_up(self, name: str, column: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        """Return a column of the table for `nodes`, gathered once."""
        gathered = self._gathered.get(name)
        if gathered is None:
            gathered = column.take(self.nodes) if self._gather is None else self._gather(name, column)
            self._gathered[name] = gathered
        return gathered

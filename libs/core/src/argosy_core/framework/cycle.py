"""One scheduling cycle: what plugins are given, and where they leave notes for each other.

A cycle judges k pods against n nodes each at once. Plugins see all of it through one object; gathers from the node
table are made once and shared.

Source: seed 002 "Communication and statefulness of plugins"; design section 6, "vectorised plugins".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt

from argosy_core.framework.pods import PodBatch
from argosy_core.nodes import NodeTable

__all__ = ["Assignment", "Cycle", "Fault"]

Bools = npt.NDArray[np.bool_]
Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
Gather = Callable[[str, npt.NDArray[np.generic]], npt.NDArray[np.generic]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """A pod of the cycle and the node chosen for it."""

    run_key: int
    """Identity of the run (argosy_core.job.identity.run_key)."""
    pod: int
    """Position in the cycle's batch."""
    node: int
    """Row of the node table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A plugin objected or failed."""

    plugin: str
    """Name of the plugin."""
    reason: str
    """What it said."""
    is_objection: bool = False
    """The plugin objects, with a reason of its own; otherwise it failed."""
    retry_after_s: float = 0.0
    """When it wants to be asked again, seconds; 0 if it does not say."""


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

    __slots__ = ("_gather", "_gathered", "alive", "faults", "nodes", "pods", "state", "table")

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
        self.faults: list[Fault] = []
        """Errors of score plugins, which never block."""
        # A method of our own would make a ring of references, and what was gathered stay until the next collection.
        self._gather = gather
        self._gathered: dict[str, npt.NDArray[np.generic]] = {}

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

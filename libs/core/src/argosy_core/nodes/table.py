"""The node table: every node of a cluster as columns, so that one NumPy operation looks at all of them.

Rows are nodes, numbered in the order in which they came. A node that went leaves a hole, which a node of the same name
fills again. Once there are more holes than nodes, those on which nothing is booked lose their names and are given to
new nodes, so that a cluster whose nodes come and go keeps its size: `last_rename` says when that was last.

Resource columns are int64 base units in the order of a `ResourceAxis`, stored resource by resource
(`array[resource, node]`), so that one resource of many nodes is contiguous.

Three numbers per node say when it changed: `changed_at` for any change, `described_at` for any but of what pods take of
it, `risen_at` for a change after which a pod may fit that did not fit before. They are generations of the table, which
grow with each call that changes something.
`last_rise` is the latest of all nodes' `risen_at`.

Owns the columns and their generations. What comes in and goes out is in `records`, which knows no table.

Source: design section 6, "Data layout"; seed 001 "Basics: reserved, system, and total".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import has_true, true_places
from argosy_core.job.reading.classes import HostPort
from argosy_core.nodes.claims import PortClaims
from argosy_core.nodes.groups import HOSTNAME_LABEL, GroupTable, NodeGroup
from argosy_core.nodes.records import ANY_NODE, DEFAULT_POD_COUNT, NodeColumns, NodeFlag, NodeSpec, NodeTotals
from argosy_core.resources import DEFAULT_AXIS, PODS, ResourceAxis

__all__ = ["NodeTable"]

Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]

# NumPy takes a member of an IntFlag for an int64.
_READY: Final = np.uint8(1)
_REMOVED: Final = np.uint8(4)
_COMPACT_SLACK: Final = 64
_FIRST_CAPACITY: Final = 64


class NodeTable:
    """All nodes of one cluster.

    Args:
        axis: Resource columns to begin with; others join as nodes name them.

    The invariant `free == allocatable - reserved` is kept by whoever calls `take` and `give` (the ledger).
    """

    def __init__(self, axis: ResourceAxis = DEFAULT_AXIS) -> None:
        """Start without nodes."""
        self.axis = axis
        self.groups = GroupTable()
        self.generation = 0
        self.last_rise = 0
        self.names: list[str] = []
        self.hostnames: list[str] = []
        self.membership = 0
        self._index: dict[str, int] = {}
        self._count = 0
        self._allocatable = np.zeros((len(axis), _FIRST_CAPACITY), np.int64)
        self._system = np.zeros_like(self._allocatable)
        self._free = np.zeros_like(self._allocatable)
        self._inverse = np.zeros(self._allocatable.shape, np.float64)
        self._flags = np.zeros(_FIRST_CAPACITY, np.uint8)
        self._group = np.zeros(_FIRST_CAPACITY, np.int32)
        self._changed_at = np.zeros(_FIRST_CAPACITY, np.int64)
        self._described_at = np.zeros(_FIRST_CAPACITY, np.int64)
        self._risen_at = np.zeros(_FIRST_CAPACITY, np.int64)
        self._named_at = np.zeros(_FIRST_CAPACITY, np.int64)
        self.last_rename = 0
        """Generation at which rows last lost or got names; 0 if none ever has."""
        self._spare: list[int] = []
        self._unschedulable: set[str] = set()
        self._admin_cordons: frozenset[str] = frozenset()
        self.ports = PortClaims()
        """Host ports in use, by row; change them through `take_ports` and `give_ports`."""
        self.any_row = -1
        """Row of `ANY_NODE`, on which stands what is leased to the cluster and not placed; -1 before there was any."""

    @classmethod
    def of(cls, columns: NodeColumns) -> NodeTable:
        """Return a table of nodes as another process has told them; a node's host name is taken to be its name.

        Complexity: O(nodes x resources) in NumPy, Python work per name and group.
        """
        table = cls()
        table.extend_axis(columns.resources)
        count = len(columns.names)
        if not count:
            return table
        place = [table.axis.index(name) for name in columns.resources]
        table._allocatable = np.zeros((len(table.axis), count), np.int64)
        table._allocatable[place] = columns.allocatable.T
        table._free = np.zeros_like(table._allocatable)
        table._free[place] = columns.free.T
        table._system = np.zeros_like(table._allocatable)
        held = table._allocatable > 0
        table._inverse = np.divide(1.0, table._allocatable, out=np.zeros(held.shape), where=held)
        table._flags = columns.flags.astype(np.uint8)
        table._group = np.array([table.groups.intern(group) for group in columns.groups], np.int32)[columns.group]
        table._changed_at, table._described_at, table._risen_at = (np.ones(count, np.int64) for _ in range(3))
        table._named_at = np.zeros(count, np.int64)
        table.names, table.hostnames = list(columns.names), list(columns.names)
        table._index = {name: row for row, name in enumerate(table.names)}
        table._count, table.generation, table.membership, table.last_rise = count, 1, 1, 1
        return table

    # --- reading ------------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """Return the number of rows, holes included."""
        return self._count

    @property
    def allocatable(self) -> Int64s:
        """(resource, node): total minus system; 0 for removed nodes."""
        return self._allocatable[:, : self._count]

    @property
    def system(self) -> Int64s:
        """(resource, node): what is kept for the system."""
        return self._system[:, : self._count]

    @property
    def free(self) -> Int64s:
        """(resource, node): free now; may be negative."""
        return self._free[:, : self._count]

    @property
    def inverse_allocatable(self) -> npt.NDArray[np.float64]:
        """(resource, node): 1 / allocatable, 0 where there is nothing."""
        return self._inverse[:, : self._count]

    @property
    def flags(self) -> npt.NDArray[np.uint8]:
        """(node,): bits of NodeFlag."""
        return self._flags[: self._count]

    @property
    def group(self) -> Int32s:
        """(node,): index into `groups`."""
        return self._group[: self._count]

    @property
    def changed_at(self) -> Int64s:
        """(node,): generation of the last change."""
        return self._changed_at[: self._count]

    def index_of(self, names: Iterable[str]) -> Int32s:
        """Return the row of each name, -1 for names that have none."""
        index = self._index
        return np.fromiter((index.get(name, -1) for name in names), np.int32)

    def usable(self) -> npt.NDArray[np.bool_]:
        """Return, per node, whether it is ready and neither cordoned nor removed."""
        return np.asarray(self.flags == _READY)

    def live(self) -> Int32s:
        """Return the rows of all nodes that are in the cluster, ascending."""
        return true_places(self.flags & _REMOVED == 0).astype(np.int32)

    def changed_since(self, generation: int) -> Int32s:
        """Return the rows that changed after a generation, ascending."""
        return true_places(self.changed_at > generation).astype(np.int32)

    def described_since(self, generation: int) -> Int32s:
        """Return the rows that came, went or are otherwise after a generation, ascending; reservations do not count."""
        return true_places(self._described_at[: self._count] > generation).astype(np.int32)

    def risen_since(self, generation: int) -> Int32s:
        """Return the rows on which, after a generation, something may fit that did not before, ascending."""
        return true_places(self._risen_at[: self._count] > generation).astype(np.int32)

    def renamed_since(self, rows: npt.NDArray[np.integer], generation: int) -> npt.NDArray[np.bool_]:
        """Return which rows, -1 and beyond the last one included, stand for another node than at a generation."""
        if self.last_rename <= generation:
            return np.zeros(rows.size, np.bool_)
        inside = (rows >= 0) & (rows < self._count)
        return inside & (self._named_at[np.where(inside, rows, 0)] > generation)

    def totals(self) -> NodeTotals:
        """Return the sums over usable nodes; what is free of one that takes no more pods is no use to anybody."""
        usable = self.usable()
        open_ = usable & (self.free[self.axis.index(PODS)] > 0)
        free = np.maximum(self.free, 0).sum(axis=1, where=open_)
        if self.any_row >= 0:  # what is leased to the cluster will take of it somewhere
            free = np.maximum(free + self.free[:, self.any_row], 0)
        return NodeTotals(
            allocatable=self.allocatable.sum(axis=1, where=usable),
            free=free,
            node_count=int(np.count_nonzero(self.flags & _REMOVED == 0)),
            usable_count=int(np.count_nonzero(usable)),
        )

    def emptied(self, free: Int64s | None = None, *, keeps_ports: bool = False) -> NodeTable:
        """Return these nodes as if nothing were reserved on them; all else is shared, so only read it, at once.

        Args:
            free: (resource, node) what is free on them instead of all that they have.
            keeps_ports: Whether host ports stay taken.
        """
        other = copy(self)
        ports = self.ports if keeps_ports else PortClaims()
        vars(other).update(_free=self._allocatable if free is None else free, ports=ports)
        return other

    # --- nodes --------------------------------------------------------------------------------------------------------

    def put(self, nodes: Sequence[NodeSpec]) -> Int32s:
        """Add nodes or replace what is known of them; what is reserved on them stays reserved.

        Returns:
            The row of each node. Nodes that are as they were do not count as changed.
        """
        named = {name: None for node in nodes for amounts in (node.total, node.system) for name in amounts}
        self.extend_axis(named)
        if sum(node.name not in self._index for node in nodes) > len(self._spare):
            self._find_spare()
        generation = self.generation + 1
        rows = np.fromiter((self._put_one(node, generation) for node in nodes), np.int32, len(nodes))
        self.generation = generation
        if len(self.groups) > 2 * max(1, self._count) + _COMPACT_SLACK:
            self._compact_groups()
        return rows

    def hold_any(self) -> int:
        """Return the row of `ANY_NODE`; it keeps it for ever."""
        return self.hold_name(ANY_NODE)

    def hold_name(self, name: str) -> int:
        """Return the row of a name; one that has none gets one as a removed node without resources."""
        row = self._index.get(name)
        if row is None:
            row = self._append(name)
            self._group[row] = self.groups.intern(NodeGroup())
            self.generation += 1
            self._changed_at[row] = self.generation
            if name == ANY_NODE:
                self.any_row = row
        return row

    def remove(self, names: Iterable[str]) -> Int32s:
        """Take nodes out of the cluster; their rows and what is reserved on them stay.

        Returns:
            The rows of those that were there.
        """
        rows = [row for row in self.index_of(names).tolist() if row >= 0 and not self._flags[row] & NodeFlag.REMOVED]
        if rows:
            self.generation += 1
            self.membership += 1
            self._free[:, rows] -= self._allocatable[:, rows]
            for array in (self._allocatable, self._system, self._inverse):
                array[:, rows] = 0
            self._flags[rows] = NodeFlag.REMOVED
            self._changed_at[rows] = self._described_at[rows] = self.generation
            self._unschedulable.difference_update(self.names[row] for row in rows)
        return np.array(rows, np.int32)

    def set_cordons(self, names: Iterable[str]) -> None:
        """Say which nodes an administrator cordoned: all of them; replaces what was said before."""
        wanted = frozenset(names)
        touched = self.index_of(wanted ^ self._admin_cordons).tolist()
        self._admin_cordons = wanted
        self.generation += 1
        for row in touched:
            if row >= 0 and not self._flags[row] & NodeFlag.REMOVED:
                self._set_flags(row, bool(self._flags[row] & NodeFlag.READY), self.generation)

    def extend_axis(self, names: Iterable[str]) -> None:
        """Make sure that each resource has a column; new columns are 0 on every node."""
        axis = self.axis.extend(names)
        added = len(axis) - len(self.axis)
        if added:
            self.axis = axis
            rows = ((0, added), (0, 0))
            self._allocatable = np.pad(self._allocatable, rows)
            self._system = np.pad(self._system, rows)
            self._free = np.pad(self._free, rows)
            self._inverse = np.pad(self._inverse, rows)

    # --- reservations -------------------------------------------------------------------------------------------------

    def take(self, nodes: npt.NDArray[np.integer], amounts: Int64s) -> None:
        """Subtract amounts from what is free, whether it is there or not.

        Args:
            nodes: n rows, repeats allowed.
            amounts: (resource, n) base units.
        """
        self.generation += 1
        for column, amount in zip(self._free, amounts, strict=True):
            np.subtract.at(column, nodes, amount)
        self._changed_at[nodes] = self.generation

    def give(self, nodes: npt.NDArray[np.integer], amounts: Int64s) -> None:
        """Add amounts to what is free; arguments as in `take`."""
        self.generation += 1
        for column, amount in zip(self._free, amounts, strict=True):
            np.add.at(column, nodes, amount)
        self._changed_at[nodes] = self.generation
        self._risen_at[nodes] = self.generation
        if len(nodes):
            self.last_rise = self.generation

    def roll_back(self, nodes: npt.NDArray[np.integer], amounts: Int64s) -> None:
        """Undo a `take` of the same call: as `give`, but no node counts as risen, because none is freer than before."""
        for column, amount in zip(self._free, amounts, strict=True):
            np.add.at(column, nodes, amount)

    def take_ports(self, node: int, ports: Iterable[HostPort]) -> None:
        """Note that one more pod holds host ports of a node."""
        self.ports.take(node, ports)

    def give_ports(self, node: int, ports: Iterable[HostPort]) -> None:
        """Note that a pod no longer holds host ports of a node."""
        self.generation += 1
        self.ports.give(node, ports)
        self._risen_at[node] = self.last_rise = self.generation

    # --- parts --------------------------------------------------------------------------------------------------------

    def _put_one(self, node: NodeSpec, generation: int) -> int:
        """Add or replace one node."""
        row = self._index.get(node.name)
        if row is None:
            row = self._append(node.name)
        removed = bool(self._flags[row] & NodeFlag.REMOVED)
        total = self.axis.vector({PODS: DEFAULT_POD_COUNT, **node.total})
        system = self.axis.vector(node.system)
        allocatable = total - system
        gain = allocatable - self._allocatable[:, row]
        group = self.groups.intern(NodeGroup.of(node.labels, node.taints, node.platform))
        hostname = node.labels.get(HOSTNAME_LABEL, "")
        relabelled = removed or group != self._group[row] or hostname != self.hostnames[row]
        if relabelled:
            self.membership += 1
        if relabelled or has_true(gain) or has_true(system != self._system[:, row]):
            self._changed_at[row] = self._described_at[row] = generation
            self._free[:, row] += gain
            self._allocatable[:, row] = allocatable
            self._system[:, row] = system
            self._inverse[:, row] = np.divide(1.0, allocatable, out=np.zeros(len(self.axis)), where=allocatable > 0)
            self._group[row] = group
            self.hostnames[row] = hostname
            if relabelled or has_true(gain > 0):
                self._risen_at[row] = self.last_rise = generation
        (self._unschedulable.add if node.unschedulable else self._unschedulable.discard)(node.name)
        self._set_flags(row, node.ready, generation)
        return row

    def _set_flags(self, row: int, ready: bool, generation: int) -> None:  # noqa: FBT001 - a state, not a switch
        """Set the flags of a node from readiness and cordons; a removed node asked here is back."""
        name = self.names[row]
        cordoned = name in self._unschedulable or name in self._admin_cordons
        flags = (NodeFlag.READY if ready else 0) | (NodeFlag.CORDONED if cordoned else 0)
        if flags != self._flags[row]:
            self._flags[row] = flags
            self._changed_at[row] = self._described_at[row] = generation
            if flags == NodeFlag.READY:
                self._risen_at[row] = self.last_rise = generation

    def _append(self, name: str) -> int:
        """Return a new row for a name, as a removed node without resources."""
        if self._spare:
            row = self._spare.pop()
            self.names[row], self.hostnames[row] = name, ""
            self._named_at[row] = self.last_rename = self.generation + 1
        else:
            row = self._count
            if row == len(self._flags):
                self._grow()
            self._count += 1
            self.names.append(name)
            self.hostnames.append("")
        self._index[name] = row
        self._flags[row] = NodeFlag.REMOVED
        self.membership += 1
        return row

    def _find_spare(self) -> None:
        """Take their names from nodes that went and on which nothing is booked, if there are more holes than nodes.

        Complexity: O(rows) in NumPy, and Python work per hole.
        """
        holes = self.flags & _REMOVED != 0
        if 2 * np.count_nonzero(holes) <= self._count or self._count < _FIRST_CAPACITY:
            return
        holes &= (self.free == 0).all(axis=0)  # each pod takes one of `pods`
        holes[self._spare] = False
        if self.any_row >= 0:
            holes[self.any_row] = False
        found = true_places(holes).tolist()
        if found:
            self.membership += 1
            self._named_at[found] = self.last_rename = self.generation + 1
        for row in found:
            del self._index[self.names[row]]
        self._spare = sorted([*self._spare, *found], reverse=True)

    def _grow(self) -> None:
        """Double the capacity of every column."""
        wide, narrow = ((0, 0), (0, len(self._flags))), (0, len(self._flags))
        self._allocatable = np.pad(self._allocatable, wide)
        self._system = np.pad(self._system, wide)
        self._free = np.pad(self._free, wide)
        self._inverse = np.pad(self._inverse, wide)
        self._flags = np.pad(self._flags, narrow)
        self._group = np.pad(self._group, narrow)
        self._changed_at = np.pad(self._changed_at, narrow)
        self._described_at = np.pad(self._described_at, narrow)
        self._risen_at = np.pad(self._risen_at, narrow)
        self._named_at = np.pad(self._named_at, narrow)

    def _compact_groups(self) -> None:
        """Drop groups that no node has, so that labels which change all the time cost no memory."""
        moved = self.groups.compact(np.unique(self.group).tolist())
        self._group[: self._count] = [moved[old] for old in self.group.tolist()]

"""One placement of a gang: every sub-group gets its minimum or nothing is placed, near each other, then little is lost.

First the largest number of hops within any sub-group is made as small as it can be, then each sub-group's own; then the
tightest subtree is taken, and the tightest nodes in it, so that large subtrees and empty nodes stay whole for gangs to
come. For one sub-group that is the optimum. Several are packed largest first and, where that fails, in other orders; a
packing that none of them finds is missed.

Source: 003 "Distributed jobs", "Topology-aware scheduling"; design section 7, invariant 7.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Final

import numpy as np

from argosy_core.arrays import Bools, Int32s, Int64s
from argosy_core.errors import InvalidRequest
from argosy_core.gang.topology import Topology

__all__ = ["MAX_ORDERED_COUNT", "GangPlaces", "SubGroup", "place_gang"]

MAX_ORDERED_COUNT: Final = 4
"""Up to so many sub-groups are tried in every order, more in a few orders only."""
_ALL: Final = slice(None)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SubGroup:
    """Pods that are alike; n nodes, r resources."""

    request: Int64s
    """(r,) what one pod asks for, base units."""
    minimum: int
    """Pods without which the gang cannot begin, at least 1."""
    maximum: int
    """Pods that it can use."""
    eligible: Bools
    """(n,) nodes that the pods may be on."""
    max_hops: int = -1
    """Most hops between any two of its pods; negative for no limit."""
    most_on_a_node: int = 1 << 15
    """Most of its pods on one node."""

    def __post_init__(self) -> None:
        """Refuse numbers that contradict each other.

        Raises:
            InvalidRequest: The minimum is below 1 or above the maximum, or a request is negative or nothing at all.
        """
        if not 1 <= self.minimum <= self.maximum:
            raise InvalidRequest(f"a sub-group of {self.minimum} to {self.maximum} pods: give 1 <= min <= max")
        if (self.request < 0).any() or not self.request.any():
            raise InvalidRequest("a pod of a sub-group asks for some amount of a resource, and for none below zero")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GangPlaces:
    """Where the pods of a gang go."""

    nodes: tuple[Int32s, ...]
    """For each sub-group the node of each pod, ascending; at least its minimum."""
    hops: tuple[int, ...]
    """For each sub-group the largest number of hops between two of its pods."""


@dataclass(slots=True, kw_only=True)
class _Room:
    """What is left while a gang is placed; changed in place."""

    free: Int64s
    """(r, n) free amounts."""
    open: Bools
    """(n,) nodes that may be used: all, or for gangs of whole nodes the empty ones and those it has taken."""

    def count(self, group: SubGroup, limit: int, nodes: Int32s | slice = _ALL) -> Int64s:
        """Return pods of a sub-group that each of some nodes holds, at most a limit."""
        asked = np.flatnonzero(group.request)
        possible = self.open[nodes] & group.eligible[nodes]
        counts = np.full(possible.size, min(limit, group.most_on_a_node), dtype=np.int64)
        for row in asked.tolist():
            np.minimum(counts, self.free[row, nodes] // group.request[row], out=counts)
        counts[~possible] = 0
        return np.maximum(counts, 0, out=counts)

    def take(self, group: SubGroup, nodes: Int32s) -> Int32s:
        """Take what pods on some nodes ask for; return each of these nodes once."""
        places, counts = np.unique(nodes, return_counts=True)
        self.free[:, places] -= group.request[:, None] * counts
        return places

    def give_back(self, group: SubGroup, nodes: Int32s) -> None:
        """Undo `take`."""
        places, counts = np.unique(nodes, return_counts=True)
        self.free[:, places] += group.request[:, None] * counts


class _Counts:
    """How many pods of a sub-group nodes and subtrees hold before anything of its gang is placed.

    Every order begins with it, and what is placed since changes it on a few nodes only; so a try costs by those and by
    the subtrees of a level, not by all nodes.

    Args:
        topology: The tree.
        room: What is left.
        group: The sub-group.
    """

    def __init__(self, topology: Topology, room: _Room, group: SubGroup) -> None:
        """Count on all nodes."""
        self._topology = topology
        self._room = room
        self._group = group
        self._on_nodes = room.count(group, group.minimum)
        self._sums: list[Int64s] = []

    def lowest_level(self) -> int | None:
        """Return the lowest level at which a subtree holds the minimum, None if the limit of hops does not allow it."""
        highest = self._topology.highest_level(self._group.max_hops)
        wanted = self._group.minimum
        return next((level for level in range(highest + 1) if (self._sum(level) >= wanted).any()), None)

    def place(self, touched: Int32s, ceiling: int) -> Int32s | None:
        """Return nodes for the minimum, None if no subtree up to a level holds it.

        Args:
            touched: Distinct nodes on which something was placed since.
            ceiling: The level.
        """
        topology, group = self._topology, self._group
        lost = self._on_nodes[touched] - self._room.count(group, group.minimum, touched)
        for level in range(min(ceiling, topology.highest_level(group.max_hops)) + 1):
            column, sums = topology.subtrees[level], self._sum(level)
            if touched.size:
                sums = sums.copy()
                np.subtract.at(sums, column[touched], lost)
            subtree = _tightest(sums, group.minimum)
            if subtree >= 0:
                counts = self._on_nodes.copy()
                counts[touched] -= lost
                rows = np.flatnonzero((column == subtree) & (counts > 0)).astype(np.int32)
                return np.sort(_fill(topology, rows, counts, level=level, wanted=group.minimum))
        return None

    def _sum(self, level: int) -> Int64s:
        while len(self._sums) <= level:
            self._sums.append(self._topology.sums(len(self._sums), self._on_nodes))
        return self._sums[level]


def place_gang(
    topology: Topology, free: Int64s, groups: Sequence[SubGroup], *, empty: Bools | None = None
) -> GangPlaces | None:
    """Return where the minimum of every sub-group goes, or None if there is no room for all of them.

    Args:
        topology: The tree of n nodes.
        free: (r, n) free amounts; a negative amount is no room.
        groups: The sub-groups; any number.
        empty: (n,) nodes on which nothing runs, for a gang that takes whole nodes; None for one that shares them. Pods
            of the gang share nodes with each other either way.

    Raises:
        InvalidRequest: The columns differ in length.

    Complexity: O(n x (r + levels)) for each sub-group; where several hinder each other, up to 24 orders of O(subtrees +
        pods x levels) for each.
    """
    node_count = topology.subtrees[0].size
    if free.shape[1] != node_count or any(group.eligible.size != node_count for group in groups):
        raise InvalidRequest("the columns of a gang's placement do not have one element for each node")
    usable: Bools = np.all(free >= 0, axis=0)
    room = _Room(free=free.copy(), open=usable if empty is None else np.logical_and(usable, empty))
    counts = [_Counts(topology, room, group) for group in groups]
    known = []
    for one in counts:
        level = one.lowest_level()
        if level is None:
            return None
        known.append(level)
    # No level below the largest of these is enough, whatever the order.
    for ceiling in range(max(known, default=0), topology.level_count):
        for order in _orders(groups):
            placed = _place_in_order(room, groups, counts, order=order, ceiling=ceiling)
            if placed is not None:
                hops = tuple(topology.hops_between(nodes) for nodes in placed)
                return GangPlaces(nodes=tuple(placed), hops=hops)
    return None


def _orders(groups: Sequence[SubGroup]) -> Iterable[Sequence[int]]:
    """Return orders to pack sub-groups in: those with the narrowest limit and the most pods first, then others."""
    numbers = range(len(groups))
    limits = [group.max_hops if group.max_hops >= 0 else np.inf for group in groups]
    first = sorted(numbers, key=lambda number: (limits[number], -groups[number].minimum))
    yield first
    if len(groups) <= MAX_ORDERED_COUNT:
        yield from (order for order in permutations(first) if list(order) != first)
    else:
        yield sorted(numbers, key=lambda number: -groups[number].minimum)
        yield first[::-1]


def _place_in_order(
    room: _Room, groups: Sequence[SubGroup], counts: Sequence[_Counts], *, order: Sequence[int], ceiling: int
) -> list[Int32s] | None:
    """Place sub-groups one after the other, none above a level; return the nodes of each, None if one has no room.

    The room is afterwards what it was.
    """
    placed: dict[int, Int32s] = {}
    touched = np.zeros(0, dtype=np.int32)
    for number in order:
        nodes = counts[number].place(touched, ceiling)
        if nodes is None:
            break
        placed[number] = nodes
        touched = np.union1d(touched, room.take(groups[number], nodes))
    for number, nodes in placed.items():
        room.give_back(groups[number], nodes)
    return [placed[number] for number in range(len(groups))] if len(placed) == len(groups) else None


def _tightest(sums: Int64s, wanted: int) -> int:
    """Return the subtree with the least room that is enough, the first of equals, -1 if there is none."""
    enough = np.flatnonzero(sums >= wanted)
    return int(enough[np.argmin(sums[enough])]) if enough.size else -1


def _fill(topology: Topology, rows: Int32s, counts: Int64s, *, level: int, wanted: int) -> Int32s:
    """Return a node for each of so many pods, out of the nodes of one subtree of a level, which hold them.

    The tightest child that holds all that is left gets it; while none does, the roomiest is filled up. So as few
    children as possible are touched, and the last of them no more than need be.

    Args:
        topology: The tree.
        rows: Nodes of the subtree that hold a pod or more.
        counts: (n,) pods that each node holds.
        level: Level of the subtree.
        wanted: Pods to place, at most the sum of `counts` over `rows`.

    Complexity: O(m log m) for m nodes of the subtree.
    """
    if level == 0:
        return np.full(wanted, rows[0], dtype=np.int32)
    if level == 1:
        child_of, sums = np.arange(rows.size, dtype=np.int32), counts[rows]
    else:
        child_of = topology.subtrees[level - 1][rows]
        sums = np.bincount(child_of, weights=counts[rows]).astype(np.int64)
    by_room = np.argsort(-sums, kind="stable")
    rising, taken = -sums[by_room], np.cumsum(sums[by_room])
    full_count = int(np.searchsorted(taken, wanted))
    if full_count:
        wanted -= int(taken[full_count - 1])
    # The last that is enough, in the order of falling room, is the tightest; the first of its equals is taken.
    tightest = rising[np.searchsorted(rising, -wanted, side="right") - 1]
    last = by_room[max(full_count, int(np.searchsorted(rising, tightest)))]
    is_full = np.zeros(sums.size, dtype=np.bool_)
    is_full[by_room[:full_count]] = True
    full = rows[is_full[child_of]]
    rest = _fill(topology, rows[child_of == last], counts, level=level - 1, wanted=wanted)
    return np.concatenate([np.repeat(full, counts[full]), rest])

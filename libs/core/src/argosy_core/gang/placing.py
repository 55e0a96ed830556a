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

__all__ = ["MAX_ORDERED_COUNT", "GangPlaces", "SubGroup", "grow_gang", "place_gang"]

MAX_ORDERED_COUNT: Final = 4
"""Up to so many sub-groups are tried in every order, more in a few orders only."""


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

    def count(self, group: SubGroup, limit: int) -> Int64s:
        """Return (n,) pods of a sub-group that each node holds, at most a limit."""
        asked = np.flatnonzero(group.request)
        counts = np.full(self.open.size, min(limit, group.most_on_a_node), dtype=np.int64)
        for row in asked.tolist():
            np.minimum(counts, self.free[row] // group.request[row], out=counts)
        counts[~(self.open & group.eligible)] = 0
        return np.maximum(counts, 0, out=counts)

    def take(self, group: SubGroup, nodes: Int32s) -> None:
        """Take what pods on some nodes ask for."""
        places, counts = np.unique(nodes, return_counts=True)
        self.free[:, places] -= group.request[:, None] * counts

    def copy(self) -> _Room:
        """Return a copy to try something on."""
        return _Room(free=self.free.copy(), open=self.open)


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

    Complexity: O(levels x (n x r + subtrees)) for one sub-group; for several that, times their number, times up to 24
        orders where they hinder each other.
    """
    node_count = topology.subtrees[0].size
    if free.shape[1] != node_count or any(group.eligible.size != node_count for group in groups):
        raise InvalidRequest("the columns of a gang's placement do not have one element for each node")
    usable: Bools = np.all(free >= 0, axis=0)
    room = _Room(free=free, open=usable if empty is None else np.logical_and(usable, empty))
    lowest = [_lowest_level(topology, room.count(group, group.minimum), group) for group in groups]
    if None in lowest:
        return None
    known = [level for level in lowest if level is not None]
    # No level below the largest of these is enough, whatever the order.
    for ceiling in range(max(known, default=0), topology.level_count):
        for order in _orders(groups):
            placed = _place_in_order(topology, room.copy(), groups, order=order, ceiling=ceiling)
            if placed is not None:
                hops = tuple(topology.hops_between(nodes) for nodes in placed)
                return GangPlaces(nodes=tuple(placed), hops=hops)
    return None


def grow_gang(
    topology: Topology, free: Int64s, groups: Sequence[SubGroup], places: GangPlaces, *, empty: Bools | None = None
) -> GangPlaces:
    """Return the places of a gang, and more up to each sub-group's maximum, where hops do not become more by it.

    Args:
        topology: The tree of n nodes.
        free: (r, n) free amounts beside what `places` take, which is not yet taken off.
        groups: The sub-groups.
        places: What `place_gang` gave.
        empty: As for `place_gang`.

    Complexity: O(sub-groups x levels x n x r).
    """
    usable: Bools = np.all(free >= 0, axis=0)
    room = _Room(free=free.copy(), open=usable if empty is None else np.logical_and(usable, empty))
    for group, nodes in zip(groups, places.nodes, strict=True):
        room.take(group, nodes)
    grown = []
    for group, nodes, hops in zip(groups, places.nodes, places.hops, strict=True):
        counts = room.count(group, group.maximum - nodes.size)
        column = topology.subtrees[hops // 2]
        rows = np.flatnonzero((column == column[nodes[0]]) & (counts > 0)).astype(np.int32)
        wanted = min(group.maximum - nodes.size, int(counts[rows].sum()))
        more = _fill(topology, rows, counts, level=hops // 2, wanted=wanted) if wanted else nodes[:0]
        room.take(group, more)
        grown.append(np.sort(np.concatenate([nodes, more])))
    return GangPlaces(nodes=tuple(grown), hops=tuple(topology.hops_between(nodes) for nodes in grown))


def _lowest_level(topology: Topology, counts: Int64s, group: SubGroup) -> int | None:
    """Return the lowest level at which a subtree holds a sub-group's minimum, None if its limit does not allow it."""
    for level in range(topology.highest_level(group.max_hops) + 1):
        if (topology.sums(level, counts) >= group.minimum).any():
            return level
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
    topology: Topology, room: _Room, groups: Sequence[SubGroup], *, order: Sequence[int], ceiling: int
) -> list[Int32s] | None:
    """Place sub-groups one after the other, none above a level; return the nodes of each, None if one has no room."""
    placed: list[Int32s] = [np.zeros(0, dtype=np.int32)] * len(groups)
    for number in order:
        group = groups[number]
        counts = room.count(group, group.minimum)
        for level in range(min(ceiling, topology.highest_level(group.max_hops)) + 1):
            sums = topology.sums(level, counts)
            subtree = _tightest(sums, group.minimum)
            if subtree >= 0:
                rows = np.flatnonzero((topology.subtrees[level] == subtree) & (counts > 0)).astype(np.int32)
                placed[number] = np.sort(_fill(topology, rows, counts, level=level, wanted=group.minimum))
                room.take(group, placed[number])
                break
        else:
            return None
    return placed


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
    _, child_of = np.unique(topology.subtrees[level - 1][rows], return_inverse=True)
    sums = np.bincount(child_of, weights=counts[rows]).astype(np.int64)
    by_room = np.argsort(-sums, kind="stable")
    rising = -sums[by_room]
    parts, position = [], 0
    while wanted:
        if -rising[position] >= wanted:
            # The last that is enough, in the order of falling room, is the tightest; the first of its equals is taken.
            tightest = rising[np.searchsorted(rising, -wanted, side="right") - 1]
            position = max(position, int(np.searchsorted(rising, tightest)))
        child = by_room[position]
        part = min(wanted, int(sums[child]))
        parts.append(_fill(topology, rows[child_of == child], counts, level=level - 1, wanted=part))
        wanted -= part
        position += 1
    return np.concatenate(parts)

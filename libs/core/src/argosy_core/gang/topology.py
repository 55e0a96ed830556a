"""The network of a cluster as a tree over its nodes, read from their labels.

A *level* is one label key, the lowest first: say rack, then pod, then hall. Two pods on one node are 0 hops apart, in
one subtree of the lowest level 2, of the next 4, and so on; across subtrees of the highest two more than within one. A
node without the label of a level is a subtree of its own there and below, so nothing is taken to be near it.

Source: 003 "Topology-aware scheduling"; design section 6, "hops".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from argosy_core.arrays import Int32s, Int64s
from argosy_core.errors import InvalidRequest

__all__ = ["Topology"]


@dataclass(frozen=True, slots=True, eq=False)
class Topology:
    """Subtrees of n nodes at each of l levels; level 0 is the node itself and level l + 1 the whole cluster."""

    subtrees: tuple[Int32s, ...]
    """l + 2 columns of n: number of the subtree that each node is in, counted from 0 at each level."""

    @staticmethod
    def of(node_count: int, levels: Sequence[Sequence[str]] = ()) -> Topology:
        """Return the tree that labels make.

        Equal names below different parents are different subtrees: racks may be numbered anew in each pod.

        Args:
            node_count: n nodes.
            levels: For each level, the lowest first, the value of its label on each node; empty where it has none.

        Raises:
            InvalidRequest: A level does not have n values.

        Complexity: O(n x levels), in Python; it is made anew when labels change, not for each gang.
        """
        if any(len(values) != node_count for values in levels):
            raise InvalidRequest(f"each level of a topology says the label of each of {node_count} nodes")
        columns = [np.zeros(node_count, dtype=np.int32)]
        parents: list[object] = [()] * node_count
        for values in reversed(levels):
            numbers: dict[object, int] = {}
            column = np.zeros(node_count, dtype=np.int32)
            for node, value in enumerate(values):
                # Without the label the node is alone here, and so it is below.
                parents[node] = (parents[node], value or node)
                column[node] = numbers.setdefault(parents[node], len(numbers))
            columns.append(column)
        columns.append(np.arange(node_count, dtype=np.int32))
        return Topology(tuple(reversed(columns)))

    @property
    def level_count(self) -> int:
        """Levels, those of the nodes and of the whole cluster included."""
        return len(self.subtrees)

    def hops_of(self, level: int) -> int:
        """Return the hops between two pods that share a subtree of a level and none below."""
        return 2 * level

    def highest_level(self, max_hops: int) -> int:
        """Return the highest level whose subtrees keep a limit of hops; negative for no limit."""
        highest = self.level_count - 1
        return highest if max_hops < 0 else min(max_hops // 2, highest)

    def sums(self, level: int, amounts: Int64s) -> Int64s:
        """Return (subtrees of a level,) sums of an amount of each node."""
        if level == 0:
            return amounts
        if level == self.level_count - 1:
            return np.array([amounts.sum()], dtype=np.int64)
        # Counts of pods stay far below 2**53, where sums of floats are exact.
        return np.bincount(self.subtrees[level], weights=amounts).astype(np.int64)

    def hops_between(self, nodes: Int32s) -> int:
        """Return the largest number of hops between any two of some nodes, 0 for none.

        Complexity: O(nodes x levels).
        """
        if not nodes.size:
            return 0
        return next(
            self.hops_of(level)
            for level, column in enumerate(self.subtrees)
            if (column[nodes] == column[nodes[0]]).all()
        )

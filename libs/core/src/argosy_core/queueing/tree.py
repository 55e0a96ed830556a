"""Queues below queues: each node of the tree stands among its siblings with the flow of all that is below it.

The rule of filling holds at each level: of all children with work, the one whose flow divided by weight would be
smallest if its next job ran, and within it the same, down to a queue. As long as every job finds a place this is a
merge of merges, computed level by level, deepest first, with one sort each.

Jobs of a queue that has others below it stand among these as a child of weight 1.

Source: 003 "Global prioritisation", applied at each level.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import find_begins, run_sizes
from argosy_core.queueing.flow import flow_keys

__all__ = ["QueueTree"]

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueTree:
    """Nodes above queues. Entities are numbered: first q queues, as leaves, then m nodes; all columns have q + m."""

    parent: Int64s
    """Entity above each; -1 below the root."""
    depth: Int64s
    """1 for those below the root, 2 for those below them, and so on."""
    entity_id: Int64s
    """Ids that decide ties, with the turn; a leaf and the node of one queue have the same."""
    weight: npt.NDArray[np.float64]
    """Weight among the siblings."""
    flow: npt.NDArray[np.float64]
    """Flow of all below, brought up to this moment, cores."""
    usage: Int64s
    """Usage of held jobs of all below, micro-cores."""

    def path(self, leaf: int) -> list[int]:
        """Return a leaf and what stands above it, upwards."""
        path = [leaf]
        while self.parent[path[-1]] >= 0:
            path.append(int(self.parent[path[-1]]))
        return path

    def with_placed(self, leaves: npt.NDArray[np.integer], usage: Int64s) -> Int64s:
        """Return the usage of each entity once jobs of some leaves are placed, too."""
        total = self.usage.copy()
        entity = leaves.astype(np.int64)
        while entity.size:
            np.add.at(total, entity, usage)
            entity = self.parent[entity]
            usage, entity = usage[entity >= 0], entity[entity >= 0]
        return total

    def order(
        self, ranks: Int64s, leaves: Int64s, usage: Int64s
    ) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.float64]]:
        """Return the filling order of jobs if every one finds a place, and the key of each below the root.

        Args:
            ranks: Rank of each entity, by flow until now and the turn.
            leaves: Queue of each job; jobs of one queue stand together, in its order.
            usage: Usage of each job, micro-cores.

        Complexity: O(n log n) in NumPy for each level.
        """
        sequence, entity = np.arange(leaves.size), leaves.astype(np.int64)
        keys = np.zeros(leaves.size)
        for depth in range(int(self.depth[leaves].max(initial=0)), 0, -1):
            is_here = self.depth[entity[sequence]] == depth
            here, others = sequence[is_here], sequence[~is_here]
            here = here[np.argsort(entity[here], kind="stable")]
            of = entity[here]
            running = np.cumsum(usage[here])
            begins = find_begins(of)
            before = np.concatenate([[0], running])[begins]
            after = self.usage[of] + running - np.repeat(before, run_sizes(begins, of.size))
            keys[here] = flow_keys(self.flow[of], after, self.weight[of])
            merged = here[np.lexsort((ranks[of], keys[here], self.weight[of] <= 0, self.parent[of]))]
            entity[merged] = self.parent[entity[merged]]
            sequence = np.concatenate([others, merged])
        return sequence, keys

"""Which queues stand below which: sums over branches, and the tree that filling looks at.

Source: 003 "Global prioritisation", at each level of a tree of queues.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import Int64s
from argosy_core.queueing import QueueTree

__all__ = ["MAX_DEPTH", "Branches"]

MAX_DEPTH = 8
"""Levels of queues; each costs a sort in every round."""

Floats = npt.NDArray[np.float64]


class Branches:
    """The tree of a pool's queues, by their indices."""

    def __init__(self) -> None:
        """Have all queues side by side."""
        self.parents: dict[int, str] = {}
        """Index -> name of the queue above; those without are left out."""
        self.above: Int64s = np.zeros(0, dtype=np.int64)
        """Index of the queue above each, -1 for none."""
        self.depth: Int64s = np.zeros(0, dtype=np.int64)
        """1 for a queue with none above, 2 below that, and so on."""
        self.flow: Floats = np.zeros(0, dtype=np.float64)
        """Flow of each queue that has others below, with all of them, cores."""
        self._levels: list[Int64s] = []

    def __bool__(self) -> bool:
        """Tell whether any queue stands below another."""
        return bool(self._levels)

    def arrange(self, names: Mapping[int, str], flow: Floats) -> None:
        """Find anew what stands where, after queues came, went or moved.

        The flow of a queue that others now stand below begins as the sum of theirs. A queue that moves takes its own
        flow along: what it leaves remembers it as it was, what it joins remembers it from now on.

        Args:
            names: Index -> name of all queues.
            flow: Flow of each queue's own jobs, cores.
        """
        if not self.parents and not self:
            return
        known = {name: index for index, name in names.items()}
        was_parent = set(self.above[self.above >= 0].tolist())
        self.flow = np.concatenate([self.flow, np.zeros(flow.size - self.flow.size)])
        self.above = np.full(flow.size, -1, dtype=np.int64)
        self.depth = np.ones(flow.size, dtype=np.int64)
        for index, name in self.parents.items():
            if index in names:
                self.above[index] = known.get(name, -1)
        for index in names:
            path = [index]
            while self.above[path[-1]] >= 0 and len(path) <= MAX_DEPTH:
                path.append(int(self.above[path[-1]]))
            if len(path) > MAX_DEPTH:
                self.above[index] = -1  # a circle that the database refuses, seen half way through two moves
            else:
                self.depth[index] = len(path)
        deepest = int(self.depth.max(initial=1))
        self._levels = [np.flatnonzero(self.depth == depth) for depth in range(deepest, 1, -1)]
        begun = list(set(self.above[self.above >= 0].tolist()) - was_parent)
        self.flow[begun] = self.sum_below(flow)[begun]

    def forget(self, index: int) -> None:
        """Let go of a queue that is dropped; `arrange` follows."""
        self.parents.pop(index, None)

    def sum_below(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the sum of each queue's value and of those of all below it. Complexity: O(queues) in NumPy."""
        total = values.copy()
        for rows in self._levels:
            np.add.at(total, self.above[rows], total[rows])
        return total

    def levels(self) -> list[Int64s]:
        """Return the queues below others by their depth, those nearest to the root first."""
        return self._levels[::-1]

    def child_of(self, rows: Int64s, above: int) -> Int64s:
        """Return which child of a queue, -1 for the root, each of some queues below it is or stands below.

        A queue that is `above` itself stands for its own jobs.
        """
        child = rows.copy()
        for _ in range(len(self._levels)):
            up = (child != above) & (self.above[child] != above)
            child[up] = self.above[child[up]]
        return child

    def is_parent(self) -> npt.NDArray[np.bool_]:
        """Return which queues have others below them."""
        parents = np.zeros(self.above.size, dtype=np.bool_)
        parents[self.above[self.above >= 0]] = True
        return parents

    def tree(self, rows: Int64s, *, queue_id: Int64s, weight: Floats, flow: Floats, usage: Int64s) -> QueueTree | None:
        """Return what stands above some queues, which are its leaves; None if nothing does.

        Args:
            rows: Indices of the queues.
            queue_id: Ids, by index; as the following.
            weight: Weights.
            flow: Flows of own jobs, cores.
            usage: Usage of own jobs, micro-cores.
        """
        if not self:
            return None
        # A queue with others below it stands for its whole branch, even while none of these has work.
        found, above = [rows[self.is_parent()[rows]]], np.unique(self.above[rows])
        while (above := above[above >= 0]).size:
            found.append(above)
            above = np.unique(self.above[above])
        nodes = np.unique(np.concatenate(found))
        if not nodes.size:
            return None
        entity = np.full(self.above.size + 1, -1, dtype=np.int64)  # the last for those with none above
        entity[nodes] = rows.size + np.arange(nodes.size)
        is_own = entity[rows] >= 0  # of a queue with others below: its jobs stand among these
        above_rows = np.where(is_own, entity[rows], entity[self.above[rows]])
        return QueueTree(
            parent=np.concatenate([above_rows, entity[self.above[nodes]]]),
            depth=np.concatenate([self.depth[rows] + is_own, self.depth[nodes]]),
            entity_id=queue_id[np.concatenate([rows, nodes])],
            weight=np.concatenate([np.where(is_own, 1.0, weight[rows]), weight[nodes]]),
            flow=np.concatenate([flow[rows], self.flow[nodes]]),
            usage=np.concatenate([usage[rows], self.sum_below(usage)[nodes]]),
        )

"""How many pods of each class wait, and how many nodes answer that.

Np says how many eligible nodes are enough to choose one pod's node among. A request stands for all waiting pods of a
class, which may be more than so many nodes hold: then a round would give out no more than they hold, however much is
free elsewhere. So a sampler looks on until what it found holds the pods that wait, and answers as many nodes as that
takes.

Source: seed 000 "Sampling Phase", where a request is for one pod; design section 5, "Round" 2 ("how many pods fit").
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import true_places
from argosy_core.framework import ClassTable
from argosy_core.nodes import NodeTable

__all__ = ["NODE_BITS", "Needs", "count_room", "nodes_of"]

Bools = npt.NDArray[np.bool_]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]

NODE_BITS: Final = 21
"""Lowest bits of a rank, which say the node."""
_MANY: Final = np.array(np.iinfo(np.int32).max, np.int64)


def nodes_of(ranks: Int64s) -> Int32s:
    """Return the nodes that ranks are of."""
    return (ranks & ((1 << NODE_BITS) - 1)).astype(np.int32)


def count_room(table: NodeTable, classes: ClassTable, slots: npt.NDArray[np.integer], ranks: Int64s) -> Int64s:
    """Return how many pods of a class the nodes hold that are eligible for it.

    Args:
        table: The node table.
        classes: The classes.
        slots: k slots of the class table.
        ranks: (k, n) ranks of eligible nodes; -1 is a place left empty.

    Returns:
        (k, n) pods, at least 1 at a node, 0 where there is none.
    """
    requests = classes.requests[slots]
    held = ranks >= 0
    nodes = nodes_of(ranks) * held
    most = np.where(classes.port[slots] > 0, 1, _MANY)  # a host port is there once
    rooms = most[:, None].repeat(ranks.shape[1], axis=1)
    for column in requests.any(axis=0).nonzero()[0].tolist():
        asked = requests[:, column, None]
        free = table.free[column].take(nodes)
        np.minimum(
            rooms, free // asked if asked.all() else np.where(asked, free // np.maximum(asked, 1), _MANY), out=rooms
        )
    np.maximum(rooms, 1, out=rooms)
    rooms *= held
    return rooms


class Needs:
    """Pods that wait of the classes of one request, and how many nodes each is answered.

    Args:
        table: The node table.
        classes: The classes.
        slots: (c,) slots of the classes asked for.
        wanted: (c,) how many pods of each wait.
        enough: Eligible nodes that are enough to choose among.
        spare: Candidates beyond one per waiting pod.
    """

    def __init__(
        self,
        table: NodeTable,
        classes: ClassTable,
        slots: Int32s,
        *,
        wanted: npt.NDArray[np.integer],
        enough: int,
        spare: int,
    ) -> None:
        """Allow every class as many nodes as are enough to choose among, but not many more than it has pods."""
        self._table = table
        self._classes = classes
        self._slots = slots
        self._wanted = wanted.astype(np.int64)
        self._spare = spare
        self.enough = enough
        """Eligible nodes that are enough to choose among."""
        self._limits: Int64s = np.minimum(max(enough, spare), self._wanted + spare)
        self.node_count = int(self._limits.sum())
        """Nodes that all classes together are allowed, not counting those for want of room."""

    def are_lacking(self, positions: npt.NDArray[np.intp], ranks: Int64s, found: Int32s) -> Bools:
        """Return of which classes more pods wait than the nodes found hold.

        Args:
            positions: k positions in the request.
            ranks: (k, n) ranks of what was found for them.
            found: (k,) how many nodes that is.

        Complexity: one comparison a class; O(n) for classes of which more pods wait than nodes were found.
        """
        lacking: Bools = self._wanted[positions] > found  # a node that was found holds one at least
        for_many = true_places(lacking)
        if for_many.size:
            rooms = self._count_room(positions[for_many], ranks[for_many])
            lacking[for_many] = rooms.sum(axis=1) < self._wanted[positions[for_many]]
        return lacking

    def limit_nodes(self, positions: npt.NDArray[np.intp], ranks: Int64s) -> Int64s:
        """Return how many nodes classes are answered: more than are enough to choose among where these hold too little.

        Args:
            positions: k positions in the request.
            ranks: (k, n) ranks of what was found for them.
        """
        limits = self._limits[positions]
        wanted = self._wanted[positions]
        many = true_places(wanted > limits)
        if many.size:
            best_first = np.sort(ranks[many], axis=1)[:, ::-1]
            held = np.cumsum(self._count_room(positions[many], best_first), axis=1)
            needed = np.count_nonzero(held < wanted[many, None], axis=1) + 1
            more = np.minimum(needed, wanted[many]) + self._spare
            limits[many] = np.where(needed > limits[many], more, limits[many])
        return limits

    def _count_room(self, positions: npt.NDArray[np.intp], ranks: Int64s) -> Int64s:
        return count_room(self._table, self._classes, self._slots[positions], ranks)

"""Classes of a request that ask for devices, as GPUs: their pods share nodes rather than each open another.

A device is one pod's alone, so two pods with a device each do not disturb each other on one node, while a node of which
one device is taken is lost to whoever needs all of them.

Source: design section 6, "lost opportunity"; decision 0026.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import true_places
from argosy_core.framework import ClassTable
from argosy_core.nodes import NodeTable
from argosy_core.placement.needs import nodes_of

__all__ = ["DeviceClasses"]

Bools = npt.NDArray[np.bool_]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]


class DeviceClasses:
    """Which classes of one request ask for devices that the cluster has, and how many in all.

    Args:
        table: The node table.
        classes: The classes.
        slots: (c,) slots of the classes asked for, -1 for those that are not known.
        wanted: (c,) how many pods of each wait.
    """

    def __init__(self, table: NodeTable, classes: ClassTable, slots: Int32s, wanted: npt.NDArray[np.integer]) -> None:
        """Count what is asked for. Complexity: a few operations a device of the axis."""
        self._table = table
        known = slots >= 0
        self.asking: Bools = np.zeros(slots.size, np.bool_)
        """(c,) which classes ask for a device."""
        self._column = np.zeros(slots.size, np.intp)
        self._demand = np.zeros(len(table.axis), np.int64)
        for column in table.axis.devices:
            asked = (
                np.where(known, classes.requests[slots, column], 0) if table.allocatable[column].any() else known[:0]
            )
            if asked.any():
                self.asking |= asked > 0
                self._column[asked > 0] = column
                self._demand[column] = int((asked * wanted).sum())

    def reach(self, positions: npt.NDArray[np.intp], ranks: Int64s) -> Int64s:
        """Return how many of the best nodes have the devices that all classes of the request together ask for.

        Args:
            positions: k positions of classes that ask for a device.
            ranks: (k, n) ranks of what was found for them, best first; -1 for none.

        Returns:
            (k,) nodes, at least 1.
        """
        reaches = np.ones(positions.size, np.int64)
        columns = self._column[positions]
        for column in set(columns.tolist()):
            rows = true_places(columns == column)
            held = ranks[rows] >= 0
            free = np.maximum(self._table.free[column].take(nodes_of(ranks[rows]) * held), 0) * held
            short = (np.cumsum(free, axis=1) < self._demand[column]) & held
            reaches[rows] += np.count_nonzero(short, axis=1)
        return reaches

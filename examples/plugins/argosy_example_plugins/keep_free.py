"""A plugin of the commit profile: part of some nodes stays free, whatever filters found a moment ago."""

import numpy as np

from argosy_core.framework import PlacementBatch


class KeepFree:
    """Check-conflicts of `keep-free`: what is placed on a node leaves a share of a resource."""

    def __init__(self, ratio: str, resource: str = "cpu", nodes: str = "") -> None:
        """Take the share, the resource, and names of nodes with spaces between them; none means all nodes."""
        self._ratio, self._resource, self._nodes = float(ratio), resource, frozenset(nodes.split())

    def check_conflicts(self, batch: PlacementBatch) -> np.ndarray:
        """Return (n,): which placements leave enough; the table has them all taken off already."""
        table, rows = batch.table, batch.nodes
        column = table.axis.index(self._resource)
        leaves = table.free[column, rows] >= self._ratio * table.allocatable[column, rows]
        if not self._nodes:
            return leaves
        return leaves | np.array([table.names[row] not in self._nodes for row in rows.tolist()], dtype=np.bool_)

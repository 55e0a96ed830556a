"""What members of runs hold that have their nodes for themselves.

Source: 003 "Resource usage" (a job on nodes of its own is charged for all of them).
"""

from __future__ import annotations

import numpy as np

from argosy_core.arrays import Int64s
from argosy_core.framework import ClassTable
from argosy_core.job.tables.members import Members
from argosy_core.ledger.placements import PlacementTable
from argosy_core.nodes import NodeTable
from argosy_core.resources import PODS

__all__ = ["whole_node_amounts"]


def whole_node_amounts(
    table: PlacementTable, nodes: NodeTable, classes: ClassTable, pool: int
) -> tuple[Members, Int64s]:
    """Return the members of a pool's runs that have their nodes for themselves, and what each holds by that.

    The members of a run on one node hold even parts of all that it has, the first one what is left over; of `pods` each
    holds its own.

    Returns:
        n members; (n, resource) base units in axis order.

    Complexity: O(placements) in NumPy; nothing while no class asks for whole nodes.
    """
    slots = table.live() if classes.whole.any() else np.zeros(0, np.int32)
    slots = slots[(table.pool[slots] == pool) & (table.class_slot[slots] >= 0) & (table.handle[slots] >= 0)]
    slots = slots[classes.whole[table.class_slot[slots]] & (table.scaled[slots] == 0)]
    slots = slots[np.lexsort((table.ordinal[slots], table.node[slots]))]
    rows, first, which, count = np.unique(table.node[slots], return_index=True, return_inverse=True, return_counts=True)
    has = np.maximum(nodes.allocatable[:, rows].T, 0)
    amounts = (has // count[:, None])[which]
    amounts[first] += has - amounts[first] * count[:, None]
    requests = classes.requests[table.class_slot[slots]]
    pods = nodes.axis.index(PODS)
    amounts[:, pods] = requests[:, pods]
    return table.keys(slots), np.maximum(amounts, requests)

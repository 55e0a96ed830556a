"""What must hold of a ledger between any two of its calls; checked by tests and by simulated worlds.

Source: design section 7; seed 001 "Basics".
"""

from __future__ import annotations

import numpy as np

from argosy_core.errors import InvariantViolation
from argosy_core.framework import ClassTable
from argosy_core.job.reading.scaling import SCALED
from argosy_core.ledger.permits import PermitLedger
from argosy_core.ledger.placements import PlacementTable
from argosy_core.nodes import NodeTable, PortClaims

__all__ = ["check_ledger"]


def check_ledger(table: PlacementTable, nodes: NodeTable, classes: ClassTable, permits: PermitLedger) -> None:
    """Compare what is booked with the placements it is made of.

    Args:
        table: The placements.
        nodes: What is free.
        classes: The classes that placements name.
        permits: What pods that are resized may have.

    Raises:
        InvariantViolation: What is free of a node is not allocatable minus the amounts of its placements, or something
            is kept for a placement that ended, or a placement names a class that is not there.
    """
    slots = table.live()
    free = nodes.allocatable.copy()
    for column, amount in zip(free, table.amounts[:, slots], strict=True):
        np.subtract.at(column, table.node[slots], amount)
    free[[nodes.axis.index(name) for name in SCALED]] -= permits.room.withheld()
    wrong = np.argwhere(free != nodes.free)
    if len(wrong):
        resource, node = wrong[0].tolist()
        raise InvariantViolation(
            f"node {nodes.names[node]} has {nodes.free[resource, node]} {nodes.axis.names[resource]} free, "
            f"but its placements leave {free[resource, node]}"
        )
    permits.check_invariants()
    if len(slots) != len(table) or (table.slots(table.keys(slots)) != slots).any():
        raise InvariantViolation("a placement is held by nobody, or is not found by its key")
    if (table.class_slot[slots] >= classes.ids.end).any():
        raise InvariantViolation("a placement names a class that is not there")
    held = PortClaims()
    for slot in slots[table.port[slots] > 0].tolist():
        held.take(int(table.node[slot]), classes.ports[int(table.port[slot])])
    if held.counts() != nodes.ports.counts():
        raise InvariantViolation("host ports in use are not those of the placements")

"""What placements take of their nodes: amounts by their classes, and host ports.

Owns every change of what a placement is booked at that its class, its leader or its pod makes. May import placements,
nodes and classes; knows no pool, and nothing of why a placement begins or ends.

Source: seed 001 "Basics"; design section 6 "ledger transitions".
"""

from __future__ import annotations

from typing import Final

import numpy as np

from argosy_core.arrays import Int32s, Int64s, has_true, true_places
from argosy_core.framework import ClassTable
from argosy_core.ledger.placements import Hold, PlacementTable
from argosy_core.nodes import NodeTable
from argosy_core.resources import PODS

__all__ = ["Bookings"]

# NumPy takes a member of an IntFlag for an int64.
_LEADER: Final = np.uint8(Hold.LEADER)


class Bookings:
    """The bookings of one cluster.

    Args:
        placements: Who takes how much.
        nodes: What is free.
        classes: What pods ask for; another table may take its place.
    """

    def __init__(self, placements: PlacementTable, nodes: NodeTable, classes: ClassTable) -> None:
        """Start with what the tables hold."""
        self._placements = placements
        self.nodes = nodes
        self.classes = classes
        """The scheduling classes that placements name by their slots."""

    def amounts(self, class_slots: Int32s, nodes: Int32s) -> Int64s:
        """Return (resource, n) what pods take of their nodes.

        One that shares its node with pods of its own job alone takes all that the node has of `pods`. So nobody else
        fits there, while the others of its job are placed in the same step, by what else is left.
        """
        amounts: Int64s = self.classes.requests[class_slots].T
        whole = self.classes.whole[class_slots]
        if has_true(whole):
            amounts = amounts.copy()
            pods = amounts[self.nodes.axis.index(PODS)]
            pods[whole] = np.maximum(pods[whole], self.nodes.allocatable[self.nodes.axis.index(PODS), nodes[whole]])
        return amounts

    def at_least_class(self, amounts: Int64s, class_slots: Int32s, nodes: Int32s) -> Int64s:
        """Return (resource, n) amounts raised to what the class asks for, where it is known.

        The pods of a bag appear one by one, and what is not there yet must not be given away meanwhile.
        """
        known = class_slots >= 0
        if known.all():
            return np.maximum(amounts, self.amounts(class_slots, nodes))
        raised = amounts.copy()
        raised[:, known] = np.maximum(amounts[:, known], self.amounts(class_slots[known], nodes[known]))
        return raised

    def fill(self, slots: Int32s, *, nodes: Int32s, class_slots: Int32s) -> None:
        """Write node, class and amounts of placements that are as their class says."""
        table = self._placements
        table.node[slots] = nodes
        table.class_slot[slots] = class_slots
        table.port[slots] = self.classes.port[class_slots]
        table.amounts[:, slots] = self.amounts(class_slots, nodes)

    def hold_listed(self, slots: Int32s, class_slots: Int32s) -> None:
        """Give the leader its hold on placements that it listed; ports are learnt from the class where no pod told."""
        table = self._placements
        table.hold[slots] |= _LEADER
        table.class_slot[slots] = class_slots
        amounts = self.at_least_class(table.amounts[:, slots], class_slots, table.node[slots])
        scaled = table.scaled[slots] > 0
        amounts[:, scaled] = table.amounts[:, slots[scaled]]  # those are told by their pods and permits alone
        short = (amounts != table.amounts[:, slots]).any(axis=0)
        if has_true(short):
            self.nodes.take(table.node[slots[short]], amounts[:, short] - table.amounts[:, slots[short]])
            table.amounts[:, slots[short]] = amounts[:, short]
        learnt = (table.port[slots] == 0) & (self.classes.port[class_slots] > 0)
        table.port[slots[learnt]] = self.classes.port[class_slots[learnt]]
        self.each_port(table.port[slots[learnt]], table.node[slots[learnt]], take=True)

    def book(self, slots: Int32s) -> None:
        """Take the amounts and ports of placements off their nodes."""
        table = self._placements
        self.nodes.take(table.node[slots], table.amounts[:, slots])
        self.each_port(table.port[slots], table.node[slots], take=True)

    def unbook(self, slots: Int32s) -> None:
        """Give the amounts and ports of placements back to their nodes."""
        table = self._placements
        self.nodes.give(table.node[slots], table.amounts[:, slots])
        self.each_port(table.port[slots], table.node[slots], take=False)

    def each_port(self, ports: Int32s, nodes: Int32s, *, take: bool) -> None:
        """Take or give the host ports of the few pods that have some."""
        change = self.nodes.take_ports if take else self.nodes.give_ports
        for position in true_places(ports).tolist():
            change(int(nodes[position]), self.classes.ports[int(ports[position])])

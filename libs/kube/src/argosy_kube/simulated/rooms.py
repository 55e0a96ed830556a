"""The room on nodes: which new pods it takes in, which it refuses, and what leaves it.

Source: design section 7 (what a cluster does wrong).
"""

from __future__ import annotations

import numpy as np

from argosy_kube.port import BoolArray, Int32Array, PodPhase
from argosy_kube.simulated.objects import ObjectTable
from argosy_kube.simulated.tables import NodeTable
from argosy_kube.simulated.tally import Tally
from argosy_kube.tables import RequestTable, TextTable

__all__ = ["Rooms"]


class Rooms:
    """Books the pods of a cluster on its nodes.

    Args:
        objects: The objects of the cluster.
        nodes: Its nodes.
        requests: What pods ask for.
        texts: Where reasons go.
        tally: Counts what is refused.
    """

    def __init__(
        self, objects: ObjectTable, nodes: NodeTable, requests: RequestTable, *, texts: TextTable, tally: Tally
    ) -> None:
        """Remember."""
        self._objects = objects
        self._nodes = nodes
        self._requests = requests
        self._texts = texts
        self._tally = tally

    def admit(self, slots: Int32Array) -> BoolArray | None:
        """Book new pods on their nodes; return which failed because the node is missing or full, None if none did."""
        objects, nodes = self._objects, self._nodes
        nodes.fit_axis()
        node, need = objects.node[slots], self._requests.matrix[objects.request[slots]]
        failed = node < 0
        if failed.any():
            self._refuse(slots[failed], "NodeLost")
            held = ~failed
            self._nodes.book(node[held], need[held], 1)
            objects.holds[slots[held]] = True
        else:
            self._nodes.book(node, need, 1)
            objects.holds[slots] = True
            if nodes.free[node].min(initial=0) >= 0:
                return None
        over = ~failed & (nodes.free[node] < 0).any(axis=1)
        self._nodes.book(node[over], need[over], -1)
        for row in np.flatnonzero(over).tolist():
            at, room = int(node[row]), need[row] <= nodes.free[node[row]]
            if room.all():
                nodes.free[at] -= need[row]
            else:
                failed[row] = True
                objects.holds[slots[row]] = False
                self._tally.over += 1
                lacking = self._requests.axis.names[int(np.flatnonzero(~room)[0])]
                self._refuse(slots[row : row + 1], f"OutOf{lacking}")
        return failed

    def _refuse(self, slots: Int32Array, reason: str) -> None:
        self._objects.phase[slots] = PodPhase.FAILED
        self._objects.exit_code[slots] = 0
        self._objects.reason[slots] = self._texts.intern(reason)
        self._tally.failed += len(slots)

    def leave(self, slots: Int32Array) -> None:
        """Free what pods hold of their nodes."""
        objects = self._objects
        held = slots[objects.holds[slots]]
        objects.holds[held] = False
        self._nodes.book(objects.node[held], self._requests.matrix[objects.request[held]], -1)

"""What agents are to be told of pods they hold, beside permits: that one is not scaled any more, moves, or is drained.

Owns what was not told yet; each thing is told once. May import scaled pods, placements and nodes; gives and takes no
permit.

Source: seed 001 "Pressure and watermarks"; design section 5 "Resize".
"""

from __future__ import annotations

import numpy as np

from argosy_core.arrays import Int32s
from argosy_core.ledger.placements import PlacementTable
from argosy_core.ledger.scaled_pods import ScaledPodTable
from argosy_core.nodes import NodeFlag, NodeTable

__all__ = ["PodNotices"]


class PodNotices:
    """Notices of one cluster.

    Args:
        pods: The scaled pods.
        placements: Where they are.
        nodes: Which nodes are cordoned.
    """

    def __init__(self, pods: ScaledPodTable, placements: PlacementTable, nodes: NodeTable) -> None:
        """Start with nothing to tell."""
        self.pods = pods
        self._placements = placements
        self._nodes = nodes
        self._stopped: list[tuple[int, int]] = []
        self._moved: list[tuple[Int32s, bool]] = []

    def note_stopped(self, session: int, row: int) -> None:
        """Note that a pod which a session holds is not scaled any more."""
        self._stopped.append((session, row))

    def note_moved(self, rows: Int32s, *, is_moving: bool) -> None:
        """Note that pods were named to be moved, or are not to be any more."""
        self._moved.append((rows, is_moving))

    def take_stopped(self) -> list[tuple[int, int]]:
        """Return (session, row) of pods that are not scaled any more and were held, each told once."""
        stopped, self._stopped = self._stopped, []
        return stopped

    def take_moved(self) -> list[tuple[Int32s, bool]]:
        """Return which pods were named to be moved, or not to be any more, each told once."""
        moved, self._moved = self._moved, []
        return moved

    def take_drained(self) -> list[tuple[Int32s, bool]]:
        """Return held pods whose node was cordoned, or is open again, since they were told, each told once."""
        pods = self.pods
        rows = np.flatnonzero(pods.session).astype(np.int32)
        cordoned = self._nodes.flags[self._placements.node[pods.slot[rows]]] & NodeFlag.CORDONED != 0
        changed = cordoned != pods.is_draining[rows]
        rows, cordoned = rows[changed], cordoned[changed]
        pods.is_draining[rows] = cordoned
        return [(rows[cordoned == drains], drains) for drains in (True, False) if (cordoned == drains).any()]

"""What is remembered of classes that fit on few nodes or none, so that a full cluster is not searched again and again.

When a class looked at every node and found fewer than it wanted, the nodes that fitted are remembered with the
generation of the node table. Only they, and nodes on which something may fit since (`NodeTable.risen_since`), can fit
now. The cost of a round on a full cluster thus grows with the nodes that changed.

Source: design section 8, "Round cost grows with classes and changed nodes, not jobs x nodes".
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.nodes import NodeTable

__all__ = ["ScarcityMemory"]

Int32s = npt.NDArray[np.int32]

_MAX_CLASSES: Final = 100_000


class ScarcityMemory:
    """By class slot: the only nodes that fitted, and when."""

    def __init__(self) -> None:
        """Start knowing nothing."""
        self._known: dict[int, tuple[int, Int32s]] = {}

    def __contains__(self, slot: int) -> bool:
        """Return whether something is remembered of a class."""
        return slot in self._known

    def remember(self, slot: int, generation: int, fitting: Int32s) -> None:
        """Remember that at a generation a class fitted on these nodes and on no other."""
        if len(self._known) >= _MAX_CLASSES:
            self._known.clear()
        self._known[slot] = (generation, fitting)

    def forget(self, slot: int) -> None:
        """Forget a class."""
        self._known.pop(slot, None)

    def possible(self, table: NodeTable, slots: list[int]) -> list[tuple[npt.NDArray[np.intp], Int32s]]:
        """Return where remembered classes can fit now, in groups.

        Args:
            table: The node table.
            slots: Remembered classes.

        Returns:
            Per group: positions in `slots`, and (k, n) rows to look at, padded with -1; (1, n) if all are the same.
        """
        generations = np.array([self._known[slot][0] for slot in slots], np.int64)
        groups: list[tuple[npt.NDArray[np.intp], Int32s]] = []
        for generation in np.unique(generations).tolist():
            positions = np.flatnonzero(generations == generation)
            risen = table.risen_since(generation)
            fitting = [self._known[slots[position]][1] for position in positions.tolist()]
            lengths = np.array([len(rows) for rows in fitting])
            width = int(lengths.max())
            if not width:
                groups.append((positions, risen[None, :]))
                continue
            padded = np.full((len(positions), len(risen) + width), -1, np.int32)
            padded[:, : len(risen)] = risen
            rows = np.concatenate(fitting)
            # A node that fitted and has risen since is already among the risen ones.
            has_risen = np.zeros(len(table), np.bool_)
            has_risen[risen] = True
            padded[:, len(risen) :][np.arange(width) < lengths[:, None]] = np.where(has_risen[rows], -1, rows)
            groups.append((positions, padded))
        return groups

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
_SLACK: Final = 64
_SMALL_PART: Final = 16


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

    def possible(self, table: NodeTable, slots: list[int]) -> list[tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]]:
        """Return where remembered classes can fit now, in groups.

        Args:
            table: The node table.
            slots: Remembered classes.

        Returns:
            Per group: positions in `slots`, and (k, n) rows to look at, padded with -1; (1, n) if all are the same.
        """
        generations = np.array([self._known[slot][0] for slot in slots], np.int64)
        order = np.argsort(generations)
        groups: list[tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]] = []
        parts = [order]
        while parts:
            part = parts.pop()
            # Looking at what rose since the oldest generation of a part is right for all of it.
            risen = table.risen_since(int(generations[part[0]]))
            newest = table.risen_since(int(generations[part[-1]]))
            if len(risen) > 2 * len(newest) + _SLACK and len(part) > _SMALL_PART:
                parts.extend((part[: len(part) // 2], part[len(part) // 2 :]))
            else:
                groups.append((part, self._rows(table, [slots[position] for position in part.tolist()], risen)))
        return groups

    def _rows(self, table: NodeTable, slots: list[int], risen: Int32s) -> npt.NDArray[np.intp]:
        """Return the rows to look at for some classes: what has risen, and what fitted."""
        fitting = [self._known[slot][1] for slot in slots]
        lengths = np.array([len(rows) for rows in fitting])
        width = int(lengths.max())
        if not width:
            return risen[None, :].astype(np.intp)
        padded = np.full((len(slots), len(risen) + width), -1, np.intp)
        padded[:, : len(risen)] = risen
        rows = np.concatenate(fitting)
        # A node that fitted and has risen since is already among the risen ones.
        has_risen = np.zeros(len(table), np.bool_)
        has_risen[risen] = True
        padded[:, len(risen) :][np.arange(width) < lengths[:, None]] = np.where(has_risen[rows], -1, rows)
        return padded

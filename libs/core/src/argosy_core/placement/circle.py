"""The nodes of a cluster in looking order.

Source: design section 5, "Round" 2.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import Int32s, Int64s

__all__ = ["Circle"]


class Circle:
    """Nodes in looking order, and columns of the node table put into that order once per request.

    A window is then a row of a sliding view, copied as a whole, which is far cheaper than picking single nodes.
    """

    def __init__(self, nodes: Int32s) -> None:
        """Start with no column put into order."""
        self.nodes = nodes.astype(np.intp)
        self._twice: dict[str, npt.NDArray[np.generic]] = {"": np.concatenate((self.nodes, self.nodes))}

    def __len__(self) -> int:
        """Return the number of nodes."""
        return len(self.nodes)

    def windows(
        self, begins: Int64s, window: int, name: str, column: npt.NDArray[np.generic]
    ) -> npt.NDArray[np.generic]:
        """Return (k, window): a column of the table for the windows that begin at k places of the circle."""
        twice = self._twice.get(name)
        if twice is None:
            once = column.take(self.nodes)
            twice = self._twice[name] = np.concatenate((once, once))
        # NumPy's `sliding_window_view` gives the same view at ten times the cost.
        every = np.ndarray((twice.size - window + 1, window), twice.dtype, twice, strides=twice.strides * 2)
        return every[begins]

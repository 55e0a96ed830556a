"""What a request found for each class, and which of it is answered.

Source: seed 000 "Sampling Phase" (2-Smart Sampling); design section 5, "Round" 2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

__all__ = ["Findings"]

Int64s = npt.NDArray[np.int64]
_NO_RANKS: Final = np.zeros(0, np.int64)
_STRETCH: Final = 64
"""Nodes that classes share which are to fill the same ones."""


class Findings:
    """What was found for each class so far.

    Args:
        class_count: Classes of the request.
    """

    def __init__(self, class_count: int) -> None:
        """Start with nothing found."""
        self.examined = np.zeros(class_count, np.int32)
        """Per class: nodes that were looked at."""
        self.eligible = np.zeros(class_count, np.int32)
        """Per class: nodes that passed the filters."""
        self.complete = np.zeros(class_count, np.int8)
        """Per class: 1 if every node was looked at."""
        self.lacking = np.zeros(class_count, np.bool_)
        """Which classes have more pods waiting than the nodes found hold."""
        self.ranks: list[Int64s] = [_NO_RANKS] * class_count
        """Per class: ranks of its candidates (see `NodeSampler.rank`), best first."""

    def keep(
        self,
        positions: npt.NDArray[np.intp],
        ranks: Int64s,
        limits: Int64s,
        *,
        rng: np.random.Generator | None = None,
        reach: Callable[[npt.NDArray[np.intp], Int64s], Int64s] | None = None,
    ) -> None:
        """Write down the best ranks of each class, at most its limit.

        Args:
            positions: Positions of k classes.
            ranks: (k, n) ranks, -1 for none.
            limits: (k,) how many to keep of each.
            rng: Given if the request's classes together want more than a few nodes hold. Each class then keeps a
                stretch of its ranking that begins at random, since else all would crowd on the same best nodes and
                leave the others unused.
            reach: Given if classes are to fill the same nodes: returns, for classes and their (k, n) ranks, best first,
                how many of the best nodes all of them together need. They then keep so many more than their limit, and
                stretches begin at every so many of these alone.
        """
        if not ranks.size:
            return
        widest = min(int(limits.max()), ranks.shape[1])
        if rng is None and 4 * widest < ranks.shape[1]:
            ranks = np.partition(ranks, ranks.shape[1] - widest, axis=1)[:, -widest:]
        ranks = np.sort(ranks, axis=1)[:, ::-1]
        fitting = np.count_nonzero(ranks >= 0, axis=1)
        if rng is not None and widest < ranks.shape[1]:
            begins = rng.integers(0, 1 << 30, len(ranks))
            if reach is not None:
                reaches = reach(positions, ranks)
                begins = begins % -(-reaches // _STRETCH) * _STRETCH
                limits = limits + np.minimum(reaches, _STRETCH)
                widest = min(int(limits.max()), ranks.shape[1])
            begins = np.where(fitting > limits, begins, 0)
            places = (begins[:, None] + np.arange(widest)) % np.maximum(fitting, 1)[:, None]
            ranks = np.take_along_axis(ranks, places, axis=1)
            ranks[np.arange(widest) >= np.minimum(fitting, limits)[:, None]] = -1
            ranks = np.sort(ranks, axis=1)[:, ::-1]
        counts = np.minimum(fitting, limits).tolist()
        for position, row, count in zip(positions.tolist(), ranks, counts, strict=True):
            self.ranks[position] = row[:count]

"""Sampling strategies: in which order a class looks through the nodes.

Both give every class of a request its own place to begin in one common circle of nodes, so that a look at the next n
nodes is one slice, no node is looked at twice by one class, and classes asked together look at different nodes.

Source: seed 000 "Sampling Phase"; `random` and `round-robin` there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from argosy_core.errors import InvalidRequest
from argosy_core.nodes import NodeTable

__all__ = ["STRATEGIES", "RandomStrategy", "RoundRobinStrategy", "Strategy", "strategy_of"]

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]


class Strategy(Protocol):
    """Where classes begin to look, and what comes after."""

    def circle(self, table: NodeTable, rng: np.random.Generator) -> Int32s:
        """Return the rows of all nodes in the cluster, in looking order."""
        ...

    def begin(self, class_count: int, window: int, rng: np.random.Generator) -> Int64s:
        """Return (class_count,) positions in the circle, each where one class begins to look at `window` nodes."""
        ...

    def looked(self, node_count: int) -> None:
        """Note how many nodes were looked at, over all classes of a request."""
        ...


class RandomStrategy:
    """Strategy `random`: a random sample without repetition for each class.

    The circle is a random permutation and every class begins at a random place of it, so each class sees a uniformly
    random set of nodes. The permutation is drawn again after as many looks as there are nodes, which keeps its cost
    below one step a look; requests in between see different parts of one permutation.
    """

    def __init__(self) -> None:
        """Start without a permutation."""
        self._membership = -1
        self._circle = np.zeros(0, np.int32)
        self._looks = 0

    def circle(self, table: NodeTable, rng: np.random.Generator) -> Int32s:
        """Return the rows of all nodes in the cluster in random order."""
        if self._membership != table.membership or self._looks >= len(self._circle):
            self._circle = rng.permutation(table.live())
            self._membership = table.membership
            self._looks = 0
        return self._circle

    def begin(self, class_count: int, window: int, rng: np.random.Generator) -> Int64s:
        """Return a random place for each class."""
        del window
        return rng.integers(0, max(1, len(self._circle)), class_count)

    def looked(self, node_count: int) -> None:
        """Count looks towards the next permutation."""
        self._looks += node_count


class RoundRobinStrategy:
    """Strategy `round-robin`: one cursor shared by all requests; each class takes up where the one before stopped."""

    def __init__(self) -> None:
        """Start at the first node."""
        self._cursor = 0
        self._membership = -1
        self._circle = np.zeros(0, np.int32)

    def circle(self, table: NodeTable, rng: np.random.Generator) -> Int32s:
        """Return the rows of all nodes in the cluster in ascending order."""
        del rng
        if self._membership != table.membership:
            self._circle = table.live()
            self._membership = table.membership
        return self._circle

    def begin(self, class_count: int, window: int, rng: np.random.Generator) -> Int64s:
        """Return places one window apart, from the cursor on, and move the cursor behind them."""
        del rng
        size = max(1, len(self._circle))
        begins = (self._cursor + window * np.arange(class_count, dtype=np.int64)) % size
        self._cursor = (self._cursor + window * class_count) % size
        return begins

    def looked(self, node_count: int) -> None:
        """Do nothing: the cursor moves by windows."""


STRATEGIES: Final[Mapping[str, Callable[[], Strategy]]] = {"random": RandomStrategy, "round-robin": RoundRobinStrategy}
"""Strategies by name."""


def strategy_of(name: str) -> Strategy:
    """Return a new strategy.

    Raises:
        InvalidRequest: There is none of that name.
    """
    if name not in STRATEGIES:
        raise InvalidRequest(f"there is no sampling strategy {name!r}; there are {', '.join(STRATEGIES)}")
    return STRATEGIES[name]()

"""Nodes of the simulated cluster, in a table that only grows."""

from __future__ import annotations

import numpy as np

from argosy_kube.port import Int32Array, Int64Array, NodeDescription
from argosy_kube.tables import RequestTable, grow_rows

__all__ = ["NodeTable"]

_FIRST_ROWS = 64


class NodeTable:
    """Nodes with an index each that is never used again; capacity as arrays."""

    def __init__(self, requests: RequestTable) -> None:
        """Start empty; columns follow the axis of `requests`."""
        self._requests = requests
        self._index: dict[str, int] = {}
        self._names: list[str] = []
        self._names_seen: tuple[str, ...] | None = ()
        self.descriptions: list[NodeDescription] = []
        self.allocatable: Int64Array = np.zeros((_FIRST_ROWS, len(requests.axis)), dtype=np.int64)
        self.free: Int64Array = np.zeros((_FIRST_ROWS, len(requests.axis)), dtype=np.int64)
        """(node, resource): allocatable minus what pods ask for; negative only on a node that shrank."""
        self.reachable = np.zeros(_FIRST_ROWS, dtype=np.bool_)
        self.present = np.zeros(_FIRST_ROWS, dtype=np.bool_)
        self.unheard: set[int] = set()
        """Present nodes that are not reachable."""

    def __len__(self) -> int:
        """Return the number of indices given, removed nodes included."""
        return len(self._names)

    @property
    def names(self) -> tuple[str, ...]:
        """Names by index; the same tuple until a node is added."""
        if self._names_seen is None:
            self._names_seen = tuple(self._names)
        return self._names_seen

    def find(self, name: str) -> int:
        """Return the index of a present node, or -1."""
        return self._index.get(name, -1)

    def put(self, node: NodeDescription) -> tuple[int, bool]:
        """Add or replace a node; return its index and whether it is new."""
        self._requests.extend(tuple(node.allocatable))
        self.fit_axis()
        index = self._index.get(node.name, -1)
        is_new = index < 0
        if is_new:
            index = len(self._names)
            self._index[node.name] = index
            self._names.append(node.name)
            self._names_seen = None
            self.descriptions.append(node)
            rows = index + 1
            self.allocatable, self.free = grow_rows(self.allocatable, rows), grow_rows(self.free, rows)
            self.reachable, self.present = grow_rows(self.reachable, rows), grow_rows(self.present, rows)
        self.descriptions[index] = node
        allocatable = self._requests.axis.vector(node.allocatable)
        self.free[index] += allocatable - self.allocatable[index]
        self.allocatable[index] = allocatable
        self.reachable[index] = node.ready
        (self.unheard.discard if node.ready else self.unheard.add)(index)
        self.present[index] = True
        return index, is_new

    def remove(self, index: int) -> None:
        """Take a node away; its index stays taken."""
        del self._index[self._names[index]]
        self.present[index] = False
        self.reachable[index] = False
        self.unheard.discard(index)

    def fit_axis(self) -> None:
        """Give the arrays a column for every resource of the axis."""
        missing = len(self._requests.axis) - self.free.shape[1]
        if missing > 0:
            self.allocatable = np.pad(self.allocatable, ((0, 0), (0, missing)))
            self.free = np.pad(self.free, ((0, 0), (0, missing)))

    def book(self, node: Int32Array, amounts: Int64Array, sign: int) -> None:
        """Take amounts from what is free on nodes (1), or give them back (-1); a node may stand several times."""
        width = self.free.shape[1]
        cells = node.astype(np.int64)[:, None] * width + np.arange(width)
        book = np.subtract if sign > 0 else np.add
        book.at(self.free.reshape(-1), cells.reshape(-1), amounts.reshape(-1))

    def present_indices(self) -> list[int]:
        """Return the indices of the nodes that are there."""
        return [int(index) for index in np.flatnonzero(self.present[: len(self._names)])]

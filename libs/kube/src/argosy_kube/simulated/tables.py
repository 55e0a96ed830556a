"""Tables of the simulated cluster that only grow: texts, distinct requests, recipes and nodes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from argosy_core.resources import DEFAULT_AXIS, PODS, ResourceAxis
from argosy_kube.port import Int64Array, NodeDescription

__all__ = ["NodeTable", "RequestTable", "TextTable", "grow_rows"]

_FIRST_ROWS = 64


def grow_rows(array: np.ndarray, rows: int, *, fill: int = 0) -> np.ndarray:
    """Return the array with at least `rows` rows, at least doubled if it was too short; new rows hold `fill`."""
    if len(array) >= rows:
        return array
    grown = np.full((max(rows, 2 * len(array), _FIRST_ROWS), *array.shape[1:]), fill, dtype=array.dtype)
    grown[: len(array)] = array
    return grown


class TextTable:
    """Texts with an index each; `texts` is the same tuple until a text is added."""

    def __init__(self, first: tuple[str, ...] = ()) -> None:
        """Start with some texts at fixed indices."""
        self._index = {text: position for position, text in enumerate(first)}
        self._texts: tuple[str, ...] | None = first

    def __len__(self) -> int:
        """Return the number of texts."""
        return len(self._index)

    def intern(self, text: str) -> int:
        """Return the index of a text, adding it if it is new."""
        index = self._index.get(text)
        if index is None:
            index = self._index[text] = len(self._index)
            self._texts = None
        return index

    @property
    def texts(self) -> tuple[str, ...]:
        """All texts in the order of their indices."""
        if self._texts is None:
            self._texts = tuple(self._index)
        return self._texts


class RequestTable:
    """Distinct request vectors with an index each, over an axis of resources that grows."""

    def __init__(self) -> None:
        """Start with the resources every node has and no request."""
        self.axis: ResourceAxis = DEFAULT_AXIS
        self._rows: list[dict[str, int]] = []
        self._index: dict[tuple[tuple[str, int], ...], int] = {}
        self._matrix: Int64Array = np.zeros((0, len(self.axis)), dtype=np.int64)

    def __len__(self) -> int:
        """Return the number of requests."""
        return len(self._rows)

    def intern(self, amounts: Mapping[str, int]) -> int:
        """Return the row of a pod's request, adding it if it is new; `pods` is set to 1."""
        key = tuple(sorted((name, amount) for name, amount in amounts.items() if amount and name != PODS))
        row = self._index.get(key)
        if row is None:
            row = self._index[key] = len(self._rows)
            self._rows.append({**dict(key), PODS: 1})
            self.extend(tuple(name for name, _ in key))
        return row

    def extend(self, names: tuple[str, ...]) -> None:
        """Put resources on the axis that are not there yet."""
        self.axis = self.axis.extend(names)

    @property
    def matrix(self) -> Int64Array:
        """(len(self), len(axis)) amounts in base units; the same array until a row or resource is added."""
        if self._matrix.shape != (len(self._rows), len(self.axis)):
            old_rows, old_columns = self._matrix.shape
            matrix = np.zeros((len(self._rows), len(self.axis)), dtype=np.int64)
            matrix[:old_rows, :old_columns] = self._matrix
            for row in range(old_rows, len(self._rows)):
                matrix[row] = self.axis.vector(self._rows[row])
            self._matrix = matrix
        return self._matrix


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

    def present_indices(self) -> list[int]:
        """Return the indices of the nodes that are there."""
        return [int(index) for index in np.flatnonzero(self.present[: len(self._names)])]

"""Tables that only grow: texts and distinct requests, each with an index, as the columns of the port want them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from argosy_core.resources import DEFAULT_AXIS, PODS, ResourceAxis
from argosy_kube.port import Int64Array

__all__ = ["RequestTable", "TextTable", "grow_rows"]

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
        self.notes: dict[int, tuple[tuple[str, str], ...]] = {}
        """By row: annotations of the pods that ask for it, where these say how they are scaled."""
        self._index: dict[tuple[tuple[tuple[str, int], ...], tuple[tuple[str, str], ...]], int] = {}
        self._matrix: Int64Array = np.zeros((0, len(self.axis)), dtype=np.int64)

    def __len__(self) -> int:
        """Return the number of requests."""
        return len(self._rows)

    def intern(self, amounts: Mapping[str, int], notes: tuple[tuple[str, str], ...] = ()) -> int:
        """Return the row of a pod's request, adding it if it is new; `pods` is set to 1."""
        held = tuple(sorted((name, amount) for name, amount in amounts.items() if amount and name != PODS))
        row = self._index.get((held, notes))
        if row is None:
            row = self._index[held, notes] = len(self._rows)
            self._rows.append({**dict(held), PODS: 1})
            self.extend(tuple(name for name, _ in held))
            if notes:
                self.notes[row] = notes
        return row

    def variant(self, row: int, amounts: Mapping[str, int], notes: tuple[tuple[str, str], ...]) -> int:
        """Return the row of a request that is as another one but for some amounts, and has these annotations."""
        return self.intern({**self._rows[row], **amounts}, notes)

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

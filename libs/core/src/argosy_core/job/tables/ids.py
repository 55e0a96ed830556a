"""Dense indices for ids, and columns by them that grow.

Source: design section 6, "Data layout".
"""

from __future__ import annotations

from itertools import repeat
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from argosy_core.errors import NotFound
from argosy_core.job.tables.interning import distinct

__all__ = ["IdTable", "grow"]

Scalar = TypeVar("Scalar", bound=np.generic)


def grow(column: npt.NDArray[Scalar], count: int, fill: float = 0) -> npt.NDArray[Scalar]:
    """Return a column with room for at least `count` rows, the new ones set to `fill`; amortised by doubling."""
    if count <= column.shape[0]:
        return column
    rows = max(count, 2 * column.shape[0], 16) - column.shape[0]
    return np.concatenate([column, np.full((rows, *column.shape[1:]), fill, dtype=column.dtype)])


class IdTable:
    """Dense indices for ids from the database; looked up in bulk."""

    def __init__(self) -> None:
        """Start empty."""
        self._index: dict[int, int] = {}
        self._free: list[int] = []
        self._end = 0

    def __len__(self) -> int:
        """Return the number of ids held."""
        return len(self._index)

    def __contains__(self, key: int) -> bool:
        """Tell whether an id is held."""
        return key in self._index

    @property
    def end(self) -> int:
        """Return one more than the highest index ever given."""
        return self._end

    def items(self) -> list[tuple[int, int]]:
        """Return (id, index) of all, in order of first appearance."""
        return list(self._index.items())

    def find(self, key: int) -> int | None:
        """Return the index of an id, or None."""
        return self._index.get(key)

    def add(self, key: int) -> int:
        """Return the index of an id, giving it one if it has none."""
        index = self._index.get(key)
        if index is None:
            if self._free:
                index = self._free.pop()
            else:
                index = self._end
                self._end += 1
            self._index[key] = index
        return index

    def drop(self, key: int) -> int:
        """Forget an id and return the index it had."""
        index = self._index.pop(key)
        self._free.append(index)
        return index

    def indices(self, keys: npt.NDArray[np.integer]) -> npt.NDArray[np.int32]:
        """Return the index of each id as int32[n]. Complexity: as `distinct`, and one dict look-up per distinct id.

        Raises:
            NotFound: An id is not held; define it first.
        """
        found, inverse = distinct(keys)
        try:
            table = np.array([self._index[key] for key in found.tolist()], dtype=np.int32)
        except KeyError as cause:
            raise NotFound(f"id {cause.args[0]} is not defined; ask `missing` and define it first") from cause
        return table[inverse]

    def find_all(self, keys: npt.NDArray[np.integer]) -> npt.NDArray[np.int32]:
        """Return the index of each id as int32[n], -1 where it is not held."""
        values = keys.tolist()
        return np.fromiter(map(self._index.get, values, repeat(-1)), np.int32, len(values))

    def unknown(self, keys: npt.NDArray[np.integer]) -> tuple[int, ...]:
        """Return the distinct ids that are not held, ascending."""
        return tuple(sorted(key for key in set(keys.tolist()) if key not in self._index))

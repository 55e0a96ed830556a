"""Short names for NumPy arrays by type of element, and calls that cost little on a few elements."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = [
    "Bools",
    "Float32s",
    "Float64s",
    "Int8s",
    "Int16s",
    "Int32s",
    "Int64s",
    "Uids",
    "are_among",
    "find_begins",
    "has_true",
    "run_sizes",
    "spread",
    "true_places",
]

Bools: TypeAlias = npt.NDArray[np.bool_]
Int8s: TypeAlias = npt.NDArray[np.int8]
Int16s: TypeAlias = npt.NDArray[np.int16]
Int32s: TypeAlias = npt.NDArray[np.int32]
Int64s: TypeAlias = npt.NDArray[np.int64]
Objects: TypeAlias = npt.NDArray[np.object_]
Float32s: TypeAlias = npt.NDArray[np.float32]
Float64s: TypeAlias = npt.NDArray[np.float64]
Uids: TypeAlias = npt.NDArray[np.void]
"""Uids of Kubernetes, 16 bytes each."""


_FEW_PAIRS: Final = 4096
"""Up to so many pairs of values it costs less to compare each with each than to sort them."""


def are_among(values: npt.NDArray[np.integer], others: npt.NDArray[np.integer]) -> Bools:
    """Return which values stand among others. NumPy's `isin` costs five times as much for a few elements.

    Args:
        values: (n,) numbers.
        others: (m,) numbers.

    Complexity: O(n m) for a few, else as `isin`.
    """
    if not values.size or not others.size:
        return np.zeros(values.size, dtype=np.bool_)
    if values.size * others.size > _FEW_PAIRS:
        return np.isin(values, others)
    if others.size == 1:
        return np.asarray(values == others[0])
    return np.asarray(np.logical_or.reduce(values[:, None] == others, axis=1))


def find_begins(values: npt.NDArray[np.integer]) -> npt.NDArray[np.intp]:
    """Return where runs of equal values begin. NumPy's `diff` with a value before costs ten times as much for a few."""
    differs = np.empty(values.size, dtype=np.bool_)
    differs[:1] = True
    np.not_equal(values[1:], values[:-1], out=differs[1:])
    return differs.nonzero()[0]


def run_sizes(begins: npt.NDArray[np.integer], end: int) -> Int64s:
    """Return how long runs are that begin somewhere, the last of which ends before `end`; see `find_begins`."""
    sizes = np.empty(begins.size, dtype=np.int64)
    np.subtract(begins[1:], begins[:-1], out=sizes[:-1])
    sizes[-1:] = end - begins[-1:]
    return sizes


def has_true(values: npt.NDArray[Any]) -> bool:
    """Return whether anything is true, or not 0. NumPy's `any` costs four times as much for a few elements."""
    return bool(np.count_nonzero(values))


def true_places(column: npt.NDArray[Any]) -> npt.NDArray[np.intp]:
    """Return where a column is true, or not 0. NumPy's `flatnonzero` costs ten times as much for a few elements.

    Args:
        column: (n,) values; of more dimensions only the first would be told.
    """
    return column.nonzero()[0]


def spread(value: int | npt.NDArray[np.integer], size: int, dtype: type[np.integer]) -> npt.NDArray[Any]:
    """Return one value for each of n elements: the same for all, or as given."""
    return value.astype(dtype, copy=False) if isinstance(value, np.ndarray) else np.full(size, value, dtype=dtype)

"""Calls that cost little on a few elements say the same as NumPy's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from argosy_core.arrays import are_among, find_begins, has_true, run_sizes, true_places


@pytest.mark.parametrize(
    "values",
    [
        np.zeros(0, np.bool_),
        np.zeros(3, np.bool_),
        np.array([False, True, False, True]),
        np.array([-1, 0], np.int64),
        np.array([0.0, np.nan]),
        np.array([True, False, True, False])[::2],
    ],
)
def test_places_and_presence_of_what_is_true_are_told_as_numpy_does(values: npt.NDArray[Any]) -> None:
    """Negative numbers and NaN count as true, empty columns and those with gaps are taken."""
    assert true_places(values).tolist() == np.flatnonzero(values).tolist()
    assert has_true(values) is bool(values.any())


def test_presence_is_told_of_a_table() -> None:
    """The last element counts, too, and a table without columns has nothing true."""
    assert has_true(np.array([[0, 0], [0, -2]]))
    assert not has_true(np.zeros((3, 0), np.bool_))


@pytest.mark.parametrize(("count", "other_count"), [(0, 3), (3, 0), (5, 1), (20, 7), (300, 200)])
def test_what_stands_among_others_is_told_as_numpy_does(count: int, other_count: int) -> None:
    """A few are compared one with each other and many are sorted, and the answer is the same."""
    rng = np.random.default_rng(1)
    values, others = rng.integers(0, 40, count, dtype=np.int32), rng.integers(0, 40, other_count)
    assert are_among(values, others).tolist() == np.isin(values, others).tolist()


@pytest.mark.parametrize("values", [[], [3], [3, 3, 3], [1, 1, 2, 3, 3, 3]])
def test_runs_of_equal_values_are_told_as_numpy_does(values: list[int]) -> None:
    """Where they begin and how long they are, of none as of many."""
    column = np.array(values, dtype=np.int64)
    _, begins, counts = np.unique(column, return_index=True, return_counts=True)
    assert find_begins(column).tolist() == begins.tolist()
    assert run_sizes(find_begins(column), column.size).tolist() == counts.tolist()

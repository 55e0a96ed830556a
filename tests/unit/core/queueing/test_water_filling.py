"""Exact weighted max-min fairness."""

import numpy as np
import pytest

from argosy_core.queueing import fill_water


@pytest.mark.parametrize(
    ("demands", "weights", "capacity", "expected"),
    [
        pytest.param([10, 10], [1, 1], 10, [5, 5], id="equal-parts"),
        pytest.param([2, 10], [1, 1], 10, [2, 8], id="what-one-leaves-goes-to-the-other"),
        pytest.param([100, 100], [1, 3], 40, [10, 30], id="by-weight"),
        pytest.param([2, 8, 10], [1, 1, 2], 16, [2, 14 / 3, 28 / 3], id="levels"),
        pytest.param([1, 2], [1, 1], 10, [1, 2], id="never-more-than-demand"),
        pytest.param([6, 10, 10], [1, 0, 0], 10, [6, 2, 2], id="weight-zero-gets-the-rest-in-equal-parts"),
        pytest.param([10, 10], [1, 0], 10, [10, 0], id="weight-zero-waits-for-all-others"),
        pytest.param([0, 5], [1, 1], 3, [0, 3], id="no-demand-gets-nothing"),
        pytest.param([5], [1], 0, [0], id="nothing-to-give"),
    ],
)
def test_water_filling_gives_the_max_min_allocation(
    demands: list[float], weights: list[float], capacity: float, expected: list[float]
) -> None:
    """min(demand, level * weight) with the one level that uses up the capacity."""
    allocation = fill_water(np.array(demands, dtype=float), np.array(weights, dtype=float), capacity)
    np.testing.assert_allclose(allocation, expected)

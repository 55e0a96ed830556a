"""Exact weighted max-min fairness."""

import numpy as np
import pytest

from argosy_core.queueing import fill_water, fill_water_of


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


def given(demands: list[list[float]], owner: list[int], weights: list[float], capacity: list[float]) -> list[float]:
    """Return what parts of queues get, each resource as dear as the other."""
    amounts = np.array(demands, dtype=float)
    return fill_water_of(
        amounts,
        np.array(owner),
        amounts.sum(axis=1),
        weights=np.array(weights, dtype=float),
        capacity=np.array(capacity, dtype=float),
    ).tolist()


def test_water_filling_of_several_resources_entitles_nobody_to_what_is_not_there() -> None:
    """Two queues that ask for cores alone share the cores; the accelerators beside them are no cores."""
    assert given([[100, 0], [100, 0]], [0, 1], [1, 3], [40, 40]) == pytest.approx([0.1, 0.3])


def test_a_queue_rises_by_its_other_parts_once_one_cannot() -> None:
    """Its accelerators are used up at 4, so its part of the cores is what its weight gives it of both."""
    parts = given([[0, 100], [100, 0], [100, 0]], [0, 0, 1], [1, 1], [60, 4])
    # Level 32: the first queue has 4 accelerators and 28 cores, the second 32 cores.
    assert parts == pytest.approx([0.04, 0.28, 0.32])


def test_water_filling_of_several_resources_is_that_of_one_where_there_is_one() -> None:
    """With one resource both yardsticks are the same, queues of weight 0 included."""
    rng = np.random.default_rng(5)
    for _ in range(50):
        demands = rng.uniform(0.5, 10, 6)
        weights = np.where(rng.uniform(size=6) < 0.3, 0.0, rng.uniform(0.1, 4, 6))
        parts = given(demands[:, None].tolist(), list(range(6)), weights.tolist(), [15])
        np.testing.assert_allclose(np.array(parts) * demands, fill_water(demands, weights, 15), atol=1e-9)

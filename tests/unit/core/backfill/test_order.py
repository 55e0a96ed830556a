"""Order policies of waiting jobs."""

import numpy as np
import pytest

from argosy_core.backfill import SMALLEST_AREA, SUBMIT_ORDER, OrderPolicy, choose_head
from argosy_core.errors import InvalidRequest

WAIT_S = np.array([300.0, 200.0, 100.0, 0.0])
RUN_TIME_S = np.array([100.0, 400.0, 50.0, 50.0])
SIZE = np.array([8.0, 1.0, 2.0, 4.0])


def test_submit_order_is_that_of_waits() -> None:
    """Who has waited longest is first, whatever is asked for."""
    assert SUBMIT_ORDER.order(WAIT_S, RUN_TIME_S, SIZE).tolist() == [0, 1, 2, 3]


def test_smallest_area_is_that_of_size_and_run_time() -> None:
    """Areas are 800, 400, 100 and 200; equal ones stand as given."""
    assert SMALLEST_AREA.order(WAIT_S, RUN_TIME_S, SIZE).tolist() == [2, 3, 1, 0]
    assert SMALLEST_AREA.order(np.zeros(3), np.ones(3), np.ones(3)).tolist() == [0, 1, 2]


def test_age_bound_puts_who_waited_longer_in_front_oldest_first() -> None:
    """Behind those who waited more than 150 s stand the others by area."""
    bounded = OrderPolicy(run_time_exponent=1.0, size_exponent=1.0, age_bound_s=150.0)
    assert bounded.order(WAIT_S, RUN_TIME_S, SIZE).tolist() == [0, 1, 2, 3]
    assert bounded.order(WAIT_S[::-1].copy(), RUN_TIME_S, SIZE).tolist() == [3, 2, 1, 0]


def test_exponents_weigh_wait_against_run_time() -> None:
    """A job of 16 times the run time is in front once it has waited more than 16 times as long, short waits aside."""
    order = OrderPolicy(wait_exponent=1.0, run_time_exponent=1.0)
    for wait_s, first in ((1_000.0, 1), (2_000.0, 0)):
        assert order.order(np.array([wait_s, 90.0]), np.array([1600.0, 100.0]), np.ones(2))[0] == first


def test_unknown_run_times_stand_last() -> None:
    """A job of which nothing is known does not go before one that is known to be small."""
    assert SMALLEST_AREA.order(WAIT_S[:2], np.array([np.inf, 1.0]), SIZE[:2]).tolist() == [1, 0]


def test_head_is_the_largest_of_the_first() -> None:
    """One of four is the first job, one of three in the first two is the second."""
    size = np.array([2.0, 3.0, 1.0, 9.0])
    assert [choose_head(size, count) for count in (1, 2, 3, 4, 99)] == [0, 1, 1, 3, 3]


@pytest.mark.parametrize("wrong", [{"wait_exponent": -1.0}, {"age_bound_s": 0.0}, {"age_bound_s": float("nan")}])
def test_order_that_favours_the_young_is_refused(wrong: dict[str, float]) -> None:
    """Waiting never puts a job back, and an age bound is some time."""
    with pytest.raises(InvalidRequest):
        OrderPolicy(**wrong)

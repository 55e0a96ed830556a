"""Resource usage as one number."""

import numpy as np

from argosy_core.queueing.usage import MAX_JOB_USAGE, MICRO, most_usage, weigh_rows, weigh_vector

WEIGHTS = {"cpu": 0.001, "example.com/gpu": 8.0}


def test_usage_is_the_weighted_sum_of_what_is_requested() -> None:
    """`CPU + w_GPU * GPU`: two cores and one device of eight are ten cores."""
    rows = np.array([[2000, 1, 5], [0, 3, 5]])
    assert weigh_rows(rows, ["cpu", "example.com/gpu", "memory"], WEIGHTS).tolist() == [10 * MICRO, 24 * MICRO]


def test_usage_of_a_job_is_bounded_so_that_no_queue_wraps_to_negative() -> None:
    """Three jobs that ask for the impossible leave the sum of a queue above zero."""
    usage = int(weigh_rows(np.array([[4 * 10**15]]), ["cpu"], WEIGHTS)[0])
    assert usage == MAX_JOB_USAGE
    assert np.full(8_000_000, usage, dtype=np.int64).sum() > 0


def test_usage_of_a_pool_is_not_bounded_by_that_of_a_job() -> None:
    """What is free may be more than any job counts."""
    assert weigh_vector(np.array([5_000_000_000]), ["cpu"], WEIGHTS) == 5_000_000 * MICRO


def test_what_is_free_holds_no_more_usage_than_its_scarcest_resource_that_all_ask_for() -> None:
    """Ten cores hold ten jobs of one core, however much memory is free; without a common resource nothing bounds."""
    free, one = np.array([10_000, 1 << 40]), np.array([[1000, 1 << 20]])
    assert most_usage(free, one, np.array([MICRO])) == 10 * MICRO
    assert most_usage(free, np.array([[1000, 0], [0, 1]]), np.array([MICRO, MICRO])) == np.inf

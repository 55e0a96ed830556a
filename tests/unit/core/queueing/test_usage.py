"""Resource usage as one number."""

import numpy as np

from argosy_core.queueing.usage import MAX_JOB_USAGE, MICRO, weigh_amounts, weigh_vector

WEIGHTS = {"cpu": 0.001, "example.com/gpu": 8.0}


def test_usage_is_the_weighted_sum_of_what_is_requested() -> None:
    """`CPU + w_GPU * GPU`: two cores and one device of eight are ten cores."""
    assert weigh_amounts([("cpu", 2000), ("example.com/gpu", 1), ("memory", 5)], WEIGHTS) == 10 * MICRO


def test_usage_of_a_job_is_bounded_so_that_no_queue_wraps_to_negative() -> None:
    """Three jobs that ask for the impossible leave the sum of a queue above zero."""
    usage = weigh_amounts([("cpu", 4 * 10**15)], WEIGHTS)
    assert usage == MAX_JOB_USAGE
    assert np.full(8_000_000, usage, dtype=np.int64).sum() > 0


def test_usage_of_a_pool_is_not_bounded_by_that_of_a_job() -> None:
    """What is free may be more than any job counts."""
    assert weigh_vector(np.array([5_000_000_000]), ["cpu"], WEIGHTS) == 5_000_000 * MICRO

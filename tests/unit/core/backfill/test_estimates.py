"""Run times learned from history."""

import numpy as np
import pytest

from argosy_core.backfill import EstimateError, RunTimes
from argosy_core.errors import InvalidRequest

CLASS, USER, OTHER = 2, 4, 6


def keys(*key: int, count: int = 1) -> np.ndarray:
    """Return the keys of some equal jobs."""
    return np.tile(np.array([key], dtype=np.int64), (count, 1))


def test_estimate_is_the_prior_where_nothing_is_known() -> None:
    """What nobody has seen is as long as was stated, by default without end."""
    assert RunTimes().estimate(keys(CLASS), 0.9).tolist() == [np.inf]
    assert RunTimes(prior_s=3600.0).estimate(keys(CLASS), 0.9).tolist() == [3600.0]


@pytest.mark.parametrize("quantile", [0.5, 0.75, 0.9])
def test_estimate_is_the_quantile_with_a_step_of_margin(quantile: float) -> None:
    """As many jobs as asked for run no longer, and the estimate is less than a quarter octave above that run time."""
    run_time_s = np.random.default_rng(1).lognormal(5.0, 1.0, 30)
    known = RunTimes()
    known.observe(keys(CLASS, count=30), run_time_s)
    (estimate_s,) = known.estimate(keys(CLASS), quantile)
    exact_s = np.quantile(run_time_s, quantile)
    assert 0.8 * exact_s <= estimate_s <= 1.5 * exact_s


def test_most_telling_key_outweighs_the_others_once_it_has_seen_enough() -> None:
    """A class of short jobs of a user whose other jobs are long is long at first, and short after a few."""
    known = RunTimes()
    known.observe(keys(OTHER, USER, count=50), np.full(50, 10_000.0))
    assert known.estimate(keys(CLASS, USER), 0.75)[0] >= 10_000.0
    known.observe(keys(CLASS, USER, count=10), np.full(10, 60.0))
    assert 60.0 <= known.estimate(keys(CLASS, USER), 0.75)[0] <= 80.0


def test_what_a_key_did_long_ago_fades() -> None:
    """After a hundred short jobs, a hundred long ones before them count for little."""
    known = RunTimes()
    known.observe(keys(CLASS, count=100), np.full(100, 10_000.0))
    known.observe(keys(CLASS, count=100), np.full(100, 60.0))
    assert known.estimate(keys(CLASS), 0.8)[0] < 80.0


def test_job_that_runs_on_is_estimated_by_those_that_ran_as_long() -> None:
    """Beyond the short ones only the long ones count, and beyond all, the time is doubled."""
    known = RunTimes(prior_s=5.0)
    known.observe(keys(CLASS, count=10), np.array([60.0] * 9 + [1_000.0]))
    estimates = known.estimate(keys(CLASS, count=3), 0.5, np.array([0.0, 100.0, 5_000.0]))
    assert 60.0 <= estimates[0] < 80.0
    assert 1_000.0 <= estimates[1] < 1_200.0
    assert estimates[2] == 10_000.0


def test_memory_is_bounded_and_the_least_recent_keys_are_forgotten() -> None:
    """With room for three keys, the fourth takes the place of the one that was not seen for longest."""
    known = RunTimes(prior_s=1.0, max_keys=3)
    for key in (1, 2, 3, 1, 4):
        known.observe(keys(key), np.array([100.0]))
    assert len(known) == 3
    assert known.estimate(np.array([[1], [2], [3], [4]]), 0.5).tolist() == pytest.approx(
        [107.6, 1.0, 107.6, 107.6], 0.01
    )


def test_many_keys_are_kept_apart() -> None:
    """The table grows with its keys."""
    known = RunTimes(max_keys=1000)
    ones = np.arange(300)[:, None]
    known.observe(ones, np.where(ones[:, 0] % 2, 50.0, 5_000.0))
    assert ((known.estimate(ones, 0.5) > 1_000.0) == (ones[:, 0] % 2 == 0)).all()


def test_no_jobs_have_no_estimates() -> None:
    """Nothing is asked of nothing."""
    assert RunTimes().estimate(np.zeros((0, 2), dtype=np.int64), 0.5).size == 0


def test_error_counts_how_far_and_how_often() -> None:
    """Twice too long and twice too short are one octave each; what had no estimate is left out."""
    error = EstimateError()
    error.add(np.array([200.0, 50.0, np.inf]), np.array([100.0, 100.0, 1.0]))
    assert (error.count, error.exceeded_count, error.log2_sum) == (2, 1, 2.0)


@pytest.mark.parametrize("quantile", [0.0, 1.0])
def test_impossible_quantiles_and_priors_are_refused(quantile: float) -> None:
    """A quantile is between none and all."""
    with pytest.raises(InvalidRequest):
        RunTimes().estimate(keys(CLASS), quantile)
    with pytest.raises(InvalidRequest):
        RunTimes(prior_s=quantile - 1.0)


def test_estimate_does_not_depend_on_what_was_asked_before() -> None:
    """Asked again after an observation or for another prior, it is what one that is asked for the first time says."""
    asked, seen_s = RunTimes(100.0, is_seen=True), []
    jobs, elapsed_s = np.array([[CLASS, USER], [OTHER, USER], [CLASS, USER]]), np.array([0.0, 500.0, 2_000.0])
    for prior_s, ended_s in ((100.0, [30.0]), (100.0, [5_000.0]), (1e6, [])):
        seen_s += ended_s
        if ended_s:
            asked.observe(keys(CLASS, USER), np.array(ended_s))
        first = RunTimes(prior_s, is_seen=True)
        first.observe(keys(CLASS, USER, count=len(seen_s)), np.array(seen_s))
        asked.prior_s = prior_s
        assert asked.estimate(jobs, 0.9, elapsed_s).tolist() == first.estimate(jobs, 0.9, elapsed_s).tolist()
        assert asked.estimate(jobs, 0.9).tolist() == first.estimate(jobs, 0.9).tolist()

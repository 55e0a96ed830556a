"""What leaders did between two moments."""

import math

import numpy as np
import pytest

from argosy_client import LastRound, StageLatency
from argosy_local.round_totals import Histogram, RoundTotals


def answer(*, epoch: int, leases: int, counts: list[int]) -> LastRound:
    """Return a leader's answer."""
    latency = StageLatency(
        stage="leased",
        job_count=sum(counts),
        p50_ms=0,
        p90_ms=0,
        p99_ms=0,
        bounds_ms=(10.0, 20.0, 40.0)[: len(counts)],
        bucket_counts=tuple(counts),
    )
    return LastRound(
        round=1,
        epoch=epoch,
        queued_count=0,
        pending_count=0,
        leased_count=0,
        conflict_count=0,
        class_count=0,
        phases_ms={},
        totals={"leases": leases},
        latencies={"leased": latency},
    )


def test_totals_are_differences_summed_over_leaders() -> None:
    """A leader begins from nothing, so another epoch's totals count whole."""
    totals = RoundTotals()

    totals.look(answer(epoch=1, leases=100, counts=[50, 50]))
    totals.look(answer(epoch=1, leases=130, counts=[60, 70]))
    totals.look(answer(epoch=2, leases=5, counts=[1, 0, 4]))
    totals.look(answer(epoch=2, leases=7, counts=[1, 0, 6]))

    assert totals.totals == {"leases": 37}
    assert totals.histograms["leased"].counts.tolist() == [11, 20, 6]
    assert totals.histograms["leased"].bounds_ms.tolist() == [10.0, 20.0, 40.0]


@pytest.mark.parametrize(
    ("level", "expected_ms"),
    [
        pytest.param(0.0, 0.0, id="least"),
        pytest.param(0.25, 5.0, id="inside the first bucket"),
        pytest.param(0.5, 10.0, id="at a bound"),
        pytest.param(0.75, 30.0, id="across an empty bucket"),
        pytest.param(1.0, 40.0, id="most"),
    ],
)
def test_quantile_is_linear_within_its_bucket(level: float, expected_ms: float) -> None:
    """Ten times up to 10 ms and ten between 20 and 40 ms."""
    histogram = Histogram(np.array([10.0, 20.0, 40.0]), np.array([10, 0, 10]))

    assert histogram.quantile_ms(level) == pytest.approx(expected_ms)


def test_times_above_every_bound_count_as_the_last() -> None:
    """A last bucket without a bound holds the rest."""
    histogram = Histogram(np.array([10.0]), np.array([1, 3]))

    assert histogram.quantile_ms(0.9) == 10.0
    assert histogram.mean_ms() == pytest.approx((5 + 3 * 10) / 4)


def test_empty_histogram_has_no_quantile() -> None:
    """Nothing counted is not 0 ms."""
    assert math.isnan(Histogram().quantile_ms(0.5))
    assert math.isnan(Histogram().mean_ms())

"""Histograms of the time from submit to a stage."""

from __future__ import annotations

import numpy as np
import pytest

from argosy_server.leader.show.latency import LatencyHistogram, quantile_ms


@pytest.mark.parametrize(("ratio", "milliseconds"), [(0.5, 10.0), (0.99, 1000.0)])
def test_quantiles_are_within_a_bucket_of_the_truth(ratio: float, milliseconds: float) -> None:
    """Buckets grow by 5 %, so a quantile is at most that far off."""
    histogram = LatencyHistogram()
    durations_ms = np.concatenate([np.full(90, 10.0), np.full(10, 1000.0)])
    histogram.add((1_000_000_000 - durations_ms * 1000).astype(np.int64), 1_000_000_000)
    assert quantile_ms(histogram.counts, ratio) == pytest.approx(milliseconds, rel=0.06)


def test_no_jobs_have_no_latency() -> None:
    """An empty histogram answers 0."""
    assert quantile_ms(LatencyHistogram().counts, 0.5) == 0.0


def test_durations_beyond_the_last_bound_are_counted() -> None:
    """Nothing falls out of the histogram."""
    histogram = LatencyHistogram()
    histogram.add(np.array([0], dtype=np.int64), 10**15)
    assert histogram.counts.sum() == 1

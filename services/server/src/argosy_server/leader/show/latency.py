"""Histograms of the time from submit to each stage, over all jobs, at NumPy speed.

Source: seed 003 "Scheduler metrics" (submission latency).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

__all__ = ["BOUNDS_MS", "LatencyHistogram", "quantile_ms"]

BOUNDS_MS: npt.NDArray[np.float64] = np.asarray(0.5 * 1.05 ** np.arange(320), dtype=np.float64)
"""Upper bounds of the buckets, milliseconds; from 0.5 ms to about 48 minutes in steps of 5 %."""


def quantile_ms(counts: npt.NDArray[np.int64], ratio: float) -> float:
    """Return the upper bound of the bucket that holds a quantile, 0 if nothing was counted.

    Args:
        counts: Jobs per bucket; one more bucket than bounds, the last one open.
        ratio: Quantile, 0 to 1.
    """
    total = int(counts.sum())
    if total == 0:
        return 0.0
    bucket = int(np.searchsorted(np.cumsum(counts), ratio * total))
    return float(BOUNDS_MS[min(bucket, len(BOUNDS_MS) - 1)])


@dataclass(slots=True)
class LatencyHistogram:
    """Counts of durations in buckets that grow by 5 %."""

    counts: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(len(BOUNDS_MS) + 1, dtype=np.int64))
    """Jobs per bucket."""

    def add(self, submit_time_us: npt.NDArray[np.int64], now_us: int | npt.NDArray[np.int64]) -> None:
        """Count one duration per job.

        Args:
            submit_time_us: When each job was accepted, microseconds since the Unix epoch.
            now_us: When the jobs reached the stage, on the same clock.
        """
        if submit_time_us.size:
            durations_ms = (now_us - submit_time_us) / 1000.0
            buckets = np.searchsorted(BOUNDS_MS, durations_ms)
            np.add.at(self.counts, buckets, 1)

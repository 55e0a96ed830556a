"""What leaders did between two moments, from the totals and histograms they keep since their start.

A leader's totals begin anew when another takes over, so the differences are summed epoch by epoch; what a leader did
between its last look and its death is not seen.

Source: proto/argosy/api/v1/scheduling.proto, GetLastRoundResponse.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from argosy_client import LastRound, StageLatency

__all__ = ["Histogram", "RoundTotals"]

FloatArray = npt.NDArray[np.float64]


@dataclass(slots=True)
class Histogram:
    """Counts of times in buckets."""

    bounds_ms: FloatArray = field(default_factory=lambda: np.zeros(0))
    """(b,) upper bounds of the buckets, ascending; the last bucket also holds what is above."""
    counts: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """(b,) times per bucket."""

    def add(self, bounds_ms: FloatArray, counts: npt.NDArray[np.int64]) -> None:
        """Add counts over the same bounds; buckets that a shorter answer left out count 0."""
        size = max(len(self.counts), len(counts))
        total = np.zeros(size, dtype=np.int64)
        total[: len(self.counts)] += self.counts
        total[: len(counts)] += counts
        self.counts = total
        if len(bounds_ms) > len(self.bounds_ms):
            self.bounds_ms = bounds_ms

    @property
    def count(self) -> int:
        """Number of times."""
        return int(self.counts.sum())

    def quantile_ms(self, level: float) -> float:
        """Return the time below which a share of the times lies, linear within its bucket; NaN without any.

        Args:
            level: 0 to 1.
        """
        total = self.counts.sum()
        if not total:
            return float("nan")
        summed = np.cumsum(self.counts)
        bucket = int(np.searchsorted(summed, level * total, side="left"))
        bucket = min(max(bucket, int(np.flatnonzero(self.counts)[0])), len(self.counts) - 1)
        if bucket >= len(self.bounds_ms):  # above every bound
            return float(self.bounds_ms[-1])
        low = float(self.bounds_ms[bucket - 1]) if bucket else 0.0
        inside = (level * total - (summed[bucket] - self.counts[bucket])) / self.counts[bucket]
        return low + (float(self.bounds_ms[bucket]) - low) * min(max(float(inside), 0.0), 1.0)

    def mean_ms(self) -> float:
        """Return the mean, every time taken in the middle of its bucket; NaN without any."""
        if not self.count or not len(self.bounds_ms):
            return float("nan")
        middles = (np.concatenate([[0.0], self.bounds_ms[:-1]]) + self.bounds_ms) / 2
        padded = np.append(middles, self.bounds_ms[-1])[: len(self.counts)]
        return float((padded * self.counts[: len(padded)]).sum() / self.count)


class RoundTotals:
    """Sums what `GetLastRound` tells, look by look."""

    def __init__(self) -> None:
        """Begin at the first look."""
        self._last: LastRound | None = None
        self.totals: dict[str, int] = {}
        """Differences of the leaders' totals since the first look."""
        self.histograms: dict[str, Histogram] = {}
        """Times from submit to each stage since the first look."""

    def look(self, answer: LastRound) -> None:
        """Take an answer; the first one only sets where to begin."""
        last, self._last = self._last, answer
        if last is None:
            return
        before = last if last.epoch == answer.epoch else None
        for name, value in answer.totals.items():
            difference = value - (before.totals.get(name, 0) if before else 0)
            self.totals[name] = self.totals.get(name, 0) + difference
        earlier: Mapping[str, StageLatency] = before.latencies if before else {}
        for stage, latency in answer.latencies.items():
            counts = np.array(latency.bucket_counts, dtype=np.int64)
            if stage in earlier:
                known = earlier[stage].bucket_counts
                counts[: len(known)] -= known
            self.histograms.setdefault(stage, Histogram()).add(np.array(latency.bounds_ms), counts)

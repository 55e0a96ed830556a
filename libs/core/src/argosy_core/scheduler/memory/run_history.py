"""Run times of what has ended, for promises and for people.

Source: design section 5, "Round" 5; decision 0017.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from argosy_core.arrays import Float64s, Int64s
from argosy_core.backfill import RunTimes

__all__ = ["RunHistory"]

_QUANTILE: Final = 0.9
"""The share of runs that take no longer than estimated: a promise needs margin."""
_MOST_KEYS: Final = 4096


class RunHistory:
    """Run times of what has ended, learned when somebody asks: most of the time nobody does.

    Args:
        prior_s: What is estimated where nothing is known, seconds.
    """

    def __init__(self, prior_s: float) -> None:
        """Start knowing nothing."""
        self._times = RunTimes(prior_s, max_keys=_MOST_KEYS)
        self._unlearned: deque[tuple[Int64s, Float64s]] = deque(maxlen=64)

    @property
    def error(self) -> tuple[int, int, float]:
        """Runs that were estimated, those of them that took longer, and the sum of binary logarithms of the factors."""
        error = self._times.error
        return error.count, error.exceeded_count, error.log2_sum

    def set_prior(self, prior_s: float) -> None:
        """Say what is estimated from now on where nothing is known, seconds."""
        self._times.prior_s = prior_s

    def note_ended(self, keys: Int64s, run_time_s: Float64s) -> None:
        """Take note of runs that have ended, with their keys as of `RunTimes`; of many calls, the last 64 count."""
        self._unlearned.append((keys, run_time_s))

    def estimate_s(self, keys: Int64s, elapsed_s: Float64s | None = None) -> Float64s:
        """Return how long runs are expected to take; see `RunTimes.estimate`."""
        while self._unlearned:
            ended, run_time_s = self._unlearned.popleft()
            self._times.error.add(self._times.estimate(ended, _QUANTILE), run_time_s)
            self._times.observe(ended, run_time_s)
        return self._times.estimate(keys, _QUANTILE, elapsed_s)

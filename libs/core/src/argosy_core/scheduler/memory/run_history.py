"""Run times of what has ended, and how they compare with what was said of them, for promises and for people.

What a submitter says is often far too long, and as far off again next time. So of runs of which something was said the
*part* of it is learned that they took; what is expected of the next one is that part of what is said of it, no more
than all of it: who says what is exact is taken at their word.

Source: design section 5, "Round" 5; decision 0017.
"""

from __future__ import annotations

from collections import deque
from typing import Final

import numpy as np

from argosy_core.arrays import Float64s, Int64s
from argosy_core.backfill import RunTimes

__all__ = ["LIKE_PROMISES", "RunHistory"]

LIKE_PROMISES: Final = 0.9
"""The share of runs that take no longer than estimated: a promise needs margin."""
_MOST_KEYS: Final = 8192
_WHOLE: Final = float(1 << 20)
"""What stands for all of what was said where parts are counted: a bound of bins, so that what is exact remains so."""


class RunHistory:
    """Run times of what has ended, learned when somebody asks: most of the time nobody does.

    Args:
        prior_s: What is estimated where nothing is known, seconds.
    """

    def __init__(self, prior_s: float) -> None:
        """Start knowing nothing."""
        self._times = RunTimes(prior_s, max_keys=_MOST_KEYS)
        self._parts = RunTimes(_WHOLE, max_keys=_MOST_KEYS, is_seen=True)
        self._unlearned: deque[tuple[Int64s, Float64s, Float64s]] = deque(maxlen=64)

    @property
    def error(self) -> tuple[int, int, float]:
        """Runs that were estimated, those of them that took longer, and the sum of binary logarithms of the factors."""
        error = self._times.error
        return error.count, error.exceeded_count, error.log2_sum

    def set_prior(self, prior_s: float) -> None:
        """Say what is estimated from now on where nothing is known, seconds."""
        self._times.prior_s = prior_s

    def note_ended(self, keys: Int64s, run_time_s: Float64s, said_s: Float64s) -> None:
        """Take note of runs that have ended; of many calls, the last 64 count.

        Args:
            keys: (n, k) keys of each as of `RunTimes`.
            run_time_s: (n,) how long each ran, seconds.
            said_s: (n,) what its submitter had said, seconds; 0 or less for nothing.
        """
        self._unlearned.append((keys, run_time_s, said_s))

    def _learn(self) -> None:
        while self._unlearned:
            keys, run_time_s, said_s = self._unlearned.popleft()
            self._times.error.add(self._times.estimate(keys, LIKE_PROMISES), run_time_s)
            self._times.observe(keys, run_time_s)
            told = said_s > 0
            self._parts.observe(keys[told], _WHOLE * run_time_s[told] / said_s[told])

    def knows(self, keys: Int64s) -> list[bool]:
        """Return of which keys runs are remembered."""
        self._learn()
        return [self._times.knows(key) for key in keys.tolist()]

    def estimate_s(
        self, keys: Int64s, elapsed_s: Float64s | None = None, *, quantile: float = LIKE_PROMISES
    ) -> Float64s:
        """Return how long runs are expected to take of which nothing was said; see `RunTimes.estimate`."""
        self._learn()
        return self._times.estimate(keys, quantile, elapsed_s)

    def correct_s(
        self, keys: Int64s, said_s: Float64s, elapsed_s: Float64s | None = None, *, quantile: float = LIKE_PROMISES
    ) -> Float64s:
        """Return how long runs are expected to take of which something was said; no longer than that.

        Args:
            keys: (n, k) keys of each.
            said_s: (n,) what was said, seconds, above 0.
            elapsed_s: (n,) how long each has run already, seconds, less than was said of it; by default none has.
            quantile: The share of runs that take no longer.
        """
        self._learn()
        elapsed = None if elapsed_s is None else _WHOLE * elapsed_s / said_s
        part = self._parts.estimate(keys, quantile, elapsed) / _WHOLE
        return np.asarray(said_s * np.minimum(part, 1.0))

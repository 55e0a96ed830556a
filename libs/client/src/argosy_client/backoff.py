"""How long to wait before a call is repeated.

Source: design section 3, "every mutation idempotent by a client-chosen id"; section 5, "Submit".
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

__all__ = ["RetryPolicy"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Exponential back-off with full jitter, bounded in time."""

    first_delay_s: float = 0.05
    """Longest first delay; a server that restarts is back within seconds, one that hiccups within milliseconds."""
    factor: float = 2.0
    """Growth of the longest delay per failed attempt."""
    max_delay_s: float = 2.0
    """No longest delay above this."""
    total_s: float = 30.0
    """No attempt starts later than this after the first; 0 for one attempt only."""

    def delay_s(self, failed_count: int, random: Random) -> float:
        """Return how long to wait after so many failed attempts, between a half and all of the longest delay."""
        longest_s = min(self.first_delay_s * self.factor ** min(failed_count - 1, 60), self.max_delay_s)
        return longest_s * (0.5 + 0.5 * random.random())

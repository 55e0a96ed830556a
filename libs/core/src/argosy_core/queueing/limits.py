"""Limits of what a queue holds at once: how many jobs, and how much of each resource.

Source: 003 "Scheduling constraints" (no single user gets everything).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["QueueLimits", "keep_within"]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLimits:
    """What one queue may hold at once."""

    max_running_count: int = 0
    """Most jobs in flight, leased or running; 0 for no limit."""
    max_running_amounts: tuple[tuple[str, int], ...] = ()
    """(resource, most that these jobs hold together, base units); what is not named has no limit."""

    def __bool__(self) -> bool:
        """Tell whether anything is limited."""
        return bool(self.max_running_count or self.max_running_amounts)


def keep_within(amounts: npt.NDArray[np.int64], left: npt.NDArray[np.int64], count: int) -> npt.NDArray[np.bool_]:
    """Return which of some jobs may start, each if it fits beside those before it that may.

    Args:
        amounts: (job, resource) what each asks for, in their order.
        left: (resource,) how much more may be held; below 0 counts as 0.
        count: How many more jobs may be held.

    Complexity: O(jobs x resources) in NumPy for each kind of job that is held back.
    """
    kept = np.zeros(len(amounts), dtype=np.bool_)
    left, rows = np.maximum(left, 0), np.arange(len(amounts))
    while rows.size and count > 0:
        running = np.cumsum(amounts[rows], axis=0)
        fits = (running <= left).all(axis=1)
        end = min(int(np.argmin(fits)) if not fits.all() else rows.size, count)
        kept[rows[:end]] = True
        count -= end
        if end == rows.size:
            break
        left = left - running[end - 1] if end else left
        # Whoever asks for no less of anything than the first that does not fit does not fit either.
        rest = rows[end + 1 :]
        rows = rest[(amounts[rest] < amounts[rows[end]]).any(axis=1)]
    return kept

"""Limits of a queue: what it holds at once, what never ends by itself, what is beyond its share, and rates.

Source: 003 "Scheduling constraints" (no single user gets everything).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

__all__ = ["RATE_BURST_S", "Excess", "QueueLimits", "keep_within"]

RATE_BURST_S: Final = 10.0
"""Seconds of a rate that may be taken at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLimits:
    """What one queue may hold at once."""

    max_running_count: int = 0
    """Most jobs in flight, leased or running; 0 for no limit."""
    max_running_amounts: tuple[tuple[str, int], ...] = ()
    """(resource, most that these jobs hold together, base units); what is not named has no limit."""
    lease_rate_per_s: float = 0.0
    """Most jobs that begin in a second for ever; ten seconds' worth at once, and at least one. 0 for no limit."""

    def __bool__(self) -> bool:
        """Tell whether anything is limited."""
        return bool(self.max_running_count or self.max_running_amounts or self.lease_rate_per_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Excess:
    """What jobs cost that begin beyond the fair share of their queue; n jobs."""

    usage: npt.NDArray[np.int64]
    """(n,) usage of each, micro-cores."""
    charge: npt.NDArray[np.int64]
    """(n,) what each costs beyond the share, core-seconds."""
    share_left: int
    """How much usage may begin before the share is reached, micro-cores; below 0 if it is passed already."""
    budget_left: int
    """What may be charged still, core-seconds."""


def keep_within(
    amounts: npt.NDArray[np.int64], left: npt.NDArray[np.int64], count: int, excess: Excess | None = None
) -> npt.NDArray[np.bool_]:
    """Return which of some jobs may start, each if it fits beside those before it that may.

    Args:
        amounts: (job, resource) what each asks for, in their order.
        left: (resource,) how much more may be held; below 0 counts as 0.
        count: How many more jobs may be held.
        excess: What they cost beyond the fair share of their queue; None if nothing is charged.

    Complexity: O(jobs x resources) in NumPy for each kind of job that is held back.
    """
    kept = np.zeros(len(amounts), dtype=np.bool_)
    left, rows = np.maximum(left, 0), np.arange(len(amounts))
    sizes, share_left, budget_left = amounts, 0, 0
    if excess is not None:
        sizes = np.column_stack([amounts, excess.usage, excess.charge])
        share_left, budget_left = excess.share_left, max(excess.budget_left, 0)
    while rows.size and count > 0:
        running = np.cumsum(amounts[rows], axis=0)
        fits = (running <= left).all(axis=1)
        if excess is not None:
            usage = np.cumsum(excess.usage[rows])
            charged = np.cumsum(np.where(usage > share_left, excess.charge[rows], 0))
            fits &= charged <= budget_left
        end = min(int(np.argmin(fits)) if not fits.all() else rows.size, count)
        kept[rows[:end]] = True
        count -= end
        if end == rows.size:
            break
        if end:
            left = left - running[end - 1]
            if excess is not None:
                share_left, budget_left = share_left - int(usage[end - 1]), budget_left - int(charged[end - 1])
        # Whoever asks for no less of anything than the first that does not fit does not fit either.
        rest = rows[end + 1 :]
        rows = rest[(sizes[rest] < sizes[rows[end]]).any(axis=1)]
    return kept

"""What queues may hold for the sake of their fair shares: a cap of what is never preempted, a budget for the rest.

Source: 003 "Fair share", "Scheduling constraints".
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from argosy_core.arrays import Bools, Float64s, Int32s

__all__ = ["MOST", "Caps"]

MOST = (1 << 48) - 1
"""No cap, left-over or charge counts more, micro-cores or core-seconds; so sums over many jobs fit int64."""


@dataclass(slots=True)
class Caps:
    """Caps of all queues of a pool, by their indices; queues that came later have none."""

    key: tuple[object, ...] = ()
    """All that shares, caps and budgets follow from, so that they are not found anew while it is the same."""
    share: Float64s = field(default_factory=lambda: np.zeros(0))
    """Fair share of the pool's capacity by the weights of all queues that there are, micro-cores."""
    most_non_preemptible: Float64s = field(default_factory=lambda: np.zeros(0))
    """Most flow of its jobs without a lifetime, micro-cores."""
    capacity: float = 0.0
    """What the pool has, micro-cores; a cap that is no less holds nothing back."""
    least_usage: int = 0
    """No waiting job counts less, micro-cores."""
    budget_core_s: Float64s = field(default_factory=lambda: np.zeros(0))
    """Excess flow budget, core-seconds."""
    binds: Bools = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    """Whether what waits is too much for it to start at once."""
    reserved: Int32s = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    """Waiting jobs that were promised a start, or have runs stopped for them: they count as if they had begun."""
    due_s: float = math.inf
    """When a flow that holds jobs back has fallen so far that it does not, seconds since the Unix epoch."""

    def equals(self, other: Caps) -> bool:
        """Return whether other caps hold back the same."""
        return self.key == other.key and np.array_equal(self.reserved, other.reserved)

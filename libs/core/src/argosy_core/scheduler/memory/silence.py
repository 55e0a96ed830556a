"""Clusters whose executors are not heard of, and runs there whose jobs do not wait for them.

Such a run may go on where nobody hears it, so without the job's word it is waited for. With it, its executor stops it
by itself after the same time (`reconcile/cut_off.py`); a margin later it counts as lost here, and its job waits for the
next run. What of the old one is ever seen again is told to stop.

Source: design section 5, "Executor lost".
"""

from __future__ import annotations

import math
from typing import Final

__all__ = ["LOOK_PERIOD_S", "Silence"]

LOOK_PERIOD_S: Final = 30.0
"""How often a cluster that is not heard of is looked at: leases that were under way may have come since."""


class Silence:
    """Since when clusters are not heard of, and when their runs are to be looked at next; moments in Unix time."""

    def __init__(self) -> None:
        """Start with all heard."""
        self._since_s: dict[int, float] = {}
        self._due_s: dict[int, float] = {}

    def begin(self, cluster: int, since_s: float) -> None:
        """Take note that a cluster's executor is not heard of.

        Args:
            cluster: Index of the cluster.
            since_s: When it was heard last, and the margin after that, seconds.
        """
        self._since_s[cluster] = self._due_s[cluster] = since_s

    def end(self, cluster: int) -> None:
        """Take note that it is heard."""
        self._since_s.pop(cluster, None)
        self._due_s.pop(cluster, None)

    def next_s(self) -> float:
        """Return when to look next, seconds; infinite if never."""
        return min(self._due_s.values(), default=math.inf)

    def take_due(self, now_s: float) -> list[tuple[int, float]]:
        """Return (cluster, since when) of those to look at now; `look_at` says when again."""
        return [(cluster, self._since_s[cluster]) for cluster, due_s in self._due_s.items() if due_s <= now_s]

    def look_at(self, cluster: int, due_s: float) -> None:
        """Look at a cluster again at a moment."""
        self._due_s[cluster] = due_s

"""When a sampler tells its leader what has changed of its cluster.

Totals are told at most once per interval, and what single nodes have left, which interests people only, far more
rarely. But a class that was answered for want of nodes waits at the leader until the sampler says that it fits: while a
class waits, the first rise after the last message is looked at after a short time. So a class that waits loses little,
and a cluster on which nothing waits costs no message more.

Source: design section 5, "Round" 2; seed 000 "Sampling Phase".
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

__all__ = ["CapacityScope", "CapacityThrottle", "ThrottleSettings"]


_LEAST_PAUSE_S: Final = 0.001


class CapacityScope(Enum):
    """What to tell now."""

    NOTHING = 0
    """Nothing; ask again later."""
    TOTALS = 1
    """The sums, and nodes that came, went or are otherwise."""
    NODES = 2
    """These, and every node of which something was taken or given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThrottleSettings:
    """Least times between messages, seconds."""

    interval_s: float
    """Between totals."""
    rise_interval_s: float
    """Between totals while a class waits and capacity rises."""
    node_interval_s: float
    """Between what single nodes have left."""


class CapacityThrottle:
    """The times of one stream.

    Args:
        settings: Least times.
        now_s: Now; everything was told just now.
    """

    def __init__(self, settings: ThrottleSettings, now_s: float) -> None:
        """Start with nobody waiting."""
        self._settings = settings
        self._totals_s = now_s
        self._nodes_s = now_s
        self._told_rise = 0

    def pause_s(self, now_s: float, *, is_awaited: bool) -> float:
        """Return how long to wait before `next_scope` is asked, seconds; until a class begins to wait if none does.

        Args:
            now_s: Now.
            is_awaited: Whether some class waits for capacity to rise.
        """
        settings = self._settings
        due_s = min(self._totals_s + settings.interval_s, self._nodes_s + settings.node_interval_s) - now_s
        return max(min(due_s, settings.rise_interval_s) if is_awaited else due_s, _LEAST_PAUSE_S)

    def next_scope(self, now_s: float, *, rise: int, is_awaited: bool) -> CapacityScope:
        """Return what to tell now; it counts as told.

        Args:
            now_s: Now.
            rise: The node table's last rise.
            is_awaited: Whether some class waits for capacity to rise.
        """
        settings = self._settings
        if now_s >= self._nodes_s + settings.node_interval_s:
            scope = CapacityScope.NODES
        elif now_s >= self._totals_s + settings.interval_s or (
            is_awaited and rise != self._told_rise and now_s >= self._totals_s + settings.rise_interval_s
        ):
            scope = CapacityScope.TOTALS
        else:
            return CapacityScope.NOTHING
        self._totals_s, self._told_rise = now_s, rise
        if scope is CapacityScope.NODES:
            self._nodes_s = now_s
        return scope

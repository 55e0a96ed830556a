"""Which runs are stopped to make room, for which waiting heads, and when to look again whether to stop some.

Source: design section 5, "Round" 7.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

__all__ = ["Nominations"]


@dataclass(slots=True)
class Nominations:
    """What preemption keeps between rounds; see `preempting` and `making_room`."""

    nominated: dict[int, float] = field(default_factory=dict)
    """Handle -> until when nothing else is stopped for it, seconds since the Unix epoch."""
    cleared_for: dict[int, int] = field(default_factory=dict)
    """Handle of each job whose run was stopped for a head -> handle of that head."""
    preempted: dict[int, str] = field(default_factory=dict)
    """Handle -> why, of jobs whose present run is stopped so that others have room."""
    has_lifetimes: bool = False
    """Whether a job was ever taken that may be preempted."""
    due_s: float = math.inf
    """When runs may be stopped next for waiting heads, seconds since the Unix epoch."""
    cordoned_nodes: dict[int, frozenset[str]] = field(default_factory=dict)
    """Cluster index -> names of its nodes on which nothing new is placed, if there are any."""

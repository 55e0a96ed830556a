"""Failures on order: what a test asks a simulated cluster to do wrong, and what the cluster counted.

Source: the cluster port's contract; design section 7.
"""

from __future__ import annotations

from typing import Literal

import msgspec

__all__ = ["Audit", "Fault", "FaultKind", "PendingFaults"]

FaultKind = Literal[
    "create-timeout",
    "create-throttled",
    "create-foreign",
    "create-quota",
    "create-rejected",
    "image-never-pulls",
    "unavailable",
    "watch-dropped",
    "watch-stale",
    "node-lost",
    "node-unreachable",
    "node-recovered",
    "node-evicts",
]
"""What goes wrong:

- `create-timeout`: the next `count` create calls are applied and then answered UNAVAILABLE (504).
- `create-throttled`: the next `count` create calls are answered UNAVAILABLE and not applied (429).
- `create-foreign`: for the next `count` objects somebody else has the name (409).
- `create-quota`: the next `count` objects stand against a quota.
- `create-rejected`: the next `count` objects are refused for good.
- `image-never-pulls`: the next `count` pods stay pending with ImagePullBackOff.
- `unavailable`: the next `count` calls of any kind are not answered.
- `watch-dropped`: every running watch ends without an error.
- `watch-stale`: every version before now can no longer be resumed from.
- `node-lost`: the node object `node` goes, and its pods with it.
- `node-unreachable`: `node` is not ready, its pods are UNKNOWN and run on unseen.
- `node-recovered`: `node` is ready again.
- `node-evicts`: every pod on `node` fails with reason Evicted.
"""


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """One failure on order."""

    kind: FaultKind
    """What goes wrong."""
    count: int = 1
    """How many times, for those that are counted."""
    node: str = ""
    """Name of the node, for those of a node."""


class Audit(msgspec.Struct, frozen=True, kw_only=True):
    """What the cluster saw since it started; the evidence for invariants 1 and 8."""

    pods_created: int
    """Pods that were accepted."""
    pods_succeeded: int
    """Pods that ended with success."""
    pods_failed: int
    """Pods that ended otherwise, those refused by their node included."""
    pods_killed: int
    """Pods deleted before their end, with their node included."""
    pods_present: int
    """Pods that exist now."""
    pods_running: int
    """Pods that run now."""
    max_pods_running: int
    """Most pods that ran at once."""
    double_runs: int
    """How often a pod of a job member started while another of the same member ran. Source: invariant 1."""
    overcommits: int
    """Pods that were bound to a node without room for them. Source: invariant 8."""
    unmanaged_pods: int
    """Unmanaged pods that exist now."""
    cpu_core_s: float
    """Cores requested by running pods over simulated time, unmanaged pods apart."""
    used: dict[str, int]
    """Amounts booked on present nodes now, base units."""
    allocatable: dict[str, int]
    """Amounts of present nodes, base units."""
    time_us: int
    """When this was counted, microseconds since the Unix epoch."""
    speed: float
    """Simulated seconds per real second."""


class PendingFaults:
    """Failures that were ordered and have not happened yet, by kind."""

    def __init__(self) -> None:
        """Start with none."""
        self._left: dict[FaultKind, int] = {}

    def order(self, kind: FaultKind, count: int) -> None:
        """Let a failure happen `count` more times."""
        self._left[kind] = self._left.get(kind, 0) + count

    def has(self, kind: FaultKind) -> bool:
        """Return whether a failure is still to happen."""
        return self._left.get(kind, 0) > 0

    def take(self, kind: FaultKind, limit: int = 1) -> int:
        """Return how many of up to `limit` chances fail now, and count them off."""
        left = self._left.get(kind, 0)
        if not left:
            return 0
        taken = min(left, limit)
        self._left[kind] = left - taken
        return taken

"""Failures of an API server on order."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Literal

__all__ = ["ApiFault", "FaultKind", "FaultScript"]

FaultKind = Literal["status", "drop", "slow", "truncate", "garbage", "bad-utf8"]
"""How a call fails:

- `status`: it is answered with a status.
- `drop`: the connection ends without an answer.
- `slow`: the answer takes `delay_s`; its second half as long again.
- `truncate`: half of the answer comes, as if it were all.
- `garbage`: the answer is no JSON.
- `bad-utf8`: a text of the answer is not UTF-8.
"""


@dataclass(slots=True, kw_only=True)
class ApiFault:
    """One failure on order; calls that match it fail while `count` lasts."""

    method: str = ""
    """HTTP method, empty for any."""
    path: str = ""
    """Part of the path and query, empty for any."""
    count: int = 1
    """How many calls fail."""
    kind: FaultKind = "status"
    """How."""
    status: int = 500
    """HTTP status."""
    reason: str = "InternalError"
    """Word for programs."""
    message: str = "on order"
    """Text for people."""
    name: str = ""
    """Object that the refusal is about, as admission tells it."""
    resource: str = ""
    """Its resource, as the refusal of a right tells it."""
    is_bare: bool = False
    """The answer has no details, as those of webhooks."""
    retry_after: str = ""
    """Header Retry-After."""
    is_applied: bool = False
    """The call is applied before it fails."""
    delay_s: float = 0.0
    """How long the answer takes."""


class FaultScript:
    """The failures that are still to happen, in order."""

    def __init__(self) -> None:
        """Start with none."""
        self._faults: list[ApiFault] = []
        self.seen: list[tuple[str, str]] = []
        """(method, path and query) of every call, in order."""
        self.seen_s: list[float] = []
        """When each of them came, monotonic seconds."""
        self.accepted: list[tuple[str, str]] = []
        """(method, type of answer asked for) of every call, in order."""

    def add(self, *faults: ApiFault) -> None:
        """Order failures."""
        self._faults += faults

    def take(self, method: str, path: str) -> ApiFault | None:
        """Return how a call fails, if it does, and count it."""
        self.seen.append((method, path))
        self.seen_s.append(time.monotonic())
        for fault in self._faults:
            if fault.method in {"", method} and fault.path in path:
                fault.count -= 1
                if fault.count <= 0:
                    self._faults.remove(fault)
                return fault
        return None

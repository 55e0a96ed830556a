"""When an executor may act on its cluster.

An executor that has lost its leader must stop acting before anybody concludes that it is gone. It knows this by its own
monotonic clock alone, so no other clock matters, however wrong.

Source: design section 5, "Fencing executors"; section 7, invariants 1 and 9.
"""

from __future__ import annotations

import math
from typing import Final

__all__ = ["FIRST_CONTACT_S", "SETTLE_MARGIN_S", "Fence", "settle_time_s"]

FIRST_CONTACT_S: Final = 30.0
"""How long an executor that was just started looks for a leader before it takes its predecessor to have been cut off
for ever: nothing tells since when that was. Well below the leader's `executor_lost_margin_s`."""

SETTLE_MARGIN_S: Final = 5.0
"""Added to what can be counted: a leader that was replaced may confirm for so long what it should not, seconds."""


def settle_time_s(welcomed_at_s: float, *, fence_s: float, call_timeout_s: float) -> float:
    """Return the moment from which no call of a predecessor can come through, monotonic seconds.

    A predecessor is confirmed for the last time before its successor is admitted, begins calls for as long as its fence
    is open, and gives each of them up after its time-out.

    Args:
        welcomed_at_s: When the successor's first welcome arrived, monotonic seconds.
        fence_s: How long the predecessor may act after its last confirmation.
        call_timeout_s: How long a call may take.
    """
    return welcomed_at_s + fence_s + call_timeout_s + SETTLE_MARGIN_S


class Fence:
    """Says whether the session was confirmed recently enough to act.

    Args:
        started_at_s: When the process began to look for a leader, monotonic seconds.
    """

    __slots__ = ("_confirmed_at_s", "_fence_s", "_started_at_s")

    def __init__(self, started_at_s: float = 0.0) -> None:
        """Begin without a session: acting is not allowed."""
        self._started_at_s = started_at_s
        self._fence_s = 0.0
        self._confirmed_at_s: float | None = None

    @property
    def fence_s(self) -> float:
        """Seconds after a confirmation in which acting is allowed; 0 before the first welcome."""
        return self._fence_s

    def welcome(self, fence_s: float, now_s: float) -> None:
        """Take the leader's fence.

        Args:
            fence_s: Seconds after a confirmation in which acting is allowed.
            now_s: When the confirmed message was *sent*, monotonic seconds.
        """
        self._fence_s = fence_s
        self.confirm(now_s)

    def confirm(self, sent_at_s: float) -> None:
        """Note that the leader answered a message.

        Args:
            sent_at_s: When the message was sent, monotonic seconds. The time of the answer would be later than the
                moment for which the leader vouches.
        """
        if self._confirmed_at_s is None or sent_at_s > self._confirmed_at_s:
            self._confirmed_at_s = sent_at_s

    def may_act(self, now_s: float) -> bool:
        """Return whether the cluster may be touched now."""
        return self._confirmed_at_s is not None and now_s < self._confirmed_at_s + self._fence_s

    def silent_s(self, now_s: float) -> float:
        """Return for how long no leader has vouched for this executor, seconds.

        A process that has never been welcomed cannot know; after `FIRST_CONTACT_S` it takes it for infinite.
        """
        if self._confirmed_at_s is not None:
            return now_s - self._confirmed_at_s
        return math.inf if now_s >= self._started_at_s + FIRST_CONTACT_S else 0.0

"""When an executor may act on its cluster.

An executor that has lost its leader must stop acting before anybody concludes that it is gone. It knows this by its own
monotonic clock alone, so no other clock matters, however wrong.

Source: design section 5, "Fencing executors"; section 7, invariants 1 and 9.
"""

from __future__ import annotations

from typing import Final

__all__ = ["SETTLE_MARGIN_S", "Fence"]

SETTLE_MARGIN_S: Final = 5.0
"""How much longer than the fence a successor waits for calls of its predecessor that were under way, seconds."""


class Fence:
    """Says whether the session was confirmed recently enough to act."""

    __slots__ = ("_confirmed_at_s", "_fence_s")

    def __init__(self) -> None:
        """Begin without a session: acting is not allowed."""
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

"""When it is a call's turn: calls above their peer's rate wait, those far above it are refused, and wait as well.

Source: design section 7, invariant 11.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from argosy_core.errors import BackendUnavailable, QuotaExceeded
from argosy_runtime.peers import MAX_WAIT_S, Peer, PeerRateLimiter, PlaceLimits, Places, RefusalThrottle, refusal

__all__ = ["Turns"]

_FAILED_COST: Final = 4  # an error costs as much to make, and who gets many of them need not get them quickly
_WAITING: Final = PlaceLimits(name="grpc.calls_per_s", total=4096, per_host=3072, per_connection=1024)
_BUSY_PER_S: Final = 50.0  # calls of a connection that are told at once that there is no place, in the long run


class Turns:
    """Turns of the calls of all peers.

    Args:
        calls_per_s: Calls that a connection may begin in a second; 0 for any.
    """

    def __init__(self, calls_per_s: float) -> None:
        """Start with nobody waiting."""
        self._rates = PeerRateLimiter(calls_per_s)
        self._refusals = RefusalThrottle()
        self._busy = PeerRateLimiter(_BUSY_PER_S)
        self._waiting = Places(_WAITING)
        self._is_closed = False

    @property
    def waiting_count(self) -> int:
        """Calls that wait for their turn, or to be told that they are too many."""
        return self._waiting.count

    def close(self) -> None:
        """Refuse every call that comes from now on."""
        self._is_closed = True

    def charge_failure(self, peer: Peer) -> None:
        """Take more of a peer's rate for a call that failed by what the peer did."""
        self._rates.charge(peer, _FAILED_COST, time.monotonic())

    async def wait(self, peer: Peer, cost: float) -> None:
        """Return once a call that takes so much of its peer's rate is within it.

        One far above it is refused, and waits all the same: a caller that does not wait between its calls would
        otherwise take more by being refused than by being served.

        Raises:
            BackendUnavailable: The server shuts down.
            QuotaExceeded: The peer is far above its rate, or too many calls wait.
        """
        if self._is_closed:
            raise BackendUnavailable(
                "the server is shutting down; try again at another replica", reason="SHUTTING_DOWN", retry_delay_s=0.0
            )
        now_s = time.monotonic()
        wait_s = self._rates.wait_s(peer, now_s)
        if wait_s <= MAX_WAIT_S:
            self._rates.charge(peer, cost, now_s)
        if not wait_s:
            return
        await self._hold(peer, wait_s if wait_s <= MAX_WAIT_S else self._refusals.wait_s(peer, now_s), now_s)
        if wait_s > MAX_WAIT_S:
            raise refusal(
                "this connection or host makes more calls in a second than one may; wait and try again",
                reason="CALL_RATE",
                limit="grpc.calls_per_s",
                retry_delay_s=wait_s,
            )

    async def keep_back(self, peer: Peer) -> None:
        """Return when a call that found no place may be told so: at once, unless its peer is told so all the time."""
        now_s = time.monotonic()
        is_seldom = not self._busy.wait_s(peer, now_s)
        self._busy.charge(peer, 1.0, now_s)
        if not is_seldom:
            await self._hold(peer, self._refusals.wait_s(peer, now_s), now_s)

    async def _hold(self, peer: Peer, wait_s: float, now_s: float) -> None:
        """Let a call wait, with a place among those that do.

        Raises:
            QuotaExceeded: Too many wait.
        """
        place = self._waiting.take(peer, now_s=now_s, give_up=_stay)
        self._waiting.note_body(place)
        try:
            await asyncio.sleep(wait_s)
        finally:
            self._waiting.release(place)


def _stay(_: QuotaExceeded) -> None:
    """End nothing: a call that waits for its turn is never without its place."""

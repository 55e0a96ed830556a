"""How much of a server one peer may hold: places for calls, and calls per second.

A peer is known by its connection and its host; nobody proves who they are. Each limit is there three times: for one
connection, for all of one host, and for all together, so whoever takes all it may leaves the rest to others.

Source: design section 7, invariant 11.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from argosy_core.errors import QuotaExceeded, Resource

__all__ = [
    "NOBODY",
    "PEER",
    "Peer",
    "PeerRateLimiter",
    "Place",
    "PlaceLimits",
    "Places",
    "RefusalThrottle",
    "parse_peer",
    "refusal",
]

_BUSY_RETRY_S: Final = 1.0
_BODY_GRACE_S: Final = 0.05  # a request message comes with its headers, or one way through the network later
_BURST_S: Final = 2.0  # a page of a user interface, or a command that follows links, asks for many things at once
_HOST_SHARE: Final = 4.0  # connections that may each use their whole rate before their host has used its own
_REFUSED_S: Final = 1.0  # a caller that does not wait between its calls is slowed down so, at least
_REFUSALS_PER_S: Final = 100.0  # of one host; each costs about as much as a call that is served
_REFUSAL_SHARE: Final = 4.0  # hosts that may each be refused so often before all wait for one another
_LONGEST_REFUSED_S: Final = 20.0
_MAX_KNOWN: Final = 4096
_MOST_ENDED: Final = 32
_ENDED_EVERY_S: Final = 0.02  # between as many overdue calls and the next
MAX_WAIT_S: Final = 1.0
"""How long a call waits for its turn; clients' deadlines are longer."""


@dataclass(frozen=True, slots=True)
class Peer:
    """Who calls."""

    connection: str
    """Address and port, as in `ipv4:10.0.0.7:50312`."""
    host: str
    """Address alone; of IPv6 the first 64 bits, since one machine has all that follow. Those behind one proxy, or in
    one network that translates addresses, are one host."""


NOBODY: Final = Peer("", "")
"""The server itself, where no call is under way."""

PEER: Final[ContextVar[Peer]] = ContextVar("PEER", default=NOBODY)
"""Whose call is being served."""


@lru_cache(maxsize=_MAX_KNOWN)
def parse_peer(text: str) -> Peer:
    """Return the peer that gRPC calls so; text of an unknown form is a host by itself."""
    kind, _, rest = text.partition(":")
    address = rest.rpartition(":")[0]
    if kind != "ipv6":
        return Peer(text, f"{kind}:{address}" if address else text)
    try:
        parsed = ipaddress.IPv6Address(address.removeprefix("%5B").removesuffix("%5D").strip("[]").partition("%")[0])
    except ValueError:
        return Peer(text, text)
    if parsed.ipv4_mapped is not None:  # a listener for both families shows the older one so
        return Peer(text, f"ipv4:{parsed.ipv4_mapped}")
    return Peer(text, f"ipv6:{ipaddress.IPv6Address(int(parsed) >> 64 << 64)}")


def refusal(text: str, *, reason: str, limit: str, retry_delay_s: float = _BUSY_RETRY_S) -> QuotaExceeded:
    """Return the error that a limit of the server answers with.

    Args:
        text: What was too much, and what to do.
        reason: Constant for programs.
        limit: The setting that says how much there may be.
        retry_delay_s: When the same call is worth another try.
    """
    return QuotaExceeded(
        f"{text} ({limit})",
        reason=reason,
        resource=Resource(kind="Server", name=limit),
        retry_delay_s=retry_delay_s,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceLimits:
    """How many calls of a kind may be under way at once."""

    name: str
    """Setting that holds the total; those of the parts are called like it, with `_per_host` and `_per_connection`."""
    total: int
    per_host: int
    per_connection: int


@dataclass(slots=True, eq=False)
class Place:
    """A call under way."""

    peer: Peer
    since_s: float
    """When it came."""
    give_up: Callable[[QuotaExceeded], None]
    """Ends the call, whose place is gone, before its message has come."""
    is_held: bool = True


class Places:
    """Places for calls of one kind; a call without its message is the first to go when there are none left.

    So calls whose messages never come hold places only while nobody else needs them.

    Args:
        limits: How many there are.
    """

    def __init__(self, limits: PlaceLimits) -> None:
        """Start with all free."""
        self._limits = limits
        self._hosts: Counter[str] = Counter()
        self._connections: Counter[str] = Counter()
        self._without_body: dict[Place, None] = {}
        self.count = 0
        """Calls under way."""

    def take(self, peer: Peer, *, now_s: float, give_up: Callable[[QuotaExceeded], None]) -> Place:
        """Return a place, which must be released.

        O(1) while there are free ones, else O(calls that wait for their message).

        Raises:
            QuotaExceeded: There is none for this connection, for its host, or at all.
        """
        while (full := self._full(peer)) is not None:
            is_same, error = full
            oldest = next((place for place in self._without_body if is_same(place)), None)
            if oldest is None or now_s - oldest.since_s < _BODY_GRACE_S:
                try:
                    raise error
                finally:
                    del error, full  # whose traceback would lead to itself, and to the call
            self._take_away(oldest, error)
        place = Place(peer, now_s, give_up)
        self._without_body[place] = None
        self.count += 1
        self._hosts[peer.host] += 1
        self._connections[peer.connection] += 1
        return place

    def note_body(self, place: Place) -> None:
        """Note that the call's message has come: nobody takes its place any more."""
        self._without_body.pop(place, None)

    def release(self, place: Place) -> None:
        """Give a place back; again is nothing."""
        if not place.is_held:
            return
        place.is_held = False
        self._without_body.pop(place, None)
        self.count -= 1
        for counts, name in ((self._hosts, place.peer.host), (self._connections, place.peer.connection)):
            counts[name] -= 1
            if not counts[name]:
                del counts[name]

    def end_overdue(self, now_s: float, timeout_s: float) -> float | None:
        """End calls whose message is overdue, a few at a time: thousands that came together would take long.

        Returns:
            After how many seconds to look again; None if no call waits for its message.
        """
        for _ in range(_MOST_ENDED):
            if not self._without_body:
                return None
            oldest = next(iter(self._without_body))
            if now_s - oldest.since_s < timeout_s:
                return timeout_s / 4
            text = f"the request's message did not come within {timeout_s:g} s"
            self._take_away(oldest, refusal(text, reason="BODY_TIMEOUT", limit="grpc.body_timeout_s"))
        return _ENDED_EVERY_S

    def _take_away(self, place: Place, error: QuotaExceeded) -> None:
        self.release(place)
        place.give_up(error)

    def _full(self, peer: Peer) -> tuple[Callable[[Place], bool], QuotaExceeded] | None:
        """Return which calls take part in the limit that is reached, and its error; None if there is room."""
        limits = self._limits
        if self._connections[peer.connection] >= limits.per_connection:
            error = _own_limit("connection", f"{limits.name}_per_connection")
            return lambda place: place.peer.connection == peer.connection, error
        if self._hosts[peer.host] >= limits.per_host:
            return lambda place: place.peer.host == peer.host, _own_limit("host", f"{limits.name}_per_host")
        if self.count >= limits.total:
            text = "the server is busy with as many calls as it may serve at once; wait and try again"
            return lambda _: True, refusal(text, reason="SERVER_BUSY", limit=limits.name)
        return None


class PeerRateLimiter:
    """Calls per second of each connection, and of each host four times as many.

    A rate is kept as the time at which all that was asked for would be paid for, so a peer costs one number.

    Args:
        calls_per_s: What a connection may do for ever; bursts of two seconds' worth pass at once. 0 for no limit.
    """

    def __init__(self, calls_per_s: float) -> None:
        """Start with nobody known."""
        self._cost_s = 1.0 / calls_per_s if calls_per_s else 0.0
        self._connections: dict[str, float] = {}
        self._hosts: dict[str, float] = {}

    def wait_s(self, peer: Peer, now_s: float) -> float:
        """Return how long a call of a peer must wait to be within its rate; 0 if it is.

        A connection that calls no more than its rate allows for ever does not wait for its host, so whoever shares a
        host, or a proxy, with a flood of calls on other connections goes on.
        """
        paid_s = self._connections.get(peer.connection, 0.0)
        if paid_s <= now_s:
            return 0.0
        return max(0.0, paid_s - now_s - _BURST_S, self._hosts.get(peer.host, 0.0) - now_s - _BURST_S)

    def charge(self, peer: Peer, count: float, now_s: float) -> None:
        """Note calls of a peer. O(1); of more peers than 4,096 those heard last are known, so no flood takes memory."""
        if not self._cost_s or not count:
            return
        for rates, name, cost_s in (
            (self._connections, peer.connection, self._cost_s),
            (self._hosts, peer.host, self._cost_s / _HOST_SHARE),
        ):
            paid_s = max(rates.pop(name, now_s), now_s) + count * cost_s
            if len(rates) >= _MAX_KNOWN:
                del rates[next(iter(rates))]
            rates[name] = min(paid_s, now_s + _BURST_S + 2 * MAX_WAIT_S)  # who stops may soon begin again


class RefusalThrottle:
    """Says how long to keep refusals back, so that being refused takes no more of a server than being served would.

    The refusals of one host are spaced, whatever comes: those of calls that came together are not answered together,
    and a caller that calls again as soon as it is refused is slowed down.
    """

    def __init__(self) -> None:
        """Start with nobody refused."""
        self._last_s: dict[str, float] = {}

    def wait_s(self, peer: Peer, now_s: float) -> float:
        """Return after how long to refuse a call of a peer: 1 s at least, 20 s at most. O(1), in bounded memory."""
        chosen_s = now_s + _REFUSED_S
        for name, gap_s in ((peer.host, 1 / _REFUSALS_PER_S), ("", 1 / (_REFUSALS_PER_S * _REFUSAL_SHARE))):
            last_s = self._last_s.pop(name, 0.0)
            if len(self._last_s) >= _MAX_KNOWN:
                del self._last_s[next(iter(self._last_s))]
            self._last_s[name] = min(max(last_s + gap_s, now_s + _REFUSED_S), now_s + _LONGEST_REFUSED_S)
            chosen_s = max(chosen_s, self._last_s[name])
        return chosen_s - now_s


def _own_limit(scope: str, limit: str) -> QuotaExceeded:
    text = f"this {scope} has as many calls under way as one may have at once; wait for some to end"
    return refusal(text, reason="CALLER_BUSY", limit=limit)

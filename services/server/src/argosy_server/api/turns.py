"""Whose turn it is, where callers share few threads: hosts one after the other, and the callers of a host likewise.

A caller is a user on a connection, so that those whom a facade acts for are told apart. One holds a quarter of the
threads at most, and one host, or one user from wherever, half, so that slow requests of one caller leave threads to
the next, who need not wait for their end. What the server does by itself is bounded by all threads alone.

Source: design section 7, invariant 11.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Hashable
from typing import Any, NamedTuple

from argosy_runtime.peers import NOBODY, Peer

__all__ = ["Turns"]


class _Caller(NamedTuple):
    peer: Peer
    user: str
    """Empty where that is not known, or has no limits."""


_Waiting = OrderedDict[str, OrderedDict[_Caller, deque[asyncio.Future[None]]]]


class Turns:
    """Gives turns; each that was taken must be ended.

    Args:
        count: Turns under way at once.
    """

    def __init__(self, count: int) -> None:
        """Start with all free."""
        self._free_count = count
        self._per_caller = max(1, count // 4)
        self._per_host = max(1, count // 2)
        self._callers: Counter[_Caller] = Counter()
        self._hosts: Counter[str] = Counter()
        self._users: Counter[str] = Counter()
        self._waiting: _Waiting = OrderedDict()

    async def take(self, peer: Peer, user: str = "") -> None:
        """Return when it is the turn of a peer and a user. O(1) if it is at once."""
        caller = _Caller(peer, user)
        if self._free_count and self._may_begin(caller):
            self._begin(caller)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(peer.host, OrderedDict()).setdefault(caller, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.end(peer, user)
            raise

    def end(self, peer: Peer, user: str = "") -> None:
        """End a turn, and begin those that may. O(hosts and callers that wait)."""
        self._free_count += 1
        for counts, name in self._counts(_Caller(peer, user)):
            counts[name] -= 1
            if not counts[name]:
                del counts[name]
        while self._free_count and self._begin_next():
            pass

    def _counts(self, caller: _Caller) -> tuple[tuple[Counter[Any], Hashable], ...]:
        return (self._callers, caller), (self._hosts, caller.peer.host), (self._users, caller.user)

    def _may_begin(self, caller: _Caller) -> bool:
        if caller.peer is NOBODY:
            return True
        if caller.user and self._users[caller.user] >= self._per_host:
            return False
        return self._callers[caller] < self._per_caller and self._hosts[caller.peer.host] < self._per_host

    def _begin(self, caller: _Caller) -> None:
        self._free_count -= 1
        for counts, name in self._counts(caller):
            counts[name] += 1

    def _begin_next(self) -> bool:
        """Begin the turn of the caller that waited longest since its host's and its own last one, if one may begin."""
        for host, callers in list(self._waiting.items()):
            for caller in list(callers):
                turn = self._next_of(host, caller)
                if turn is not None:
                    self._begin(caller)
                    turn.set_result(None)
                    return True
        return False

    def _next_of(self, host: str, caller: _Caller) -> asyncio.Future[None] | None:
        """Return a caller's next turn, and put it behind the others; None if it may not begin or has none."""
        callers = self._waiting[host]
        turns = callers[caller]
        while turns and turns[0].done():
            turns.popleft()  # given up
        if turns and not self._may_begin(caller):
            return None
        turn = turns.popleft() if turns else None
        callers.move_to_end(caller)
        if not turns:
            del callers[caller]
        if turn is not None:
            self._waiting.move_to_end(host)
        if not callers:
            del self._waiting[host]
        return turn

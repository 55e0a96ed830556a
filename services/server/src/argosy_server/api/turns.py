"""Whose turn it is, where callers share few threads: hosts one after the other, and the connections of a host likewise.

One connection holds a quarter of the threads at most and one host half, so that slow requests of one caller leave
threads to the next, who need not wait for their end. What the server does by itself is bounded by all threads alone.

Source: design section 7, invariant 11.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque

from argosy_runtime.peers import NOBODY, Peer

__all__ = ["Turns"]

_Waiting = OrderedDict[str, OrderedDict[Peer, deque[asyncio.Future[None]]]]


class Turns:
    """Gives turns; each that was taken must be ended.

    Args:
        count: Turns under way at once.
    """

    def __init__(self, count: int) -> None:
        """Start with all free."""
        self._free_count = count
        self._per_connection = max(1, count // 4)
        self._per_host = max(1, count // 2)
        self._peers: Counter[Peer] = Counter()
        self._hosts: Counter[str] = Counter()
        self._waiting: _Waiting = OrderedDict()

    async def take(self, peer: Peer) -> None:
        """Return when it is a peer's turn. O(1) if it is at once."""
        if self._free_count and self._may_begin(peer):
            self._begin(peer)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(peer.host, OrderedDict()).setdefault(peer, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.end(peer)
            raise

    def end(self, peer: Peer) -> None:
        """End a turn, and begin those that may. O(hosts and connections that wait)."""
        self._free_count += 1
        self._peers[peer] -= 1
        self._hosts[peer.host] -= 1
        if not self._peers[peer]:
            del self._peers[peer]
        if not self._hosts[peer.host]:
            del self._hosts[peer.host]
        while self._free_count and self._begin_next():
            pass

    def _may_begin(self, peer: Peer) -> bool:
        if peer is NOBODY:
            return True
        return self._peers[peer] < self._per_connection and self._hosts[peer.host] < self._per_host

    def _begin(self, peer: Peer) -> None:
        self._free_count -= 1
        self._peers[peer] += 1
        self._hosts[peer.host] += 1

    def _begin_next(self) -> bool:
        """Begin the turn of the peer that waited longest since its host's and its own last one, if one may begin."""
        for host, peers in list(self._waiting.items()):
            for peer in list(peers):
                turn = self._next_of(host, peer)
                if turn is not None:
                    self._begin(peer)
                    turn.set_result(None)
                    return True
        return False

    def _next_of(self, host: str, peer: Peer) -> asyncio.Future[None] | None:
        """Return a peer's next turn, and put peer and host behind the others; None if it may not begin or has none."""
        peers = self._waiting[host]
        turns = peers[peer]
        while turns and turns[0].done():
            turns.popleft()  # given up
        if turns and not self._may_begin(peer):
            return None
        turn = turns.popleft() if turns else None
        peers.move_to_end(peer)
        if not turns:
            del peers[peer]
        if turn is not None:
            self._waiting.move_to_end(host)
        if not peers:
            del self._waiting[host]
        return turn

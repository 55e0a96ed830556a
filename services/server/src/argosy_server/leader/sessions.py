"""What the streams of samplers and executors have in common: a bounded outbox, and one session per cluster.

A session that cannot take its messages is ended rather than allowed to grow; the cluster dials again and starts from a
full comparison, so nothing is lost by ending one.

Source: design section 5, "Sync" and "Sampler session"; section 7, invariants 9 and 11.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import structlog

from argosy_core.errors import BackendUnavailable, StateConflict

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

__all__ = ["OUTBOX_LIMIT", "Outbox", "SessionRegistry", "converse"]

MessageT = TypeVar("MessageT")
SessionT = TypeVar("SessionT", bound="Outbox[Any]")
OUTBOX_LIMIT = 256
"""Messages that may wait for one cluster; a round sends at most a handful."""
LAST_WRITE_S = 1.0
"""How long the message that is being written when a session ends may take."""

_log = structlog.get_logger(__name__)


class Outbox(Generic[MessageT]):
    """Messages on their way to one cluster, in order.

    Args:
        cluster: Name of the cluster.
        incarnation: Incarnation of the session's peer.
    """

    def __init__(self, cluster: str, incarnation: int) -> None:
        """Start empty and open."""
        self.cluster = cluster
        self.incarnation = incarnation
        self._waiting: deque[MessageT] = deque()
        self._news = asyncio.Event()
        self.closed = asyncio.Event()
        self.close_reason = ""

    def send(self, message: MessageT) -> None:
        """Put a message in line; a full outbox ends the session."""
        if self.closed.is_set():
            return
        if len(self._waiting) >= OUTBOX_LIMIT:
            self.close("the peer does not take its messages")
            return
        self._waiting.append(message)
        self._news.set()

    def close(self, reason: str) -> None:
        """End the session; what waits is dropped."""
        if not self.closed.is_set():
            self.close_reason = reason
            self.closed.set()
            self._news.set()

    async def write_until_closed(self, write: Callable[[MessageT], Awaitable[None]]) -> None:
        """Write messages in order until the session is closed.

        Raises:
            StateConflict: The session was closed by this side; the message says why.
        """
        while True:
            await self._news.wait()
            self._news.clear()
            while self._waiting and not self.closed.is_set():
                await write(self._waiting.popleft())
            if self.closed.is_set():
                raise StateConflict(self.close_reason)


async def converse(
    session: Outbox[MessageT], read: Coroutine[Any, Any, None], write: Callable[[MessageT], Awaitable[None]]
) -> None:
    """Read and write until either ends; how that one ended is how the conversation ends.

    Args:
        session: What is written, until it is closed.
        read: Takes what the peer says, until it says no more.
        write: Writes one message.
    """
    reading = asyncio.create_task(read, name=f"from-{session.cluster}")
    writing = asyncio.create_task(session.write_until_closed(write), name=f"to-{session.cluster}")
    try:
        done, _ = await asyncio.wait({reading, writing}, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        session.close("the stream ended")
        reading.cancel()
        # While a message is being written gRPC cannot tell the peer how the stream ended.
        await asyncio.wait({writing}, timeout=LAST_WRITE_S)
        writing.cancel()
        await asyncio.gather(reading, writing, return_exceptions=True)


class SessionRegistry(Generic[SessionT]):
    """The one live session of each cluster; a newer one replaces an older one."""

    def __init__(self) -> None:
        """Start without sessions."""
        self._sessions: dict[str, SessionT] = {}

    def enter(self, session: SessionT) -> None:
        """Make a session the cluster's live one and end the one before.

        Raises:
            StateConflict: A session of a higher incarnation is live.
        """
        live = self._sessions.get(session.cluster)
        if live is not None and live.incarnation > session.incarnation:
            msg = f"a newer process serves cluster {session.cluster!r}; this incarnation must end"
            raise StateConflict(msg)
        if live is not None:
            live.close("replaced by a newer session of the same cluster")
        self._sessions[session.cluster] = session

    def leave(self, session: SessionT) -> bool:
        """Forget a session; return whether it was the live one."""
        if self._sessions.get(session.cluster) is session:
            del self._sessions[session.cluster]
            return True
        return False

    def get(self, cluster: str) -> SessionT | None:
        """Return the live session of a cluster."""
        return self._sessions.get(cluster)

    def all(self) -> tuple[SessionT, ...]:
        """Return all live sessions in order of cluster names."""
        return tuple(self._sessions[name] for name in sorted(self._sessions))

    def close_all(self, reason: str) -> None:
        """End every session."""
        for session in self.all():
            session.close(reason)

    def require(self, cluster: str) -> SessionT:
        """Return the live session of a cluster.

        Raises:
            BackendUnavailable: There is none.
        """
        session = self._sessions.get(cluster)
        if session is None:
            msg = f"cluster {cluster!r} is not connected"
            raise BackendUnavailable(msg)
        return session

"""What the streams of samplers and executors have in common: a bounded outbox, and a table of those that are open.

A session that cannot take its messages is ended rather than allowed to grow; the cluster dials again and starts from a
full comparison, so nothing is lost by ending one. Which session is a cluster's live one the machine decides.

Source: design section 5, "Sync" and "Sampler session"; section 7, invariants 9 and 11.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from argosy_core.errors import BackendUnavailable, StateConflict

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from argosy_core.leader.events import Session

__all__ = ["OUTBOX_LIMIT", "Outbox", "SessionTable", "converse"]

MessageT = TypeVar("MessageT")
SessionT = TypeVar("SessionT", bound="Outbox[Any]")
OUTBOX_LIMIT = 256
"""Messages that may wait for one cluster; a round sends at most a handful."""
LAST_WRITE_S = 1.0
"""How long the message that is being written when a session ends may take."""


class Outbox(Generic[MessageT]):
    """Messages on their way to one cluster, in order.

    Args:
        key: What the machine knows the session by.
    """

    def __init__(self, key: Session) -> None:
        """Start empty and open."""
        self.key = key
        self._waiting: deque[MessageT] = deque()
        self._news = asyncio.Event()
        self.closed = asyncio.Event()
        self.close_reason = ""
        self.is_fault = False
        """It was closed because of what the peer said."""

    @property
    def cluster(self) -> str:
        """Name of the cluster."""
        return self.key.cluster

    def send(self, message: MessageT) -> None:
        """Put a message in line; a full outbox ends the session."""
        if self.closed.is_set():
            return
        if len(self._waiting) >= OUTBOX_LIMIT:
            self.close("the peer does not take its messages")
            return
        self._waiting.append(message)
        self._news.set()

    def close(self, reason: str, *, is_fault: bool = False) -> None:
        """End the session; what waits is dropped.

        Args:
            reason: Why.
            is_fault: Because of what the peer said.
        """
        if not self.closed.is_set():
            self.close_reason, self.is_fault = reason, is_fault
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


class SessionTable(Generic[SessionT]):
    """The sessions whose streams are open, of one kind of peer."""

    def __init__(self) -> None:
        """Start without sessions."""
        self._sessions: dict[Session, SessionT] = {}

    def enter(self, session: SessionT) -> None:
        """Note a session."""
        self._sessions[session.key] = session

    def leave(self, session: SessionT) -> None:
        """Forget a session."""
        self._sessions.pop(session.key, None)

    def get(self, key: Session) -> SessionT | None:
        """Return a session that is not closed."""
        session = self._sessions.get(key)
        return session if session is not None and not session.closed.is_set() else None

    def all(self) -> tuple[SessionT, ...]:
        """Return all sessions that are not closed, in order of their coming."""
        return tuple(session for session in self._sessions.values() if not session.closed.is_set())

    def find(self, cluster: str) -> SessionT | None:
        """Return the newest session of a cluster."""
        return next((session for session in reversed(self.all()) if session.cluster == cluster), None)

    def close_all(self, reason: str) -> None:
        """End every session."""
        for session in self.all():
            session.close(reason)

    def require(self, cluster: str) -> SessionT:
        """Return the newest session of a cluster.

        Raises:
            BackendUnavailable: There is none.
        """
        session = self.find(cluster)
        if session is None:
            msg = f"cluster {cluster!r} is not connected"
            raise BackendUnavailable(msg)
        return session

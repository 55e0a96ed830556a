"""The common shape of the streams that clusters dial: a hello first, then a conversation until either side ends it.

::

    not the leader -> redirect, end
    hello -> admitted by the desk -> the cluster's one live session -> greeting, then messages both ways -> gone

Source: design section 5, "Sync" and "Sampler session"; section 7, invariant 9.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import structlog

from argosy_core.errors import BackendUnavailable, InvalidRequest, StateConflict
from argosy_runtime.validation import check_request
from argosy_server.leader.sessions import Outbox, SessionRegistry, converse

if TYPE_CHECKING:
    import grpc

    from argosy_server.leader.settings import LeaderSettings

__all__ = ["SILENT_HEARTBEATS", "ClusterStreams"]

SessionT = TypeVar("SessionT", bound=Outbox[Any])
SILENT_HEARTBEATS = 3
"""A session is ended after so many heartbeats without a message."""
_log = structlog.get_logger(__name__)


class ClusterStreams(Generic[SessionT]):
    """Holds the streams of one kind of peer. Requests are messages with the oneof `message`, one of which is `hello`.

    Args:
        settings: For the heartbeat.
    """

    PEER: ClassVar[str]
    """Who dials, for logs and errors."""

    def __init__(self, settings: LeaderSettings) -> None:
        """Start without streams."""
        self._settings = settings
        self.sessions: SessionRegistry[SessionT] = SessionRegistry()

    async def hold(self, requests: AsyncIterator[Any], context: grpc.aio.ServicerContext[Any, Any]) -> None:
        """Hold one stream until it ends or is replaced.

        Raises:
            InvalidRequest: The peer said something that has no place there.
            StateConflict: A newer peer is connected, nothing was heard for three heartbeats, or the session was closed.
            BackendUnavailable: The peer cannot be let in now, and should dial again.
        """
        try:
            redirect = self._redirect()
        except BackendUnavailable:
            # A peer whose hello cannot be written any more is not told why.
            await self._read_hello(requests)
            raise
        if redirect is not None:
            await context.write(redirect)
            return
        hello = await self._read_hello(requests)
        session = await self._admit(hello)
        self.sessions.enter(session)
        _log.info("connected", peer=self.PEER, cluster=session.cluster, incarnation=session.incarnation)
        try:
            self._welcome(session)
            await converse(session, self._serve(session, hello, requests), context.write)
        finally:
            session.close("the stream ended")
            if self.sessions.leave(session):
                self._leave(session)
            _log.info("disconnected", peer=self.PEER, cluster=session.cluster, reason=session.close_reason)

    # --- what the kinds differ in -------------------------------------------------------------------------------------

    @abstractmethod
    def _redirect(self) -> Any | None:  # noqa: ANN401 - a message of the peer's own proto
        """Return the answer to peers of a process that does not lead, None while it leads.

        Raises:
            BackendUnavailable: It is about to lead, and cannot yet.
        """

    @abstractmethod
    async def _admit(self, hello: Any) -> SessionT:  # noqa: ANN401
        """Bind the cluster's name to the peer and return its session; raises if that cannot be."""

    @abstractmethod
    def _welcome(self, session: SessionT) -> None:
        """Put in line what the peer must hear before anything else; nothing else can come between."""

    async def _catch_up(self, session: SessionT, hello: Any) -> None:  # noqa: ANN401
        """Send what the peer's hello shows that it lacks, before it is listened to."""

    @abstractmethod
    async def _take(self, session: SessionT, kind: str | None, request: Any) -> None:  # noqa: ANN401
        """Act on one message after the hello."""

    @abstractmethod
    def _leave(self, session: SessionT) -> None:
        """Note that the cluster's live session ended."""

    # --- reading ------------------------------------------------------------------------------------------------------

    async def _serve(self, session: SessionT, hello: Any, requests: AsyncIterator[Any]) -> None:  # noqa: ANN401
        """Let the peer catch up, then take messages until the stream ends."""
        await self._catch_up(session, hello)
        iterator = aiter(requests)
        while True:
            try:
                async with asyncio.timeout(SILENT_HEARTBEATS * self._settings.heartbeat_s):
                    request = await anext(iterator)
            except StopAsyncIteration:
                return
            except TimeoutError as cause:
                raise StateConflict("nothing was heard for three heartbeats; dial again") from cause
            if session.closed.is_set():
                raise StateConflict(session.close_reason)  # what it says is for a leadership or a place that is gone
            kind = request.WhichOneof("message")
            if kind == "hello":
                raise InvalidRequest(f"a hello stands only at the beginning of a {self.PEER}'s stream")
            await self._take(session, kind, request)

    async def _read_hello(self, requests: AsyncIterator[Any]) -> Any:  # noqa: ANN401
        """Return the hello, which must be the stream's first message.

        Raises:
            InvalidRequest: The first message is none or no hello.
        """
        try:
            async with asyncio.timeout(SILENT_HEARTBEATS * self._settings.heartbeat_s):
                first = await anext(aiter(requests))
        except (StopAsyncIteration, TimeoutError) as cause:
            raise InvalidRequest(f"the first message of a {self.PEER}'s stream must be a hello; none came") from cause
        check_request(first)
        if first.WhichOneof("message") != "hello":
            raise InvalidRequest(f"the first message of a {self.PEER}'s stream must be a hello")
        return first.hello

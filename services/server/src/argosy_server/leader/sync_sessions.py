"""The executors' streams: hello, rows down, states up.

States are put in the leader's inbox and answered once they are stored. The inbox is bounded; while it is full the
stream is simply not read, so that gRPC's flow control slows the executor down.

Source: design section 5, "Sync" and "Fencing executors".
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Protocol

import grpc
import structlog

from argosy.executor.v1 import executor_pb2, executor_pb2_grpc
from argosy_core.errors import InvalidRequest, StateConflict
from argosy_core.reconcile.mirrored_cache import MirroredCache
from argosy_runtime.validation import check_request
from argosy_server.leader.sessions import Outbox, SessionRegistry, converse

if TYPE_CHECKING:
    from argosy_server.leader.settings import LeaderSettings

__all__ = ["ExecutorDesk", "ExecutorService", "SyncSession"]

_log = structlog.get_logger(__name__)


class ExecutorDesk(Protocol):
    """What the leader does with executors; called on the event loop."""

    @property
    def epoch(self) -> int:
        """Epoch of the leader, 0 while this process does not lead."""

    async def admit_executor(self, hello: executor_pb2.Hello) -> None:
        """Bind the name to the uid and incarnation; raises if that cannot be."""

    async def send_missing_rows(self, session: SyncSession, hello: executor_pb2.Hello) -> None:
        """Send the rows that the executor does not have, and stops for runs that are not live."""

    async def take_states(self, session: SyncSession, states: executor_pb2.StateBatch) -> None:
        """Put states in the inbox; waits while it is full."""

    def executor_gone(self, cluster: str) -> None:
        """The executor's stream ended."""

    def leader_address(self) -> str:
        """Answer where the leader is, empty if unknown."""


class SyncSession(Outbox[executor_pb2.SyncResponse]):
    """One executor's stream, with the mirror of the spec bodies it holds."""

    def __init__(self, cluster: str, incarnation: int) -> None:
        """Start with an executor that holds no specs."""
        super().__init__(cluster, incarnation)
        self.specs = MirroredCache()

    def acknowledge(self, batch: int) -> None:
        """Tell the executor that its states up to a batch are stored."""
        self.send(executor_pb2.SyncResponse(stored=executor_pb2.StatesStored(batch=batch)))


class ExecutorService(executor_pb2_grpc.ExecutorServiceServicer):
    """Serves `argosy.executor.v1.ExecutorService` while this process leads."""

    def __init__(self, desk: ExecutorDesk, settings: LeaderSettings) -> None:
        """Serve on behalf of a desk."""
        self._desk = desk
        self._settings = settings
        self.sessions: SessionRegistry[SyncSession] = SessionRegistry()

    async def Sync(  # type: ignore[override]  # noqa: N802 - name is given by the proto
        self,
        request_iterator: AsyncIterator[executor_pb2.SyncRequest],
        context: grpc.aio.ServicerContext[executor_pb2.SyncRequest, executor_pb2.SyncResponse],
    ) -> None:
        """Hold one executor's stream until it ends or is replaced."""
        if not self._desk.epoch:
            redirect = executor_pb2.Redirect(address=self._desk.leader_address())
            await context.write(executor_pb2.SyncResponse(redirect=redirect))
            return
        hello = await self._read_hello(request_iterator)
        await self._desk.admit_executor(hello)
        session = SyncSession(hello.cluster, hello.incarnation)
        self.sessions.enter(session)
        _log.info("executor connected", cluster=hello.cluster, incarnation=hello.incarnation)
        try:
            session.send(executor_pb2.SyncResponse(welcome=self._welcome()))
            await converse(session, self._serve(session, hello, request_iterator), context.write)
        finally:
            session.close("the stream ended")
            if self.sessions.leave(session):
                self._desk.executor_gone(session.cluster)
            _log.info("executor disconnected", cluster=session.cluster, reason=session.close_reason)

    def _welcome(self) -> executor_pb2.Welcome:
        """Return what an accepted executor must know."""
        return executor_pb2.Welcome(
            epoch=self._desk.epoch,
            heartbeat_s=self._settings.heartbeat_s,
            fence_s=self._settings.fence_s,
            installation=self._settings.installation,
            keep_finished_s=self._settings.keep_finished_s,
        )

    async def _read_hello(self, requests: AsyncIterator[executor_pb2.SyncRequest]) -> executor_pb2.Hello:
        """Return the stream's first message.

        Raises:
            InvalidRequest: The first message is none or no hello.
        """
        try:
            async with asyncio.timeout(3 * self._settings.heartbeat_s):
                first = await anext(aiter(requests))
        except (StopAsyncIteration, TimeoutError) as cause:
            raise InvalidRequest("the first message of a stream must be a hello; none came") from cause
        check_request(first)
        if first.WhichOneof("message") != "hello":
            raise InvalidRequest("the first message of a stream must be a hello")
        return first.hello

    async def _serve(
        self, session: SyncSession, hello: executor_pb2.Hello, requests: AsyncIterator[executor_pb2.SyncRequest]
    ) -> None:
        """Send what the executor lacks, then take messages until the stream ends."""
        await self._desk.send_missing_rows(session, hello)
        await self._read(session, requests)

    async def _read(self, session: SyncSession, requests: AsyncIterator[executor_pb2.SyncRequest]) -> None:
        """Take messages until the stream ends.

        Raises:
            StateConflict: Nothing was heard for three heartbeats, or the session was closed meanwhile.
            InvalidRequest: A message has no place here.
        """
        iterator = aiter(requests)
        while True:
            try:
                async with asyncio.timeout(3 * self._settings.heartbeat_s):
                    request = await anext(iterator)
            except StopAsyncIteration:
                return
            except TimeoutError as cause:
                raise StateConflict("nothing was heard for three heartbeats; dial again") from cause
            if session.closed.is_set():
                raise StateConflict(session.close_reason)  # what it says is for a leadership or a place that is gone
            kind = request.WhichOneof("message")
            if kind == "states":
                await self._desk.take_states(session, request.states)
            elif kind == "heartbeat":
                session.send(executor_pb2.SyncResponse(confirmed=executor_pb2.Confirmed()))
            else:
                raise InvalidRequest("a hello stands only at the beginning of a stream")

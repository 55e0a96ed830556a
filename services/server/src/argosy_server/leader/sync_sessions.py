"""The executors' streams: hello, rows down, states up.

States are put in the leader's inbox and answered once they are stored. The inbox is bounded; while it is full the
stream is simply not read, so that gRPC's flow control slows the executor down.

Source: design section 5, "Sync" and "Fencing executors".
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Protocol

from argosy.executor.v1 import executor_pb2, executor_pb2_grpc
from argosy_core.errors import InvalidRequest
from argosy_core.reconcile.spec_cache import SpecCache
from argosy_server.leader.log_relays import LogRelays
from argosy_server.leader.sessions import Outbox
from argosy_server.leader.streams import ClusterStreams

if TYPE_CHECKING:
    import grpc

    from argosy_server.leader.settings import LeaderSettings

__all__ = ["ExecutorDesk", "ExecutorService", "SyncSession"]


class ExecutorDesk(Protocol):
    """What the leader does with executors; called on the event loop."""

    @property
    def epoch(self) -> int:
        """Epoch of the leader, 0 while this process does not lead."""

    async def admit_executor(self, hello: executor_pb2.Hello) -> bool:
        """Bind the name to the uid and incarnation; raises if that cannot be.

        Returns:
            Whether no executor of the name was admitted before.
        """

    async def send_missing_rows(self, session: SyncSession, hello: executor_pb2.Hello) -> None:
        """Send the rows that the executor does not have, and stops for runs that are not live."""

    async def take_states(self, session: SyncSession, states: executor_pb2.StateBatch) -> None:
        """Put states in the inbox; waits while it is full."""

    def executor_heard(self, cluster: str) -> None:
        """The executor sent a heartbeat."""

    def executor_gone(self, cluster: str) -> None:
        """The executor's stream ended."""

    def leader_address(self) -> str:
        """Answer where the leader is, empty if unknown."""


class SyncSession(Outbox[executor_pb2.SyncResponse]):
    """One executor's stream, with the spec bodies it holds."""

    def __init__(self, cluster: str, incarnation: int) -> None:
        """Start with an executor that holds no specs."""
        super().__init__(cluster, incarnation)
        self.specs = SpecCache()
        self.is_first = False
        """No executor of the cluster was admitted before."""
        self.logs = LogRelays(self.send)
        """What is read of its pods' logs."""

    def close(self, reason: str) -> None:
        """End the session, and with it what is read of its logs."""
        super().close(reason)
        self.logs.close(reason)

    def acknowledge(self, batch: int) -> None:
        """Tell the executor that its states up to a batch are stored."""
        self.send(executor_pb2.SyncResponse(stored=executor_pb2.StatesStored(batch=batch)))


class ExecutorService(ClusterStreams[SyncSession], executor_pb2_grpc.ExecutorServiceServicer):
    """Serves `argosy.executor.v1.ExecutorService` while this process leads."""

    PEER = "executor"

    def __init__(self, desk: ExecutorDesk, settings: LeaderSettings) -> None:
        """Serve on behalf of a desk."""
        super().__init__(settings)
        self._desk = desk

    async def Sync(  # type: ignore[override]  # noqa: N802 - name is given by the proto
        self,
        request_iterator: AsyncIterator[executor_pb2.SyncRequest],
        context: grpc.aio.ServicerContext[executor_pb2.SyncRequest, executor_pb2.SyncResponse],
    ) -> None:
        """Hold one executor's stream until it ends or is replaced."""
        await self.hold(request_iterator, context)

    def _redirect(self) -> executor_pb2.SyncResponse | None:
        """Return where the leader is."""
        if self._desk.epoch:
            return None
        return executor_pb2.SyncResponse(redirect=executor_pb2.Redirect(address=self._desk.leader_address()))

    async def _admit(self, hello: executor_pb2.Hello) -> SyncSession:
        """Let an executor in."""
        is_first = await self._desk.admit_executor(hello)
        session = SyncSession(hello.cluster, hello.incarnation)
        session.is_first = is_first
        return session

    def _welcome(self, session: SyncSession) -> None:
        """Send what an accepted executor must know."""
        welcome = executor_pb2.Welcome(
            epoch=self._desk.epoch,
            heartbeat_s=self._settings.heartbeat_s,
            fence_s=self._settings.fence_s,
            installation=self._settings.installation,
            keep_finished_s=self._settings.keep_finished_s,
            first=session.is_first,
        )
        session.send(executor_pb2.SyncResponse(welcome=welcome))

    async def _catch_up(self, session: SyncSession, hello: executor_pb2.Hello) -> None:
        """Send the rows that the executor lacks."""
        await self._desk.send_missing_rows(session, hello)

    def _leave(self, session: SyncSession) -> None:
        """Tell the desk."""
        self._desk.executor_gone(session.cluster)

    async def _take(self, session: SyncSession, kind: str | None, request: executor_pb2.SyncRequest) -> None:
        """Act on one message.

        Raises:
            InvalidRequest: The message has no place here.
        """
        if kind == "states":
            await self._desk.take_states(session, request.states)
        elif kind == "log_chunk":
            session.logs.take_chunk(request.log_chunk.request, request.log_chunk.data)
        elif kind == "log_end":
            session.logs.take_end(request.log_end)
        elif kind == "heartbeat":
            self._desk.executor_heard(session.cluster)
            session.send(executor_pb2.SyncResponse(confirmed=executor_pb2.Confirmed()))
        else:
            raise InvalidRequest(f"an executor's stream has no place for {kind or 'an empty message'}")

"""The executors' streams: hello, rows down, states up.

States are handed to the machine and acknowledged once they are stored. While it takes no more the stream is simply not
read, so that gRPC's flow control slows the executor down.

Source: design section 5, "Sync" and "Fencing executors".
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from argosy.executor.v1 import executor_pb2, executor_pb2_grpc
from argosy_core.errors import InvalidRequest
from argosy_core.job.tables.members import Members
from argosy_core.leader.events import Heard, Role, RunsSeen, StatesReported
from argosy_core.reconcile.spec_cache import SpecCache
from argosy_runtime.shapes import read_message
from argosy_server.leader.sessions.cluster_codec import hello_runs, seen_runs, state_columns
from argosy_server.leader.sessions.log_relays import LogRelays
from argosy_server.leader.sessions.message_shapes import LOG_CHUNK, LOG_END
from argosy_server.leader.sessions.outbox import Outbox
from argosy_server.leader.sessions.streams import ClusterStreams

if TYPE_CHECKING:
    import grpc

    from argosy_core.leader.events import Session
    from argosy_server.leader.sessions.streams import Term
    from argosy_server.leader.settings import LeaderSettings

__all__ = ["ExecutorService", "SyncSession"]


class SyncSession(Outbox[executor_pb2.SyncResponse]):
    """One executor's stream, with a list of the spec bodies that it holds."""

    def __init__(self, key: Session) -> None:
        """Start with an executor that holds no specs."""
        super().__init__(key)
        self.specs = SpecCache()
        self.listening = asyncio.Event()
        """Set once the executor has got what it lacked: its states are read from then on."""
        self.logs = LogRelays(self.send)
        """What is read of its pods' logs."""

    def close(self, reason: str, *, is_fault: bool = False) -> None:
        """End the session, and with it what is read of its logs."""
        super().close(reason, is_fault=is_fault)
        self.logs.close(reason)

    def welcome(self, epoch: int, settings: LeaderSettings, *, is_first: bool) -> None:
        """Greet the executor: what it must know before anything else."""
        welcome = executor_pb2.Welcome(
            epoch=epoch,
            heartbeat_s=settings.heartbeat_s,
            fence_s=settings.fence_s,
            installation=settings.installation,
            keep_finished_s=settings.keep_finished_s,
            keep_failed_s=settings.keep_failed_s,
            first=is_first,
            incarnation=self.key.incarnation,
        )
        self.send(executor_pb2.SyncResponse(welcome=welcome))

    def acknowledge(self, batch: int) -> None:
        """Tell the executor that its states up to a batch are stored."""
        self.send(executor_pb2.SyncResponse(stored=executor_pb2.StatesStored(batch=batch)))


class ExecutorService(ClusterStreams[SyncSession], executor_pb2_grpc.ExecutorServiceServicer):
    """Serves `argosy.executor.v1.ExecutorService` while this process leads."""

    ROLE = Role.EXECUTOR

    async def Sync(  # type: ignore[override]  # noqa: N802 - name is given by the proto
        self,
        request_iterator: AsyncIterator[executor_pb2.SyncRequest],
        context: grpc.aio.ServicerContext[executor_pb2.SyncRequest, executor_pb2.SyncResponse],
    ) -> None:
        """Hold one executor's stream until it ends or is replaced."""
        await self.hold(request_iterator, context)

    def _redirection(self, address: str) -> executor_pb2.SyncResponse:
        return executor_pb2.SyncResponse(redirect=executor_pb2.Redirect(address=address))

    def _known(self, hello: executor_pb2.Hello) -> Members:
        """Return the runs of which the executor needs no row.

        Raises:
            InvalidRequest: The columns do not fit each other.
        """
        return hello_runs(hello)

    def _open(self, key: Session, hello: executor_pb2.Hello) -> SyncSession:  # noqa: ARG002 - all are served alike
        return SyncSession(key)

    async def _catch_up(self, session: SyncSession) -> None:
        """Wait until the executor has got what it lacked."""
        await session.listening.wait()

    async def _take(self, session: SyncSession, term: Term, request: executor_pb2.SyncRequest) -> None:
        """Act on one message.

        Raises:
            InvalidRequest: The message has no place here.
        """
        kind = request.WhichOneof("message")
        if kind == "states":
            columns = state_columns(request.states)
            await term.inbox_has_room.wait()
            batch, sent_us = request.states.batch, request.states.sent_time_us
            term.feed(StatesReported(session=session.key, batch=batch, columns=columns, sent_us=sent_us))
        elif kind == "log_chunk":
            chunk = read_message(request.log_chunk, LOG_CHUNK, where="log_chunk")
            session.logs.take_chunk(chunk["request"], chunk["data"])
        elif kind == "log_end":
            read_message(request.log_end, LOG_END, where="log_end")
            session.logs.take_end(request.log_end)
        elif kind == "seen":
            runs = await term.without_foreign(seen_runs(request.seen))
            term.feed(RunsSeen(session=session.key, runs=runs))
        elif kind == "heartbeat":
            term.feed(Heard(session=session.key))
            session.send(executor_pb2.SyncResponse(confirmed=executor_pb2.Confirmed()))
        else:
            raise InvalidRequest(f"an executor's stream has no place for {kind or 'an empty message'}")

"""The permit service's streams: agents that resize pods dial, and are answered from the session machine of the core.

A stream that is not read, or whose messages come faster than anybody needs, is slowed down and in the end closed; its
agent dials again and tells what it has.

Source: design section 5, "Resize"; section 7, invariants 8 and 11.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, Final

import grpc

from argosy.autoscale.v1 import permit_pb2, permit_pb2_grpc
from argosy_core.errors import BackendUnavailable, InvalidRequest, StateConflict
from argosy_core.ledger import PermitNote
from argosy_core.permits import AgentMessage, Outcome, PermitService
from argosy_runtime.logs import Logger
from argosy_runtime.metrics import METRICS
from argosy_sampler.permit_codec import read_agent_message, read_hello, reply_message, welcome_message
from argosy_sampler.permit_notes import NoteWriter

__all__ = ["PermitServicer"]

_OUTBOX_LIMIT: Final = 256
_HELLO_S: Final = 10.0
_MESSAGES_PER_S: Final = 500.0
_BURST_S: Final = 1.0
_CLOSED_S: Final = 0.05
_LAST_WRITE_S: Final = 1.0
_NOTES_AT_ONCE: Final = 32

Context = grpc.aio.ServicerContext[permit_pb2.SessionRequest, permit_pb2.SessionResponse]


class _Stream:
    """Messages on their way to one agent, in order."""

    def __init__(self) -> None:
        self._waiting: asyncio.Queue[permit_pb2.SessionResponse | None] = asyncio.Queue(_OUTBOX_LIMIT + 1)
        self.reason = ""

    def send(self, message: permit_pb2.SessionResponse) -> None:
        """Put a message in line; a full outbox ends the stream."""
        if self._waiting.qsize() >= _OUTBOX_LIMIT:
            self.close("the agent does not take its messages")
        elif not self.reason:
            self._waiting.put_nowait(message)

    def close(self, reason: str) -> None:
        """End the stream once what waits was written."""
        if not self.reason:
            self.reason = reason
            self._waiting.put_nowait(None)

    async def write(self, context: Context) -> None:
        """Write messages until the stream is closed."""
        while (message := await self._waiting.get()) is not None:
            await context.write(message)


@dataclass(frozen=True, slots=True)
class _Said:
    """A message that is to be taken in."""

    session: int
    sequence: int
    message: AgentMessage
    taken: asyncio.Future[bool] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    """Whether the session goes on, once it is; or how the message breaks the protocol."""


class PermitServicer(permit_pb2_grpc.PermitServiceServicer):
    """Serves `argosy.autoscale.v1.PermitService` from the time that `open` is called.

    Args:
        cluster: Name of the cluster, for metrics.
        process_id: 16 bytes that stand for this process.
        log: Where sessions are told.
        monotonic: Clock in seconds.
    """

    def __init__(
        self, cluster: str, process_id: bytes, *, log: Logger, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        """Start closed."""
        self._cluster = cluster
        self._process_id = process_id
        self._log = log
        self._monotonic = monotonic
        self._service: PermitService | None = None
        self._streams: dict[int, _Stream] = {}
        self._inbox: list[_Said] = []
        """What was said and is not taken in: at most one message of each stream."""
        self._news = asyncio.Event()
        self._writer: NoteWriter | None = None
        self._noted: list[tuple[bytes, str | None]] = []
        """How notes were written, not taken in."""

    def open(self, service: PermitService, notes: NoteWriter | None = None) -> None:
        """Let agents in.

        Args:
            service: What answers them.
            notes: What writes the notes that it asks for; None where it asks for none.
        """
        self._service, self._writer = service, notes

    async def run(self) -> None:
        """Take in what agents say and let the service's time pass, until cancelled.

        Whatever has come by the time that the last was answered is taken in together.
        """
        async with asyncio.TaskGroup() as writes:
            await self._run(writes)

    async def _run(self, writes: asyncio.TaskGroup) -> None:
        due_s = self._monotonic()
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, due_s - self._monotonic())):
                    await self._news.wait()
            self._news.clear()
            service, inbox = self._service, self._inbox
            self._inbox = []
            if service is None:
                due_s = self._monotonic() + _CLOSED_S
                continue
            if inbox:
                self._take(service, inbox)
            if self._noted:
                noted, self._noted = self._noted, []
                self._deliver(service, service.end_notes(noted, self._monotonic()))
            is_due = self._monotonic() >= due_s
            if is_due:
                self._deliver(service, service.tick(self._monotonic()))
                METRICS.agent_sessions.labels(self._cluster).set(len(self._streams))
                METRICS.scaled_pods.labels(self._cluster).set(service.scaled_count)
                METRICS.deferred_pods.labels(self._cluster).set(service.deferred_count)
            next_s = self._monotonic() + service.tick_s
            due_s = next_s if is_due else min(due_s, next_s)
            if self._writer is not None:
                for note in service.take_notes(_NOTES_AT_ONCE):
                    writes.create_task(self._write(self._writer, note), name="permit note")

    async def _write(self, writer: NoteWriter, note: PermitNote) -> None:
        self._noted.append((note.uid, await writer.write(note)))
        self._news.set()

    def _take(self, service: PermitService, inbox: list[_Said]) -> None:
        """Take in messages, answer them, and let their streams be read on."""
        outcome = service.take([(one.session, one.sequence, one.message) for one in inbox], self._monotonic())
        self._deliver(service, outcome)
        told = {session for session, _ in outcome.replies}
        for one in inbox:
            if one.taken.done():
                continue  # its stream has ended
            if one.session in outcome.broken:
                one.taken.set_exception(outcome.broken[one.session])
            else:
                one.taken.set_result(one.session not in outcome.ended)
                if one.session not in told and one.session in self._streams:
                    self._streams[one.session].send(reply_message(None, service.confirmed(one.session)))

    async def Session(  # type: ignore[override]  # noqa: N802 - name is given by the proto
        self, request_iterator: AsyncIterator[permit_pb2.SessionRequest], context: Context
    ) -> None:
        """Hold one agent's stream until it ends or is replaced.

        Raises:
            BackendUnavailable: The cluster's pods have not been listed.
            InvalidRequest: The agent said something that has no place there.
            StateConflict: It was not heard for a lease, another stream of it came, or it does not read.
        """
        service = self._service
        if service is None:
            raise BackendUnavailable("the sampler has not yet listed the cluster's pods; dial again")
        requests = aiter(request_iterator)
        try:
            async with asyncio.timeout(_HELLO_S):
                hello = read_hello(await anext(requests))
        except (StopAsyncIteration, TimeoutError) as cause:
            raise InvalidRequest("the first message of an agent's stream must be a hello; none came") from cause
        welcome, replaced = service.begin(hello, self._monotonic())
        for number in replaced:
            self._streams[number].close("another stream of the same agent came")
        stream, session = _Stream(), welcome.session
        self._streams[session] = stream
        stream.send(welcome_message(welcome, self._process_id))
        self._log.info("connected", peer="agent", host=hello.host)
        try:
            await self._converse(stream, self._read(session, requests), context)
        finally:
            del self._streams[session]
            service.end(session, self._monotonic())
            self._log.info("disconnected", peer="agent", reason=stream.reason)

    async def _converse(self, stream: _Stream, read: Any, context: Context) -> None:  # noqa: ANN401 - a coroutine
        """Read and write until either ends; how that one ended is how the stream ends."""
        reading = asyncio.create_task(read, name="agent: read")
        writing = asyncio.create_task(stream.write(context), name="agent: write")
        try:
            done, _ = await asyncio.wait({reading, writing}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            if reading not in done:
                raise StateConflict(stream.reason)
        finally:
            stream.close("the stream ended")
            reading.cancel()
            # While a message is being written gRPC cannot tell the peer how the stream ended.
            await asyncio.wait({writing}, timeout=_LAST_WRITE_S)
            writing.cancel()
            await asyncio.gather(reading, writing, return_exceptions=True)

    async def _read(self, session: int, requests: AsyncIterator[permit_pb2.SessionRequest]) -> None:
        """Take what an agent says until it says no more, as fast as anybody needs to speak."""
        turn_s = 0.0
        async for request in requests:
            now_s = self._monotonic()
            turn_s = max(turn_s, now_s - _BURST_S) + 1 / _MESSAGES_PER_S
            if turn_s > now_s:
                await asyncio.sleep(turn_s - now_s)
            said = _Said(session, request.sequence, read_agent_message(request))
            self._inbox.append(said)
            self._news.set()
            if not await said.taken:
                return

    def _deliver(self, service: PermitService, outcome: Outcome) -> None:
        """Put what is to be said in line, and close the streams of sessions that are over."""
        for session, reply in outcome.replies:
            if session in self._streams:
                self._streams[session].send(reply_message(reply, service.confirmed(session)))
        for session in outcome.ended:
            if session in self._streams:
                self._streams[session].close("nothing was heard for a lease; dial again")

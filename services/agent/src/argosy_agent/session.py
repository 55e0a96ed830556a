"""The session with the sampler: one stream, dialled by the agent, begun again whenever it ends.

Hello up and welcome down; then requests up and permits down, with heartbeats in silence. A message that is confirmed
renews the leases of permits, from when it was sent.

Source: design section 5, "Resize"; `proto/argosy/autoscale/v1/permit.proto`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import grpc

from argosy.autoscale.v1 import permit_pb2, permit_pb2_grpc
from argosy_agent.codec import RESOURCES, read_events, request_messages
from argosy_agent.config import AgentConfig
from argosy_core.autoscale.events import Event, Leased, PermitRequest, SessionDown, SessionUp
from argosy_core.errors import ArgosyError, BackendUnavailable, InvalidRequest
from argosy_runtime.channel import Backoff, Caller, call_metadata, end_stream, open_channel
from argosy_runtime.elapsed import elapsed_s
from argosy_runtime.errors import from_rpc_error
from argosy_runtime.logs import Logger

__all__ = ["PermitSession"]

_OUTBOX_LIMIT: Final = 256
_SILENT_HEARTBEATS: Final = 3

Stream = grpc.aio.StreamStreamCall[permit_pb2.SessionRequest, permit_pb2.SessionResponse]


class PermitSession:
    """Keeps a session with the sampler of the cluster.

    Args:
        config: Who we are and where the sampler is.
        cluster_uid: Returns the uid of the cluster.
        tell: Takes events for the agent.
        backoff: Wait between attempts.
        log: Where sessions are told.
    """

    def __init__(
        self,
        config: AgentConfig,
        cluster_uid: Callable[[], Awaitable[str]],
        *,
        tell: Callable[[Sequence[Event]], None],
        backoff: Backoff,
        log: Logger,
    ) -> None:
        """Start without a session."""
        self._config = config
        self._cluster_uid = cluster_uid
        self._tell = tell
        self._backoff = backoff
        self._log = log
        self._caller = Caller()
        self._number = 0
        self._outbox: asyncio.Queue[permit_pb2.SessionRequest] | None = None
        self._max_pod_count = 1
        self._sent: deque[tuple[int, float]] = deque()
        self._is_leaving = False
        self._left = asyncio.Event()

    def send(self, requests: Sequence[PermitRequest]) -> None:
        """Say what pods want; without a session it is lost, as the agent then learns.

        A sampler that does not read for long has its session ended: everything is announced anew in the next.
        """
        for message in request_messages(requests, self._max_pod_count):
            outbox = self._outbox
            if outbox is not None and not outbox.full():
                outbox.put_nowait(message)
            elif outbox is not None:
                self._outbox = None

    async def check(self) -> None:
        """Return if there is a session.

        Raises:
            BackendUnavailable: There is none.
        """
        if self._outbox is None:
            raise BackendUnavailable(f"there is no session with the sampler at {self._config.sampler_address}")

    async def leave(self) -> None:
        """Give all permits back and hold no session any more; nothing may be resized from now on."""
        self._is_leaving = True
        outbox = self._outbox
        if outbox is not None and not outbox.full():
            outbox.put_nowait(permit_pb2.SessionRequest(goodbye=permit_pb2.Goodbye()))
            await self._left.wait()

    async def run(self) -> None:
        """Hold sessions, one after the other, until cancelled or left."""
        while True:
            try:
                await self._hold()
                reason = "the stream ended"
            except (grpc.RpcError, ArgosyError, asyncio.InvalidStateError, TimeoutError) as cause:
                error = from_rpc_error(cause) if isinstance(cause, grpc.RpcError) else cause
                reason = f"{type(error).__name__}: {error}"
            if self._is_leaving:
                self._left.set()
                return
            wait_s = self._backoff.next_wait_s()
            self._log.warning("session ended", reason=reason, wait_s=round(wait_s, 3))
            await asyncio.sleep(wait_s)

    async def _hold(self) -> None:
        cluster_uid = await self._cluster_uid()
        address, credentials = self._config.sampler_address, self._config.credentials
        channel = open_channel(address, credentials)
        try:
            stream = permit_pb2_grpc.PermitServiceStub(channel).Session(metadata=call_metadata(address, credentials))
            try:
                async with asyncio.timeout(self._config.connect_timeout_s):
                    welcome = await self._greet(stream, cluster_uid)
                await self._converse(stream, welcome)
            except asyncio.CancelledError:
                await end_stream(stream)
                raise
        finally:
            await channel.close()

    async def _greet(self, stream: Stream, cluster_uid: str) -> permit_pb2.Welcome:
        hello = permit_pb2.Hello(
            cluster=self._config.cluster,
            cluster_uid=cluster_uid,
            process_id=self._caller.process_id,
            host=self._caller.host,
        )
        self._sent = deque([(1, elapsed_s())])
        await stream.write(permit_pb2.SessionRequest(sequence=1, hello=hello))
        first = await stream.read()
        if not isinstance(first, permit_pb2.SessionResponse) or first.WhichOneof("message") != "welcome":
            raise BackendUnavailable("the sampler ended the stream before a welcome")
        welcome = first.welcome
        if tuple(welcome.resources) != RESOURCES or welcome.max_pod_count < 1:
            raise InvalidRequest(f"the sampler resizes {', '.join(welcome.resources)}, we {', '.join(RESOURCES)}")
        return welcome

    async def _converse(self, stream: Stream, welcome: permit_pb2.Welcome) -> None:
        """Speak until the stream ends or one of its tasks fails; the failure is raised."""
        self._number += 1
        self._max_pod_count = welcome.max_pod_count
        outbox = self._outbox = asyncio.Queue(_OUTBOX_LIMIT)
        self._log.info("session", address=self._config.sampler_address)
        self._tell([SessionUp(self._number)])
        heartbeat_s = welcome.heartbeat_s or 1.0
        failure: BaseException | None = None
        try:
            async with asyncio.TaskGroup() as group:
                writing = group.create_task(self._write(stream, outbox, heartbeat_s), name="session: write")
                await self._read(stream, welcome.lease_s, silence_s=_SILENT_HEARTBEATS * heartbeat_s)
                writing.cancel()
        except* (grpc.RpcError, ArgosyError, TimeoutError, asyncio.InvalidStateError) as failures:
            failure = _first(failures)
        finally:
            self._outbox = None
            self._tell([SessionDown()])
        if failure is not None:
            raise failure

    async def _write(
        self, stream: Stream, outbox: asyncio.Queue[permit_pb2.SessionRequest], heartbeat_s: float
    ) -> None:
        sequence = 1
        while True:
            try:
                async with asyncio.timeout(heartbeat_s / 2):
                    message = await outbox.get()
            except TimeoutError:
                message = permit_pb2.SessionRequest(heartbeat=permit_pb2.Heartbeat())
            if self._outbox is not outbox:
                raise BackendUnavailable("the sampler does not take messages")
            sequence += 1
            message.sequence = sequence
            self._sent.append((sequence, elapsed_s()))
            await stream.write(message)

    async def _read(self, stream: Stream, lease_s: float, *, silence_s: float) -> None:
        sent_s: float | None = None
        while True:
            async with asyncio.timeout(silence_s):
                message = await stream.read()
            if not isinstance(message, permit_pb2.SessionResponse):
                return
            self._backoff.reset()
            while self._sent and self._sent[0][0] <= message.confirmed_sequence:
                sent_s = self._sent.popleft()[1]
            events = read_events(message, self._number)
            if sent_s is not None:
                events.append(Leased(self._number, sent_s + lease_s))
            self._tell(events)


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error = group.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error

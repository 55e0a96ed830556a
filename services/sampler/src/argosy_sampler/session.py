"""The session with the pool's leader: one stream, dialled by the sampler, begun again whenever it ends.

A stream goes hello and nodes up; welcome, cordons and the full list of placements down; ready up; then requests down
and answers up, with heartbeats in silence. A replica that does not lead answers with the leader's address.

Source: design section 5, "Sampler session" and "Leader lost".
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Final

import grpc

from argosy.sampler.v1 import sampler_pb2, sampler_pb2_grpc
from argosy_core.errors import ArgosyError, BackendUnavailable, InvalidRequest
from argosy_core.placement import CapacityScope, CapacityThrottle, ThrottleSettings
from argosy_runtime.channel import Backoff, Caller, call_metadata, end_stream, open_channel
from argosy_runtime.errors import from_rpc_error
from argosy_runtime.logs import Logger
from argosy_runtime.metrics import METRICS
from argosy_sampler.config import SamplerConfig
from argosy_sampler.handler import SessionHandler

__all__ = ["SessionClient"]

_OUTBOX_LIMIT: Final = 64
_SILENT_HEARTBEATS: Final = 3
_REST_RATIO: Final = 9.0
"""Pause after finding out what changed, by how long that took: it may cost a tenth of the time at most."""
_SIZES_S: Final = 2.0
"""Least time between two looks at the sizes of scaled pods, seconds; only people look at them. Pods that are new are
looked at sooner, before an agent has resized them."""

Stream = grpc.aio.StreamStreamCall[sampler_pb2.SessionRequest, sampler_pb2.SessionResponse]


class SessionClient:
    """Keeps a session with the leader of the pool.

    Args:
        config: Who we are and where servers are.
        cluster_uid: Uid of the cluster.
        pool: Pool whose leader is served.
        caller: This process.
        handler: Answers the leader.
        backoff: Wait between attempts.
        log: Where sessions are told.
    """

    def __init__(
        self,
        config: SamplerConfig,
        cluster_uid: str,
        *,
        pool: str,
        caller: Caller,
        handler: SessionHandler,
        backoff: Backoff,
        log: Logger,
    ) -> None:
        """Start without a session."""
        self._config = config
        self._cluster_uid = cluster_uid
        self._caller = caller
        self._pool = pool
        self._handler = handler
        self._backoff = backoff
        self._log = log
        self._throttle_settings = ThrottleSettings(
            interval_s=config.capacity_interval_ms / 1000,
            rise_interval_s=config.rise_interval_ms / 1000,
            node_interval_s=config.node_interval_ms / 1000,
        )
        self._redirect = ""
        self._turn = 0
        self._begins_to_wait = asyncio.Event()
        """Set when a class waits for capacity to rise and none did before."""
        self._placed = asyncio.Event()
        """Set when the leader is to be told where runs are placed."""
        handler.on_placed = self._placed.set

    async def run(self, on_ready: Callable[[], None] = lambda: None) -> None:
        """Hold sessions, one after the other, until cancelled.

        Args:
            on_ready: Called whenever sampling and committing may begin.
        """
        while True:
            address = self._next_address()
            try:
                await self._hold(address, on_ready)
                reason = "the stream ended"
            except (grpc.RpcError, ArgosyError, asyncio.InvalidStateError) as cause:
                # The last one is how a write tells that the stream has ended.
                error = from_rpc_error(cause) if isinstance(cause, grpc.RpcError) else cause
                reason = f"{type(error).__name__}: {error}"
            self._handler.stop()
            if self._redirect:
                continue
            wait_s = self._backoff.next_wait_s()
            self._log.warning("session ended", address=address, reason=reason, wait_s=round(wait_s, 3))
            await asyncio.sleep(wait_s)

    def _next_address(self) -> str:
        """Return where a redirect points, else the next server of the configuration."""
        redirect, self._redirect = self._redirect, ""
        if redirect:
            return redirect
        addresses = self._config.server_addresses
        self._turn += 1
        return addresses[(self._turn - 1) % len(addresses)]

    async def _hold(self, address: str, on_ready: Callable[[], None]) -> None:
        """Hold one session until it ends; a redirect is kept for the next."""
        credentials = self._config.credentials
        channel = open_channel(address, credentials)
        try:
            metadata = call_metadata(address, credentials)
            stream = sampler_pb2_grpc.SamplerServiceStub(channel).Session(metadata=metadata)
            await self._hold_stream(stream, on_ready)
        except TimeoutError as cause:
            raise BackendUnavailable(f"{address} does not answer") from cause
        finally:
            await channel.close()

    async def _hold_stream(self, stream: Stream, on_ready: Callable[[], None]) -> None:
        """Hold one stream until it ends; a process that goes says so, and its successor need not wait."""
        try:
            capacity = self._handler.begin()
            async with asyncio.timeout(self._config.connect_timeout_s):
                # A replica that redirects ends the stream at once. The hello then fails to be written, which would hide
                # the redirect from a read that begins later.
                first, _ = await asyncio.gather(stream.read(), self._say_hello(stream))
                welcome = await self._take_first(first)
            if welcome is None:
                return
            self._handler.welcome(welcome.epoch, welcome.incarnation)
            METRICS.session_reconnects.labels(self._config.cluster).inc()
            if capacity is not None:
                await stream.write(sampler_pb2.SessionRequest(capacity=capacity))
            await self._converse(stream, welcome.heartbeat_s or 1.0, on_ready)
        except asyncio.CancelledError:
            await end_stream(stream)
            raise

    def _hello(self) -> sampler_pb2.Hello:
        return sampler_pb2.Hello(
            cluster=self._config.cluster,
            cluster_uid=self._cluster_uid,
            process_id=self._caller.process_id,
            host=self._caller.host,
            pool=self._pool,
            joins_releases=True,
            delegated=self._config.delegated,
        )

    async def _say_hello(self, stream: Stream) -> None:
        with contextlib.suppress(grpc.RpcError, asyncio.InvalidStateError):
            await stream.write(sampler_pb2.SessionRequest(hello=self._hello()))

    async def _take_first(self, first: object) -> sampler_pb2.Welcome | None:
        """Return the welcome, or None after a redirect."""
        if not isinstance(first, sampler_pb2.SessionResponse):
            raise BackendUnavailable("the server ended the stream before a welcome")
        kind = first.WhichOneof("message")
        if kind == "welcome":
            return first.welcome
        if kind != "redirect":
            raise InvalidRequest(f"the server began with {kind!r} instead of a welcome")
        if not first.redirect.address:
            raise BackendUnavailable("no leader is known at present")
        self._redirect = first.redirect.address
        self._log.info("redirected", address=self._redirect)
        # Two replicas that each take the other for the leader must not make a busy loop.
        await asyncio.sleep(self._backoff.next_wait_s())
        return None

    async def _converse(self, stream: Stream, heartbeat_s: float, on_ready: Callable[[], None]) -> None:
        """Answer until the stream ends or one of its tasks fails; the failure is raised."""
        outbox: asyncio.Queue[sampler_pb2.SessionRequest] = asyncio.Queue(_OUTBOX_LIMIT)
        throttle = CapacityThrottle(self._throttle_settings, time.monotonic())
        failure: BaseException | None = None
        try:
            async with asyncio.TaskGroup() as group:
                writing = group.create_task(self._write(stream, outbox, heartbeat_s), name="session: write")
                telling = group.create_task(self._tell_capacity(outbox, throttle), name="session: capacity")
                placing = group.create_task(self._tell_placed(outbox), name="session: placed")
                silence_s = _SILENT_HEARTBEATS * heartbeat_s
                await self._read(stream, outbox, silence_s=silence_s, on_ready=on_ready)
                writing.cancel()
                telling.cancel()
                placing.cancel()
        except* (grpc.RpcError, ArgosyError, TimeoutError, asyncio.InvalidStateError) as failures:
            failure = _first(failures)
        if failure is not None:
            raise failure

    async def _read(
        self,
        stream: Stream,
        outbox: asyncio.Queue[sampler_pb2.SessionRequest],
        *,
        silence_s: float,
        on_ready: Callable[[], None],
    ) -> None:
        while True:
            async with asyncio.timeout(silence_s):
                message = await stream.read()
            if not isinstance(message, sampler_pb2.SessionResponse):
                return
            was_ready, had_waiting = self._handler.ready, self._handler.has_waiting
            answers = self._handler.answer(message)
            # A leader that asks and takes no answer would be waited for here, where no silence is noticed.
            async with asyncio.timeout(silence_s):
                for answer in answers:
                    await outbox.put(answer)
            if self._handler.has_waiting and not had_waiting:
                self._begins_to_wait.set()
            if self._handler.ready and not was_ready:
                self._backoff.reset()
                on_ready()

    async def _write(
        self, stream: Stream, outbox: asyncio.Queue[sampler_pb2.SessionRequest], heartbeat_s: float
    ) -> None:
        while True:
            try:
                async with asyncio.timeout(heartbeat_s):
                    message = await outbox.get()
            except TimeoutError:
                message = sampler_pb2.SessionRequest(heartbeat=sampler_pb2.Heartbeat())
            await stream.write(message)

    async def _tell_placed(self, outbox: asyncio.Queue[sampler_pb2.SessionRequest]) -> None:
        """Tell at once where runs are placed: their executor waits for it."""
        while True:
            await self._placed.wait()
            self._placed.clear()
            if (placed := self._handler.tell_placed()) is not None:
                await outbox.put(sampler_pb2.SessionRequest(placed_runs=placed))

    async def _tell_capacity(
        self, outbox: asyncio.Queue[sampler_pb2.SessionRequest], throttle: CapacityThrottle
    ) -> None:
        """Tell of what changed whenever it is time to."""
        cluster, took_s, sizes_due_s, sizes_rest_s = self._config.cluster, 0.0, 0.0, 0.0
        while True:
            self._begins_to_wait.clear()
            pause_s = throttle.pause_s(time.monotonic(), is_awaited=self._handler.has_waiting)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(pause_s, _REST_RATIO * took_s)):
                    await self._begins_to_wait.wait()
                    continue  # rises are urgent from now on
            begun_s, rise = time.monotonic(), self._handler.ledger.nodes.last_rise
            scope = throttle.next_scope(begun_s, rise=rise, is_awaited=self._handler.has_waiting)
            for held in self._handler.tell_held():
                await outbox.put(sampler_pb2.SessionRequest(held_amounts=held))
            moves = self._handler.tell_moves()
            if moves is not None:
                await outbox.put(sampler_pb2.SessionRequest(moves=moves))
            if begun_s >= (sizes_rest_s if self._handler.has_new_sizes else sizes_due_s):
                sizes, ended_s = self._handler.tell_sizes(), time.monotonic()
                sizes_due_s, sizes_rest_s = begun_s + _SIZES_S, ended_s + _REST_RATIO * (ended_s - begun_s)
                if sizes is not None:
                    await outbox.put(sampler_pb2.SessionRequest(pod_sizes=sizes))
            if scope is CapacityScope.NOTHING:
                continue
            message = self._handler.tell_capacity(with_nodes=scope is CapacityScope.NODES)
            took_s = time.monotonic() - begun_s
            if message is not None:
                METRICS.ledger_nodes.labels(cluster).set(message.node_count)
                METRICS.ledger_placements.labels(cluster).set(message.placement_count)
                await outbox.put(sampler_pb2.SessionRequest(capacity=message))


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error = group.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error

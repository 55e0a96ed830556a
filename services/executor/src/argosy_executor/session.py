"""The stream to the leader: find it, say hello, take rows and stops, send states and heartbeats, begin anew.

::

    dial -> hello -> welcome -> ... rows, stops, stored, confirmed ... -> ended -> wait -> dial
              |
              +-> redirect: dial there

Each stream begins with a full comparison, so nothing is kept from the one before but what the reconciler knows.

Source: design section 5, "Sync" and "Fencing executors".
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import grpc
import numpy as np

from argosy.executor.v1 import executor_pb2, executor_pb2_grpc
from argosy_core.errors import ArgosyError, BackendUnavailable, InvalidRequest, NotAllowedNow, StateConflict
from argosy_core.job.tables.members import Members
from argosy_core.reconcile import Fence, Instant, PoolClaims, Reconciler, SpecCache, settle_time_s
from argosy_core.reconcile.reports import REPORT_INTERVAL_S
from argosy_executor.config import ExecutorConfig
from argosy_executor.create_traces import CreateTraces
from argosy_executor.leader_codec import encode_hello, encode_reports, encode_seen, read_rows, read_stops
from argosy_executor.logs import LogReadings
from argosy_kube.port import Cluster
from argosy_runtime.channel import Backoff, Caller, call_metadata, end_stream, open_channel
from argosy_runtime.elapsed import elapsed_s
from argosy_runtime.errors import from_rpc_error
from argosy_runtime.log_archives.archive import LogArchive
from argosy_runtime.logs import get_logger
from argosy_runtime.metrics import METRICS

__all__ = ["LeaderSession", "SessionPorts", "read_clock"]

_SILENT_HEARTBEATS = 3
_REPORT_GATHER_S = 0.005
_SEEN_COUNT = 50_000
"""Most runs without a claim in one message."""


def read_clock() -> Instant:
    """Return the present moment; the fence must end while a machine sleeps, too, so time asleep counts."""
    return Instant(elapsed_s(), time.time_ns() // 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPorts:
    """What a session works on."""

    reconciler: Reconciler
    """The state; only the event loop touches it."""
    fence: Fence
    """Told of every confirmation."""
    cluster: Cluster
    """Where logs are read."""
    pool: str
    """Pool whose leader is spoken to."""
    claims: PoolClaims
    """Knows the runs that no leader has claimed."""
    wake: Callable[[], None]
    """Called when there may be something to do."""
    clock: Callable[[], Instant] = read_clock
    """The present."""
    stored: asyncio.Event = field(default_factory=asyncio.Event)
    """Set whenever the leader has stored states."""
    observed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when there may be states to report."""
    traces: CreateTraces | None = None
    """Makes spans; None if this process does not trace."""
    archive: LogArchive | None = None
    """Where logs of pods that are gone are; None if none are kept."""


class _Ended(Exception):
    """The stream ended as streams do."""


@dataclass(slots=True)
class _Stream:
    """One stream after its welcome."""

    call: Any
    """The call, as grpc gives it."""
    cache: SpecCache
    """Spec bodies that both ends hold."""
    heartbeat_s: float
    """How often the leader must hear us, seconds."""
    keep_s: tuple[float, float]
    """How long what ended stays, and what failed, seconds."""
    heartbeats: deque[float] = field(default_factory=deque)
    """When the heartbeats without an answer were sent, monotonic seconds."""
    batches: deque[tuple[int, float]] = field(default_factory=deque)
    """(number, when sent) of the batches that are not stored."""
    told_version: int = 0
    """Which runs without a claim the leader was told of, see `PoolClaims.unclaimed_version`."""
    early_stops: set[tuple[int, int]] = field(default_factory=set)
    """Keys of members that are to stop, and whose rows follow."""
    logs: LogReadings | None = None
    """Logs that are read."""
    writing: asyncio.Lock = field(default_factory=asyncio.Lock)
    """A stream takes one message at a time; who waits longest is next."""

    async def write(self, message: executor_pb2.SyncRequest) -> None:
        """Send a message.

        Raises:
            grpc.RpcError: The call failed.
            _Ended: The stream has ended; a read says why.
        """
        try:
            async with self.writing:
                await self.call.write(message)
        except asyncio.InvalidStateError as cause:
            raise _Ended("the stream ended while it was written to") from cause


class LeaderSession:
    """Keeps a stream to whoever leads a pool.

    Args:
        config: Where leaders may be, and who we are.
        ports: What to work on.
        cluster_uid: Uid of the cluster.
        caller: This process.
    """

    def __init__(self, config: ExecutorConfig, ports: SessionPorts, *, cluster_uid: str, caller: Caller) -> None:
        """Do not dial yet."""
        self._config = config
        self._ports = ports
        self._cluster_uid = cluster_uid
        self._caller = caller
        self._log = get_logger(cluster=config.cluster, pool=ports.pool)
        self._next_leader = 0
        self._settles = False
        self._backoff = Backoff(rng=np.random.default_rng(), most_s=config.retry_most_s)
        self.is_connected = False
        """Whether a leader has welcomed us on the present stream."""

    async def run(self) -> None:
        """Keep a session until cancelled.

        Raises:
            NotAllowedNow: The name belongs to another cluster, or the installations differ.
        """
        address = ""
        while True:
            target, address = address or self._pick_leader(), ""
            try:
                address = await self._hold_stream(target)
            except grpc.RpcError as cause:
                self._take_failure(from_rpc_error(cause), target)
            except (_Ended, TimeoutError) as cause:
                self._log.warning("session ended", address=target, reason=str(cause) or "no answer in time")
            except (BackendUnavailable, InvalidRequest, StateConflict) as cause:
                self._take_failure(cause, target)
            finally:
                self.is_connected = False
            await asyncio.sleep(self._backoff.next_wait_s())

    def _pick_leader(self) -> str:
        """Return the next configured address."""
        address = self._config.server_addresses[self._next_leader % len(self._config.server_addresses)]
        self._next_leader += 1
        return address

    def _take_failure(self, error: ArgosyError, leader: str) -> None:
        """Log why a stream failed; raise if trying again cannot help."""
        self._log.warning("session failed", address=leader, kind=type(error).__name__, reason=error.message)
        if isinstance(error, NotAllowedNow):
            raise error

    async def _hold_stream(self, address: str) -> str:
        """Hold one stream until it ends; return the address it was redirected to, or nothing.

        Raises:
            grpc.RpcError: The call failed.
            ArgosyError: The leader sent something impossible.
            TimeoutError: The leader did not answer the hello in time.
        """
        credentials = self._config.credentials
        channel = open_channel(address, credentials)
        try:
            metadata = call_metadata(address, credentials)
            call: Any = executor_pb2_grpc.ExecutorServiceStub(channel).Sync(metadata=metadata)
            try:
                async with asyncio.timeout(self._config.connect_timeout_s):
                    self._ports.reconciler.restart_session()
                    hello = encode_hello(
                        self._ports.reconciler,
                        cluster=self._config.cluster,
                        cluster_uid=self._cluster_uid,
                        caller=self._caller,
                        pool=self._ports.pool,
                    )
                    said_at_s = self._ports.clock().monotonic_s
                    # A replica that redirects ends the stream at once. The hello then fails to be written, which would
                    # hide the redirect from a read that begins later.
                    first, _ = await asyncio.gather(call.read(), _say_hello(call, hello))
                if first is grpc.aio.EOF:
                    raise _Ended("the leader hung up")
                if first.WhichOneof("message") == "redirect":
                    return str(first.redirect.address)
                if first.WhichOneof("message") != "welcome":
                    raise InvalidRequest("the first message of the leader is neither a welcome nor a redirect")
                stream = self._take_welcome(call, first.welcome, said_at_s)
                await self._exchange(stream)
            except asyncio.CancelledError:
                await end_stream(call)
                raise
            finally:
                call.cancel()
        finally:
            await channel.close()
        return ""

    def _take_welcome(self, call: Any, welcome: executor_pb2.Welcome, said_at_s: float) -> _Stream:  # noqa: ANN401 - grpc has no type for it
        """Begin a session.

        Raises:
            NotAllowedNow: The leader's objects carry other labels than the ones we look after.
        """
        if welcome.installation != self._config.installation:
            raise NotAllowedNow(
                f"the leader is of installation {welcome.installation!r} and this executor of "
                f"{self._config.installation!r}; configure both alike"
            )
        ports = self._ports
        ports.fence.welcome(welcome.fence_s, said_at_s)
        ports.reconciler.keep_for(welcome.keep_finished_s, welcome.keep_failed_s)
        if not self._settles:
            # From the first welcome on nobody confirms a predecessor; before its calls have run out, "there is no such
            # pod" is no fact.
            self._settles = True
            now = ports.clock()
            settled_at_s = settle_time_s(
                now.monotonic_s, fence_s=welcome.fence_s, call_timeout_s=self._config.call_timeout_s
            )
            ports.reconciler.settle_at(0.0 if welcome.first else settled_at_s, now)
        self.is_connected = True
        self._backoff.reset()
        METRICS.session_reconnects.labels(self._config.cluster).inc()
        self._log.info("session begun", epoch=welcome.epoch, incarnation=welcome.incarnation)
        ports.wake()
        keep_s = welcome.keep_finished_s, welcome.keep_failed_s
        return _Stream(call, SpecCache(), max(welcome.heartbeat_s, 0.05), keep_s)

    async def _exchange(self, stream: _Stream) -> None:
        """Read and write until either fails; the first failure is raised."""
        try:
            async with asyncio.TaskGroup() as group:
                stream.logs = LogReadings(
                    self._ports.cluster,
                    stream.write,
                    group,
                    max_count=self._config.max_log_count,
                    archive=self._ports.archive,
                )
                group.create_task(self._read(stream), name="session: read")
                group.create_task(self._write(stream), name="session: write")
        except BaseExceptionGroup as failures:
            raise _cause(failures) from None

    async def _read(self, stream: _Stream) -> None:
        """Take the leader's messages."""
        while True:
            try:
                async with asyncio.timeout(_SILENT_HEARTBEATS * stream.heartbeat_s):
                    message = await stream.call.read()
            except TimeoutError as cause:
                raise _Ended("nothing was heard for three heartbeats") from cause
            if message is grpc.aio.EOF:
                raise _Ended("the leader ended the stream")
            self._take_message(stream, message)

    def _take_message(self, stream: _Stream, message: executor_pb2.SyncResponse) -> None:
        """Hand a message of the leader to the part that it is for."""
        ports = self._ports
        kind = message.WhichOneof("message")
        if kind == "rows":
            self._take_rows(stream, message.rows)
        elif kind == "stops":
            self._take_stops(stream, message.stops)
        elif kind == "stored":
            while stream.batches and stream.batches[0][0] <= message.stored.batch:
                ports.fence.confirm(stream.batches.popleft()[1])
            ports.reconciler.acknowledge(message.stored.batch)
            ports.stored.set()
        elif kind == "log_request" and stream.logs is not None:
            stream.logs.begin(message.log_request)
            return
        elif kind == "log_credit" and stream.logs is not None:
            stream.logs.take_credit(message.log_credit)
            return
        elif kind == "confirmed":
            if stream.heartbeats:
                ports.fence.confirm(stream.heartbeats.popleft())
        else:
            raise InvalidRequest(f"the leader sent {kind or 'an empty message'} within a session")
        ports.wake()

    def _take_rows(self, stream: _Stream, message: executor_pb2.ObjectRows) -> None:
        """Have the reconciler make what the leader sent."""
        ports = self._ports
        rows = read_rows(message, stream.cache)
        if ports.traces is not None:
            ports.traces.note_rows(message, rows.handle_column)
        members = Members(rows.handle_column, rows.ordinal_column)
        ports.reconciler.take_rows(rows, ports.clock(), ports.claims.take(members))
        if stream.early_stops:
            keys = members.pairs()
            ports.reconciler.take_stops(members[np.array([key in stream.early_stops for key in keys], dtype=np.bool_)])
            stream.early_stops.difference_update(keys)

    def _take_stops(self, stream: _Stream, message: executor_pb2.StopRuns) -> None:
        """Have the reconciler stop runs, each with its row: what was seen of a run proves nothing without it.

        A stop that comes before the row is kept for it, if anything of the run was seen. Where the leader knows no such
        run there is no row, and what claims to be of it goes.
        """
        ports, stops = self._ports, read_stops(message)
        early = ~ports.reconciler.have_rows(stops) & ports.claims.holds(stops)
        ports.reconciler.take_stops(stops[~early])
        if message.unknown:
            keep_finished_s, keep_failed_s = stream.keep_s
            ports.claims.discard(
                stops[early],
                ports.clock().monotonic_s,
                keep_finished_s=keep_finished_s,
                keep_failed_s=keep_failed_s,
            )
        else:
            stream.early_stops.update(stops[early].pairs())

    async def _write(self, stream: _Stream) -> None:
        """Send states as they come, at most one small batch per interval, and heartbeats."""
        ports = self._ports
        next_heartbeat_s = 0.0
        while True:
            now = ports.clock()
            if now.monotonic_s >= next_heartbeat_s:
                next_heartbeat_s = now.monotonic_s + stream.heartbeat_s
                stream.heartbeats.append(now.monotonic_s)
                await stream.write(executor_pb2.SyncRequest(heartbeat=executor_pb2.Heartbeat()))
            if stream.told_version != ports.claims.unclaimed_version:
                stream.told_version = ports.claims.unclaimed_version
                seen = ports.claims.unclaimed()
                for start in range(0, len(seen), _SEEN_COUNT):
                    await stream.write(encode_seen(seen[start : start + _SEEN_COUNT]))
            batch = ports.reconciler.next_reports(now)
            pause_s = min(REPORT_INTERVAL_S, stream.heartbeat_s) if batch is not None else 0.0
            while batch is not None:
                stream.batches.append((batch.number, now.monotonic_s))
                METRICS.reported_states.labels(self._config.cluster).inc(len(batch))
                await stream.write(encode_reports(batch, self._ports.clock().wall_us))
                batch = ports.reconciler.next_reports(now)
            if pause_s:
                await asyncio.sleep(pause_s)
                continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(next_heartbeat_s - now.monotonic_s, 0.0)):
                    await ports.observed.wait()
            await asyncio.sleep(_REPORT_GATHER_S)
            ports.observed.clear()


async def _say_hello(call: Any, hello: executor_pb2.SyncRequest) -> None:  # noqa: ANN401 - grpc has no type for it
    """Send the hello; if that fails, the read beside it says why."""
    with contextlib.suppress(grpc.RpcError, asyncio.InvalidStateError):
        await call.write(hello)


def _cause(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return why a stream ended: a write that meets the end knows only that it is over, the read knows why."""
    return next((one for one in failures.exceptions if not isinstance(one, _Ended)), failures.exceptions[0])

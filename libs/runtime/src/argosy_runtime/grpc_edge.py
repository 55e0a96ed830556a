"""What stands outermost in every gRPC server: it holds what must be true of every method.

- A call is known by its peer before its message is read: places, rate and time for the message are limited per
  connection and per host (`argosy_runtime.peers`), and what is too much gets RESOURCE_EXHAUSTED with the limit's name.
- Where a guard stands (`argosy_runtime.access.guard`) it admits the caller before the message is read, health apart; a
  stream's caller is asked for again and again.
- Bytes that are no message of the method's type get INVALID_ARGUMENT with a fixed text (grpcio alone answers UNKNOWN).
- Every error leaves with its code, a text safe to show and google.rpc details; what is not ours is INTERNAL with a
  request id and nothing else, and goes to the log.

grpcio reads the message of a unary request before it calls the handler, without any limit. So every method is shown to
it as one whose requests are a stream, which is the same on the wire, and the message is read here.

Streams live long, so they have places of their own, each service by itself. Health has, too, and neither waits nor ends
when the server drains: whatever others do, a server that lives says so.

Source: design section 7, invariant 11; section 9.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import grpc

from argosy_core.errors import ArgosyError, BackendUnavailable, InvalidRequest, QuotaExceeded
from argosy_runtime.access.guard import CALLER, Caller, Guard
from argosy_runtime.grpc_answers import alone, answer_of, end_call, told
from argosy_runtime.grpc_turns import Turns
from argosy_runtime.logs import Logger, get_logger
from argosy_runtime.metrics import METRICS
from argosy_runtime.peers import PEER, Peer, Place, PlaceLimits, Places, parse_peer

__all__ = ["MALFORMED_TEXT", "EdgeInterceptor", "EdgeLimits"]

MALFORMED_TEXT: Final = "the request's bytes are not a message of the method's request type"
"""Fixed answer to bytes that cannot be decoded."""
_HEALTH: Final = "/grpc.health.v1."
_EXEMPT: Final = (_HEALTH, "/grpc.reflection.")
_OURS: Final = frozenset(
    (grpc.StatusCode.OK, grpc.StatusCode.CANCELLED, grpc.StatusCode.INTERNAL, grpc.StatusCode.UNAVAILABLE)
)
_HEALTH_CHECKS: Final = PlaceLimits(name="health checks", total=256, per_host=128, per_connection=64)


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeLimits:
    """How much is served."""

    calls: PlaceLimits
    """Unary calls at once."""
    streams: PlaceLimits
    """Streams of each service at once."""
    calls_per_s: float
    """Calls and streams that a connection may begin in a second, those of `unmetered` methods apart; 0 for any."""
    body_timeout_s: float
    """How long a request's first message may take to come."""


class _Malformed:
    """Stands for a request that could not be decoded."""


_MALFORMED: Final = _Malformed()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Method:
    """A method as the edge sees it."""

    name: str
    inner: Callable[..., Any]
    decode: Callable[[bytes], object]
    places: Places
    cost: float
    """What a call of it takes of its peer's rate."""
    is_exempt: bool
    """Whether it neither waits for its turn nor is refused while the server drains."""
    is_open: bool
    """Whether nobody is asked who they are: health."""


class EdgeInterceptor(grpc.aio.ServerInterceptor):
    """The outermost interceptor: limits, decoding faults, errors, metrics.

    Args:
        limits: How much is served.
        guard: Admits callers; everybody is, where there is none.
        log: Where faults of ours go.
    """

    def __init__(self, limits: EdgeLimits, *, guard: Guard | None = None, log: Logger | None = None) -> None:
        """Start with nothing under way."""
        self._limits = limits
        self._guard = guard
        self._log = log or get_logger()
        self._turns = Turns(limits.calls_per_s)
        self._calls = Places(limits.calls)
        self._health = Places(_HEALTH_CHECKS)
        self._streams: dict[str, Places] = {}
        self._handlers: dict[str, Any] = {}
        self._endings: set[asyncio.Task[None]] = set()
        self._sweep: asyncio.TimerHandle | None = None
        self._unmetered: set[str] = set()

    @property
    def call_count(self) -> int:
        """Unary calls under way."""
        return self._calls.count

    @property
    def stream_count(self) -> int:
        """Streams under way, of all services."""
        return sum(places.count for places in self._streams.values())

    @property
    def waiting_count(self) -> int:
        """Calls that wait for their turn, or to be told that they are too many."""
        return self._turns.waiting_count

    def leave_unmetered(self, *methods: str) -> None:
        """Take nothing of a peer's rate for calls of these methods, which have limits of their own."""
        self._unmetered.update(methods)

    def refuse_new(self) -> None:
        """Refuse every call that comes from now on with UNAVAILABLE; those under way go on."""
        self._turns.close()

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:  # noqa: ANN401 - grpc's handlers have no usable type
        """Return the method's handler with all that this interceptor holds around it; each is made once."""
        method: str = handler_call_details.method
        made = self._handlers.get(method)
        if made is None:
            handler: Any = await continuation(handler_call_details)
            if handler is None:
                method, handler = "unknown", grpc.unary_unary_rpc_method_handler(_unknown)
            is_stream = handler.request_streaming or handler.response_streaming
            made = (self._stream_handler if is_stream else self._unary_handler)(handler, method)
            self._handlers[method] = made
        return made

    def _method(self, name: str, handler: Any, inner: Callable[..., Any], places: Places) -> _Method:  # noqa: ANN401 - grpc has no type for it
        is_exempt = name.startswith(_EXEMPT)
        cost = 0.0 if is_exempt or name in self._unmetered else 1.0
        return _Method(
            name=name,
            inner=inner,
            decode=_forgiving(handler.request_deserializer),
            places=places,
            cost=cost,
            is_exempt=is_exempt,
            is_open=name.startswith(_HEALTH),
        )

    def _unary_handler(self, handler: Any, name: str) -> Any:  # noqa: ANN401 - grpc has no type for it
        places = self._health if name.startswith(_HEALTH) else self._calls
        method = self._method(name, handler, handler.unary_unary, places)

        # Without `_guarded`: unary calls are the hot path, and a context manager takes its part of each (measured).
        async def serve(_: object, context: Any) -> object:  # noqa: ANN401 - the generated type is private
            started = time.perf_counter()
            peer = parse_peer(context.peer())
            code, place = grpc.StatusCode.OK, None
            try:
                place = await self._enter(method, peer, context)
                if self._guard is not None and not method.is_open:
                    await self._guard.admit(name, context)
                    return self._guard.note_answer(
                        await method.inner(await self._read(method, place, context), context)
                    )
                return await method.inner(await self._read(method, place, context), context)
            except asyncio.CancelledError:
                code = grpc.StatusCode.CANCELLED
                raise
            except Exception as error:
                answer = answer_of(error, context, name, guard=self._guard, log=self._log)
                code = answer.code
                await answer.abort(context)
                alone(error)  # the handler's own answer
                raise
            finally:
                self._leave(method, peer, place, code)
                METRICS.grpc_call_seconds.labels(name).observe(time.perf_counter() - started)
                del _, context, place  # see `alone`

        return grpc.stream_unary_rpc_method_handler(
            serve,
            request_deserializer=None,  # decoded here, once it is known whose bytes they are
            response_serializer=handler.response_serializer,
        )

    def _stream_handler(self, handler: Any, name: str) -> Any:  # noqa: ANN401 - grpc has no type for it
        inner = handler.stream_stream if handler.request_streaming else handler.unary_stream
        if inner is None:
            raise NotImplementedError("client-streaming methods are not part of the protocol")
        places = self._streams.setdefault(name.rpartition("/")[0], Places(self._limits.streams))
        method = self._method(name, handler, inner, places)
        reads_stream, read_all = handler.request_streaming, self._read_all

        async def generate(_: object, context: Any) -> AsyncIterator[object]:  # noqa: ANN401 - see above
            request: Any = None
            place: Place | None = None
            try:
                async with self._guarded(method, context) as place, _counted(name):
                    request = (
                        read_all(method, place, context) if reads_stream else await self._read(method, place, context)
                    )
                    async for response in inner(request, context):
                        yield response
                        if self._guard is not None and not method.is_open:
                            self._guard.note_answer(response)
                            # One who has got too many bytes waits, and so does what is read for it.
                            await asyncio.sleep(self._guard.quotas.answer_wait_s(CALLER.get().principal))
            except grpc.aio.AbortError as ended:
                raise alone(ended) from None
            finally:
                place = None
                del _, context, request  # see `alone`

        async def write(_: object, context: Any) -> None:  # noqa: ANN401 - see above
            request: Any = None
            place: Place | None = None
            try:
                async with self._guarded(method, context) as place, _counted(name):
                    request = (
                        read_all(method, place, context) if reads_stream else await self._read(method, place, context)
                    )
                    await inner(request, context)
            except grpc.aio.AbortError as ended:
                raise alone(ended) from None
            finally:
                place = None
                del _, context, request  # see `alone`

        # A handler may yield its answers or write them to the context; grpcio must be shown the same kind.
        return grpc.stream_stream_rpc_method_handler(
            generate if inspect.isasyncgenfunction(inner) else write,
            request_deserializer=None,  # decoded here, once it is known whose bytes they are
            response_serializer=handler.response_serializer,
        )

    @asynccontextmanager
    async def _guarded(self, method: _Method, context: Any) -> AsyncIterator[Place]:  # noqa: ANN401 - see above
        peer = parse_peer(context.peer())
        code, place = grpc.StatusCode.OK, None
        try:
            place = await self._enter(method, peer, context)
            if self._guard is None or method.is_open:
                yield place
                return
            caller = await self._guard.admit(method.name, context)
            with self._guard.quotas.stream(caller.principal):
                async with self._watched(self._guard, method.name, caller, context):
                    yield place
        except asyncio.CancelledError:
            code = grpc.StatusCode.CANCELLED
            raise
        except Exception as error:
            answer = answer_of(error, context, method.name, guard=self._guard, log=self._log)
            code = answer.code
            await answer.abort(context)
            raise
        finally:
            self._leave(method, peer, place, code)

    async def _enter(self, method: _Method, peer: Peer, context: Any) -> Place:  # noqa: ANN401 - see above
        """Return the call's place, once it is its turn."""
        PEER.set(peer)
        if not method.is_exempt:
            await self._turns.wait(peer, method.cost)
        try:
            place = method.places.take(peer, now_s=time.monotonic(), give_up=partial(self._give_up, context))
        except QuotaExceeded:
            if not method.is_exempt:
                await self._turns.keep_back(peer)
            raise
        if self._sweep is None:
            self._sweep_later(self._limits.body_timeout_s / 4)
        return place

    def _leave(self, method: _Method, peer: Peer, place: Place | None, code: grpc.StatusCode) -> None:
        if place is not None:
            method.places.release(place)
        if code not in _OURS and not method.is_exempt:
            self._turns.charge_failure(peer)
        METRICS.grpc_calls.labels(method.name, code.name).inc()

    @asynccontextmanager
    async def _watched(self, guard: Guard, name: str, caller: Caller, context: Any) -> AsyncIterator[None]:  # noqa: ANN401 - see above
        """End the stream inside once its caller may not hold it any more."""
        stream = asyncio.current_task()
        assert stream is not None

        async def watch() -> None:
            while True:
                await asyncio.sleep(guard.check_again_s)
                try:
                    await guard.admit_again(name, context, caller)
                except BackendUnavailable:
                    continue  # what was granted last goes on to count while nobody can be asked
                except ArgosyError as error:
                    await end_call(told(error), context)
                    stream.cancel()
                    return

        watching = asyncio.get_running_loop().create_task(watch())
        try:
            yield
        finally:
            watching.cancel()

    async def _read(self, method: _Method, place: Place, context: Any) -> object:  # noqa: ANN401 - see above
        """Return the one message of a call.

        Raises:
            InvalidRequest: It is malformed, or none came.
            QuotaExceeded: Its sender has sent too much.
        """
        data = await context.read()
        method.places.note_body(place)
        if data is grpc.aio.EOF:
            raise InvalidRequest("the call ended without a request message")
        return self._decode(method, data)

    async def _read_all(
        self,
        method: _Method,
        place: Place,
        context: Any,  # noqa: ANN401 - see above
    ) -> AsyncIterator[object]:
        while True:
            data = await context.read()
            method.places.note_body(place)
            if data is grpc.aio.EOF:
                return
            yield self._decode(method, data)

    def _decode(self, method: _Method, data: bytes) -> object:
        if self._guard is not None and not method.is_open:
            self._guard.quotas.take_bytes(CALLER.get().principal, len(data))
        message = method.decode(data)
        if message is _MALFORMED:
            raise InvalidRequest(MALFORMED_TEXT)
        return message

    def _sweep_later(self, after_s: float) -> None:
        self._sweep = asyncio.get_running_loop().call_later(after_s, self._end_overdue)

    def _end_overdue(self) -> None:
        self._sweep = None
        now_s = time.monotonic()
        everywhere = (self._calls, self._health, *self._streams.values())
        waits = [places.end_overdue(now_s, self._limits.body_timeout_s) for places in everywhere]
        if waiting := [after_s for after_s in waits if after_s is not None]:
            self._sweep_later(min(waiting))

    def _give_up(self, context: Any, error: QuotaExceeded) -> None:  # noqa: ANN401 - see above
        # The answer is sent beside the read, which ends by it: the memory that a cancelled read was to fill is freed
        # while grpcio still holds on to it.
        METRICS.grpc_refused.labels(error.reason).inc()
        answer = told(error)
        ending = asyncio.get_running_loop().create_task(end_call(answer, context))
        self._endings.add(ending)
        ending.add_done_callback(self._endings.discard)


async def _unknown(_: object, context: Any) -> None:  # noqa: ANN401 - see above
    await context.abort(grpc.StatusCode.UNIMPLEMENTED, "no such method")


@asynccontextmanager
async def _counted(method: str) -> AsyncIterator[None]:
    METRICS.grpc_streams.labels(method).inc()
    try:
        yield
    finally:
        METRICS.grpc_streams.labels(method).dec()


def _forgiving(deserializer: Callable[[bytes], object] | None) -> Callable[[bytes], object]:
    decode = deserializer or bytes  # methods that nobody knows have none

    def deserialize(data: bytes) -> object:
        try:
            return decode(data)
        except Exception:  # noqa: BLE001 - whatever a decoder raises, the bytes are at fault; answered by the handler
            return _MALFORMED

    return deserialize

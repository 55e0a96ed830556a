"""gRPC servers as every service runs them: bounded, inspectable, and open to this machine only unless told otherwise.

One interceptor stands outermost and holds what must be true of every method:

- Bytes that are no message of the method's type get INVALID_ARGUMENT with a fixed text (grpcio alone answers UNKNOWN).
- Every error leaves with its code, a text safe to show and google.rpc details; what is not ours is INTERNAL with a
  request id and nothing else, and goes to the log.
- Calls above the limits are refused with RESOURCE_EXHAUSTED before their body is read, rather than queued. Streams live
  long, so they have a limit of their own, each service by itself; health and reflection are exempt, so a loaded server
  still looks alive.

Source: design section 7, invariant 11; section 9.
"""

from __future__ import annotations

import asyncio
import inspect
import ipaddress
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1.health import aio as health_aio
from grpc_reflection.v1alpha import reflection

from argosy.error_details import DETAILS_KEY
from argosy_core.errors import ArgosyError, BackendUnavailable, InvalidRequest, QuotaExceeded, Resource
from argosy_runtime.errors import code_of, details_of, from_rpc_error, message_of
from argosy_runtime.logs import Logger, get_logger
from argosy_runtime.metrics import METRICS

__all__ = ["LIVENESS_SERVICE", "MALFORMED_TEXT", "EdgeInterceptor", "GrpcServer", "GrpcSettings", "is_loopback"]

MALFORMED_TEXT: Final = "the request's bytes are not a message of the method's request type"
"""Fixed answer to bytes that cannot be decoded."""
_STREAMING_SERVICES: Final = 5  # of all packages together: events, jobs (logs), debug, executor, sampler
_BUSY_RETRY_S: Final = 1.0
_EXEMPT: Final = ("/grpc.health.v1.", "/grpc.reflection.")


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcSettings:
    """How a service listens."""

    listen: str = "127.0.0.1:50051"
    """host:port to listen on; port 0 takes a free one. Loopback, because there is no authentication yet."""
    insecure: bool = False
    """Allow an address other than loopback although nobody has to prove who they are."""
    max_message_bytes: int = 4 << 20
    """Largest request taken; 4 MiB is what gRPC clients expect."""
    max_metadata_bytes: int = 16 << 10
    """Largest sum of a request's headers taken."""
    max_call_count: int = 512
    """Unary calls served at once; more are refused with RESOURCE_EXHAUSTED rather than queued."""
    max_stream_count: int = 2000
    """Streams of each service served at once; more are refused with RESOURCE_EXHAUSTED. Watches of users never take
    the places of executors' and samplers' streams."""
    keepalive_s: float = 30.0
    """Silence after which a connection is probed; a dead peer's streams end one probe time-out later."""
    keepalive_timeout_s: float = 15.0
    """How long a probe may stay unanswered."""

    def options(self) -> list[tuple[str, int]]:
        """Return the channel arguments of the server."""
        return [
            ("grpc.max_receive_message_length", self.max_message_bytes),
            ("grpc.max_send_message_length", 64 << 20),
            ("grpc.max_metadata_size", self.max_metadata_bytes),
            ("grpc.absolute_max_metadata_size", self.max_metadata_bytes),
            ("grpc.keepalive_time_ms", int(self.keepalive_s * 1000)),
            ("grpc.keepalive_timeout_ms", int(self.keepalive_timeout_s * 1000)),
            ("grpc.keepalive_permit_without_calls", 1),
            # Clients of ours probe every 30 s; one that probes faster than 5 s is sent away.
            ("grpc.http2.min_ping_interval_without_data_ms", 5000),
            ("grpc.http2.max_ping_strikes", 3),
            ("grpc.max_concurrent_streams", 1000),
            ("grpc.so_reuseport", 0),  # a second process on the same port must fail, not share
        ]


def is_loopback(address: str) -> bool:
    """Return whether `host:port` can be reached from this machine only; unix sockets can."""
    if address.startswith(("unix:", "unix-abstract:")):
        return True
    host = address.rpartition(":")[0].strip("[]")
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


LIVENESS_SERVICE: Final = "liveness"
"""What to ask health for whether the process answers at all; without a name it says whether it does its work."""


class _Malformed:
    """Stands for a request that could not be decoded."""


_MALFORMED: Final = _Malformed()


def _forgiving(deserializer: Callable[[bytes], object] | None) -> Callable[[bytes], object] | None:
    if deserializer is None:
        return None
    decode = deserializer

    def deserialize(data: bytes) -> object:
        try:
            return decode(data)
        except Exception:  # noqa: BLE001 - whatever a decoder raises, the bytes are at fault; answered by the handler
            return _MALFORMED

    return deserialize


class EdgeInterceptor(grpc.aio.ServerInterceptor):
    """The outermost interceptor: limits, decoding faults, errors, metrics.

    Args:
        max_call_count: Unary calls served at once.
        max_stream_count: Streams of each service served at once.
        log: Where faults of ours go.
    """

    def __init__(self, *, max_call_count: int, max_stream_count: int, log: Logger | None = None) -> None:
        """Start with nothing under way."""
        self._max_call_count = max_call_count
        self._max_stream_count = max_stream_count
        self._log = log or get_logger()
        self._draining = False
        self.call_count = 0
        """Unary calls under way."""
        self._stream_counts: Counter[str] = Counter()

    @property
    def stream_count(self) -> int:
        """Streams under way, of all services."""
        return self._stream_counts.total()

    def refuse_new(self) -> None:
        """Refuse every call that comes from now on with UNAVAILABLE; those under way go on."""
        self._draining = True

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:  # noqa: ANN401 - grpc's handlers have no usable type
        """Return the method's handler with all that this interceptor holds around it."""
        handler: Any = await continuation(handler_call_details)
        method: str = handler_call_details.method
        if handler is None or method.startswith(_EXEMPT):
            return handler
        if handler.request_streaming or handler.response_streaming:
            return self._stream_handler(handler, method)
        return self._unary_handler(handler, method)

    def _unary_handler(self, handler: Any, method: str) -> Any:  # noqa: ANN401 - grpc has no type for it
        full = self._draining or self.call_count >= self._max_call_count
        inner = handler.unary_unary

        async def serve(request: object, context: Any) -> object:  # noqa: ANN401 - the generated type is private
            started = time.perf_counter()
            code = grpc.StatusCode.OK
            self.call_count += 1
            try:
                self._check_load(self.call_count, self._max_call_count, refused=full)
                if request is _MALFORMED:
                    raise InvalidRequest(MALFORMED_TEXT)
                return await inner(request, context)
            except asyncio.CancelledError:
                code = grpc.StatusCode.CANCELLED
                raise
            except Exception as error:
                answer = self._answer(error, context, method)
                code = answer.code
                await answer.abort(context)
                raise
            finally:
                self.call_count -= 1
                METRICS.grpc_calls.labels(method, code.name).inc()
                METRICS.grpc_call_seconds.labels(method).observe(time.perf_counter() - started)

        return grpc.unary_unary_rpc_method_handler(
            serve,
            request_deserializer=None if full else _forgiving(handler.request_deserializer),
            response_serializer=handler.response_serializer,
        )

    def _stream_handler(self, handler: Any, method: str) -> Any:  # noqa: ANN401 - grpc has no type for it
        service = method.rpartition("/")[0]
        full = self._draining or self._stream_counts[service] >= self._max_stream_count
        inner = (
            handler.stream_stream if handler.request_streaming and handler.response_streaming else handler.unary_stream
        )
        if inner is None:
            raise NotImplementedError("client-streaming methods are not part of the protocol")

        @asynccontextmanager
        async def guarded(request: object, context: Any) -> AsyncIterator[None]:  # noqa: ANN401 - see above
            code = grpc.StatusCode.OK
            self._stream_counts[service] += 1
            METRICS.grpc_streams.labels(method).inc()
            try:
                self._check_load(self._stream_counts[service], self._max_stream_count, refused=full)
                if request is _MALFORMED:
                    raise InvalidRequest(MALFORMED_TEXT)
                yield
            except asyncio.CancelledError:
                code = grpc.StatusCode.CANCELLED
                raise
            except Exception as error:
                answer = self._answer(error, context, method)
                code = answer.code
                await answer.abort(context)
                raise
            finally:
                self._stream_counts[service] -= 1
                METRICS.grpc_streams.labels(method).dec()
                METRICS.grpc_calls.labels(method, code.name).inc()

        async def generate(request: Any, context: Any) -> AsyncIterator[object]:  # noqa: ANN401 - see above
            async with guarded(request, context):
                async for response in inner(_checked(request) if handler.request_streaming else request, context):
                    yield response

        async def write(request: Any, context: Any) -> None:  # noqa: ANN401 - see above
            async with guarded(request, context):
                await inner(_checked(request) if handler.request_streaming else request, context)

        # A handler may yield its answers or write them to the context; grpcio must be shown the same kind.
        serve = generate if inspect.isasyncgenfunction(inner) else write
        make = (
            grpc.stream_stream_rpc_method_handler if handler.request_streaming else grpc.unary_stream_rpc_method_handler
        )
        return make(
            serve,
            request_deserializer=None if full else _forgiving(handler.request_deserializer),
            response_serializer=handler.response_serializer,
        )

    def _check_load(self, count: int, limit: int, *, refused: bool) -> None:
        if self._draining:
            raise BackendUnavailable(
                "the server is shutting down; try again at another replica", reason="SHUTTING_DOWN", retry_delay_s=0.0
            )
        if refused or count > limit:
            METRICS.grpc_refused.inc()
            raise QuotaExceeded(
                "the server is busy with as many calls as it may serve at once; wait and try again",
                reason="SERVER_BUSY",
                resource=Resource(kind="Server", name=""),
                retry_delay_s=_BUSY_RETRY_S,
            )

    def _answer(self, error: Exception, context: Any, method: str) -> _Answer:  # noqa: ANN401 - see above
        if isinstance(error, grpc.aio.AbortError):  # the handler aborted by itself
            return _Answer(code=_code_of_context(context))
        if isinstance(error, grpc.aio.AioRpcError) and error.code() != grpc.StatusCode.UNKNOWN:
            error = from_rpc_error(error)  # the answer of the server that the call was forwarded to
        if isinstance(error, ArgosyError) and code_of(error) != grpc.StatusCode.INTERNAL:
            return _Answer(code=code_of(error), text=message_of(error), details=details_of(error))
        if isinstance(error, NotImplementedError) and _code_of_context(context) == grpc.StatusCode.UNIMPLEMENTED:
            # What generated base classes do for a method that a role does not serve.
            return _Answer(code=grpc.StatusCode.UNIMPLEMENTED, text="this process does not serve the method")
        request_id = secrets.token_hex(8)
        self._log.error("request failed", method=method, request_id=request_id, exc_info=error)
        METRICS.grpc_faults.labels(method).inc()
        return _Answer(code=grpc.StatusCode.INTERNAL, text=f"internal error; request id {request_id}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """How a failed call ends."""

    code: grpc.StatusCode
    text: str = ""
    """Empty if the handler has given its answer already."""
    details: bytes = b""
    """google.rpc.Status, or empty."""

    async def abort(self, context: Any) -> None:  # noqa: ANN401 - see above
        """End the call, by raising what grpcio waits for."""
        if self.text:
            await context.abort(self.code, self.text, ((DETAILS_KEY, self.details),) if self.details else ())


def _code_of_context(context: Any) -> grpc.StatusCode:  # noqa: ANN401 - see above
    code = context.code()
    return next(
        (known for known in grpc.StatusCode if known is code or known.value[0] == code), grpc.StatusCode.UNKNOWN
    )


async def _checked(requests: AsyncIterator[object]) -> AsyncIterator[object]:
    async for request in requests:
        if request is _MALFORMED:
            raise InvalidRequest(MALFORMED_TEXT)
        yield request


class GrpcServer:
    """One gRPC server with health and reflection.

    Use: make it, `add` servicers, `start`, and in the end `stop`.

    Args:
        settings: How to listen.
        log: Where faults of ours go.

    Raises:
        InvalidRequest: The address is not loopback and `insecure` is not set.
    """

    def __init__(self, settings: GrpcSettings, *, log: Logger | None = None) -> None:
        """Make the server without opening its port."""
        if not settings.insecure and not is_loopback(settings.listen):
            raise InvalidRequest(
                f"listening on {settings.listen!r} would open the service to the network without authentication; "
                "use a loopback address, or --insecure if the network itself keeps others out"
            )
        self._settings = settings
        self._edge = EdgeInterceptor(
            max_call_count=settings.max_call_count, max_stream_count=settings.max_stream_count, log=log
        )
        self._server = grpc.aio.server(
            interceptors=[self._edge],
            options=settings.options(),
            # The edge refuses first; this backstop only bounds what not even an interceptor has seen yet.
            maximum_concurrent_rpcs=settings.max_call_count + _STREAMING_SERVICES * settings.max_stream_count + 256,
        )
        self._health = health_aio.HealthServicer()
        self._names: list[str] = [health_pb2.DESCRIPTOR.services_by_name["Health"].full_name]
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        self.port = 0
        """Port it listens on, once started; 0 for unix sockets."""

    @property
    def edge(self) -> EdgeInterceptor:
        """The outermost interceptor, for its counts."""
        return self._edge

    @property
    def address(self) -> str:
        """host:port it can be dialled at, once started."""
        if self._settings.listen.startswith("unix"):
            return self._settings.listen
        return f"{self._settings.listen.rpartition(':')[0]}:{self.port}"

    def add(self, register: Callable[[Any, grpc.aio.Server], object], servicer: object, service_name: str) -> None:
        """Serve a servicer.

        Args:
            register: The generated `add_XServicer_to_server`.
            servicer: Its servicer.
            service_name: Full name of the service, for health and reflection.
        """
        register(servicer, self._server)
        self._names.append(service_name)

    async def start(self, *, serving: bool = True) -> None:
        """Open the port, serve, and answer SERVING to health checks (or NOT_SERVING until `set_serving`).

        Raises:
            InvalidRequest: The address cannot be listened on.
        """
        reflection.enable_server_reflection((*self._names, reflection.SERVICE_NAME), self._server)
        try:
            self.port = self._server.add_insecure_port(self._settings.listen)
        except RuntimeError as cause:
            raise InvalidRequest(
                f"cannot listen on {self._settings.listen!r}: the address is taken or not of this machine"
            ) from cause
        await self._server.start()
        await self.set_serving(True, [LIVENESS_SERVICE])
        await self.set_serving(serving)

    async def set_serving(self, serving: bool, services: Iterable[str] | None = None) -> None:  # noqa: FBT001 - a setter
        """Answer health checks so, for the named services or for all and the server as a whole."""
        status = health_pb2.HealthCheckResponse.SERVING if serving else health_pb2.HealthCheckResponse.NOT_SERVING
        for name in ("", *self._names) if services is None else services:
            await self._health.set(name, status)

    async def stop_intake(self) -> None:
        """Answer NOT_SERVING and refuse new calls with UNAVAILABLE; calls under way go on."""
        await self._health.enter_graceful_shutdown()
        self._edge.refuse_new()

    async def stop(self, grace_s: float) -> None:
        """Close the port, wait for calls under way up to `grace_s` seconds, then cancel them."""
        await self._server.stop(grace_s)

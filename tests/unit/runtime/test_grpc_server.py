"""Tests of the gRPC bootstrap: limits, decoding faults, error mapping, health, reflection, draining."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from argosy.api.v1 import event_pb2, event_pb2_grpc, queue_pb2, queue_pb2_grpc
from argosy.executor.v1 import executor_pb2, executor_pb2_grpc
from argosy.sampler.v1 import sampler_pb2, sampler_pb2_grpc
from argosy_core.errors import ArgosyError, FieldViolation, InvalidRequest, NotFound, QuotaExceeded
from argosy_runtime.errors import ERROR_CODES, from_rpc_error
from argosy_runtime.grpc_server import LIVENESS_SERVICE, MALFORMED_TEXT, GrpcServer, GrpcSettings, is_loopback
from argosy_runtime.logs import set_up_logs

Handler = Callable[[queue_pb2.GetQueueRequest], Awaitable[queue_pb2.GetQueueResponse]]


class Queues(queue_pb2_grpc.QueueServiceServicer):
    """A queue service whose GetQueue does what the test says."""

    def __init__(self, handler: Handler) -> None:
        """Keep the handler."""
        self._handler = handler

    async def GetQueue(self, request: Any, context: Any) -> Any:  # noqa: N802 - the protocol's name
        """Answer as the test says."""
        return await self._handler(request)


class Events(event_pb2_grpc.EventServiceServicer):
    """An event service that sends one batch and then waits."""

    def __init__(self, release: asyncio.Event, error: Exception | None = None) -> None:
        """Keep what ends the stream."""
        self._release, self._error = release, error

    async def WatchJobSet(self, request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802 - the protocol's name
        """Send one batch, wait, end."""
        yield event_pb2.WatchJobSetResponse(cursor="one")
        await self._release.wait()
        if self._error is not None:
            raise self._error


class Syncs(executor_pb2_grpc.ExecutorServiceServicer):
    """An executor service that writes to its context instead of yielding."""

    async def Sync(self, request_iterator: Any, context: Any) -> None:  # noqa: N802 - the protocol's name
        """Answer each message, then fail."""
        async for _ in request_iterator:
            await context.write(executor_pb2.SyncResponse())
        raise NotFound("nothing more")


class Sessions(sampler_pb2_grpc.SamplerServiceServicer):
    """A sampler service that reads until the end."""

    async def Session(self, request_iterator: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802 - the protocol's name
        """Answer each message with an empty one."""
        async for _ in request_iterator:
            yield sampler_pb2.SessionResponse()


async def echo(request: queue_pb2.GetQueueRequest) -> queue_pb2.GetQueueResponse:
    """Answer with a queue of the name asked for."""
    return queue_pb2.GetQueueResponse(queue=queue_pb2.Queue(name=request.name))


@asynccontextmanager
async def serving(
    handler: Handler = echo, *, events: Events | None = None, **settings: Any
) -> AsyncIterator[tuple[GrpcServer, grpc.aio.Channel]]:
    """Run a server on a free port with a channel to it."""
    server = GrpcServer(GrpcSettings(listen="127.0.0.1:0", **settings))
    server.add(queue_pb2_grpc.add_QueueServiceServicer_to_server, Queues(handler), "argosy.api.v1.QueueService")
    if events is not None:
        server.add(event_pb2_grpc.add_EventServiceServicer_to_server, events, "argosy.api.v1.EventService")
    server.add(sampler_pb2_grpc.add_SamplerServiceServicer_to_server, Sessions(), "argosy.sampler.v1.SamplerService")
    server.add(executor_pb2_grpc.add_ExecutorServiceServicer_to_server, Syncs(), "argosy.executor.v1.ExecutorService")
    await server.start()
    channel = grpc.aio.insecure_channel(server.address)
    try:
        yield server, channel
    finally:
        await channel.close()
        await server.stop(0)


async def raw_call(channel: grpc.aio.Channel, method: str, data: bytes, **kwargs: Any) -> bytes:
    """Call a unary method with bytes as they are."""
    return await channel.unary_unary(method)(data, timeout=5, **kwargs)


GET_QUEUE = "/argosy.api.v1.QueueService/GetQueue"


@pytest.mark.parametrize("error_type", ERROR_CODES, ids=lambda error: error.__name__)
async def test_server_answers_table_code_for_each_error(error_type: type[ArgosyError]) -> None:
    """Every error of the tree leaves with its code and comes back as itself, except faults of ours."""

    async def fail(_: Any) -> Any:
        raise error_type("the queue 'x' is odd")

    async with serving(fail) as (_, channel):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await queue_pb2_grpc.QueueServiceStub(channel).GetQueue(queue_pb2.GetQueueRequest(name="x"))
    assert caught.value.code() == ERROR_CODES[error_type]
    assert type(from_rpc_error(caught.value)) is error_type
    if ERROR_CODES[error_type] == grpc.StatusCode.INTERNAL:
        assert "odd" not in str(caught.value.details())
    else:
        assert caught.value.details() == "the queue 'x' is odd"


async def test_server_sends_every_violation_with_its_path() -> None:
    """An error with violations names them in the text and in google.rpc.BadRequest."""
    violations = tuple(FieldViolation(field=f"items[{i}].queue", description="does not exist") for i in range(3))

    async def fail(_: Any) -> Any:
        raise InvalidRequest("3 fields are wrong", violations=violations)

    async with serving(fail) as (_, channel):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await queue_pb2_grpc.QueueServiceStub(channel).GetQueue(queue_pb2.GetQueueRequest(name="x"))
    assert from_rpc_error(caught.value).violations == violations
    assert caught.value.details() == "3 fields are wrong: items[0-2].queue: does not exist"


async def test_server_hides_text_of_unknown_exception() -> None:
    """What we did not expect is INTERNAL with a request id, and the text goes to the log only."""
    stream = io.StringIO()
    set_up_logs("test", stream=stream)

    async def fail(_: Any) -> Any:
        raise RuntimeError("password=hunter2")

    async with serving(fail) as (_, channel):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await queue_pb2_grpc.QueueServiceStub(channel).GetQueue(queue_pb2.GetQueueRequest(name="x"))
    assert caught.value.code() == grpc.StatusCode.INTERNAL
    text = caught.value.details()
    assert text is not None
    assert text.startswith("internal error; request id ")
    logged = json.loads(stream.getvalue().splitlines()[-1])
    assert logged["request_id"] == text.rpartition(" ")[2]
    assert "hunter2" in logged["exception"]


@pytest.mark.parametrize(
    "data",
    [b"\xff\xff\xff", b"\x0a\x05ab", b"\x0a\x02\xff\xfe", b"\x0b" * 20_000],
    ids=["garbage", "truncated", "bad utf-8", "nested groups"],
)
async def test_server_answers_invalid_argument_for_malformed_bytes(data: bytes) -> None:
    """Bytes that are no message of the method get a fixed text, and the server goes on."""
    async with serving() as (_, channel):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await raw_call(channel, GET_QUEUE, data)
        assert (caught.value.code(), caught.value.details()) == (grpc.StatusCode.INVALID_ARGUMENT, MALFORMED_TEXT)
        answer = await queue_pb2_grpc.QueueServiceStub(channel).GetQueue(queue_pb2.GetQueueRequest(name="alive"))
        assert answer.queue.name == "alive"


async def test_server_answers_invalid_argument_for_malformed_stream_message() -> None:
    """A malformed message inside a stream ends that stream with INVALID_ARGUMENT."""
    async with serving() as (_, channel):
        call = channel.stream_stream("/argosy.sampler.v1.SamplerService/Session")()
        await call.write(b"\xff\xff\xff")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
    assert (caught.value.code(), caught.value.details()) == (grpc.StatusCode.INVALID_ARGUMENT, MALFORMED_TEXT)


@pytest.mark.parametrize(
    ("size", "metadata_size"),
    [((4 << 20) + 1, 0), (64 << 20, 0), (10, 17_000), (10, 100_000)],
    ids=["4 MiB + 1", "64 MiB", "17 KB metadata", "100 KB metadata"],
)
async def test_server_answers_resource_exhausted_for_oversize(size: int, metadata_size: int) -> None:
    """Messages and headers above their limits are refused before anything reads them."""
    async with serving() as (server, _):
        options = [("grpc.max_send_message_length", -1), ("grpc.max_metadata_size", 1 << 20)]
        async with grpc.aio.insecure_channel(server.address, options=options) as channel:
            metadata = (("x-filler", "a" * metadata_size),) if metadata_size else ()
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await raw_call(channel, GET_QUEUE, b"\x00" * size, metadata=metadata)
    assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_server_answers_unimplemented_for_unknown_method_and_for_one_it_does_not_serve() -> None:
    """Neither an unknown method nor one that this role lacks is a fault."""
    async with serving() as (_, channel):
        for method in ("/no.Such/Method", "/argosy.api.v1.QueueService/DeleteQueue"):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await raw_call(channel, method, b"")
            assert caught.value.code() == grpc.StatusCode.UNIMPLEMENTED


async def test_server_refuses_calls_above_its_limit_while_health_answers() -> None:
    """The call above the limit is refused at once, not queued; health is exempt; a freed place is used again."""
    release = asyncio.Event()
    entered = asyncio.Semaphore(0)

    async def wait(request: queue_pb2.GetQueueRequest) -> queue_pb2.GetQueueResponse:
        entered.release()
        await release.wait()
        return queue_pb2.GetQueueResponse()

    async with serving(wait, max_call_count=2) as (server, channel):
        stub = queue_pb2_grpc.QueueServiceStub(channel)
        calls = [stub.GetQueue(queue_pb2.GetQueueRequest(name="x"), timeout=50) for _ in range(2)]
        waiting = [asyncio.ensure_future(call) for call in calls]
        await entered.acquire()
        await entered.acquire()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.GetQueue(queue_pb2.GetQueueRequest(name="x"), timeout=50)
        assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert isinstance(from_rpc_error(caught.value), QuotaExceeded)
        health = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
        assert health.status == health_pb2.HealthCheckResponse.SERVING
        release.set()
        await asyncio.gather(*waiting)
        assert server.edge.call_count == 0
        await stub.GetQueue(queue_pb2.GetQueueRequest(name="x"), timeout=50)


async def test_server_refuses_streams_above_their_own_limit() -> None:
    """Streams do not take the places of unary calls, and have a limit of their own."""
    release = asyncio.Event()
    async with serving(events=Events(release), max_stream_count=1) as (server, channel):
        stub = event_pb2_grpc.EventServiceStub(channel)
        first = stub.WatchJobSet(event_pb2.WatchJobSetRequest())
        assert (await first.read()).cursor == "one"
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.WatchJobSet(event_pb2.WatchJobSetRequest()).read()
        assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        await raw_call(channel, GET_QUEUE, b"")
        release.set()
        assert await first.read() is grpc.aio.EOF
        assert server.edge.stream_count == 0


async def test_watches_at_their_limit_leave_room_for_streams_of_other_services() -> None:
    """However many watches there are, an executor and a sampler get their streams."""
    release = asyncio.Event()
    async with serving(events=Events(release), max_stream_count=20) as (server, channel):
        stub = event_pb2_grpc.EventServiceStub(channel)
        watches = [stub.WatchJobSet(event_pb2.WatchJobSetRequest()) for _ in range(20)]
        for watch in watches:
            assert (await watch.read()).cursor == "one"
        executor = executor_pb2_grpc.ExecutorServiceStub(channel).Sync()
        await executor.write(executor_pb2.SyncRequest())
        assert await executor.read() == executor_pb2.SyncResponse()
        sampler = sampler_pb2_grpc.SamplerServiceStub(channel).Session()
        await sampler.write(sampler_pb2.SessionRequest())
        assert await sampler.read() == sampler_pb2.SessionResponse()
        assert server.edge.stream_count == 22
        release.set()
        await sampler.done_writing()
        assert await sampler.read() is grpc.aio.EOF


async def test_server_maps_errors_of_streams() -> None:
    """An error in the middle of a stream ends it with its code."""
    release = asyncio.Event()
    release.set()
    async with serving(events=Events(release, NotFound("gone"))) as (_, channel):
        stream = event_pb2_grpc.EventServiceStub(channel).WatchJobSet(event_pb2.WatchJobSetRequest())
        assert (await stream.read()).cursor == "one"
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stream.read()
    assert (caught.value.code(), caught.value.details()) == (grpc.StatusCode.NOT_FOUND, "gone")


async def test_server_maps_errors_of_streams_that_write() -> None:
    """A handler that writes to its context gets the same treatment as one that yields."""
    async with serving() as (_, channel):
        call = executor_pb2_grpc.ExecutorServiceStub(channel).Sync()
        await call.write(executor_pb2.SyncRequest())
        assert await call.read() == executor_pb2.SyncResponse()
        await call.done_writing()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
    assert (caught.value.code(), caught.value.details()) == (grpc.StatusCode.NOT_FOUND, "nothing more")


async def test_server_forwards_error_of_another_server_unchanged() -> None:
    """The answer of the server that a call was forwarded to passes with its code, text and violations."""
    violation = FieldViolation(field="name", description="is odd")

    async def fail(_: Any) -> Any:
        raise NotFound("no such queue", violations=(violation,))

    async with serving(fail) as (_, inner):

        async def forward(request: queue_pb2.GetQueueRequest) -> queue_pb2.GetQueueResponse:
            return await queue_pb2_grpc.QueueServiceStub(inner).GetQueue(request)

        async with serving(forward) as (_, channel):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await queue_pb2_grpc.QueueServiceStub(channel).GetQueue(queue_pb2.GetQueueRequest(name="x"))
    error = from_rpc_error(caught.value)
    assert isinstance(error, NotFound)
    assert error.violations == (violation,)


async def test_process_is_alive_before_it_serves_and_while_it_cannot() -> None:
    """A restart helps no service that waits for something else; one whose event loop hangs answers neither."""
    async with serving(echo) as (server, channel):
        stub = health_pb2_grpc.HealthStub(channel)
        await server.set_serving(False)
        alive = await stub.Check(health_pb2.HealthCheckRequest(service=LIVENESS_SERVICE))
        ready = await stub.Check(health_pb2.HealthCheckRequest())
        assert alive.status == health_pb2.HealthCheckResponse.SERVING
        assert ready.status == health_pb2.HealthCheckResponse.NOT_SERVING


async def test_server_says_not_serving_and_refuses_new_calls_while_draining() -> None:
    """Draining: health NOT_SERVING, new calls UNAVAILABLE, calls under way are finished."""
    release = asyncio.Event()
    entered = asyncio.Event()

    async def wait(request: queue_pb2.GetQueueRequest) -> queue_pb2.GetQueueResponse:
        entered.set()
        await release.wait()
        return await echo(request)

    async with serving(wait) as (server, channel):
        stub = queue_pb2_grpc.QueueServiceStub(channel)
        under_way = asyncio.ensure_future(stub.GetQueue(queue_pb2.GetQueueRequest(name="mine")))
        await entered.wait()
        await server.stop_intake()
        health = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
        assert health.status == health_pb2.HealthCheckResponse.NOT_SERVING
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.GetQueue(queue_pb2.GetQueueRequest(name="x"))
        assert caught.value.code() == grpc.StatusCode.UNAVAILABLE
        release.set()
        assert (await under_way).queue.name == "mine"


async def test_server_lists_its_services_by_reflection() -> None:
    """Reflection names every service, health included."""
    async with serving() as (_, channel):
        call = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo()
        await call.write(reflection_pb2.ServerReflectionRequest(list_services=""))
        names = {service.name for service in (await call.read()).list_services_response.service}
        await call.done_writing()
    assert {"argosy.api.v1.QueueService", "grpc.health.v1.Health"} <= names


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("127.0.0.1:1", True),
        ("localhost:1", True),
        ("[::1]:1", True),
        ("unix:/run/x", True),
        ("0.0.0.0:1", False),
        ("[::]:1", False),
        ("10.0.0.1:1", False),
        ("example.org:1", False),
        (":1", False),
    ],
)
def test_loopback_is_known_by_address(*, address: str, expected: bool) -> None:
    """Only addresses that cannot be reached from elsewhere count as loopback."""
    assert is_loopback(address) is expected


def test_server_refuses_open_address_without_insecure() -> None:
    """Without authentication a port opens beyond this machine only if it was asked for by name."""
    with pytest.raises(InvalidRequest, match=r"0\.0\.0\.0:0.*--grpc-insecure"):
        GrpcServer(GrpcSettings(listen="0.0.0.0:0"))


async def test_server_names_address_that_is_taken() -> None:
    """A port in use is an error that names it, not a shared port."""
    async with serving() as (server, _):
        second = GrpcServer(GrpcSettings(listen=server.address))
        with pytest.raises(InvalidRequest, match=str(server.port)):
            await second.start()
        await second.stop(0)


async def test_server_waits_for_calls_in_one_place_however_many_methods_it_has() -> None:
    """What the wait for the next call costs does not grow with the methods that are served."""
    before = asyncio.all_tasks()
    async with serving(echo):
        assert len(asyncio.all_tasks() - before) < len(queue_pb2.DESCRIPTOR.services_by_name["QueueService"].methods)

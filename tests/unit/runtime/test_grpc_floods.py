"""Tests of servers under callers that take all they may: others, and health, are served beside them."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from argosy.api.v1 import queue_pb2, queue_pb2_grpc
from argosy.sampler.v1 import sampler_pb2, sampler_pb2_grpc
from argosy_core.errors import InvalidRequest, QuotaExceeded
from argosy_runtime import grpc_turns
from argosy_runtime.errors import from_rpc_error
from argosy_runtime.grpc_server import GrpcServer, GrpcSettings
from argosy_runtime.metrics import METRICS

GET_QUEUE = "/argosy.api.v1.QueueService/GetQueue"
SESSION = "/argosy.sampler.v1.SamplerService/Session"
HEALTH = "/grpc.health.v1.Health/Check"
LONGEST_S = 100.0  # a guard against what hangs, not a measure
Handler = Callable[[Any], Awaitable[Any]]


async def echo(request: Any) -> queue_pb2.GetQueueResponse:
    """Answer with a queue of the name asked for; the name `odd` is wrong."""
    if request.name == "odd":
        raise InvalidRequest("the name is odd")
    return queue_pb2.GetQueueResponse(queue=queue_pb2.Queue(name=request.name))


class Queues(queue_pb2_grpc.QueueServiceServicer):
    """A queue service whose GetQueue does what the test says."""

    def __init__(self, handler: Handler) -> None:
        """Keep the handler."""
        self._handler = handler

    async def GetQueue(self, request: Any, context: Any) -> Any:  # noqa: N802 - the protocol's name
        """Answer as the test says."""
        return await self._handler(request)


class Sessions(sampler_pb2_grpc.SamplerServiceServicer):
    """A sampler service that reads until the end."""

    async def Session(self, request_iterator: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802 - see above
        """Answer each message with an empty one."""
        async for _ in request_iterator:
            yield sampler_pb2.SessionResponse()


@asynccontextmanager
async def serving(handler: Handler = echo, **settings: Any) -> AsyncIterator[GrpcServer]:
    """Run a server on a free port."""
    server = GrpcServer(GrpcSettings(listen="127.0.0.1:0", **settings))
    queues = Queues(handler)  # type: ignore[abstract]
    server.add(queue_pb2_grpc.add_QueueServiceServicer_to_server, queues, "argosy.api.v1.QueueService")
    server.add(sampler_pb2_grpc.add_SamplerServiceServicer_to_server, Sessions(), "argosy.sampler.v1.SamplerService")
    await server.start()
    try:
        yield server
    finally:
        await server.stop(0)


@asynccontextmanager
async def connection(server: GrpcServer) -> AsyncIterator[Any]:
    """Open a connection that no other channel shares."""
    options = [("grpc.use_local_subchannel_pool", 1)]
    async with grpc.aio.insecure_channel(server.address, options=options) as channel:
        yield channel


async def get(channel: Any, name: str = "mine") -> str:
    """Return the name of the queue that comes back."""
    request = queue_pb2.GetQueueRequest(name=name)
    return str((await queue_pb2_grpc.QueueServiceStub(channel).GetQueue(request, timeout=LONGEST_S)).queue.name)


async def refused_busy(channel: Any) -> bool:
    """Return whether a call is refused since its connection has as many under way as it may."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await get(channel)
    return from_rpc_error(caught.value).reason == "CALLER_BUSY"


async def get_as_clients_do(channel: Any) -> str:
    """Return what `get` does, trying again as RetryInfo allows, though sooner."""
    async with asyncio.timeout(LONGEST_S):
        while True:
            try:
                return await get(channel)
            except grpc.aio.AioRpcError as error:
                if error.code() != grpc.StatusCode.RESOURCE_EXHAUSTED:
                    raise


async def health(channel: Any) -> int:
    """Return the server's answer to a health check."""
    stub: Any = health_pb2_grpc.HealthStub(channel)
    answer = await stub.Check(health_pb2.HealthCheckRequest(), timeout=LONGEST_S)
    return int(answer.status)


async def test_calls_without_message_hold_no_place_that_others_need() -> None:
    """On the attacker's connection and on another, calls and health go on while hundreds wait for their message."""
    async with (
        serving(max_call_count=8, max_call_count_per_host=8, body_timeout_s=600.0) as server,
        connection(server) as attacker,
        connection(server) as other,
    ):
        silent = [attacker.stream_unary(method)() for method in [GET_QUEUE] * 200 + [HEALTH] * 200]
        while server.edge.call_count < 8:
            await health(other)
        assert [await get_as_clients_do(other), await get_as_clients_do(attacker)] == ["mine", "mine"]
        assert [await health(other), await health(attacker)] == [health_pb2.HealthCheckResponse.SERVING] * 2
        for call in silent:
            call.cancel()


async def test_none_of_many_calls_that_come_together_is_ended_unseen() -> None:
    """Each is looked at and may wait for its message, however many come before the first one is."""
    count, limits = 1200, {"total": 2000, "per_host": 2000, "per_connection": 1000}
    places = {f"max_call_count{'' if name == 'total' else f'_{name}'}": number for name, number in limits.items()}
    async with (
        serving(body_timeout_s=600.0, calls_per_s=0.0, **places) as server,
        connection(server) as one,
        connection(server) as other,
    ):
        calls = [channel.stream_unary(GET_QUEUE)() for channel in (one, other) for _ in range(count // 2)]
        ended: list[Any] = []
        for call in calls:
            call.add_done_callback(ended.append)
        async with asyncio.timeout(LONGEST_S):
            while server.edge.call_count < count and not ended:
                await health(one)
        assert not ended
        for call in calls:
            call.cancel()


async def refuse(make: Callable[[], Any]) -> grpc.StatusCode:
    """Make a call that is refused, whether one answer is to come or many; return the code."""
    call = make()
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await (call.read() if hasattr(call, "read") else call)
    return caught.value.code()


async def test_refused_calls_leave_nothing_that_only_the_garbage_collector_finds() -> None:
    """What ended a call is gone when the call is, so that no search for cycles holds the others up."""
    limits = {"max_call_count": 4, "max_call_count_per_host": 4, "max_call_count_per_connection": 4}
    gc.collect()
    gc.disable()
    try:
        async with serving(calls_per_s=0.0) as server, connection(server) as channel:
            read, watch = channel.unary_unary(GET_QUEUE), channel.unary_stream(SESSION)
            none = channel.unary_unary("/argosy.api.v1.QueueService/None")
            odd = queue_pb2.GetQueueRequest(name="odd").SerializeToString()
            assert await refuse(lambda: read(odd)) == grpc.StatusCode.INVALID_ARGUMENT
            assert await refuse(lambda: read(b"\xff")) == grpc.StatusCode.INVALID_ARGUMENT
            for _ in range(3):
                assert await refuse(lambda: none(b"")) == grpc.StatusCode.UNIMPLEMENTED
                assert await refuse(lambda: watch(b"\xff")) == grpc.StatusCode.INVALID_ARGUMENT
            await until_errors_are_gone(channel)
        async with serving(body_timeout_s=0.05, calls_per_s=0.0, **limits) as server, connection(server) as channel:
            silent = [asyncio.ensure_future(refuse(channel.stream_unary(GET_QUEUE))) for _ in range(8)]
            silent.append(asyncio.ensure_future(refuse(channel.stream_stream(SESSION))))
            assert set(await asyncio.gather(*silent)) == {grpc.StatusCode.RESOURCE_EXHAUSTED}
            await until_errors_are_gone(channel)
    finally:
        gc.enable()


async def until_errors_are_gone(channel: Any) -> None:
    """Wait until what ended calls is gone; grpcio keeps the last that ended a stream, others go with the next call."""
    async with asyncio.timeout(LONGEST_S):
        while sum(isinstance(one, grpc.aio.AbortError) for one in gc.get_objects()) > 1:
            with suppress(grpc.aio.AioRpcError):  # its message, too, may come too late
                await health(channel)


@pytest.mark.parametrize("method", [GET_QUEUE, SESSION, HEALTH])
async def test_call_ends_if_its_message_does_not_come(method: str) -> None:
    """A call, a stream or a health check without its first message is ended, says why, and gives its place back."""
    async with serving(body_timeout_s=0.05) as server, connection(server) as channel:
        before = METRICS.grpc_refused.labels("BODY_TIMEOUT")._value.get()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await channel.stream_unary(method)(timeout=LONGEST_S)
        error = from_rpc_error(caught.value)
        assert isinstance(error, QuotaExceeded)
        assert (error.reason, error.retry_delay_s) == ("BODY_TIMEOUT", 1.0)
        assert "grpc.body_timeout_s" in error.message
        assert METRICS.grpc_refused.labels("BODY_TIMEOUT")._value.get() == before + 1
        assert await get_as_clients_do(channel) == "mine"  # on a slow machine a message may come later than that, too
        while server.edge.call_count or server.edge.stream_count:  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0)


async def test_call_that_ends_without_message_is_told_so() -> None:
    """Half a call is the caller's fault, and answered."""
    async with serving() as server, connection(server) as channel:
        call = channel.stream_unary(GET_QUEUE)(timeout=LONGEST_S)
        await call.done_writing()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call
        assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT


async def test_connection_with_all_calls_it_may_have_leaves_others_alone() -> None:
    """The limit of a connection is named to it, with a time; the next connection is served."""
    release, entered = asyncio.Event(), asyncio.Event()

    async def wait(request: Any) -> Any:
        if request.name == "mine":
            return await echo(request)
        entered.set()
        await release.wait()
        return await echo(request)

    async with (
        serving(wait, max_call_count_per_connection=1) as server,
        connection(server) as attacker,
        connection(server) as other,
    ):
        held = asyncio.ensure_future(get(attacker, "held"))
        await entered.wait()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await get(attacker)
        error = from_rpc_error(caught.value)
        assert (error.reason, error.retry_delay_s) == ("CALLER_BUSY", 1.0)
        assert "grpc.max_call_count_per_connection" in error.message
        assert await get(other) == "mine"
        release.set()
        assert await held == "held"


async def most_waiting(server: GrpcServer, call: asyncio.Future[Any]) -> int:
    """Return how many calls at most waited for their turn until one had ended."""
    most = 0
    while not call.done():
        most = max(most, server.edge.waiting_count)
        await asyncio.sleep(0)
    return most


async def test_connection_that_finds_no_place_all_the_time_is_told_so_later_and_others_are_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first is told at once; who asks on and on waits for its answers, which are the same."""
    # So seldom that calls come too often however slowly they come.
    monkeypatch.setattr(grpc_turns, "_BUSY_PER_S", 0.001)
    release, entered = asyncio.Event(), asyncio.Event()

    async def hold(request: Any) -> queue_pb2.GetQueueResponse:
        if request.name == "held":
            entered.set()
            await release.wait()
        return await echo(request)

    limits = {"max_call_count_per_connection": 1, "calls_per_s": 0.0}
    async with serving(hold, **limits) as server, connection(server) as attacker, connection(server) as other:
        held = asyncio.ensure_future(get(attacker, "held"))
        await entered.wait()
        first = asyncio.ensure_future(refused_busy(attacker))
        assert await most_waiting(server, first) == 0
        assert await first
        flood = [asyncio.ensure_future(refused_busy(attacker)) for _ in range(30)]
        async with asyncio.timeout(LONGEST_S):
            while not server.edge.waiting_count:  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0)
        assert await get(other) == "mine"
        assert all(await asyncio.gather(*flood))
        release.set()
        assert await held == "held"


async def test_connection_far_above_its_rate_is_refused_with_the_time_to_wait() -> None:
    """Failed calls cost most; methods that are not metered pass until their connection is in debt."""
    async with serving(calls_per_s=1.0) as server, connection(server) as attacker, connection(server) as other:
        reasons, error = [], None
        while "CALL_RATE" not in reasons and len(reasons) < 10:  # the second, unless the first was a second ago
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await get(attacker, "odd")
            error = from_rpc_error(caught.value)
            reasons.append(error.reason)
        assert isinstance(error, QuotaExceeded)
        assert error.retry_delay_s is not None
        assert 1.0 < error.retry_delay_s <= 3.0
        assert await get(other) == "mine"
        assert await health(attacker) == health_pb2.HealthCheckResponse.SERVING


async def test_unmetered_methods_cost_nothing() -> None:
    """As many as there may be under way follow one another without a wait."""
    async with serving(calls_per_s=1.0) as server, connection(server) as channel:
        server.edge.leave_unmetered(GET_QUEUE)
        assert [await get(channel) for _ in range(10)] == ["mine"] * 10


async def test_health_answers_on_its_own_port() -> None:
    """What is told to the main port is told there, and nothing else is served."""
    async with (
        serving(health_listen="127.0.0.1:0") as server,
        grpc.aio.insecure_channel(f"127.0.0.1:{server.health_port}") as channel,
    ):
        assert await health(channel) == health_pb2.HealthCheckResponse.SERVING
        await server.stop_intake()
        assert await health(channel) == health_pb2.HealthCheckResponse.NOT_SERVING
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await get(channel)
        assert caught.value.code() == grpc.StatusCode.UNIMPLEMENTED


def test_health_port_is_not_opened_to_the_network_unasked() -> None:
    """The rule for the main port holds for health's."""
    with pytest.raises(InvalidRequest, match="insecure"):
        GrpcServer(GrpcSettings(health_listen="0.0.0.0:0"))

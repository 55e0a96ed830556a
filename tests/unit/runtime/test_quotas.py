"""How much one user may ask: calls and bytes in a second, and streams, from however many connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
import yaml

from argosy.api.v1 import event_pb2, event_pb2_grpc, queue_pb2, queue_pb2_grpc
from argosy.channel_credentials import hash_token
from argosy_core.access import ANYONE, Permissions, Principal, Role
from argosy_core.errors import QuotaExceeded
from argosy_runtime.access.guard import AccessSettings, Guard
from argosy_runtime.access.quotas import QuotaSettings, RateBuckets, UserQuotas
from argosy_runtime.errors import from_rpc_error
from argosy_runtime.grpc_server import GrpcServer, GrpcSettings

RULES = {
    "/argosy.api.v1.QueueService/GetQueue": ANYONE,
    "/argosy.api.v1.QueueService/ListQueues": ANYONE,
    "/argosy.api.v1.EventService/WatchJobSet": ANYONE,
}


class Queues(queue_pb2_grpc.QueueServiceServicer):
    """Answers."""

    async def GetQueue(self, request: Any, context: Any) -> Any:  # noqa: N802 - the protocol's name
        """Answer with a queue of the name asked for."""
        return queue_pb2.GetQueueResponse(queue=queue_pb2.Queue(name=request.name))


class Events(event_pb2_grpc.EventServiceServicer):
    """Streams one answer and then waits for ever."""

    async def WatchJobSet(self, request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802 - the protocol's name
        """Send one batch and wait."""
        yield event_pb2.WatchJobSetResponse(cursor=request.job_set)
        await asyncio.Event().wait()


@asynccontextmanager
async def serve(folder: Path, **quotas: float) -> AsyncIterator[str]:
    """Run a server that asks who calls, and give its address."""
    entries = [{"name": name, "sha256": hash_token(name)} for name in ("alice", "bob")]
    entries.append({"cluster": "west", "sha256": hash_token("west")})
    (folder / "tokens.yaml").write_text(yaml.safe_dump({"tokens": entries}))
    settings = AccessSettings(tokens_file=str(folder / "tokens.yaml"), quotas=QuotaSettings(**quotas))

    async def everything(_: Principal) -> Permissions:
        return Permissions(frozenset({Role.ADMIN}))

    guard = Guard(settings, rules=RULES, permissions_of=everything)
    server = GrpcServer(GrpcSettings(listen="127.0.0.1:0", calls_per_s=0.0), guard=guard)
    server.add(queue_pb2_grpc.add_QueueServiceServicer_to_server, Queues(), "argosy.api.v1.QueueService")
    server.add(event_pb2_grpc.add_EventServiceServicer_to_server, Events(), "argosy.api.v1.EventService")
    await server.start()
    try:
        yield server.address
    finally:
        await server.stop(0)


async def call(address: str, who: str, name: str = "red") -> None:
    """Make a call over a connection of its own."""
    async with grpc.aio.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
        metadata = (("authorization", f"Bearer {who}"),)
        try:
            await queue_pb2_grpc.QueueServiceStub(channel).GetQueue(
                queue_pb2.GetQueueRequest(name=name), metadata=metadata
            )
        except grpc.aio.AioRpcError as error:
            raise from_rpc_error(error) from error


async def test_user_beyond_the_rate_is_told_when_to_come_again_and_no_other_is_held_up(tmp_path: Path) -> None:
    """Two seconds' worth passes, over however many connections; others, and clusters, go on."""
    async with serve(tmp_path, calls_per_s=2.0) as address:
        for _ in range(4):
            await call(address, "alice")
        with pytest.raises(QuotaExceeded, match="alice makes more calls") as caught:
            await asyncio.gather(*(call(address, "alice") for _ in range(4)))
        assert caught.value.reason == "USER_CALL_RATE"
        assert 0.0 < (caught.value.retry_delay_s or 0.0) < 2.0
        await call(address, "bob")
        for _ in range(6):
            await call(address, "west")


async def test_bytes_count_before_they_are_decoded(tmp_path: Path) -> None:
    """One request may be larger than what is left; whatever follows waits, even if it is no message at all."""
    async with serve(tmp_path, bytes_per_s=1000.0) as address:
        await call(address, "alice", "x" * 5000)
        with pytest.raises(QuotaExceeded) as caught:
            await call(address, "alice")
        assert (caught.value.reason, caught.value.retry_delay_s) == ("USER_BYTE_RATE", pytest.approx(3.0, abs=0.5))
        await call(address, "bob")


async def test_bytes_of_answers_count_and_hold_up_the_next_call_of_that_user_alone(tmp_path: Path) -> None:
    """One answer may be larger than what is left; messages of streams count as well; clusters have no limit."""
    async with serve(tmp_path, answer_bytes_per_s=1000.0) as address:
        await call(address, "alice", "x" * 5000)
        with pytest.raises(QuotaExceeded, match="alice gets more bytes") as caught:
            await call(address, "alice")
        assert (caught.value.reason, caught.value.retry_delay_s) == ("USER_ANSWER_RATE", pytest.approx(3.0, abs=0.5))
        await call(address, "bob")
        for _ in range(3):
            await call(address, "west", "x" * 5000)
        async with grpc.aio.insecure_channel(address) as channel:
            watch: Any = event_pb2_grpc.EventServiceStub(channel).WatchJobSet(
                event_pb2.WatchJobSetRequest(job_set="x" * 50_000), metadata=(("authorization", "Bearer bob"),)
            )
            await watch.read()
            with pytest.raises(QuotaExceeded, match="bob gets more bytes"):
                await call(address, "bob")


async def test_streams_at_once_are_bounded_by_user_and_given_back(tmp_path: Path) -> None:
    """A third watch is refused while two are held, and let in when one has ended."""
    async with serve(tmp_path, max_stream_count=2) as address, grpc.aio.insecure_channel(address) as channel:

        def watch() -> Any:
            request = event_pb2.WatchJobSetRequest(queue="red", job_set="one")
            return event_pb2_grpc.EventServiceStub(channel).WatchJobSet(
                request, metadata=(("authorization", "Bearer alice"),)
            )

        first, second = watch(), watch()
        assert (await first.read()).cursor == (await second.read()).cursor == "one"
        with pytest.raises(grpc.aio.AioRpcError, match="holds 2 streams"):
            await watch().read()
        first.cancel()
        async with asyncio.timeout(50):
            while True:
                third = watch()
                try:
                    assert (await third.read()).cursor == "one"
                except grpc.aio.AioRpcError:
                    await asyncio.sleep(0.01)
                else:
                    break
        second.cancel()
        third.cancel()


def test_bucket_holds_two_seconds_worth_and_fills_again() -> None:
    """What was taken comes back with time; no limit takes no memory; many names do not grow without end."""
    buckets = RateBuckets(10.0)
    taken = [buckets.take("a", 1.0, 0.0) for _ in range(21)]
    assert taken[:20] == [0.0] * 20
    assert taken[20] > 0.0
    assert buckets.take("a", 1.0, 0.2) == 0.0
    for number in range(10_000):
        buckets.take(str(number), 1.0, 0.0)
    assert len(buckets._paid_s) <= 4096
    assert RateBuckets(0.0).take("a", 1e9, 0.0) == 0.0


def test_quota_of_nothing_is_no_quota() -> None:
    """With 0 everywhere a user takes what it wants."""
    quotas = UserQuotas(
        QuotaSettings(calls_per_s=0.0, bytes_per_s=0.0, max_stream_count=0, answer_bytes_per_s=0.0), clock_s=lambda: 0.0
    )
    alice = Principal(name="alice")
    for _ in range(5000):
        quotas.take_call(alice)
        quotas.take_bytes(alice, 1 << 30)
        quotas.charge_answer(alice, queue_pb2.GetQueueResponse(queue=queue_pb2.Queue(name="red")))
    with quotas.stream(alice), quotas.stream(alice):
        pass

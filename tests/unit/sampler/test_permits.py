"""The permit service over a real socket: a session, what ends it, and what cannot be read."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import numpy as np
import pytest

from argosy.autoscale.v1 import permit_pb2, permit_pb2_grpc
from argosy_core.errors import InvalidRequest
from argosy_core.job.reading.scaling import Scaling
from argosy_core.job.tables.members import Members
from argosy_core.ledger import NodeLedger, PermitSettings, PodEvents
from argosy_core.nodes import NodeSpec
from argosy_core.permits import PermitService
from argosy_runtime.channel import ChannelCredentials, open_channel
from argosy_runtime.grpc_server import GrpcServer, GrpcSettings
from argosy_runtime.logs import get_logger
from argosy_sampler import permits
from argosy_sampler.config import PermitConfig
from argosy_sampler.permit_codec import INVENTORY, PERMIT_REQUEST
from argosy_sampler.permits import PermitServicer

HELLO = permit_pb2.Hello(cluster="c", cluster_uid="u", process_id=b"a" * 16)
UIDS = np.arange(1, 3, dtype=np.uint8).repeat(16).tobytes()


def numbers(*values: int) -> bytes:
    """A column."""
    return np.array(values, np.int64).tobytes()


def inventory() -> permit_pb2.Inventory:
    """Two pods at 200 and 20."""
    return permit_pb2.Inventory(
        uid_column=UIDS, ceiling_column=numbers(200, 20, 200, 20), held_column=b"\0\0", number_column=numbers(1, 1)
    )


def asking(number: int, *wanted: int) -> permit_pb2.PermitRequest:
    """What both pods are to have."""
    return permit_pb2.PermitRequest(
        uid_column=UIDS, wanted_column=numbers(*wanted), number_column=numbers(number, number)
    )


class Agent:
    """An agent's side of a stream."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        """Dial."""
        self.stream: Any = permit_pb2_grpc.PermitServiceStub(channel).Session()
        self.sequence = 0

    async def say(self, **message: Any) -> None:
        """Say something in turn."""
        self.sequence += 1
        await self.stream.write(permit_pb2.SessionRequest(sequence=self.sequence, **message))

    async def hear(self) -> permit_pb2.SessionResponse:
        """Return what comes next."""
        async with asyncio.timeout(50):
            heard = await self.stream.read()
        assert isinstance(heard, permit_pb2.SessionResponse), await self.stream.code()
        return heard

    async def code(self) -> tuple[grpc.StatusCode, str]:
        """Return how the stream ended, once it has."""
        async with asyncio.timeout(50):
            with contextlib.suppress(grpc.RpcError, asyncio.InvalidStateError):
                while isinstance(await self.stream.read(), permit_pb2.SessionResponse):
                    pass
            return await self.stream.code(), await self.stream.details()


class Sampler:
    """A permit service on a port of its own."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        """One node of 1000 and 100, two pods of 200 and 20."""
        self.ledger = NodeLedger(permits=PermitSettings(unit=(100, 10)))
        self.ledger.put_nodes([NodeSpec(name="n", total={"cpu": 1000, "memory": 100})])
        self.ledger.permits.has_listed = True
        self.ledger.observe(
            PodEvents(
                members=Members.of([0, 0], [0, 0]), uids=np.frombuffer(UIDS, np.uint8).reshape(2, 16),
                nodes=np.zeros(2, np.int32), ended=np.zeros(2, np.bool_),
                requests=np.array([[200, 20, 1], [200, 20, 1]]),
                scalings=dict.fromkeys((0, 1), Scaling(least=(100, 10), most=(800, 80))),
            )
        )  # fmt: skip
        self.servicer = PermitServicer("c", b"p" * 16, log=get_logger(), monotonic=monotonic)
        self.service = PermitService(self.ledger, cluster="c", cluster_uid="u")
        self.server = GrpcServer(GrpcSettings(listen="127.0.0.1:0"))
        self.server.add(permit_pb2_grpc.add_PermitServiceServicer_to_server, self.servicer, "permits")

    def open(self) -> None:
        """Let agents in."""
        self.servicer.open(self.service)


@contextlib.asynccontextmanager
async def serve(sampler: Sampler) -> AsyncIterator[None]:
    """Let agents in while a block runs."""
    sampler.open()
    await sampler.server.start()
    ticking = asyncio.ensure_future(sampler.servicer.run())
    yield
    ticking.cancel()
    await sampler.server.stop(0)


@pytest.fixture
async def sampler() -> AsyncIterator[Sampler]:
    """One that serves."""
    sampler = Sampler()
    async with serve(sampler):
        yield sampler


@pytest.fixture
async def agent(sampler: Sampler) -> AsyncIterator[Agent]:
    """One that has dialled."""
    channel = open_channel(sampler.server.address, ChannelCredentials())
    yield Agent(channel)
    await channel.close()


async def begin(agent: Agent) -> None:
    """Say hello and tell the pods."""
    await agent.say(hello=HELLO)
    welcome = (await agent.hear()).welcome
    assert (welcome.lease_s, welcome.heartbeat_s, list(welcome.resources)) == (6.0, 2.0, ["cpu", "memory"])
    assert welcome.process_id == b"p" * 16
    await agent.say(inventory=inventory())
    heard = await agent.hear()
    assert heard.confirmed_sequence == 2
    assert heard.permits.permit_column == numbers(200, 20, 200, 20)


async def test_a_session_goes_hello_inventory_request_and_push(sampler: Sampler, agent: Agent) -> None:
    """Permits name the pod, what they answer, what is deferred and the unit; room that comes is pushed."""
    await begin(agent)
    await agent.say(request=asking(2, 800, 20, 800, 20))
    permits = (await agent.hear()).permits
    assert permits.uid_column == UIDS
    assert permits.number_column == numbers(2, 2)
    assert np.frombuffer(permits.permit_column, np.int64).reshape(2, 2).sum(axis=0).tolist() == [1000, 40]
    assert np.frombuffer(permits.deferred_column, np.int64).reshape(2, 2).sum(axis=0).tolist() == [600, 0]
    assert (permits.units, permits.unit_column) == (numbers(100, 10), bytes(8))
    await agent.say(heartbeat=permit_pb2.Heartbeat())
    heard = await agent.hear()
    assert (heard.WhichOneof("message"), heard.confirmed_sequence) == ("confirmed", 4)
    sampler.ledger.put_nodes([NodeSpec(name="n", total={"cpu": 2000, "memory": 100})])
    assert np.frombuffer((await agent.hear()).permits.permit_column, np.int64)[::2].max() == 800


async def test_refusals_and_directives_are_told(sampler: Sampler, agent: Agent) -> None:
    """Each pod by itself; a refusal says which word it answers and when to ask again."""
    await begin(agent)
    await agent.say(request=asking(2, 850, 20, 300, 20))
    refusals, permits = (await agent.hear()).refusals, (await agent.hear()).permits
    assert permits.permit_column == numbers(300, 20)
    assert (refusals.uid_column, refusals.number_column) == (UIDS[:16], numbers(2))
    assert list(refusals.reason_column) == [permit_pb2.REFUSAL_REASON_ABOVE_MAXIMUM]
    sampler.ledger.set_cordons(["n"])
    directives = (await agent.hear()).directives
    assert list(directives.directive_column) == [permit_pb2.DIRECTIVE_DRAIN] * 2


async def test_an_agent_that_speaks_faster_than_anybody_needs_waits_and_others_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By a clock that stands, each message waits a little longer than the one before: a two-hundredth of a second."""
    monkeypatch.setattr(permits, "_MESSAGES_PER_S", 200.0)
    sampler = Sampler(monotonic=lambda: 0.0)
    async with serve(sampler):
        channels = [open_channel(sampler.server.address, ChannelCredentials()) for _ in range(2)]
        flood, other = (Agent(channel) for channel in channels)
        await flood.say(hello=permit_pb2.Hello(cluster="c", cluster_uid="u", process_id=b"f" * 16))
        heard = await flood.hear()
        for _ in range(500):
            await flood.say(heartbeat=permit_pb2.Heartbeat())
        while heard.confirmed_sequence < 20:
            heard = await flood.hear()
        await begin(other)
        for number in range(2, 18):
            await other.say(request=asking(number, 200, 20, 200, 20))
            assert (await other.hear()).confirmed_sequence == number + 1
        assert sampler.service.confirmed(1) < 80
        for channel in channels:
            await channel.close()


async def test_a_goodbye_ends_the_stream_and_frees_the_pods(sampler: Sampler, agent: Agent) -> None:
    """The agent is told OK, and its permits are given back after the margin."""
    await begin(agent)
    await agent.say(request=asking(2, 500, 20, 200, 20))
    await agent.hear()
    await agent.say(goodbye=permit_pb2.Goodbye())
    assert (await agent.code())[0] is grpc.StatusCode.OK
    sampler.ledger.permits.advance(sampler.ledger.permits.now_s + 4.0)
    assert sampler.ledger.nodes.free[0, 0] == 600


async def test_a_second_stream_of_a_process_ends_the_first(sampler: Sampler, agent: Agent) -> None:
    """It says so with ABORTED."""
    await begin(agent)
    channel = open_channel(sampler.server.address, ChannelCredentials())
    second = Agent(channel)
    await second.say(hello=HELLO)
    assert (await second.hear()).WhichOneof("message") == "welcome"
    code, text = await agent.code()
    assert (code, text) == (grpc.StatusCode.ABORTED, "another stream of the same agent came")
    await channel.close()


async def test_an_agent_that_comes_before_the_pods_are_listed_is_told_to_dial_again() -> None:
    """UNAVAILABLE, so that it tries again by itself."""
    sampler = Sampler()
    await sampler.server.start()
    channel = open_channel(sampler.server.address, ChannelCredentials())
    agent = Agent(channel)  # says nothing: grpcio calls it INTERNAL if the answer is there before all is said
    assert (await agent.code())[0] is grpc.StatusCode.UNAVAILABLE
    await channel.close()
    await sampler.server.stop(0)


@pytest.mark.parametrize(
    "message",
    [
        {"hello": HELLO},
        {"inventory": permit_pb2.Inventory(uid_column=b"short")},
        {"inventory": permit_pb2.Inventory(uid_column=UIDS, number_column=numbers(1, 1))},
        {"request": asking(2, 1, 1, 1)},
        {"request": asking(2, 1, 1, 1, 2**63 - 1)},
        {"request": permit_pb2.PermitRequest(uid_column=UIDS[:16] * 2, wanted_column=numbers(1, 1, 1, 1),
                                             number_column=numbers(2, 2))},
        {"request": asking(1, 200, 20, 200, 20)},
        {},
    ],
)  # fmt: skip
async def test_what_cannot_be_from_an_agent_ends_its_session_and_changes_nothing(
    sampler: Sampler, agent: Agent, message: dict[str, Any]
) -> None:
    """INVALID_ARGUMENT; the pods stay booked at what they may have."""
    await begin(agent)
    await agent.say(**message)
    assert (await agent.code())[0] is grpc.StatusCode.INVALID_ARGUMENT
    assert sampler.ledger.nodes.free[:2, 0].tolist() == [600, 60]
    sampler.ledger.check_invariants()


async def test_a_stream_that_does_not_begin_with_a_hello_is_ended(agent: Agent) -> None:
    """Nothing is read of a peer that does not say who it is."""
    await agent.say(heartbeat=permit_pb2.Heartbeat())
    assert (await agent.code())[0] is grpc.StatusCode.INVALID_ARGUMENT


def test_the_configuration_says_units_times_and_weights() -> None:
    """As quantities of Kubernetes; what measures nothing is refused by name."""
    config = PermitConfig(
        unit="cpu=500m,memory=2Gi",
        node_units={"big": "cpu=1,memory=4Gi"},
        queue_weights={"a": 2},
        lease_s=3,
        margin_s=2,
    )
    permits = config.make_ledger().permits
    assert (permits.settings.unit, permits.settings.node_units) == ((500, 2 << 30), {"big": (1000, 4 << 30)})
    assert (permits.settings.lease_s, permits.settings.margin_s, list(permits.queues.weights.values())) == (3, 2, [2])
    for wrong in ({"unit": "cpu=1"}, {"lease_s": 0.0}, {"queue_weights": {"a": 0.0}}, {"node_units": {"n": "x"}}):
        with pytest.raises(InvalidRequest):
            PermitConfig(**wrong)  # type: ignore[arg-type]


def test_every_column_that_an_agent_sends_has_a_rule() -> None:
    """A new field of the proto that nobody checks fails here."""
    for message, shape in ((permit_pb2.Inventory, INVENTORY), (permit_pb2.PermitRequest, PERMIT_REQUEST)):
        assert {field.name for field in message.DESCRIPTOR.fields} == set(shape)

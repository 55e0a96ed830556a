"""What an agent does with its permits when it stops, and how long they hold while its machine sleeps."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from argosy.autoscale.v1 import permit_pb2_grpc
from argosy_agent.app import start
from argosy_agent.config import AgentConfig
from argosy_agent.loop import AgentLoop
from argosy_agent.session import PermitSession
from argosy_core.autoscale import Agent, AgentSettings, Amounts
from argosy_core.autoscale.events import (
    Event,
    Leased,
    PermitRequest,
    PermitsTold,
    PodSeen,
    ScalingPolicy,
    SessionUp,
)
from argosy_core.errors import BackendUnavailable
from argosy_core.job.reading.scaling import Scaling
from argosy_core.job.tables.members import Members
from argosy_core.ledger import NodeLedger, PermitSettings, PodEvents
from argosy_core.nodes import NodeSpec
from argosy_core.permits import PermitService
from argosy_kube.opening import open_scaler
from argosy_kube.simulated.__main__ import make_host
from argosy_kube.simulated.server import serve_cluster
from argosy_runtime.channel import Backoff
from argosy_runtime.grpc_server import GrpcServer, GrpcSettings
from argosy_runtime.lifecycle import Lifecycle
from argosy_runtime.logs import get_logger
from argosy_sampler.permits import PermitServicer
from argosy_testkit.cluster_contract import LAB_NODES

UID = "01010101-0101-0101-0101-010101010101"


class Sampler:
    """Permits of one node with one pod, for leases of a minute."""

    def __init__(self, listen: str = "127.0.0.1:0") -> None:
        """Serve nothing yet."""
        self.ledger = NodeLedger(permits=PermitSettings(lease_s=60.0, margin_s=1.0, unit=(100, 10)))
        self.ledger.put_nodes([NodeSpec(name="n", total={"cpu": 1000, "memory": 100})])
        self.ledger.permits.has_listed = True
        self.ledger.observe(
            PodEvents(
                members=Members.of([0], [0]), uids=np.ones((1, 16), np.uint8), nodes=np.zeros(1, np.int32),
                ended=np.zeros(1, np.bool_), requests=np.array([[200, 20, 1]]),
                scalings={0: Scaling(least=(100, 10), most=(800, 80))},
            )
        )  # fmt: skip
        self.servicer = PermitServicer("c", b"p" * 16, log=get_logger())
        self.servicer.open(PermitService(self.ledger, cluster="c", cluster_uid="u"))
        self.server = GrpcServer(GrpcSettings(listen=listen))
        self.server.add(permit_pb2_grpc.add_PermitServiceServicer_to_server, self.servicer, "permits")


@pytest.fixture
async def sampler() -> AsyncIterator[Sampler]:
    """One that serves."""
    sampler = Sampler()
    await sampler.server.start()
    async with asyncio.TaskGroup() as group:
        ticking = group.create_task(sampler.servicer.run())
        yield sampler
        ticking.cancel()
    await sampler.server.stop(0)


async def test_an_agent_that_stops_gives_its_pods_back_and_comes_no_more(sampler: Sampler) -> None:
    """The next agent waits for the margin alone, not for a lease."""
    config = AgentConfig(cluster="c", cluster_address="simulated:h:1", sampler_address=sampler.server.address)
    heard: list[Event] = []
    news = asyncio.Event()

    def tell(events: Sequence[Event]) -> None:
        heard.extend(events)
        news.set()

    async def until(kind: type) -> None:
        while not any(isinstance(event, kind) for event in heard):
            news.clear()
            await news.wait()

    async def cluster_uid() -> str:
        return "u"

    backoff = Backoff(rng=np.random.default_rng(1))
    session = PermitSession(config, cluster_uid, tell=tell, backoff=backoff, log=get_logger())
    has: dict[str, Any] = {"wanted": Amounts(200, 20), "held": Amounts(200, 20), "is_bundle": False}
    async with asyncio.timeout(50), asyncio.TaskGroup() as group:
        with pytest.raises(BackendUnavailable, match="no session with the sampler"):
            await session.check()
        holding = group.create_task(session.run())
        await until(SessionUp)
        await session.check()
        session.send([PermitRequest(uid=UID, sequence=1, is_first=True, **has)])
        await until(PermitsTold)
        permits = sampler.ledger.permits
        (row,) = permits.pods.live().tolist()
        assert permits.pods.session[row] > 0
        await session.leave()
        await holding
    assert permits.pods.session[row] == 0
    assert permits.pods.floor_until_s[row] <= permits.now_s + permits.settings.margin_s


async def test_an_agent_without_a_session_stops_at_once(sampler: Sampler) -> None:
    """There is nothing to give back."""
    config = AgentConfig(cluster="c", cluster_address="simulated:h:1", sampler_address=sampler.server.address)

    async def cluster_uid() -> str:
        return "u"

    backoff = Backoff(rng=np.random.default_rng(1))
    session = PermitSession(config, cluster_uid, tell=lambda _: None, backoff=backoff, log=get_logger())
    async with asyncio.timeout(50):
        await session.leave()


ASLEEP_S = 3600.0


@pytest.fixture
def asleep(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine has slept for an hour, which its monotonic clock has not seen."""
    told = time.clock_gettime
    monkeypatch.setattr(time, "clock_gettime", lambda clock: told(clock) + ASLEEP_S * (clock == time.CLOCK_BOOTTIME))


@pytest.mark.usefixtures("asleep")
async def test_a_lease_counts_the_time_that_the_machine_sleeps(sampler: Sampler) -> None:
    """The sampler, on another machine, has given the room to others meanwhile."""
    config = AgentConfig(cluster="c", cluster_address="simulated:h:1", sampler_address=sampler.server.address)
    leases: asyncio.Queue[Leased] = asyncio.Queue()
    is_up = asyncio.Event()

    def tell(events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, SessionUp):
                is_up.set()
            elif isinstance(event, Leased):
                leases.put_nowait(event)

    async def cluster_uid() -> str:
        return "u"

    backoff = Backoff(rng=np.random.default_rng(1))
    session = PermitSession(config, cluster_uid, tell=tell, backoff=backoff, log=get_logger())
    size = Amounts(200, 20)
    async with asyncio.timeout(50), asyncio.TaskGroup() as group:
        holding = group.create_task(session.run())
        await is_up.wait()
        session.send([PermitRequest(uid=UID, sequence=1, is_first=True, wanted=size, held=size, is_bundle=False)])
        leased = await leases.get()
        holding.cancel()
    assert leased.until_s > time.monotonic() + ASLEEP_S


@pytest.mark.usefixtures("asleep")
def test_what_happens_to_pods_is_told_by_the_clock_of_the_lease(tmp_path: Path) -> None:
    """Two clocks would disagree after the first sleep."""
    agent, size = Agent(), Amounts(1000, 1 << 30)
    scaler = open_scaler(f"simulated:unix:{tmp_path}/none", installation="one", metrics="metrics-api")
    loop = AgentLoop(agent, scaler, cluster="c", settings=AgentSettings(resize_timeout_s=1.0), log=get_logger())
    policy = ScalingPolicy(least=size, most=size)
    loop.tell([PodSeen(uid="pod", version=1, policy=policy, desired=size, allocated=size, actual=size, refusal="")])
    (entry,) = agent.story("pod")
    assert entry.at_s > time.monotonic() + ASLEEP_S - 60


async def test_health_follows_the_session_with_the_sampler(tmp_path: Path) -> None:
    """An agent without one for long asks for nothing, so it is not ready until there is one again."""
    host = make_host("lab", LAB_NODES, speed=1.0, flush_interval_s=0.002)
    life, listen = Lifecycle("agent", drain_s=1.0), f"unix:{tmp_path / 'sampler'}"

    async def serving_sampler() -> Sampler:
        sampler = Sampler(listen)
        sampler.servicer.open(PermitService(sampler.ledger, cluster="c", cluster_uid=host.engine.uid))
        await sampler.server.start()
        return sampler

    async with serve_cluster(host, f"unix:{tmp_path / 's'}") as address, asyncio.timeout(50):
        config = AgentConfig(
            cluster="c", cluster_address=f"simulated:{address}", sampler_address=listen,
            not_ready_after_s=0.1, retry_most_s=0.05, grpc=GrpcSettings(listen=f"unix:{tmp_path / 'agent'}"),
        )  # fmt: skip
        async with asyncio.TaskGroup() as group:
            sampler = await serving_sampler()
            tasks = [group.create_task(host.run()), group.create_task(sampler.servicer.run())]
            living = group.create_task(life.run(lambda life: start(life, config)))
            async with grpc.aio.insecure_channel(config.grpc.listen) as channel:
                watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(), wait_for_ready=True)

                async def until(status: int) -> None:
                    while (await watch.read()).status != status:
                        pass

                await until(health_pb2.HealthCheckResponse.SERVING)
                await sampler.server.stop(0)
                await until(health_pb2.HealthCheckResponse.NOT_SERVING)
                again = await serving_sampler()
                tasks.append(group.create_task(again.servicer.run()))
                await until(health_pb2.HealthCheckResponse.SERVING)
                watch.cancel()
            life.request_stop()
            await living
            await again.server.stop(0)
            for task in tasks:
                task.cancel()

"""What an agent does with its permits when it stops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import numpy as np
import pytest

from argosy.autoscale.v1 import permit_pb2_grpc
from argosy_agent.config import AgentConfig
from argosy_agent.session import PermitSession
from argosy_core.autoscale import Amounts
from argosy_core.autoscale.events import Event, PermitRequest, PermitsTold, SessionUp
from argosy_core.job.reading.scaling import Scaling
from argosy_core.job.tables.members import Members
from argosy_core.ledger import NodeLedger, PermitSettings, PodEvents
from argosy_core.nodes import NodeSpec
from argosy_core.permits import PermitService
from argosy_runtime.channel import Backoff
from argosy_runtime.grpc_server import GrpcServer, GrpcSettings
from argosy_runtime.logs import get_logger
from argosy_sampler.permits import PermitServicer

UID = "01010101-0101-0101-0101-010101010101"


class Sampler:
    """Permits of one node with one pod, for leases of a minute."""

    def __init__(self) -> None:
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
        self.server = GrpcServer(GrpcSettings(listen="127.0.0.1:0"))
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
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        holding = group.create_task(session.run())
        await until(SessionUp)
        session.send([PermitRequest(uid=UID, sequence=1, is_first=True, **has)])
        await until(PermitsTold)
        book = sampler.ledger.permits
        (row,) = book.pods.live().tolist()
        assert book.pods.session[row] > 0
        await session.leave()
        await holding
    assert book.pods.session[row] == 0
    assert book.pods.floor_until_s[row] <= book.now_s + book.settings.margin_s


async def test_an_agent_without_a_session_stops_at_once(sampler: Sampler) -> None:
    """There is nothing to give back."""
    config = AgentConfig(cluster="c", cluster_address="simulated:h:1", sampler_address=sampler.server.address)

    async def cluster_uid() -> str:
        return "u"

    backoff = Backoff(rng=np.random.default_rng(1))
    session = PermitSession(config, cluster_uid, tell=lambda _: None, backoff=backoff, log=get_logger())
    async with asyncio.timeout(1):
        await session.leave()

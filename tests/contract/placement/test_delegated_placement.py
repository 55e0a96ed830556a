"""One suite for every sampler of a delegated cluster: the machine, the process, and the process over the wire.

The machine is what simulated worlds run, in memory. A cluster agent asks its own sampler within the process, and an
executor of another process by its port.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

import numpy as np
import pytest
from tests.unit.sampler.conftest import TIMEOUT_S, FakeLeader, Session, int32, int64, serving_leader

from argosy.sampler.v1 import sampler_pb2
from argosy_core.job.tables.members import Members
from argosy_core.ledger import NodeLedger
from argosy_core.nodes import NodeSpec
from argosy_core.placement import NodeSampler, Placements, SamplerSession
from argosy_core.placement.messages import PlaceReply
from argosy_executor.placing import Placer, SamplerCalls
from argosy_kube.simulated.__main__ import make_host
from argosy_kube.simulated.host import ClusterHost
from argosy_runtime.access.guard import CallerSettings
from argosy_runtime.channel import ChannelCredentials
from argosy_runtime.grpc_server import GrpcSettings
from argosy_runtime.lifecycle import Lifecycle
from argosy_runtime.readiness import SetServing
from argosy_sampler.app import Servicers, make_server, start
from argosy_sampler.config import SamplerConfig
from argosy_testkit.cluster_contract import LAB_NODES
from argosy_testkit.in_process_cluster import InProcessCluster
from argosy_testkit.placement_contract import CLASSES, PlacementContract, PlacementLab, Run

POOL = "default"


class MachineLab:
    """The sampler's machine, without a process."""

    def __init__(self) -> None:
        """Know the nodes."""
        ledger = NodeLedger()
        ledger.put_nodes([NodeSpec(name=node.name, total=node.allocatable, labels=node.labels) for node in LAB_NODES])
        self.session = SamplerSession(ledger, NodeSampler(ledger, incarnation=1), np.random.default_rng(1))
        self.session.begin()

    async def tell_placements(self, placements: Mapping[Run, tuple[int, str]]) -> None:
        """See PlacementLab."""
        self.session.define(CLASSES.items())
        nodes = tuple(dict.fromkeys(node for _, node in placements.values()))
        part = Placements(
            members=Members.of([handle for handle, _ in placements], [attempt for _, attempt in placements]),
            class_ids=np.array([of for of, _ in placements.values()], np.int32),
            node=np.array([nodes.index(node) for _, node in placements.values()], np.int32),
            nodes=nodes,
        )
        self.session.take_placements(part, is_last=True)

    async def place(self, members: Members) -> PlaceReply:
        """See PlacementLab."""
        return self.session.place(members)

    async def told_nodes(self, count: int) -> dict[Run, str]:
        """See PlacementLab."""
        members, nodes = self.session.take_placed()
        told = dict(zip(members.pairs(), nodes, strict=True))
        assert len(told) == count
        return told


class ProcessLab:
    """A sampler's process, and the leader that it dialled."""

    def __init__(self, leader: FakeLeader, placer: Placer) -> None:
        """Wait for its hello later."""
        self._leader = leader
        self._placer = placer
        self._session: Session | None = None

    async def tell_placements(self, placements: Mapping[Run, tuple[int, str]]) -> None:
        """See PlacementLab."""
        session = self._session = await self._leader.next_session()
        nodes = list(dict.fromkeys(node for _, node in placements.values()))
        told = sampler_pb2.PlacementList(
            handle_column=int64([handle for handle, _ in placements]),
            attempt_column=int32([attempt for _, attempt in placements]),
            class_column=int32([of for of, _ in placements.values()]),
            node_column=int32([nodes.index(node) for _, node in placements.values()]),
            nodes=nodes,
            classes=[
                sampler_pb2.ClassDefinition(class_id=one, definition=of.definition()) for one, of in CLASSES.items()
            ],
            last=True,
        )
        await session.send(placements=told)
        await session.next_answer("ready")

    async def place(self, members: Members) -> PlaceReply:
        """See PlacementLab."""
        return await self._placer(POOL, members)

    async def told_nodes(self, count: int) -> dict[Run, str]:
        """See PlacementLab."""
        assert self._session is not None
        told: dict[Run, str] = {}
        async with asyncio.timeout(TIMEOUT_S):
            while len(told) < count:
                message = await self._session.next_answer("placed_runs")
                handles = np.frombuffer(message.handle_column, "<i8").tolist()
                attempts = np.frombuffer(message.attempt_column, "<i4").tolist()
                rows = np.frombuffer(message.node_column, "<i4").tolist()
                names = [message.nodes[row] for row in rows]
                told |= dict(zip(zip(handles, attempts, strict=True), names, strict=True))
        return told


@asynccontextmanager
async def running_lab(*, over_the_wire: bool) -> AsyncGenerator[ProcessLab, None]:
    """Run a simulated cluster, a leader's side of the wire, and a sampler between them."""
    host = make_host("lab", LAB_NODES, speed=1.0, flush_interval_s=0.002)
    server, servicers = make_server(GrpcSettings(listen="127.0.0.1:0"), CallerSettings(), cluster="lab")
    await server.start()
    calls = SamplerCalls(server.address, ChannelCredentials(), timeout_s=TIMEOUT_S)
    life, is_listed = Lifecycle("sampler", drain_s=1.0), asyncio.Event()

    async def set_serving(_serves: bool) -> None:  # noqa: FBT001 - as health calls it
        is_listed.set()

    async with serving_leader() as leader, asyncio.TaskGroup() as group:
        clock = group.create_task(host.run())
        group.create_task(
            life.run(lambda life: _begin(life, host, leader, servicers=servicers, set_serving=set_serving))
        )
        async with asyncio.timeout(TIMEOUT_S):
            await is_listed.wait()
        try:
            yield ProcessLab(leader, calls.place if over_the_wire else servicers.placements.place)
        finally:
            life.request_stop()
            clock.cancel()
    await calls.close()
    await server.stop(0)


async def _begin(
    life: Lifecycle, host: ClusterHost, leader: FakeLeader, *, servicers: Servicers, set_serving: SetServing
) -> None:
    """Start the sampler."""
    config = SamplerConfig(
        cluster="lab",
        cluster_address="unix:/unused",
        server_addresses=(leader.address,),
        installation="one",
        pools=(POOL,),
        delegated=True,
        retry_most_s=0.05,
    )
    await start(
        life,
        config,
        cluster=InProcessCluster(host, "one"),
        set_serving=set_serving,
        servicers=servicers,
    )


class TestMachine(PlacementContract):
    """In memory."""

    @pytest.fixture
    def lab(self) -> PlacementLab:
        """Return a machine."""
        return MachineLab()


class TestWithinAProcess(PlacementContract):
    """As a cluster agent asks."""

    @pytest.fixture
    async def lab(self) -> AsyncGenerator[PlacementLab, None]:
        """Run a process."""
        async with running_lab(over_the_wire=False) as lab:
            yield lab


class TestOverTheWire(PlacementContract):
    """As an executor of another process asks."""

    @pytest.fixture
    async def lab(self) -> AsyncGenerator[PlacementLab, None]:
        """Run a process."""
        async with running_lab(over_the_wire=True) as lab:
            yield lab

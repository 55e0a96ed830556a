"""A simulated cluster in this process, a leader that speaks the wire, and samplers between them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from argosy.sampler.v1 import sampler_pb2, sampler_pb2_grpc
from argosy_core.job.reading.classes import SchedulingClass
from argosy_core.plugins.registry import DEFAULT_PROFILE
from argosy_kube.simulated.__main__ import make_host
from argosy_kube.simulated.host import ClusterHost
from argosy_runtime.grpc_server import GrpcSettings
from argosy_runtime.lifecycle import Lifecycle
from argosy_sampler.app import start
from argosy_sampler.config import SamplerConfig
from argosy_testkit.cluster_contract import LAB_NODES
from argosy_testkit.fake_streams import read_until_ended, serving
from argosy_testkit.in_process_cluster import InProcessCluster

INCARNATION = 3  # what the leader calls the process
TIMEOUT_S = 50.0
ONE_CORE = SchedulingClass(requests=(("cpu", 1000), ("memory", 1 << 30)))
HUGE = SchedulingClass(requests=(("cpu", 64_000),))
CLASSES = {1: ONE_CORE, 2: HUGE}


def int32(values: list[int]) -> bytes:
    """Return a packed int32 column."""
    return np.array(values, dtype="<i4").tobytes()


def int64(values: list[int]) -> bytes:
    """Return a packed int64 column."""
    return np.array(values, dtype="<i8").tobytes()


def definitions(*class_ids: int) -> list[sampler_pb2.ClassDefinition]:
    """Return definitions of some classes."""
    return [sampler_pb2.ClassDefinition(class_id=one, definition=CLASSES[one].definition()) for one in class_ids]


def placement_list(placements: dict[tuple[int, int], str], *, last: bool = True) -> sampler_pb2.PlacementList:
    """Return runs of class 1 on nodes by name as a list of placements."""
    names = list(dict.fromkeys(placements.values()))
    return sampler_pb2.PlacementList(
        handle_column=int64([handle for handle, _ in placements]),
        attempt_column=int32([attempt for _, attempt in placements]),
        class_column=int32([1] * len(placements)),
        node_column=int32([names.index(node) for node in placements.values()]),
        nodes=names,
        classes=definitions(1),
        last=last,
    )


@dataclass
class NodeView:
    """What the leader was told of a node."""

    name: str
    free_millicores: int
    flag: int


@dataclass
class Session:
    """One stream as the leader sees it."""

    context: Any
    hello: sampler_pb2.Hello
    answers: asyncio.Queue[sampler_pb2.SessionRequest] = field(default_factory=asyncio.Queue)
    nodes: dict[int, NodeView] = field(default_factory=dict)
    capacity: sampler_pb2.Capacity | None = None
    news: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    heartbeats: int = 0

    async def send(self, **message: Any) -> None:
        """Send one message down."""
        await self.context.write(sampler_pb2.SessionResponse(**message))

    async def next_answer(self, kind: str) -> Any:
        """Return the next answer, which must be of a kind; what is told for people comes whenever it does."""
        async with asyncio.timeout(TIMEOUT_S):
            answer = await self.answers.get()
            while answer.WhichOneof("message") == "pod_sizes" != kind:
                answer = await self.answers.get()
        assert answer.WhichOneof("message") == kind
        return getattr(answer, kind)

    async def wait_free(self, **free_millicores: int) -> None:
        """Return once nodes are told to have this much cpu free; keywords are node names with `_` for `-`."""
        wanted = {name.replace("_", "-"): amount for name, amount in free_millicores.items()}
        async with asyncio.timeout(TIMEOUT_S):
            while any(self.free().get(name) != amount for name, amount in wanted.items()):
                self.news.clear()
                await self.news.wait()

    def free(self) -> dict[str, int]:
        """Return free millicores by node name."""
        return {view.name: view.free_millicores for view in self.nodes.values()}

    def index(self, name: str) -> int:
        """Return the index of a node."""
        return next(index for index, view in self.nodes.items() if view.name == name)

    async def sample(self, classes: list[int], /, *, epoch: int = 1, **fields: Any) -> sampler_pb2.SampleResponse:
        """Ask for candidates of some classes."""
        values = {
            "round": 7,
            "epoch": epoch,
            "classes": [] if "classes" in fields else definitions(*classes),
            "class_column": int32(classes),
            "wanted_column": int32([1] * len(classes)),
            "complete_column": bytes(len(classes)),
            "resources": ["cpu", "memory"],
            "nodes_to_sample_ratio": 1.0,
            "deadline_ms": 1000,
            "strategy": "random",
        }
        await self.send(sample=sampler_pb2.SampleRequest(**(values | fields)))
        return await self.next_answer("sample")

    async def commit(
        self, runs: list[tuple[int, int]], candidates: list[list[int]], *, epoch: int = 1, members: bytes = b""
    ) -> tuple[list[int], list[int]]:
        """Ask to place runs of class 1; return nodes and outcomes."""
        await self.send_commit(runs, candidates, epoch=epoch, members=members)
        answer = await self.next_answer("commit")
        assert (answer.round, answer.stage, answer.incarnation) == (7, 2, INCARNATION)
        nodes = np.frombuffer(answer.node_column, dtype="<i4").tolist()
        return nodes, np.frombuffer(answer.outcome_column, dtype="i1").tolist()

    async def send_commit(
        self, runs: list[tuple[int, int]], candidates: list[list[int]], *, epoch: int = 1, members: bytes = b""
    ) -> None:
        """Ask to place runs of class 1, and wait for no answer."""
        request = sampler_pb2.CommitRequest(
            round=7,
            stage=2,
            epoch=epoch,
            handle_column=int64([handle for handle, _ in runs]),
            attempt_column=int32([attempt for _, attempt in runs]),
            class_column=int32([1] * len(runs)),
            offset_column=int32([0, *np.cumsum([len(one) for one in candidates]).tolist()]),
            candidate_column=int32([node for one in candidates for node in one]),
            member_column=members,
        )
        await self.send(commit=request)


class FakeLeader(sampler_pb2_grpc.SamplerServiceServicer):
    """The leader's side of the wire; tests say what it sends."""

    def __init__(self) -> None:
        """Start without sessions."""
        self.address = ""
        self.epoch = 1
        # A test keeps to the session that it was given, and three heartbeats of silence end it: on a busy machine a
        # process may well stand still for some tenths of a second.
        self.heartbeat_s = 5.0
        self.redirect: str | None = None
        self.dialled = 0
        self.sessions: asyncio.Queue[Session] = asyncio.Queue()

    async def Session(self, request_iterator: AsyncIterator[Any], context: Any) -> None:  # noqa: N802
        """Serve one stream until the sampler or the test ends it."""
        self.dialled += 1
        if self.redirect is not None:
            redirect = sampler_pb2.Redirect(address=self.redirect)
            await context.write(sampler_pb2.SessionResponse(redirect=redirect))
            return
        first = await anext(aiter(request_iterator))
        session = Session(context=context, hello=first.hello)
        welcome = sampler_pb2.Welcome(epoch=self.epoch, heartbeat_s=self.heartbeat_s, incarnation=INCARNATION)
        await session.send(welcome=welcome)
        await self.sessions.put(session)
        await read_until_ended(self._read(session, request_iterator), session.ended)

    async def _read(self, session: Session, requests: AsyncIterator[Any]) -> None:
        """Take what the sampler says until the stream ends."""
        async for request in requests:
            kind = request.WhichOneof("message")
            if kind == "capacity":
                self._take(session, request.capacity)
            elif kind == "heartbeat":
                session.heartbeats += 1
                session.news.set()
                await session.send(confirmed=sampler_pb2.Confirmed())
            else:
                await session.answers.put(request)

    def _take(self, session: Session, capacity: sampler_pb2.Capacity) -> None:
        session.capacity = capacity
        cpu = list(capacity.resources).index("cpu")
        free = np.frombuffer(capacity.free_column, dtype="<i8").reshape(-1, len(capacity.resources))
        indices = np.frombuffer(capacity.node_column, dtype="<i4").tolist()
        for row, index in enumerate(indices):
            session.nodes[index] = NodeView(capacity.names[row], int(free[row, cpu]), capacity.flag_column[row])
        session.news.set()

    async def next_session(self) -> Session:
        """Return the next stream that was welcomed."""
        async with asyncio.timeout(TIMEOUT_S):
            return await self.sessions.get()

    async def ready_session(self, placements: dict[tuple[int, int], str] | None = None) -> Session:
        """Return the next stream after its full list of placements was taken in."""
        session = await self.next_session()
        await session.send(placements=placement_list(placements or {}))
        await session.next_answer("ready")
        return session


@pytest.fixture
async def leader() -> AsyncGenerator[FakeLeader, None]:
    """Serve a leader on a free port."""
    async with serving_leader() as one:
        yield one


def serving_leader() -> AbstractAsyncContextManager[FakeLeader]:
    """Serve a leader on a free port."""
    return serving(FakeLeader(), sampler_pb2_grpc.add_SamplerServiceServicer_to_server)


@pytest.fixture
async def host() -> AsyncGenerator[ClusterHost, None]:
    """Run a simulated cluster with the lab's nodes."""
    host = make_host("lab", LAB_NODES, speed=1.0, flush_interval_s=0.002)
    async with asyncio.TaskGroup() as group:
        clock = group.create_task(host.run())
        yield host
        clock.cancel()


@asynccontextmanager
async def running_sampler(
    host: ClusterHost,
    *addresses: str,
    scores: Mapping[str, float] = DEFAULT_PROFILE.scores,
    capacity_interval_ms: float = 5.0,
    node_interval_ms: float = 5.0,
    plugins: Mapping[str, Mapping[str, str]] | None = None,
    commit_plugins: Mapping[str, Mapping[str, str]] | None = None,
    delegated: bool = False,
) -> AsyncGenerator[None, None]:
    """Run a sampler of the cluster that dials some servers."""
    config = SamplerConfig(
        cluster="lab",
        cluster_address="unix:/unused",
        server_addresses=addresses,
        installation="one",
        scores=scores,
        delegated=delegated,
        plugins=tuple(plugins or ()),
        plugin_settings={f"{name}.{key}": value for name, own in (plugins or {}).items() for key, value in own.items()},
        commit_plugins=tuple(commit_plugins or ()),
        commit_plugin_settings={
            f"{name}.{key}": value for name, own in (commit_plugins or {}).items() for key, value in own.items()
        },
        capacity_interval_ms=capacity_interval_ms,
        node_interval_ms=node_interval_ms,
        retry_most_s=0.05,
        grpc=GrpcSettings(listen="127.0.0.1:0"),
    )
    life = Lifecycle("sampler", drain_s=1.0)

    async def begin(life: Lifecycle) -> None:
        await start(life, config, cluster=InProcessCluster(host, "one"))

    async with asyncio.TaskGroup() as group:
        group.create_task(life.run(begin))
        yield
        life.request_stop()

"""A simulated cluster in this process, a leader that speaks the wire, and executors between them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
import numpy as np
import pytest

from argosy.executor.v1 import executor_pb2, executor_pb2_grpc
from argosy_core.job.states import ObjectState
from argosy_core.reconcile import SpecCache
from argosy_executor.app import start
from argosy_executor.config import ExecutorConfig
from argosy_kube.simulated.__main__ import make_host
from argosy_kube.simulated.host import ClusterHost
from argosy_runtime.lifecycle import Lifecycle
from argosy_testkit.cluster_contract import LAB_NODES
from argosy_testkit.fake_streams import read_until_ended, serving
from argosy_testkit.in_process_cluster import InProcessCluster

TIMEOUT_S = 50.0
NODE = LAB_NODES[0].name
Run = tuple[int, int]


def body(*, run_time: str = "1h", exit_code: int = 0, kinds: tuple[str, ...] = ("Pod",)) -> bytes:
    """Return a bag; its pods run for a time and end with an exit code."""
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": "100m", "memory": "16Mi"}}}
    notes = {"argosy.dev/simulated-run-time": run_time, "argosy.dev/simulated-exit-code": str(exit_code)}
    manifests = [
        {
            "apiVersion": "v1",
            "kind": kind,
            "metadata": {"name": f"o{index}", "annotations": notes},
            "spec": {"containers": [container]} if kind == "Pod" else {},
        }
        for index, kind in enumerate(kinds)
    ]
    return json.dumps(manifests).encode()


@dataclass
class Session:
    """One stream as the leader sees it."""

    context: Any
    hello: executor_pb2.Hello
    states: dict[tuple[int, int, int], list[str]] = field(default_factory=dict)
    seen: set[Run] = field(default_factory=set)
    """Runs of which objects were seen and no row is there."""
    batches: list[executor_pb2.StateBatch] = field(default_factory=list)
    heartbeat_count: int = 0
    news: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    cache: SpecCache = field(default_factory=SpecCache)
    writing: asyncio.Lock = field(default_factory=asyncio.Lock)
    is_storing: bool = True
    chunks: dict[int, list[bytes]] = field(default_factory=dict)
    log_ends: dict[int, tuple[int, str]] = field(default_factory=dict)

    def known_runs(self) -> set[Run]:
        """Return the runs of the hello."""
        handles = np.frombuffer(self.hello.handle_column, dtype="<i8").tolist()
        return set(zip(handles, np.frombuffer(self.hello.attempt_column, dtype="<i4").tolist(), strict=True))

    async def send(self, **message: Any) -> None:
        """Send one message down."""
        async with self.writing:  # a stream takes one write at a time
            await self.context.write(executor_pb2.SyncResponse(**message))

    async def give(self, runs: list[Run], bag: bytes, *, seen: bool = False, spec_hash: bytes = b"h" * 16) -> None:
        """Send rows of runs that share a bag."""
        count = len(runs)
        zeros = np.zeros(count, dtype="<i4").tobytes()
        rows = executor_pb2.ObjectRows(
            handle_column=np.array([handle for handle, _ in runs], dtype="<i8").tobytes(),
            attempt_column=np.array([attempt for _, attempt in runs], dtype="<i4").tobytes(),
            id_high_column=np.zeros(count, dtype="<i8").tobytes(),
            spec_column=zeros,
            node_column=zeros,
            metadata_column=np.full(count, -1, dtype="<i4").tobytes(),
            owner_column=zeros,
            spec_hashes=[spec_hash],
            spec_bodies=self.cache.send([spec_hash], lambda _: bag),
            nodes=[NODE],
            owners=[executor_pb2.Owner(queue="q", job_set="s")],
            seen_column=bytes([1] * count) if seen else b"",
        )
        await self.send(rows=rows)

    async def stop(self, runs: list[Run], *, unknown: bool = False) -> None:
        """Send stops, of runs that the leader has or of unknown ones."""
        handles = np.array([handle for handle, _ in runs], dtype="<i8").tobytes()
        attempts = np.array([attempt for _, attempt in runs], dtype="<i4").tobytes()
        await self.send(stops=executor_pb2.StopRuns(handle_column=handles, attempt_column=attempts, unknown=unknown))

    async def wait_for(self, condition: Callable[[], bool]) -> None:
        """Return once a condition holds; it is looked at whenever the executor says something."""
        async with asyncio.timeout(TIMEOUT_S):
            while not condition():
                self.news.clear()
                await self.news.wait()

    async def wait_states(self, handle: int, *states: str, attempt: int = 1, position: int = 0) -> None:
        """Return once an object was reported in exactly these states, in order."""
        wanted = list(states)
        await self.wait_for(lambda: self.states.get((handle, attempt, position)) == wanted)

    async def take(self, batch: executor_pb2.StateBatch) -> None:
        """Keep states, and say that they are stored."""
        self.batches.append(batch)
        columns = zip(
            np.frombuffer(batch.handle_column, dtype="<i8").tolist(),
            np.frombuffer(batch.attempt_column, dtype="<i4").tolist(),
            np.frombuffer(batch.object_column, dtype="<i2").tolist(),
            np.frombuffer(batch.state_column, dtype="i1").tolist(),
            strict=True,
        )
        for handle, attempt, position, state in columns:
            self.states.setdefault((handle, attempt, position), []).append(ObjectState(state).name)
        if self.is_storing:
            await self.store()
        self.news.set()

    async def store(self) -> None:
        """Say that all batches so far are stored."""
        await self.send(stored=executor_pb2.StatesStored(batch=self.batches[-1].batch))


class FakeLeader(executor_pb2_grpc.ExecutorServiceServicer):
    """The leader's side of the wire; tests say what it sends."""

    def __init__(self) -> None:
        """Start without sessions."""
        self.address = ""
        self.fence_s = 30.0
        # A test keeps to the session that it was given, and three heartbeats of silence end it: on a busy machine a
        # process may well stand still for some tenths of a second.
        self.heartbeat_s = 5.0
        self.installation = "one"
        self.keep_finished_s = 3600.0
        self.is_first = True
        self.redirect: str | None = None
        self.refusal: tuple[grpc.StatusCode, str] | None = None
        self.is_confirming = True
        self.dialled = 0
        self.dials = asyncio.Semaphore(0)
        self.sessions: asyncio.Queue[Session] = asyncio.Queue()

    async def Sync(self, request_iterator: AsyncIterator[Any], context: Any) -> None:  # noqa: N802
        """Serve one stream until the executor or the test ends it."""
        self.dialled += 1
        self.dials.release()
        if self.redirect is not None:
            redirect = executor_pb2.Redirect(address=self.redirect)
            await context.write(executor_pb2.SyncResponse(redirect=redirect))
            return
        first = await anext(aiter(request_iterator))
        if self.refusal is not None:
            await context.abort(*self.refusal)
        session = Session(context=context, hello=first.hello)
        welcome = executor_pb2.Welcome(
            epoch=1,
            heartbeat_s=self.heartbeat_s,
            fence_s=self.fence_s,
            installation=self.installation,
            keep_finished_s=self.keep_finished_s,
            first=self.is_first,
        )
        await session.send(welcome=welcome)
        await self.sessions.put(session)
        await read_until_ended(self._read(session, request_iterator), session.ended)

    async def _read(self, session: Session, requests: AsyncIterator[Any]) -> None:
        """Take what the executor says until the stream ends."""
        async for request in requests:
            kind = request.WhichOneof("message")
            if kind == "states":
                await session.take(request.states)
            elif kind == "heartbeat":
                session.heartbeat_count += 1
                if self.is_confirming:
                    await session.send(confirmed=executor_pb2.Confirmed())
                session.news.set()
            elif kind == "seen":
                handles = np.frombuffer(request.seen.handle_column, dtype="<i8").tolist()
                attempts = np.frombuffer(request.seen.attempt_column, dtype="<i4").tolist()
                session.seen |= set(zip(handles, attempts, strict=True))
                session.news.set()
            elif kind == "log_chunk":
                session.chunks.setdefault(request.log_chunk.request, []).append(request.log_chunk.data)
                session.news.set()
            elif kind == "log_end":
                session.log_ends[request.log_end.request] = (request.log_end.code, request.log_end.message)
                session.news.set()

    async def next_session(self) -> Session:
        """Return the next stream that was welcomed."""
        async with asyncio.timeout(TIMEOUT_S):
            return await self.sessions.get()


def serving_leader() -> AbstractAsyncContextManager[FakeLeader]:
    """Serve a leader on a free port."""
    return serving(FakeLeader(), executor_pb2_grpc.add_ExecutorServiceServicer_to_server)


@pytest.fixture
async def leader() -> AsyncGenerator[FakeLeader, None]:
    """Serve a leader on a free port."""
    async with serving_leader() as one:
        yield one


@pytest.fixture
async def other_leader() -> AsyncGenerator[FakeLeader, None]:
    """Serve another leader on a free port."""
    async with serving_leader() as one:
        yield one


@pytest.fixture
async def host() -> AsyncGenerator[ClusterHost, None]:
    """Run a simulated cluster with the lab's nodes."""
    host = make_host("lab", LAB_NODES, speed=1.0, flush_interval_s=0.002)
    async with asyncio.TaskGroup() as group:
        clock = group.create_task(host.run())
        yield host
        clock.cancel()


def configure(*addresses: str, **fields: Any) -> ExecutorConfig:
    """Return a configuration for tests: everything is quick."""
    values: dict[str, Any] = {
        "cluster": "lab",
        "cluster_address": "unix:/unused",
        "server_addresses": addresses,
        "installation": "one",
        "gather_ms": 1.0,
        "drain_s": 5.0,
    }
    return ExecutorConfig(**(values | fields))


@asynccontextmanager
async def running_executor(host: ClusterHost, *addresses: str, **fields: Any) -> AsyncGenerator[Lifecycle, None]:
    """Run an executor of the cluster that dials some servers; it is drained at the end."""
    config = configure(*addresses, **fields)
    life = Lifecycle("executor", drain_s=config.drain_s)

    async def begin(life: Lifecycle) -> None:
        await start(life, config, cluster=InProcessCluster(host, "one"))

    async with asyncio.TaskGroup() as group:
        group.create_task(life.run(begin))
        try:
            yield life
        finally:
            life.request_stop()


@pytest.fixture
def run_executor() -> Callable[..., Any]:
    """Return how to run an executor."""
    return running_executor


@pytest.fixture
def make_bag() -> Callable[..., bytes]:
    """Return how to make a bag."""
    return body

"""A leader in the test's process, executors as processes of their own, and an onlooker who misses nothing."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import signal
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import grpc
import numpy as np
import pytest
from testbed.cluster import KubeApi

from argosy.executor.v1 import executor_pb2, executor_pb2_grpc
from argosy_core.job.states import IS_RUN_TERMINAL, RUN_MAY_FOLLOW, FailureKind, ObjectState
from argosy_core.reconcile import SpecCache

from .onlooker import Onlooker

RunKey = tuple[int, int]
FENCE_S: Final = 2.0
CALL_TIMEOUT_S: Final = 3.0
TIMEOUT_S: Final = 90.0
_NUMBERS = itertools.count(1)


def make_bag(
    *, run_time: str = "1h", kinds: tuple[str, ...] = ("Pod",), namespace: str = "default", **notes: str
) -> bytes:
    """Return a bag of small objects; its pods run for a time."""
    annotations = {"simulated-run-time": run_time} | {key.replace("_", "-"): v for key, v in notes.items()}
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}}}
    specs: dict[str, dict[str, Any]] = {
        "Pod": {"spec": {"containers": [container], "terminationGracePeriodSeconds": 1}},
        "ConfigMap": {"data": {"key": "value"}},
        "Secret": {"stringData": {"key": "value"}},
        "Service": {"spec": {"selector": {"app": "x"}, "ports": [{"port": 80}]}},
        "Ingress": {"spec": {"defaultBackend": {"service": {"name": "service", "port": {"number": 80}}}}},
        "PersistentVolumeClaim": {
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}
        },
    }
    versions = {"Ingress": "networking.k8s.io/v1"}
    return json.dumps(
        [
            {
                "apiVersion": versions.get(kind, "v1"),
                "kind": kind,
                "metadata": {
                    "name": kind.lower() if kind != "Pod" else f"pod{index}",
                    "namespace": namespace,
                    "annotations": {f"argosy.dev/{k}": v for k, v in annotations.items()},
                },
                **specs[kind],
            }
            for index, kind in enumerate(kinds)
        ]
    ).encode()


@dataclass
class LeaderRun:
    """A run as the leader has stored it."""

    bag: bytes
    kinds: tuple[str, ...]
    node: str
    states: list[int]
    history: list[list[str]]
    is_stopped: bool = False
    failure: int = 0
    text: str = ""

    def pod_places(self) -> list[int]:
        """Return the positions of its pods."""
        return [place for place, kind in enumerate(self.kinds) if kind == "Pod"]

    @property
    def was_seen(self) -> bool:
        """Whether a pod of it was reported."""
        return any(self.states[place] > ObjectState.LEASED for place in self.pod_places())

    @property
    def was_there(self) -> bool:
        """Whether a pod of it was reported as there, and not only as one that cannot be."""
        words = {word for place in self.pod_places() for word in self.history[place]}
        return bool(words & {"CREATED", "RUNNING", "SUCCEEDED"})

    @property
    def has_ended(self) -> bool:
        """Whether every pod of it has."""
        return all(IS_RUN_TERMINAL[self.states[place]] for place in self.pod_places())

    @property
    def is_whole(self) -> bool:
        """Whether every object of it is there and runs."""
        return all(state == ObjectState.RUNNING for state in self.states)

    @property
    def end(self) -> str:
        """How its first pod stands."""
        return ObjectState(self.states[self.pod_places()[0]]).name


class TestLeader(executor_pb2_grpc.ExecutorServiceServicer):
    """A leader as far as executors see one: rows, stops, stored states, and a new run for what was lost."""

    __test__ = False

    def __init__(self, node: str, installation: str) -> None:
        """Lead nobody yet."""
        self.installation = installation
        self.address = ""
        self.runs: dict[RunKey, LeaderRun] = {}
        self.node = node
        self.keep_finished_s = 0.0
        self.retries = True
        self.uids: dict[str, str] = {}
        self.processes: dict[str, list[bytes]] = {}
        self._heard: tuple[str, bytes] | None = None
        self.news = asyncio.Event()
        self.welcomed_count = 0
        self._session: tuple[Any, asyncio.Lock, SpecCache] | None = None

    # --- what it wants

    async def lease(self, bag: bytes, *, handle: int = 0, attempt: int = 1, node: str = "") -> int:
        """Store a run and send its row; return the handle."""
        handle = handle or next(_NUMBERS)
        kinds = tuple(manifest["kind"] for manifest in json.loads(bag))
        run = LeaderRun(bag, kinds, node or self.node, [int(ObjectState.LEASED)] * len(kinds), [[] for _ in kinds])
        self.runs[handle, attempt] = run
        await self._send_rows([(handle, attempt)])
        return handle

    async def stop(self, *handles: int) -> None:
        """Ask that the live runs of jobs end."""
        keys = [key for key, run in self.runs.items() if key[0] in handles and not run.has_ended]
        for key in keys:
            self.runs[key].is_stopped = True
        await self._send_stops(keys)

    def newest(self, handle: int) -> LeaderRun:
        """Return the newest run of a job."""
        return self.runs[max(key for key in self.runs if key[0] == handle)]

    async def until(self, condition: Callable[[], bool], *, timeout_s: float = TIMEOUT_S) -> None:
        """Return once a condition holds; it is looked at whenever states were stored."""
        async with asyncio.timeout(timeout_s):
            while not condition():
                self.news.clear()
                await self.news.wait()

    # --- the wire

    async def Sync(self, request_iterator: AsyncIterator[Any], context: Any) -> None:  # noqa: N802
        """Hold one executor's stream."""
        requests = aiter(request_iterator)
        hello = (await anext(requests)).hello
        if self.uids.setdefault(hello.cluster, hello.cluster_uid) != hello.cluster_uid:
            text = f"the name {hello.cluster} is bound to another cluster"
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, text)
        if self._heard is not None and self._heard[0] == hello.cluster and self._heard[1] != hello.process_id:
            await context.abort(grpc.StatusCode.ABORTED, f"the executor of cluster {hello.cluster} is another process")
        self._heard = heard = hello.cluster, hello.process_id
        try:
            await self._serve(requests, hello, context)
        finally:
            if self._heard is heard:
                self._heard = None

    async def _serve(self, requests: AsyncIterator[Any], hello: Any, context: Any) -> None:
        """Hold the stream of an executor that was let in."""
        seen = self.processes.setdefault(hello.cluster, [])
        is_first = not seen
        if hello.process_id not in seen:
            seen.append(hello.process_id)
        session = self._session = context, asyncio.Lock(), SpecCache()
        welcome = executor_pb2.Welcome(
            epoch=1,
            heartbeat_s=0.3,
            fence_s=FENCE_S,
            installation=self.installation,
            keep_finished_s=self.keep_finished_s,
            first=is_first,
            incarnation=len(seen),
        )
        await self._send(welcome=welcome)
        self.welcomed_count += 1
        self.news.set()
        await self._compare(hello)
        async for request in requests:
            if self._session is not session:
                await context.abort(grpc.StatusCode.ABORTED, "replaced")
            kind = request.WhichOneof("message")
            if kind == "states":
                await self._take(request.states)
            elif kind == "seen":
                await self._send_stops(sorted(_runs_of(request.seen) - self._live()), unknown=True)
            else:
                await self._send(confirmed=executor_pb2.Confirmed())

    async def _compare(self, hello: executor_pb2.Hello) -> None:
        """Send what an executor lacks, and stops for what is not live."""
        known, live = _runs_of(hello), self._live()
        bags = {key for key in live if len(self.runs[key].kinds) > 1}
        await self._send_stops(sorted(known - live), unknown=True)
        await self._send_stops(sorted(key for key in live if self.runs[key].is_stopped))
        await self._send_rows(sorted((live - known) | bags))

    def _live(self) -> set[RunKey]:
        """Return the runs that have not ended."""
        return {key for key, run in self.runs.items() if not run.has_ended}

    async def _send(self, **message: Any) -> None:
        if self._session is None:
            return
        context, lock, _ = self._session
        with contextlib.suppress(grpc.RpcError, asyncio.InvalidStateError, grpc.aio.UsageError):
            async with lock:
                await context.write(executor_pb2.SyncResponse(**message))

    async def _send_rows(self, keys: list[RunKey]) -> None:
        if self._session is None:
            return
        for key in keys:
            run = self.runs[key]
            spec_hash = run.bag[:8] + f"{hash(run.bag) & 0xFFFFFFFF:08x}".encode()
            zero = np.zeros(1, dtype="<i4").tobytes()
            await self._send(
                rows=executor_pb2.ObjectRows(
                    handle_column=np.array([key[0]], dtype="<i8").tobytes(),
                    attempt_column=np.array([key[1]], dtype="<i4").tobytes(),
                    id_high_column=np.zeros(1, dtype="<i8").tobytes(),
                    spec_column=zero,
                    node_column=zero,
                    metadata_column=np.full(1, -1, dtype="<i4").tobytes(),
                    owner_column=zero,
                    spec_hashes=[spec_hash],
                    spec_bodies=self._session[2].send([spec_hash], lambda _, body=run.bag: body),
                    nodes=[run.node],
                    owners=[executor_pb2.Owner(queue="q", job_set="s")],
                    seen_column=b"\1" if run.was_seen else b"",
                )
            )

    async def _send_stops(self, keys: list[RunKey], *, unknown: bool = False) -> None:
        if keys:
            handles = np.array([key[0] for key in keys], dtype="<i8").tobytes()
            attempts = np.array([key[1] for key in keys], dtype="<i4").tobytes()
            await self._send(
                stops=executor_pb2.StopRuns(handle_column=handles, attempt_column=attempts, unknown=unknown)
            )

    async def _take(self, batch: executor_pb2.StateBatch) -> None:
        """Store states by rank, and lease again what was lost or failed by no fault of its own."""
        again, strange = [], []
        rows = zip(
            np.frombuffer(batch.handle_column, dtype="<i8").tolist(),
            np.frombuffer(batch.attempt_column, dtype="<i4").tolist(),
            np.frombuffer(batch.object_column, dtype="<i2").tolist(),
            np.frombuffer(batch.state_column, dtype="i1").tolist(),
            np.frombuffer(batch.failure_column, dtype="i1").tolist(),
            np.frombuffer(batch.message_column, dtype="<i4").tolist(),
            strict=True,
        )
        for handle, attempt, place, state, failure, text in rows:
            run = self.runs.get((handle, attempt))
            if run is None or run.has_ended:
                if not IS_RUN_TERMINAL[state]:
                    strange.append((handle, attempt))
                continue
            if run.is_stopped and state in {ObjectState.FAILED, ObjectState.LOST}:
                state = ObjectState.CANCELLED  # noqa: PLW2901 - its deletion killed it, whoever saw that
            if RUN_MAY_FOLLOW[run.states[place], state]:
                run.states[place] = state
                run.history[place].append(ObjectState(state).name)
                if failure:
                    run.failure, run.text = failure, batch.texts[text] if text >= 0 else ""
            faultless = {FailureKind.INFRASTRUCTURE, FailureKind.EVICTED}
            lost = run.end == "LOST" or (run.end == "FAILED" and run.failure in faultless)
            if run.has_ended and lost and not run.is_stopped and self.retries:
                again.append((handle, attempt, run))
        await self._send(stored=executor_pb2.StatesStored(batch=batch.batch))
        await self._send_stops(strange)
        for handle, attempt, run in again:
            await self.lease(run.bag, handle=handle, attempt=attempt + 1, node=run.node)
        self.news.set()


def _runs_of(message: executor_pb2.Hello | executor_pb2.SeenRuns) -> set[RunKey]:
    """Return the runs that a message names."""
    handles = np.frombuffer(message.handle_column, dtype="<i8").tolist()
    return set(zip(handles, np.frombuffer(message.attempt_column, dtype="<i4").tolist(), strict=True))


@dataclass
class Bench:
    """What a test works with."""

    leader: TestLeader
    api: KubeApi
    onlooker: Onlooker
    namespace: str
    node: str
    directory: Path
    looking: asyncio.Future[None]
    processes: list[asyncio.subprocess.Process] = field(default_factory=list)

    async def is_all_seen(self) -> bool:
        """Return whether the onlooker has seen a pod of every run of which the leader has heard that one is there."""
        told = {key for key, run in self.leader.runs.items() if run.was_there}
        return told <= {key[:2] for key in self.onlooker.keys.values()}

    async def stop_looking(self) -> BaseException | None:
        """End the onlooker and return what ended it."""
        self.looking.cancel()
        (end,) = await asyncio.gather(self.looking, return_exceptions=True)
        return end

    def executor_flags(self, *flags: str, name: str = "lab", kubeconfig: Path | None = None) -> list[str]:
        """Return what an executor of the test's leader is started with."""
        return [
            *("--cluster", name, "--cluster-address", f"kubernetes:{kubeconfig or self.api.kubeconfig}"),
            *("--server-addresses", self.leader.address, "--installation", self.leader.installation),
            *("--gather-ms", "5", "--call-timeout-s", str(CALL_TIMEOUT_S), "--no-kubernetes-discover"),
            *flags,
        ]

    async def start_executor(
        self, *flags: str, name: str = "lab", kubeconfig: Path | None = None
    ) -> asyncio.subprocess.Process:
        """Start an executor as a process of its own."""
        with (self.directory / f"executor-{len(self.processes)}.log").open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "argosy_executor"),
                *self.executor_flags(*flags, name=name, kubeconfig=kubeconfig),
                stdout=log,
                stderr=log,
            )
        self.processes.append(process)
        return process

    async def kill(self, process: asyncio.subprocess.Process) -> None:
        """Kill a process at once."""
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGKILL)
        await process.wait()

    def log_of(self, process: asyncio.subprocess.Process) -> str:
        """Return what a process has written."""
        return (self.directory / f"executor-{self.processes.index(process)}.log").read_text(errors="replace")

    async def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Do something by hand."""
        return await asyncio.to_thread(self.api.kubectl, *arguments, stdin=stdin)

    async def pod_names(self) -> list[str]:
        """Return the names of the pods in the test's namespace."""
        text = await self.kubectl("-n", self.namespace, "get", "pods", "-o", "name")
        return sorted(line.removeprefix("pod/") for line in text.split())

    async def left_over(self) -> list[RunKey]:
        """Return the runs of which objects are there."""
        return await self.onlooker.left_over()

    async def eventually(self, condition: Callable[[], Awaitable[bool]], *, timeout_s: float = TIMEOUT_S) -> None:
        """Return once a condition of the cluster holds."""
        async with asyncio.timeout(timeout_s):
            while not await condition():  # noqa: ASYNC110 - nothing tells of changes made by others
                await asyncio.sleep(0.2)


@asynccontextmanager
async def running_bench(api: KubeApi, directory: Path, number: int) -> AsyncGenerator[Bench, None]:
    """Serve a leader beside a cluster, and look on."""
    namespace = installation = f"executor-{number}"
    (node,) = await asyncio.to_thread(lambda: api.add_nodes(1, prefix=namespace, cpu="64", memory="256Gi"))
    await asyncio.to_thread(api.kubectl, "create", "namespace", namespace)
    leader = TestLeader(node, installation)
    server = grpc.aio.server()
    executor_pb2_grpc.add_ExecutorServiceServicer_to_server(leader, server)
    leader.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    onlooker = Onlooker(api, namespace)
    looking = asyncio.ensure_future(onlooker.watch())
    bench = Bench(leader, api, onlooker, namespace, node, directory, looking)
    try:
        yield bench
        if not looking.done():
            await bench.eventually(bench.is_all_seen)
    finally:
        for process in bench.processes:
            if process.returncode is None:
                await bench.kill(process)
        end = await bench.stop_looking()
        await server.stop(0)
        await onlooker.close()
    assert isinstance(end, asyncio.CancelledError), end
    assert onlooker.faults == []


async def account_exists(bench: Bench) -> bool:
    """Return whether the test's namespace is ready for pods."""
    return "default" in await bench.kubectl("-n", bench.namespace, "get", "serviceaccounts", "-o", "name")


_benches = itertools.count(1)


@pytest.fixture
async def bench(kube_api: KubeApi, tmp_path: Path) -> AsyncGenerator[Bench, None]:
    """Serve a leader beside the real API server; at the end nothing must have run twice."""
    async with running_bench(kube_api, tmp_path, next(_benches)) as one:
        await one.eventually(lambda: account_exists(one))
        yield one

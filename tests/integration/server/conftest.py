"""A running server over a real database, and stubs to call it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import grpc
import pytest

from argosy.api.v1 import (
    access_pb2_grpc,
    cluster_pb2_grpc,
    event_pb2_grpc,
    job_pb2,
    job_pb2_grpc,
    queue_pb2,
    queue_pb2_grpc,
    scheduling_pb2_grpc,
    server_pb2_grpc,
)
from argosy.debug.v1 import debug_pb2_grpc
from argosy.lease.v1 import outlook_pb2_grpc
from argosy_runtime.grpc_server import GrpcSettings
from argosy_runtime.lifecycle import Lifecycle
from argosy_server.app import ServerApp
from argosy_server.config import ApiSettings, ServerConfig
from argosy_server.leader.settings import LeaderSettings
from argosy_store import LeaderStore

from .tenants import Mesh, running_mesh


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """A server under test and ways to call it."""

    app: ServerApp
    life: Lifecycle
    url: str
    channel: grpc.aio.Channel
    jobs: Any
    queues: Any
    events: Any
    clusters: Any
    scheduling: Any
    outlook: Any
    server: Any
    debug: Any
    access: Any

    async def make_queue(self, name: str = "red", **fields: Any) -> None:
        """Make a queue."""
        await self.queues.CreateQueue(queue_pb2.CreateQueueRequest(queue=queue_pb2.Queue(name=name, **fields)))

    async def submit(self, *items: dict[str, Any], specs: int = 1, **fields: Any) -> list[str]:
        """Submit items, each with the defaults queue red and job set one; return the job ids."""
        answer = await self.jobs.SubmitJobs(make_submit(*items, specs=specs, **fields))
        return list(answer.job_ids)


def manifest(number: int = 0, **metadata: Any) -> str:
    """Return a pod as JSON; numbers make different ones."""
    resources = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}
    container = {"name": "main", "image": "busybox", "args": [str(number)], "resources": resources}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}
    return json.dumps(pod)


def make_submit(*items: dict[str, Any], specs: int = 1, **fields: Any) -> job_pb2.SubmitJobsRequest:
    """Return a submit of items over numbered specs."""
    defaults = {"queue": "red", "job_set": "one"}
    return job_pb2.SubmitJobsRequest(
        specs=[job_pb2.JobSpec(manifests=[manifest(number)]) for number in range(specs)],
        items=[job_pb2.JobItem(**{**defaults, **item}) for item in items or ({},)],
        **fields,
    )


def make_item(**fields: Any) -> job_pb2.SubmitJobsRequest:
    """Return a submit of one item to queue red."""
    container = {"name": "main", "image": "a", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    pod = json.dumps({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [container]}})
    return job_pb2.SubmitJobsRequest(
        specs=[job_pb2.JobSpec(manifests=[pod])], items=[job_pb2.JobItem(queue="red", job_set="one", **fields)]
    )


def make_config(url: str, **changes: Any) -> ServerConfig:
    """Return a configuration for tests: a free port, quick polls."""
    api = ApiSettings(gather_ms=1.0, watch_poll_ms=5.0, **changes.pop("api", {}))
    leader = changes.pop("leader_settings", LeaderSettings())
    config = ServerConfig(database_url=url, role="api", grpc=GrpcSettings(listen="127.0.0.1:0"), api=api, leader=leader)
    return replace(config, **changes)


@asynccontextmanager
async def serve(url: str, *, leader: Any = None, **changes: Any) -> AsyncIterator[Api]:
    """Run a server and give stubs for it; it drains at the end."""
    app = ServerApp(make_config(url, **changes), leader=leader)
    life = Lifecycle("server", drain_s=2.0)
    ready = asyncio.Event()

    async def start(of: Lifecycle) -> None:
        await app.start(of)
        ready.set()

    running = asyncio.ensure_future(life.run(start))
    waiting = asyncio.ensure_future(ready.wait())
    await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if running.done():
        await running
    channel = grpc.aio.insecure_channel(app.server.address)
    try:
        yield Api(
            app=app,
            life=life,
            url=url,
            channel=channel,
            jobs=job_pb2_grpc.JobServiceStub(channel),
            queues=queue_pb2_grpc.QueueServiceStub(channel),
            events=event_pb2_grpc.EventServiceStub(channel),
            clusters=cluster_pb2_grpc.ClusterServiceStub(channel),
            scheduling=scheduling_pb2_grpc.SchedulingServiceStub(channel),
            server=server_pb2_grpc.ServerServiceStub(channel),
            outlook=outlook_pb2_grpc.OutlookServiceStub(channel),
            debug=debug_pb2_grpc.DebugServiceStub(channel),
            access=access_pb2_grpc.AccessServiceStub(channel),
        )
    finally:
        await channel.close()
        life.request_stop()
        await running


Serve = Callable[..., AbstractAsyncContextManager[Api]]


@pytest.fixture(scope="session", name="serve")
def serve_fixture() -> Serve:
    """Give what runs further servers."""
    return serve


@pytest.fixture
async def api(database_url: str) -> AsyncIterator[Api]:
    """Give a running server with the queue red."""
    async with serve(database_url) as api:
        await api.make_queue("red")
        yield api


@pytest.fixture
def leader_store(database_url: str) -> Any:
    """Give the leader's side of the database."""
    store = LeaderStore(database_url, "default")
    yield store
    store.close()


@pytest.fixture
async def mesh(serve: Any, database_url: str, tmp_path: Path) -> AsyncIterator[Mesh]:
    """Give a server with the queues and jobs of two tenants, where every caller has a token."""
    async with running_mesh(serve, database_url, tmp_path) as mesh:
        yield mesh

"""Secrets of jobs at rest: a mesh that seals them runs jobs as before, and shows them to nobody who need not see them.

The database is looked through as a thief would: the files of a server of its own, its write-ahead log among them.
"""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from io import StringIO
from pathlib import Path
from typing import Any

import grpc
import psycopg
import pytest
import structlog
from prometheus_client import generate_latest

from argosy.api.v1 import event_pb2, job_pb2, scheduling_pb2
from argosy.debug.v1 import debug_pb2
from argosy_cluster_agent.app import start
from argosy_cluster_agent.config import ClusterAgentConfig
from argosy_kube.simulated.__main__ import make_host
from argosy_kube.simulated.server import serve_cluster
from argosy_runtime.lifecycle import Lifecycle
from argosy_runtime.logs import set_up_logs
from argosy_store import EmbeddedPostgres, migrate
from argosy_store.sealing import new_seal_key
from argosy_testkit.cluster_contract import LAB_NODES

LIMIT_S = 50.0
POD = """{"apiVersion": "v1", "kind": "Pod", "metadata": {"annotations": {"argosy.dev/simulated-run-time": "0.1"}},
"spec": {"containers": [{"name": "main", "image": "busybox", "env": [{"name": "TOKEN", "value": "%s"}],
"resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}}]}}"""


@pytest.fixture
def own_postgres(tmp_path: Path) -> Iterator[EmbeddedPostgres]:
    """Give a server whose files are nobody else's, with tables."""
    server = EmbeddedPostgres(tmp_path / "postgres")
    migrate(server.start())
    yield server
    server.stop()


@pytest.fixture
def logs() -> Iterator[StringIO]:
    """Give what is logged from now on."""
    before = structlog.get_config()
    stream = StringIO()
    set_up_logs("server", stream=stream)
    yield stream
    structlog.contextvars.clear_contextvars()
    structlog.configure(**before)


@asynccontextmanager
async def lab(address: str, folder: Path) -> AsyncIterator[None]:
    """Run a cluster that executes jobs."""
    host = make_host("lab", LAB_NODES, speed=1.0, flush_interval_s=0.002)
    async with serve_cluster(host, f"unix:{folder / 's'}") as cluster:
        clock = asyncio.ensure_future(host.run())
        config = ClusterAgentConfig(cluster="lab", cluster_address=cluster, server_addresses=(address,), drain_s=0.1)
        life = Lifecycle("cluster agent", drain_s=0.1)

        async def begin(of: Lifecycle) -> None:
            await start(of, config)

        running = asyncio.ensure_future(life.run(begin))
        yield
        life.request_stop()
        await running
        clock.cancel()


def submit_of(marker: str) -> job_pb2.SubmitJobsRequest:
    """Return a job with a secret of its own, and one in a variable."""
    held = {"password": base64.b64encode(marker.encode()).decode()}
    secret = json.dumps({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "own"}, "data": held})
    return job_pb2.SubmitJobsRequest(
        specs=[job_pb2.JobSpec(manifests=[POD % marker, secret])], items=[job_pb2.JobItem(queue="red", job_set="one")]
    )


def forms_of(marker: str) -> list[bytes]:
    """Return how a secret may be written."""
    return [marker.encode(), base64.b64encode(marker.encode()), marker.encode().hex().encode()]


def is_on_disk(server: EmbeddedPostgres, marker: str) -> bool:
    """Return whether a text is in any file of a database, after everything was written."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("CHECKPOINT")
    contents = map(content_of, server.data_directory.rglob("*"))
    return any(form in content for content in contents for form in forms_of(marker))


def content_of(path: Path) -> bytes:
    """Return what a file holds; nothing if it is none, or gone meanwhile, as the server's files may be."""
    with suppress(FileNotFoundError):
        return path.read_bytes() if path.is_file() else b""
    return b""


async def run_to_end(api: Any, marker: str) -> str:
    """Run the job; return its id."""
    await api.make_queue("red", namespaces=["default"])
    job_id = (await api.jobs.SubmitJobs(submit_of(marker))).job_ids[0]
    request = event_pb2.WatchJobSetRequest(queue="red", job_set="one", until_finished=True)
    async for batch in api.events.WatchJobSet(request, timeout=LIMIT_S):
        last = batch
    assert [(one.state, one.job_count) for one in last.state_counts] == [(job_pb2.JOB_STATE_SUCCEEDED, 1)]
    return str(job_id)


async def everything_shown(api: Any, job_id: str) -> bytes:
    """Return what is told of a job beside the job itself: lists, events, explanations, dumps, metrics."""
    jobs = api.jobs
    answers = [
        await jobs.ListJobs(job_pb2.ListJobsRequest(selector=job_pb2.JobSelector(queue="red"))),
        await jobs.BatchGetJobs(job_pb2.BatchGetJobsRequest(ids=[job_id])),
        await jobs.BatchGetJobStages(job_pb2.BatchGetJobStagesRequest(ids=[job_id])),
        await jobs.ListJobSets(job_pb2.ListJobSetsRequest(queue="red")),
        await jobs.ExplainJob(job_pb2.ExplainJobRequest(id=job_id)),
        await api.scheduling.GetLastRound(scheduling_pb2.GetLastRoundRequest()),
    ]
    answers += [one async for one in api.debug.DumpState(debug_pb2.DumpStateRequest())]
    watch = event_pb2.WatchJobSetRequest(queue="red", job_set="one", until_finished=True)
    answers += [one async for one in api.events.WatchJobSet(watch)]
    assert len(answers) > 7
    return b"\n".join([*(one.SerializeToString() for one in answers), generate_latest()])


@pytest.mark.parametrize("is_sealed", [True, False], ids=["sealed", "control"])
async def test_secret_of_a_job_is_nowhere_but_in_the_job(
    *, serve: Any, own_postgres: EmbeddedPostgres, tmp_path: Path, logs: StringIO, is_sealed: bool
) -> None:
    """The job runs and its owner reads it; lists, logs, events and dumps never have the secret, files only unsealed."""
    (tmp_path / "keys").write_text(new_seal_key("first"))
    (tmp_path / "s").mkdir()
    marker = secrets.token_hex(16)
    keys = str(tmp_path / "keys") if is_sealed else ""
    async with (
        serve(own_postgres.url, role="both", encryption_keys_file=keys) as api,
        lab(api.app.server.address, tmp_path / "s"),
    ):
        job_id = await run_to_end(api, marker)
        shown = await everything_shown(api, job_id)
        job = (await api.jobs.GetJob(job_pb2.GetJobRequest(id=job_id))).job
    assert marker in "".join(job.spec.manifests)
    assert logs.getvalue()
    told = shown + logs.getvalue().encode()
    assert [form for form in forms_of(marker) if form in told] == []
    assert is_on_disk(own_postgres, marker) is not is_sealed


async def test_replica_without_the_key_tells_what_is_missing(serve: Any, database_url: str, tmp_path: Path) -> None:
    """It answers UNAVAILABLE for what was sealed, and everything for what was not; a key that comes counts at once."""
    first, second = new_seal_key("first"), new_seal_key("second")
    own, late = tmp_path / "own", tmp_path / "late"
    own.write_text(first)
    late.write_text(second)
    async with serve(database_url, encryption_keys_file=str(own)) as api:
        await api.make_queue("red")
        (job_id,) = await api.submit()
    request = job_pb2.GetJobRequest(id=job_id)
    for keys, wrong in (("", "set encryption_keys_file"), (str(late), "key 'first', which is not in")):
        async with serve(database_url, encryption_keys_file=keys) as api:
            with pytest.raises(grpc.aio.AioRpcError, match=wrong) as caught:
                await api.jobs.GetJob(request)
            assert caught.value.code() == grpc.StatusCode.UNAVAILABLE
            assert await api.submit({"job_set": "two"})
    late.write_text(second + first)
    async with serve(database_url, encryption_keys_file=str(late)) as api:
        assert (await api.jobs.GetJob(request)).job.spec.manifests

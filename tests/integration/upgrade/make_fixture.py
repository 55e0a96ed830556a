"""Make the fixture of the upgrade test: what a mesh of commit 7171428 leaves when it is stopped.

Run it with that commit's packages, for instance with its `libs/*/src` and `services/*/src` in PYTHONPATH:

    python tests/integration/upgrade/make_fixture.py tests/integration/upgrade/from_7171428.json.gz

It starts a server and a cluster agent on a fake API server, submits, stops both at once, and lets a server without a
leader accept more. What is written are the rows of every table, by day partitions, and the objects of the cluster.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

import grpc
import psycopg

from argosy.api.v1 import job_pb2, job_pb2_grpc, queue_pb2, queue_pb2_grpc
from argosy_kube.port import RUN_TIME_ANNOTATION
from argosy_store import EmbeddedPostgres, migrate
from argosy_testkit.fake_kube_api import FakeKubeApi

NODE = {
    "metadata": {"name": "n1", "labels": {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}},
    "spec": {},
    "status": {
        "allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"},
        "capacity": {"cpu": "4", "memory": "16Gi", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}
SERVER, AGENT = "127.0.0.1:50951", "127.0.0.1:50952"


def pod(run_s: int) -> bytes:
    """Return a pod that runs so long."""
    resources = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}
    metadata = {"annotations": {RUN_TIME_ANNOTATION: f"{run_s}s"}}
    container = {"name": "main", "image": "busybox", "resources": resources}
    return json.dumps(
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}
    ).encode()


async def start(*arguments: str) -> asyncio.subprocess.Process:
    """Start a process of the old version."""
    return await asyncio.create_subprocess_exec(sys.executable, "-m", *arguments)


async def submit(jobs: Any, *items: dict[str, Any]) -> list[str]:
    """Submit items; spec 0 is short, spec 1 long."""
    specs = [job_pb2.JobSpec(manifests=[pod(run_s)]) for run_s in (1, 1_000_000)]
    made = [job_pb2.JobItem(queue="red", job_set="one", **item) for item in items]
    return list(
        (await jobs.SubmitJobs(job_pb2.SubmitJobsRequest(specs=specs, items=made), wait_for_ready=True)).job_ids
    )


async def states(jobs: Any) -> list[int]:
    """Return the states of all jobs in submit order."""
    selector = job_pb2.JobSelector(queue="red")
    return [job.state for job in (await jobs.ListJobs(job_pb2.ListJobsRequest(selector=selector))).jobs]


async def run(url: str, api: FakeKubeApi, kubeconfig: Path) -> None:
    """Run the mesh, and leave work of every kind."""
    server = await start("argosy_server", "--role", "both", "--database-url", url, "--grpc-listen", SERVER)
    agent = await start(
        *("argosy_cli.cluster_agent", "--cluster", "lab", "--cluster-address", f"kubernetes:{kubeconfig}"),
        *("--server-addresses", SERVER, "--grpc-listen", AGENT),
    )
    async with grpc.aio.insecure_channel(SERVER) as channel:
        jobs, queues = job_pb2_grpc.JobServiceStub(channel), queue_pb2_grpc.QueueServiceStub(channel)
        await queues.CreateQueue(
            queue_pb2.CreateQueueRequest(queue=queue_pb2.Queue(name="red", weight=1.0)), wait_for_ready=True
        )
        await submit(jobs, {"client_id": "short", "count": 2, "labels": {"kind": "short"}})
        while await states(jobs) != [4, 4]:  # noqa: ASYNC110 - only calls tell
            await asyncio.sleep(0.1)
        await submit(jobs, {"spec": 1, "client_id": "long", "count": 4, "labels": {"kind": "long"}})
        while (await states(jobs))[2:] != [3] * 4:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.1)
        await submit(jobs, {"client_id": "waits", "count": 2, "priority": 3}, {"client_id": "cancelled"})
        await asyncio.sleep(1.0)
    server.send_signal(signal.SIGTERM)
    await server.wait()
    agent.send_signal(signal.SIGTERM)
    await agent.wait()
    server = await start("argosy_server", "--role", "api", "--database-url", url, "--grpc-listen", SERVER)
    async with grpc.aio.insecure_channel(SERVER) as channel:
        jobs = job_pb2_grpc.JobServiceStub(channel)
        await submit(jobs, {"client_id": "unread", "annotations": {"note": "nobody leads"}})
        selector = job_pb2.JobSelector(queue="red")
        found = (await jobs.ListJobs(job_pb2.ListJobsRequest(selector=selector))).jobs
        ids = [job.id for job in found if job.client_id == "cancelled"]
        await jobs.CancelJobs(job_pb2.CancelJobsRequest(jobs=job_pb2.JobIds(ids=ids)))
    server.send_signal(signal.SIGTERM)
    await server.wait()


def rows(url: str) -> dict[str, str]:
    """Return the rows of every table in COPY's text form, by table with its columns."""
    found = {}
    with psycopg.connect(url) as connection:
        tables = connection.execute(
            "SELECT c.relname FROM pg_class c WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition"
            " AND c.relnamespace = 'public'::regnamespace AND c.relname <> 'alembic_version' ORDER BY 1"
        ).fetchall()
        for (table,) in tables:
            columns = connection.execute(
                "SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute"
                " WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped",
                [table],
            ).fetchone()[0]
            with connection.cursor().copy(f"COPY (SELECT {columns} FROM {table}) TO STDOUT") as copy:
                text = b"".join(copy).decode()
            if text:
                found[f"{table} ({columns})"] = text
    return found


async def main(target: Path) -> None:
    """Write the fixture."""
    with tempfile.TemporaryDirectory(prefix="up-") as directory:
        Path(directory).chmod(0o755)  # noqa: ASYNC240 - nothing else runs yet
        postgres = EmbeddedPostgres(Path(directory) / "pg")
        url = postgres.start()
        migrate(url)
        async with FakeKubeApi() as api:
            api.store.create("nodes", "", NODE)
            await run(url, api, api.write_kubeconfig(Path(directory) / "kubeconfig"))
            objects = {plural: list(api.store.all(plural)) for plural in ("nodes", "pods")}
        content = {"tables": rows(url), "objects": objects}
        postgres.stop()
    with gzip.GzipFile(target, "wb", mtime=0) as file:
        file.write(json.dumps(content, indent=1).encode())


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))

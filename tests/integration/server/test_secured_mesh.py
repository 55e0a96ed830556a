"""A mesh of processes' parts over TLS: clusters, users and servers each prove who they are, and a job runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from argosy.channel_credentials import ChannelCredentials, hash_token
from argosy_client import ArgosyClient, JobDraft, Queue
from argosy_cluster_agent.app import start
from argosy_cluster_agent.config import ClusterAgentConfig
from argosy_core.access import Grant
from argosy_core.errors import NotFound, NotPermitted
from argosy_kube.simulated.__main__ import make_host
from argosy_kube.simulated.server import serve_cluster
from argosy_runtime.access.guard import AccessSettings
from argosy_runtime.grpc_server import GrpcSettings
from argosy_runtime.lifecycle import Lifecycle
from argosy_testkit.cluster_contract import LAB_NODES

TIMEOUT_S = 50.0
CERTIFICATES = Path(__file__).parents[2] / "certificates"
AUTHORITY = str(CERTIFICATES / "authority.pem")
POD = """{"apiVersion": "v1", "kind": "Pod", "metadata": {"annotations": {"argosy.dev/simulated-run-time": "0.1"}},
"spec": {"containers": [{"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1", "memory": "1Gi"},
"limits": {"cpu": "1", "memory": "1Gi"}}}]}}"""


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    """Give a folder with a token for each, and the file of their hashes."""
    entries: list[dict[str, Any]] = [{"name": name} for name in ("root", "alice", "mallory")]
    entries.append({"cluster": "lab"})
    for entry in entries:
        name = entry.get("name", "lab")
        (tmp_path / name).write_text(f"token of {name}")
        entry["sha256"] = hash_token(f"token of {name}")
    (tmp_path / "tokens.yaml").write_text(yaml.safe_dump({"tokens": entries}))
    return tmp_path


@pytest.fixture
async def address(serve: Any, database_url: str, secrets: Path) -> AsyncIterator[str]:
    """Give the address of a server with all roles and one cluster."""
    access = AccessSettings(tokens_file=str(secrets / "tokens.yaml"), admins=("user:root",), grants_keep_s=0.001)
    grpc = GrpcSettings(
        listen="127.0.0.1:0",
        certificate_file=str(CERTIFICATES / "server.pem"),
        key_file=str(CERTIFICATES / "server.key"),
    )
    host = make_host("lab", LAB_NODES, speed=1.0, flush_interval_s=0.002)
    async with (
        serve(database_url, role="both", access=access, grpc=grpc) as api,
        serve_cluster(host, f"unix:{secrets / 's'}") as cluster,
    ):
        clock = asyncio.ensure_future(host.run())
        config = ClusterAgentConfig(
            cluster="lab",
            cluster_address=cluster,
            server_addresses=(api.app.server.address,),
            credentials=credentials(secrets, "lab"),
            drain_s=0.1,
        )
        life = Lifecycle("cluster agent", drain_s=0.1)

        async def begin(of: Lifecycle) -> None:
            await start(of, config)

        running = asyncio.ensure_future(life.run(begin))
        yield api.app.server.address
        life.request_stop()
        await running
        clock.cancel()


def credentials(secrets: Path, name: str) -> ChannelCredentials:
    """Return the credentials of somebody with a token."""
    return ChannelCredentials(authority_file=AUTHORITY, token_file=str(secrets / name))


async def test_job_of_a_tenant_runs_and_is_nobody_elses(address: str, secrets: Path) -> None:
    """What root grants alice lets her run a job on the cluster; mallory learns nothing of it."""
    async with (
        ArgosyClient(address, credentials=credentials(secrets, "root")) as root,
        ArgosyClient(address, credentials=credentials(secrets, "alice")) as alice,
        ArgosyClient(address, credentials=credentials(secrets, "mallory")) as mallory,
        asyncio.timeout(TIMEOUT_S),
    ):
        await root.create_queue(Queue(name="red", namespaces=("default",)))
        await root.create_queue(Queue(name="blue"))
        grants = [Grant(subject="user:alice", queue="red", verb=verb) for verb in ("submit", "watch")]
        await root.add_grants([*grants, Grant(subject="user:mallory", queue="blue", verb="watch")])
        (job_id,) = await alice.submit([JobDraft(queue="red", job_set="one", manifests=(POD,))])
        async for batch in alice.watch("red", "one", until_finished=True):
            last = batch
        assert last.state_counts["succeeded"] == 1
        assert (await alice.get_job(job_id)).submitter == "alice"
        with pytest.raises(NotFound):
            await mallory.get_job(job_id)
        with pytest.raises(NotFound):
            await anext(aiter(mallory.watch("red", "one")))
        with pytest.raises(NotPermitted):
            await alice.cancel_jobs([job_id])
        assert [queue.name async for queue in mallory.list_queues()] == ["blue"]

"""The agent within a cluster agent: on demand, with settings of its own, and without a port that others can dial."""

from __future__ import annotations

import asyncio
import stat
import tempfile
from contextlib import aclosing
from pathlib import Path
from uuid import UUID

import pytest

from argosy_cluster_agent.app import start
from argosy_cluster_agent.config import AgentPart, ClusterAgentConfig, agent_config
from argosy_core.autoscale import AgentSettings, Amounts
from argosy_core.autoscale.events import PodSeen
from argosy_kube import open_cluster
from argosy_kube.opening import open_scaler
from argosy_kube.simulated.__main__ import make_host
from argosy_kube.simulated.server import serve_cluster
from argosy_runtime.config import load_config
from argosy_runtime.grpc_server import GrpcSettings
from argosy_runtime.lifecycle import Lifecycle
from argosy_testkit.cluster_contract import LAB_NODES, make_bag, make_create_batch, make_pod

GIB = 1 << 30
IDLE = {
    "autoscale_min": "cpu=500m,memory=1Gi",
    "autoscale_max": "cpu=3,memory=6Gi",
    "simulated_use": "cpu=10m,memory=64Mi",
}


def modes_of_sockets(folder: Path) -> list[int]:
    """Return who may enter the folders of sockets for permits."""
    return [stat.S_IMODE(one.stat().st_mode) for one in folder.glob("argosy-permits-*")]


def test_it_has_what_the_process_was_given() -> None:
    """Its own settings by their flags, the others as for the parts beside it; off unless it is asked for."""
    flags = ["--cluster", "lab", "--cluster-address", "unix:/s", "--server-addresses", "a:1"]
    assert not load_config(ClusterAgentConfig, flags, {}).agent.enabled
    more = ["--agent-enabled=true", "--agent-metrics=kubelet-page", "--agent-scaling-hold-s=7", "--installation=two"]
    config = load_config(ClusterAgentConfig, [*flags, *more], {})
    agent = agent_config(config, "unix:/p")
    assert config.agent.enabled
    assert (agent.metrics, agent.scaling, agent.sampler_address) == (
        "kubelet-page", AgentSettings(hold_s=7.0), "unix:/p",
    )  # fmt: skip
    assert (agent.cluster, agent.installation, agent.retry_most_s) == ("lab", "two", config.retry_most_s)


async def test_it_shrinks_a_pod_by_permits_of_the_sampler_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No leader is needed; its socket lies in a folder of this user alone, which goes with it."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    host = make_host("lab", LAB_NODES, speed=1.0, flush_interval_s=0.002)
    async with serve_cluster(host, f"unix:{tmp_path / 's'}") as address, asyncio.timeout(50):
        clock = asyncio.ensure_future(host.run())
        cluster = open_cluster(address, installation="argosy")
        scaler = open_scaler(f"simulated:{address}", installation="argosy", metrics="metrics-api")
        pod = make_pod(run_time="1h", **IDLE)
        created = await cluster.create_objects(make_create_batch([(1, 1)], bag=make_bag(pod)))
        uid = str(UUID(bytes=created.uid_column[0].tobytes()))
        config = ClusterAgentConfig(
            cluster="lab", cluster_address=f"simulated:{address}", server_addresses=("127.0.0.1:1",), drain_s=1.0,
            grpc=GrpcSettings(listen=f"unix:{tmp_path / 'health'}"),
            agent=AgentPart(enabled=True, metrics_interval_s=0.05),
        )  # fmt: skip
        life = Lifecycle("cluster agent", drain_s=1.0)
        living = asyncio.ensure_future(life.run(lambda life: start(life, config)))
        sizes: list[Amounts] = []
        async with aclosing(scaler.follow()) as batches:
            async for batch in batches:
                sizes += [one.actual for one in batch if isinstance(one, PodSeen) and one.uid == uid]
                if sizes and sizes[-1].fits(Amounts(500, GIB)):
                    break
        modes = modes_of_sockets(tmp_path)
        life.request_stop()
        await living
        clock.cancel()
        await scaler.close()
        await cluster.close()
    assert sizes[0].cpu_millicores > 500
    assert modes == [0o700]
    assert modes_of_sockets(tmp_path) == []

"""The sampler as a process: configuration, readiness, stopping."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from tests.unit.sampler.conftest import TIMEOUT_S, FakeLeader

from argosy_kube.simulated.faults import Fault
from argosy_kube.simulated.host import ClusterHost
from argosy_kube.simulated.server import serve_cluster
from argosy_runtime.lifecycle import Lifecycle
from argosy_sampler.__main__ import main
from argosy_sampler.app import start
from argosy_sampler.config import SamplerConfig
from argosy_testkit.in_process_cluster import InProcessCluster


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "cluster"),
        (["--cluster", "c", "--cluster-address", "unix:/s", "--server-addresses", "a:1", "--colour", "x"], "--colour"),
    ],
    ids=["nothing set", "unknown flag"],
)
def test_main_refuses_a_bad_configuration(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A configuration that cannot be is answered with status 2 and what is wrong."""
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


@pytest.fixture
async def address(host: ClusterHost, tmp_path: Path) -> AsyncGenerator[str, None]:
    """Serve the lab's cluster on a socket."""
    async with serve_cluster(host, f"unix:{tmp_path / 's'}") as listening:
        yield listening


async def test_process_serves_the_leader_and_stops_on_sigterm(address: str, leader: FakeLeader) -> None:
    """Started as a process it finds cluster and leader, and ends with status 0 when asked to."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "argosy_sampler", "--cluster", "lab", "--cluster-address", address),
        *("--server-addresses", leader.address, "--installation", "one", "--grpc-listen", "127.0.0.1:0"),
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        session = await leader.ready_session({(1, 1): "node-a"})
        await session.wait_free(node_a=3000)
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(TIMEOUT_S):
            _, log = await process.communicate()
        assert process.returncode == 0, log.decode()
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


async def test_health_follows_the_cluster_and_no_leader(host: ClusterHost) -> None:
    """A sampler whose cluster does not answer for long is not ready until it does; it permits whoever leads."""
    told: asyncio.Queue[bool] = asyncio.Queue()
    nobody = {"server_addresses": ("127.0.0.1:1",), "cluster_address": "unix:/unused"}
    config = SamplerConfig(cluster="lab", not_ready_after_s=0.1, retry_most_s=0.05, **nobody)
    life = Lifecycle("sampler", drain_s=1.0)
    async with asyncio.timeout(50), asyncio.TaskGroup() as group:
        group.create_task(
            life.run(lambda life: start(life, config, cluster=InProcessCluster(host, "one"), set_serving=told.put))
        )
        while not await told.get():  # on a busy machine the first answer may be late, too
            pass
        host.inject(Fault(kind="unavailable", count=1 << 30))
        while await told.get():
            pass
        host.engine.faults.take("unavailable", 1 << 30)
        while not await told.get():
            pass
        life.request_stop()

"""The executor as a process: configuration, readiness, stopping."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import grpc
import pytest
from tests.unit.executor.conftest import configure

from argosy_executor.__main__ import main
from argosy_executor.app import start
from argosy_kube.simulated.faults import Fault
from argosy_kube.simulated.host import ClusterHost
from argosy_kube.simulated.server import serve_cluster
from argosy_runtime.lifecycle import Lifecycle
from argosy_testkit.in_process_cluster import InProcessCluster

TIMEOUT_S = 50.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "cluster"),
        (["--cluster", "c", "--cluster-address", "unix:/s", "--server-addresses", "a:1", "--colour", "x"], "--colour"),
        (["--cluster", "c", "--cluster-address", "unix:/s", "--server-addresses", "a:1", "--call-count=0"], "above 0"),
    ],
    ids=["nothing set", "unknown flag", "no calls at all"],
)
def test_main_refuses_a_bad_configuration(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A configuration that cannot be is answered with status 2 and what is wrong."""
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


async def test_process_ends_where_the_kubeconfig_is_not_there(tmp_path: Path) -> None:
    """That is wrong configuration, and not a cluster to be waited for: status 2, and which file."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "argosy_executor", "--cluster", "lab", "--cluster-address", f"kubernetes:{tmp_path}/none"),
        *("--server-addresses", "127.0.0.1:1"),
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(TIMEOUT_S):
            _, log = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()
    assert process.returncode == 2
    assert f"there is no file {tmp_path}/none" in log.decode()


@pytest.fixture
async def address(host: ClusterHost, tmp_path: Path) -> AsyncGenerator[str, None]:
    """Serve the cluster on a socket."""
    async with serve_cluster(host, f"unix:{tmp_path / 's'}") as listening:
        yield listening


async def test_process_serves_the_leader_and_stops_on_sigterm(address: str, leader: Any, make_bag: Any) -> None:
    """Started as a process it finds cluster and leader, runs what it is given, and ends with status 0 when asked to."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "argosy_executor", "--cluster", "lab", "--cluster-address", address),
        *("--server-addresses", leader.address, "--installation", "one", "--grpc-listen", "127.0.0.1:0"),
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        session = await leader.next_session()
        await session.give([(1, 1)], make_bag())
        await session.wait_for(lambda: "RUNNING" in session.states.get((1, 1, 0), ()))
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(TIMEOUT_S):
            _, log = await process.communicate()
        assert process.returncode == 0, log.decode()
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


async def test_health_follows_the_session_and_the_cluster(host: ClusterHost, leader: Any) -> None:
    """An executor that no leader hears for long, or whose cluster does not answer, is not ready until that is over."""
    told: asyncio.Queue[bool] = asyncio.Queue()
    config = configure(leader.address, not_ready_after_s=0.1)
    life = Lifecycle("executor", drain_s=config.drain_s)
    async with asyncio.timeout(50), asyncio.TaskGroup() as group:
        group.create_task(
            life.run(lambda life: start(life, config, cluster=InProcessCluster(host, "one"), set_serving=told.put))
        )
        assert await told.get()
        session = await leader.next_session()
        leader.refusal = (grpc.StatusCode.UNAVAILABLE, "nobody leads")
        session.ended.set()
        assert not await told.get()
        leader.refusal = None
        assert await told.get()
        host.inject(Fault(kind="unavailable", count=1 << 30))
        assert not await told.get()
        host.engine.faults.take("unavailable", 1 << 30)
        assert await told.get()
        life.request_stop()

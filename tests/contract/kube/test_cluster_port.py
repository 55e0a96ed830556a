"""The contract of the cluster port, held by the simulated cluster in this process and in its own."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from argosy_core.errors import BackendUnavailable
from argosy_kube.port import Cluster, NodeDescription, Selector, WatchGone
from argosy_kube.simulated.__main__ import make_host
from argosy_kube.simulated.client import SimulatedCluster
from argosy_kube.simulated.faults import Fault
from argosy_kube.simulated.host import ClusterHost
from argosy_kube.simulated.inventory import format_nodes
from argosy_kube.simulated.server import serve_cluster
from argosy_kube.simulated.shared import SharedCluster
from argosy_testkit.cluster_contract import LAB_NODES, ClusterContract, make_create_batch
from argosy_testkit.fault_contract import FaultContract
from argosy_testkit.in_process_cluster import InProcessCluster

SPEED = 50.0


class InProcessLab:
    """A simulated cluster in this process."""

    def __init__(self, host: ClusterHost) -> None:
        """Wrap a running host."""
        self._host = host

    def open(self, installation: str) -> Cluster:
        """See ClusterLab."""
        return InProcessCluster(self._host, installation)

    async def put_node(self, node: NodeDescription) -> None:
        """See ClusterLab."""
        self._host.put_nodes((node,))

    async def remove_node(self, name: str) -> None:
        """See ClusterLab."""
        self._host.remove_node(name)

    async def add_unmanaged_pod(self, node: str, amounts: dict[str, int]) -> None:
        """See ClusterLab."""
        self._host.add_unmanaged_pods(node, amounts, 1)

    async def take_labels(self, run: tuple[int, int, int]) -> None:
        """See ClusterLab; a simulated cluster knows objects by their run and has no labels to take."""

    async def forget(self) -> None:
        """See ClusterLab; a simulated cluster begins where its clock stands."""

    async def inject(self, fault: Fault) -> None:
        """See FaultLab."""
        self._host.inject(fault)


class SocketLab:
    """A simulated cluster behind its local protocol."""

    def __init__(self, address: str) -> None:
        """Open connections to a server."""
        self._address = address
        self._opened: list[SimulatedCluster] = []
        self._control = self.open("lab")

    def open(self, installation: str) -> SimulatedCluster:
        """See ClusterLab."""
        self._opened.append(SimulatedCluster(self._address, installation=installation))
        return self._opened[-1]

    async def close(self) -> None:
        """Close every connection."""
        for cluster in self._opened:
            await cluster.close()

    async def put_node(self, node: NodeDescription) -> None:
        """See ClusterLab."""
        await self._control.put_nodes((node,))

    async def remove_node(self, name: str) -> None:
        """See ClusterLab."""
        await self._control.remove_node(name)

    async def add_unmanaged_pod(self, node: str, amounts: dict[str, int]) -> None:
        """See ClusterLab."""
        await self._control.add_unmanaged_pods(node, amounts, 1)

    async def take_labels(self, run: tuple[int, int, int]) -> None:
        """See ClusterLab; a simulated cluster knows objects by their run and has no labels to take."""

    async def forget(self) -> None:
        """See ClusterLab; a simulated cluster begins where its clock stands."""

    async def inject(self, fault: Fault) -> None:
        """See FaultLab."""
        await self._control.inject(fault)


class TestInProcessCluster(ClusterContract, FaultContract):
    """The simulated cluster without a socket."""

    @pytest.fixture
    async def lab(self) -> AsyncGenerator[InProcessLab, None]:
        """Run a host for one test."""
        host = make_host("lab", LAB_NODES, speed=SPEED, flush_interval_s=0.005)
        async with asyncio.TaskGroup() as group:
            clock = group.create_task(host.run())
            yield InProcessLab(host)
            clock.cancel()


class TestSocketCluster(ClusterContract, FaultContract):
    """The simulated cluster behind its local protocol."""

    @pytest.fixture
    async def lab(self, tmp_path: Path) -> AsyncGenerator[SocketLab, None]:
        """Run a server for one test."""
        host = make_host("lab", LAB_NODES, speed=SPEED, flush_interval_s=0.005)
        async with serve_cluster(host, f"unix:{tmp_path / 's'}") as address:
            lab = SocketLab(address)
            yield lab
            await lab.close()


class SharedLab(SocketLab):
    """A simulated cluster whose objects are watched once, together with a reader of every pod."""

    def open(self, installation: str) -> Any:
        """See ClusterLab."""
        self._opened.append(SharedCluster(self._address, installation=installation))
        return self._opened[-1]


class TestSharedCluster(ClusterContract):
    """What is shared is the same port."""

    @pytest.fixture
    async def lab(self, tmp_path: Path) -> AsyncGenerator[SharedLab, None]:
        """Run a server for one test."""
        host = make_host("lab", LAB_NODES, speed=SPEED, flush_interval_s=0.005)
        async with serve_cluster(host, f"unix:{tmp_path / 's'}") as address:
            lab = SharedLab(address)
            lab._control = SocketLab.open(lab, "lab")
            yield lab
            await lab.close()


@pytest.fixture
def nodes_file(tmp_path: Path) -> Path:
    """Write the lab's nodes to a file."""
    path = tmp_path / "nodes.json"
    path.write_bytes(format_nodes(LAB_NODES))
    return path


async def start_process(nodes_file: Path, listen: str) -> tuple[asyncio.subprocess.Process, str]:
    """Start a simulated cluster as a process of its own; return it and its address."""
    command = ["-m", "argosy_kube.simulated", "--name", "lab", "--nodes", str(nodes_file), "--flush-ms", "5"]
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command, "--listen", listen, "--speed", str(SPEED), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    line = (await process.stdout.readline()).decode()
    return process, line.removeprefix("listening on ").strip()


async def test_process_killed_loses_its_pods_and_keeps_its_uid(nodes_file: Path) -> None:
    """A cluster that is killed is the same cluster when it is back, without pods, and old versions are gone."""
    process, address = await start_process(nodes_file, "127.0.0.1:0")
    async with SimulatedCluster(address, installation="one") as cluster:
        uid = await cluster.cluster_uid()
        await cluster.create_objects(make_create_batch([(11, 1)]))
        listing = await cluster.list_objects(Selector.OURS)
        assert len(listing) == 1
        process.kill()
        await process.communicate()
        with pytest.raises(BackendUnavailable):
            await cluster.list_objects(Selector.OURS)
        process, _ = await start_process(nodes_file, address)
        assert await cluster.cluster_uid() == uid
        assert len(await cluster.list_objects(Selector.OURS)) == 0
        with pytest.raises(WatchGone):
            await anext(cluster.watch_objects(Selector.OURS, listing.version))
        process.terminate()
        await process.communicate()
        assert process.returncode == 0

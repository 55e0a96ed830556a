"""Two pools on one cluster: two leaders, one sampler, one executor (seed 000); one leader is killed in the middle."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from argosy_client import ArgosyClient, JobDraft, Queue
from argosy_core.errors import NotAllowedNow
from argosy_kube.simulated.client import SimulatedCluster
from argosy_local.compose import UNCAPPED, ClusterPlan, MeshPlan
from argosy_local.mesh import Mesh
from argosy_local.processes import ProcessId, end_process, free_ports, is_alive, signal_process, spawn

pytestmark = pytest.mark.timeout(240)

CORES = 8
END_S = 100.0
JOBS = 60
"""Per pool, a core each: together far more than fits at once."""
QUICK = ("--leader-lease-s", "1.5", "--leader-heartbeat-s", "0.5", "--leader-fence-s", "3")
POD = json.dumps(
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "main", "annotations": {"argosy.dev/simulated-run-time": "0.2s-0.5s"}},
        "spec": {
            "containers": [{"name": "main", "image": "i", "resources": {"requests": {"cpu": "1", "memory": "64Mi"}}}]
        },
    }
)


class Leader:
    """The leader of pool gpu, which the mesh does not know of."""

    def __init__(self, mesh: Mesh, directory: Path) -> None:
        """Start the process."""
        address = f"127.0.0.1:{free_ports(1)[0]}"
        self._arguments = [
            *(sys.executable, "-m", "argosy_server", "--role", "leader", "--pool", "gpu", "--grpc-listen", address),
            *("--database-url", mesh.database_url, *QUICK),
        ]
        self._log = directory / "gpu.log"
        self.process: ProcessId = spawn(self._arguments, log=self._log)

    def kill(self) -> None:
        """Kill the process as a crash would, and start another one."""
        signal_process(self.process, signal.SIGKILL)
        self.process = spawn(self._arguments, log=self._log)


@pytest.fixture(scope="module", name="mesh")
def running_mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mesh]:
    """One cluster of two nodes, whose sampler and executor serve two pools."""
    pools = ("--pools", "default,gpu")
    plan = MeshPlan(
        clusters=(ClusterPlan(name="c1", kinds=f"2:cpu={CORES // 2},memory=16Gi"),),
        flags={"server": (*QUICK, *UNCAPPED["server"]), "sampler": pools, "executor": pools},
    )
    mesh = Mesh(tmp_path_factory.mktemp("pools") / "mesh")
    mesh.up(plan)
    try:
        yield mesh
    finally:
        mesh.down()


async def _create_queue(client: ArgosyClient, pool: str) -> None:
    """Make a queue of a pool as soon as its first leader has come."""
    async with asyncio.timeout(END_S):
        while True:
            with contextlib.suppress(NotAllowedNow):
                await client.create_queue(Queue(name=f"of-{pool}", weight=1.0, pool=pool))
                return
            await asyncio.sleep(0.05)


async def _submit(client: ArgosyClient, queue: str, first: int, count: int) -> None:
    numbers = range(first, first + count)
    await client.submit(
        [JobDraft(queue=queue, job_set="s", manifests=(POD,), client_id=f"{queue}-{n}") for n in numbers]
    )


async def _follow(client: ArgosyClient, queue: str) -> list[str]:
    """Return the events of a queue's job set until all its jobs have ended, as `kind job attempt`."""
    return [
        f"{event.kind} {event.job_id} {event.attempt}"
        async for batch in client.watch(queue, "s", until_finished=True)
        for event in batch.events
    ]


async def test_two_leaders_share_a_cluster_and_one_may_die(mesh: Mesh, tmp_path: Path) -> None:
    """Nothing leaks, nothing is over-committed, and the other pool goes on while one has no leader."""
    leader = Leader(mesh, tmp_path)
    cluster = SimulatedCluster(mesh.address("cluster-c1"), installation="argosy")
    try:
        async with ArgosyClient(mesh.server) as client:
            for pool in ("default", "gpu"):
                await _create_queue(client, pool)
                await _submit(client, f"of-{pool}", 0, JOBS)
            async with asyncio.timeout(END_S):
                while (await cluster.audit()).pods_created < 2 * CORES:  # noqa: ASYNC110 - only the cluster tells
                    await asyncio.sleep(0.05)
            leader.kill()
            events = await asyncio.gather(*(_follow(client, f"of-{pool}") for pool in ("default", "gpu")))
            listed = [one async for one in client.list_clusters()]
        audit = await cluster.audit()
    finally:
        await cluster.close()
        if is_alive(leader.process):
            end_process(leader.process)
    for pool_events in events:
        ended = [event for event in pool_events if event.split()[0].upper().endswith("SUCCEEDED")]
        assert len(ended) == len({event.split()[1] for event in ended}) == JOBS
    assert [one.pools for one in listed] == [("default", "gpu")]
    assert (audit.overcommits, audit.double_runs, audit.pods_running, audit.pods_succeeded) == (0, 0, 0, 2 * JOBS)

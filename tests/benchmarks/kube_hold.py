"""Many pods alive at once on real API servers, made by the whole mesh: what executors and samplers keep of them.

Jobs come as fast as they are taken and run without end, so their pods pile up until all of them run. Then memory is
read; executors and samplers are killed and started again, so that they list everything anew; a few jobs more show that
they are at work; all jobs are cancelled. etcd and the API servers have one core, everything else the others. Prints one
line of JSON; memory is in MiB, `peak` the most a process ever had.

Usage: python tests/benchmarks/kube_hold.py [--pods 50000] [--nodes 2000] [--clusters 1] [--cancel-s 60]
"""

from __future__ import annotations

import argparse
import asyncio
import math
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from kube_world import NEVER, PodTimes, clusters_of, create_queues, mesh_on, poll, rate_of, report, submit, tell
from testbed.cluster import KubeApi

from argosy_client import ArgosyClient, JobSelector
from argosy_core.reconcile.rendering import JOB_LABEL
from argosy_local.mesh import Mesh
from argosy_workload.load import MeshLoad

SLOWEST_PER_S = 60.0
"""Pods per second below which a run is given up."""
MORE_COUNT = 100
"""Jobs after the restart."""
SETTLE_S = 5.0
"""Time between the last pod and the reading of memory, seconds."""
LOAD = MeshLoad(queue_count=10, class_count=10, unique_ratio=0.0, base_memory_bytes=2**30, run_time=NEVER)


class Hold:
    """One run on clusters and a mesh that are up.

    Args:
        mesh: The mesh.
        clusters: Its clusters.
        options: The command line.
    """

    def __init__(self, mesh: Mesh, clusters: Sequence[KubeApi], options: argparse.Namespace) -> None:
        """Prepare."""
        self._mesh = mesh
        self._clusters = clusters
        self._options = options
        self._times = [PodTimes(cluster) for cluster in clusters]

    async def all_phases(self) -> dict[str, Any]:
        """Run every phase and return the figures."""
        await create_queues(self._mesh.server, LOAD)
        async with self._followed():
            result = await self._fill()
            result["restarted"] = await self._restart()
            result["cancelled"] = await self._cancel()
        return result

    @asynccontextmanager
    async def _followed(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(times.follow(JOB_LABEL)) for times in self._times]
            yield
            for task in tasks:
                task.cancel()

    @property
    def _present_count(self) -> int:
        return sum(len(times.present) for times in self._times)

    async def _await_running(self, count: int) -> None:
        def is_done() -> bool:
            return sum(len(times.running_s) for times in self._times) >= count

        await poll(is_done, f"{count} pods to run", longest_s=60.0 + count / SLOWEST_PER_S)

    async def _fill(self) -> dict[str, Any]:
        """Submit all jobs and wait until their pods run."""
        count, began_s = self._options.pods, time.time()
        before, server_before_s = self._mesh.cpu_seconds(), self._server_cpu_s()
        await submit(self._mesh.server, LOAD, count, seed=2)
        tell(f"{count} jobs taken in {time.time() - began_s:.1f} s")
        await self._await_running(count)
        after = self._mesh.cpu_seconds()
        await asyncio.sleep(SETTLE_S)
        running_s = [at_s for times in self._times for at_s in times.running_s.values()]
        found = {
            "pods_present": self._present_count,
            "created_per_s": round(rate_of([at_s for times in self._times for at_s in times.created_s.values()]), 1),
            "all_running_after_s": round(max(running_s) - began_s, 1),
            "api_server_cores": round((self._server_cpu_s() - server_before_s) / (time.time() - began_s), 2),
            "cpu_us_per_job": {role: round(1e6 * (after[role] - before[role]) / count) for role in after},
            "memory_mib": self._memory(),
        }
        tell(str(found))
        return found

    async def _restart(self) -> dict[str, Any]:
        """Kill executors and samplers, start them again, and have them run some jobs more."""
        roles = [role for role in self._mesh.roles if role.startswith(("executor-", "sampler-", "combined-"))]
        for role in roles:
            await asyncio.to_thread(self._mesh.kill, role)
        began_s = time.monotonic()
        for role in roles:
            await asyncio.to_thread(self._mesh.start, role)
        await submit(self._mesh.server, LOAD, MORE_COUNT, seed=3)
        await self._await_running(self._options.pods + MORE_COUNT)
        found = {
            "more_jobs_running_after_s": round(time.monotonic() - began_s, 1),
            "pods_present": self._present_count,
            "memory_mib": {role: sizes for role, sizes in self._memory().items() if role in roles},
        }
        tell(str(found))
        return found

    async def _cancel(self) -> dict[str, Any]:
        """Cancel all jobs and see their pods go, all or as many as go in the time given."""
        present_count, began_s = self._present_count, time.monotonic()
        before, server_before_s = self._mesh.cpu_seconds(), self._server_cpu_s()
        async with ArgosyClient(self._mesh.server, timeout_s=120.0) as client:
            for queue in LOAD.queues():
                await client.cancel_jobs(JobSelector(queue=queue.name), reason="measured")
        requested_s = time.monotonic() - began_s
        with suppress(TimeoutError):
            async with asyncio.timeout(self._options.cancel_s):
                await poll(lambda: not self._present_count, "the pods to go", longest_s=math.inf)
        passed_s = time.monotonic() - began_s
        after = self._mesh.cpu_seconds()
        return {
            "requested_after_s": round(requested_s, 1),
            "gone_per_s": round((present_count - self._present_count) / passed_s, 1),
            "left": self._present_count,
            "api_server_cores": round((self._server_cpu_s() - server_before_s) / passed_s, 2),
            "cores": {role: round((after[role] - before[role]) / passed_s, 2) for role in after},
            "memory_mib": self._memory(),
        }

    def _server_cpu_s(self) -> float:
        """Return the CPU time that all etcds and API servers have used."""
        programs = [program for cluster in self._clusters for program in cluster.control_plane.programs[:2]]
        return sum(program.cpu_s for program in programs)

    def _memory(self) -> dict[str, dict[str, int]]:
        """Return memory by role; of the control planes, that of the first cluster's."""
        sizes = {}
        for role in self._mesh.roles:
            used = self._mesh.usage(role)
            sizes[role] = {"now": used.rss_bytes >> 20, "peak": used.peak_rss_bytes >> 20}
        for program in self._clusters[0].control_plane.programs[:2]:
            sizes[program.name] = {"now": program.rss_bytes >> 20}
        return sizes


def main() -> None:
    """Run and print one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=50_000, help="pods alive at once, all clusters together")
    parser.add_argument("--nodes", type=int, default=2000, help="nodes of each cluster, 32 cores each")
    parser.add_argument("--clusters", type=int, default=1)
    parser.add_argument("--cancel-s", type=float, default=60.0, help="longest wait for cancelled pods to go")
    parser.add_argument("--combined", action="store_true", help="sampler and executor in one process")
    options = parser.parse_args()
    if options.pods + MORE_COUNT > 32 * options.nodes * options.clusters:
        parser.error(f"{options.pods} pods of one core do not fit; name more --nodes")
    with (
        clusters_of(options.clusters, options.nodes, is_pinned=True) as clusters,
        mesh_on(clusters, is_combined=options.combined) as mesh,
    ):
        figures = asyncio.run(Hold(mesh, clusters, options).all_phases())
    report({"pods": options.pods, "nodes": options.nodes, "clusters": options.clusters, **figures})


if __name__ == "__main__":
    main()

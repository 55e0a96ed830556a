"""Jobs through the whole mesh onto real API servers, against the bare ceiling of the same servers in the same run.

etcd and the API servers have one core in both; clients, mesh, kubelets and this program share the others. Phases: a job
to see what our pods look like; bare creates of copies of it by a plain client; a burst of jobs, for pods per second;
the bare creates again; jobs at a steady rate, for latencies that are not those of a queue. Prints one line of JSON.

Usage: python tests/benchmarks/kube_mesh.py [--nodes 1000] [--clusters 1] [--jobs 10000] [--steady-rate 150]
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
from kube_world import (
    NEVER,
    PodTimes,
    clusters_of,
    counts_per_pod,
    create_bare,
    create_queues,
    delete_all_pods,
    mesh_on,
    poll,
    quantiles,
    rate_of,
    report,
    server_counts,
    submit,
    tell,
)
from testbed.cluster import KubeApi

from argosy_client import ArgosyClient, JobSelector
from argosy_core.reconcile.rendering import JOB_LABEL
from argosy_local.mesh import Mesh
from argosy_testkit.fake_kubelet.api import Api
from argosy_workload.load import MeshLoad

LONGEST_S = 600.0
_OURS = "/api/v1/pods?limit=1&labelSelector=argosy.dev/installation=argosy"
_OWN = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "name")


def load_of(run_time: str) -> MeshLoad:
    """Return jobs of one core, ten queues and as many classes, all run for the same time."""
    return MeshLoad(
        queue_count=10,
        class_count=10,
        unique_ratio=0.0,
        base_memory_bytes=2**30,
        run_time=run_time,
    )


class Run:
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
        self._nodes = [[f"c{number}-node-{index}" for index in range(options.nodes)] for number in range(len(clusters))]

    async def all_phases(self) -> dict[str, Any]:
        """Run every phase and return the figures."""
        await create_queues(self._mesh.server, load_of(NEVER))
        template = await self._template()
        result: dict[str, Any] = {"ceiling_before_per_s": await self._bare(template, "before")}
        result["burst"] = await self._burst()
        result["memory_at_end_of_burst"] = self._memory()
        before = await server_counts(self._clusters)
        await self._clear()
        result["cancel_server_per_pod"] = counts_per_pod(
            before, await server_counts(self._clusters), self._options.jobs
        )
        result["ceiling_after_per_s"] = await self._bare(template, "after")
        ceiling_per_s = max(result["ceiling_before_per_s"], result["ceiling_after_per_s"])
        result["ratio_of_ceiling"] = round(result["burst"]["created_per_s"] / ceiling_per_s, 3)
        if self._options.steady_rate:
            result["steady"] = await self._steady()
        return result

    async def _follow(self, group: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        self._times = [PodTimes(cluster) for cluster in self._clusters]
        tasks = [group.create_task(times.follow(JOB_LABEL)) for times in self._times]
        await asyncio.sleep(0.5)
        return tasks

    async def _template(self) -> dict[str, Any]:
        """Return a pod of ours as it was created, from one that runs, and let it go."""
        load = load_of("1s")
        await submit(self._mesh.server, MeshLoad(**{**_fields(load), "batch_size": 1}), 1, seed=1)
        for _ in range(600):
            for cluster in self._clusters:
                async with Api(cluster.url, cluster.token, cluster.ca) as api:
                    items = msgspec.json.decode(await api.get("/api/v1/pods"))["items"]
                for pod in items:
                    if JOB_LABEL in pod["metadata"].get("labels", {}):
                        await self._clear()
                        return _as_created(pod)
            await asyncio.sleep(0.1)
        raise SystemExit("the first job made no pod")

    async def _bare(self, template: dict[str, Any], prefix: str) -> float:
        """Return pods per second of bare clients, all clusters together, seen as those of the mesh are."""
        count = self._options.bare // len(self._clusters)
        async with asyncio.TaskGroup() as group:
            watches = await self._follow(group)
            async with asyncio.TaskGroup() as creators:
                for cluster, nodes in zip(self._clusters, self._nodes, strict=True):
                    creators.create_task(create_bare(cluster, template, count, nodes, prefix=f"bare-{prefix}"))
            await self._await_running(count * len(self._clusters))
            for watch in watches:
                watch.cancel()
        per_s = rate_of([at_s for times in self._times for at_s in times.created_s.values()])
        tell(f"bare creates {prefix}: {per_s:.0f}/s")
        await self._clear()
        return round(per_s, 1)

    async def _clear(self) -> None:
        """Cancel every job, since a pod that goes by itself is made again; then remove what is left."""
        async with ArgosyClient(self._mesh.server, timeout_s=60.0) as client:
            for queue in load_of(NEVER).queues():
                await client.cancel_jobs(JobSelector(queue=queue.name), reason="measured")
        for cluster in self._clusters:
            async with Api(cluster.url, cluster.token, cluster.ca) as api, asyncio.timeout(LONGEST_S):
                while True:
                    if not msgspec.json.decode(await api.get(_OURS))["items"]:
                        break
                    await asyncio.sleep(0.2)
            await delete_all_pods(cluster)

    async def _burst(self) -> dict[str, Any]:
        """Submit all jobs as fast as they are taken, and follow them until they run."""
        count = self._options.jobs
        async with asyncio.TaskGroup() as group:
            tasks = await self._follow(group)
            before, counts = self._mesh.cpu_seconds(), await server_counts(self._clusters)
            sent_s = await submit(self._mesh.server, load_of(NEVER), count, seed=2)
            tell(f"{len(sent_s)} jobs taken")
            await self._await_running(count)
            after = self._mesh.cpu_seconds()
            for task in tasks:
                task.cancel()
        return {
            **self._figures(sent_s),
            "cpu_us_per_job": _per_job(before, after, count),
            "server_per_pod": counts_per_pod(counts, await server_counts(self._clusters), count),
        }

    async def _steady(self) -> dict[str, Any]:
        """Submit at a steady rate."""
        rate, seconds = self._options.steady_rate, self._options.steady_s
        load = MeshLoad(**{**_fields(load_of(self._options.steady_run_time)), "batch_size": 10})
        count = int(rate * seconds) // 10 * 10
        async with asyncio.TaskGroup() as group:
            tasks = await self._follow(group)
            before = self._mesh.cpu_seconds()
            sent_s = await submit(self._mesh.server, load, count, seed=3, rate=rate)
            await self._await_running(count)
            after = self._mesh.cpu_seconds()
            for task in tasks:
                task.cancel()
        return {"offered_per_s": rate, **self._figures(sent_s), "cpu_us_per_job": _per_job(before, after, count)}

    async def _await_running(self, count: int) -> None:
        def is_done() -> bool:
            return sum(len(times.running_s) for times in self._times) >= count

        await poll(is_done, f"{count} pods to run", longest_s=LONGEST_S)

    def _figures(self, sent_s: dict[str, float]) -> dict[str, Any]:
        created_s = [at_s for times in self._times for at_s in times.created_s.values()]
        running_s = [at_s for times in self._times for at_s in times.running_s.values()]
        stages = {"created": "created_s", "bound": "bound_s", "running": "running_s"}
        waits = {
            stage: quantiles(
                [
                    at_s - sent_s[times.job_of[name]]
                    for times in self._times
                    for name, at_s in getattr(times, column).items()
                    if times.job_of.get(name) in sent_s
                ]
            )
            for stage, column in stages.items()
        }
        found = {
            "pods": len(created_s),
            "created_per_s": round(rate_of(created_s), 1),
            "running_per_s": round(rate_of(running_s), 1),
            "all_running_after_s": round(max(running_s) - min(sent_s.values()), 2),
            "submit_to_ms": waits,
        }
        tell(str(found))
        return found

    def _memory(self) -> dict[str, int]:
        """Return memory in use by role, bytes; those of the first cluster's control plane too."""
        parts = {program.name: program.rss_bytes for program in self._clusters[0].control_plane.programs[:2]}
        return {**{role: self._mesh.usage(role).rss_bytes for role in self._mesh.roles}, **parts}


def _fields(load: MeshLoad) -> dict[str, Any]:
    return {name: getattr(load, name) for name in load.__dataclass_fields__}


def _as_created(pod: dict[str, Any]) -> dict[str, Any]:
    """Return what was sent to create a pod, from the pod."""
    metadata = {key: value for key, value in pod["metadata"].items() if key not in _OWN}
    labels = {**metadata["labels"], JOB_LABEL: "bare", "argosy.dev/installation": "nobody"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        # A bare pod is nobody's, so that no executor takes it away, and its finalizer would keep it.
        "metadata": {**{key: value for key, value in metadata.items() if key != "finalizers"}, "labels": labels},
        "spec": {key: value for key, value in pod["spec"].items() if key != "nodeName"},
    }


def _per_job(before: dict[str, float], after: dict[str, float], count: int) -> dict[str, int]:
    return {role: round(1e6 * (after[role] - before.get(role, 0.0)) / count) for role in after}


def main() -> None:
    """Run and print one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1000, help="nodes of each cluster, 32 cores each")
    parser.add_argument("--clusters", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=10_000, help="jobs of the burst")
    parser.add_argument("--bare", type=int, default=5000, help="pods of each bare run, all clusters together")
    parser.add_argument("--steady-rate", type=float, default=150.0, help="jobs per second, 0 to leave that phase out")
    parser.add_argument("--steady-s", type=float, default=30.0)
    parser.add_argument("--steady-run-time", default="20s")
    parser.add_argument("--combined", action="store_true", help="sampler and executor in one process")
    parser.add_argument("--unpinned", action="store_true", help="let everything use every core")
    options = parser.parse_args()
    with (
        clusters_of(options.clusters, options.nodes, is_pinned=not options.unpinned) as clusters,
        mesh_on(clusters, is_combined=options.combined) as mesh,
    ):
        figures = asyncio.run(Run(mesh, clusters, options).all_phases())
    report({"nodes": options.nodes, "clusters": options.clusters, "jobs": options.jobs, **figures})


if __name__ == "__main__":
    main()

"""Pods bound per second by kube-scheduler and by Argosy, on a real API server, one after the other.

The same nodes and as many simple pods for both, waiting before each begins: pods without a node for kube-scheduler,
jobs without a sampler and an executor for Argosy. Counted from the first to the last pod with a node. kube-scheduler
binds pods that exist; Argosy creates its pods with their node, so its figure contains the creation. No kubelet takes
part, and each has all cores.

Usage: python tests/benchmarks/kube_scheduler.py [--nodes 1000] [--pods 3000]
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kube_world import (
    NEVER,
    PodTimes,
    clusters_of,
    create_bare,
    create_queues,
    plain_pod,
    poll,
    quantiles,
    rate_of,
    report,
    submit,
    tell,
)
from testbed.cluster import KubeApi

from argosy_core.reconcile.rendering import JOB_LABEL
from argosy_local.compose import ClusterPlan, MeshPlan
from argosy_local.mesh import Mesh
from argosy_workload.load import MeshLoad

LONGEST_S = 300.0


async def _watch_bindings(cluster: KubeApi, count: int, begin: Callable[[], Any]) -> dict[str, Any]:
    """Begin, and follow the pods until all are bound."""
    times = PodTimes(cluster)
    async with asyncio.TaskGroup() as group:
        watch = group.create_task(times.follow(JOB_LABEL))
        await asyncio.sleep(1.0)
        began_s = time.time()
        await asyncio.to_thread(begin)
        await poll(lambda: len(times.bound_s) >= count, "all pods to be bound", longest_s=LONGEST_S)
        watch.cancel()
    bound_s = sorted(times.bound_s.values())
    return {
        "pods_per_s": round((count - 1) / (bound_s[-1] - bound_s[0]), 1),
        "pods_per_s_of_the_middle": round(rate_of(bound_s), 1),
        "start_to_first_s": round(bound_s[0] - began_s, 2),
        "first_to_last_s": round(bound_s[-1] - bound_s[0], 2),
        "start_to_bound_ms": quantiles([at_s - began_s for at_s in bound_s]),
    }


def measure_scheduler(node_count: int, pod_count: int) -> dict[str, Any]:
    """Return what kube-scheduler does."""
    with clusters_of(1, node_count, is_pinned=False, has_kubelet=False) as (cluster,):
        created_per_s = asyncio.run(create_bare(cluster, plain_pod(), pod_count, (), prefix="plain"))
        tell(f"{pod_count} pods created, {created_per_s:.0f}/s; starting kube-scheduler")
        control_plane = cluster.control_plane
        found = asyncio.run(_watch_bindings(cluster, pod_count, control_plane.start_scheduler))
        return {**found, "created_per_s": round(created_per_s, 1), "rss_bytes": control_plane.scheduler.rss_bytes}


def measure_argosy(node_count: int, pod_count: int) -> dict[str, Any]:
    """Return what a mesh does."""
    load = MeshLoad(queue_count=1, class_count=1, unique_ratio=0.0, base_memory_bytes=2**30, run_time=NEVER)
    with (
        clusters_of(1, node_count, is_pinned=False, has_kubelet=False) as (cluster,),
        tempfile.TemporaryDirectory(prefix="argosy-bench-mesh-") as folder,
        Mesh(Path(folder) / "mesh") as mesh,
    ):
        mesh.up(MeshPlan(clusters=(ClusterPlan(name="k0", address=f"kubernetes:{cluster.kubeconfig}"),)))
        for role in ("executor-k0", "sampler-k0"):
            mesh.kill(role, signal.SIGTERM)
        asyncio.run(create_queues(mesh.server, load))
        asyncio.run(submit(mesh.server, load, pod_count))
        tell(f"{pod_count} jobs submitted; starting sampler and executor")
        before_s = mesh.cpu_seconds()

        def begin() -> None:
            for role in ("sampler-k0", "executor-k0"):
                mesh.start(role)

        found = asyncio.run(_watch_bindings(cluster, pod_count, begin))
        used_s = mesh.cpu_seconds()
        return {
            **found,
            "cpu_us_per_pod": {
                role: round(1e6 * (used_s[role] - before_s.get(role, 0.0)) / pod_count) for role in mesh.roles
            },
            "rss_bytes": {role: mesh.usage(role).rss_bytes for role in mesh.roles},
        }


def main() -> None:
    """Measure both and print one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=3000)
    parser.add_argument("--only", choices=["kube-scheduler", "argosy"], help="measure one of them")
    options = parser.parse_args()
    result: dict[str, Any] = {"nodes": options.nodes, "pods": options.pods}
    if options.only != "argosy":
        result["kube-scheduler"] = measure_scheduler(options.nodes, options.pods)
        tell(f"kube-scheduler: {result['kube-scheduler']}")
    if options.only != "kube-scheduler":
        result["argosy"] = measure_argosy(options.nodes, options.pods)
        tell(f"Argosy: {result['argosy']}")
    report(result)


if __name__ == "__main__":
    main()

"""What the benchmarks against a real API server share: pinned clusters, a watcher of pods, bare creates.

etcd and the API servers of all clusters have the first core to themselves; everything else, this program and all it
starts included, has the others. So a figure of ours and the bare ceiling beside it are both bounded by that one core.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import grpc
import msgspec
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "testbed"))

from testbed.cluster import KubeApi
from testbed.kubernetes import ControlPlaneOptions

from argosy.api.v1 import job_pb2
from argosy_client import ArgosyClient, Queue
from argosy_core.errors import BackendUnavailable, OutOfRange
from argosy_local.compose import ClusterPlan, MeshPlan
from argosy_local.load_generator import request_bytes
from argosy_local.mesh import Mesh
from argosy_testkit.fake_kubelet.api import Api
from argosy_workload.load import MeshLoad
from testbed import reaper

__all__ = [
    "NEVER",
    "PodTimes",
    "clusters_of",
    "counts_per_pod",
    "create_bare",
    "create_queues",
    "delete_all_pods",
    "mesh_on",
    "plain_pod",
    "poll",
    "quantiles",
    "rate_of",
    "report",
    "server_counts",
    "submit",
    "tell",
]

NEVER = "24h"
"""Run time of pods that shall still be there at the end."""
_PODS = "/api/v1/pods?limit=0"
_IN_FLIGHT = 64


def tell(line: str) -> None:
    """Say what happens, beside the result."""
    sys.stderr.write(f"[{time.strftime('%H:%M:%S')}] {line}\n")


@contextmanager
def clusters_of(
    count: int, node_count: int, *, is_pinned: bool, has_kubelet: bool = True, node_cpu: str = "32"
) -> Iterator[list[KubeApi]]:
    """Give clusters with nodes that are ready, and end them.

    Args:
        count: Clusters.
        node_count: Nodes of each.
        is_pinned: Keep the first core for the API servers and their etcd, and this process off it.
        has_kubelet: Start the fake kubelet; without one, pods stay as they were bound.
        node_cpu: CPU of a node; memory is 4 GiB for each.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("told to end"))  # in order, so that nothing is left behind
    cores = sorted(os.sched_getaffinity(0))
    prefix: tuple[str, ...] = ()
    if is_pinned:
        if len(cores) < 2:
            raise BackendUnavailable("pinning needs two cores")
        prefix = ("taskset", "--cpu-list", str(cores[0]))
        os.sched_setaffinity(0, cores[1:])
    directory = Path(tempfile.mkdtemp(prefix="argosy-bench-"))
    reaper.watch("folder", directory)
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        stack.callback(reaper.dismiss)
        stack.callback(reaper.release, "folder", directory)
        clusters = []
        for number in range(count):
            options = ControlPlaneOptions(has_controllers=False, prefix=prefix)
            cluster = KubeApi(directory / f"k{number}", options, heartbeat_s=0.0, tell=tell)
            stack.callback(cluster.stop)
            cluster.start()
            began_s = time.monotonic()
            cluster.add_nodes(node_count, prefix=f"c{number}-node", cpu=node_cpu, memory=f"{4 * int(node_cpu)}Gi")
            tell(f"cluster {number}: {node_count} nodes in {time.monotonic() - began_s:.1f} s")
            if not has_kubelet:
                cluster.kubelet.stop()
            clusters.append(cluster)
        yield clusters
    os.sched_setaffinity(0, cores)


async def poll(condition: Callable[[], bool], what: str, *, longest_s: float) -> None:
    """Wait until something is so; end the program if it never is."""
    deadline_s = time.monotonic() + longest_s
    while not condition():
        await asyncio.sleep(0.05)
        if time.monotonic() > deadline_s:
            raise SystemExit(f"waited {longest_s:g} s for {what}")


@contextmanager
def mesh_on(clusters: Sequence[KubeApi], *, is_combined: bool) -> Iterator[Mesh]:
    """Give a mesh, with a folder of its own, on clusters that it calls k0, k1, ..."""
    with tempfile.TemporaryDirectory(prefix="argosy-bench-mesh-") as folder, Mesh(Path(folder) / "mesh") as mesh:
        plans = [
            ClusterPlan(name=f"k{number}", address=f"kubernetes:{cluster.kubeconfig}")
            for number, cluster in enumerate(clusters)
        ]
        mesh.up(MeshPlan(clusters=tuple(plans), combined=is_combined))
        yield mesh


def quantiles(values: Sequence[float]) -> dict[str, float] | None:
    """Return median and 99th percentile of times in seconds, as milliseconds."""
    if not len(values):
        return None
    return {name: round(1000 * float(np.quantile(values, level)), 1) for name, level in (("p50", 0.5), ("p99", 0.99))}


_COUNTED = re.compile(
    r"^apiserver_(request_total|watch_events_total|watch_events_sizes_sum)\{(.*)\} ([0-9.e+]+)$", re.MULTILINE
)
_LABEL = re.compile(r'(\w+)="([^"]*)"')


async def server_counts(clusters: Sequence[KubeApi]) -> Counter[str]:
    """Return what API servers have counted of pods and nodes: calls by verb, watch events and their bytes."""
    found: Counter[str] = Counter()
    for cluster in clusters:
        async with Api(cluster.url, cluster.token, cluster.ca) as api:
            page = (await api.get("/metrics")).decode()
        for what, labels, value in _COUNTED.findall(page):
            of = dict(_LABEL.findall(labels))
            if of.get("resource") not in {"pods", "nodes"}:
                continue
            resource = "/".join(filter(None, (of["resource"], of.get("subresource"))))
            name = {"watch_events_total": "events", "watch_events_sizes_sum": "event bytes"}.get(what, of.get("verb"))
            found[f"{name} {resource}"] += round(float(value))
    return found


def counts_per_pod(before: Counter[str], after: Counter[str], pod_count: int) -> dict[str, float]:
    """Return, per pod, what came to the counts of API servers; whoever called, kubelets and benchmarks included."""
    added = {name: round((count - before[name]) / pod_count, 3) for name, count in after.items()}
    return {name: count for name, count in sorted(added.items()) if count > 0.0}


class _Metadata(msgspec.Struct, rename="camel"):
    name: str = ""
    resource_version: str = ""
    labels: dict[str, str] = {}


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _Status(msgspec.Struct):
    phase: str = "Pending"


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


class _List(msgspec.Struct):
    metadata: _Metadata
    items: list[_Pod]


_POD = msgspec.json.Decoder(_Pod)
_LIST = msgspec.json.Decoder(_List)


class PodTimes:
    """When the pods of a cluster were created, bound and running, as a watch of all pods tells.

    Args:
        cluster: The cluster.
    """

    def __init__(self, cluster: KubeApi) -> None:
        """Start with nothing seen."""
        self._cluster = cluster
        self.created_s: dict[str, float] = {}
        """Unix time of the first sight of a pod, by name."""
        self.bound_s: dict[str, float] = {}
        """The same, with a node."""
        self.running_s: dict[str, float] = {}
        """The same, running."""
        self.job_of: dict[str, str] = {}
        """Job id of a pod, by name, where it has one."""
        self.present: set[str] = set()
        """Pods that are there now."""

    async def follow(self, label: str) -> None:
        """Watch until cancelled.

        Args:
            label: Label that holds the job id.
        """
        cluster = self._cluster
        async with Api(cluster.url, cluster.token, cluster.ca) as api:
            version = await self._list(api, label)
            while True:
                try:
                    async for event in api.watch(_PODS, version):
                        pod = _POD.decode(event.object)
                        version = pod.metadata.resource_version
                        if event.type != "BOOKMARK":
                            self._see(pod, event.type, label)
                except OutOfRange:
                    version = await self._list(api, label)
                except BackendUnavailable:
                    await asyncio.sleep(0.1)

    async def _list(self, api: Api, label: str) -> str:
        found = _LIST.decode(await api.get(_PODS))
        self.present.clear()
        for pod in found.items:
            self._see(pod, "ADDED", label)
        return found.metadata.resource_version

    def _see(self, pod: _Pod, change: str, label: str) -> None:
        now_s, name = time.time(), pod.metadata.name
        if change == "DELETED":
            self.present.discard(name)
            return
        self.present.add(name)
        self.created_s.setdefault(name, now_s)
        if pod.spec.node_name:
            self.bound_s.setdefault(name, now_s)
        if pod.status.phase == "Running":
            self.running_s.setdefault(name, now_s)
        if label in pod.metadata.labels:
            self.job_of[name] = pod.metadata.labels[label]


def rate_of(times_s: Sequence[float]) -> float:
    """Return events per second between the first and the last twentieth, which are left out."""
    ordered = np.sort(np.asarray(times_s))
    edge = len(ordered) // 20
    inner = ordered[edge : len(ordered) - edge]
    return float((len(inner) - 1) / max(inner[-1] - inner[0], 1e-9)) if len(inner) > 1 else 0.0


async def create_bare(
    cluster: KubeApi, template: dict[str, Any], count: int, nodes: Sequence[str], *, prefix: str
) -> float:
    """Create copies of a pod as fast as a plain client can, on nodes in turn; return pods per second.

    Args:
        cluster: The cluster.
        template: The pod as it was created; name and node are replaced.
        count: How many.
        nodes: Nodes; empty creates pods without one.
        prefix: Begin of their names.
    """
    numbers = iter(range(count))
    times_s: list[float] = []

    async def create(api: Api) -> None:
        for number in numbers:
            document = {**template, "metadata": {**template["metadata"], "name": f"{prefix}-{number}"}}
            if nodes:
                document["spec"] = {**template["spec"], "nodeName": nodes[number % len(nodes)]}
            status, answer = await api.request("POST", "/api/v1/namespaces/default/pods", document)
            if status != 201:
                raise BackendUnavailable(f"bare create: {status} {answer[:300].decode(errors='replace')}")
            times_s.append(time.time())

    async with Api(cluster.url, cluster.token, cluster.ca) as api, asyncio.TaskGroup() as group:
        for _ in range(_IN_FLIGHT):
            group.create_task(create(api))
    return rate_of(times_s)


async def delete_all_pods(cluster: KubeApi) -> None:
    """Remove every pod at once, finalizers and all, and wait until the kubelet has seen it."""
    async with Api(cluster.url, cluster.token, cluster.ca) as api:
        found = msgspec.json.decode(await api.get(_PODS))["items"]
        gates = asyncio.Semaphore(_IN_FLIGHT)

        async def remove(pod: dict[str, Any]) -> None:
            path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
            async with gates:
                if pod["metadata"].get("finalizers"):
                    body = {"metadata": {"finalizers": None}}
                    await api.request("PATCH", path, body, content_type="application/merge-patch+json")
                await api.request("DELETE", path, {"gracePeriodSeconds": 0})

        await asyncio.gather(*map(remove, found))
    if cluster.kubelet.is_running:
        await poll(lambda: not cluster.kubelet.counts()["pods"], "the pods to go", longest_s=120.0)


def plain_pod(run_time: str = NEVER) -> dict[str, Any]:
    """Return a simple pod of one core."""
    requests = {"cpu": "1", "memory": "1Gi"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "plain", "annotations": {"argosy.dev/simulated-run-time": run_time}},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 5,
            "automountServiceAccountToken": False,
            "containers": [{"name": "main", "image": "none", "resources": {"requests": requests, "limits": requests}}],
        },
    }


async def submit(server: str, load: MeshLoad, count: int, *, seed: int = 0, rate: float = 0.0) -> dict[str, float]:
    """Submit jobs; return when each was sent, Unix time by job id.

    Args:
        server: host:port of the API.
        load: What the jobs look like; its queues are there.
        count: How many.
        seed: Of the load; another one gives other jobs.
        rate: Jobs per second, 0 for as fast as they are taken.
    """
    sent_s: dict[str, float] = {}
    batches = load.submissions(seed, prefix=f"kube-{seed}-")
    path = f"/{job_pb2.DESCRIPTOR.services_by_name['JobService'].full_name}/SubmitJobs"
    async with grpc.aio.insecure_channel(server) as channel:
        call: Any = channel.unary_unary(path, response_deserializer=job_pb2.SubmitJobsResponse.FromString)
        began_s = time.monotonic()
        for number in range(count // load.batch_size):
            if rate:
                await asyncio.sleep(max(began_s + number * load.batch_size / rate - time.monotonic(), 0.0))
            request = request_bytes(next(batches))
            at_s = time.time()
            answer = await call(request, timeout=60.0)
            sent_s.update(dict.fromkeys(answer.job_ids, at_s))
    return sent_s


async def create_queues(server: str, load: MeshLoad) -> None:
    """Make the queues of a load."""
    async with ArgosyClient(server, timeout_s=20.0) as client:
        for queue in load.queues():
            await client.create_queue(Queue(name=queue.name, weight=queue.weight))


def report(result: dict[str, Any]) -> None:
    """Print a result as one line of JSON."""
    sys.stdout.write(json.dumps(result) + "\n")
    sys.stdout.flush()

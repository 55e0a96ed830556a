"""Prints, as JSON, what durable permits cost: a sampler that notes them on the pods of a real API server.

Usage: python tests/benchmarks/permits_noted.py [--pin] [--pods PODS ...] [--plain]

The pods, nodes and agents are those of `permits.py`; the sampler is the service itself, with `permits.durable` unless
`--plain`. It is started twice: on pods without notes, and again after it was killed. Each time `told_s` is from the
first hello until every pod's permit was told, which waits for one note of each pod.

Then the figures are those of `permits.py`. `notes` are the notes that were written meanwhile, by the API server's
count, and `server_cores` the processors that it and etcd used.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import time
from contextlib import suppress
from multiprocessing.process import BaseProcess
from typing import Any
from uuid import UUID

import msgspec
import numpy as np
from kube_world import clusters_of, create_bare, report, server_counts, tell
from permits import AGENTS, PODS_A_NODE, SECONDS, UNIT, Agent, figures_of, measure
from testbed.cluster import KubeApi

from argosy_core.job.reading.scaling import MAXIMUM_ANNOTATION, MINIMUM_ANNOTATION
from argosy_local.processes import free_ports
from argosy_runtime.channel import ChannelCredentials, open_channel
from argosy_runtime.grpc_server import GrpcSettings
from argosy_runtime.lifecycle import Lifecycle
from argosy_sampler.app import start
from argosy_sampler.config import PermitConfig, SamplerConfig
from argosy_testkit.fake_kubelet.api import Api

_LONGEST_S = 300.0
_PODS = "/api/v1/pods?limit=0"


def _sample(config: SamplerConfig) -> None:
    asyncio.run(Lifecycle("sampler").run(lambda life: start(life, config)))


def _start_sampler(cluster: KubeApi, port: int, *, is_durable: bool) -> BaseProcess:
    """Start a sampler; the server that it dials does not exist, which permits do not need."""
    config = SamplerConfig(
        cluster="c",
        cluster_address=f"kubernetes:{cluster.kubeconfig}",
        server_addresses=("127.0.0.1:1",),
        permits=PermitConfig(rises_per_s=1000.0, durable=is_durable),
        grpc=GrpcSettings(listen=f"127.0.0.1:{port}"),
        log_level="error",
    )
    process = multiprocessing.get_context("spawn").Process(target=_sample, args=(config,))
    process.start()
    return process


async def _make_pods(cluster: KubeApi, count: int) -> tuple[str, np.ndarray]:
    """Make pods of one unit that may have eight; return the cluster's uid and theirs, node by node."""
    cpu, memory = f"{UNIT[0]}m", f"{UNIT[1]}"
    notes = {
        MINIMUM_ANNOTATION: f"cpu={cpu},memory={memory}",
        MAXIMUM_ANNOTATION: f"cpu={8 * UNIT[0]}m,memory={8 * UNIT[1]}",
    }
    container = {
        "name": "main",
        "image": "example.test/work:1",
        "resources": {"requests": {"cpu": cpu, "memory": memory}},
    }
    template = {
        "metadata": {"annotations": notes},
        "spec": {"containers": [container], "automountServiceAccountToken": False},
    }
    nodes = [f"c0-node-{number}" for number in range(count // PODS_A_NODE)]
    rate = await create_bare(cluster, template, count, nodes, prefix="pod")
    tell(f"{count} pods, {rate:.0f} a second")
    async with Api(cluster.url, cluster.token, cluster.ca) as api:
        pods = msgspec.json.decode(await api.get(_PODS))["items"]
        kept = msgspec.json.decode(await api.get("/api/v1/namespaces/kube-system"))
    pods.sort(key=lambda pod: pod["spec"]["nodeName"])
    raw = b"".join(UUID(pod["metadata"]["uid"]).bytes for pod in pods)
    return kept["metadata"]["uid"], np.frombuffer(raw, np.int64).reshape(-1, 2)


async def _dial(address: str, cluster_uid: str, uids: np.ndarray) -> list[Agent]:
    """Return agents that the sampler has welcomed, as soon as it serves."""
    agents = []
    for number, share in enumerate(np.array_split(uids, AGENTS)):
        deadline_s = time.monotonic() + _LONGEST_S
        while True:
            agent = Agent(open_channel(address, ChannelCredentials()), number + 1, share)
            with suppress(Exception):  # nobody listens yet, or the pods are not listed
                await agent.greet(cluster_uid)
                break
            if time.monotonic() > deadline_s:
                raise SystemExit("the sampler does not serve")
            await asyncio.sleep(0.05)
        agents.append(agent)
    return agents


class _Meter:
    """What the API server does from one reading to the next."""

    def __init__(self, cluster: KubeApi) -> None:
        self._cluster = cluster
        self._before = (0.0, 0.0, 0)

    async def read(self) -> dict[str, float]:
        """Return notes since the last reading, and processors used."""
        plane = self._cluster.control_plane
        counts = await server_counts([self._cluster])
        now = (time.monotonic(), plane.api_server.cpu_s + plane.etcd.cpu_s, counts["PATCH pods"])
        took_s, cpu_s, notes = (a - b for a, b in zip(now, self._before, strict=True))
        self._before = now
        return {"notes": notes, "server_cores": round(cpu_s / took_s, 2)}


async def _play(cluster: KubeApi, pods: int, seconds: float, *, is_durable: bool) -> None:
    cluster_uid, uids = await _make_pods(cluster, pods)
    meter = _Meter(cluster)
    for turn in ("first", "again"):
        (port,) = free_ports(1)
        sampler = _start_sampler(cluster, port, is_durable=is_durable)
        try:
            agents = await _dial(f"127.0.0.1:{port}", cluster_uid, uids)
            await meter.read()
            begun_s = time.monotonic()
            async with asyncio.TaskGroup() as group:
                told = [group.create_task(agent.join(is_held=True)) for agent in agents]
                beating = [group.create_task(agent.beat()) for agent in agents]
                await asyncio.wait(told, timeout=_LONGEST_S)
                found: dict[str, Any] = {"told_s": round(time.monotonic() - begun_s, 2), **await meter.read()}
                rate, waits = await measure(agents, seconds)
                found = {"told": found, **figures_of(rate, waits, seconds), **await meter.read()}
                for task in beating:
                    task.cancel()
            report({"pods": pods, "durable": is_durable, "sampler": turn, **found})
        finally:
            sampler.kill()
            sampler.join()


def main() -> None:
    """Measure each size in turn."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pods", type=int, nargs="+", default=[1000, 10_000])
    parser.add_argument("--seconds", type=float, default=SECONDS, help="how long each of the two rates is measured")
    parser.add_argument("--pin", action="store_true", help="keep the first core for the API server")
    parser.add_argument("--plain", action="store_true", help="without durable permits")
    options = parser.parse_args()
    for pods in options.pods:
        with clusters_of(1, pods // PODS_A_NODE, is_pinned=options.pin, has_kubelet=False, node_cpu="25") as (cluster,):
            asyncio.run(_play(cluster, pods, options.seconds, is_durable=not options.plain))


if __name__ == "__main__":
    main()

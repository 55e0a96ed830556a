"""Prints, as JSON, what the Kubernetes adapter makes of an API server: creates, lists, watches, deletes, memory.

Creates are compared with the bare ceiling: plain posts of bodies that were rendered before, as many in flight, in the
same run, in turns with the adapter. Memory is that of a process that lists and watches pods of a fake API server.

Usage: python tests/benchmarks/kube_adapter.py [--pods N] [--turns N] [--held-pods N] [--pin]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np

from argosy_core.reconcile import Deletes
from argosy_core.reconcile.rendering import BagTemplate, RunIdentity
from argosy_kube import KubernetesSettings
from argosy_kube.kubernetes.api.credentials import Credentials, CredentialSource
from argosy_kube.kubernetes.cluster import KubernetesCluster
from argosy_kube.kubernetes.ours.ownership import STORED_FINALIZER
from argosy_kube.port import CreateCode, DeleteCode, ObjectEvents, Selector
from argosy_testkit.cluster_batches import make_bag, make_create_batch, make_pod
from argosy_testkit.fake_kube_api import FakeKubeApi

IN_FLIGHT = 64
NODE = "bench-node"
SETTINGS = KubernetesSettings(requests_per_s=0.0, discover=False, concurrency=IN_FLIGHT)


def cpu_s() -> float:
    """Return the CPU time of this process."""
    return time.process_time()


def rss_mib() -> float:
    """Return the resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def rate(count: int, began_s: float, began_cpu_s: float) -> dict[str, float]:
    """Return how fast something went since it began."""
    elapsed_s = time.perf_counter() - began_s
    return {
        "per_s": round(count / elapsed_s, 1),
        "client_cpu_us_each": round((cpu_s() - began_cpu_s) / count * 1e6, 1),
        "elapsed_s": round(elapsed_s, 3),
    }


async def bare_creates(kubeconfig: Path, first: int, count: int) -> dict[str, float]:
    """Post bodies that were rendered before, with nothing around them."""
    credentials = Credentials(CredentialSource(path=str(kubeconfig)))
    endpoint, authorization = await credentials.endpoint(), await credentials.authorization()
    bag = BagTemplate(make_bag(make_pod()))
    bodies = []
    for handle in range(first, first + count):
        run = RunIdentity(
            installation="bare", handle=handle, ordinal=1, id_high=7, queue="queue", job_set="set", node=NODE
        )
        manifest = bag.render(0, run)
        manifest["metadata"]["finalizers"] = [STORED_FINALIZER]
        bodies.append(json.dumps(manifest).encode())
    rest = iter(bodies)
    url = f"{endpoint.url}/api/v1/namespaces/default/pods"
    connector = aiohttp.TCPConnector(limit=0, ssl=endpoint.ssl_context if endpoint.ssl_context is not None else True)
    headers = {"Authorization": authorization or "", "Content-Type": "application/json"}
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:

        async def work() -> None:
            for body in rest:
                async with session.post(url, data=body) as response:
                    await response.read()
                    assert response.status == 201, await response.text()

        began_s, began_cpu_s = time.perf_counter(), cpu_s()
        async with asyncio.TaskGroup() as group:
            for _ in range(IN_FLIGHT):
                group.create_task(work())
        return rate(count, began_s, began_cpu_s)


async def make_bench_node(kubeconfig: Path) -> None:
    """Make the node that pods are bound to; nothing runs on it."""
    credentials = Credentials(CredentialSource(path=str(kubeconfig)))
    endpoint, authorization = await credentials.endpoint(), await credentials.authorization()
    ssl_context = endpoint.ssl_context if endpoint.ssl_context is not None else True
    async with aiohttp.ClientSession(headers={"Authorization": authorization or ""}) as session:
        node = {"metadata": {"name": NODE}}
        async with session.post(f"{endpoint.url}/api/v1/nodes", json=node, ssl=ssl_context) as response:
            assert response.status == 201, await response.text()


async def adapter_creates(cluster: KubernetesCluster, first: int, count: int) -> dict[str, float]:
    """Create as executors do."""
    batch = make_create_batch([(handle, 1) for handle in range(first, first + count)], nodes=(NODE,))
    began_s, began_cpu_s = time.perf_counter(), cpu_s()
    result = await cluster.create_objects(batch)
    figures = rate(count, began_s, began_cpu_s)
    assert (result.code_column == CreateCode.CREATED).all(), result.messages
    return figures


async def adapter_deletes(cluster: KubernetesCluster, listed: ObjectEvents) -> dict[str, float]:
    """Delete everything that was listed."""
    batch = Deletes(
        uid_column=listed.uid_column,
        kind_column=listed.kind_column,
        handle_column=listed.handle_column,
        ordinal_column=listed.ordinal_column,
        object_column=listed.object_column,
        kinds=listed.kinds,
    )
    began_s, began_cpu_s = time.perf_counter(), cpu_s()
    result = await cluster.delete_objects(batch)
    figures = rate(len(batch), began_s, began_cpu_s)
    assert (result.code_column == DeleteCode.DELETED).all()
    return figures


async def replay(cluster: KubernetesCluster, version: int, count: int) -> dict[str, float]:
    """Watch from an old version until so many events came."""
    began_s, began_cpu_s, seen = time.perf_counter(), cpu_s(), 0
    watch = cluster.watch_objects(Selector.ALL_PODS, version)
    async for events in watch:
        seen += len(events)
        if seen >= count:
            break
    await watch.aclose()
    return rate(seen, began_s, began_cpu_s)


async def measure_server(kubeconfig: Path, pods: int, turns: int) -> dict[str, Any]:
    """Measure calls on a real API server."""
    figures: dict[str, Any] = {"pods_each_turn": pods, "in_flight": IN_FLIGHT, "bare": [], "adapter": []}
    source = CredentialSource(path=str(kubeconfig))
    await make_bench_node(kubeconfig)
    async with KubernetesCluster(source, installation="bench", call_timeout_s=600, settings=SETTINGS) as cluster:
        version = (await cluster.list_objects(Selector.ALL_PODS)).version
        await adapter_creates(cluster, 10_000_000, 300)
        await bare_creates(kubeconfig, 20_000_000, 300)
        for turn in range(turns):
            order: list[Callable[[], Any]] = [
                lambda first=turn * pods + 1: bare_creates(kubeconfig, first + 30_000_000, pods),
                lambda first=turn * pods + 1: adapter_creates(cluster, first, pods),
            ]
            names = ["bare", "adapter"]
            for index in (0, 1) if turn % 2 == 0 else (1, 0):
                figures[names[index]].append(await order[index]())
        best = {name: np.median([entry["per_s"] for entry in figures[name]]) for name in ("bare", "adapter")}
        figures["ratio_of_medians"] = round(float(best["adapter"] / best["bare"]), 3)
        began_s, began_cpu_s = time.perf_counter(), cpu_s()
        listed = await cluster.list_objects(Selector.OURS)
        figures["list_ours"] = rate(len(listed), began_s, began_cpu_s)
        figures["watch_replay"] = await replay(cluster, version, 2 * (pods * turns + 300))
        figures["delete"] = await adapter_deletes(cluster, listed)
    return figures


async def serve_fake(pods: int, kubeconfig: Path) -> None:
    """Serve a fake API server that holds pods, until the input ends."""
    template = BagTemplate(make_bag(make_pod()))
    async with FakeKubeApi(bookmark_s=1.0) as api:
        status = {"name": "main", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}, "image": "x" * 60}
        for handle in range(1, pods + 1):
            run = RunIdentity(
                installation="bench",
                handle=handle,
                ordinal=1,
                id_high=7,
                queue="queue",
                job_set="set",
                node=f"node-{handle % 1000}",
            )
            made = api.store.create("pods", "default", template.render(0, run))
            # As much again as a real API server adds: who wrote which field.
            fields = [{"manager": "argosy", "fieldsV1": {f"f:{name}": {} for name in range(60)}}]
            made = {**made, "metadata": {**made["metadata"], "managedFields": fields}}
            api.store.replace("pods", {**made, "status": {"phase": "Running", "containerStatuses": [status]}})
        api.store.forget()
        api.write_kubeconfig(kubeconfig)
        print("ready", flush=True)  # noqa: T201
        loop = asyncio.get_running_loop()
        for _ in iter(lambda: None, 0):
            line = await loop.run_in_executor(None, sys.stdin.readline)
            if not line:
                return
            for number, pod in enumerate(list(api.store.all("pods"))[: int(line)]):
                phase = "Running" if pod["status"]["phase"] == "Succeeded" else "Succeeded"
                api.store.replace("pods", {**pod, "status": {**pod["status"], "phase": phase}})
                if number % 200 == 0:
                    await asyncio.sleep(0.001)
            print("done", flush=True)  # noqa: T201


async def hold(kubeconfig: Path, selector: Selector) -> None:
    """List and watch, and print what it costs."""
    figures: dict[str, Any] = {"rss_before_mib": round(rss_mib(), 1)}
    source = CredentialSource(path=str(kubeconfig))
    async with KubernetesCluster(source, installation="bench", settings=SETTINGS) as cluster:
        began_s, began_cpu_s = time.perf_counter(), cpu_s()
        listed = await cluster.list_objects(selector)
        figures["list"] = rate(len(listed), began_s, began_cpu_s)
        figures["rss_listed_mib"] = round(rss_mib(), 1)
        again = await cluster.list_objects(selector)
        figures["rss_listed_twice_mib"] = round(rss_mib(), 1)
        watch = cluster.watch_objects(selector, again.version)
        first = asyncio.ensure_future(anext(watch))
        await asyncio.sleep(2.0)  # until the watch has begun: the fake server answers nobody while it changes pods
        print("listed", flush=True)  # noqa: T201
        seen, most, began_s, began_cpu_s = 0, rss_mib(), time.perf_counter(), cpu_s()
        seen += len(await first)
        while seen < len(again):
            seen += len(await anext(watch))
            most = max(most, rss_mib())
        figures["watch"] = rate(seen, began_s, began_cpu_s)
        await watch.aclose()
    figures["rss_most_while_watching_mib"] = round(most, 1)
    print(json.dumps(figures), flush=True)  # noqa: T201


async def measure_memory(pods: int) -> dict[str, Any]:
    """Measure, in processes of their own, a reader of all pods and one of ours."""
    figures: dict[str, Any] = {"pods": pods}
    with tempfile.TemporaryDirectory() as directory:
        kubeconfig = Path(directory) / "kubeconfig"
        server = await start("--serve-fake", str(pods), str(kubeconfig))
        assert server.stdin is not None
        await read_line(server)
        for selector in Selector:
            reader = await start("--hold", str(kubeconfig), selector.name)
            await read_line(reader)
            server.stdin.write(f"{pods}\n".encode())
            await read_line(server)
            figures[selector.name] = json.loads(await read_line(reader))
            await reader.communicate()
        await server.communicate(b"")  # ends its input, and so the server
    return figures


async def start(*arguments: str) -> asyncio.subprocess.Process:
    """Start this program again for a part of its work."""
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(sys.executable, __file__, *arguments, stdin=pipe, stdout=pipe)


async def read_line(process: asyncio.subprocess.Process) -> str:
    """Return the next line that a process prints."""
    assert process.stdout is not None
    line = await process.stdout.readline()
    assert line, "the process ended"
    return line.decode()


def measure_real(pods: int, turns: int, *, is_pinned: bool) -> dict[str, Any]:
    """Start a real API server and measure."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "testbed"))
    from testbed.cluster import KubeApi
    from testbed.kubernetes import ControlPlaneOptions

    prefix = ("taskset", "-c", "0") if is_pinned else ()
    if is_pinned:
        os.sched_setaffinity(0, set(range(1, os.cpu_count() or 1)))
    with tempfile.TemporaryDirectory() as directory:
        api = KubeApi(Path(directory), ControlPlaneOptions(has_controllers=False, prefix=prefix))
        try:
            api.control_plane.start()
            figures = asyncio.run(measure_server(api.kubeconfig, pods, turns))
            return {"version": api.version, "is_pinned": is_pinned, **figures}
        finally:
            api.stop()


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=1500, help="pods per turn; 0 to leave the real server out")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--held-pods", type=int, default=50_000, help="pods held; 0 to leave memory out")
    parser.add_argument("--pin", action="store_true", help="API server and etcd on one core, all else on the others")
    parser.add_argument("--serve-fake", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--hold", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve_fake:
        asyncio.run(serve_fake(int(arguments.serve_fake[0]), Path(arguments.serve_fake[1])))
        return
    if arguments.hold:
        asyncio.run(hold(Path(arguments.hold[0]), Selector[arguments.hold[1]]))
        return
    figures: dict[str, Any] = {}
    if arguments.pods:
        figures["server"] = measure_real(arguments.pods, arguments.turns, is_pinned=arguments.pin)
    if arguments.held_pods:
        figures["memory"] = asyncio.run(measure_memory(arguments.held_pods))
    print(json.dumps(figures, indent=2))  # noqa: T201


if __name__ == "__main__":
    main()

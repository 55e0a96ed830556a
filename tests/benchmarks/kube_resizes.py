"""Prints, as JSON, how fast pods of a real API server are resized in place, and what it costs the API server.

Usage: python tests/benchmarks/kube_resizes.py [--pods 1000] [--turns 2] [--in-flight 64] [--pin]

Pods of one unit run on nodes of twenty, with room for sixty units each. An agent's adapter (`open_scaler`) follows
them and resizes all of them up to four units and down again, so many at once. Up, a node has room for fifteen: the
others are deferred by their kubelet. Whatever the API server refuses is told by its reason; all others are confirmed by
what their containers run with. `conflicts` are resizes that came when the pod had changed, and were sent again.

`resizes_per_s` is from the first call to the last answer, `settled_per_s` to the last pod that is confirmed or told
why not; `server_cores` are the processors that API server and etcd use meanwhile, `adapter_cores` those of this
program.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections import Counter
from typing import Any

from kube_world import clusters_of, create_bare, poll, quantiles, report, tell
from testbed.cluster import KubeApi

from argosy_core.autoscale import Amounts
from argosy_core.autoscale.events import Pending, PodSeen, Resize, ResizeOutcome
from argosy_core.job.reading.scaling import MAXIMUM_ANNOTATION, MINIMUM_ANNOTATION
from argosy_core.reconcile.rendering import INSTALLATION_LABEL
from argosy_kube import KubernetesSettings
from argosy_kube.opening import open_scaler
from argosy_kube.port import RUN_TIME_ANNOTATION

UNIT = Amounts(250, 64 << 20)
PODS_A_NODE = 20
UP = 4
_NODE_CPU = "15"
_LONGEST_S = 120.0
_TRIES = 20


class Resizer:
    """All pods of a cluster, and how far their resizes are."""

    def __init__(self, cluster: KubeApi, in_flight: int) -> None:
        self.scaler = open_scaler(
            f"kubernetes:{cluster.kubeconfig}",
            installation="bench",
            metrics="metrics-api",
            settings=KubernetesSettings(concurrency=in_flight, requests_per_s=0.0),
        )
        self.pods: dict[str, PodSeen] = {}
        self._news = asyncio.Event()
        self._number = self.conflicts = 0
        self._gate = asyncio.Semaphore(in_flight)

    async def follow(self) -> None:
        """Take in what the watch tells, until cancelled."""
        async for events in self.scaler.follow():
            self.pods.update((event.uid, event) for event in events if isinstance(event, PodSeen))
            self._news.set()

    async def until_none(self, waiting: set[str], wanted: Amounts, settled_s: dict[str, float]) -> Counter[str]:
        """Return how many of some pods were confirmed, and how many told why not, once that is known of all."""
        found: Counter[str] = Counter()
        async with asyncio.timeout(_LONGEST_S):
            while waiting:
                now_s = time.monotonic()
                for uid in list(waiting):
                    pod = self.pods[uid]
                    if pod.desired != wanted or (pod.actual != wanted and pod.pending is Pending.NO):
                        continue
                    found["confirmed" if pod.actual == wanted else str(pod.pending.value)] += 1
                    settled_s[uid] = now_s
                    waiting.discard(uid)
                self._news.clear()
                if waiting:
                    await self._news.wait()
        return found

    async def resize(self, uid: str, wanted: Amounts, reasons: Counter[str]) -> bool:
        """Resize a pod, again while it changes meanwhile; return whether the API server took it."""
        async with self._gate:
            for _ in range(_TRIES):
                self._number += 1
                pod = self.pods[uid]
                ended = await self.scaler.resize(
                    Resize(uid=uid, number=self._number, version=pod.version, amounts=wanted), 30.0
                )
                if ended.outcome is not ResizeOutcome.CONFLICT:
                    break
                self.conflicts += 1
                await asyncio.sleep(0.02)  # its status was written meanwhile: the watch tells the version
        if ended.outcome is not ResizeOutcome.ACCEPTED:
            reasons[f"{ended.outcome.value}: {ended.reason[:60]}"] += 1
        return ended.outcome is ResizeOutcome.ACCEPTED


async def _turn(cluster: KubeApi, resizer: Resizer, units: int) -> dict[str, Any]:
    """Resize all pods once; return the figures."""
    plane, wanted = cluster.control_plane, Amounts(*(units * part for part in UNIT))
    reasons: Counter[str] = Counter()
    resizer.conflicts = 0
    settled_s: dict[str, float] = {}
    uids = list(resizer.pods)
    server_s, own_s = plane.api_server.cpu_s + plane.etcd.cpu_s, time.process_time()
    begun_s = time.monotonic()
    taken = await asyncio.gather(*(resizer.resize(uid, wanted, reasons) for uid in uids))
    answered_s = time.monotonic() - begun_s
    accepted = {uid for uid, is_taken in zip(uids, taken, strict=True) if is_taken}
    outcomes = await resizer.until_none(set(accepted), wanted, settled_s)
    took_s = time.monotonic() - begun_s
    used_s = plane.api_server.cpu_s + plane.etcd.cpu_s - server_s
    return {
        "units": units,
        "resizes_per_s": round(len(uids) / answered_s),
        "settled_per_s": round(len(uids) / took_s),
        "settled_ms": quantiles([at_s - begun_s for at_s in settled_s.values()]),
        "outcomes": dict(outcomes),
        "refused": dict(reasons),
        "conflicts": resizer.conflicts,
        "server_cores": round(used_s / took_s, 2),
        "server_cpu_ms_each": round(1000 * used_s / len(uids), 2),
        "adapter_cores": round((time.process_time() - own_s) / took_s, 2),
    }


async def _play(cluster: KubeApi, options: argparse.Namespace) -> None:
    amounts = {"cpu": f"{UNIT[0]}m", "memory": str(UNIT[1])}
    least, most = (f"cpu={part * UNIT[0]}m,memory={part * UNIT[1]}" for part in (1, 8))
    template = {
        "metadata": {
            "labels": {INSTALLATION_LABEL: "bench"},
            "annotations": {MINIMUM_ANNOTATION: least, MAXIMUM_ANNOTATION: most, RUN_TIME_ANNOTATION: "24h"},
        },
        "spec": {
            "containers": [
                {"name": "main", "image": "example.test/work:1", "resources": {"requests": amounts, "limits": amounts}}
            ],
            "automountServiceAccountToken": False,
        },
    }
    nodes = [f"c0-node-{number}" for number in range(options.pods // PODS_A_NODE)]
    rate = await create_bare(cluster, template, options.pods, nodes, prefix="pod")
    tell(f"{options.pods} pods, {rate:.0f} a second")
    resizer = Resizer(cluster, options.in_flight)
    following = asyncio.ensure_future(resizer.follow())
    try:
        await poll(lambda: len(resizer.pods) == options.pods, "the pods to run", longest_s=_LONGEST_S)
        turns = [await _turn(cluster, resizer, units) for _ in range(options.turns) for units in (UP, 1)]
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await resizer.scaler.close()
    report({"pods": options.pods, "version": cluster.version, "in_flight": options.in_flight, "turns": turns})


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--in-flight", type=int, default=64)
    parser.add_argument("--pin", action="store_true", help="keep the first core for the API server")
    options = parser.parse_args()
    with clusters_of(1, options.pods // PODS_A_NODE, is_pinned=options.pin, node_cpu=_NODE_CPU) as (cluster,):
        asyncio.run(_play(cluster, options))


if __name__ == "__main__":
    main()

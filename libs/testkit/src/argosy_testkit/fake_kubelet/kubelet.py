"""The fake kubelet: drives the pods of its nodes through their lives, acting through a real API server.

One watch tells of every bound pod. Each pod has a queue of steps that one of many workers carries out, so the steps of
one pod keep their order while the pods of all nodes go on at once. What the API server does not take is tried again.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import ssl
import time
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import msgspec
import numpy as np

from argosy_core.errors import BackendUnavailable, NotFound, OutOfRange
from argosy_testkit.fake_kubelet.agenda import Agenda
from argosy_testkit.fake_kubelet.api import Api, WatchEvent
from argosy_testkit.fake_kubelet.behaviour import Pod, pod_requests, read_behaviour
from argosy_testkit.fake_kubelet.logs import LogServer, LogSource
from argosy_testkit.fake_kubelet.nodes import FakeNode
from argosy_testkit.fake_kubelet.registry import NodeRegistry
from argosy_testkit.fake_kubelet.steps import Steps
from argosy_testkit.fake_kubelet.work import Work

__all__ = ["FakeKubelet"]

_BOUND_PODS: Final = "/api/v1/pods?fieldSelector=spec.nodeName!="
_WORKER_COUNT: Final = 48
_RETRY_S: Final = 0.25
_OTHER_CONNECTIONS: Final = 12  # the watch, heartbeats


class _ListMetadata(msgspec.Struct, rename="camel"):
    resource_version: str


class _PodList(msgspec.Struct):
    metadata: _ListMetadata
    items: list[Pod]


_POD: Final = msgspec.json.Decoder(Pod)
_PODS: Final = msgspec.json.Decoder(_PodList)


class FakeKubelet:
    """The kubelet of many nodes.

    Args:
        url: URL of the API server.
        token: Token of one who may do everything.
        ca: Certificate authority of the API server.
        certificate: Certificate with which logs are served; no logs without one.
        key: Its key.
        heartbeat_s: Time between a node's heartbeats, seconds; 0 for none, which is for clusters without a controller
            manager.
        seed: Seed for times that are given as a span.
    """

    def __init__(
        self,
        url: str,
        token: str,
        ca: Path,
        *,
        certificate: Path | None = None,
        key: Path | None = None,
        heartbeat_s: float = 10.0,
        seed: int = 0,
    ) -> None:
        """Remember; it begins in `__aenter__`."""
        self._api = Api(url, token, ca, connection_limit=_WORKER_COUNT + _OTHER_CONNECTIONS)
        self._certificate = (certificate, key)
        self._heartbeat_s = heartbeat_s
        self._random = np.random.default_rng(seed)
        self._registry = NodeRegistry(self._api, heartbeat_s, self._random)
        self._works: dict[str, Work] = {}
        self._by_name: dict[tuple[str, str], Work] = {}
        self._agenda = Agenda(self._works)
        self._steps = Steps(self._api, self._agenda)
        self._stack = AsyncExitStack()

    # --- life -----------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        """Adopt the nodes that a fake kubelet played before, and begin."""
        try:
            await self._begin()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End; nodes and pods stay as they are."""
        await self._stack.aclose()

    async def _begin(self) -> None:
        await self._stack.enter_async_context(self._api)
        certificate, key = self._certificate
        if certificate is not None and key is not None:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(certificate, key)
            server = LogServer(self._log_source, context)
            self._registry.log_port = await self._stack.enter_async_context(server)
        await self._registry.adopt()
        version = await self._relist()
        group = await self._stack.enter_async_context(asyncio.TaskGroup())
        loops = [self._watch_forever(version), self._agenda.tick_forever()]
        loops += [self._work_forever() for _ in range(_WORKER_COUNT)]
        if self._heartbeat_s:
            loops.append(self._registry.beat_forever())
        tasks = [group.create_task(loop) for loop in loops]
        self._stack.callback(lambda: [task.cancel() for task in tasks])

    # --- nodes ----------------------------------------------------------------------------------------------------

    async def add_nodes(
        self,
        count: int,
        *,
        prefix: str = "node",
        cpu: str = "16",
        memory: str = "64Gi",
        labels: Mapping[str, str] | None = None,
        resources: Mapping[str, str] | None = None,
        taints: Iterable[Mapping[str, str]] = (),
    ) -> list[str]:
        """Add nodes that are ready and without taints of the cluster's own; return their names.

        Args:
            count: How many.
            prefix: Begin of their names, which end in -0, -1 and so on.
            cpu: CPU of each for pods.
            memory: Memory of each for pods.
            labels: Further labels.
            resources: Further resources, as {"nvidia.com/gpu": "4"}, or `pods`.
            taints: Taints, as in a node's spec.

        Raises:
            AlreadyExists: A node of such a name exists; those before it were added.
            BackendUnavailable: The API server does not answer, or refuses.
        """
        amounts = {"cpu": cpu, "memory": memory, **(resources or {})}
        names = [f"{prefix}-{index}" for index in range(count)]
        stated = [dict(taint) for taint in taints]
        await self._registry.add(names, resources=amounts, labels=labels or {}, taints=stated)
        return names

    async def remove_nodes(self, names: Iterable[str]) -> None:
        """Remove nodes; their pods stop and nothing is told of them any more."""

        def forget(node: FakeNode) -> None:
            for work in [work for work in self._works.values() if work.node is node]:
                self._forget(work)

        await self._registry.remove(names, forget)

    async def partition(self, names: Iterable[str]) -> None:
        """Cut nodes off the API server: no heartbeats, no statuses, nothing heard; their pods go on."""
        for name in names:
            self._registry.get(name).is_partitioned = True

    async def heal(self, names: Iterable[str]) -> None:
        """Let nodes reach the API server again: they tell what happened, and do what they had not heard of."""
        healed = [self._registry.get(name) for name in names]
        for node in healed:
            node.is_partitioned = False
            node.next_heartbeat_s = time.monotonic()
        await self.set_ready([node.name for node in healed], is_ready=True)
        await self._relist()
        for work in list(self._works.values()):
            if work.steps and work.node in healed:
                self._agenda.queue(work)

    async def set_ready(self, names: Iterable[str], *, is_ready: bool) -> None:
        """Have nodes say that they are ready, or not; the controller manager taints them accordingly."""
        await self._registry.set_ready(names, is_ready=is_ready)

    # --- pods -----------------------------------------------------------------------------------------------------

    async def end_pod(self, namespace: str, name: str, *, exit_code: int = 0, reason: str = "") -> None:
        """End a pod now.

        Args:
            namespace: Its namespace.
            name: Its name.
            exit_code: Exit code of its containers.
            reason: OOMKilled, Evicted or another reason, or none.

        Raises:
            NotFound: No such pod is on a node of ours.
        """
        work = self._by_name.get((namespace, name))
        if work is None:
            raise NotFound(f"no pod {namespace}/{name} is on a node of this kubelet")
        self._agenda.end(work, exit_code, reason)

    async def counts(self) -> dict[str, int]:
        """Return how often what was done (running, ended, deleted, refused, waiting, retries), and what is there."""
        running = sum(1 for work in self._works.values() if work.started_s and not work.is_over)
        return {
            **self._steps.counts,
            "pods": len(self._works),
            "nodes": len(self._registry.nodes),
            "running_now": running,
        }

    def _log_source(self, namespace: str, name: str) -> LogSource | None:
        work = self._by_name.get((namespace, name))
        if work is None or not work.started_s:
            return None
        return LogSource(
            containers=tuple(container.name for container in work.pod.spec.containers),
            pod=name,
            started_s=work.started_s,
            run_time_s=work.behaviour.run_time_s,
            ended_s=lambda: work.ended_s,
            line_count=work.behaviour.log_lines,
            is_reachable=not work.node.is_partitioned,
        )

    # --- hearing --------------------------------------------------------------------------------------------------

    async def _watch_forever(self, version: str) -> None:
        while True:
            try:
                async for event in self._api.watch(_BOUND_PODS, version):
                    version = self._hear(event)
            except OutOfRange:
                version = await self._relist_forever()
            except BackendUnavailable:
                await asyncio.sleep(_RETRY_S)

    async def _relist_forever(self) -> str:
        while True:
            try:
                return await self._relist()
            except BackendUnavailable:
                await asyncio.sleep(_RETRY_S)

    async def _relist(self) -> str:
        """Look at every bound pod; return the version to watch from."""
        found = _PODS.decode(await self._api.get(_BOUND_PODS))
        uids = {pod.metadata.uid for pod in found.items}
        for uid in [uid for uid in self._works if uid not in uids]:
            self._forget(self._works[uid])
        for pod in found.items:
            self._see(pod)
        return found.metadata.resource_version

    def _hear(self, event: WatchEvent) -> str:
        pod = _POD.decode(event.object) if event.type != "BOOKMARK" else None
        if pod is None:
            return str(msgspec.json.decode(event.object)["metadata"]["resourceVersion"])
        if event.type == "DELETED":
            work = self._works.get(pod.metadata.uid)
            if work is not None and not work.node.is_partitioned:
                self._forget(work)
        else:
            self._see(pod)
        return pod.metadata.resource_version

    def _see(self, pod: Pod) -> None:
        node = self._registry.nodes.get(pod.spec.node_name)
        if node is None or node.is_partitioned:
            return
        work = self._works.get(pod.metadata.uid)
        if work is None:
            work = self._take_on(pod, node)
        work.pod = pod
        if work.started_s and not work.is_over and (work.is_deferred or pod_requests(pod) != work.request):
            self._agenda.add(work, "resize")
        if pod.metadata.deletion_timestamp and not work.is_stopping:
            work.is_stopping = True
            grace_s = float(pod.metadata.deletion_grace_period_seconds)
            is_running = bool(work.started_s) and not work.is_over
            self._agenda.after(work, min(work.behaviour.stop_time_s, grace_s) if is_running else 0.0, "stop")

    def _take_on(self, pod: Pod, node: FakeNode) -> Work:
        work = Work(pod, node, read_behaviour(pod.metadata.annotations, self._random), pod_requests(pod))
        self._works[pod.metadata.uid] = work
        self._by_name[pod.metadata.namespace, pod.metadata.name] = work
        if pod.status.phase in {"Succeeded", "Failed"}:
            work.is_over = True
        elif pod.status.phase == "Running":  # another kubelet's: it goes on
            work.has_taken = not node.take(work.request)
            work.started_s = _unix_s(pod.status.start_time)
            self._agenda.plan_end(work)
        elif not pod.metadata.deletion_timestamp:
            self._agenda.after(work, work.behaviour.start_delay_s, "start")
        return work

    def _forget(self, work: Work) -> None:
        """Let go of a pod that is no more."""
        work.steps.clear()
        work.is_stopping = work.is_over = True
        self._steps.give_back(work)
        self._works.pop(work.pod.metadata.uid, None)
        key = (work.pod.metadata.namespace, work.pod.metadata.name)
        if self._by_name.get(key) is work:
            del self._by_name[key]

    # --- working --------------------------------------------------------------------------------------------------

    async def _work_forever(self) -> None:
        while True:
            work = await self._agenda.take()
            while work.steps and not work.node.is_partitioned and not work.is_queued:
                step = work.steps[0]
                work.is_queued = True  # ours: nobody else shall take it up
                try:
                    await self._steps.do(work, step)
                except BackendUnavailable:
                    self._steps.counts["retries"] += 1
                    await asyncio.sleep(_RETRY_S)
                    continue
                finally:
                    work.is_queued = False
                if work.steps and work.steps[0] is step:
                    work.steps.popleft()


def _unix_s(text: str) -> float:
    """Return a time of the API server as Unix time."""
    return dt.datetime.fromisoformat(text).timestamp() if text else time.time()

"""The fake kubelet: drives the pods of its nodes through their lives, acting through a real API server.

One watch tells of every bound pod. Each pod has a queue of steps that one of many workers carries out, so the steps of
one pod keep their order while the pods of all nodes go on at once. What the API server does not take is tried again.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import heapq
import itertools
import ssl
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import msgspec
import numpy as np

from argosy_core.errors import BackendUnavailable, NotFound, OutOfRange
from argosy_testkit.fake_kubelet.api import STRATEGIC_PATCH, TAKEN, Api, WatchEvent
from argosy_testkit.fake_kubelet.behaviour import (
    EVICTED,
    REFUSING_REASONS,
    WAITING_REASONS,
    Pod,
    deferred_status,
    ended_status,
    pod_requests,
    read_behaviour,
    refused_status,
    resized_status,
    restarted_status,
    running_status,
    waiting_status,
)
from argosy_testkit.fake_kubelet.logs import LogServer, LogSource
from argosy_testkit.fake_kubelet.nodes import FakeNode
from argosy_testkit.fake_kubelet.registry import NodeRegistry
from argosy_testkit.fake_kubelet.work import Work

__all__ = ["FakeKubelet"]

_BOUND_PODS: Final = "/api/v1/pods?fieldSelector=spec.nodeName!="
_WORKER_COUNT: Final = 48
_TICK_S: Final = 0.02
_RETRY_S: Final = 0.25
_PULL_RETRY_S: Final = 1.0
_OTHER_CONNECTIONS: Final = 12  # the watch, heartbeats
_LOST: Final = frozenset({404, 409})  # the pod is gone, or another one has its name
_REFUSED: Final = frozenset({400, 403, 422})
_DEADLINE: Final = "DeadlineExceeded"
_KILLED_CODE: Final = 137


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
        self._deferred: dict[str, Work] = {}
        """By uid: pods whose resize waits for room."""
        self._ready: asyncio.Queue[Work] = asyncio.Queue()
        self._timers: list[tuple[float, int, str, str]] = []
        self._numbers = itertools.count()
        self._counts: Counter[str] = Counter()
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
        loops = [self._watch_forever(version), self._tick_forever()]
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
                self._queue(work)

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
        self._end(work, exit_code, reason)

    async def counts(self) -> dict[str, int]:
        """Return how often what was done (running, ended, deleted, refused, waiting, retries), and what is there."""
        running = sum(1 for work in self._works.values() if work.started_s and not work.is_over)
        return {**self._counts, "pods": len(self._works), "nodes": len(self._registry.nodes), "running_now": running}

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
            self._add_step(work, "resize")
        if pod.metadata.deletion_timestamp and not work.is_stopping:
            work.is_stopping = True
            grace_s = float(pod.metadata.deletion_grace_period_seconds)
            is_running = bool(work.started_s) and not work.is_over
            self._after(work, min(work.behaviour.stop_time_s, grace_s) if is_running else 0.0, "stop")

    def _take_on(self, pod: Pod, node: FakeNode) -> Work:
        work = Work(pod, node, read_behaviour(pod.metadata.annotations, self._random), pod_requests(pod))
        self._works[pod.metadata.uid] = work
        self._by_name[pod.metadata.namespace, pod.metadata.name] = work
        if pod.status.phase in {"Succeeded", "Failed"}:
            work.is_over = True
        elif pod.status.phase == "Running":  # another kubelet's: it goes on
            work.has_taken = not node.take(work.request)
            work.started_s = _unix_s(pod.status.start_time)
            self._plan_end(work)
        elif not pod.metadata.deletion_timestamp:
            self._after(work, work.behaviour.start_delay_s, "start")
        return work

    def _forget(self, work: Work) -> None:
        """Let go of a pod that is no more."""
        work.steps.clear()
        work.is_stopping = work.is_over = True
        self._give_back(work)
        self._works.pop(work.pod.metadata.uid, None)
        key = (work.pod.metadata.namespace, work.pod.metadata.name)
        if self._by_name.get(key) is work:
            del self._by_name[key]

    def _give_back(self, work: Work) -> None:
        self._deferred.pop(work.pod.metadata.uid, None)
        if work.has_taken:
            work.node.give_back(work.request)
            work.has_taken = False
            self._retry_deferred(work.node)

    def _retry_deferred(self, node: FakeNode) -> None:
        """Try the resizes again that wait for room on a node."""
        for other in [other for other in self._deferred.values() if other.node is node]:
            self._add_step(other, "resize")

    # --- doing ----------------------------------------------------------------------------------------------------

    def _after(self, work: Work, delay_s: float, step: str) -> None:
        if delay_s <= 0:
            self._add_step(work, step)
        else:
            due_s = time.monotonic() + delay_s
            heapq.heappush(self._timers, (due_s, next(self._numbers), work.pod.metadata.uid, step))

    def _add_step(self, work: Work, step: str) -> None:
        if step == "end" and not work.is_over and not work.ended_s:
            work.ended_s = time.time()  # a pod ends when it does, not when that can be told
        work.steps.append(step)
        self._queue(work)

    def _queue(self, work: Work) -> None:
        if not work.is_queued and not work.node.is_partitioned:
            work.is_queued = True
            self._ready.put_nowait(work)

    def _end(self, work: Work, exit_code: int, reason: str) -> None:
        if not work.is_over and not work.ended_s:
            work.exit_code, work.reason = exit_code, reason
            self._add_step(work, "end")

    def _plan_end(self, work: Work) -> None:
        behaviour, deadline_s = work.behaviour, work.pod.spec.active_deadline_seconds
        since_s = time.time() - work.started_s
        work.exit_code, work.reason = behaviour.exit_code, behaviour.reason
        run_s = behaviour.run_time_s
        if deadline_s and deadline_s < run_s:
            run_s, work.reason = float(deadline_s), _DEADLINE
        self._after(work, run_s - since_s, "end")

    async def _tick_forever(self) -> None:
        while True:
            now_s = time.monotonic()
            while self._timers and self._timers[0][0] <= now_s:
                _, _, uid, step = heapq.heappop(self._timers)
                work = self._works.get(uid)
                if work is not None:
                    self._add_step(work, step)
            await asyncio.sleep(_TICK_S)

    async def _work_forever(self) -> None:
        while True:
            work = await self._ready.get()
            work.is_queued = False
            while work.steps and not work.node.is_partitioned and not work.is_queued:
                step = work.steps[0]
                work.is_queued = True  # ours: nobody else shall take it up
                try:
                    await self._do(work, step)
                except BackendUnavailable:
                    self._counts["retries"] += 1
                    await asyncio.sleep(_RETRY_S)
                    continue
                finally:
                    work.is_queued = False
                if work.steps and work.steps[0] is step:
                    work.steps.popleft()

    async def _do(self, work: Work, step: str) -> None:
        if step == "start" and not work.is_stopping and not work.is_over:
            await self._start(work)
        elif step == "waiting" and not work.is_stopping:
            await self._tell(work, waiting_status(work.pod, time.time(), "ImagePullBackOff"), "waiting")
        elif step == "resize" and work.started_s and not work.is_over and not work.is_stopping:
            await self._resize(work)
        elif step == "end" and not work.is_over and not work.is_stopping:
            await self._tell_end(work)
        elif step == "stop":
            await self._stop(work)

    async def _start(self, work: Work) -> None:
        reason = work.behaviour.reason
        if reason in REFUSING_REASONS:
            await self._refuse(work, reason, "refused as its annotation wants")
            return
        if not work.has_taken:
            missing = work.node.take(work.request)
            if missing:
                await self._refuse(work, f"OutOf{missing}", f"Node didn't have enough resource: {missing}")
                return
            work.has_taken = True
        if reason in WAITING_REASONS:
            await self._tell(work, waiting_status(work.pod, time.time(), reason), "waiting")
            if reason == "ErrImagePull":
                self._after(work, _PULL_RETRY_S, "waiting")
            return
        if not work.ended_s:
            now_s = time.time()
            if work.restarts:
                status = restarted_status(work.pod, now_s, restarts=work.restarts)
            else:
                number = next(self._numbers)
                address = f"10.{128 + number // 65536 % 64}.{number // 256 % 256}.{number % 256}"
                status = running_status(work.pod, now_s, address=address)
            await self._tell(work, status, "running")
            work.started_s = now_s
            self._plan_end(work)

    async def _resize(self, work: Work) -> None:
        """Give a pod the size that its spec asks for, or say that there is no room for it yet.

        A size that the node could never have does not come here: the API server refuses it.
        """
        wanted, had, uid = pod_requests(work.pod), work.request, work.pod.metadata.uid
        if wanted != had and work.has_taken and not work.node.retake(had, wanted):
            self._deferred[uid] = work
            if not work.is_deferred:
                await self._tell(work, deferred_status(time.time(), wanted), "deferred")
                work.is_deferred = True
            return
        work.request = wanted
        self._deferred.pop(uid, None)
        if any(wanted.get(name, 0) < amount for name, amount in had.items()):
            self._retry_deferred(work.node)
        await self._tell(work, resized_status(work.pod, was_deferred=work.is_deferred), "resized")
        work.is_deferred = False

    async def _refuse(self, work: Work, reason: str, message: str) -> None:
        await self._tell(work, refused_status(reason, f"Pod was rejected: {message}"), "refused")
        work.is_over = True

    async def _tell_end(self, work: Work) -> None:
        policy = work.pod.spec.restart_policy
        failed = bool(work.exit_code or work.reason)
        is_again = policy == "Always" or (policy == "OnFailure" and failed)
        if is_again and work.reason not in {EVICTED, _DEADLINE}:
            work.restarts += 1
            work.ended_s = 0.0
            work.steps.append("start")
            return
        status = ended_status(
            work.pod,
            work.started_s or work.ended_s,
            work.ended_s,
            exit_code=work.exit_code,
            reason=work.reason,
            restarts=work.restarts,
        )
        await self._tell(work, status, "ended")
        work.is_over = True
        self._give_back(work)

    async def _stop(self, work: Work) -> None:
        """Stop a deleted pod: tell how its containers ended if they ran, then let the object go."""
        if work.started_s and not work.is_over:
            ended_s = work.ended_s or time.time()
            code = work.exit_code if work.ended_s else _KILLED_CODE
            work.ended_s = ended_s
            await self._tell(work, ended_status(work.pod, work.started_s, ended_s, exit_code=code), "stopped")
            work.is_over = True
        self._give_back(work)
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": work.pod.metadata.uid}}
        await self._call_pod(work, "DELETE", "", body)
        self._counts["deleted"] += 1

    async def _tell(self, work: Work, status: Mapping[str, Any], what: str) -> None:
        body = {"metadata": {"uid": work.pod.metadata.uid}, "status": status}
        await self._call_pod(work, "PATCH", "/status", body)
        self._counts[what] += 1

    async def _call_pod(self, work: Work, method: str, path: str, body: object) -> None:
        metadata = work.pod.metadata
        base = f"/api/v1/namespaces/{metadata.namespace}/pods/{metadata.name}"
        content_type = STRATEGIC_PATCH if method == "PATCH" else "application/json"
        status, answer = await self._api.request(method, base + path, body, content_type=content_type)
        words = f"{method} {base}{path}: {status} {answer[:300].decode(errors='replace')}"
        if status in _REFUSED:  # no use in asking again
            self._counts["rejected"] += 1
            sys.stderr.write(words + "\n")
        elif status not in TAKEN and status not in _LOST:
            raise BackendUnavailable(words)


def _unix_s(text: str) -> float:
    """Return a time of the API server as Unix time."""
    return dt.datetime.fromisoformat(text).timestamp() if text else time.time()

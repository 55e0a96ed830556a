"""An API server, as an agent uses it: our pods that are scaled, their resizes, and what they use.

Source: design section 5, "Resize"; docs/autoscale.md "Resizes".
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from enum import StrEnum
from typing import Final
from urllib.parse import quote

import numpy as np

from argosy_core.autoscale.events import (
    MetricsSeen,
    OutOfMemory,
    PodGone,
    Resize,
    ResizeEnded,
    ResizeOutcome,
    ScalingPolicy,
)
from argosy_core.errors import BackendUnavailable, InvalidRequest
from argosy_core.reconcile.rendering import INSTALLATION_LABEL
from argosy_kube.kubernetes.api.answers import CONFLICT, STRATEGIC_PATCH, ApiFailure, decode
from argosy_kube.kubernetes.api.credentials import Credentials, CredentialSource
from argosy_kube.kubernetes.api.documents import KEYS
from argosy_kube.kubernetes.api.rate_limiter import Priority
from argosy_kube.kubernetes.api.reflector import Followed, Reflector, Versions
from argosy_kube.kubernetes.api.resources import NODES, PODS
from argosy_kube.kubernetes.api.transport import ApiServer, unavailable
from argosy_kube.kubernetes.reading.pods import phase_of
from argosy_kube.kubernetes.scaling.cgroups import NodeCgroups, read_cgroups
from argosy_kube.kubernetes.scaling.sizes import (
    LIST_OF_SCALED_PODS,
    SCALED_POD,
    WATCH_OF_SCALED_PODS,
    ScaledPod,
    contract_host,
    out_of_memory_count,
    read_size,
    resize_patch,
)
from argosy_kube.kubernetes.scaling.usage import (
    KubeletPageReader,
    KubeletSummaryReader,
    MetricsApiReader,
    PodUse,
    UsageReader,
)
from argosy_kube.kubernetes.settings import KubernetesSettings
from argosy_kube.meter import NO_METER, ApiMeter
from argosy_kube.port import PodPhase
from argosy_kube.scaler_port import PodEvent

__all__ = ["MetricsSource", "PodScaler"]

_METRICS_PATH: Final = "/apis/metrics.k8s.io/v1beta1/pods"
_UID_PATH: Final = "/api/v1/namespaces/kube-system"
_UNKNOWN: Final = PodUse()


class MetricsSource(StrEnum):
    """Where metrics of pods are read."""

    API = "metrics-api"
    """The Kubernetes metrics API, in one call."""
    KUBELET_SUMMARY = "kubelet-summary"
    """Each kubelet's `/stats/summary`, through the API server."""
    KUBELET_PAGE = "kubelet-page"
    """Each kubelet's `/metrics/resource`, through the API server."""


_KUBELET_PATHS: Final = {
    MetricsSource.KUBELET_SUMMARY: "/stats/summary",
    MetricsSource.KUBELET_PAGE: "/metrics/resource",
}
_READERS: Final[Mapping[MetricsSource, Callable[[], UsageReader]]] = {
    MetricsSource.API: MetricsApiReader,
    MetricsSource.KUBELET_SUMMARY: KubeletSummaryReader,
    MetricsSource.KUBELET_PAGE: KubeletPageReader,
}


class PodScaler:
    """Pods of one installation that are scaled.

    Args:
        source: Where credentials are.
        installation: Whose pods.
        read_policy: Returns the policy that a pod's annotations say, None if it is not scaled, and raises
            InvalidRequest if they cannot be read.
        settings: How the API server is used.
        call_timeout_s: How long a call may take, seconds.
        meter: Whom calls are told to.
        metrics: Where metrics are read; where that is a node's kernel, its pods are all that there is.
        monotonic: Clock in seconds, by which counters become rates.
    """

    def __init__(  # noqa: PLR0913 - what a scaler is made of
        self,
        source: CredentialSource,
        *,
        installation: str,
        read_policy: Callable[[Mapping[str, str]], ScalingPolicy | None],
        settings: KubernetesSettings | None = None,
        call_timeout_s: float = 30.0,
        meter: ApiMeter = NO_METER,
        metrics: MetricsSource | NodeCgroups = MetricsSource.API,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Connect to nothing yet."""
        settings = settings if settings is not None else KubernetesSettings()
        self._server = ApiServer(Credentials(source), settings=settings, call_timeout_s=call_timeout_s, meter=meter)
        self._query = query = f"labelSelector={quote(f'{INSTALLATION_LABEL}={installation}', safe='')}"
        if isinstance(metrics, NodeCgroups):
            query += f"&fieldSelector={quote(f'spec.nodeName={metrics.node}', safe='')}"
        followed = Followed(resource=PODS, page=LIST_OF_SCALED_PODS, line=WATCH_OF_SCALED_PODS, query=query)
        self._pods = Reflector(self._server, followed, Versions())
        self._read_policy = read_policy
        self._metrics = metrics
        self._monotonic = monotonic
        self._readers: dict[str, UsageReader] = {}
        self._known: dict[str, ScaledPod] = {}
        self.unreadable: dict[str, str] = {}
        """Why pods are not scaled whose annotations cannot be read, by uid."""

    async def cluster_uid(self) -> str:
        """Return the uid of the namespace kube-system; see Scaler."""
        try:
            return decode(KEYS, await self._server.call("GET", _UID_PATH, priority=Priority.READ)).metadata.uid
        except ApiFailure as failure:
            raise unavailable(failure, "reading the cluster's uid") from failure

    async def follow(self) -> AsyncGenerator[list[PodEvent], None]:
        """See Scaler."""
        news, pods = asyncio.Event(), list[ScaledPod]()

        def begin() -> Callable[[list[ScaledPod]], None]:
            pods.clear()
            return pods.extend

        try:
            reached = await self._pods.list(begin)
            there = {pod.metadata.uid for pod in pods}
            gone: list[PodEvent] = [self._forget(uid) for uid in [uid for uid in self._known if uid not in there]]
            yield gone + [event for pod in pods for event in self._read(pod)]
            reader = self._pods.join_at(reached, news.set)
            try:
                while not reader.has_ended or reader.has_news:
                    if not reader.has_news:
                        await news.wait()
                    news.clear()
                    events: list[PodEvent] = []
                    for event in reader.take():
                        is_deleted = event.type == "DELETED"
                        events += self._remove(event.object) if is_deleted else self._read(event.object)
                    if events:
                        yield events
            finally:
                await reader.stop()
        except ApiFailure as failure:
            raise unavailable(failure, "following pods") from failure

    def _read(self, pod: ScaledPod) -> list[PodEvent]:
        """Return what a pod's document tells; one that does not run, or is not scaled, is as good as gone."""
        uid, policy = pod.metadata.uid, None
        self.unreadable.pop(uid, None)
        if phase_of(pod.status) == PodPhase.RUNNING and pod.metadata.deletion_timestamp is None:
            try:
                policy = self._read_policy(pod.metadata.annotations or {})
            except InvalidRequest as error:
                self.unreadable[uid] = error.message
        if policy is None:
            return self._remove(pod)
        before, self._known[uid] = self._known.get(uid), pod
        events: list[PodEvent] = [read_size(pod, policy)]
        if before is not None and out_of_memory_count(pod) > out_of_memory_count(before):
            events.append(OutOfMemory(uid))
        return events

    def _remove(self, pod: ScaledPod) -> list[PodEvent]:
        return [self._forget(pod.metadata.uid)] if pod.metadata.uid in self._known else []

    def _forget(self, uid: str) -> PodGone:
        del self._known[uid]
        return PodGone(uid)

    async def resize(self, resize: Resize, timeout_s: float) -> ResizeEnded:
        """See Scaler."""
        pod = self._known.get(resize.uid)
        if pod is None:
            return _ended(resize, ResizeOutcome.REFUSED, reason="the pod is gone")
        metadata = pod.metadata
        try:
            body = resize_patch(pod, resize.amounts, resize.version)
            async with asyncio.timeout(timeout_s):
                answer = await self._server.call(
                    "PATCH",
                    PODS.path(metadata.namespace, metadata.name, "resize"),
                    priority=Priority.UPKEEP,
                    body=body,
                    content_type=STRATEGIC_PATCH,
                    retry_conflict=False,
                )
            version = int(decode(SCALED_POD, answer).metadata.resource_version or 0)
        except InvalidRequest as error:
            return _ended(resize, ResizeOutcome.REFUSED, reason=error.message)
        except TimeoutError:
            return _ended(resize, ResizeOutcome.UNKNOWN)
        except ApiFailure as failure:
            if failure.code == CONFLICT:
                return _ended(resize, ResizeOutcome.CONFLICT)
            outcome = ResizeOutcome.UNKNOWN if failure.may_pass else ResizeOutcome.REFUSED
            return _ended(resize, outcome, reason=failure.message)
        return _ended(resize, ResizeOutcome.ACCEPTED, version=version)

    def contract_host(self, uid: str) -> str:
        """See Scaler."""
        pod = self._known.get(uid)
        return "" if pod is None else contract_host(pod)

    async def read_usage(self) -> MetricsSeen:
        """See Scaler."""
        if self._metrics is MetricsSource.API:
            uses = await self._read_answer(self._metrics, "", f"{_METRICS_PATH}?{self._query}")
        elif isinstance(self._metrics, NodeCgroups):
            names = [(uid, *_name(pod)) for uid, pod in self._known.items()]
            page = await asyncio.to_thread(read_cgroups, self._metrics.root, names)
            uses = self._readers.setdefault("", KubeletPageReader()).read(page, self._monotonic())
        else:
            uses = await self._ask_kubelets(self._metrics)
        pods = [(uid, uses.get(_name(pod), _UNKNOWN)) for uid, pod in self._known.items()]
        return MetricsSeen(
            uids=tuple(uid for uid, _ in pods),
            load_cores=np.array([use.load_cores for _, use in pods]),
            memory_bytes=np.array([use.memory_bytes for _, use in pods]),
        )

    async def _ask_kubelets(self, source: MetricsSource) -> Mapping[tuple[str, str], PodUse]:
        """Ask the kubelets of all nodes that have scaled pods; those that do not answer tell nothing."""
        nodes = sorted({pod.spec.node_name or "" for pod in self._known.values()} - {""})
        paths = [f"{NODES.path(name=node, subresource='proxy')}{_KUBELET_PATHS[source]}" for node in nodes]
        calls = [self._read_answer(source, node, path) for node, path in zip(nodes, paths, strict=True)]
        uses: dict[tuple[str, str], PodUse] = {}
        failures = []
        for answer in await asyncio.gather(*calls, return_exceptions=True):
            if isinstance(answer, BackendUnavailable):
                failures.append(answer)
            elif isinstance(answer, BaseException):
                raise answer
            else:
                uses.update(answer)
        if failures and len(failures) == len(nodes):
            raise failures[0]
        for node in self._readers.keys() - set(nodes):
            del self._readers[node]
        return uses

    async def _read_answer(self, source: MetricsSource, node: str, path: str) -> Mapping[tuple[str, str], PodUse]:
        try:
            answer = await self._server.call("GET", path, priority=Priority.READ)
        except ApiFailure as failure:
            raise unavailable(failure, "reading metrics") from failure
        return self._readers.setdefault(node, _READERS[source]()).read(answer, self._monotonic())

    async def close(self) -> None:
        """Close connections."""
        await self._server.close()


def _name(pod: ScaledPod) -> tuple[str, str]:
    return pod.metadata.namespace, pod.metadata.name


def _ended(resize: Resize, outcome: ResizeOutcome, *, version: int = 0, reason: str = "") -> ResizeEnded:
    return ResizeEnded(uid=resize.uid, number=resize.number, outcome=outcome, version=version, reason=reason)

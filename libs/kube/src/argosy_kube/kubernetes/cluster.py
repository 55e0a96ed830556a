"""The cluster port on a Kubernetes API server.

A reflector follows each kind (`api/reflector.py`); versions are counted there, so one is good for this adapter object
only, and any other is answered WatchGone.

Which kinds: a list of our objects looks at pods, at the other built-in kinds of bags, at those of the settings, and the
first time at all custom resources. A watch looks at pods and at those kinds of which a list found some or a bag of ours
had some; a kind joins a watch under way when it is first used.

Source: design section 5; `argosy_kube.port`.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable, Generator
from dataclasses import replace
from types import TracebackType
from typing import Final, Self, TypeVar
from urllib.parse import quote

import numpy as np

from argosy_core.reconcile import Creates, Deletes
from argosy_core.reconcile.rendering import INSTALLATION_LABEL
from argosy_kube.kubernetes.acting.creation import Creator
from argosy_kube.kubernetes.acting.deletion import Deleter
from argosy_kube.kubernetes.acting.finding import Finder
from argosy_kube.kubernetes.acting.letting_go import list_kept
from argosy_kube.kubernetes.acting.logs import container_names, read_pod_log
from argosy_kube.kubernetes.acting.rendering import TemplateCache
from argosy_kube.kubernetes.api.answers import FORBIDDEN, GONE, MISSING, ApiFailure, decode
from argosy_kube.kubernetes.api.credentials import Credentials, CredentialSource
from argosy_kube.kubernetes.api.documents import (
    KEYS,
    LIST_OF_NODES,
    LIST_OF_PODS,
    LIST_OF_RUNTIME_CLASSES,
    WATCH_OF_NODES,
    WATCH_OF_PODS,
    NodeDocument,
    PodDocument,
    WatchEvent,
)
from argosy_kube.kubernetes.api.kind_reflector import KindReflector
from argosy_kube.kubernetes.api.rate_limiter import Priority
from argosy_kube.kubernetes.api.reflector import Followed, Versions
from argosy_kube.kubernetes.api.resources import NODES, PODS, ResourceDiscovery
from argosy_kube.kubernetes.api.transport import ApiServer, unavailable
from argosy_kube.kubernetes.ours.binding import PodBinder
from argosy_kube.kubernetes.ours.kinds import OwnKinds
from argosy_kube.kubernetes.ours.objects import OwnObjects
from argosy_kube.kubernetes.ours.observing import CHANGES, Observer, apply_health
from argosy_kube.kubernetes.ours.places import Place, PlaceIndex
from argosy_kube.kubernetes.ours.pod_warnings import PodWarnings
from argosy_kube.kubernetes.ours.relabelling import Relabeller
from argosy_kube.kubernetes.reading.columns import LOST_REASON, SharedTables
from argosy_kube.kubernetes.reading.nodes import describe_node, overheads_of
from argosy_kube.kubernetes.settings import KubernetesSettings
from argosy_kube.meter import NO_METER, ApiMeter
from argosy_kube.port import (
    Change,
    CreateResult,
    DeleteResult,
    NodeDescription,
    NodeEvents,
    ObjectEvents,
    Selector,
    WatchGone,
)

__all__ = ["KubernetesCluster"]

T = TypeVar("T", NodeDocument, PodDocument)

_BUDGET_RATIO: Final = 0.4
_UID_PATH: Final = "/api/v1/namespaces/kube-system"
_RUNTIME_CLASSES_PATH: Final = "/apis/node.k8s.io/v1/runtimeclasses"


class KubernetesCluster:
    """A Kubernetes cluster, seen by one installation; implements the cluster port."""

    def __init__(
        self,
        source: CredentialSource,
        *,
        installation: str,
        call_timeout_s: float = 30.0,
        settings: KubernetesSettings | None = None,
        rng: np.random.Generator | None = None,
        shares_pods: bool = False,
        meter: ApiMeter = NO_METER,
    ) -> None:
        """Connect to nothing yet.

        Args:
            source: Where credentials are.
            installation: Whose objects are ours; a label value.
            call_timeout_s: How long one call of the port may take, watches and logs apart.
            settings: How the API server is used.
            rng: Spreads retries, and draws what must not meet anybody else's.
            shares_pods: Our pods are picked from a watch of all pods, since somebody in this process reads all of them.
            meter: Whom calls and watches are told to.
        """
        self._settings = settings = settings if settings is not None else KubernetesSettings()
        self._budget_s = call_timeout_s * _BUDGET_RATIO
        self._installation = installation
        rng = rng if rng is not None else np.random.default_rng()
        self._server = server = ApiServer(
            Credentials(source), settings=settings, call_timeout_s=call_timeout_s, rng=rng, meter=meter
        )
        self._tables = SharedTables()
        self._places = PlaceIndex()
        self._versions = Versions()
        self._nodes = KindReflector(
            server, Followed(resource=NODES, page=LIST_OF_NODES, line=WATCH_OF_NODES), self._versions
        )
        self._all_pods = self._follow_pods("")
        discovery = ResourceDiscovery(server)
        self._kinds = OwnKinds(discovery, names=settings.kinds, discover=settings.discover, monotonic=time.monotonic)
        self._relabeller = Relabeller(server, installation, self._places)
        self._binder = PodBinder(server)
        self._observer = Observer(
            installation,
            self._tables,
            self._places,
            release=self._release,
            relabeller=self._relabeller,
            warnings=PodWarnings(server, self._places),
            binder=self._binder,
        )
        self._releases: set[asyncio.Task[None]] = set()
        query = f"labelSelector={quote(f'{INSTALLATION_LABEL}={installation}', safe='')}"
        self._own = OwnObjects(
            server,
            query=query,
            pods=self._all_pods if shares_pods else self._follow_pods(query, settings.namespaces),
            nodes=self._nodes,
            kinds=self._kinds,
            observer=self._observer,
            versions=self._versions,
        )
        templates = TemplateCache(installation, settings, discovery, rng=rng)
        self._finder = Finder(templates, self._observer, kinds=self._kinds, installation=installation)
        self._creator = Creator(
            server,
            templates,
            installation=installation,
            places=self._places,
            restore=self._relabeller.restore,
            use=self._kinds.use,
            binder=self._binder,
        )
        self._deleter = Deleter(
            server,
            installation=installation,
            places=self._places,
            nodes=self._own.states,
            resource_of=self._kinds.named,
        )

    def _follow_pods(self, query: str, namespaces: tuple[str, ...] = ()) -> KindReflector[PodDocument]:
        followed = Followed(resource=PODS, page=LIST_OF_PODS, line=WATCH_OF_PODS, query=query)
        return KindReflector(self._server, followed, self._versions, namespaces=namespaces)

    async def __aenter__(self) -> Self:
        """Return the cluster."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close connections."""
        await self.close()

    async def cluster_uid(self) -> str:
        """Return the uid of the namespace kube-system, which lives as long as its cluster."""
        with _translated("reading the cluster's uid"):
            return decode(KEYS, await self._server.call("GET", _UID_PATH, priority=Priority.READ)).metadata.uid

    # --- nodes --------------------------------------------------------------------------------------------------------

    async def list_nodes(self) -> NodeEvents:
        """See Cluster."""
        nodes: list[NodeDescription] = []

        def begin() -> Callable[[list[NodeDocument]], None]:
            nodes.clear()
            return lambda page: nodes.extend(map(describe_node, page))

        version = self._versions.draw()
        with _translated("listing nodes"):
            await self._nodes.list(begin, version=version)
        changes = np.full(len(nodes), Change.ADDED, dtype=np.int8)
        return NodeEvents(change_column=changes, nodes=tuple(nodes), version=version)

    async def watch_nodes(self, version: int) -> AsyncGenerator[NodeEvents, None]:
        """See Cluster."""
        async with contextlib.aclosing(self._follow(self._nodes, version)) as batches:
            async for events, reached in batches:
                yield NodeEvents(
                    change_column=np.array([CHANGES[event.type] for event in events], dtype=np.int8),
                    nodes=tuple(describe_node(event.object) for event in events),
                    version=reached,
                )

    async def runtime_overheads(self) -> dict[str, dict[str, int]] | None:
        """See Cluster."""
        with _translated("listing runtime classes"):
            try:
                body = await self._server.call("GET", _RUNTIME_CLASSES_PATH, priority=Priority.READ)
            except ApiFailure as failure:
                if failure.code in (FORBIDDEN, MISSING):
                    return None
                raise
            return overheads_of(decode(LIST_OF_RUNTIME_CLASSES, body).items or ())

    # --- objects ------------------------------------------------------------------------------------------------------

    async def list_objects(self, selector: Selector) -> ObjectEvents:
        """See Cluster."""
        if selector == Selector.OURS:
            return await self._own.read()
        rows, version = self._tables.begin(), self._versions.draw()

        def add(pod: PodDocument) -> None:
            self._observer.add_any_pod(rows, Change.ADDED, pod, time_us=0)

        with _translated("listing pods"):
            await self._all_pods.list(rows.filling(add), version=version)
        return rows.build(version)

    async def watch_objects(self, selector: Selector, version: int) -> AsyncGenerator[ObjectEvents, None]:
        """See Cluster."""
        if selector == Selector.OURS:
            async with contextlib.aclosing(self._own.watch(version)) as own:
                async for batch in own:
                    yield batch
            return
        async with contextlib.aclosing(self._follow(self._all_pods, version)) as batches:
            async for events, reached in batches:
                rows, now_us = self._tables.begin(), time.time_ns() // 1000
                for event in events:
                    self._observer.add_any_pod(rows, CHANGES[event.type], event.object, time_us=now_us)
                yield rows.build(reached)

    async def _follow(
        self, reflector: KindReflector[T], version: int
    ) -> AsyncGenerator[tuple[list[WatchEvent[T]], int], None]:
        """Give (events, version to resume from) of one kind until the watch ends.

        Args:
            reflector: Follows the kind.
            version: What it goes on from.
        """
        what, news = f"watching {reflector.resource.plural}", asyncio.Event()
        with _translated(what):
            reader = reflector.join(version, news.set)
        told = reader.reached
        try:
            while True:
                await news.wait()
                if self._settings.gather_ms > 0 and not reader.has_ended:
                    await asyncio.sleep(self._settings.gather_ms / 1000)
                news.clear()
                events, failure = reader.take()
                if events or reader.reached != told:
                    told, version = reader.reached, self._versions.draw()
                    reader.note(version)
                    yield events, version
                with _translated(what):
                    if failure is not None:
                        raise failure
                if reader.has_news:
                    news.set()
                elif reader.has_ended:
                    return
        finally:
            await reader.stop()

    async def create_objects(self, batch: Creates) -> CreateResult:
        """See Cluster. Objects of one bag are made in order, bags side by side."""
        return await self._creator.create(batch, budget_s=self._budget_s)

    async def delete_objects(self, batch: Deletes) -> DeleteResult:
        """See Cluster. What our finalizer keeps is let go."""
        return await self._deleter.delete(batch, budget_s=self._budget_s)

    async def find_objects(self, batch: Creates) -> ObjectEvents:
        """See Cluster. Few are read by name, many in a list of their namespace without a selector."""
        with _translated("looking for objects by name"):
            rows = await self._finder.find(batch)
        events = rows.build(0)
        apply_health(events, self._own.states, LOST_REASON)
        return replace(events, unlistable_kinds=self._kinds.unlistable_names)

    async def container_names(self, handle: int, ordinal: int, object_index: int) -> tuple[str, ...]:
        """See Cluster."""
        return await container_names(self._server, self._installation, (handle, ordinal, object_index))

    async def read_log(  # noqa: PLR0913 - what can be said of a log
        self,
        handle: int,
        ordinal: int,
        object_index: int,
        *,
        container: str = "",
        follow: bool,
        tail_line_count: int | None,
        timestamps: bool = False,
        since_s: int = 0,
    ) -> AsyncGenerator[bytes, None]:
        """See Cluster."""
        pieces = read_pod_log(
            self._server,
            self._installation,
            (handle, ordinal, object_index),
            container=container,
            follow=follow,
            tail_line_count=tail_line_count,
            timestamps=timestamps,
            since_s=since_s,
        )
        async with contextlib.aclosing(pieces):
            async for piece in pieces:
                yield piece

    async def release_pods(self, *, dry_run: bool = False) -> int:
        """Take our finalizer from every pod of the installation, which goes away; nothing is deleted by us.

        Args:
            dry_run: Only count them.

        Returns:
            How many there were; a pod that went meanwhile counts.

        Raises:
            BackendUnavailable: They cannot be listed, or one was refused; those before it are done.
        """
        with _translated("letting go of pods"):
            kept = [pod.metadata for pod in await list_kept(self._server, self._installation)]
            for pod in () if dry_run else kept:
                await self._deleter.release(Place(PODS, pod.namespace, pod.name), pod.uid)
        return len(kept)

    async def close(self) -> None:
        """See Cluster."""
        releases = list(self._releases)
        for task in releases:
            task.cancel()
        await asyncio.gather(*releases, return_exceptions=True)
        await self._relabeller.close()
        await self._binder.close()
        await self._server.close()

    def _release(self, place: Place, uid: str) -> None:
        """Let go of a pod that nothing but our finalizer keeps, meanwhile; a later list tries again if this fails."""

        async def release() -> None:
            with contextlib.suppress(ApiFailure):
                await self._deleter.release(place, uid)

        task = asyncio.get_running_loop().create_task(release(), name="release a pod")
        self._releases.add(task)
        task.add_done_callback(self._releases.discard)


@contextlib.contextmanager
def _translated(what: str) -> Generator[None, None, None]:
    """Turn failures into the port's errors."""
    try:
        yield
    except ApiFailure as failure:
        if failure.code == GONE:
            raise WatchGone(failure.message) from failure
        raise unavailable(failure, what) from failure

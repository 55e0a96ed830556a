"""The cluster port on a Kubernetes API server.

Versions: the port has one for all kinds. For nodes, and for all pods, it is the API server's resource version. For our
objects of several kinds it stands for one resource version per kind; the adapter remembers what the last few thousand
stand for (see `versions`), so such a version is good for this adapter object only, and any other is answered WatchGone.

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

from argosy_core.reconcile.rendering import INSTALLATION_LABEL
from argosy_kube.failure_table import NODE_LOST
from argosy_kube.kubernetes.answers import GONE, ApiFailure, decode
from argosy_kube.kubernetes.columns import EventRows, EventTables
from argosy_kube.kubernetes.creation import Creator
from argosy_kube.kubernetes.credentials import Credentials, CredentialSource
from argosy_kube.kubernetes.deletion import Deleter
from argosy_kube.kubernetes.documents import (
    KEYS,
    LIST_OF_NODES,
    LIST_OF_PODS,
    WATCH_OF_PODS,
    NodeDocument,
    PodDocument,
    WatchEvent,
)
from argosy_kube.kubernetes.eviction import EvictionAnswer, Evictor
from argosy_kube.kubernetes.finding import Finder
from argosy_kube.kubernetes.kinds import OwnKinds
from argosy_kube.kubernetes.listing import read_list
from argosy_kube.kubernetes.logs import read_pod_log
from argosy_kube.kubernetes.node_feed import NodeFeed
from argosy_kube.kubernetes.nodes import describe_node
from argosy_kube.kubernetes.observing import CHANGES, Observer, apply_health
from argosy_kube.kubernetes.own_objects import OwnObjects
from argosy_kube.kubernetes.pacing import Priority
from argosy_kube.kubernetes.places import Place, PlaceBook
from argosy_kube.kubernetes.pod_warnings import PodWarnings
from argosy_kube.kubernetes.relabelling import Relabeller
from argosy_kube.kubernetes.rendering import MouldBook
from argosy_kube.kubernetes.resources import NODES, PODS, ResourceBook
from argosy_kube.kubernetes.settings import KubernetesSettings
from argosy_kube.kubernetes.transport import ApiServer, unavailable
from argosy_kube.kubernetes.watching import EventSource, WatchStream
from argosy_kube.port import (
    Change,
    CreateBatch,
    CreateResult,
    DeleteBatch,
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
    ) -> None:
        """Connect to nothing yet.

        Args:
            source: Where credentials are.
            installation: Whose objects are ours; a label value.
            call_timeout_s: How long one call of the port may take, watches and logs apart.
            settings: How the API server is used.
            rng: Spreads retries, and draws what must not meet anybody else's.
        """
        self._settings = settings = settings if settings is not None else KubernetesSettings()
        self._budget_s = call_timeout_s * _BUDGET_RATIO
        self._installation = installation
        rng = rng if rng is not None else np.random.default_rng()
        self._server = ApiServer(Credentials(source), settings=settings, call_timeout_s=call_timeout_s, rng=rng)
        self._tables = EventTables()
        self._places = PlaceBook()
        self._feed = NodeFeed(self._server, settings)
        self._book = ResourceBook(self._server)
        self._kinds = OwnKinds(self._book, names=settings.kinds, discover=settings.discover)
        self._relabeller = Relabeller(
            self._server,
            installation,
            self._places,
            concurrency=settings.concurrency,
            page_count=settings.page_count,
        )
        self._observer = Observer(
            installation,
            self._tables,
            self._places,
            release=self._release,
            relabeller=self._relabeller,
            warnings=PodWarnings(self._server, self._places, after_s=settings.warnings_after_s),
        )
        self._releases: set[asyncio.Task[None]] = set()
        self._uid = ""
        self._own, self._shared = (
            OwnObjects(
                self._server,
                settings,
                query=f"labelSelector={quote(f'{INSTALLATION_LABEL}={installation}', safe='')}",
                kinds=self._kinds,
                observer=self._observer,
                feed=self._feed,
                has_strangers=has_strangers,
            )
            for has_strangers in (False, True)
        )
        moulds = MouldBook(installation, settings, self._book, rng=rng)
        self._finder = Finder(
            self._server, moulds, self._observer, settings, kinds=self._kinds, installation=installation
        )
        self._creator = Creator(
            self._server,
            moulds,
            settings,
            installation=installation,
            places=self._places,
            restore=self._relabeller.restore,
            use=self._kinds.use,
        )
        self._evictor = Evictor(self._server, self._places)
        self._deleter = Deleter(
            self._server,
            installation=installation,
            places=self._places,
            nodes=self._feed.states,
            resource_of=self._kinds.named,
            concurrency=settings.concurrency,
        )

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
        if not self._uid:
            with _translated("reading the cluster's uid"):
                body = await self._server.call("GET", _UID_PATH, priority=Priority.READ)
                self._uid = decode(KEYS, body).metadata.uid
        return self._uid

    # --- nodes --------------------------------------------------------------------------------------------------------

    async def list_nodes(self) -> NodeEvents:
        """See Cluster."""
        nodes: list[NodeDescription] = []

        def begin() -> Callable[[list[NodeDocument]], None]:
            nodes.clear()
            return lambda page: nodes.extend(map(describe_node, page))

        with _translated("listing nodes"):
            position = await read_list(
                self._server, NODES.path(), LIST_OF_NODES, begin=begin, page_count=self._settings.page_count
            )
        changes = np.full(len(nodes), Change.ADDED, dtype=np.int8)
        return NodeEvents(change_column=changes, nodes=tuple(nodes), version=int(position))

    async def watch_nodes(self, version: int) -> AsyncGenerator[NodeEvents, None]:
        """See Cluster."""

        def join(wake: Callable[[], None]) -> EventSource[NodeDocument]:
            return self._feed.join(str(version), wake)

        async with contextlib.aclosing(self._follow("nodes", join, version)) as batches:
            async for events, position in batches:
                yield NodeEvents(
                    change_column=np.array([CHANGES[event.type] for event in events], dtype=np.int8),
                    nodes=tuple(describe_node(event.object) for event in events),
                    version=position,
                )

    # --- objects ------------------------------------------------------------------------------------------------------

    async def list_objects(self, selector: Selector) -> ObjectEvents:
        """See Cluster."""
        if selector != Selector.ALL_PODS:
            return await (self._own if selector == Selector.OURS else self._shared).read()
        rows = EventRows(self._tables)

        def begin() -> Callable[[list[PodDocument]], None]:
            rows.cut(0)

            def take(page: list[PodDocument]) -> None:
                for pod in page:
                    self._observer.add_pod(rows, Change.ADDED, pod, time_us=0, has_strangers=True, has_own=False)
                rows.fold()

            return take

        with _translated("listing pods"):
            position = await read_list(
                self._server, PODS.path(), LIST_OF_PODS, begin=begin, page_count=self._settings.page_count
            )
        return rows.build(int(position))

    async def watch_objects(self, selector: Selector, version: int) -> AsyncGenerator[ObjectEvents, None]:
        """See Cluster."""
        if selector != Selector.ALL_PODS:
            source = self._own if selector == Selector.OURS else self._shared
            async with contextlib.aclosing(source.watch(version)) as own:
                async for batch in own:
                    yield batch
            return

        def begin(wake: Callable[[], None]) -> EventSource[PodDocument]:
            stream: WatchStream[PodDocument] = WatchStream(
                self._server,
                self._settings,
                PODS,
                decoder=WATCH_OF_PODS,
                selector="",
                position=str(version),
                wake=wake,
            )
            stream.start()
            return stream

        async with contextlib.aclosing(self._follow("pods", begin, version)) as batches:
            async for events, position in batches:
                rows, now_us = EventRows(self._tables), time.time_ns() // 1000
                for event in events:
                    self._observer.add_pod(
                        rows, CHANGES[event.type], event.object, time_us=now_us, has_strangers=True, has_own=False
                    )
                yield rows.build(position)

    async def _follow(
        self, what: str, begin: Callable[[Callable[[], None]], EventSource[T]], version: int
    ) -> AsyncGenerator[tuple[list[WatchEvent[T]], int], None]:
        """Give (events, version to resume from) of one kind until the stream ends.

        Args:
            what: The kind, for people.
            begin: Gives the stream; called with what wakes this up.
            version: What it resumes from.
        """
        news = asyncio.Event()
        stream = begin(news.set)
        try:
            while True:
                await news.wait()
                if self._settings.gather_ms > 0 and not stream.has_ended:
                    await asyncio.sleep(self._settings.gather_ms / 1000)
                news.clear()
                with _translated(f"watching {what}"):
                    events = stream.take()
                position = int(stream.position)
                if events or position != version:
                    version = position
                    yield events, position
                if stream.has_news or stream.has_failed:
                    news.set()
                elif stream.has_ended:
                    return
        finally:
            await stream.stop()

    async def create_objects(self, batch: CreateBatch) -> CreateResult:
        """See Cluster. Objects of one bag are made in order, bags side by side."""
        return await self._creator.create(batch, budget_s=self._budget_s)

    async def delete_objects(self, batch: DeleteBatch) -> DeleteResult:
        """See Cluster. What our finalizer keeps is let go."""
        return await self._deleter.delete(batch, budget_s=self._budget_s)

    async def find_objects(self, batch: CreateBatch) -> ObjectEvents:
        """See Cluster. Few are read by name, many in a list of their namespace without a selector."""
        with _translated("looking for objects by name"):
            rows = await self._finder.find(batch)
        events = rows.build(0)
        apply_health(events, self._feed.states, self._tables.texts.intern(NODE_LOST))
        return replace(events, hidden_kinds=self._kinds.hidden)

    async def evict_pod(self, uid: bytes) -> EvictionAnswer:
        """Evict a pod of ours that was seen, if its disruption budgets allow it now; beyond the port, see `eviction`.

        Args:
            uid: Its 16 bytes; no other pod is ever hit.

        Raises:
            BackendUnavailable: It is not known whether it was done, or we have not the right.
        """
        with _translated("evicting a pod"):
            return await self._evictor.evict(uid)

    async def read_log(
        self,
        handle: int,
        attempt: int,
        object_index: int,
        *,
        container: str = "",
        follow: bool,
        tail_line_count: int | None,
    ) -> AsyncGenerator[bytes, None]:
        """See Cluster."""
        pieces = read_pod_log(
            self._server,
            self._installation,
            (handle, attempt, object_index),
            container=container,
            follow=follow,
            tail_line_count=tail_line_count,
        )
        async with contextlib.aclosing(pieces):
            async for piece in pieces:
                yield piece

    async def close(self) -> None:
        """See Cluster."""
        releases = list(self._releases)
        for task in releases:
            task.cancel()
        await asyncio.gather(*releases, return_exceptions=True)
        await self._relabeller.close()
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

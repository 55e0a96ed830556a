"""Our objects of all kinds: one list, and one watch made of a stream per kind.

Pods of nodes that are not heard of are unknown, those of nodes that are lost have failed; so the watch follows nodes as
well. Nodes are listed after the pods: a node that a pod is on and that the later list does not have is gone, and never
one that only came in between.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable
from typing import Any, Final
from urllib.parse import quote

from argosy_kube.kubernetes.answers import ApiFailure
from argosy_kube.kubernetes.columns import EventRows, uid_bytes
from argosy_kube.kubernetes.documents import (
    LIST_OF_KEYS,
    LIST_OF_NODES,
    LIST_OF_PODS,
    WATCH_OF_KEYS,
    WATCH_OF_NODES,
    WATCH_OF_PODS,
    KeyDocument,
    NodeDocument,
    PodDocument,
    WatchEvent,
)
from argosy_kube.kubernetes.kinds import OwnKinds, may_be_skipped
from argosy_kube.kubernetes.listing import KEYS_LIST, read_list
from argosy_kube.kubernetes.nodes import NodeHealth, NodeStates, health_of
from argosy_kube.kubernetes.observing import CHANGES, Observer, apply_health
from argosy_kube.kubernetes.pods import NODE_LOST
from argosy_kube.kubernetes.resources import NODES, PODS, Resource
from argosy_kube.kubernetes.settings import KubernetesSettings
from argosy_kube.kubernetes.transport import ApiServer, unavailable
from argosy_kube.kubernetes.versions import VersionMemory
from argosy_kube.kubernetes.watching import WatchStream
from argosy_kube.port import Change, ObjectEvents, WatchGone

__all__ = ["OwnObjects"]

_GONE: Final = 410
_NODE_LISTS_AT_ONCE: Final = 8


class OwnObjects:
    """Lists and watches the objects of one installation.

    Args:
        server: Where.
        settings: How.
        query: The label selector of our objects, as a query.
        kinds: Which kinds.
        observer: Reads documents.
        nodes: What is known of nodes; kept up to date here.
        has_strangers: Every pod is listed and watched, not only ours.
    """

    def __init__(
        self,
        server: ApiServer,
        settings: KubernetesSettings,
        *,
        query: str,
        kinds: OwnKinds,
        observer: Observer,
        nodes: NodeStates,
        has_strangers: bool,
    ) -> None:
        """Know no version."""
        self._server = server
        self._settings = settings
        self._query = query
        self._has_strangers = has_strangers
        self._pod_query = "" if has_strangers else query
        self._kinds = kinds
        self._observer = observer
        self._tables = observer.tables
        self._places = observer.places
        self._nodes = nodes
        self._versions = VersionMemory()
        self._lost_reason = observer.tables.texts.intern(NODE_LOST)

    # --- list ---------------------------------------------------------------------------------------------------------

    async def read(self) -> ObjectEvents:
        """Return everything that is there; see Cluster.list_objects.

        Raises:
            BackendUnavailable: The API server did not answer, or we may not list pods or nodes.
        """
        self._places.begin_list()
        self._observer.forget()
        try:
            rows, positions = await self._list_all()
        except ApiFailure as failure:
            self._places.drop_list()
            raise unavailable(failure, "listing our objects") from failure
        except BaseException:
            self._places.drop_list()
            raise
        self._places.end_list()
        events = rows.build(self._versions.keep(positions))
        apply_health(events, self._nodes, self._lost_reason)
        return events

    async def _list_all(self) -> tuple[EventRows, dict[str, str]]:
        rows = EventRows(self._tables)
        positions = {PODS.path(): await self._list_pods(rows, self._pod_query)}
        for pod in (await self._observer.relabeller.find(self._places.unseen(PODS))).values():
            self._observer.add_pod(rows, Change.ADDED, pod, time_us=0, has_strangers=self._has_strangers)
        resources = await self._kinds.to_list()
        for resource in resources:
            before = len(rows)
            try:
                position = await self._list_kind(rows, resource)
            except ApiFailure as failure:
                if may_be_skipped(failure):
                    self._kinds.drop(resource)
                    continue
                raise
            if len(rows) > before:
                self._kinds.use(resource)
            if resource in self._kinds.in_use:
                positions[resource.path()] = position
        self._kinds.looked(resources)
        found: list[NodeDocument] = []

        def begin() -> Callable[[list[NodeDocument]], None]:
            found.clear()
            return lambda page: found.extend(_without_details(page))

        positions[NODES.path()] = await read_list(
            self._server, NODES.path(), LIST_OF_NODES, begin=begin, page_count=self._settings.page_count
        )
        rows.fold()
        used = rows.node_indices()
        names = self._tables.nodes.texts
        self._nodes.reset(found, [names[index] for index in used])
        return rows, positions

    async def _list_pods(self, rows: EventRows, query: str, *, change: Change = Change.ADDED) -> str:
        mark = rows.mark()

        def begin() -> Callable[[list[PodDocument]], None]:
            rows.cut(mark)

            def take(page: list[PodDocument]) -> None:
                for pod in page:
                    self._observer.add_pod(rows, change, pod, time_us=0, has_strangers=self._has_strangers)
                rows.fold()

            return take

        return await read_list(
            self._server, PODS.path(), LIST_OF_PODS, begin=begin, page_count=self._settings.page_count, query=query
        )

    async def _list_kind(self, rows: EventRows, resource: Resource) -> str:
        mark = rows.mark()

        def begin() -> Callable[[list[KeyDocument]], None]:
            rows.cut(mark)

            def take(page: list[KeyDocument]) -> None:
                for document in page:
                    self._observer.add_object(rows, Change.ADDED, document, resource=resource, time_us=0)
                rows.fold()

            return take

        return await read_list(
            self._server,
            resource.path(),
            LIST_OF_KEYS,
            begin=begin,
            page_count=self._settings.page_count,
            query=self._query,
            accept=KEYS_LIST,
        )

    # --- watch --------------------------------------------------------------------------------------------------------

    async def watch(self, version: int) -> AsyncGenerator[ObjectEvents, None]:
        """Give what changes after a version; see Cluster.watch_objects.

        Raises:
            WatchGone: The version is not known, or too old.
            BackendUnavailable: The API server refused.
        """
        watch = _Watch(self._versions.find(version))
        self._kinds.listen(watch.news)
        warnings = asyncio.get_running_loop().create_task(
            self._observer.warnings.follow(watch.news.set), name="read warnings about pods"
        )
        try:
            for resource in (PODS, NODES):
                self._open(watch, resource, watch.positions[resource.path()])
            while True:
                events, failure = await self._next(watch)
                if len(events) or watch.has_moved:
                    watch.has_moved = False
                    yield events
                if failure is not None:
                    raise WatchGone(failure.message) if failure.code == _GONE else unavailable(failure, "watching")
                if watch.has_ended and not watch.has_news:
                    return
        except ApiFailure as failure:
            raise unavailable(failure, "watching our objects") from failure
        finally:
            self._kinds.unlisten(watch.news)
            warnings.cancel()
            await asyncio.gather(warnings, return_exceptions=True)
            for stream in watch.streams.values():
                await stream.stop()

    async def _next(self, watch: _Watch) -> tuple[ObjectEvents, ApiFailure | None]:
        """Wait for changes; return them, and why the watch cannot go on, if it cannot."""
        rows = EventRows(self._tables)
        await self._open_new(watch, rows)
        if not len(rows):
            await watch.news.wait()
            if self._settings.gather_ms > 0 and not watch.has_ended:
                await asyncio.sleep(self._settings.gather_ms / 1000)
        watch.news.clear()
        failure = await self._take(watch, rows)
        if watch.has_news:
            watch.news.set()
        events = rows.build(self._versions.keep(watch.positions))
        apply_health(events, self._nodes, self._lost_reason)
        return events, failure

    def _open(self, watch: _Watch, resource: Resource, position: str) -> None:
        """Begin to watch a kind."""
        decoder: Any = {PODS: WATCH_OF_PODS, NODES: WATCH_OF_NODES}.get(resource, WATCH_OF_KEYS)
        stream: WatchStream[Any] = WatchStream(
            self._server,
            self._settings,
            resource,
            decoder=decoder,
            selector={NODES: "", PODS: self._pod_query}.get(resource, self._query),
            position=position,
            wake=watch.news.set,
        )
        watch.streams[resource.path()] = stream
        stream.start()

    async def _open_new(self, watch: _Watch, rows: EventRows) -> None:
        """Begin to watch kinds that came into use; those that the version knows nothing of are listed first."""
        for resource in self._kinds.in_use:
            path = resource.path()
            if path in watch.streams:
                continue
            position = watch.positions.get(path)
            if position is None:
                try:
                    position = watch.positions[path] = await self._list_kind(rows, resource)
                except ApiFailure as failure:
                    if may_be_skipped(failure):
                        self._kinds.drop(resource)
                        continue
                    raise
                watch.has_moved = True
            self._open(watch, resource, position)

    async def _take(self, watch: _Watch, rows: EventRows) -> ApiFailure | None:
        """Turn what has come into rows; return why the watch cannot go on, if it cannot."""
        now_us = time.time_ns() // 1000
        for path, stream in list(watch.streams.items()):
            try:
                events = stream.take()
            except ApiFailure as failure:
                if stream.resource in {PODS, NODES} or not may_be_skipped(failure):
                    return failure
                self._kinds.drop(stream.resource)  # the kind went from the cluster; its objects went with it
                await watch.streams.pop(path).stop()
                continue
            resource = stream.resource
            there = await self._look_for_doubtful(events) if resource == PODS else {}
            changed: list[str] = []
            for event in events:
                if resource == NODES:
                    changed += self._take_node(event.type, event.object)
                elif resource == PODS:
                    found = there.get(event.object.metadata.uid) if event.type == "DELETED" else None
                    change = CHANGES[event.type] if found is None else Change.MODIFIED
                    self._observer.add_pod(
                        rows, change, found or event.object, time_us=now_us, has_strangers=self._has_strangers
                    )
                else:
                    self._observer.add_object(
                        rows, CHANGES[event.type], event.object, resource=resource, time_us=now_us
                    )
            if changed:
                await self._tell_nodes(rows, changed)
            if stream.position != watch.positions.get(path):
                watch.positions[path] = stream.position
                watch.has_moved = True
        await self._tell_warnings(rows)
        return None

    async def _look_for_doubtful(self, events: list[WatchEvent[PodDocument]]) -> dict[str, PodDocument]:
        """Return, by uid, the pods that are told as gone and are there: they only do not match the selector any more.

        Raises:
            ApiFailure: It is not known; what the watch brought is then not told.
        """
        doubtful = [event.object for event in events if self._observer.is_doubtful(CHANGES[event.type], event.object)]
        if not doubtful or self._has_strangers:
            return {}
        found = await self._observer.relabeller.find([uid_bytes(pod.metadata.uid) for pod in doubtful])
        return {pod.metadata.uid: pod for pod in found.values()}

    def _take_node(self, change: str, node: NodeDocument) -> list[str]:
        health = NodeHealth.LOST if change == "DELETED" else health_of(node)
        name = node.metadata.name
        return [name] if self._nodes.set(name, health) else []

    async def _tell_nodes(self, rows: EventRows, names: list[str]) -> None:
        """Tell of the pods of nodes whose health changed; it means another phase."""
        limit = asyncio.Semaphore(_NODE_LISTS_AT_ONCE)

        async def tell(name: str) -> EventRows:
            part = EventRows(self._tables)
            query = f"fieldSelector={quote(f'spec.nodeName={name}', safe='')}"
            if self._pod_query:
                query = f"{self._pod_query}&{query}"
            async with limit:
                await self._list_pods(part, query, change=Change.MODIFIED)
            return part

        for part in await asyncio.gather(*(tell(name) for name in dict.fromkeys(names))):
            rows.extend(part)

    async def _tell_warnings(self, rows: EventRows) -> None:
        """Tell of pods that have not changed, and about which others wrote why they wait."""
        fresh = self._observer.warnings.take_fresh()
        if not fresh:
            return
        part = EventRows(self._tables)
        with contextlib.suppress(ApiFailure):  # the next list tells it
            for pod in (await self._observer.relabeller.find([uid_bytes(uid) for uid in fresh])).values():
                self._observer.add_pod(part, Change.MODIFIED, pod, time_us=0, has_strangers=self._has_strangers)
            rows.extend(part)


class _Watch:
    """A watch under way."""

    def __init__(self, positions: dict[str, str]) -> None:
        self.positions = positions
        """Resource version by kind's path: what was told."""
        self.streams: dict[str, WatchStream[Any]] = {}
        self.news = asyncio.Event()
        self.has_moved = False

    @property
    def has_ended(self) -> bool:
        return any(stream.has_ended for stream in self.streams.values())

    @property
    def has_news(self) -> bool:
        return any(stream.has_news or stream.has_failed for stream in self.streams.values())


def _without_details(nodes: list[NodeDocument]) -> list[NodeDocument]:
    """Drop what health does not need, so that a list of all nodes is small."""
    for node in nodes:
        node.metadata.labels = None
        node.status.allocatable = None
    return nodes

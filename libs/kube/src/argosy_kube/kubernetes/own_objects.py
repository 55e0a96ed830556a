"""Our objects of all kinds: one list, and one watch made of a stream per kind.

Pods of nodes that are not heard of are unknown, those of nodes that are lost have failed; so the watch follows nodes as
well, by the stream that all who follow nodes share (`node_feed`). Nodes are listed after the pods: a node that a pod is
on and that the later list does not have is gone, and never one that only came in between.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from typing import Any, Final
from urllib.parse import quote

from argosy_kube.failure_table import NODE_LOST
from argosy_kube.kubernetes.answers import GONE, KEYS_LIST, ApiFailure
from argosy_kube.kubernetes.columns import EventRows, uid_bytes
from argosy_kube.kubernetes.documents import (
    LIST_OF_KEYS,
    LIST_OF_NODES,
    LIST_OF_PODS,
    WATCH_OF_KEYS,
    WATCH_OF_PODS,
    KeyDocument,
    NodeDocument,
    PodDocument,
    WatchEvent,
)
from argosy_kube.kubernetes.kinds import OwnKinds
from argosy_kube.kubernetes.listing import read_list
from argosy_kube.kubernetes.node_feed import NodeFeed
from argosy_kube.kubernetes.nodes import NodeHealth, health_of
from argosy_kube.kubernetes.observing import CHANGES, Observer, apply_health
from argosy_kube.kubernetes.resources import NODES, PODS, Resource
from argosy_kube.kubernetes.settings import KubernetesSettings
from argosy_kube.kubernetes.transport import ApiServer, unavailable
from argosy_kube.kubernetes.versions import VersionMemory
from argosy_kube.kubernetes.watching import EventSource, WatchStream
from argosy_kube.port import Change, ObjectEvents, WatchGone

__all__ = ["OwnObjects"]

_NODE_LISTS_AT_ONCE: Final = 8
HIDDEN_PAUSE_S = 15.0
"""How long a kind that we may not look at is left alone by a watch."""


class OwnObjects:
    """Lists and watches the objects of one installation.

    Args:
        server: Where.
        settings: How.
        query: The label selector of our objects, as a query.
        kinds: Which kinds.
        observer: Reads documents.
        feed: The watch of nodes; what is known of them is kept up to date here.
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
        feed: NodeFeed,
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
        self._feed = feed
        self._nodes = feed.states
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
        return self._tell(rows, positions)

    def _tell(self, rows: EventRows, positions: dict[str, str]) -> ObjectEvents:
        """Return rows as the port gives them."""
        events = rows.build(self._versions.keep(positions))
        apply_health(events, self._nodes, self._lost_reason)
        return replace(events, hidden_kinds=hidden) if (hidden := self._kinds.hidden) else events

    async def _list_all(self) -> tuple[EventRows, dict[str, str]]:
        rows = EventRows(self._tables)
        positions = {PODS.path(): await self._list_pods(rows, self._pod_query)}
        resources = await self._kinds.to_list()
        for resource in resources:
            before = len(rows)
            try:
                position = await self._list_kind(rows, resource)
            except ApiFailure as failure:
                if not self._kinds.pass_over(resource, failure):
                    raise
                if self._kinds.is_hidden(resource):
                    self._places.keep(resource)
                continue
            self._kinds.saw(resource)
            if len(rows) > before:
                self._kinds.use(resource)
            if resource in self._kinds.in_use:
                positions[resource.path()] = position
        self._kinds.looked(resources)
        await self._list_unseen(rows)
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

    async def _list_unseen(self, rows: EventRows) -> None:
        """Add what was known and is not in the list, if it is there: it only does not match the selector any more."""
        for resource, uids in self._places.unseen().items():
            if resource == PODS:
                for pod in (await self._observer.relabeller.find(uids)).values():
                    self._observer.add_pod(rows, Change.ADDED, pod, time_us=0, has_strangers=self._has_strangers)
            else:
                for document in (await self._observer.relabeller.find_others(resource, uids)).values():
                    self._observer.add_object(rows, Change.ADDED, document, resource=resource, time_us=0)

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
            self._open(watch, PODS, watch.positions[PODS.path()])
            watch.streams[NODES.path()] = self._feed.join(watch.positions[NODES.path()], watch.news.set)
            while True:
                events, failure = await self._next(watch)
                if len(events) or watch.has_moved:
                    watch.has_moved = False
                    yield events
                if failure is not None:
                    raise WatchGone(failure.message) if failure.code == GONE else unavailable(failure, "watching")
                if watch.has_ended and not watch.has_news:
                    return
        except ApiFailure as failure:
            raise unavailable(failure, "watching our objects") from failure
        finally:
            self._kinds.unlisten(watch.news)
            warnings.cancel()
            await asyncio.gather(warnings, return_exceptions=True)
            for timer in watch.put_off.values():
                timer.cancel()
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
        return self._tell(rows, watch.positions), failure

    def _open(self, watch: _Watch, resource: Resource, position: str) -> None:
        """Begin to watch a kind of our objects."""
        decoder: Any = WATCH_OF_PODS if resource == PODS else WATCH_OF_KEYS
        stream: WatchStream[Any] = WatchStream(
            self._server,
            self._settings,
            resource,
            decoder=decoder,
            selector=self._pod_query if resource == PODS else self._query,
            position=position,
            wake=watch.news.set,
        )
        watch.streams[resource.path()] = stream
        stream.start()

    async def _open_new(self, watch: _Watch, rows: EventRows) -> None:
        """Begin to watch kinds that came into use; those that the version knows nothing of are listed first.

        Raises:
            ApiFailure: A kind that is used could not be listed.
            WatchGone: A kind can be looked at again that could not be when all was listed.
        """
        for resource in self._kinds.in_use:
            path = resource.path()
            if path in watch.streams or path in watch.put_off:
                continue
            position = watch.positions.get(path)
            if position is None:
                was_hidden = self._kinds.is_hidden(resource)
                try:
                    position = watch.positions[path] = await self._list_kind(rows, resource)
                except ApiFailure as failure:
                    if not self._kinds.pass_over(resource, failure):
                        raise
                    if self._kinds.is_hidden(resource):
                        watch.leave_alone(path)
                    continue
                if was_hidden:
                    raise WatchGone(f"{resource.full_name} can be looked at again")
                watch.has_moved = True
            self._open(watch, resource, position)

    async def _take(self, watch: _Watch, rows: EventRows) -> ApiFailure | None:
        """Turn what has come into rows; return why the watch cannot go on, if it cannot."""
        now_us = time.time_ns() // 1000
        for path, stream in list(watch.streams.items()):
            try:
                events = stream.take()
            except ApiFailure as failure:
                if stream.resource in {PODS, NODES} or not self._kinds.pass_over(stream.resource, failure):
                    return failure
                await watch.streams.pop(path).stop()
                if self._kinds.is_hidden(stream.resource):
                    watch.leave_alone(path)
                    watch.has_moved = True  # to tell that it is hidden
                continue
            resource = stream.resource
            there = await self._look_for_doubtful(events, resource)
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
                    found = there.get(event.object.metadata.uid) if event.type == "DELETED" else None
                    change = CHANGES[event.type] if found is None else Change.MODIFIED
                    self._observer.add_object(rows, change, found or event.object, resource=resource, time_us=now_us)
            if changed:
                await self._tell_nodes(rows, changed)
            if stream.position != watch.positions.get(path):
                watch.positions[path] = stream.position
                watch.has_moved = True
                self._kinds.saw(resource)
        await self._tell_warnings(rows)
        return None

    async def _look_for_doubtful(self, events: list[WatchEvent[Any]], resource: Resource) -> dict[str, Any]:
        """Return, by uid, what is told as gone and is there: it only does not match the selector any more.

        Raises:
            ApiFailure: It is not known; what the watch brought is then not told.
        """
        if resource == NODES or (resource == PODS and self._has_strangers):
            return {}
        doubtful = [event.object for event in events if self._observer.is_doubtful(CHANGES[event.type], event.object)]
        if not doubtful:
            return {}
        uids, relabeller = [uid_bytes(document.metadata.uid) for document in doubtful], self._observer.relabeller
        found = await (relabeller.find(uids) if resource == PODS else relabeller.find_others(resource, uids))
        return {document.metadata.uid: document for document in found.values()}

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
        self.streams: dict[str, EventSource[Any]] = {}
        self.news = asyncio.Event()
        self.has_moved = False
        self.put_off: dict[str, asyncio.TimerHandle] = {}
        """Hidden kinds by path, with what lets them be tried again."""

    def leave_alone(self, path: str) -> None:
        """Leave a hidden kind alone for a while."""

        def again() -> None:
            del self.put_off[path]
            self.news.set()

        self.put_off[path] = asyncio.get_running_loop().call_later(HIDDEN_PAUSE_S, again)

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

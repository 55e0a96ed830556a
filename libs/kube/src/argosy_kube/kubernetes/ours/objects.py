"""Our objects of all kinds: one list and one watch, made of a reflector per kind.

Pods of nodes that are not heard of are unknown, those of nodes that are lost have failed; so the watch follows nodes as
well. Nodes are listed after the pods: a node that a pod is on and that the later list does not have is gone, and never
one that only came in between.

A list beside a watch is followed by what the watch has brought meanwhile, so it is never older than what was told.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from typing import Any, Final
from urllib.parse import quote

from argosy_kube.kubernetes.api.answers import GONE, KEYS_LIST, ApiFailure
from argosy_kube.kubernetes.api.documents import (
    LIST_OF_KEYS,
    WATCH_OF_KEYS,
    NodeDocument,
    PodDocument,
    WatchEvent,
)
from argosy_kube.kubernetes.api.kind_reflector import KindReader, KindReflector, Position
from argosy_kube.kubernetes.api.reflector import Followed, Versions
from argosy_kube.kubernetes.api.resources import NODES, PODS, Resource
from argosy_kube.kubernetes.api.transport import ApiServer, unavailable
from argosy_kube.kubernetes.ours.kinds import OwnKinds
from argosy_kube.kubernetes.ours.observing import CHANGES, Observer, apply_health
from argosy_kube.kubernetes.reading.columns import LOST_REASON, EventRows, uid_bytes
from argosy_kube.kubernetes.reading.nodes import NodeHealth, NodeStates, health_of
from argosy_kube.port import Change, ObjectEvents, WatchGone

__all__ = ["OwnObjects"]

_MOST_NODE_LISTS: Final = 8
"""Nodes whose pods are listed node by node; for more of them, one list of all our pods costs less."""


class OwnObjects:
    """Lists and watches the objects of one installation.

    Args:
        server: Where.
        query: The label selector of our objects, as a query.
        pods: Follows pods, ours alone or all.
        nodes: Follows nodes.
        kinds: Which kinds.
        observer: Reads documents.
        versions: Counts versions.
    """

    def __init__(
        self,
        server: ApiServer,
        *,
        query: str,
        pods: KindReflector[PodDocument],
        nodes: KindReflector[NodeDocument],
        kinds: OwnKinds,
        observer: Observer,
        versions: Versions,
    ) -> None:
        """Know no object."""
        self._server = server
        self._gather_s = server.settings.gather_ms / 1000
        self._query = query
        self._pods = pods
        self._nodes = nodes
        self._reflectors: dict[str, KindReflector[Any]] = {PODS.full_name: pods, NODES.full_name: nodes}
        self.states = NodeStates()
        """Which nodes are not heard of or lost."""
        self._kinds = kinds
        self._observer = observer
        self._tables = observer.tables
        self._places = observer.places
        self._versions = versions
        self._knows_strays = False

    def _reflector(self, resource: Resource) -> KindReflector[Any]:
        """Return what follows a kind of our objects."""
        found = self._reflectors.get(resource.full_name)
        if found is None:
            followed = Followed(
                resource=resource, page=LIST_OF_KEYS, line=WATCH_OF_KEYS, query=self._query, accept=KEYS_LIST
            )
            found = self._reflectors[resource.full_name] = KindReflector(
                self._server, followed, self._versions, namespaces=self._server.settings.namespaces
            )
        return found

    # --- list ---------------------------------------------------------------------------------------------------------

    async def read(self) -> ObjectEvents:
        """Return everything that is there; see Cluster.list_objects.

        Raises:
            BackendUnavailable: The API server did not answer, or we may not list pods or nodes.
        """
        self._places.begin_list()
        self._observer.forget()
        # What comes meanwhile is read beside the list, of all kinds that are watched.
        besides = [beside for one in self._reflectors.values() if (beside := one.join_beside(_sleep_on)) is not None]
        try:
            version, rows = self._versions.draw(), self._tables.begin()
            listed = await self._list_all(rows)
            for resource, events, reached in _since(besides, listed):
                await self._add(rows, resource, events)
                listed[resource] = reached
        except ApiFailure as failure:
            self._places.drop_list()
            raise unavailable(failure, "listing our objects") from failure
        except BaseException:
            self._places.drop_list()
            raise
        finally:
            for beside in besides:
                await beside.stop()
        self._places.end_list()
        self._knows_strays = True
        for resource, reached in listed.items():
            self._reflector(resource).note_list(version, reached)
        return self._tell(rows, version)

    def _tell(self, rows: EventRows, version: int) -> ObjectEvents:
        """Return rows as the port gives them."""
        events = rows.build(version)
        apply_health(events, self.states, LOST_REASON)
        unlistable = self._kinds.unlistable_names
        return replace(events, unlistable_kinds=unlistable) if unlistable else events

    async def _list_all(self, rows: EventRows) -> dict[Resource, Position]:
        """Add all objects; return up to where each kind in use, and nodes, were listed."""
        listed = {PODS: await self._list_kind(rows, PODS)}
        resources = await self._kinds.to_list()
        for resource in resources:
            before = len(rows)
            try:
                reached = await self._list_kind(rows, resource)
            except ApiFailure as failure:
                if not self._kinds.pass_over(resource, failure):
                    raise
                continue
            self._kinds.saw(resource)
            if len(rows) > before:
                self._kinds.use(resource)
            listed[resource] = reached
        self._kinds.looked(resources)
        for resource in self._kinds.unlistable:
            self._places.keep(resource)
        await self._list_unseen(rows)
        if not self._knows_strays:  # a watch tells of those that lose their labels later
            for pod in await self._observer.relabeller.find_strays():
                self._observer.add(rows, Change.ADDED, pod, resource=PODS)
        found: list[NodeDocument] = []

        def begin() -> Callable[[list[NodeDocument]], None]:
            found.clear()
            return lambda page: found.extend(_without_details(page))

        listed[NODES] = await self._nodes.list(begin)
        rows.fold()
        names = rows.tables.nodes.texts
        self.states.reset(found, [names[index] for index in rows.node_indices()])
        in_use = {NODES, *self._kinds.in_use}
        return {resource: reached for resource, reached in listed.items() if resource in in_use}

    async def _list_unseen(self, rows: EventRows) -> None:
        """Add what was known and is not in the list, if it is there: it only does not match the selector any more."""
        for resource, uids in self._places.unseen().items():
            for document in (await self._observer.relabeller.find(resource, uids)).values():
                self._observer.add(rows, Change.ADDED, document, resource=resource)

    async def _list_kind(
        self,
        rows: EventRows,
        resource: Resource,
        *,
        query: str | None = None,
        change: Change = Change.ADDED,
        nodes: frozenset[str] = frozenset(),
    ) -> Position:
        """Add the objects of a kind, pods only those on some nodes if any are named; return up to where that is all."""

        def add(document: Any) -> None:  # noqa: ANN401 - a pod, or an object as its metadata
            if not nodes or document.spec.node_name in nodes:
                self._observer.add(rows, change, document, resource=resource)

        reflector = self._reflector(resource)
        return await reflector.list(rows.filling(add), query=self._query if query is None else query)

    # --- watch --------------------------------------------------------------------------------------------------------

    async def watch(self, version: int) -> AsyncGenerator[ObjectEvents, None]:
        """Give what changes after a version; see Cluster.watch_objects.

        Raises:
            WatchGone: The version is not known, or too old.
            BackendUnavailable: The API server refused, or could not be reached again and again.
        """
        watch = _Watch(version)
        self._kinds.listen(watch.news)
        warnings = asyncio.get_running_loop().create_task(
            self._observer.warnings.follow(watch.news.set), name="read warnings about pods"
        )
        try:
            for reflector in (self._pods, self._nodes):
                watch.add(reflector.join(version, watch.news.set))
            while True:
                events, failure = await self._next(watch)
                if len(events) or watch.has_moved:
                    watch.has_moved = False
                    yield events
                if failure is not None:
                    raise failure
                if watch.has_ended and not watch.has_news:
                    return
        except ApiFailure as failure:
            if failure.code == GONE:
                raise WatchGone(failure.message) from failure
            raise unavailable(failure, "watching our objects") from failure
        finally:
            self._kinds.unlisten(watch.news)
            warnings.cancel()
            await asyncio.gather(warnings, return_exceptions=True)
            await watch.close()

    async def _next(self, watch: _Watch) -> tuple[ObjectEvents, ApiFailure | None]:
        """Wait for changes; return them, and why the watch cannot go on, if it cannot."""
        rows = self._tables.begin()
        await self._join_new(watch, rows)
        if not len(rows):
            await watch.news.wait()
            if self._gather_s > 0 and not watch.has_ended:
                await asyncio.sleep(self._gather_s)
        watch.news.clear()
        # All kinds are taken before anything is waited for: the version stands for all that had come when it was drawn.
        taken, failure = await self._take(watch)
        version = self._versions.draw()
        for reader in watch.readers.values():
            reader.note(version)
        for resource, events in taken:
            await self._add(rows, resource, events)
        await self._add_warned(rows)
        if watch.has_news:
            watch.news.set()
        return self._tell(rows, version), failure

    async def _join_new(self, watch: _Watch, rows: EventRows) -> None:
        """Begin to watch kinds that came into use; those that the version knows nothing of are listed first.

        Raises:
            ApiFailure: A kind that is used could not be listed.
            WatchGone: A kind can be looked at again that could not be when all was listed.
        """
        for resource in self._kinds.in_use:
            if resource in watch.readers or resource in watch.put_off:
                continue
            reflector = self._reflector(resource)
            start = watch.left.pop(resource, None)
            if start is None:
                start = reflector.start_of(watch.version)
            if start is None:
                was_unlistable = self._kinds.is_unlistable(resource)
                try:
                    start = await self._list_kind(rows, resource)
                except ApiFailure as failure:
                    if not self._kinds.pass_over(resource, failure):
                        raise
                    if self._kinds.is_unlistable(resource):
                        watch.leave_alone(resource, self._kinds.wait_s(resource.full_name))
                    continue
                if was_unlistable:
                    raise WatchGone(f"{resource.full_name} can be listed again")
                watch.has_moved = True
            watch.add(reflector.join_at(start, watch.news.set))

    async def _take(self, watch: _Watch) -> tuple[list[tuple[Resource, list[WatchEvent[Any]]]], ApiFailure | None]:
        """Take what has come; return it, and why the watch cannot go on, if it cannot."""
        taken: list[tuple[Resource, list[WatchEvent[Any]]]] = []
        over: list[KindReader[Any]] = []
        failed: ApiFailure | None = None
        for resource, reader in list(watch.readers.items()):
            events, failure = reader.take()
            taken.append((resource, events))
            if failure is not None:
                if resource in {PODS, NODES} or not self._kinds.pass_over(resource, failure):
                    failed = failure
                    continue
                over.append(watch.readers.pop(resource))
                if self._kinds.is_unlistable(resource):
                    watch.left[resource] = reader.reached
                    watch.leave_alone(resource, self._kinds.wait_s(resource.full_name))
                    watch.has_moved = True  # to tell that it is unlistable
                continue
            if reader.reached != watch.reached[resource]:
                watch.reached[resource] = reader.reached
                watch.has_moved = True
                self._kinds.saw(resource)
        for reader in over:
            await reader.stop()
        return taken, failed

    # --- both ---------------------------------------------------------------------------------------------------------

    async def _add(self, rows: EventRows, resource: Resource, events: list[WatchEvent[Any]]) -> None:
        """Turn what a watch has brought of one kind into rows.

        Raises:
            ApiFailure: It is not known whether what is told as gone is; nothing of it is then told.
        """
        if resource == NODES:
            changed = [event.object.metadata.name for event in events if self._take_node(event.type, event.object)]
            if changed:
                await self._add_of_nodes(rows, frozenset(changed))
            return
        now_us = time.time_ns() // 1000
        there = await self._look_for_doubtful(events, resource)
        for event in events:
            found = there.get(event.object.metadata.uid) if event.type == "DELETED" else None
            change = CHANGES[event.type] if found is None else Change.MODIFIED
            document = event.object if found is None else found
            self._observer.add(rows, change, document, resource=resource, time_us=now_us)

    async def _look_for_doubtful(self, events: list[WatchEvent[Any]], resource: Resource) -> dict[str, Any]:
        """Return, by uid, what is told as gone and is there: it only does not match the selector any more.

        Raises:
            ApiFailure: It is not known; what the watch brought is then not told.
        """
        if not self._reflector(resource).query:
            return {}
        doubtful = [event.object for event in events if self._observer.is_doubtful(CHANGES[event.type], event.object)]
        if not doubtful:
            return {}
        uids = [uid_bytes(document.metadata.uid) for document in doubtful]
        found = await self._observer.relabeller.find(resource, uids)
        return {document.metadata.uid: document for document in found.values()}

    def _take_node(self, change: str, node: NodeDocument) -> bool:
        """Note the health of a node; return whether that is news."""
        return self.states.set(node.metadata.name, NodeHealth.LOST if change == "DELETED" else health_of(node))

    async def _add_of_nodes(self, rows: EventRows, names: frozenset[str]) -> None:
        """Tell of the pods of nodes whose health changed; it means another phase."""
        if len(names) > _MOST_NODE_LISTS:
            await self._list_kind(rows, PODS, change=Change.MODIFIED, nodes=names)
            return

        async def read(name: str) -> EventRows:
            part = EventRows(rows.tables)
            query = f"{self._query}&fieldSelector={quote(f'spec.nodeName={name}', safe='')}"
            await self._list_kind(part, PODS, query=query, change=Change.MODIFIED)
            return part

        for part in await asyncio.gather(*map(read, sorted(names))):
            rows.extend(part)

    async def _add_warned(self, rows: EventRows) -> None:
        """Tell of pods that have not changed, and about which others wrote why they wait."""
        fresh = self._observer.warnings.take_fresh()
        if not fresh:
            return
        part = EventRows(rows.tables)
        with contextlib.suppress(ApiFailure):  # the next list tells it
            for pod in (await self._observer.relabeller.find(PODS, [uid_bytes(uid) for uid in fresh])).values():
                self._observer.add(part, Change.MODIFIED, pod, resource=PODS)
            rows.extend(part)


class _Watch:
    """A watch under way."""

    def __init__(self, version: int) -> None:
        self.version = version
        """What it goes on from."""
        self.readers: dict[Resource, KindReader[Any]] = {}
        self.reached: dict[Resource, Position] = {}
        """By kind: what was taken."""
        self.left: dict[Resource, Position] = {}
        """The same of kinds that cannot be listed now."""
        self.news = asyncio.Event()
        self.has_moved = False
        self.put_off: dict[Resource, asyncio.TimerHandle] = {}
        """Kinds that cannot be listed, with what lets them be tried again."""

    def add(self, reader: KindReader[Any]) -> None:
        """Follow a kind."""
        self.readers[reader.resource], self.reached[reader.resource] = reader, reader.reached

    def leave_alone(self, resource: Resource, wait_s: float) -> None:
        """Leave a kind alone for a while."""

        def again() -> None:
            del self.put_off[resource]
            self.news.set()

        self.put_off[resource] = asyncio.get_running_loop().call_later(wait_s, again)

    async def close(self) -> None:
        """Leave all kinds."""
        for timer in self.put_off.values():
            timer.cancel()
        for reader in self.readers.values():
            await reader.stop()

    @property
    def has_ended(self) -> bool:
        return any(reader.has_ended for reader in self.readers.values())

    @property
    def has_news(self) -> bool:
        return any(reader.has_news for reader in self.readers.values())


def _sleep_on() -> None:
    """Wake nobody: what is read beside a list is taken at its end."""


def _since(
    besides: list[KindReader[Any]], listed: dict[Resource, Position]
) -> list[tuple[Resource, list[WatchEvent[Any]], Position]]:
    """Return by kind what a watch has brought that its list does not show, and up to where that is everything."""
    since: list[tuple[Resource, list[WatchEvent[Any]], Position]] = []
    for beside in besides:
        if (start := listed.get(beside.resource)) is not None:
            events, reached = beside.take_since(start)
            if reached != start:
                since.append((beside.resource, events, reached))
    return since


def _without_details(nodes: list[NodeDocument]) -> list[NodeDocument]:
    """Drop what health does not need, so that a list of all nodes is small."""
    for node in nodes:
        node.metadata.labels = None
        node.status.allocatable = None
    return nodes

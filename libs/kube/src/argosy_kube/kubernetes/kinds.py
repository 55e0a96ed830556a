"""Which kinds of objects of ours are looked at."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from argosy_kube.kubernetes.answers import ApiFailure
from argosy_kube.kubernetes.resources import BUILT_IN, PODS, Resource, ResourceBook

__all__ = ["OwnKinds", "may_be_skipped"]


class OwnKinds:
    """The kinds that bags of ours use, and those in which a list looks for them.

    Args:
        book: What is known of kinds.
        names: Custom resources to look at from the start, as `Kind.group`.
        discover: Look at all custom resources the first time.
    """

    def __init__(self, book: ResourceBook, *, names: Iterable[str], discover: bool) -> None:
        """Start with pods."""
        self._book = book
        self._names = tuple(names)
        self._discover = discover
        self._has_looked = False
        self._in_use: dict[str, Resource] = {PODS.full_name: PODS}
        self._listeners: set[asyncio.Event] = set()

    def use(self, resource: Resource) -> None:
        """Note that there are, or will be, objects of a kind; watches take it up."""
        if resource.full_name not in self._in_use:  # in one version: it shows the objects of all
            self._in_use[resource.full_name] = resource
            for listener in self._listeners:
                listener.set()

    def drop(self, resource: Resource) -> None:
        """Note that a kind is gone from the cluster, or that we may not look at it: there is nothing to watch."""
        self._in_use.pop(resource.full_name, None)

    def listen(self, event: asyncio.Event) -> None:
        """Set an event whenever a kind comes into use."""
        self._listeners.add(event)

    def unlisten(self, event: asyncio.Event) -> None:
        """End `listen`."""
        self._listeners.discard(event)

    @property
    def in_use(self) -> list[Resource]:
        """Kinds to watch, pods first."""
        return list(self._in_use.values())

    async def named(self, kind: str) -> Resource | None:
        """Return the resource of a kind by the name that the port gives it, None if the cluster has it no more.

        Raises:
            ApiFailure: The API server did not answer.
        """
        known = self._in_use.get(kind) or BUILT_IN.get(kind)
        return known or next(iter(await self._book.find_named([kind])), None)

    async def to_list(self) -> list[Resource]:
        """Return the kinds to look for, pods not among them; custom ones are found the first time.

        Raises:
            ApiFailure: The API server did not answer.
        """
        found = {resource.full_name: resource for resource in (*BUILT_IN.values(), *self._in_use.values())}
        if not self._has_looked:
            custom = await self._book.find_custom() if self._discover else []
            for resource in (*await self._book.find_named(self._names), *custom):
                found.setdefault(resource.full_name, resource)
        found.pop(PODS.full_name, None)
        return list(found.values())

    def looked(self, resources: Iterable[Resource]) -> None:
        """Note that a list was made; the settings' own kinds stay in use, whatever it found."""
        self._has_looked = self._book.is_whole
        named = set(self._names)
        for resource in resources:
            if resource.full_name in named:
                self.use(resource)


def may_be_skipped(failure: ApiFailure) -> bool:
    """Return whether a kind that was refused is simply one that we have nothing to do with."""
    return failure.code in {403, 404, 405}

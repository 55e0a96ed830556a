"""Which kinds of objects of ours are looked at."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from argosy_kube.kubernetes.api.answers import FORBIDDEN, MISSING, ApiFailure
from argosy_kube.kubernetes.api.resources import BUILT_IN, PODS, Resource, ResourceBook

__all__ = ["OwnKinds"]

_SERVER_ERROR: Final = 500
_ABSENT: Final = frozenset({MISSING, 405})


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
        self._hidden: dict[str, Resource] = {}
        self._listeners: set[asyncio.Event] = set()

    def use(self, resource: Resource) -> None:
        """Note that there are, or will be, objects of a kind; watches take it up."""
        if resource.full_name not in self._in_use:  # in one version: it shows the objects of all
            self._in_use[resource.full_name] = resource
            for listener in self._listeners:
                listener.set()

    def pass_over(self, resource: Resource, failure: ApiFailure) -> bool:
        """Take that a kind could not be looked at; return whether all others are to be looked at none the less.

        A kind that the cluster has no more took its objects with it. One that we may not look at may have objects of
        ours all the same: it is hidden. So is a custom one that the API server fails to show (its conversion webhook is
        down), and one that nobody named and no bag uses and that fails in whatever way: one broken definition must not
        keep us from all other objects.
        """
        name = resource.full_name
        if failure.code in _ABSENT:
            self._in_use.pop(name, None)
            self._hidden.pop(name, None)
            return True
        is_strange = name not in self._in_use and name not in self._names
        is_broken = resource.is_custom and (is_strange or failure.code >= _SERVER_ERROR)
        if failure.code == FORBIDDEN or is_broken:
            self._hidden[name] = resource
            return True
        return False

    def saw(self, resource: Resource) -> None:
        """Note that a kind was looked at."""
        self._hidden.pop(resource.full_name, None)

    def is_hidden(self, resource: Resource) -> bool:
        """Return whether a kind could not be looked at, so that it may have objects of ours that nobody sees."""
        return resource.full_name in self._hidden

    @property
    def hidden(self) -> tuple[str, ...]:
        """Kinds that could not be looked at, by the names that the port gives them; `*.group` for those of a group."""
        return (*sorted(self._hidden), *(f"*.{group}" for group in sorted(self._book.unserved)))

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
        """Return the kinds to look for, pods not among them; custom ones are found the first time, hidden ones always.

        Raises:
            ApiFailure: The API server did not answer.
        """
        found = {resource.full_name: resource for resource in (*BUILT_IN.values(), *self._in_use.values())}
        found |= {name: resource for name, resource in self._hidden.items() if name not in found}
        if not self._has_looked:
            custom = await self._book.find_custom() if self._discover else []
            for resource in (*await self._book.find_named(self._names), *custom):
                found.setdefault(resource.full_name, resource)
        found.pop(PODS.full_name, None)
        return list(found.values())

    def looked(self, resources: Iterable[Resource]) -> None:
        """Note that a list was made; the settings' own kinds stay in use, whatever it found."""
        self._has_looked = not self._book.unserved
        named = set(self._names)
        for resource in resources:
            if resource.full_name in named:
                self.use(resource)

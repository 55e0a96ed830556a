"""Which kinds of objects of ours are looked at, and which cannot be."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from argosy_kube.kubernetes.api.answers import FORBIDDEN, MISSING, ApiFailure
from argosy_kube.kubernetes.api.resources import BUILT_IN, PODS, Resource, ResourceDiscovery

__all__ = ["OwnKinds"]

FIRST_PAUSE_S = 15.0
"""How long a kind that cannot be listed is left alone at first, seconds; twice as long each time."""
_MOST_USED_PAUSE_S: Final = 300.0
"""How long at most where bags of ours use it, seconds."""
_MOST_PAUSE_S: Final = 3600.0
"""How long at most where nobody needs it, seconds: that somebody grants the right is nothing to wait for."""
_SERVER_ERROR: Final = 500
_ABSENT: Final = frozenset({MISSING, 405})


@dataclass(slots=True)
class _Pause:
    """When something that failed is tried again."""

    due_s: float
    length_s: float


class OwnKinds:
    """The kinds that bags of ours use, and those in which a list looks for them.

    Args:
        discovery: What is known of kinds.
        names: Custom resources to look at from the start, as `Kind.group`.
        discover: Look at all custom resources the first time.
        monotonic: Seconds that never go back.
    """

    def __init__(
        self, discovery: ResourceDiscovery, *, names: Iterable[str], discover: bool, monotonic: Callable[[], float]
    ) -> None:
        """Start with pods."""
        self._discovery = discovery
        self._names = tuple(names)
        self._discover = discover
        self._monotonic = monotonic
        self._has_looked = False
        self._in_use: dict[str, Resource] = {PODS.full_name: PODS}
        self._unlistable: dict[str, Resource] = {}
        self._pauses: dict[str, _Pause] = {}
        self._listeners: set[asyncio.Event] = set()

    def use(self, resource: Resource) -> None:
        """Note that there are, or will be, objects of a kind; watches take it up."""
        if resource.full_name not in self._in_use:  # in one version: it shows the objects of all
            self._in_use[resource.full_name] = resource
            self._pauses.pop(resource.full_name, None)  # it is needed now
            for listener in self._listeners:
                listener.set()

    def pass_over(self, resource: Resource, failure: ApiFailure) -> bool:
        """Take that a kind could not be looked at; return whether all others are to be looked at none the less.

        A kind that the cluster has no more took its objects with it. One that we may not look at may have objects of
        ours all the same: it is unlistable. So is a custom one that the API server fails to show (its conversion
        webhook is down), and one that nobody named and no bag uses and that fails in whatever way: one broken
        definition must not keep us from all other objects.
        """
        name = resource.full_name
        if failure.code in _ABSENT:
            self._in_use.pop(name, None)
            self.saw(resource)
            return True
        is_needless = name not in self._in_use and name not in self._names
        is_broken = resource.is_custom and (is_needless or failure.code >= _SERVER_ERROR)
        if failure.code == FORBIDDEN or is_broken:
            self._unlistable[name] = resource
            self._put_off(name, _MOST_PAUSE_S if is_needless else _MOST_USED_PAUSE_S)
            return True
        return False

    def _put_off(self, what: str, most_s: float) -> None:
        """Leave something alone for a while, twice as long as the last time."""
        before = self._pauses.get(what)
        length_s = min(FIRST_PAUSE_S if before is None else 2 * before.length_s, most_s)
        self._pauses[what] = _Pause(self._monotonic() + length_s, length_s)

    def wait_s(self, name: str) -> float:
        """Return how long something is still to be left alone, seconds; 0 if it may be tried now."""
        pause = self._pauses.get(name)
        return 0.0 if pause is None else max(0.0, pause.due_s - self._monotonic())

    def saw(self, resource: Resource) -> None:
        """Note that a kind was looked at."""
        self._unlistable.pop(resource.full_name, None)
        self._pauses.pop(resource.full_name, None)

    def is_unlistable(self, resource: Resource) -> bool:
        """Return whether a kind could not be looked at, so that it may have objects of ours that nobody sees."""
        return resource.full_name in self._unlistable

    @property
    def unlistable(self) -> tuple[Resource, ...]:
        """Kinds that could not be looked at."""
        return tuple(self._unlistable.values())

    @property
    def unlistable_names(self) -> tuple[str, ...]:
        """The same by the names that the port gives them; `*.group` for those of a group."""
        return (*sorted(self._unlistable), *(f"*.{group}" for group in sorted(self._discovery.unserved)))

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
        return known or next(iter(await self._discovery.find_named([kind])), None)

    async def to_list(self) -> list[Resource]:
        """Return the kinds to look for, pods not among them, and none that is to be left alone for now.

        Custom ones are found the first time; where a group could not be looked into, again after a while.

        Raises:
            ApiFailure: The API server did not answer.
        """
        found = {one.full_name: one for one in (*self._unlistable.values(), *BUILT_IN.values(), *self._in_use.values())}
        if not self._has_looked and not self.wait_s(""):
            custom = await self._discovery.find_custom() if self._discover else []
            for resource in (*await self._discovery.find_named(self._names), *custom):
                found.setdefault(resource.full_name, resource)
        found.pop(PODS.full_name, None)
        return [resource for name, resource in found.items() if not self.wait_s(name)]

    def looked(self, resources: Iterable[Resource]) -> None:
        """Note that a list was made; the settings' own kinds stay in use, whatever it found."""
        self._has_looked = not self._discovery.unserved
        if self._discovery.unserved and not self.wait_s(""):
            self._put_off("", _MOST_PAUSE_S)
        named = set(self._names)
        for resource in resources:
            if resource.full_name in named:
                self.use(resource)

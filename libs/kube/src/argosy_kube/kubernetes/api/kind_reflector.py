"""One kind of objects, followed in all namespaces, or in those that are named: a reflector for each.

Whoever may look into some namespaces only is refused a list of all; so each is listed and watched by itself, and what
comes is told as if it came from one watch. An API server gives every namespace resource versions of its own kind's
sequence, but their watches do not stand at the same one: where a reader stands is a number for each (`Position`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, Generic, TypeVar

from argosy_kube.kubernetes.api.answers import GONE, ApiFailure
from argosy_kube.kubernetes.api.documents import WatchEvent
from argosy_kube.kubernetes.api.reflector import Followed, Reader, Reflector, Versions, version_number
from argosy_kube.kubernetes.api.transport import ApiServer
from argosy_kube.kubernetes.api.watch_stream import HasMetadata

__all__ = ["KindReader", "KindReflector", "Position"]

Position = tuple[int, ...]
"""Resource versions up to which everything is known, one for each namespace that is followed."""

_TRIES: Final = 3

T = TypeVar("T", bound=HasMetadata)


class _BeganAgain(Exception):
    """The list of one namespace began again, so that what it gave before must go."""


class KindReader(Generic[T]):
    """One reader's part of the watches of a kind.

    Args:
        parts: Its part of each.
    """

    def __init__(self, parts: Sequence[Reader[T]]) -> None:
        """Have nothing to take."""
        self._parts = parts
        self.resource = parts[0].resource
        """What is watched."""

    @property
    def reached(self) -> Position:
        """Up to where everything was taken, once `take` has returned."""
        return tuple([part.reached for part in self._parts])

    @property
    def has_ended(self) -> bool:
        """Whether from somewhere nothing more comes; there may still be something to take."""
        return any(part.has_ended for part in self._parts)

    @property
    def has_news(self) -> bool:
        """Whether there is something to take, or a failure to be told."""
        return any(part.has_news for part in self._parts)

    def take(self) -> tuple[list[WatchEvent[T]], ApiFailure | None]:
        """Return what has come since the last time, in the order of each namespace.

        Returns:
            The events, and why a watch is refused, cannot be had, or its position is too old (410); what came before it
            is among the events of this call or of one before.
        """
        events: list[WatchEvent[T]] = []
        failed: ApiFailure | None = None
        for part in self._parts:
            try:
                events += part.take()
            except ApiFailure as failure:
                failed = failed or failure
        return events, failed

    def take_since(self, position: Position) -> tuple[list[WatchEvent[T]], Position]:
        """Return what has come that a list does not show, and up to where both together are everything.

        Args:
            position: Up to where the list is; of a watch that is over, the list is all there is.
        """
        events: list[WatchEvent[T]] = []
        reached = list(position)
        for place, part in enumerate(self._parts):
            try:
                taken = part.take()
            except ApiFailure:
                continue
            if not part.has_ended and part.reached > reached[place]:
                events += [one for one in taken if version_number(one.object.metadata, part.reached) > reached[place]]
                reached[place] = part.reached
        return events, tuple(reached)

    def note(self, version: int) -> None:
        """Let a version stand for what was taken; needed where a watch may have gone on without this reader."""
        for part in self._parts:
            part.note(version)

    async def stop(self) -> None:
        """Leave; watches end with their last readers."""
        for part in self._parts:
            await part.stop()


class KindReflector(Generic[T]):
    """Follows one kind; nothing is watched while nobody reads.

    Args:
        server: Where.
        followed: What.
        versions: Counts versions for all reflectors of the adapter.
        namespaces: Where alone; none for everywhere. What is in no namespace is followed as a whole.
    """

    def __init__(
        self, server: ApiServer, followed: Followed[T], versions: Versions, *, namespaces: Sequence[str] = ()
    ) -> None:
        """Know no version."""
        self.resource = followed.resource
        """The kind."""
        self.query = followed.query
        """Selectors of what is watched, already quoted; empty for all objects."""
        named = namespaces if followed.resource.is_namespaced else ()
        self._parts = [Reflector(server, replace(followed, namespace=one), versions) for one in named or ("",)]

    async def list(
        self, begin: Callable[[], Callable[[list[T]], None]], *, version: int | None = None, query: str | None = None
    ) -> Position:
        """Read all objects; return up to where they show everything.

        Args:
            begin: Called when the list starts, also when it starts again; gives what takes each page.
            version: The number that shall stand for this list; None for none.
            query: Selectors instead of those of the watch.

        Raises:
            ApiFailure: It was not answered, or refused.
        """
        if len(self._parts) == 1:
            return (await self._parts[0].list(begin, version=version, query=query),)
        for _ in range(_TRIES):
            take = begin()
            try:
                reached = tuple([await part.list(_once(take), query=query) for part in self._parts])
            except _BeganAgain:
                continue
            if version is not None:
                self.note_list(version, reached)
            return reached
        raise ApiFailure(GONE, f"lists of {self.resource.plural} took too long again and again")

    def note_list(self, version: int, reached: Position) -> None:
        """Let a version stand for all changes up to a position, as a list shows them."""
        for part, start in zip(self._parts, reached, strict=True):
            part.note_list(version, start)

    def start_of(self, version: int) -> Position | None:
        """Return from where whoever has a version goes on, None if that is not known any more."""
        starts = [start for part in self._parts if (start := part.start_of(version)) is not None]
        return tuple(starts) if len(starts) == len(self._parts) else None

    def join(self, version: int, wake: Callable[[], None]) -> KindReader[T]:
        """Return a new reader that goes on from a version; its `stop` must follow.

        Args:
            version: As the port gave it out.
            wake: Called when there is something to take.

        Raises:
            ApiFailure: It is not known what the version stands for (410).
        """
        start = self.start_of(version)
        if start is None:
            raise ApiFailure(GONE, f"version {version} is not known to this process any more; list again")
        return self.join_at(start, wake)

    def join_at(self, start: Position, wake: Callable[[], None]) -> KindReader[T]:
        """Return a new reader that goes on from a position; its `stop` must follow."""
        return KindReader([part.join_at(one, wake) for part, one in zip(self._parts, start, strict=True)])

    def join_beside(self, wake: Callable[[], None]) -> KindReader[T] | None:
        """Return a new reader of what comes from now on, if the kind is being watched; its `stop` must follow."""
        if not all(part.is_watched for part in self._parts):
            return None
        return self.join_at(tuple([part.position for part in self._parts]), wake)


def _once(take: Callable[[list[Any]], None]) -> Callable[[], Callable[[list[Any]], None]]:
    """Return what begins a list that may not begin twice."""
    begun = False

    def begin() -> Callable[[list[Any]], None]:
        nonlocal begun
        if begun:
            raise _BeganAgain
        begun = True
        return take

    return begin

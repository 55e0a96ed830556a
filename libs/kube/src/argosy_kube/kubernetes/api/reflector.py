"""One kind of objects, followed in one namespace or in all: its lists, its one watch, and whoever reads them.

A reflector lists a kind, watches it while somebody reads, goes on where a watch ended, waits before it tries again one
that failed for a passing reason, and hands what comes to all its readers: it is received and decoded once. Readers
notice an end only if the position is no longer kept, the right is missing, or trying again did not help.

Versions. The port has one number for all kinds; an API server gives each kind resource versions of its own. So all
reflectors of an adapter draw numbers from one counter (`Versions`) and note what they stand for: a list, the resource
version up to which it shows everything; a watch, how far it had come when the number was drawn. A reader that comes
with a number goes on from there. If the watch is further it is begun again, and the others skip what they have seen.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import msgspec

from argosy_kube.kubernetes.api.answers import GONE, ApiFailure
from argosy_kube.kubernetes.api.documents import ListDocument, Metadata, WatchEvent
from argosy_kube.kubernetes.api.listing import read_list
from argosy_kube.kubernetes.api.resources import Resource
from argosy_kube.kubernetes.api.transport import JSON, ApiServer
from argosy_kube.kubernetes.api.watch_stream import HasMetadata, WatchStream

__all__ = ["Followed", "Reader", "Reflector", "Versions", "version_number"]

_KEPT: Final = 4096
"""Numbers of which is known what they stand for."""
_WAITING_COUNT: Final = 20_000
"""Events that may wait for one reader; the watch of one that is slower ends, and is resumed by it."""
_LIVED_S: Final = 1.0
"""A watch that brought nothing and did not last so long counts as failed, so that ends are no busy loop."""


T = TypeVar("T", bound=HasMetadata)


class Versions:
    """Counts the port's versions for all reflectors of an adapter."""

    def __init__(self) -> None:
        """Have given out none."""
        self._last = 0

    def draw(self) -> int:
        """Return a version that is greater than all before."""
        self._last += 1
        return self._last


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed(Generic[T]):
    """What a reflector follows."""

    resource: Resource
    """The kind."""
    page: msgspec.json.Decoder[ListDocument[T]]
    """Reads a page of a list."""
    line: msgspec.json.Decoder[WatchEvent[T]]
    """Reads a line of a watch."""
    query: str = ""
    """Selectors, already quoted; empty for all objects."""
    namespace: str = ""
    """Where alone; empty for everywhere."""
    accept: str = JSON
    """Type of the answer to a list."""


class Reader(Generic[T]):
    """One reader's part of a kind's watch.

    Args:
        reflector: What is shared.
        reached: Resource version up to which this reader knows everything.
        wake: Called when there is something to take.
    """

    def __init__(self, reflector: Reflector[T], reached: int, wake: Callable[[], None]) -> None:
        """Have nothing to take."""
        self._reflector = reflector
        self.resource = reflector.resource
        """What is watched."""
        self.reached = reached
        """Resource version up to which everything was taken, once `take` has returned."""
        self.wake = wake
        """Called when there is something to take."""
        self.has_ended = False
        """Nothing more comes; there may still be something to take."""
        self._waiting: list[WatchEvent[T]] = []
        self._failure: ApiFailure | None = None

    @property
    def has_news(self) -> bool:
        """Whether there is something to take, or `take` may raise."""
        return bool(self._waiting) or self._failure is not None or (not self.has_ended and self._reflector.has_news)

    def take(self) -> list[WatchEvent[T]]:
        """Return what has come since the last time, in order.

        Raises:
            ApiFailure: The watch is refused, cannot be had, or its position is too old (410); what came before was
                given already.
        """
        self._reflector.read(self)
        if not self._waiting and self._failure is not None:
            raise self._failure
        events, self._waiting = self._waiting, []
        return events

    def note(self, version: int) -> None:
        """Let a version stand for what was taken; needed where the watch may have gone on without this reader."""
        if self.has_ended:
            self._reflector.note_list(version, self.reached)

    def put(self, events: list[WatchEvent[T]], reached: int) -> bool:
        """Add what the watch has brought, as far as it is new to this reader; return whether something was.

        Args:
            events: What it brought.
            reached: Resource version up to which that is everything.
        """
        if reached <= self.reached:
            return False
        self._waiting += [one for one in events if version_number(one.object.metadata, reached) > self.reached]
        self.reached = reached
        self.has_ended = len(self._waiting) > _WAITING_COUNT
        return True

    def end(self, failure: ApiFailure | None) -> None:
        """Say that nothing more comes, and why."""
        self.has_ended, self._failure = True, failure
        self.wake()

    async def stop(self) -> None:
        """Leave; the watch ends with its last reader."""
        await self._reflector.leave(self)


class Reflector(Generic[T]):
    """Follows one kind; nothing is watched while nobody reads.

    Args:
        server: Where.
        followed: What.
        versions: Counts versions for all reflectors of the adapter.
    """

    def __init__(self, server: ApiServer, followed: Followed[T], versions: Versions) -> None:
        """Know no version."""
        self._server = server
        self._followed = followed
        self._versions = versions
        self._listed: OrderedDict[int, int] = OrderedDict()
        self._marks: deque[tuple[int, int]] = deque(maxlen=_KEPT)
        """(version, resource version that the watch had reached), oldest first."""
        self._readers: list[Reader[T]] = []
        self._position = 0
        self._stream: WatchStream[T] | None = None
        self._over: list[WatchStream[T]] = []
        self._retry: asyncio.TimerHandle | None = None
        self._failure_count = 0
        self._begun_s = 0.0

    @property
    def resource(self) -> Resource:
        """The kind."""
        return self._followed.resource

    @property
    def is_watched(self) -> bool:
        """Whether somebody reads what is watched."""
        return bool(self._readers)

    @property
    def position(self) -> int:
        """Resource version up to which the watch has come."""
        return self._position

    @property
    def has_news(self) -> bool:
        """Whether the watch has brought what nobody has taken, or has ended."""
        stream = self._stream
        return stream is not None and (stream.has_news or stream.has_failed or stream.has_ended)

    # --- list ---------------------------------------------------------------------------------------------------------

    async def list(
        self, begin: Callable[[], Callable[[list[T]], None]], *, version: int | None = None, query: str | None = None
    ) -> int:
        """Read all objects; return the resource version up to which they show everything.

        Args:
            begin: Called when the list starts, also when it starts again; gives what takes each page.
            version: The number that shall stand for this list; None for none.
            query: Selectors instead of those of the watch.

        Raises:
            ApiFailure: It was not answered, or refused.
        """
        followed = self._followed
        text = await read_list(
            self._server,
            followed.resource.path(followed.namespace),
            followed.page,
            begin=begin,
            query=followed.query if query is None else query,
            accept=followed.accept,
        )
        reached = version_number(Metadata(resource_version=text), 0)
        if version is not None:
            self.note_list(version, reached)
        return reached

    def note_list(self, version: int, reached: int) -> None:
        """Let a version stand for all changes up to a resource version, as a list shows them."""
        self._listed[version] = reached
        if len(self._listed) > _KEPT:
            self._listed.popitem(last=False)

    # --- watch --------------------------------------------------------------------------------------------------------

    def start_of(self, version: int) -> int | None:
        """Return the resource version from which whoever has a version goes on, None if that is not known any more."""
        if version in self._listed:
            return self._listed[version]
        return next((reached for drawn, reached in reversed(self._marks) if drawn <= version), None)

    def join_at(self, start: int, wake: Callable[[], None]) -> Reader[T]:
        """Return a new reader that goes on from a resource version; its `stop` must follow."""
        self.read(None)  # if the watch has ended, that is not about this reader
        reader = Reader(self, start, wake)
        is_first = not self._readers
        self._readers.append(reader)
        if is_first or start < self._position:
            self._position = start
            self._marks.append((self._versions.draw(), start))
            if self._retry is None:
                self._open()
        return reader

    async def leave(self, reader: Reader[T]) -> None:
        """Let a reader go, and the watch with the last."""
        if reader in self._readers:
            self._readers.remove(reader)
        if not self._readers:
            self._close()
        while self._over:
            await self._over.pop().stop()

    def read(self, taker: Reader[T] | None) -> None:
        """Hand what the watch has brought to all readers, and see to its end.

        Args:
            taker: Who asks, and need not be woken for it.
        """
        stream = self._stream
        if stream is None:
            return
        try:
            events = stream.take()
            reached = version_number(Metadata(resource_version=stream.position), 0)
        except ApiFailure as failure:
            self._fail(failure)
            return
        if reached > self._position:
            self._failure_count, self._position = 0, reached
            self._marks.append((self._versions.draw(), reached))
            for reader in list(self._readers):
                if reader.put(events, reached) and reader is not taker:
                    reader.wake()
                if reader.has_ended:  # it takes nothing; the others go on
                    self._readers.remove(reader)
        if stream.has_ended and not stream.has_news and not stream.has_failed:
            lived_s = asyncio.get_running_loop().time() - self._begun_s
            if stream.has_brought or lived_s >= _LIVED_S:
                self._open()
            else:
                self._fail(ApiFailure(0, "the API server ends watches at once"))

    def _open(self) -> None:
        """Begin to watch from where the readers stand."""
        self._drop_stream()
        self._retry = None
        if not self._readers:
            return
        self._begun_s = asyncio.get_running_loop().time()
        self._stream = WatchStream(
            self._server,
            self.resource,
            decoder=self._followed.line,
            selector=self._followed.query,
            position=str(self._position),
            namespace=self._followed.namespace,
            wake=self._wake,
        )
        self._stream.start()

    def _fail(self, failure: ApiFailure) -> None:
        """Try again after a while, from the same position, if the failure may pass; else tell the readers."""
        self._drop_stream()
        self._failure_count += 1
        if failure.may_pass and self._failure_count < self._server.settings.try_count:
            wait_s = self._server.retry_wait_s(self._failure_count, failure)
            self._retry = asyncio.get_running_loop().call_later(wait_s, self._open)
            return
        if failure.code == GONE:
            self._listed.clear()
            self._marks.clear()
        readers, self._readers = self._readers, []
        self._close()
        for reader in readers:
            reader.end(failure)

    def _close(self) -> None:
        """Watch nothing."""
        self._drop_stream()
        self._failure_count = 0
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None

    def _drop_stream(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.cancel()
            self._over = [*(one for one in self._over if not one.is_over), stream]

    def _wake(self) -> None:
        for reader in self._readers:
            reader.wake()


def version_number(metadata: Metadata, default: int) -> int:
    """Return the resource version of an object as a number; those of one kind grow.

    Args:
        metadata: Of the object.
        default: What it is if there is none.

    Raises:
        ApiFailure: It is no number.
    """
    text = metadata.resource_version
    if text and not text.isdecimal():
        raise ApiFailure(0, f"the API server sent a resource version that is no number: {text[:40]!r}")
    return int(text) if text else default

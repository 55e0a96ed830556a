"""Nodes watched once, however many readers in a process follow them.

A sampler follows nodes for what they hold, and who reads our objects follows them for their health. Where both are one
process they share the stream: what it brings is received and decoded once, and each reader takes it at its own pace and
from its own version. A reader that comes with an older version than the stream has reached has the stream begun again
from there; the others skip what they have seen.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from argosy_kube.kubernetes.api.answers import ApiFailure
from argosy_kube.kubernetes.api.documents import WATCH_OF_NODES, NodeDocument, WatchEvent
from argosy_kube.kubernetes.api.resources import NODES
from argosy_kube.kubernetes.api.transport import ApiServer
from argosy_kube.kubernetes.api.watch_stream import WatchStream
from argosy_kube.kubernetes.reading.nodes import NodeStates
from argosy_kube.kubernetes.settings import KubernetesSettings

__all__ = ["NodeFeed", "NodeReader"]

_WAITING_COUNT: Final = 20_000
"""Events that may wait for one reader; the watch of one that is slower ends, and is resumed by it."""


class NodeReader:
    """One reader's part of the shared watch; used as a `WatchStream` is.

    Args:
        feed: What is shared.
        position: Resource version up to which this reader knows everything.
        wake: Called when there is something to take.
    """

    def __init__(self, feed: NodeFeed, position: str, wake: Callable[[], None]) -> None:
        """Have nothing to take."""
        self._feed = feed
        self.resource = NODES
        """What is watched."""
        self.position = position
        """Resource version of the last event that was taken."""
        self.wake = wake
        """Called when there is something to take."""
        self.has_ended = False
        """The watch has ended; there may still be something to take."""
        self._reached = int(position)
        self._waiting: deque[WatchEvent[NodeDocument]] = deque()
        self._failure: ApiFailure | None = None

    @property
    def has_news(self) -> bool:
        """Whether there is something to take."""
        return bool(self._waiting) or (not self.has_ended and self._feed.has_news)

    @property
    def has_failed(self) -> bool:
        """Whether the next `take` may raise."""
        return self._failure is not None or (not self.has_ended and self._feed.has_failed)

    def take(self) -> list[WatchEvent[NodeDocument]]:
        """Return what has come, and advance `position`.

        Raises:
            ApiFailure: The watch was refused, or its position is too old (410); what came before was given already.
        """
        self._feed.read(self)
        if not self._waiting and self._failure is not None:
            raise self._failure
        events = list(self._waiting)
        self._waiting.clear()
        self.position = str(self._reached)
        return events

    def put(self, events: list[WatchEvent[NodeDocument]], reached: int) -> bool:
        """Add what the stream has brought, as far as it is new to this reader; return whether something was.

        Args:
            events: What it brought.
            reached: Resource version up to which that is everything.
        """
        new = [event for event in events if int(event.object.metadata.resource_version or reached) > self._reached]
        self._waiting += new
        self._reached = max(self._reached, reached)
        self.has_ended = self.has_ended or len(self._waiting) > _WAITING_COUNT
        return bool(new)

    def end(self, failure: ApiFailure | None) -> None:
        """Say that nothing more comes, and why if that is known."""
        self.has_ended, self._failure = True, failure
        self.wake()

    async def stop(self) -> None:
        """Leave; the stream ends with its last reader."""
        await self._feed.leave(self)


class NodeFeed:
    """The watch of nodes that several readers share; there is none while nobody reads.

    Args:
        server: Where.
        settings: How long a watch may last, be silent, and how much may wait.
    """

    def __init__(self, server: ApiServer, settings: KubernetesSettings) -> None:
        """Watch nothing yet."""
        self.states = NodeStates()
        """Which nodes are not heard of or lost, as who reads our objects notes."""
        self._server = server
        self._settings = settings
        self._readers: list[NodeReader] = []
        self._source: WatchStream[NodeDocument] | None = None
        self._over: list[WatchStream[NodeDocument]] = []

    @property
    def has_news(self) -> bool:
        """Whether the stream has brought what nobody has taken."""
        return self._source is not None and self._source.has_news

    @property
    def has_failed(self) -> bool:
        """Whether the stream has failed and nobody was told."""
        return self._source is not None and self._source.has_failed

    def join(self, position: str, wake: Callable[[], None]) -> NodeReader:
        """Return a new reader; its `stop` must follow.

        Args:
            position: Resource version from which it goes on.
            wake: Called when there is something to take.
        """
        reader = NodeReader(self, position, wake)
        self.read(reader)  # one that has ended takes its readers with it, not this one
        source = self._source
        if source is None or int(position) < int(source.position):
            self._drop_source()
            source = self._source = WatchStream(
                self._server,
                self._settings,
                NODES,
                decoder=WATCH_OF_NODES,
                selector="",
                position=position,
                wake=self._wake,
            )
            source.start()
        self._readers.append(reader)
        return reader

    async def leave(self, reader: NodeReader) -> None:
        """Let a reader go, and the stream with the last."""
        if reader in self._readers:
            self._readers.remove(reader)
        if not self._readers:
            self._drop_source()
        while self._over:
            await self._over.pop().stop()

    def read(self, taker: NodeReader) -> None:
        """Hand what the stream has brought, or its end, to all readers.

        Args:
            taker: Who asks, and need not be woken for it.
        """
        source = self._source
        if source is None:
            return
        try:
            events = source.take()
        except ApiFailure as failure:
            self._end(failure)
            return
        reached = int(source.position)
        for reader in list(self._readers):
            if reader.put(events, reached) and reader is not taker:
                reader.wake()
            if reader.has_ended:  # it takes nothing; the others go on
                self._readers.remove(reader)
        if source.has_ended and not source.has_news and not source.has_failed:
            self._end(None)

    def _end(self, failure: ApiFailure | None) -> None:
        """End the watches of all readers; each takes what waits for it first."""
        readers, self._readers = self._readers, []
        self._drop_source()
        for reader in readers:
            reader.end(failure)

    def _drop_source(self) -> None:
        """Want nothing more of the stream."""
        source, self._source = self._source, None
        if source is not None:
            source.cancel()
            self._over.append(source)

    def _wake(self) -> None:
        for reader in self._readers:
            reader.wake()

"""One view of a simulated cluster for several readers in one process: one connection, one watch, each its part of it.

A sampler wants every pod, an executor the objects that are ours; most pods are both. `SharedWatch` watches
`Selector.SHARED` once and hands each batch to its readers, so what happens in the cluster is received and decoded once,
and both readers wake up for it together.

There is no task of its own: whichever reader waits first reads for all; if it leaves, the next one goes on from the
version that was reached. What was read stays for a while, so a reader that lists and then watches finds what happened
in between; one that comes with an older version lists again (WatchGone), as with any cluster.

The Kubernetes adapter shares by itself, kind by kind (`kubernetes/api/reflector.py`); a simulated cluster has one
stream and one version for all kinds.

Source: design section 5, "Sync" and "Sampler lost"; `argosy_kube.port`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import numpy as np

from argosy_core.errors import ArgosyError
from argosy_kube.port import (
    BoolArray,
    ObjectEvents,
    Selector,
    WatchGone,
)
from argosy_kube.simulated.client import SimulatedCluster

__all__ = ["SharedCluster", "SharedWatch", "select_events"]

_KEPT_COUNT: Final = 50_000
"""Events that are kept for readers that come later."""
_WAITING_COUNT: Final = 200_000
"""Events that may wait for one reader; one that is slower is dropped, and resumes or lists."""
_COLUMNS: Final = tuple(name for name in ObjectEvents.__slots__ if name.endswith("_column"))


def select_events(events: ObjectEvents, selector: Selector, *, after_version: int = -1) -> ObjectEvents:
    """Return those of shared events that a selector asks for and that are newer than a version."""
    mask: BoolArray = np.ones(len(events), dtype=np.bool_)
    if selector == Selector.OURS:
        mask = events.ours_column
    elif selector == Selector.ALL_PODS:
        mask = events.kind_column == 0
    if after_version >= 0:
        mask = mask & (events.version_column > after_version)
    if mask.all():
        return events
    details, scalings, stops = events.details, events.scalings, events.stop_after_s
    if details or scalings or stops:
        places = (np.cumsum(mask) - 1).tolist()
        details = {places[place]: detail for place, detail in details.items() if mask[place]}
        scalings = {places[place]: scaling for place, scaling in scalings.items() if mask[place]}
        stops = {places[place]: time_s for place, time_s in stops.items() if mask[place]}
    # No pod of a simulated cluster has host ports of its own, so there are none to move.
    columns = {name: getattr(events, name)[mask] for name in _COLUMNS}
    return replace(events, details=details, scalings=scalings, stop_after_s=stops, **columns)


@dataclass(slots=True, eq=False)
class _Reader:
    """One watch that somebody holds."""

    selector: Selector
    """Its part."""
    after_version: int
    """Up to here it has seen everything; what the shared watch brings of it is old."""
    waiting: deque[ObjectEvents] = field(default_factory=deque)
    waiting_count: int = 0
    has_ended: bool = False
    error: Exception | None = None

    def put(self, events: ObjectEvents) -> None:
        """Add a batch; one without anything for this reader only if it had nothing for anybody."""
        if events.version <= self.after_version:
            return
        part = select_events(events, self.selector, after_version=self.after_version)
        if len(part) or not len(events):
            self.waiting.append(part)
            self.waiting_count += len(part)
            self.has_ended = self.has_ended or self.waiting_count > _WAITING_COUNT

    def take(self) -> ObjectEvents:
        """Return the oldest batch that waits."""
        events = self.waiting.popleft()
        self.waiting_count -= len(events)
        return events


class SharedWatch:
    """A watch of objects that several readers of one process share.

    Args:
        begin: Begins the watch of `Selector.SHARED` from a version; the versions of its events must be those of its
            batches.
    """

    def __init__(self, begin: Callable[[int], AsyncGenerator[ObjectEvents, None]]) -> None:
        """Watch nothing before somebody does."""
        self._begin = begin
        self._readers: list[_Reader] = []
        self._kept: deque[ObjectEvents] = deque()
        self._kept_count = 0
        self._base_version = self._version = 0
        self._source: AsyncGenerator[ObjectEvents, None] | None = None
        self._source_brought = False
        self._is_read = False
        self._news = asyncio.Event()

    @property
    def reader_count(self) -> int:
        """Watches that share the one of the cluster."""
        return len(self._readers)

    async def watch(self, selector: Selector, version: int) -> AsyncGenerator[ObjectEvents, None]:
        """Give the changes of the selected objects after a version; see Cluster.watch_objects."""
        reader = self._join(selector, version)
        try:
            while True:
                while reader.waiting:
                    yield reader.take()
                if reader.error is not None:
                    raise reader.error
                if reader.has_ended:
                    return
                await self._read_or_wait()
        finally:
            if reader in self._readers:
                self._readers.remove(reader)
            self._announce()  # whoever waits may have to read now
            if not self._readers and self._source is not None and not self._is_read:
                source, self._source = self._source, None
                await source.aclose()

    def _join(self, selector: Selector, version: int) -> _Reader:
        """Return a new reader that has what was read since its version.

        Raises:
            WatchGone: What came after its version is not kept, and others are further.
        """
        if not self._base_version <= version <= self._version and not self._readers and self._source is None:
            self._forget(version)
        if version < self._base_version:
            raise WatchGone(f"what came after version {version} is not kept here; list again")
        reader = _Reader(selector, version)
        for events in self._kept:
            reader.put(events)
        self._readers.append(reader)
        return reader

    async def _read_or_wait(self) -> None:
        """Read a batch for all readers, or wait for the one who does."""
        if self._is_read:
            await self._news.wait()
            return
        self._is_read = True
        try:
            await self._read()
        finally:
            self._is_read = False
            self._announce()

    async def _read(self) -> None:
        """Hand the next batch, or the end, to all readers."""
        if self._source is None:
            self._source = self._begin(self._version)
            self._source_brought = False
        try:
            events = await anext(self._source)
        except StopAsyncIteration:
            self._source = None
            # One that brought something is resumed; readers wait before they try again with one that did not.
            if not self._source_brought:
                self._end(None)
        except ArgosyError as error:
            self._source = None
            if isinstance(error, WatchGone):
                self._forget(self._version)
                self._base_version += 1  # nobody resumes from here
            self._end(error)
        except BaseException:
            # Whoever read leaves; what it was about to hand out is read again by the next one.
            self._source = None
            raise
        else:
            self._source_brought = True
            self._keep(events)
            for reader in self._readers:
                reader.put(events)

    def _keep(self, events: ObjectEvents) -> None:
        """Keep a batch for readers that come later, and forget the oldest above the bound."""
        self._version = events.version
        if len(events):
            self._kept.append(events)
            self._kept_count += len(events)
        while self._kept_count > _KEPT_COUNT:
            oldest = self._kept.popleft()
            self._kept_count -= len(oldest)
            self._base_version = oldest.version

    def _forget(self, version: int) -> None:
        """Keep nothing, and go on from a version."""
        self._kept.clear()
        self._kept_count = 0
        self._base_version = self._version = version

    def _end(self, error: Exception | None) -> None:
        """End all watches; each reader takes what waits for it first."""
        for reader in self._readers:
            reader.has_ended, reader.error = True, error
        self._readers.clear()

    def _announce(self) -> None:
        """Wake up all who wait."""
        news, self._news = self._news, asyncio.Event()
        news.set()


class SharedCluster(SimulatedCluster):
    """A simulated cluster of which several readers of one process share the watch of objects."""

    def __init__(self, address: str, *, installation: str, timeout_s: float = 30.0) -> None:
        """See SimulatedCluster."""
        super().__init__(address, installation=installation, timeout_s=timeout_s)
        self._shared = SharedWatch(partial(super().watch_objects, Selector.SHARED))

    def watch_objects(self, selector: Selector, version: int) -> AsyncGenerator[ObjectEvents, None]:
        """See Cluster."""
        return self._shared.watch(selector, version)

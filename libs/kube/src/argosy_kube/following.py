"""Following a cluster: a list, then a watch from it, for ever; the one loop of everybody who reads nodes or objects.

A watch that ends or fails is resumed from its version, after a wait; one whose version is gone begins with a list.
Where lists are also made now and then, the watch goes on beside them, and begins anew from each.

Source: `argosy_kube.port`; design section 5, "Sync" and "Sampler lost".
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Generic, Protocol, TypeVar

from argosy_core.errors import BackendUnavailable
from argosy_kube.port import WatchGone

__all__ = ["Follower", "Waits"]


class _Batch(Protocol):
    """A batch of events of nodes or objects."""

    @property
    def version(self) -> int:
        """Version to resume from."""


class Waits(Protocol):
    """How long to wait after failures, as `argosy_runtime.channel.Backoff` says it."""

    def next_wait_s(self) -> float:
        """Return how long to wait after one more failure, seconds."""

    def reset(self) -> None:
        """Start over, after a success."""


B = TypeVar("B", bound=_Batch)


class Follower(Generic[B]):
    """Follows the nodes or the objects of a cluster.

    Args:
        read: Lists.
        watch: Watches from a version.
        take_list: Takes a list; what follows it is newer.
        take: Takes what a watch brings.
        tell: Told why the cluster cannot be read now, and how long is waited, seconds.
        waits: Says how long.
        relist_s: Time after which a list is made beside the watch, seconds.
    """

    def __init__(
        self,
        read: Callable[[], Awaitable[B]],
        watch: Callable[[int], AsyncGenerator[B, None]],
        *,
        take_list: Callable[[B], None],
        take: Callable[[B], None],
        tell: Callable[[BackendUnavailable, float], None],
        waits: Waits,
        relist_s: float = math.inf,
    ) -> None:
        """Follow nothing yet."""
        self._read = read
        self._watch = watch
        self._take_list = take_list
        self._take = take
        self._tell = tell
        self._waits = waits
        self._relist_s = relist_s
        self._due_s = math.inf
        self._version: int | None = None
        self._due = asyncio.Event()

    def relist(self) -> None:
        """Have a list made soon."""
        self._due.set()

    async def run(self) -> None:
        """Follow until cancelled."""
        while True:
            try:
                if self._version is None:
                    await self._list()
                await self._follow()
            except WatchGone:
                self._version = None
            except BackendUnavailable as error:
                await self._wait(error)

    async def _list(self) -> None:
        listed = await self._read()
        self._waits.reset()
        self._begin_from(listed)

    def _begin_from(self, listed: B) -> None:
        self._take_list(listed)
        self._version = listed.version
        self._due.clear()
        self._due_s = asyncio.get_running_loop().time() + self._relist_s

    async def _follow(self) -> None:
        """Watch until the watch ends, or until a list made beside it says where to go on."""
        watching = asyncio.ensure_future(self._watch_on())
        listing = asyncio.ensure_future(self._list_when_due(watching))
        try:
            await asyncio.wait({watching, listing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            listing.cancel()
            watching.cancel()
            await asyncio.gather(watching, listing, return_exceptions=True)
        for one in (listing, watching):
            if not one.cancelled() and (error := one.exception()) is not None:
                raise error

    async def _watch_on(self) -> None:
        assert self._version is not None
        has_received = False
        async with aclosing(self._watch(self._version)) as batches:
            async for batch in batches:
                self._take(batch)
                self._version = batch.version
                if not has_received:
                    has_received = True
                    self._waits.reset()
        if not has_received:  # a watch that ends at once must not become a busy loop
            await asyncio.sleep(self._waits.next_wait_s())

    async def _list_when_due(self, watching: asyncio.Future[None]) -> None:
        """Make a list once it is time; the watch ends before it is taken, since it may have been older."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(None if math.isinf(self._due_s) else self._due_s):
                await self._due.wait()
        while True:
            try:
                listed = await self._read()
            except BackendUnavailable as error:
                await self._wait(error)
                continue
            # In one step of the event loop, so that nothing newer than the list is told before it.
            watching.cancel()
            self._begin_from(listed)
            return

    async def _wait(self, error: BackendUnavailable) -> None:
        wait_s = self._waits.next_wait_s()
        self._tell(error, wait_s)
        await asyncio.sleep(wait_s)

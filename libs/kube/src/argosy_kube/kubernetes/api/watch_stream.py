"""Watches: streams that are read as fast as they come, into a bounded buffer, for a consumer that takes its time.

An API server ends the watches of slow readers, so reading does not wait for the consumer until the buffer is full. What
a stream has given is never lost with it: lines that were read are taken first, then the end is told.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from argosy_kube.kubernetes.api.answers import GONE, KEYS_ONLY, ApiFailure, Status
from argosy_kube.kubernetes.api.documents import KeyDocument, Metadata, WatchEvent
from argosy_kube.kubernetes.api.resources import NODES, PODS, Resource
from argosy_kube.kubernetes.api.transport import BROKEN, JSON, ApiServer
from argosy_kube.kubernetes.settings import KubernetesSettings

__all__ = ["HasMetadata", "WatchStream"]

_BOOKMARK: Final = b'"BOOKMARK"'
_ERROR: Final = b'"ERROR"'
_HEAD_BYTES: Final = 64
_MOST_LINES: Final = 2000


class HasMetadata(Protocol):
    """A document."""

    @property
    def metadata(self) -> Metadata:
        """Name, uid and version of the object."""


T = TypeVar("T", bound=HasMetadata)


class _Failed(msgspec.Struct):
    object: Status


_FAILED: Final = msgspec.json.Decoder(_Failed)
_MARK: Final = msgspec.json.Decoder(WatchEvent[KeyDocument])


def _query(settings: KubernetesSettings, selector: str) -> str:
    """Return the query of a watch, without the resource version.

    Args:
        settings: How long it may last.
        selector: Selectors, already quoted, or nothing.
    """
    query = f"watch=true&allowWatchBookmarks=true&timeoutSeconds={max(1, round(settings.watch_timeout_s))}"
    return f"{query}&{selector}" if selector else query


class WatchStream(Generic[T]):
    """One watch of one kind.

    Args:
        server: Where, and how long it may last, be silent, and how much may wait.
        resource: Of what.
        decoder: Reads a line.
        selector: Which objects, as a query; empty for all.
        position: Resource version to resume from.
        namespace: Where alone; empty for everywhere.
        wake: Called when there is something to take.
    """

    def __init__(
        self,
        server: ApiServer,
        resource: Resource,
        *,
        decoder: msgspec.json.Decoder[WatchEvent[T]],
        selector: str,
        position: str,
        namespace: str = "",
        wake: Callable[[], None],
    ) -> None:
        """Read nothing yet; `start` it."""
        self._server = server
        self._path = resource.path(namespace)
        self.resource = resource
        """What is watched."""
        self.position = position
        """Resource version of the last event that was taken."""
        self._decoder = decoder
        settings = server.settings
        self._query = _query(settings, selector)
        self._wake = wake
        self._accept = JSON if resource in {PODS, NODES} else KEYS_ONLY
        self._idle_s, self._most_bytes = settings.watch_idle_s, settings.watch_buffer_bytes
        self._blocks: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._room = asyncio.Event()
        self._failure: ApiFailure | None = None
        self._task: asyncio.Task[None] | None = None
        self.has_ended = False
        """The stream has ended; there may still be something to take."""
        self.has_brought = False
        """Something has come, if only a bookmark."""

    def start(self) -> None:
        """Begin to read; `stop` must follow."""
        self._task = asyncio.get_running_loop().create_task(self._read(), name=f"watch {self.resource.plural}")

    def cancel(self) -> None:
        """Read nothing more; `stop` must follow all the same."""
        if self._task is not None:
            self._task.cancel()

    @property
    def is_over(self) -> bool:
        """Whether reading has ended, so that nobody needs to stop it."""
        return self._task is None or self._task.done()

    async def stop(self) -> None:
        """End reading."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _read(self) -> None:
        path = f"{self._path}?{self._query}&resourceVersion={self.position}"
        rest = b""
        try:
            async with self._server.stream(path, idle_s=self._idle_s, accept=self._accept) as content:
                async for chunk in content.iter_any():
                    end = chunk.rfind(b"\n") + 1
                    if not end:
                        rest += chunk
                        if len(rest) > self._most_bytes:
                            raise ApiFailure(0, "a line of a watch is longer than what may wait")
                        continue
                    await self._put(rest + chunk[:end])
                    rest = chunk[end:]
        except ApiFailure as failure:
            self._failure = failure
        except BROKEN:
            pass  # a broken stream is one that has ended
        finally:
            self.has_ended = True
            self._wake()

    async def _put(self, block: bytes) -> None:
        while self._waiting_bytes > self._most_bytes:
            self._room.clear()
            await self._room.wait()
        self._blocks.append(block)
        self._waiting_bytes += len(block)
        self.has_brought = True
        self._server.meter.watch_heard(self.resource.full_name)
        self._wake()

    @property
    def has_news(self) -> bool:
        """Whether there is something to take."""
        return bool(self._blocks)

    @property
    def has_failed(self) -> bool:
        """Whether the next `take` may raise."""
        return self._failure is not None

    def take(self) -> list[WatchEvent[T]]:
        """Return what has come, bookmarks left out, and advance `position`.

        Raises:
            ApiFailure: With code 410 if the position is no longer kept, or another refusal; what came before it was
                given already.
        """
        events: list[WatchEvent[T]] = []
        while self._blocks and len(events) < _MOST_LINES:
            block = self._blocks.popleft()
            self._waiting_bytes -= len(block)
            for line in block.splitlines():
                if not line:
                    continue
                head = line[:_HEAD_BYTES]
                try:
                    if _BOOKMARK in head:
                        self.position = _MARK.decode(line).object.metadata.resource_version or self.position
                        continue
                    if _ERROR in head:
                        self._fail(line)
                        break
                    event = self._decoder.decode(line)
                    events.append(event)
                    self.position = event.object.metadata.resource_version or self.position
                except (msgspec.DecodeError, UnicodeDecodeError) as cause:
                    self._break(ApiFailure(0, f"the API server sent what cannot be read: {cause}"))
                    break
        self._room.set()
        if not events and self._failure is not None and not self._blocks:
            raise self._failure
        return events

    def _fail(self, line: bytes) -> None:
        status = _FAILED.decode(line).object
        code = GONE if status.reason in {"Expired", "Gone"} else status.code
        self._break(ApiFailure(code, status.message or "the watch failed", status=status))

    def _break(self, failure: ApiFailure) -> None:
        """Say that nothing more can be taken, and why."""
        self._failure = failure
        self._blocks.clear()
        self._waiting_bytes = 0
        self.cancel()
        self.has_ended = True

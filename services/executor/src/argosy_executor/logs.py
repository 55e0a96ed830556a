"""Logs on their way to readers: asked for by the leader, read from the cluster, sent up as far as readers take them.

::

    LogRequest(credit) ──> read_log ──chunks within the credit──> stream
    LogCredit(more)    ──> go on
    LogCredit(cancelled), end of the stream ──> the reading ends

A reader that is slow gives no credit, so its reading stands still and everybody else's goes on; states never wait for
more than one chunk.

Source: design section 5, "Sync" ("clusters dial out").
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final

import grpc

from argosy.executor.v1 import executor_pb2
from argosy_core.errors import ArgosyError, BackendUnavailable, NotFound
from argosy_core.job.tables.members import ordinal_of
from argosy_kube.port import Cluster
from argosy_runtime.log_archives.archive import LogArchive, LogChoice, read_kept
from argosy_runtime.logs import get_logger

__all__ = ["MAX_CHUNK_BYTES", "LogReadings"]

MAX_CHUNK_BYTES: Final = 32 << 10
"""Most bytes in one chunk; the bound of the protocol."""

_OK, _NOT_FOUND, _EXHAUSTED, _UNAVAILABLE, _INTERNAL = (
    code.value[0]
    for code in (
        grpc.StatusCode.OK,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.INTERNAL,
    )
)


class _Credit:
    """Bytes that a reader can take."""

    def __init__(self, count_bytes: int) -> None:
        """Start with some."""
        self._count_bytes = count_bytes
        self._news = asyncio.Event()

    def add(self, count_bytes: int) -> None:
        """Take more."""
        self._count_bytes += max(count_bytes, 0)
        self._news.set()

    async def take(self, wanted_bytes: int) -> int:
        """Return how many of some bytes may be sent now, at least one; waits until one may."""
        while self._count_bytes <= 0:
            self._news.clear()
            await self._news.wait()
        taken = min(wanted_bytes, self._count_bytes, MAX_CHUNK_BYTES)
        self._count_bytes -= taken
        return taken


class LogReadings:
    """The logs that are read on one stream.

    Args:
        cluster: Where the logs are.
        write: Sends a message up; waits while the stream takes no more.
        group: Where readings run; they end with it.
        max_count: Most readings at once.
        archive: Where logs of pods that are gone are, if any are kept.
    """

    def __init__(
        self,
        cluster: Cluster,
        write: Callable[[executor_pb2.SyncRequest], Awaitable[None]],
        group: asyncio.TaskGroup,
        *,
        max_count: int,
        archive: LogArchive | None = None,
    ) -> None:
        """Start without readings."""
        self._cluster = cluster
        self._write = write
        self._group = group
        self._max_count = max_count
        self._archive = archive
        self._readings: dict[int, tuple[asyncio.Task[None], _Credit]] = {}

    def __len__(self) -> int:
        """Return the number of readings."""
        return len(self._readings)

    def begin(self, request: executor_pb2.LogRequest) -> None:
        """Begin to read, or refuse it in the answer."""
        credit = _Credit(request.credit_bytes)
        refusal = ""
        if len(self._readings) >= self._max_count:
            refusal = f"{self._max_count} logs of this cluster are read already; end one and try again"
        work = self._refuse(request, refusal) if refusal else self._read(request, credit)
        task = self._group.create_task(work, name=f"log {request.request}")
        if not refusal:
            self._readings[request.request] = task, credit

    def take_credit(self, credit: executor_pb2.LogCredit) -> None:
        """Take room for more, or the word that nobody reads any more; a reading that is over needs neither."""
        reading = self._readings.get(credit.request)
        if reading is None:
            return
        if credit.cancelled:
            del self._readings[credit.request]
            reading[0].cancel()
        else:
            reading[1].add(credit.credit_bytes)

    async def _refuse(self, request: executor_pb2.LogRequest, reason: str) -> None:
        end = executor_pb2.LogEnd(request=request.request, code=_EXHAUSTED, message=reason)
        await self._write(executor_pb2.SyncRequest(log_end=end))

    async def _read(self, request: executor_pb2.LogRequest, credit: _Credit) -> None:
        """Read one log to its end and say how it ended."""
        code, message = _OK, ""
        try:
            try:
                await self._copy(request, credit)
            except NotFound:
                if self._archive is None:
                    raise
                await self._copy_kept(self._archive, request, credit)
        except NotFound as error:
            code, message = _NOT_FOUND, error.message
        except BackendUnavailable as error:
            code, message = _UNAVAILABLE, error.message
        except ArgosyError as error:
            code, message = _INTERNAL, error.message
            get_logger().warning("a log cannot be read", handle=request.handle, reason=error.message)
        self._readings.pop(request.request, None)
        end = executor_pb2.LogEnd(request=request.request, code=code, message=message[:256])
        await self._write(executor_pb2.SyncRequest(log_end=end))

    async def _copy(self, request: executor_pb2.LogRequest, credit: _Credit) -> None:
        """Send a log in chunks within the credit."""
        pieces = self._cluster.read_log(
            request.handle,
            ordinal_of(request.attempt, request.member),
            request.object,
            container=request.container,
            follow=request.follow,
            tail_line_count=request.tail_line_count if request.tail_line_count >= 0 else None,
            timestamps=request.timestamps,
            since_s=request.since_s,
        )
        async with contextlib.aclosing(pieces):
            async for piece in pieces:
                await self._send(request, credit, piece)

    async def _copy_kept(self, archive: LogArchive, request: executor_pb2.LogRequest, credit: _Credit) -> None:
        """Send what was kept of the log of a pod that is gone.

        Raises:
            NotFound: Nothing was kept of it.
            BackendUnavailable: Nobody can tell now.
        """
        run = request.handle, ordinal_of(request.attempt, request.member), request.object
        text = await read_kept(
            archive,
            run,
            LogChoice(
                container=request.container,
                tail_line_count=request.tail_line_count if request.tail_line_count >= 0 else None,
                timestamps=request.timestamps,
                since_s=request.since_s,
            ),
        )
        if text is None:
            raise NotFound("the cluster has no such pod, and nothing was kept of this log")
        await self._send(request, credit, text)

    async def _send(self, request: executor_pb2.LogRequest, credit: _Credit, piece: bytes) -> None:
        """Send a piece in chunks within the credit."""
        sent = 0
        while sent < len(piece):
            count = await credit.take(len(piece) - sent)
            chunk = executor_pb2.LogChunk(request=request.request, data=bytes(piece[sent : sent + count]))
            await self._write(executor_pb2.SyncRequest(log_chunk=chunk))
            sent += count

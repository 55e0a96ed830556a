"""Logs on their way from one executor's stream to readers at the API.

Each reader has a window: the executor sends no more than it was given credit for, so a reader that stops taking holds
up its own log and nothing else, and what waits here is bounded by `MAX_RELAY_COUNT * WINDOW_BYTES` per cluster.

Source: design section 5, "Sync" ("clusters dial out"); section 7, invariant 11.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from typing import Final

import grpc

from argosy.executor.v1 import executor_pb2
from argosy_core.errors import ArgosyError, BackendUnavailable, InvalidRequest, NotFound, QuotaExceeded
from argosy_server.api.leadership.leader_view import LogRequest

__all__ = ["MAX_RELAY_COUNT", "WINDOW_BYTES", "LogRelays"]

WINDOW_BYTES: Final = 256 << 10
"""Bytes of one log that may wait for its reader."""
MAX_RELAY_COUNT: Final = 32
"""Logs of one cluster that are read at once."""

_ERRORS: Final[dict[int, type[ArgosyError]]] = {
    grpc.StatusCode.NOT_FOUND.value[0]: NotFound,
    grpc.StatusCode.RESOURCE_EXHAUSTED.value[0]: QuotaExceeded,
}


@dataclass(slots=True)
class _Relay:
    """One reader."""

    chunks: deque[bytes] = field(default_factory=deque)
    waiting_bytes: int = 0
    is_over: bool = False
    error: ArgosyError | None = None
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def end(self, error: ArgosyError | None) -> None:
        """Note that nothing more comes."""
        if not self.is_over:
            self.is_over, self.error = True, error
            self.news.set()


class LogRelays:
    """The logs that are read of one executor.

    Args:
        send: Sends a message to the executor.
    """

    def __init__(self, send: Callable[[executor_pb2.SyncResponse], None]) -> None:
        """Start without readers."""
        self._send = send
        self._relays: dict[int, _Relay] = {}
        self._last_number = 0
        self._close_reason: str | None = None

    def __len__(self) -> int:
        """Return the number of readers."""
        return len(self._relays)

    async def read(self, request: LogRequest) -> AsyncGenerator[bytes, None]:
        """Give a log in pieces; closing the iterator ends the reading at the executor, too.

        Raises:
            NotFound: There is no such log.
            QuotaExceeded: Too many logs of this cluster are read at once.
            BackendUnavailable: The executor's stream ended, or its cluster cannot be reached.
        """
        if self._close_reason is not None:
            raise BackendUnavailable(self._close_reason)
        if len(self._relays) >= MAX_RELAY_COUNT:
            raise QuotaExceeded(f"{MAX_RELAY_COUNT} logs of this cluster are read already; end one and try again")
        self._last_number += 1
        number, relay = self._last_number, _Relay()
        self._relays[number] = relay
        self._send(executor_pb2.SyncResponse(log_request=_request(number, request)))
        try:
            async for piece in self._pieces(number, relay):
                yield piece
        finally:
            self._relays.pop(number, None)
            if not relay.is_over:
                self._send_credit(number, 0, cancelled=True)

    async def _pieces(self, number: int, relay: _Relay) -> AsyncGenerator[bytes, None]:
        """Give what has come, and credit for as much once half a window was taken."""
        taken_bytes = 0
        while True:
            while relay.chunks:
                piece = relay.chunks.popleft()
                relay.waiting_bytes -= len(piece)
                yield piece
                taken_bytes += len(piece)
                if taken_bytes >= WINDOW_BYTES // 2 and not relay.is_over:
                    self._send_credit(number, taken_bytes)
                    taken_bytes = 0
            if relay.is_over:
                if relay.error is not None:
                    raise relay.error
                return
            relay.news.clear()
            await relay.news.wait()

    def _send_credit(self, number: int, count_bytes: int, *, cancelled: bool = False) -> None:
        credit = executor_pb2.LogCredit(request=number, credit_bytes=count_bytes, cancelled=cancelled)
        self._send(executor_pb2.SyncResponse(log_credit=credit))

    def take_chunk(self, number: int, data: bytes) -> None:
        """Take a part of a log; one that nobody waits for any more is dropped.

        Raises:
            InvalidRequest: The executor sends more than it was given credit for.
        """
        relay = self._relays.get(number)
        if relay is None or not data:
            return
        if relay.waiting_bytes + len(data) > WINDOW_BYTES:
            raise InvalidRequest(f"log {number} brings more than its reader has room for")
        relay.chunks.append(data)
        relay.waiting_bytes += len(data)
        relay.news.set()

    def take_end(self, end: executor_pb2.LogEnd) -> None:
        """Take the end of a log."""
        relay = self._relays.get(end.request)
        if relay is not None:
            relay.end(_ERRORS.get(end.code, BackendUnavailable)(end.message) if end.code else None)

    def close(self, reason: str) -> None:
        """End all readings: the executor is gone."""
        self._close_reason = f"the stream of the cluster's executor ended ({reason}); try again in a few seconds"
        for relay in self._relays.values():
            relay.end(BackendUnavailable(self._close_reason))


def _request(number: int, request: LogRequest) -> executor_pb2.LogRequest:
    """Return a request as a message."""
    return executor_pb2.LogRequest(
        request=number,
        handle=request.handle,
        attempt=request.attempt,
        object=request.object_index,
        member=request.member,
        container=request.container,
        follow=request.follow,
        tail_line_count=-1 if request.tail_line_count is None else request.tail_line_count,
        credit_bytes=WINDOW_BYTES,
        timestamps=request.timestamps,
        since_s=request.since_s,
    )

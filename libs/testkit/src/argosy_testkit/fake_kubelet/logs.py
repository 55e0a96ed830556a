"""Where the API server asks for container logs: one HTTPS server that answers for every node."""

from __future__ import annotations

import asyncio
import datetime as dt
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Final

from aiohttp import web

__all__ = ["LogServer", "LogSource"]

_POLL_S: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSource:
    """What a pod has to write."""

    containers: tuple[str, ...]
    """Names of its containers."""
    pod: str
    """Its name."""
    started_s: float
    """When it started, Unix time."""
    run_time_s: float
    """How long it runs."""
    ended_s: Callable[[], float]
    """When it ended, 0 if it has not."""
    line_count: int
    """Lines it writes, evenly over its run time."""
    is_reachable: bool
    """Its node is."""

    def lines(self, container: str, now_s: float) -> list[tuple[float, str]]:
        """Return (time, line) of what a container has written so far."""
        until_s = min(now_s, self.ended_s() or now_s)
        gap_s = self.run_time_s / max(self.line_count, 1)
        times = [self.started_s + index * gap_s for index in range(self.line_count)]
        return [(at_s, f"{self.pod} {container} line {index}\n") for index, at_s in enumerate(times) if at_s <= until_s]


class LogServer:
    """The server; its context gives the port.

    Args:
        find: Gives the source of a namespace and pod name, None if it has not started or is none of ours.
        context: TLS with a certificate.
    """

    def __init__(self, find: Callable[[str, str], LogSource | None], context: ssl.SSLContext) -> None:
        """Remember."""
        self._find = find
        self._context = context
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> int:
        """Listen on a free port of the loopback interface; return it."""
        application = web.Application()
        application.router.add_get("/containerLogs/{namespace}/{pod}/{container}", self._answer)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.5)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._context).start()
        return int(self._runner.addresses[0][1])

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        container = request.match_info["container"]
        source = self._find(request.match_info["namespace"], request.match_info["pod"])
        if source is None or container not in source.containers:
            return web.Response(status=400, text=f"container {container} is waiting to start: ContainerCreating")
        if request.query.get("previous") == "true":
            return web.Response(status=400, text=f"previous terminated container {container} not found")
        if not source.is_reachable:
            if request.transport is not None:
                request.transport.abort()  # a node that is cut off answers nothing
            return web.Response(status=503)
        return await self._send(request, source, container)

    async def _send(self, request: web.Request, source: LogSource, container: str) -> web.StreamResponse:
        has_times = request.query.get("timestamps") == "true"

        def text(at_s: float, line: str) -> bytes:
            when = dt.datetime.fromtimestamp(at_s, dt.UTC).isoformat(timespec="microseconds")
            return f"{when.replace('+00:00', 'Z')} {line}".encode() if has_times else line.encode()

        lines = source.lines(container, time.time())
        sent_count = len(lines)
        if "sinceSeconds" in request.query:
            oldest_s = time.time() - float(request.query["sinceSeconds"])
            lines = [pair for pair in lines if pair[0] >= oldest_s]
        if "sinceTime" in request.query:
            oldest_s = dt.datetime.fromisoformat(request.query["sinceTime"]).timestamp()
            lines = [pair for pair in lines if pair[0] >= oldest_s]
        if "tailLines" in request.query:
            count = int(request.query["tailLines"])
            lines = lines[-count:] if count else []
        left = int(request.query.get("limitBytes", 1 << 40))
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        while True:
            data = b"".join(text(*pair) for pair in lines)[:left]
            left -= len(data)
            if data:
                await response.write(data)
            is_over = bool(source.ended_s())
            lines = source.lines(container, time.time())[sent_count:]
            if request.query.get("follow") != "true" or left <= 0 or (is_over and not lines):
                break
            sent_count += len(lines)
            if not lines:
                await asyncio.sleep(_POLL_S)
        await response.write_eof()
        return response

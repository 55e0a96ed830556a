"""A relay in front of a server that can hold back what the server answers.

Between the moment a server has done its work and the moment its caller knows of it lies the time in which a crash is
worst. With replies held, a test has all calls in that state for as long as it likes.

Source: design section 7, invariants 2 and 3.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import TracebackType
from typing import Self

__all__ = ["ReplyGate"]

_CHUNK_BYTES = 65536


class ReplyGate:
    """Relays TCP connections; an asynchronous context manager.

    Args:
        upstream: host:port of the server.
    """

    def __init__(self, upstream: str) -> None:
        """Listen nowhere yet."""
        host, _, port = upstream.rpartition(":")
        self._upstream = host, int(port)
        self._holding = False
        self._held: dict[asyncio.StreamWriter, bytearray] = {}
        self._server: asyncio.Server | None = None
        self._relays: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> str:
        """host:port to dial instead of the server."""
        assert self._server is not None
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"{host}:{port}"

    def hold(self) -> None:
        """Keep back what the server says from now on; it is lost with its connection."""
        self._holding = True

    def release(self) -> None:
        """Pass on what was kept back, and all that follows."""
        self._holding = False
        for caller, held in self._held.items():
            caller.write(held)
            held.clear()

    async def __aenter__(self) -> Self:
        """Listen."""
        self._server = await asyncio.start_server(self._relay, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End every connection."""
        assert self._server is not None
        self._server.close()
        for relay in self._relays:
            relay.cancel()
        await asyncio.gather(*self._relays, return_exceptions=True)

    async def _relay(self, from_caller: asyncio.StreamReader, to_caller: asyncio.StreamWriter) -> None:
        """Relay one connection until either side ends it."""
        task = asyncio.current_task()
        assert task is not None
        self._relays.add(task)
        directions: list[asyncio.Task[None]] = []
        ends = [to_caller]
        try:
            with suppress(OSError):
                from_server, to_server = await asyncio.open_connection(*self._upstream)
                ends.append(to_server)
                self._held[to_caller] = bytearray()
                directions = [
                    asyncio.create_task(self._pass_on(from_caller, to_server)),
                    asyncio.create_task(self._pass_on(from_server, to_caller)),
                ]
                await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for direction in directions:
                direction.cancel()
            await asyncio.gather(*directions, return_exceptions=True)
            self._held.pop(to_caller, None)
            for end in ends:
                end.close()
            self._relays.discard(task)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass on one direction until its end."""
        held = self._held.get(writer)
        while data := await reader.read(_CHUNK_BYTES):
            if self._holding and held is not None:
                held += data
                continue
            writer.write(data)
            await writer.drain()

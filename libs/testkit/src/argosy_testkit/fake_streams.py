"""What fake leaders share that hold streams of samplers or executors in a test's own process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Protocol, TypeVar

import grpc

__all__ = ["Addressed", "read_until_ended", "serving"]


class Addressed(Protocol):
    """A servicer that knows where it is served."""

    address: str
    """Host and port."""


ServicerT = TypeVar("ServicerT", bound=Addressed)


@asynccontextmanager
async def serving(servicer: ServicerT, add: Callable[[ServicerT, Any], None]) -> AsyncGenerator[ServicerT, None]:
    """Serve a servicer on a free port.

    Args:
        servicer: Whom to serve; it is told its address.
        add: The generated function that adds it to a server.
    """
    server = grpc.aio.server()
    add(servicer, server)
    servicer.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    try:
        yield servicer
    finally:
        await server.stop(0)


async def read_until_ended(reading: Coroutine[Any, Any, None], ended: asyncio.Event) -> None:
    """Read a stream until the peer closes it or a test ends it."""
    tasks = {asyncio.ensure_future(reading), asyncio.ensure_future(ended.wait())}
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

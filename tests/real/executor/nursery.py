"""Executors that start at once: each is a process of its own, forked from one that has read all of the code.

Reading the code takes ten times as long as the lives that a test of kills gives them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

__all__ = ["Nursery", "running_nursery"]

_PARENT: Final = """
import json, os, sys
import kubernetes.config
import argosy_executor.app
from argosy_executor.__main__ import main
for line in sys.stdin:
    order = json.loads(line)
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os._exit(main(order["flags"]))
    print(child, flush=True)
    os.waitpid(child, 0)
    print("ended", flush=True)
"""


class Nursery:
    """Lets one executor live at a time.

    Args:
        parent: The process that has read the code.
    """

    def __init__(self, parent: Process) -> None:
        """Begin without one."""
        self._parent = parent
        self._child = 0

    async def _read(self) -> str:
        assert self._parent.stdout is not None
        line = (await self._parent.stdout.readline()).decode().strip()
        assert line, "the parent of the executors has ended"
        return line

    async def start(self, flags: Sequence[str], log: Path) -> None:
        """Let an executor begin; the one before it must have been killed."""
        assert self._parent.stdin is not None
        order = {"flags": list(flags), "log": str(log)}
        self._parent.stdin.write(json.dumps(order).encode() + b"\n")
        await self._parent.stdin.drain()
        self._child = int(await self._read())

    async def kill(self) -> None:
        """Kill the executor at once; return when it is no more."""
        if self._child:
            os.kill(self._child, signal.SIGKILL)  # not yet waited for by its parent, or ended just now
            self._child = 0
            assert await self._read() == "ended"


@asynccontextmanager
async def running_nursery() -> AsyncGenerator[Nursery, None]:
    """Read the code once, and let nothing live on."""
    parent = await asyncio.create_subprocess_exec(sys.executable, "-c", _PARENT, stdin=PIPE, stdout=PIPE)
    nursery = Nursery(parent)
    try:
        yield nursery
    finally:
        with contextlib.suppress(ProcessLookupError, AssertionError):
            await nursery.kill()
        with contextlib.suppress(ProcessLookupError):
            parent.kill()
        await parent.wait()

"""Running a coroutine so that Ctrl-C ends its wait at once, whenever it comes.

Python runs handlers of signals between its own steps. A signal that comes after the last step and before the loop
begins to wait would be handled only when something else wakes the loop, which may be hours later.

Source: design section 9.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

__all__ = ["run_to_end"]

_Answer = TypeVar("_Answer")
_READ_BYTES: Final = 4096


def run_to_end(action: Awaitable[_Answer]) -> _Answer:
    """Run an action in a loop of its own and return its answer; every signal wakes the loop.

    Raises:
        KeyboardInterrupt: The user interrupted it.
    """

    async def run() -> _Answer:
        with _woken_by_signals():
            return await action

    return asyncio.run(run())


@contextmanager
def _woken_by_signals() -> Iterator[None]:
    """Have each signal write to a socket at which the running loop waits; only the main thread gets signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.setblocking(False)
        loop.add_reader(ours, ours.recv, _READ_BYTES)
        before = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(before)
            loop.remove_reader(ours)

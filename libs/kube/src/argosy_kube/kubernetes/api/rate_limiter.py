"""How fast an API server is called.

So many calls at once and so many per second, the urgent ones first, and none while it asks us to wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
from collections.abc import AsyncGenerator, Callable
from enum import IntEnum

__all__ = ["Priority", "RateLimiter"]


class Priority(IntEnum):
    """Which waiting call goes first."""

    READ = 0
    """Lists, starts of watches, single reads: everything else is decided by them."""
    DELETE = 1
    """They free capacity, and stop what must not run."""
    CREATE = 2
    """They can wait: nothing runs yet."""
    UPKEEP = 3
    """Nobody waits for them: what others wrote about pods, labels that somebody changed on pods that are known."""


class RateLimiter:
    """Gives calls leave to begin.

    Args:
        per_s: Calls per second in the long run, 0 for no limit.
        burst_count: Calls that may begin at once after a pause.
        concurrency: Calls under way at once.
        monotonic: Seconds that never go back.
    """

    def __init__(self, *, per_s: float, burst_count: int, concurrency: int, monotonic: Callable[[], float]) -> None:
        """Start with a full burst."""
        self._interval_s = 1.0 / per_s if per_s > 0 else 0.0
        self._ahead_s = self._interval_s * max(burst_count, 1)
        self._free = max(concurrency, 1)
        self._monotonic = monotonic
        self._due_s = 0.0  # when the next call would begin if calls were spread evenly
        self._paused_until_s = 0.0
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._count = 0
        self._timer: asyncio.TimerHandle | None = None

    @contextlib.asynccontextmanager
    async def turn(self, priority: Priority) -> AsyncGenerator[None, None]:
        """Wait for leave, and give the place back at the end."""
        await self.enter(priority)
        try:
            yield
        finally:
            self.leave()

    async def enter(self, priority: Priority) -> None:
        """Wait until a call may begin; `leave` must follow."""
        if not self._waiting and self._free > 0 and self._wait_s() <= 0.0:
            self._begin()
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._count += 1
        heapq.heappush(self._waiting, (priority, self._count, future))
        self._wake()
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self.leave()
            raise

    def leave(self) -> None:
        """Say that a call has ended."""
        self._free += 1
        self._wake()

    def pause(self, for_s: float) -> None:
        """Let no call begin for some time, because the API server asked for it."""
        self._paused_until_s = max(self._paused_until_s, self._monotonic() + for_s)

    def _wait_s(self) -> float:
        now_s = self._monotonic()
        return max(self._paused_until_s - now_s, self._due_s - self._ahead_s - now_s)

    def _begin(self) -> None:
        self._free -= 1
        if self._interval_s:
            self._due_s = max(self._due_s, self._monotonic()) + self._interval_s

    def _wake(self) -> None:
        """Let those begin who may; look again when time is all that is missing."""
        while self._waiting and self._free > 0:
            if self._waiting[0][2].done():  # cancelled meanwhile
                heapq.heappop(self._waiting)
                continue
            wait_s = self._wait_s()
            if wait_s > 0.0:
                if self._timer is None:
                    self._timer = asyncio.get_running_loop().call_later(wait_s, self._on_time)
                return
            _, _, future = heapq.heappop(self._waiting)
            self._begin()
            future.set_result(None)

    def _on_time(self) -> None:
        self._timer = None
        self._wake()

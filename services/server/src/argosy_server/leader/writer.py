"""The writer: the leader's effects go to the database one transaction after another, while the next round runs.

Order is kept, because events are numbered as they are drafted. What follows a commit (rows to executors, answers to
their states) is done only after it. If a transaction fails, whether it was applied is unknown: the leadership ends, and
the next one, of this process or another, starts from what the database says.

Source: design section 5, "Ingest" ("repeats the same sequence id or gives up its epoch").
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from argosy_store.effects import AppliedEffects, Effects

__all__ = ["EffectStore", "EffectWriter"]

WAITING_LIMIT = 2
"""Transactions that may wait behind the one under way: the leader pauses rather than run ahead of the database."""


class EffectStore(Protocol):
    """The part of the leader's store that the writer needs."""

    def apply(self, epoch: int, effects: Effects) -> AppliedEffects:
        """Apply everything in one transaction that checks the epoch."""


class EffectWriter:
    """Applies effects in order on a thread of its own."""

    def __init__(self, store: EffectStore, epoch: int) -> None:
        """Start with nothing to write."""
        self._store = store
        self._epoch = epoch
        self._queue: asyncio.Queue[tuple[Effects | None, Callable[[AppliedEffects | None], None]]] = asyncio.Queue(
            WAITING_LIMIT
        )
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="leader-writer")

    async def put(self, effects: Effects, on_stored: Callable[[AppliedEffects | None], None]) -> None:
        """Put effects in line; waits while too many wait.

        Args:
            effects: What to store.
            on_stored: Called on the loop after the commit with what the database made of them.
        """
        await self._queue.put((effects, on_stored))

    async def wait_until_stored(self) -> None:
        """Return once everything that was put before is stored; cancel it if nobody writes any more."""
        stored = asyncio.Event()
        await self._queue.put((None, lambda _: stored.set()))
        await stored.wait()

    async def run(self) -> None:
        """Write until cancelled.

        Raises:
            StateConflict: The epoch is no longer ours.
            BackendUnavailable: The database cannot be reached; what was under way may or may not be applied.
        """
        loop = asyncio.get_running_loop()
        while True:
            effects, on_stored = await self._queue.get()
            applied = None
            if effects is not None:
                applied = await loop.run_in_executor(self._thread, self._store.apply, self._epoch, effects)
            on_stored(applied)

    def close(self) -> None:
        """Let the thread end once the transaction under way has."""
        self._thread.shutdown(wait=False, cancel_futures=True)

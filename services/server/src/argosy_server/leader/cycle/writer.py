"""The writer: the leader's transactions go to the database one after another, while the next round runs.

Order is kept, because events are numbered as they are drafted. If a transaction fails, whether it was applied is
unknown: the term ends, and the next one, of this process or another, starts from what the database says.

Source: design section 5, "Ingest" ("repeats the same sequence id or gives up its epoch").
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Protocol

from argosy_server.leader.cycle.effects import store_effects

if TYPE_CHECKING:
    from argosy_core.leader.instructions import Store
    from argosy_core.leader.transaction import Transaction
    from argosy_store.terms.effects import AppliedEffects, Effects

__all__ = ["EffectStore", "EffectWriter"]


class EffectStore(Protocol):
    """The part of the leader's store that the writer needs."""

    def apply(self, epoch: int, effects: Effects) -> AppliedEffects:
        """Apply everything in one transaction that checks the epoch."""


class EffectWriter:
    """Applies transactions in order on a thread of its own; the machine bounds how many wait.

    Args:
        store: The store.
        epoch: Epoch of the term.
    """

    def __init__(self, store: EffectStore, epoch: int) -> None:
        """Start with nothing to write."""
        self._store = store
        self._epoch = epoch
        self._queue: asyncio.Queue[Store] = asyncio.Queue()
        self.present: Transaction | None = None
        """The transaction under way, or the one that failed."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="leader-writer")

    def put(self, instruction: Store) -> None:
        """Put a transaction in line."""
        self._queue.put_nowait(instruction)

    async def run(self, on_stored: Callable[[Store, AppliedEffects], None]) -> None:
        """Write until cancelled.

        Args:
            on_stored: Called on the loop after each commit with what the database made of it.

        Raises:
            StateConflict: The epoch is no longer ours.
            BackendUnavailable: The database cannot be reached; what was under way may or may not be applied.
        """
        loop = asyncio.get_running_loop()
        while True:
            instruction = await self._queue.get()
            self.present = instruction.transaction
            on_stored(instruction, await loop.run_in_executor(self._thread, self._apply, instruction))

    def _apply(self, instruction: Store) -> AppliedEffects:
        return self._store.apply(self._epoch, store_effects(instruction.transaction, instruction.time_us))

    def close(self) -> None:
        """Let the thread end once the transaction under way has."""
        self._thread.shutdown(wait=False, cancel_futures=True)

"""Queues as submits need them, remembered for about a second.

What is remembered may be a second old: a lowered limit or a changed list of namespaces counts from then on. A queue
that was deleted meanwhile is noticed by the submit's own transaction. Names that do not exist are not remembered, so a
new queue can be used at once.

Source: design section 5, "Submit".
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Protocol

from argosy_core.errors import NotFound, QuotaExceeded
from argosy_server.api.admission import KnownQueue
from argosy_server.api.names import is_queue_name
from argosy_server.api.store_threads import StoreThreads
from argosy_store.rows import QueueRow

__all__ = ["QueueCache", "QueueStore"]

_MAX_REMEMBERED: Final = 100_000


class QueueStore(Protocol):
    """What the cache needs of the store; both calls block."""

    def get_queue(self, name: str) -> QueueRow:
        """Return a queue by name, or raise NotFound."""

    def count_queued(self, queue_id: int) -> int:
        """Return about how many jobs of a queue wait."""


@dataclass(slots=True)
class _Entry:
    queue: KnownQueue
    expire_s: float
    """Monotonic."""
    queued_count: int | None = None
    """Jobs that waited when the queue was read, and those accepted here since."""


class QueueCache:
    """Queues by name, and how full they are.

    Args:
        store: Where queues are.
        threads: Where blocking calls run.
        keep_s: How long a queue is remembered.
        default_limit: Most waiting jobs of a queue that sets no limit.
        clock_s: Monotonic clock.
    """

    def __init__(
        self,
        store: QueueStore,
        threads: StoreThreads,
        *,
        keep_s: float,
        default_limit: int,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start empty."""
        self._store = store
        self._threads = threads
        self._keep_s = keep_s
        self._default_limit = default_limit
        self._clock_s = clock_s
        self._entries: dict[str, _Entry] = {}

    async def find(self, names: Iterable[str]) -> dict[str, KnownQueue]:
        """Return the queues that exist among these names.

        Raises:
            BackendUnavailable: The database cannot be reached.
        """
        now_s = self._clock_s()
        found: dict[str, KnownQueue] = {}
        missing: list[str] = []
        for name in names:
            entry = self._entries.get(name)
            if entry is not None and entry.expire_s > now_s:
                found[name] = entry.queue
            elif is_queue_name(name):
                missing.append(name)
        if missing:
            for name, read in (await self._threads.run(self._read, missing)).items():
                if len(self._entries) >= _MAX_REMEMBERED:
                    self._entries.clear()
                self._entries[name] = read
                found[name] = read.queue
        return found

    def forget(self, name: str) -> None:
        """Read a queue again at its next use, because it was changed here."""
        self._entries.pop(name, None)

    def take_room(self, queue: KnownQueue, job_count: int) -> None:
        """Count jobs that are about to be accepted.

        Raises:
            QuotaExceeded: The queue would have more waiting jobs than it may; nothing was counted.
        """
        entry = self._entries.get(queue.name)
        if entry is None or entry.queued_count is None:
            return
        if entry.queued_count + job_count > queue.max_queued_count:
            raise QuotaExceeded(
                f"queue {queue.name!r} has {entry.queued_count} jobs waiting and may have {queue.max_queued_count}; "
                f"{job_count} more do not fit: wait until some have started, or ask for a higher limit"
            )
        entry.queued_count += job_count

    def _read(self, names: list[str]) -> dict[str, _Entry]:
        entries: dict[str, _Entry] = {}
        for name in names:
            try:
                row = self._store.get_queue(name)
            except NotFound:
                continue
            queue = KnownQueue(
                queue_id=row.queue_id,
                name=row.name,
                pool=row.pool,
                namespaces=KnownQueue.allowed_namespaces(row.name, row.namespaces),
                max_queued_count=row.max_queued_count or self._default_limit,
            )
            entries[name] = _Entry(queue, self._clock_s() + self._keep_s, self._store.count_queued(row.queue_id))
        return entries

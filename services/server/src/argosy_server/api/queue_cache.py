"""Queues as submits need them, remembered for about a second.

Queues that are in use are read together: when one is due, so are all that were used since they were read. A replica
that takes submits for a hundred queues asks the database once a second, not a hundred times.

What is remembered may be a second old: a lowered limit or a changed list of namespaces counts from then on. A queue
that was deleted meanwhile is noticed by the submit's own transaction. Names that do not exist are not remembered, so a
new queue can be used at once.

Source: design section 5, "Submit".
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Protocol

from argosy_core.errors import InvalidRequest
from argosy_core.job.reading.pod_rights import PodLevel, PodRights
from argosy_core.job.reading.queue_policy import QueuePolicy, read_queue_policy
from argosy_server.api.codecs.names import ANY_INSTALLATION, NamespaceRules, is_queue_name
from argosy_server.api.store_threads import StoreThreads
from argosy_server.api.submits.admission import KnownQueue
from argosy_store.replicas.queue_limits import QueueLimit
from argosy_store.rows import QueueRow

__all__ = ["QueueCache", "QueueStore"]

_MAX_REMEMBERED: Final = 100_000
_READ_TOGETHER: Final = 1_000


class QueueStore(Protocol):
    """What the cache needs of the store; the call blocks."""

    @property
    def generation(self) -> int:
        """What grows when the ids given so far mean nothing any more."""

    def find_queues(self, names: Sequence[str]) -> Mapping[str, tuple[QueueRow, int]]:
        """Return those of some queues that exist, by name, each with how many of its jobs wait."""

    def queue_policies(self, names: Sequence[str]) -> Mapping[str, tuple[str, str]]:
        """Return the documents that hold for some queues and whose they are, by name."""


@dataclass(slots=True)
class _Entry:
    queue: KnownQueue
    expire_s: float
    """Monotonic."""
    queued_count: int
    """Jobs that waited when the queue was read, and those expected here since."""
    used: bool = True
    """Somebody asked for it since it was read."""


class QueueCache:
    """Queues by name, and how full they are.

    Args:
        store: Where queues are.
        threads: Where blocking calls run.
        keep_s: How long a queue is remembered.
        default_limit: Most waiting jobs of a queue that sets no limit.
        level: Level of pods where a policy names none.
        namespaces: Which namespaces queues may use.
        clock_s: Monotonic clock.
    """

    def __init__(
        self,
        store: QueueStore,
        threads: StoreThreads,
        *,
        keep_s: float,
        default_limit: int,
        level: PodLevel = PodLevel.BASELINE,
        namespaces: NamespaceRules = ANY_INSTALLATION,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start empty."""
        self._store = store
        self._threads = threads
        self._keep_s = keep_s
        self._default_limit = default_limit
        self._level = level
        self.namespaces = namespaces
        """Which namespaces queues may use."""
        self._clock_s = clock_s
        self._entries: dict[str, _Entry] = {}
        self._generation = 0

    @property
    def generation(self) -> int:
        """What to submit with the ids that are found from now on: another database gives others."""
        if self._generation != self._store.generation:
            self._generation = self._store.generation
            self._entries.clear()
        return self._generation

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
                entry.used = True
                found[name] = entry.queue
            elif is_queue_name(name):
                missing.append(name)
        if missing:
            read = await self._threads.look_up(self._read, self._due_soon(missing, now_s), missing)
            if len(self._entries) + len(read) > _MAX_REMEMBERED:
                self._entries.clear()
            # One that was forgotten while it was read along was changed here and must be read again.
            self._entries.update(
                (name, entry) for name, entry in read.items() if name in missing or name in self._entries
            )
            found.update((name, read[name].queue) for name in missing if name in read)
        return found

    def _due_soon(self, missing: list[str], now_s: float) -> list[str]:
        """Return the names to read: those missing, and others in use that are past half their time."""
        names = dict.fromkeys(missing)
        horizon_s = now_s + self._keep_s / 2
        for name, entry in self._entries.items():
            if len(names) >= _READ_TOGETHER:
                break
            if entry.used and entry.expire_s <= horizon_s:
                entry.used = False  # others that ask meanwhile need not read it, too
                names[name] = None
        return list(names)

    def forget(self, name: str) -> None:
        """Read a queue again at its next use, because it was changed here."""
        self._entries.pop(name, None)

    def expect(self, queues: Iterable[KnownQueue], job_counts: Mapping[int, int]) -> dict[int, QueueLimit]:
        """Count jobs that are about to be stored, and return the limits of their queues by queue id.

        Args:
            queues: The queues.
            job_counts: Jobs by queue id, repeats of earlier ones included.
        """
        limits: dict[int, QueueLimit] = {}
        for queue in queues:
            entry = self._entries.get(queue.name)
            limits[queue.queue_id] = QueueLimit(
                name=queue.name,
                max_queued_count=queue.max_queued_count,
                known_count=queue.max_queued_count if entry is None else entry.queued_count,
                submit_rate_per_s=queue.submit_rate_per_s,
            )
            if entry is not None:
                entry.queued_count += job_counts.get(queue.queue_id, 0)
        return limits

    def _read(self, names: list[str], asked: Container[str]) -> dict[str, _Entry]:
        expire_s = self._clock_s() + self._keep_s
        entries: dict[str, _Entry] = {}
        documents = self._store.queue_policies(names)
        for name, (row, queued_count) in self._store.find_queues(names).items():
            queue = KnownQueue(
                queue_id=row.queue_id,
                name=row.name,
                pool=row.pool,
                namespaces=KnownQueue.allowed_namespaces(row.name, row.namespaces, self.namespaces),
                max_queued_count=row.max_queued_count or self._default_limit,
                submit_rate_per_s=row.submit_rate_per_s,
                policy=_read_policy(documents[name][0], self._level) if name in documents else None,
            )
            entries[name] = _Entry(queue, expire_s, queued_count, used=name in asked)
        return entries


@lru_cache(maxsize=1024)
def _read_policy(document: str, level: PodLevel) -> QueuePolicy:
    """Return a stored policy; one of a newer version that cannot be read lets nothing through."""
    try:
        return read_queue_policy(document, level=level)
    except InvalidRequest:
        return QueuePolicy(rights=PodRights(level=PodLevel.RESTRICTED, image_prefixes=("\0",)))

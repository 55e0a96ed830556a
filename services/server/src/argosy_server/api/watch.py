"""Watching: one poll of the store serves all watchers of this replica, and there is none while nobody watches.

A poll asks which job sets have news, once for all, and reads each of these once, from where most of its watchers stand.
Who stands elsewhere reads by itself, in its own turn, so made-up positions delay nobody else.

A watcher asks for what comes after its position and is answered at the next poll, or at once while it catches up. It
holds no queue of its own, so a reader that is slow delays itself only: it asks again once its last message has left.

Source: design section 3, "resumable by opaque cursor"; section 7, invariants 6 and 11.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, Protocol

from argosy_core.errors import BackendUnavailable
from argosy_server.api.store_threads import StoreThreads

__all__ = ["EventStore", "WatchHub"]

_NO_SET: Final = 0  # ids begin with 1
_ROWS: Final = 64  # of job_set_events read at once for one watcher

EventRows = list[tuple[int, int, bytes]]
"""(first number, last number, payload) of rows of job_set_events, in order."""


class EventStore(Protocol):
    """What watching needs of the store; all calls block."""

    def last_event_numbers(self, job_set_ids: Collection[int]) -> dict[int, int]:
        """Return the number of the last event of each job set."""

    def read_events(self, job_set_id: int, after_number: int, limit_rows: int) -> EventRows:
        """Return rows whose last number lies after a number, in order."""


@dataclass(slots=True)
class _Request:
    job_set_id: int
    after_number: int
    answer: asyncio.Future[EventRows | None]
    quiet_polls: int
    """Polls without news until it is answered all the same; below 1 it never is."""


class WatchHub:
    """Answers watchers.

    Args:
        store: Where events are.
        threads: Where blocking calls run.
        poll_s: Pause between polls.
    """

    def __init__(self, store: EventStore, threads: StoreThreads, *, poll_s: float) -> None:
        """Start with nobody watching."""
        self._store = store
        self._threads = threads
        self._poll_s = poll_s
        self._requests: list[_Request] = []
        self._asked = asyncio.Event()
        self._closed = False
        self.poll_count = 0
        """Polls so far."""

    async def read_now(self, job_set_id: int, after_number: int) -> EventRows:
        """Return rows after a number, without waiting for a poll."""
        return await self._threads.run(self._store.read_events, job_set_id, after_number, _ROWS)

    async def read_next(self, job_set_id: int, after_number: int, *, quiet_polls: int = 1) -> EventRows:
        """Return rows after a number as of the next poll that finds some.

        Args:
            job_set_id: Job set.
            after_number: Last event that is known.
            quiet_polls: Polls after which none are returned if there is nothing new; 0 waits for ever.

        Raises:
            BackendUnavailable: The database cannot be reached.
        """
        if self._closed:
            raise _closing()
        request = _Request(job_set_id, after_number, asyncio.get_running_loop().create_future(), quiet_polls)
        self._requests.append(request)
        self._asked.set()
        rows = await request.answer
        return rows if rows is not None else await self.read_now(job_set_id, after_number)

    async def next_poll(self) -> None:
        """Wait for the next poll.

        Raises:
            BackendUnavailable: The server shuts down.
        """
        await self.read_next(_NO_SET, 0)

    async def poll(self) -> None:
        """Answer requests for ever, one poll after the other."""
        while True:
            await self._asked.wait()
            await asyncio.sleep(self._poll_s)
            requests, self._requests = self._requests, []
            self._asked.clear()
            requests = [request for request in requests if not request.answer.done()]
            if not requests:
                continue
            self.poll_count += 1
            positions = Counter((q.job_set_id, q.after_number) for q in requests)
            found: dict[tuple[int, int], EventRows | Exception | None]
            try:
                found = await self._threads.run(self._read_all, positions)
            except Exception as error:  # noqa: BLE001 - handed to those who wait
                found = dict.fromkeys(positions, error)
            for request in requests:
                self._answer(request, found[request.job_set_id, request.after_number])
            if self._requests:
                self._asked.set()

    def _answer(self, request: _Request, rows: EventRows | Exception | None) -> None:
        """Answer a request, or keep it for the next poll: whoever has no news is not woken, however many watch."""
        request.quiet_polls -= 1
        if request.answer.done():
            return
        if isinstance(rows, Exception):
            request.answer.set_exception(rows)
        elif rows == [] and request.quiet_polls:
            self._requests.append(request)
        else:
            request.answer.set_result(rows)

    def close(self) -> None:
        """End every watch, because the server shuts down."""
        self._closed = True
        for request in self._requests:
            if not request.answer.done():
                request.answer.set_exception(_closing())

    def _read_all(self, positions: Counter[tuple[int, int]]) -> dict[tuple[int, int], EventRows | Exception | None]:
        """Return what follows each position, or why that cannot be told: an error is for whoever stands there alone.

        None is for positions that have news and where fewer stand than elsewhere in their job set.

        Raises:
            BackendUnavailable: The database cannot be reached, which each position would find out by a timeout.
        """
        found: dict[tuple[int, int], EventRows | Exception | None] = {position: [] for position in positions}
        job_set_ids = {job_set_id for job_set_id, _ in positions} - {_NO_SET}
        if not job_set_ids:
            return found
        last_numbers = self._store.last_event_numbers(job_set_ids)
        for position, _ in positions.most_common():
            job_set_id, after_number = position
            if after_number >= last_numbers.get(job_set_id, 0):
                continue
            if job_set_id not in job_set_ids:  # read for others already
                found[position] = None
                continue
            job_set_ids.discard(job_set_id)
            try:
                found[position] = self._store.read_events(*position, _ROWS)
            except BackendUnavailable:
                raise
            except Exception as error:  # noqa: BLE001 - handed to those who wait
                found[position] = error
        return found


def _closing() -> BackendUnavailable:
    return BackendUnavailable("the server is shutting down; watch again at another replica with the last cursor")

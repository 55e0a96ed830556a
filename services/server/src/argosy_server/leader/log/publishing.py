"""Publishing to the event log, and knowing for how long it has not worked.

A leader that cannot publish keeps its lease, and gives its epoch up only after a while, so "it leads" does not say that
anything is decided. What is known here goes into the pool's row with each renewal of the lease, and with the
resignation.

Source: design section 5, "Ingest"; `docs/event-log.md`, "What it guarantees".
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from argosy_core.errors import BackendUnavailable
from argosy_server.leader.cycle.clock import DatabaseClock
from argosy_store.terms.election import LogState

if TYPE_CHECKING:
    from argosy_eventlog import EventLog
    from argosy_store import LeaderStore
    from argosy_store.terms.election import Leadership

__all__ = ["ATTEMPT_S", "Publisher", "ReportingStore"]

ATTEMPT_S: Final = 5.0
"""An append that takes longer is told of; one takes milliseconds."""


class Publisher:
    """Appends of one leadership, one at a time.

    Args:
        log: The pool's log.
        clock: Monotonic seconds.
    """

    def __init__(self, log: EventLog, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin without having tried."""
        self._log = log
        self._clock = clock
        self._begun_s: float | None = None
        self._published = False
        self._failure = ""

    async def append(self, epoch: int, sequence: int, payload: bytes, *, traceparent: str = "") -> int:
        """Append a record on a thread of its own; return its position.

        Raises:
            StateConflict: Another epoch is the current one.
            InvalidRequest: The record is larger than the log takes.
            BackendUnavailable: Whether it was appended is unknown.
        """
        self._begun_s = self._clock()
        try:
            position = await asyncio.to_thread(self._log.append, epoch, sequence, payload, traceparent=traceparent)
        except BackendUnavailable as error:
            self._failure = error.message
            raise
        self._begun_s = None
        self._published = True
        return position

    @property
    def state(self) -> LogState:
        """What is known of the log at this moment."""
        if self._begun_s is None:
            return LogState(publishes=self._published)
        taken_s = self._clock() - self._begun_s
        if not self._failure and taken_s < ATTEMPT_S:
            return LogState()
        return LogState(failing_s=taken_s, reason=self._failure)


class ReportingStore:
    """The store of elections, telling with each renewal whether the leader can publish, and learning what time it is.

    Args:
        store: The store.
    """

    def __init__(self, store: LeaderStore) -> None:
        """Know nothing yet."""
        self._store = store
        self.publisher: Publisher | None = None
        """What the present leadership, or the last one, publishes through."""
        self._clock: DatabaseClock | None = None

    @property
    def clock(self) -> DatabaseClock:
        """The clock of the present leadership, or of the last one."""
        assert self._clock is not None, "asked for before a leadership"
        return self._clock

    def open_publisher(self, log: EventLog) -> Publisher:
        """Return what a new leadership publishes through."""
        self.publisher = Publisher(log)
        return self.publisher

    def try_lead(self, leader_id: str, address: str, lease_s: float) -> Leadership | None:
        """Take the pool; see `LeaderStore.try_lead`."""
        leadership = self._store.try_lead(leader_id, address, lease_s)
        if leadership is not None:
            self._clock = DatabaseClock(leadership.time_us)
        return leadership

    def renew(self, epoch: int, lease_s: float) -> None:
        """Extend the lease; see `LeaderStore.renew`."""
        asked_s = self.clock.now().mono_s
        time_us = self._store.renew(epoch, lease_s, self._state())
        self.clock.follow(time_us, asked_s=asked_s)

    def resign(self, epoch: int) -> None:
        """Give the pool up; see `LeaderStore.resign`."""
        self._store.resign(epoch, self._state())

    def _state(self) -> LogState:
        return self.publisher.state if self.publisher is not None else LogState()

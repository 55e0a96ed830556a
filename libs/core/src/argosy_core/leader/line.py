"""The line of transactions: stored one after another, and what follows each only after it.

Source: design section 5, "Ingest".
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np

from argosy_core.arrays import Int64s
from argosy_core.errors import InvariantViolation
from argosy_core.job.tables.members import Members
from argosy_core.leader.events import Session, StatesReported, Stored
from argosy_core.leader.instructions import Store
from argosy_core.leader.term import Term
from argosy_core.leader.transaction import Transaction
from argosy_core.scheduler import ClusterRuns, ExecutorRows

__all__ = ["CatchUp", "CycleEnd", "FollowUp", "RecordEnd", "StoreLine", "TakenOver"]

NOBODY: Final[Int64s] = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleEnd:
    """What follows a cycle: answers to executors, rows and stops."""

    change_ids: list[int]
    """Changes that are gone now."""
    reported: list[StatesReported]
    """Reports to acknowledge."""
    stops: tuple[ClusterRuns, ...]
    """Runs to stop."""
    leased: Int64s = field(default_factory=lambda: NOBODY)
    """Jobs of which executors may hear now."""
    added: Members = field(default_factory=lambda: Members.of([], []))
    """Members of runs under way of which they may hear now."""
    rows: tuple[ExecutorRows, ...] = ()
    """Their rows."""
    round_number: int = 0
    """Round that leased them."""
    record_count: int = 0
    """Records that are applied with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CatchUp:
    """An executor that said hello gets what it lacks."""

    session: Session
    """Its session."""
    known: Members
    """What it has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordEnd:
    """What follows a record of an earlier leader: changes are gone."""

    change_ids: list[int]
    """Changes that are gone now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenOver:
    """Everything that earlier leaders decided is stored."""


FollowUp: TypeAlias = CycleEnd | CatchUp | RecordEnd | TakenOver


class StoreLine:
    """Transactions that are not known to be stored, oldest first.

    Args:
        term: The term.
    """

    def __init__(self, term: Term) -> None:
        """Start with an empty line."""
        self._term = term
        self._number = 0
        self._waiting: deque[tuple[int, FollowUp]] = deque()
        self._store_count = 0

    @property
    def has_room(self) -> bool:
        """Whether the leader may go on: beside the one under way not too many wait."""
        return self._store_count <= self._term.settings.store_limit + 1

    @property
    def is_empty(self) -> bool:
        """Whether everything is stored."""
        return not self._waiting

    def put(self, transaction: Transaction | None, follow: FollowUp, *, round_number: int = 0) -> list[FollowUp]:
        """Put a transaction in line, or, if there is nothing to write, only what follows everything before.

        Returns:
            What may follow at once: nothing if there is something to write, or something under way.
        """
        number = 0
        if transaction is not None and not transaction.is_empty():
            self._number = number = self._number + 1
            self._store_count += 1
            time_us = self._term.now.db_us
            self._term.say(Store(number=number, transaction=transaction, time_us=time_us, round_number=round_number))
        self._waiting.append((number, follow))
        return self.rest()

    def take(self, event: Stored) -> FollowUp:
        """Take the oldest transaction out and return what follows it; then ask `rest`.

        Raises:
            InvariantViolation: Another one is the oldest.
        """
        number, follow = self._waiting.popleft() if self._waiting else (0, TakenOver())
        if number != event.number:
            raise InvariantViolation(f"transaction {event.number} was stored before {number}")
        self._store_count -= 1
        return follow

    def rest(self) -> list[FollowUp]:
        """Take out and return what follows the transactions that are stored by now, and waits for no other."""
        ready = []
        while self._waiting and not self._waiting[0][0]:
            ready.append(self._waiting.popleft()[1])
        return ready

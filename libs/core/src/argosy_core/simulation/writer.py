"""A leader's writer: transactions one after another, each under the leader's epoch; what follows waits for the commit.

Source: design section 5, "Ingest".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from argosy_core.errors import StateConflict
from argosy_core.scheduler.messages import Int64s
from argosy_core.simulation.durable import Transaction

if TYPE_CHECKING:
    from argosy_core.simulation.leader_actor import LeaderActor

__all__ = ["WAITING_LIMIT", "Follow", "Writer"]

WAITING_LIMIT: Final = 2
"""Transactions that may wait behind the one under way."""
Follow: TypeAlias = Callable[[Int64s], None]
"""Is told the handles of the refused leases once a transaction is stored."""
_NOBODY: Final = np.zeros(0, dtype=np.int64)


class Writer:
    """Writes what a leader decides.

    Args:
        leader: The leader.
    """

    def __init__(self, leader: LeaderActor) -> None:
        """Start with nothing to write."""
        self._leader = leader
        self._context = leader.context
        self._queue: deque[tuple[Transaction | None, Follow]] = deque()
        self._busy = False

    @property
    def has_room(self) -> bool:
        """Whether the leader may go on: not too much waits."""
        return len(self._queue) <= WAITING_LIMIT

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way or waits."""
        return not self._queue

    def put(self, transaction: Transaction | None, follow: Follow) -> None:
        """Put a transaction in line, or, with none, something to do once everything before is stored."""
        self._queue.append((transaction, follow))
        self._go_on()

    def _go_on(self) -> None:
        while self._queue and not self._busy:
            transaction, follow = self._queue[0]
            if transaction is None:
                self._queue.popleft()
                follow(_NOBODY)
                continue
            self._busy = True
            context = self._context
            context.agenda.after(
                context.network.draw_s(context.settings.transaction_s), context.store, self._commit, transaction
            )

    def _commit(self, transaction: Transaction) -> None:
        """Let the database take a transaction, if the leader has not died before it was sent in full."""
        context, leader = self._context, self._leader
        if not leader.alive and context.network.happens(0.5):
            return
        try:
            refused = context.store.apply(leader.epoch, transaction)
        except StateConflict:
            context.agenda.after(context.network.draw_s(context.settings.message_s), leader, leader.give_up)
            return
        context.agenda.after(context.network.draw_s(context.settings.message_s), leader, self._stored, refused)

    def _stored(self, refused: Int64s) -> None:
        _, follow = self._queue.popleft()
        self._busy = False
        follow(refused)
        self._go_on()
        self._leader.cycle.go_on()

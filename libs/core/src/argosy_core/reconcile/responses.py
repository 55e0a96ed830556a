"""What became of creates and deletes: objects that are there now, or no more, that failed, and that are tried again.

Source: design section 5, "Sync"; seed 003, last section.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import true_places
from argosy_core.job.states import RUN_MAY_FOLLOW, FailureKind, ObjectState
from argosy_core.reconcile.action_columns import is_same_object
from argosy_core.reconcile.columns import CreateResponses, Creates, DeleteResponses, Deletes, Instant
from argosy_core.reconcile.endings import Endings
from argosy_core.reconcile.machine import Event, Phase
from argosy_core.reconcile.object_table import ObjectTable
from argosy_core.reconcile.reports import ReportQueue
from argosy_core.reconcile.retries import retry_later
from argosy_core.reconcile.settling import Settling
from argosy_core.reconcile.timeouts import Waiting
from argosy_core.reconcile.timers import Timers

__all__ = ["Responses"]

Int64Array = npt.NDArray[np.int64]
_CREATED, _RUNNING, _FAILED = int(ObjectState.CREATED), int(ObjectState.RUNNING), int(ObjectState.FAILED)
_CREATING, _DELETING = int(Phase.CREATING), int(Phase.DELETING)


class Responses:
    """Takes the answers to creates and deletes.

    Args:
        table: Where the objects are.
        endings: Ends objects.
        settling: Says what is absent for good.
        waiting: Knows how long objects were put off.
        reports: Takes new states.
        timers: When objects are tried again.
        touch: Called with objects to look at again.
    """

    def __init__(
        self,
        table: ObjectTable,
        endings: Endings,
        settling: Settling,
        *,
        waiting: Waiting,
        reports: ReportQueue,
        timers: Timers,
        touch: Callable[[Int64Array], None],
    ) -> None:
        """Start with no answer."""
        self._table = table
        self._endings = endings
        self._settling = settling
        self._waiting = waiting
        self._reports = reports
        self._timers = timers
        self._touch = touch

    def take_creates(self, creates: Creates, answers: CreateResponses, now: Instant) -> None:
        """Take what became of creates."""
        table, slots = self._table, creates.slot_column
        is_same = is_same_object(table, creates)
        is_known = answers.exists_column | answers.refused_column | answers.later_column
        for _, slot, record in table.troubled(slots[is_same & is_known]):
            table.calls_until_s[slot] = record.open_until_s
        table.calls_until_s[slots[is_same & is_known & ~table.in_trouble[slots]]] = 0.0
        for slot in slots[is_same & ~is_known].tolist():
            record = table.trouble(slot)
            record.open_until_s = max(record.open_until_s, float(table.calls_until_s[slot]))
        is_waiting = is_same & (table.phase[slots] == _CREATING)
        made = true_places(answers.exists_column & is_waiting)
        if made.size:
            table.uid[slots[made]] = np.ascontiguousarray(answers.uid_column[made]).view(np.int64)
            self.take_made(slots[made], now)
        others = true_places(~answers.exists_column & is_waiting)
        if others.size:
            self._take_not_created(slots, others, answers, now)
        self._touch(slots[is_same])

    def take_made(self, slots: Int64Array, now: Instant) -> None:
        """Take objects that are there now."""
        table = self._table
        if slots.size:
            table.transit(slots, Event.CREATED)
            table.mark_present(slots, now.monotonic_s)
            table.seen_s[slots] = now.monotonic_s
            states = np.where(table.kind[slots] == 0, _CREATED, _RUNNING).astype(np.int8)
            moves = RUN_MAY_FOLLOW[table.state[slots], states]
            self._reports.note(slots[moves], states[moves], np.full(int(moves.sum()), now.wall_us, dtype=np.int64))
            self._touch(slots)

    def _take_not_created(self, slots: Int64Array, places: Int64Array, answers: CreateResponses, now: Instant) -> None:
        """Take objects that were refused, put off or not answered for: they fail, or are tried again."""
        table, settling = self._table, self._settling
        where = slots[places]
        is_refused = answers.refused_column[places]
        is_final = is_refused & settling.is_refusal_final(where)
        again = where[~is_final]
        for slot in again.tolist():
            table.trouble(slot)
        table.transit(again, Event.NOT_CREATED)
        table.seen_s[again] = now.monotonic_s
        settling.wait_for(where[is_refused & ~is_final], now.monotonic_s)
        retry_later(table, self._timers, again, now.monotonic_s)
        # A quota or a missing right holds objects back; in the end their runs fail, and are tried again.
        is_late = answers.later_column[places]
        is_late[is_late] = self._waiting.refuse(where[is_late], now.monotonic_s)
        settling.wait_for(where[is_late], now.monotonic_s)
        is_late[is_late] = settling.is_settled(where[is_late])
        for mask, failure, default in (
            (is_final, FailureKind.REJECTED, "the cluster refused the object"),
            (is_late, FailureKind.INFRASTRUCTURE, "a quota of the namespace is full"),
        ):
            failed = where[mask]
            for slot, text in zip(failed.tolist(), answers.message_column[places[mask]].tolist(), strict=True):
                record = table.trouble(slot)
                record.failure = failure
                record.message = answers.messages[text] if text >= 0 else default
            self._endings.close(failed, np.full(failed.size, _FAILED, np.int8), now)

    def take_deletes(self, deletes: Deletes, answers: DeleteResponses, now: Instant) -> None:
        """Take what became of deletes."""
        table, slots = self._table, deletes.slot_column
        waits = (table.phase[slots] == _DELETING) & is_same_object(table, deletes)
        self._endings.take_missing(slots[answers.gone_column & waits], now)
        again = slots[~answers.accepted_column & ~answers.gone_column & waits]
        for slot in again.tolist():
            table.trouble(slot)
        table.transit(again, Event.NOT_DELETED)
        retry_later(table, self._timers, again, now.monotonic_s)

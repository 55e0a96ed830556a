"""How objects end, and why, for the reports.

Source: design section 5, "Sync".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import has_true, true_places
from argosy_core.job.states import IS_RUN_TERMINAL, ObjectState, resolve_ends
from argosy_core.reconcile.columns import Instant, Observations
from argosy_core.reconcile.machine import Event, Phase
from argosy_core.reconcile.object_table import ObjectTable
from argosy_core.reconcile.reports import ReportQueue
from argosy_core.reconcile.settling import Settling
from argosy_core.reconcile.timers import Timers

__all__ = ["Endings"]

Int64Array = npt.NDArray[np.int64]
Int8Array = npt.NDArray[np.int8]

_LOST_MESSAGE: Final = "the object was there and is gone; not by us"
_CREATED, _FAILED, _LOST = int(ObjectState.CREATED), int(ObjectState.FAILED), int(ObjectState.LOST)
_CANCELLED, _PRESENT = int(ObjectState.CANCELLED), int(Phase.PRESENT)
_IS_AMISS: Final = np.zeros(IS_RUN_TERMINAL.size, dtype=np.bool_)
_IS_AMISS[[_FAILED, _LOST]] = True
"""By ObjectState: somebody will want to know why."""


class Endings:
    """Gives objects the states that they end in.

    Args:
        table: Where the objects are.
        settling: Says what is absent for good.
        reports: Takes new states.
        timers: Where what has ended stays for a while.
        touch: Called with objects to look at again.
        keep_finished_s: How long what ended stays, seconds.
    """

    def __init__(
        self,
        table: ObjectTable,
        settling: Settling,
        reports: ReportQueue,
        *,
        timers: Timers,
        touch: Callable[[Int64Array], None],
        keep_finished_s: float,
    ) -> None:
        """Start with nothing ended."""
        self._table = table
        self._settling = settling
        self._reports = reports
        self._timers = timers
        self._touch = touch
        self._keep_s = np.full(IS_RUN_TERMINAL.size, keep_finished_s)

    def keep_for(self, keep_finished_s: float, keep_failed_s: float = 0.0) -> None:
        """Let what ended stay for another time, what has ended already included; what failed for the longer of both."""
        table, before = self._table, self._keep_s
        self._keep_s = np.full(before.size, keep_finished_s)
        self._keep_s[_FAILED] = max(keep_finished_s, keep_failed_s)
        if has_true(self._keep_s != before):
            kept = true_places(IS_RUN_TERMINAL[table.state] & (table.phase == _PRESENT) & (table.stop == 0))
            table.not_before_s[kept] += (self._keep_s - before)[table.state[kept]]
            self._timers.add_each(kept, np.ceil(table.not_before_s[kept]))

    def note(self, slots: Int64Array, states: Int8Array, times_us: Int64Array, now: Instant) -> None:
        """Give objects new states to report, and let those that have ended and are there stay for a while."""
        table = self._table
        self._reports.note(slots, states, times_us)
        has_ended = IS_RUN_TERMINAL.take(states)
        if not has_true(has_ended):
            return
        ended = slots[has_ended & (table.phase[slots] == _PRESENT)]
        if ended.size:
            table.not_before_s[ended] = dues_s = now.monotonic_s + self._keep_s[table.state[ended]]
            self._timers.add_each(ended, dues_s)

    def resolve(
        self, slots: Int64Array, states: Int8Array, *, stopped: npt.NDArray[np.bool_], gone: npt.NDArray[np.bool_]
    ) -> Int8Array:
        """Return the states that objects end in, see `resolve_ends`, and why their runs ended before cancelled.

        Args:
            slots: Which.
            states: int8[n], ObjectState that each shows, or showed last.
            stopped: bool[n], it was made to end.
            gone: bool[n], it is not there any more.
        """
        ends = resolve_ends(states, stopped, gone)
        cancelled = true_places(ends == _CANCELLED)
        if cancelled.size:
            ends[cancelled] = self._table.end_states(slots[cancelled], _CANCELLED)
        return ends

    def take_missing(self, slots: Int64Array, now: Instant) -> None:
        """Take objects as gone that nobody shows any more."""
        table = self._table
        if slots.size:
            table.transit(slots, Event.REMOVED)
            gone = np.ones(slots.size, dtype=np.bool_)
            ends = self.resolve(slots, table.state[slots], stopped=table.stop[slots] > 0, gone=gone)
            self.conclude(slots, ends, now)

    def conclude(self, slots: Int64Array, ends: Int8Array, now: Instant) -> None:
        """End objects that are not there, or keep them undecided while a call could make them again."""
        if slots.size:
            is_certain = self._settling.is_settled(slots) | IS_RUN_TERMINAL[self._table.state[slots]]
            self.hold(slots[~is_certain], ends[~is_certain], now)
            self.close(slots[is_certain], ends[is_certain], now)

    def hold(self, slots: Int64Array, ends: Int8Array, now: Instant) -> None:
        """Keep objects that are gone undecided, with the end they will have."""
        for slot, end in zip(slots.tolist(), ends.tolist(), strict=True):
            self._table.trouble(slot).end_state = end
        self._table.transit(slots, Event.HOLD)
        self._settling.wait_for(slots, now.monotonic_s)

    def close(self, slots: Int64Array, ends: Int8Array, now: Instant) -> None:
        """End objects that are not there and will not be; those that have ended keep their state."""
        table = self._table
        if slots.size:
            table.transit(slots, Event.CLOSE)
            is_open = ~IS_RUN_TERMINAL[table.state[slots]]
            open_slots, ends = slots[is_open], ends[is_open]
            for slot in open_slots[ends == _LOST].tolist():
                table.trouble(slot).message = _LOST_MESSAGE
            self._reports.note(open_slots, ends, np.full(open_slots.size, now.wall_us, np.int64))
            self._touch(slots)

    def keep_reasons(self, slots: Int64Array, places: Int64Array, *, states: Int8Array, observed: Observations) -> None:
        """Keep exit codes, kinds of failure and messages of objects that take other states. O(those that have any).

        Args:
            slots: Which.
            places: Where in `observed` each stands.
            states: The state that each takes.
            observed: What was seen.
        """
        table = self._table
        if not (
            has_true(_IS_AMISS.take(states))
            or has_true(observed.exit_code_column)
            or has_true(observed.failure_column)
            or has_true(observed.message_column >= 0)
            or (table.troubles and has_true(table.in_trouble[slots]))
        ):
            return
        exit_codes, failures = observed.exit_code_column[places], observed.failure_column[places]
        texts = observed.message_column[places]
        has_reason = (exit_codes != 0) | (failures != 0) | (texts >= 0) | _IS_AMISS.take(states)
        for place in true_places(has_reason | table.in_trouble[slots]).tolist():
            slot, state = int(slots[place]), int(states[place])
            record = table.trouble(slot)
            was_given_up = table.state[slot] == _CREATED and record.end_state == _FAILED
            is_own = state == observed.state_column[places[place]] and not (state == _FAILED and was_given_up)
            record.exit_code = int(exit_codes[place])
            if is_own:
                record.failure = int(failures[place])
                record.message = observed.texts[texts[place]] if texts[place] >= 0 else None
            elif state != _FAILED:
                record.failure = 0
            if state == _LOST:
                record.message = _LOST_MESSAGE

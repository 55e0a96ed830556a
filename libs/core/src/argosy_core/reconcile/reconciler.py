"""The executor's reconcile step: what the leader wants against what the cluster shows.

::

    take_rows, take_stops          what the leader wants
    take_observed, take_listing    what the cluster shows
    take_create_answers, take_delete_answers, take_found, acknowledge    what became of what was asked
                 |
                 v
    next_actions -> creates, deletes, lookups        next_reports -> states for the leader

Nothing here does anything; a shell carries the actions out and brings the answers back. The step is level-triggered: it
looks at where each object stands, never at which event brought it there, so lost, late and repeated events do no harm.

Rules:

* A pod is created only while none of its run was ever seen. Once it was seen, its absence is a loss, and a loss is the
  leader's to mend with another run.
* Creating is safe to repeat: the name is the run's own, and what exists with the run's labels is adopted.
* A deletion carries the uid of what was seen, so it never hits another object.
* What ended stays until the leader has stored its end and `keep_finished_s` have passed, and as long as a predecessor
  could make it again.
* A pod that waits for too long is given up, see `patience`: it would hold its node for ever.
* An object that the leader does not know stays until the leader says stop.
* "There is nothing", and with it "lost" and "cancelled", is concluded only where no creation can be under way: when the
  calls of a predecessor and our own unanswered ones have run out, and a listing asked for after that shows nothing;
  what only a predecessor can have seen is then looked for by name as well, see `search`.

Source: design section 5, "Sync" and "Fencing executors"; seed 003, last section.
"""

from __future__ import annotations

import heapq
from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.job.states import IS_RUN_TERMINAL, RUN_MAY_FOLLOW, FailureKind, ObjectState, resolve_ends
from argosy_core.reconcile.action_columns import build_creates, build_deletes, is_same_object
from argosy_core.reconcile.bags import plan_bag
from argosy_core.reconcile.columns import (
    Actions,
    CreateAnswers,
    Creates,
    DeleteAnswers,
    Deletes,
    Instant,
    Observations,
    ReportBatch,
    RunRows,
)
from argosy_core.reconcile.endings import LOST_MESSAGE, keep_reasons
from argosy_core.reconcile.fence import SETTLE_MARGIN_S
from argosy_core.reconcile.intake import add_rows
from argosy_core.reconcile.patience import Patience, Waiting
from argosy_core.reconcile.reports import ReportQueue
from argosy_core.reconcile.run_table import Phase, RunTable, distinct, run_keys
from argosy_core.reconcile.search import Search

__all__ = ["MAX_ACTION_COUNT", "Reconciler"]

MAX_ACTION_COUNT: Final = 5000
"""Most creates, and most deletes, given out at once."""
_FIRST_RETRY_S: Final = 0.5
_LAST_RETRY_S: Final = 30.0

Int64Array = npt.NDArray[np.int64]
Int8Array = npt.NDArray[np.int8]
# Members of enumerations cost a look-up and a conversion each time an array meets them.
_ABSENT, _CREATING, _PRESENT, _DELETING, _GONE, _VANISHED = (int(phase) for phase in Phase)
_CREATED_STATE, _RUNNING = int(ObjectState.CREATED), int(ObjectState.RUNNING)
_INFRASTRUCTURE = int(FailureKind.INFRASTRUCTURE)
_FAILED, _CANCELLED, _LOST = int(ObjectState.FAILED), int(ObjectState.CANCELLED), int(ObjectState.LOST)
_NONE: Final = np.zeros(0, dtype=np.int64)
_NOTHING: Final = Actions(creates=None, deletes=None)


class Reconciler:
    """The state of one executor and what to do next.

    Args:
        keep_finished_s: How long what ended stays, seconds.
        call_timeout_s: After how long a call to the cluster is given up, seconds.
        settled_at_s: Moment from which a predecessor can no longer act, monotonic seconds; infinity while it is not
            known, 0 where there was none.
        patience: How long pods may wait.
    """

    def __init__(
        self,
        *,
        keep_finished_s: float = 60.0,
        call_timeout_s: float = 30.0,
        settled_at_s: float = 0.0,
        patience: Patience | None = None,
    ) -> None:
        """Start knowing nothing; take a listing of the cluster before anything else."""
        self.keep_finished_s = keep_finished_s
        """How long what ended stays, seconds; `keep_for` changes it."""
        self.settled_at_s = settled_at_s
        """Moment from which a predecessor can no longer act, monotonic seconds."""
        self._call_bound_s = call_timeout_s + SETTLE_MARGIN_S
        self._listed_s = 0.0
        self.wants_listing = False
        """Something can be concluded only from a full listing; the next one sets it back."""
        self._table = RunTable()
        self._search = Search(self._table)
        self._waiting = Waiting(self._table, patience or Patience())
        self._reports = ReportQueue(self._table)
        self._ready: list[Int64Array] = []
        self._timers: list[tuple[float, int, Int64Array]] = []
        self._timer_count = 0

    @property
    def object_count(self) -> int:
        """Number of objects known."""
        return len(self._table)

    @property
    def hidden_count(self) -> int:
        """Number of objects that count as there although nobody can look; see Observations."""
        return self._table.hidden_count()

    @property
    def all_stored(self) -> bool:
        """Whether every state was sent and stored."""
        return self._reports.is_empty

    def known_runs(self) -> tuple[Int64Array, npt.NDArray[np.int32]]:
        """Return (handles, attempts) of the runs that need no row: the leader gave it, or its one pod is there.

        A bag that was only seen is left out, for nobody can see what is missing of it: its row comes, and what is not
        there is made if no pod of it was ever seen, and lost otherwise.
        """
        return self._table.known_runs()

    # --- what the leader wants ---------------------------------------------------------------------------------------

    def take_rows(self, rows: RunRows, now: Instant) -> None:
        """Take runs that the leader wants; rows that are already here change nothing."""
        taken = add_rows(self._table, rows)
        hidden = self._table.are_hidden(taken.missing)
        self._ready += [taken.slots, taken.missing[hidden]]
        self._take_made(taken.missing[hidden], now)  # it was there before the pod that was seen
        # The run was seen, so what is missing was lost, unless neither the listing nor the watch has shown it yet.
        missing = taken.missing[~hidden]
        self._end_absent(missing, np.where(self._table.stop[missing], _CANCELLED, _LOST), now)

    def settle_at(self, settled_at_s: float, now: Instant) -> None:
        """Take the moment from which a predecessor can no longer act, and look at everything that waits for it.

        Args:
            settled_at_s: Monotonic seconds, see `settle_time_s`; 0 where there was no predecessor.
            now: The present.
        """
        self.settled_at_s = settled_at_s
        self._wake(self._table.undecided(), max(settled_at_s, now.monotonic_s))

    def keep_for(self, keep_finished_s: float) -> None:
        """Let what ended stay for another time, what has ended already included: a listing comes before a leader."""
        table, longer_s = self._table, keep_finished_s - self.keep_finished_s
        self.keep_finished_s = keep_finished_s
        is_kept = IS_RUN_TERMINAL[table.state] & (table.phase == _PRESENT) & ~table.stop & (table.tries == 0)
        kept = np.flatnonzero(is_kept) if longer_s else _NONE
        table.not_before_s[kept] += longer_s
        wakes_s = np.ceil(table.not_before_s[kept])
        for wake_s in np.unique(wakes_s).tolist():
            self._wake(kept[wakes_s == wake_s], wake_s)

    def take_stops(self, handles: Int64Array, attempts: npt.NDArray[np.int32]) -> None:
        """Take runs whose objects shall not be; a run of which nothing is known ends as cancelled."""
        table = self._table
        stopped: list[int] = []
        for key in run_keys(handles, attempts).tolist():
            slots = table.slots_of_run(key)
            if not slots:
                slots = table.allocate(1).tolist()
                table.key[slots] = key
                table.index[key] = slots[0]
            stopped.extend(slots)
        table.stop[stopped] = True
        self._ready.append(np.array(stopped, dtype=np.int64))

    # --- what the cluster shows --------------------------------------------------------------------------------------

    def take_observed(self, observed: Observations, now: Instant) -> None:
        """Take changes of our objects, late and repeated ones included."""
        self._observe(observed, now)

    def take_listing(self, observed: Observations, *, started_s: float, now: Instant) -> None:
        """Take all our objects that exist; what was known to exist before the listing and is not in it, is gone.

        Args:
            observed: Every object of ours.
            started_s: When the listing was asked for, monotonic seconds; what was seen later is not judged by it.
            now: The present.
        """
        listed = self._observe(observed, now)
        table = self._table
        exists = (table.phase == _PRESENT) | (table.phase == _DELETING)
        exists[listed] = False
        missing = np.flatnonzero(exists & (table.seen_s < started_s))
        self._end_missing(missing[~table.are_hidden(missing)], now)
        self._listed_s = max(self._listed_s, started_s)
        self.wants_listing = False
        self._ready.append(table.undecided())

    def take_found(self, lookups: Creates, found: Observations | None, *, started_s: float, now: Instant) -> None:
        """Take what a look for objects by name has found; what is not in it is not there.

        Args:
            lookups: What was looked for.
            found: What is there and ours, whatever labels it carries; None if that is not known.
            started_s: When the look was asked for, monotonic seconds.
            now: The present.
        """
        slots = self._search.finish(lookups)
        if found is not None:
            self._observe(found, now)
            hidden = self._table.are_hidden(slots)
            self._table.looked_s[slots[~hidden]] = started_s
            self._ready.append(slots)
            slots = slots[hidden]
        self._retry(slots, now)

    def _observe(self, observed: Observations, now: Instant) -> Int64Array:
        """Take changes; return the slots they were about."""
        table = self._table
        table.hidden_kinds = observed.hidden_kinds
        if not len(observed):
            return _NONE
        keys = run_keys(observed.handle_column, observed.attempt_column).tolist()
        slots = table.find(keys, observed.object_column)
        for place in np.flatnonzero(slots < 0).tolist():
            slots[place] = self._find_or_add(keys[place], observed, place)
        places = np.flatnonzero(slots >= 0)
        while places.size:
            if distinct(slots[places]).size == places.size:
                self._apply(slots[places], places, observed, now)
                break
            # An object that changed twice is taken twice, in order.
            first = np.sort(np.unique(slots[places], return_index=True)[1])
            self._apply(slots[places[first]], places[first], observed, now)
            places = np.delete(places, first)
        return slots[slots >= 0]

    def _find_or_add(self, key: int, observed: Observations, place: int) -> int:
        """Return the slot of an object that was not known when its batch came; -1 if it is gone already."""
        table, position = self._table, int(observed.object_column[place])
        found = int(table.find([key], observed.object_column[place : place + 1])[0])
        if found >= 0 or observed.gone_column[place]:
            return found
        slot = int(table.allocate(1)[0])
        table.key[slot] = key
        table.object[slot] = position
        table.kind[slot] = table.kind_index(observed.kinds[observed.kind_column[place]])
        siblings = table.slots_of_run(key)
        if siblings or position:
            table.put_in_bag(key, position, slot)
            if siblings:
                table.stop[slot] = bool(table.stop[siblings].any())
                table.end_state[slot] = int(table.end_state[siblings].max())
        else:
            table.index[key] = slot
        return slot

    def _apply(self, slots: Int64Array, places: Int64Array, observed: Observations, now: Instant) -> None:
        """Take one change for each of some distinct objects."""
        table = self._table
        gone = observed.gone_column[places]
        uids = np.ascontiguousarray(observed.uid_column[places]).view(np.int64)
        is_other = (table.uid[slots] != 0).any(axis=1) & (table.uid[slots] != uids).any(axis=1)
        is_over = table.phase[slots] == _GONE
        self._take_intruders(slots, uids, is_over & ~gone, now)
        vanished = np.flatnonzero(table.phase[slots] == _VANISHED)
        if vanished.size:
            # What is there is the run's own: missed until now, or made again by a call under way. Only an old list
            # still shows what is known to be gone.
            is_old = ~is_other[vanished] & (table.uid[slots[vanished]] != 0).any(axis=1)
            is_over[vanished] = is_old & ~gone[vanished]
            is_other[vanished] &= gone[vanished]
            table.end_state[slots[vanished[~is_over[vanished] & ~gone[vanished]]]] = 0
        kept = np.flatnonzero(~is_other & ~is_over)
        if not kept.size:
            return
        slots, places, gone = slots[kept], places[kept], gone[kept]
        table.uid[slots] = uids[kept]
        table.seen_s[slots] = now.monotonic_s
        fresh = slots[~gone & (table.phase[slots] != _PRESENT) & (table.phase[slots] != _DELETING)]
        table.mark_present(fresh, now.monotonic_s)
        states = observed.state_column[places]
        sent = table.stop_sent[slots]
        # Whoever vanishes under a wish vanished for it, even if our own call did not get through.
        ends = resolve_ends(states, sent | (table.stop[slots] & gone), gone)
        end_states = table.end_state[slots]
        ends = np.where((ends == _CANCELLED) & (end_states > 0), end_states, ends)
        given_up = (ends == _FAILED) & (states != _FAILED)
        speechless = gone & ((ends == _LOST) | (ends == _CANCELLED) | given_up)
        held = speechless & ~IS_RUN_TERMINAL[table.state[slots]]
        if held.any():
            held &= ~self._is_settled(slots)
            self._hold(slots[held], ends[held], now)
        moves = np.flatnonzero(RUN_MAY_FOLLOW[table.state[slots], ends] & ~held)
        keep_reasons(table, slots[moves], places[moves], states=ends[moves], observed=observed)
        table.phase[slots[gone & ~held]] = _GONE
        self._reports.note(slots[moves], ends[moves], observed.time_us_column[places[moves]])
        self._keep_ended(slots[moves], now)
        self._note_waiting(slots, places, observed, now)
        self._ready.append(slots)

    def _note_waiting(self, slots: Int64Array, places: Int64Array, observed: Observations, now: Instant) -> None:
        """Note which pods wait for what cannot be had, and why."""
        fresh, told = self._waiting.note(slots, observed.failure_column[places], now.monotonic_s)
        if told.size:
            texts = dict(zip(slots.tolist(), observed.message_column[places].tolist(), strict=True))
            for slot in told.tolist():
                self._table.message[slot] = observed.texts[texts[slot]] if texts[slot] >= 0 else None
            for due_s in self._waiting.due_s(now.monotonic_s) if fresh.size else ():
                self._wake(fresh, due_s)

    def _take_intruders(self, slots: Int64Array, uids: Int64Array, mask: npt.NDArray[np.bool_], now: Instant) -> None:
        """Take objects of runs that are over (a call came late, a list was old): they shall go."""
        late = np.flatnonzero(mask)
        if late.size:
            table, slots = self._table, slots[late]
            table.uid[slots] = uids[late]
            table.phase[slots] = _PRESENT
            table.stop[slots] = True
            table.not_before_s[slots] = table.seen_s[slots] = now.monotonic_s
            self._ready.append(slots)

    def _keep_ended(self, slots: Int64Array, now: Instant) -> None:
        """Let those of the objects that have ended stay for a while."""
        table = self._table
        ended = slots[IS_RUN_TERMINAL[table.state[slots]] & (table.phase[slots] == _PRESENT)]
        if ended.size:
            table.not_before_s[ended] = due_s = now.monotonic_s + self.keep_finished_s
            self._wake(ended, due_s)

    def _end_missing(self, slots: Int64Array, now: Instant) -> None:
        """Take objects that a listing does not show as gone."""
        table = self._table
        if not slots.size:
            return
        deleted = table.stop[slots] | table.stop_sent[slots]
        ends = resolve_ends(table.state[slots], deleted, np.ones(slots.size, dtype=np.bool_))
        ends = np.where((ends == _CANCELLED) & (table.end_state[slots] > 0), table.end_state[slots], ends)
        self._end_absent(slots, ends, now)

    def _is_settled(self, slots: Int64Array) -> npt.NDArray[np.bool_]:
        """Return which objects no call can make again: a listing, and a look where there must be one, came after it."""
        return self._table.is_settled(slots, settled_at_s=self.settled_at_s, listed_s=self._listed_s)

    def _end_absent(self, slots: Int64Array, ends: Int8Array, now: Instant) -> None:
        """End objects that are not there, or keep them undecided while a call could make them again."""
        settled = self._is_settled(slots) | IS_RUN_TERMINAL[self._table.state[slots]]
        if not settled.all():
            self._hold(slots[~settled], ends[~settled], now)
            slots, ends = slots[settled], ends[settled]
        for state in np.unique(ends).tolist():
            self._finish(slots[ends == state], state, now)

    def _hold(self, slots: Int64Array, ends: Int8Array, now: Instant) -> None:
        """Keep objects that are gone undecided, with the end they will have."""
        self._table.phase[slots] = _VANISHED
        self._table.end_state[slots] = ends
        self._await_settled(slots, now)

    def _await_settled(self, slots: Int64Array, now: Instant) -> None:
        """Look at undecided objects again when no call can make them; then a listing decides, and a look by name."""
        due_s = self._table.closed_at_s(slots, self.settled_at_s)
        is_listed = due_s <= self._listed_s
        self._search.ask(slots[is_listed | self._search.may_be_early(slots)], self.settled_at_s)
        if ((due_s <= now.monotonic_s) & ~is_listed).any():
            self.wants_listing = True
        for moment_s in np.unique(due_s[(due_s > now.monotonic_s) & np.isfinite(due_s)]).tolist():
            self._wake(slots[due_s == moment_s], moment_s)

    def _finish(self, slots: Int64Array, state: int, now: Instant) -> None:
        """End objects that are not there and will not be; those that have ended keep their state."""
        table = self._table
        if slots.size:
            open_slots = slots[~IS_RUN_TERMINAL[table.state[slots]]]
            table.phase[slots] = _GONE
            if state == _LOST:
                table.message[open_slots] = LOST_MESSAGE
            count = open_slots.size
            self._reports.note(open_slots, np.full(count, state, np.int8), np.full(count, now.wall_us, np.int64))
            self._ready.append(slots)

    # --- what became of what was asked -------------------------------------------------------------------------------

    def take_create_answers(self, creates: Creates, answers: CreateAnswers, now: Instant) -> None:
        """Take what became of creates."""
        table, slots = self._table, creates.slot_column
        same = is_same_object(table, creates)
        unknown = slots[same & ~(answers.exists_column | answers.refused_column | answers.later_column)]
        if unknown.size:
            table.open_until_s[unknown] = np.maximum(table.open_until_s[unknown], table.calling_until_s[unknown])
        table.calling_until_s[slots[same]] = 0.0
        waits = (table.phase[slots] == _CREATING) & same
        made = np.flatnonzero(answers.exists_column & waits)
        if made.size:
            table.uid[slots[made]] = np.ascontiguousarray(answers.uid_column[made]).view(np.int64)
            self._take_made(slots[made], now)
        # What is refused to us may have been, or be, granted to a predecessor.
        searched = (self.settled_at_s <= 0) | (table.looked_s[slots] > self.settled_at_s)
        final = answers.refused_column & waits & (self.settled_at_s <= self._listed_s) & searched
        refused = np.flatnonzero(final)
        if refused.size:
            where = slots[refused]
            table.failure[where] = FailureKind.REJECTED
            for slot, text in zip(where.tolist(), answers.message_column[refused].tolist(), strict=True):
                table.message[slot] = answers.messages[text] if text >= 0 else "the cluster refused the object"
            self._finish(where, _FAILED, now)
        again = np.flatnonzero(~answers.exists_column & ~final & waits)
        if again.size:
            where = slots[again]
            table.phase[where] = _ABSENT
            table.seen_s[where] = now.monotonic_s
            if answers.refused_column[again].any():
                self._await_settled(where[answers.refused_column[again]], now)
            self._retry(where, now)
            self._take_refusals(creates, answers, np.flatnonzero(answers.later_column & waits), now)
        self._ready.append(slots)

    def _take_made(self, slots: Int64Array, now: Instant) -> None:
        """Take objects that are there now."""
        table = self._table
        table.mark_present(slots, now.monotonic_s)
        table.seen_s[slots] = now.monotonic_s
        states = np.where(table.kind[slots] == 0, _CREATED_STATE, _RUNNING).astype(np.int8)
        moves = RUN_MAY_FOLLOW[table.state[slots], states]
        self._reports.note(slots[moves], states[moves], np.full(int(moves.sum()), now.wall_us, dtype=np.int64))

    def _take_refusals(self, creates: Creates, answers: CreateAnswers, places: Int64Array, now: Instant) -> None:
        """Take objects that a quota or a missing right holds back; in the end their runs fail, and are tried again."""
        table, slots = self._table, creates.slot_column[places]
        late = np.isin(slots, self._waiting.refuse(slots, now.monotonic_s))
        self._await_settled(slots[late], now)
        late &= self._is_settled(slots)
        for slot, text in zip(slots[late].tolist(), answers.message_column[places[late]].tolist(), strict=True):
            table.message[slot] = answers.messages[text] if text >= 0 else "a quota of the namespace is full"
        table.failure[slots[late]] = _INFRASTRUCTURE
        self._finish(slots[late], _FAILED, now)

    def take_delete_answers(self, deletes: Deletes, answers: DeleteAnswers, now: Instant) -> None:
        """Take what became of deletes."""
        table, slots = self._table, deletes.slot_column
        waits = (table.phase[slots] == _DELETING) & is_same_object(table, deletes)
        self._end_missing(slots[answers.gone_column & waits], now)
        again = slots[~answers.accepted_column & ~answers.gone_column & waits]
        if again.size:
            table.phase[again] = _PRESENT
            self._retry(again, now)

    def _retry(self, slots: Int64Array, now: Instant) -> None:
        """Let objects whose call failed wait, longer each time."""
        table = self._table
        waits_s = np.minimum(_FIRST_RETRY_S * 2.0 ** np.minimum(table.tries[slots], 16), _LAST_RETRY_S)
        table.tries[slots] += 1
        table.not_before_s[slots] = now.monotonic_s + waits_s
        for wait_s in np.unique(waits_s).tolist():
            self._wake(slots[waits_s == wait_s], now.monotonic_s + wait_s)

    def _wake(self, slots: Int64Array, due_s: float) -> None:
        """Look at objects again at a moment."""
        self._timer_count += 1
        heapq.heappush(self._timers, (due_s, self._timer_count, slots))

    def acknowledge(self, number: int) -> None:
        """Take the leader's word that report batches up to a number are stored."""
        self._ready.append(self._reports.acknowledge(number))

    def restart_session(self) -> None:
        """Begin a new session with a leader: batches are numbered from 1, and what it may not have is reported."""
        self._reports.restart()

    def next_reports(self, now: Instant) -> ReportBatch | None:
        """Return the next batch of states, or None; at most one small batch per report interval."""
        return self._reports.next_batch(now.monotonic_s)

    # --- what to do next ---------------------------------------------------------------------------------------------

    def next_wake_s(self) -> float | None:
        """Return when something is to be looked at again by itself, monotonic seconds, or None."""
        return self._timers[0][0] if self._timers else None

    def next_actions(self, now: Instant, *, may_act: bool) -> Actions:
        """Return what to do to the cluster now; each action is given out once, until its answer comes.

        Args:
            now: The present.
            may_act: Whether the session was confirmed recently enough. If not, nothing is given out, and what is due
                stays due.
        """
        while self._timers and self._timers[0][0] <= now.monotonic_s:
            self._ready.append(heapq.heappop(self._timers)[2])
        self._ready += self._waiting.sweep(now.monotonic_s)
        if not (self._ready or not self._search.is_empty) or not may_act:
            return _NOTHING
        table = self._table
        slots = distinct(np.concatenate([_NONE, *self._ready]))
        self._ready.clear()
        slots = slots[table.is_used[slots]]
        self._waiting.give_up(slots, now.monotonic_s)
        is_bag = table.is_bag[slots]
        creates, deletes = self._plan_single(slots[~is_bag], now)
        if is_bag.any():
            bag_creates, bag_deletes = self._plan_bags(distinct(table.key[slots[is_bag]]), now)
            creates, deletes = np.concatenate([creates, bag_creates]), np.concatenate([deletes, bag_deletes])
        if creates.size > MAX_ACTION_COUNT:
            self._ready.append(creates[MAX_ACTION_COUNT:])
            creates = creates[:MAX_ACTION_COUNT]
        if deletes.size > MAX_ACTION_COUNT:
            self._ready.append(deletes[MAX_ACTION_COUNT:])
            deletes = deletes[:MAX_ACTION_COUNT]
        lookups = self._search.take(MAX_ACTION_COUNT)
        table.phase[creates] = _CREATING
        table.calling_until_s[creates] = now.monotonic_s + self._call_bound_s
        table.phase[deletes] = _DELETING
        table.stop_sent[deletes] = True
        return Actions(
            creates=build_creates(table, creates) if creates.size else None,
            deletes=build_deletes(table, deletes) if deletes.size else None,
            lookups=lookups,
        )

    def _plan_single(self, slots: Int64Array, now: Instant) -> tuple[Int64Array, Int64Array]:
        """Return the slots to create and to delete among runs of one object."""
        table = self._table
        phases, states, stops = table.phase[slots], table.state[slots], table.stop[slots]
        ended = IS_RUN_TERMINAL[states]
        stored = ended & (table.stored_state[slots] == states)
        due = table.not_before_s[slots] <= now.monotonic_s
        absent = (phases == _ABSENT) & ~ended
        vanished = (phases == _VANISHED) & ~ended
        dropped = slots[(absent & stops) | vanished]
        if dropped.size:
            self._decide(dropped, now)
        forgotten = slots[stored & (phases == _GONE)]
        if forgotten.size:
            for key in table.key[forgotten].tolist():
                del table.index[key]
            table.release(forgotten)
        over = (phases == _PRESENT) & due & stored
        if over.any():
            # As long as it is there, no call can make it again.
            early = over & ~self._is_settled(slots)
            if early.any():
                self._await_settled(slots[early], now)
                over &= ~early
        deletes = slots[over | ((phases == _PRESENT) & due & ~ended & stops)]
        return slots[absent & ~stops & due & table.is_wanted[slots]], deletes

    def _decide(self, slots: Int64Array, now: Instant) -> None:
        """End objects that are not there as far as that is certain."""
        settled = self._is_settled(slots)
        if not settled.all():
            self._await_settled(slots[~settled], now)
            slots = slots[settled]
        ends = self._table.end_state[slots]
        self._end_absent(slots, np.where(ends > 0, ends, _CANCELLED).astype(np.int8), now)

    def _plan_bags(self, keys: Int64Array, now: Instant) -> tuple[Int64Array, Int64Array]:
        """Return the slots to create and to delete among runs of several objects."""
        table = self._table
        creates: list[int] = []
        deletes: list[int] = []
        for key in keys.tolist():
            plan = plan_bag(table, key, now_s=now.monotonic_s, listed_s=self._listed_s, settled_at_s=self.settled_at_s)
            creates.extend(plan.create)
            deletes.extend(plan.delete)
            for slot, state in plan.finish:
                self._finish_in_bag(slot, state, now)
            if plan.wait:
                self._await_settled(np.array(plan.wait, dtype=np.int64), now)
            if plan.forget:
                slots = table.slots_of_run(key)
                table.bags.pop(key, None)
                table.index.pop(key, None)
                table.release(np.array(slots, dtype=np.int64))
        return np.array(creates, dtype=np.int64), np.array(deletes, dtype=np.int64)

    def _finish_in_bag(self, slot: int, state: int, now: Instant) -> None:
        """End one object of a bag, which may still be there (it then goes with the pods) or never was."""
        slots = np.array([slot], dtype=np.int64)
        if self._table.phase[slot] in (_ABSENT, _VANISHED):
            self._finish(slots, state, now)
        else:
            self._reports.note(slots, np.array([state], np.int8), np.array([now.wall_us], np.int64))
            self._keep_ended(slots, now)
        self._ready.append(slots)

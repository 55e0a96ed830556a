"""The executor's reconcile step: what the leader wants against what the cluster shows.

::

    take_rows, take_stops          what the leader wants
    take_observed, take_listing    what the cluster shows
    take_create_responses, take_delete_responses, take_found, take_place_response, acknowledge    what became of it
                 |
                 v
    next_actions -> creates, deletes, lookups, places        next_reports -> states for the leader

Nothing here does anything; a shell carries the actions out and brings the answers back. What happens to an object goes
through the table in `machine`; what is next for a run follows from where its objects stand, in `planning`, never from
which event brought them there, so lost, late and repeated events do no harm.

Rules:

* A pod is created only while none of its run was ever seen. Once it was seen, its absence is a loss, and a loss is the
  leader's to mend with another run.
* Creating is safe to repeat: the name is the run's own, and what exists with the run's labels is adopted.
* A deletion carries the uid of what was seen, so it never hits another object.
* What ended stays until the leader has stored its end and `keep_finished_s` have passed, and as long as a predecessor
  could make it again.
* A pod that waits for too long is given up, see `timeouts`: it would hold its node for ever.
* An object counts as a run's in the namespace alone that the run's row names. What was seen before the row came is the
  caller's to hold back, and to bring with the row: labels can be written by anybody.
* An object that the leader does not know stays until the leader says stop.
* "There is nothing", and so "lost" and "cancelled", is concluded only where no creation can be under way: `settling`.

Source: design section 5, "Sync" and "Fencing executors"; seed 003, last section.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import has_true, true_places
from argosy_core.job.states import IS_RUN_TERMINAL, ObjectState, may_follow
from argosy_core.job.tables.members import Members
from argosy_core.placement.messages import PlaceReply
from argosy_core.reconcile.action_columns import build_creates, build_deletes
from argosy_core.reconcile.columns import (
    Actions,
    CreateResponses,
    Creates,
    DeleteResponses,
    Deletes,
    Instant,
    Observations,
    ReportBatch,
    RunRows,
)
from argosy_core.reconcile.cut_off import CutOff
from argosy_core.reconcile.endings import Endings
from argosy_core.reconcile.fence import SETTLE_MARGIN_S
from argosy_core.reconcile.homes import homes_of_observed, part_of_rows
from argosy_core.reconcile.intake import add_rows, find_or_add, mark_stopped
from argosy_core.reconcile.invariants import check_table
from argosy_core.reconcile.machine import Action, Event, Phase, sight_events
from argosy_core.reconcile.member_rows import with_member_bags
from argosy_core.reconcile.object_table import ObjectTable, Stop, are_distinct, distinct
from argosy_core.reconcile.planning import NO_PLAN, Plan, keep_causes, plan_runs
from argosy_core.reconcile.reports import ReportQueue
from argosy_core.reconcile.responses import Responses
from argosy_core.reconcile.retries import retry_later
from argosy_core.reconcile.search import Search
from argosy_core.reconcile.settling import Settling
from argosy_core.reconcile.start_order import StartOrder
from argosy_core.reconcile.timeouts import StartTimeouts, Waiting
from argosy_core.reconcile.timers import Timers
from argosy_core.reconcile.unplaced import Unplaced

__all__ = ["MAX_ACTION_COUNT", "Reconciler"]

MAX_ACTION_COUNT: Final = 5000
"""Most creates, and most deletes, given out at once."""

BoolArray = npt.NDArray[np.bool_]
Int64Array = npt.NDArray[np.int64]
# Members of enumerations cost a look-up and a conversion each time an array meets them.
_SUCCEEDED = int(ObjectState.SUCCEEDED)
_FAILED, _CANCELLED, _LOST = int(ObjectState.FAILED), int(ObjectState.CANCELLED), int(ObjectState.LOST)
_APPEAR, _CONCLUDE, _INTRUDE, _TAKE = int(Action.APPEAR), int(Action.CONCLUDE), int(Action.INTRUDE), int(Action.TAKE)
_WANTED, _SENT = int(Stop.WANTED), int(Stop.SENT)
_FREE = int(Phase.FREE)
_TAKE_0D: Final = np.array(_TAKE, dtype=np.int8)
_IS_NEWS: Final = np.zeros(len(Action), dtype=np.bool_)
_IS_NEWS[[_TAKE, _APPEAR, _CONCLUDE]] = True
"""By Action: what the object shows is taken."""
_NONE: Final = np.zeros(0, dtype=np.int64)
_NOTHING: Final = Actions(creates=None, deletes=None)


class Reconciler:
    """The state of one executor and what to do next.

    Args:
        keep_finished_s: How long what ended stays, seconds.
        call_timeout_s: After how long a call to the cluster is given up, seconds.
        settled_at_s: Moment from which a predecessor can no longer act, monotonic seconds; infinity while it is not
            known, 0 where there was none.
        timeouts: How long pods may wait.
    """

    def __init__(
        self,
        *,
        keep_finished_s: float = 60.0,
        call_timeout_s: float = 30.0,
        settled_at_s: float = 0.0,
        timeouts: StartTimeouts | None = None,
    ) -> None:
        """Start knowing nothing; take a listing of the cluster before anything else."""
        self._call_bound_s = call_timeout_s + SETTLE_MARGIN_S
        self._table = ObjectTable()
        self._timers = Timers()
        self._search = Search(self._table)
        self._settling = Settling(self._table, self._search, self._timers, settled_at_s)
        self._waiting = Waiting(self._table, timeouts or StartTimeouts())
        self._order = StartOrder(self._table)
        self._reports = ReportQueue(self._table)
        self._cut_off = CutOff(self._table)
        self._unplaced = Unplaced(self._table)
        self._ready: list[Int64Array] = []
        self._endings = Endings(
            self._table,
            self._settling,
            self._reports,
            timers=self._timers,
            touch=self._ready.append,
            keep_finished_s=keep_finished_s,
        )
        self._responses = Responses(
            self._table,
            self._endings,
            self._settling,
            waiting=self._waiting,
            reports=self._reports,
            timers=self._timers,
            touch=self._ready.append,
        )

    @property
    def wants_listing(self) -> bool:
        """Whether something can be concluded only from a full listing; the next one sets it back."""
        return self._settling.wants_listing

    @property
    def object_count(self) -> int:
        """Number of objects known."""
        return len(self._table)

    @property
    def unlistable_count(self) -> int:
        """Number of objects that count as there although nobody can list them; see Observations."""
        return self._table.unlistable_count()

    @property
    def all_stored(self) -> bool:
        """Whether every state was sent and stored."""
        return self._reports.is_empty

    def known_runs(self) -> Members:
        """Return the members of runs that need no row: the leader gave it, or its one pod is there.

        A bag that was only seen is left out, for nobody can see what is missing of it: its row comes, and what is not
        there is made if no pod of it was ever seen, and lost otherwise. One without a node is, too, since its row may
        have one by now.
        """
        known = self._table.known_runs()
        return known[~known.is_in(self._unplaced.members())] if len(self._unplaced) else known

    def check_invariants(self) -> None:
        """Raise InvariantViolation unless all holds that must hold between two events. O(objects)."""
        check_table(self._table)

    # --- what the leader wants ---------------------------------------------------------------------------------------

    def take_rows(self, rows: RunRows, now: Instant, held: Sequence[Observations] = ()) -> None:
        """Take runs that the leader wants; rows that are already here change nothing.

        Args:
            rows: The rows.
            now: The present.
            held: What was seen of these runs before, and held back; what is not where the rows name it is left out.
        """
        rows, table = with_member_bags(rows), self._table
        for observed in held:
            self.take_observed(part_of_rows(rows, observed), now)
        taken = add_rows(table, rows)
        self._ready.append(taken.slots)
        self._cut_off.note_rows(rows)
        predecessors = self._order.predecessors(Members(rows.handle_column, rows.ordinal_column))
        if len(predecessors):
            self.take_stops(predecessors)  # their addresses are for those that replace them
        self._ready.append(self._unplaced.take_rows(rows, now.monotonic_s))
        if not taken.missing.size:
            return
        # The run was seen, so what is missing was lost, unless neither the listing nor the watch has shown it yet.
        is_unlistable = table.are_unlistable(taken.missing)
        self._responses.take_made(taken.missing[is_unlistable], now)  # it was there before the pod that was seen
        missing = taken.missing[~is_unlistable]
        self._endings.conclude(missing, np.where(table.stop[missing] > 0, _CANCELLED, _LOST).astype(np.int8), now)

    def settle_at(self, settled_at_s: float, now: Instant) -> None:
        """Take the moment from which a predecessor can no longer act, and look at everything that waits for it.

        Args:
            settled_at_s: Monotonic seconds, see `settle_time_s`; 0 where there was no predecessor.
            now: The present.
        """
        self._settling.settled_at_s = settled_at_s
        self._timers.add(self._table.undecided(), max(settled_at_s, now.monotonic_s))

    def keep_for(self, keep_finished_s: float, keep_failed_s: float = 0.0) -> None:
        """Let what ended stay for another time, what has ended already included: a listing comes before a leader."""
        self._endings.keep_for(keep_finished_s, keep_failed_s)

    def take_stops(self, members: Members) -> None:
        """Take members of runs whose objects shall not be; one of which nothing is known ends as cancelled."""
        self._ready.append(mark_stopped(self._table, members))

    # --- what the cluster shows --------------------------------------------------------------------------------------

    def have_rows(self, members: Members) -> BoolArray:
        """Return of which members of runs the rows are here."""
        return self._table.have_rows(members)

    def _own_part(self, observed: Observations) -> tuple[Observations, Int64Array]:
        """Return changes without those of objects that only claim to be of a run, and where the objects are, or -1.

        An object only claims to be of a run if the run's row names it elsewhere.
        """
        members = Members(observed.handle_column, observed.ordinal_column)
        slots, homes = self._table.find(members, observed.object_column), homes_of_observed(observed)
        if not (has_true(slots < 0) or has_true(self._table.home[slots] != homes)):
            return observed, slots  # only what a row names has a home
        foreign = self._table.are_foreign(members, slots, homes)
        if has_true(foreign):
            own = true_places(~foreign)
            return observed.part(own), slots[own]
        return observed, slots

    def take_observed(self, observed: Observations, now: Instant) -> Int64Array:
        """Take changes of our objects, late and repeated ones included; return the slots they were about."""
        table = self._table
        table.kinds.unlistable = observed.unlistable_kinds
        observed, slots = self._own_part(observed)
        self._cut_off.note_seen(observed)
        if not len(observed):
            return _NONE
        unknown = true_places(slots < 0)
        if unknown.size:
            members = Members(observed.handle_column, observed.ordinal_column)
            for place in unknown.tolist():
                slots[place] = find_or_add(table, members[place : place + 1], observed, place)
            known = true_places(slots >= 0)
            observed, slots = observed.part(known), slots[known]
        if are_distinct(slots):
            self._apply(slots, observed, now)
            return slots
        places = np.arange(slots.size)
        while places.size:
            # An object that changed twice is taken twice, in order.
            first = np.sort(np.unique(slots[places], return_index=True)[1])
            self._apply(slots[places[first]], observed.part(places[first]), now)
            places = np.delete(places, first)
        return slots

    def take_listing(self, observed: Observations, *, started_s: float, now: Instant) -> None:
        """Take all our objects that exist; what was known to exist before the listing and is not in it, is gone.

        Args:
            observed: Every object of ours.
            started_s: When the listing was asked for, monotonic seconds; what was seen later is not judged by it.
            now: The present.
        """
        table = self._table
        listed = self.take_observed(observed, now)
        is_missing = table.there() & (table.seen_s < started_s)
        is_missing[listed] = False
        missing = true_places(is_missing)
        self._endings.take_missing(missing[~table.are_unlistable(missing)], now)
        self._settling.take_listing(started_s)
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
            self.take_observed(found, now)
            is_unlistable = self._table.are_unlistable(slots)
            for slot in slots[~is_unlistable].tolist():
                self._table.trouble(slot).looked_s = started_s
            self._ready.append(slots)
            slots = slots[is_unlistable]
        retry_later(self._table, self._timers, slots, now.monotonic_s)

    def _apply(self, slots: Int64Array, observed: Observations, now: Instant) -> None:
        """Take one change for each of some distinct objects."""
        if not slots.size:
            return
        table = self._table
        uids = np.ascontiguousarray(observed.uid_column).view(np.int64)
        events, is_other = sight_events(table.uid.take(slots, axis=0), uids, observed.gone_column)
        actions = table.transit(slots, events)
        if has_true(actions != _TAKE_0D):
            is_intruder = actions == _INTRUDE
            if has_true(is_intruder):
                self._take_intruders(slots[is_intruder], uids[is_intruder], now)
            news = true_places(_IS_NEWS.take(actions))
            if news.size < slots.size:
                slots, uids, actions, observed = slots[news], uids[news], actions[news], observed.part(news)
            table.mark_present(slots[actions == _APPEAR], now.monotonic_s)
        if is_other:
            table.uid[slots] = uids
        table.seen_s[slots] = now.monotonic_s
        self._take_states(slots, observed, now)
        fresh, dues_s = self._waiting.note(slots, observed, now.monotonic_s)
        for due_s in dues_s:
            self._timers.add(fresh, due_s)
        self._ready.append(slots)

    def _take_states(self, slots: Int64Array, observed: Observations, now: Instant) -> None:
        """Take the states that objects show, and decide how those end that are gone."""
        table, ends, gone = self._table, observed.state_column, observed.gone_column
        before, stop = table.state[slots], table.stop[slots]
        may_move = may_follow(before, ends)
        if has_true(gone) or has_true(stop):
            # Whoever vanishes while it shall go vanished for that, even if our own call did not get through.
            stopped = (stop == _SENT) | ((stop > 0) & gone)
            ends = self._endings.resolve(slots, ends, stopped=stopped, gone=gone)
            is_killed = (ends == _FAILED) & (observed.state_column != _FAILED)
            held = gone & ((ends == _LOST) | (ends == _CANCELLED) | is_killed) & ~IS_RUN_TERMINAL.take(before)
            if has_true(held):
                held &= ~self._settling.is_settled(slots)
                self._endings.hold(slots[held], ends[held], now)
            may_move = may_follow(before, ends) & ~held
            gone = gone & ~held
        moves = true_places(may_move)
        moved, ends = slots[moves], ends[moves]
        self._endings.keep_reasons(moved, moves, states=ends, observed=observed)
        if has_true(gone):
            table.transit(slots[gone], Event.CLOSE)
        self._endings.note(moved, ends, observed.time_us_column[moves], now)

    def _take_intruders(self, slots: Int64Array, uids: Int64Array, now: Instant) -> None:
        """Take objects of runs that are over (a call came late, a list was old): they shall go."""
        table = self._table
        table.uid[slots] = uids
        table.stop[slots] = _WANTED
        table.not_before_s[slots] = table.seen_s[slots] = now.monotonic_s
        self._ready.append(slots)

    # --- what became of what was asked -------------------------------------------------------------------------------

    def take_create_responses(self, creates: Creates, answers: CreateResponses, now: Instant) -> None:
        """Take what became of creates."""
        self._responses.take_creates(creates, answers, now)

    def take_delete_responses(self, deletes: Deletes, answers: DeleteResponses, now: Instant) -> None:
        """Take what became of deletes."""
        self._responses.take_deletes(deletes, answers, now)

    def take_place_response(self, members: Members, reply: PlaceReply | None, now: Instant) -> None:
        """Take what a sampler says of members that it was asked to place, None for no answer.

        Those with a node wait for their row with it; those with a reason end as returned.
        """
        returned = self._unplaced.take_response(members, reply, now.monotonic_s)
        self._endings.close(returned, np.full(returned.size, _FAILED, np.int8), now)

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
        timer_s, ask_s = self._timers.next_s(), self._unplaced.next_s()
        return timer_s if ask_s is None or (timer_s is not None and timer_s <= ask_s) else ask_s

    @property
    def stops_when_cut_off(self) -> bool:
        """Whether runs are known that are stopped when no leader is heard for long."""
        return len(self._cut_off) > 0

    def next_actions(self, now: Instant, *, may_act: bool, silent_s: float = 0.0) -> Actions:
        """Return what to do to the cluster now; each action is given out once, until its answer comes.

        Args:
            now: The present.
            may_act: Whether the session was confirmed recently enough. If not, nothing is given out but deletions of
                runs that may not stay without a leader for so long, and what is due stays due.
            silent_s: For how long no leader was heard, seconds.
        """
        table, now_s = self._table, now.monotonic_s
        overdue, overdue_slots = self._cut_off.overdue(silent_s)
        if overdue_slots.size:
            self.take_stops(overdue)
        self._ready += self._timers.take(now_s)
        self._ready += self._waiting.sweep(now_s)
        self._ready[:] = [slots for slots in self._ready if slots.size]
        places = self._unplaced.take_due(now_s) if may_act else None
        if not self._ready and self._search.is_empty:
            return _NOTHING if places is None else Actions(creates=None, deletes=None, places=places)
        slots = distinct(np.concatenate(self._ready) if self._ready else _NONE)
        self._ready[:] = [] if may_act else [slots]
        if not may_act:
            return self._stop_overdue(overdue_slots, now_s, silent_s)
        slots = self._order.with_held(slots[table.phase[slots] != _FREE])
        self._waiting.give_up(slots, now_s)
        plan = plan_runs(table, slots, now_s=now_s)
        deletes = self._cut(self._carry_out(plan, now))
        creates = self._cut(self._order.take_turns(self._unplaced.without(plan.create)))
        lookups = self._search.take(MAX_ACTION_COUNT)
        if creates.size:
            table.transit(creates, Event.CREATE)
            table.calls_until_s[creates] = now_s + self._call_bound_s
        return Actions(
            creates=build_creates(table, creates) if creates.size else None,
            deletes=self._send_deletes(deletes),
            lookups=lookups,
            places=places,
        )

    def _stop_overdue(self, slots: Int64Array, now_s: float, silent_s: float) -> Actions:
        """Return the deletions of objects that may not stay without a leader for so long."""
        if not slots.size:
            return _NOTHING
        plan = plan_runs(self._table, slots, now_s=now_s)
        keep_causes(self._table, plan)
        for slot in plan.delete.tolist():
            record = self._table.trouble(slot)
            record.message = record.message or f"no leader was heard for {silent_s:.0f} s"
        return Actions(creates=None, deletes=self._send_deletes(self._cut(plan.delete)))

    def _send_deletes(self, slots: Int64Array) -> Deletes | None:
        """Return the deletions of objects, which are under way from now on; None for none."""
        if not slots.size:
            return None
        self._table.transit(slots, Event.DELETE)
        self._table.stop[slots] = _SENT
        return build_deletes(self._table, slots)

    def _cut(self, slots: Int64Array) -> Int64Array:
        """Return as many slots as are given out at once; the others wait for the next step."""
        if slots.size > MAX_ACTION_COUNT:
            self._ready.append(slots[MAX_ACTION_COUNT:])
        return slots[:MAX_ACTION_COUNT]

    def _carry_out(self, plan: Plan, now: Instant) -> Int64Array:
        """Do what of a plan needs no call; return what is to be deleted."""
        table, settling = self._table, self._settling
        if plan is NO_PLAN:
            return plan.delete
        keep_causes(table, plan)
        if plan.succeed.size:
            states = np.full(plan.succeed.size, _SUCCEEDED, np.int8)
            self._endings.note(plan.succeed, states, np.full(plan.succeed.size, now.wall_us, np.int64), now)
            self._ready.append(plan.succeed)
        if plan.close.size:
            is_certain = settling.is_settled(plan.close)
            settling.wait_for(plan.close[~is_certain], now.monotonic_s)
            ends = table.end_states(plan.close, plan.close_ends)
            self._endings.close(plan.close[is_certain], ends[is_certain], now)
        if plan.forget.size:
            table.forget(plan.forget)
        if not plan.expire.size:
            return plan.delete
        # As long as it is there, no call can make it again.
        is_certain = settling.is_settled(plan.expire)
        settling.wait_for(plan.expire[~is_certain], now.monotonic_s)
        expired = plan.expire[is_certain]
        return np.concatenate([plan.delete, expired]) if plan.delete.size else expired

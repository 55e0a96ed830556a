"""A leader's cycle: take what arrived, run a round, publish, ingest, store, again.

::

    news -> (read changes) -> take changes -> prioritise -> (sample) -> decide -> (commit ...) -> (publish) -> ingest
         -> store -> idle

Between commit and publish plugins may hold placements back (`permits`), over many cycles.

Every phase in brackets waits for answers, so anything may happen meanwhile: sessions and capacity are taken at once,
changes and states by the next cycle. A cycle begins when there is news, when jobs are left that a further round may
place, when a back-off ends, or when contacts are to be stored; while there is nothing to try, time passes for free.

Source: design section 5, "Take changes", "Round", "Ingest".
"""

from __future__ import annotations

import math

import numpy as np

from argosy_core.arrays import Int64s
from argosy_core.job.tables.rows import HeldAmounts, PlacedNodes
from argosy_core.leader.events import OriginKind, Published, StatesReported
from argosy_core.leader.instructions import Acknowledge, Publish, ReadChanges
from argosy_core.leader.intake import Intake
from argosy_core.leader.line import NOBODY, CatchUp, CycleEnd, FollowUp, RecordEnd, StoreLine
from argosy_core.leader.permits import Permits
from argosy_core.leader.records import split_plan
from argosy_core.leader.rounds import RoundRequests
from argosy_core.leader.sessions import ClusterSessions
from argosy_core.leader.suspects import origins_of
from argosy_core.leader.term import Phase, Term
from argosy_core.leader.throttle import RoundThrottle
from argosy_core.leader.transaction import Transaction
from argosy_core.scheduler import (
    ClusterRuns,
    ExecutorRows,
    LeaseEffects,
    LeasePlan,
    Refusals,
    apply_ingested,
    draft_added,
    draft_ingest,
    next_due_s,
    refuse_leases,
    rows_of,
)

__all__ = ["MARKER_SEQUENCE", "Cycle"]

MARKER_SEQUENCE = 1
"""Sequence of the record that a new leader publishes first."""
_CLOCK_STEP_S = 1e-6
_FRESH_S = 0.01
"""Changes that were read so lately are not read again before a cycle."""


class Cycle:
    """The cycle of one term.

    Args:
        term: The term.
        sessions: Sessions of clusters.
        intake: What arrived.
        line: Transactions under way.
    """

    def __init__(self, term: Term, sessions: ClusterSessions, intake: Intake, line: StoreLine) -> None:
        """Start idle."""
        self._term = term
        self._sessions = sessions
        self._intake = intake
        self._line = line
        self.requests = RoundRequests(term, sessions, self._finish)
        """The round under way, and what is awaited for it."""
        self.permits = Permits(term, intake.release)
        """Placements that plugins hold back."""
        settings = term.settings
        self._throttle = RoundThrottle(busy_s=settings.busy_s, busy_rate=settings.busy_jobs_per_s)
        self.log_position = 0
        """Position up to which the log is applied in memory."""
        self._sequence = MARKER_SEQUENCE
        self._refusals = Refusals()
        self._transaction = Transaction()
        self._next_transaction = Transaction(refusals=self._refusals)
        self._reported: list[StatesReported] = []
        self._stops: tuple[ClusterRuns, ...] = ()
        self._plan: LeasePlan | None = None
        self._record_count = 0
        self._begin_time_us = 0
        self._has_news = False
        self._read_s = -math.inf
        self._read_due_s = math.inf
        self._window_end_s = math.inf
        self._quiet_s = math.inf
        self._retry_s = math.inf
        self._counted_s = -math.inf
        self._contacts_s = -math.inf

    # --- when to begin ------------------------------------------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        """Whether no cycle is under way."""
        return self._term.phase is Phase.IDLE

    def note_news(self) -> None:
        """Take note that something arrived that a round should see: it waits for more, but not for long."""
        now_s, settings = self._term.now.mono_s, self._term.settings
        self._has_news = True
        if self.is_idle:
            if self._window_end_s == math.inf:
                self._window_end_s = now_s + settings.window_max_s
            self._quiet_s = now_s + settings.window_idle_s

    def due_s(self) -> float:
        """Return when something is to be done, monotonic seconds; infinite if only news helps."""
        if not self.is_idle:
            return self.requests.deadline_s
        if self._read_due_s < math.inf:
            return self._read_due_s
        begin_s = min(self._window_end_s, self._quiet_s, self._retry_s, self.permits.due_s())
        if begin_s < math.inf:
            begin_s = max(begin_s, self.earliest_s())
        return min(begin_s, self._contacts_due_s())

    def earliest_s(self) -> float:
        """Return before which moment no cycle begins, whatever arrives, monotonic seconds."""
        return self._throttle.earliest_s()

    def _contacts_due_s(self) -> float:
        if self._sessions.has_departures:
            return -math.inf
        if not self._sessions.has_contacts:
            return math.inf
        return self._contacts_s + self._term.settings.contact_period_s

    def run_due(self) -> None:
        """Do what is due."""
        if self.due_s() > self._term.now.mono_s:
            return
        if not self.is_idle:
            self.requests.give_up()
        elif not self._is_read_first():
            self._begin()

    def _is_read_first(self) -> bool:
        """Ask once for the changes that can be seen, unless they were read just now; return whether to wait for them.

        What is read while the cycle before still runs is older by all the time until the next one begins, and what a
        cycle misses waits for the whole of it.
        """
        now_s, wait_s = self._term.now.mono_s, self._term.settings.read_wait_s
        is_known = self._read_due_s < math.inf or now_s - self._read_s <= _FRESH_S
        if not wait_s or is_known or not self._intake.has_room:
            return False
        self._read_due_s = now_s + wait_s
        self._term.say(ReadChanges())
        return True

    def note_read(self) -> None:
        """Take note that changes were read: a cycle that waited for that begins."""
        self._read_s = self._term.now.mono_s
        if self._read_due_s < math.inf:
            self._read_due_s = -math.inf

    def end(self) -> None:
        """Be ready for a cycle, and see when it is."""
        term, now_s = self._term, self._term.now.mono_s
        term.enter(Phase.IDLE)
        self._window_end_s = self._quiet_s = self._retry_s = math.inf
        if self._has_news:
            self.note_news()
        due_s = next_due_s(term.state, term.now.db_s)
        if due_s <= term.now.db_s:
            self._retry_s = now_s + term.settings.retry_s
        elif due_s < math.inf:
            self._retry_s = now_s + due_s - term.now.db_s + _CLOCK_STEP_S

    # --- the round ----------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Take what arrived, and begin a round if it could do anything."""
        term = self._term
        self._has_news = False
        self._read_due_s = math.inf
        self._begin_time_us = term.now.db_us
        self._throttle.begin_round(term.now.mono_s, max(term.totals["submitted"], term.totals["leases"]))
        self._transaction = self.take_transaction()
        term.enter(Phase.TAKING)
        self._intake.take_changes(self._transaction)
        self.permits.note_reports(self._intake.inbox)
        self._reported, self._stops = self._intake.take_reports(self._transaction)
        if next_due_s(term.state, term.now.db_s) <= term.now.db_s or self.permits.due_s() <= term.now.mono_s:
            self.requests.begin()
        else:
            self._store(None)

    def _finish(self, plan: LeasePlan | None) -> None:
        """Publish what a round decided, or store at once if it decided nothing."""
        if plan is None:
            self._store(None)
            return
        term = self._term
        term.totals["rounds"] += 1
        self._intake.release(plan.releases)
        plan = self.permits.admit(plan, self._transaction)
        if not plan.has_news:
            statistics = term.state.statistics
            if statistics.failed_attempt_count or statistics.has_new_promises:
                # A leader that fails again and again must not try the same for ever: the next one counts on. And it
                # keeps what was promised.
                self._transaction.round_state = plan.round_state
            self._store(None)
            return
        term.enter(Phase.PUBLISHING)
        self._plan = plan
        records = split_plan(plan, term.settings.max_record_bytes)
        first, self._sequence = self._sequence + 1, self._sequence + len(records)
        self._record_count = len(records)
        term.totals["published_records"] += len(records)
        term.say(Publish(first_sequence=first, records=records, plan=plan, begin_time_us=self._begin_time_us))

    def take_published(self, event: Published) -> None:
        """Ingest the plan that stands in the log."""
        plan, self._plan = self._plan, None
        if plan is None:
            return
        try:
            effects = self.ingest(plan, self._transaction, event.position)
        except Exception:
            live = self._term.state.live
            slots = live.slots(plan.handle)
            classes = self._term.state.classes.class_id[np.unique(live.class_index[slots[slots >= 0]])]
            records = origins_of(OriginKind.RECORD, event.positions or (event.position,))
            self._term.blame.decide((*records, *origins_of(OriginKind.CLASS, classes.tolist())))
            raise
        self.permits.note_ingested()
        self._store(effects, round_number=plan.round_number)

    # --- ingest and store ---------------------------------------------------------------------------------------------

    def note_held(self, held: HeldAmounts) -> None:
        """Have stored with the next transaction what runs hold by now, and see whether there is room for others."""
        known = self._next_transaction.held
        self._next_transaction.held = held if known is None else known.replaced_by(held)
        self.note_news()

    def note_placed(self, placed: PlacedNodes) -> None:
        """Have stored with the next transaction where runs are; after it their executors are told."""
        known = self._next_transaction.placed
        self._next_transaction.placed = placed if known is None else known + placed
        self._term.unstored.update(placed.members.handle.tolist())
        self.note_news()

    def take_transaction(self) -> Transaction:
        """Return the transaction into which everything goes from now on, and give it its place in the term."""
        transaction, self._next_transaction = self._next_transaction, Transaction(refusals=self._refusals)
        transaction.number = self._refusals.begin_draft()
        return transaction

    def ingest(self, plan: LeasePlan, transaction: Transaction, position: int) -> LeaseEffects:
        """Put the rows of a plan into a transaction, and take them in."""
        term = self._term
        term.enter(Phase.INGESTING)
        runs, objects = draft_ingest(term.state, plan)
        if plan.added is not None:
            transaction.add_members(*draft_added(term.state, plan))
            term.unstored_members.add(transaction.added)
        term.reach("leased", plan.handle)
        effects = apply_ingested(term.state, plan, term.now.db_s)
        term.unstored.update(runs.handle.tolist())
        term.stories.note(term.now.db_us, "leased", plan.handle)
        transaction.add_leases(runs, objects)
        transaction.add_job_ends(effects.job_updates)
        transaction.add_events(effects.events)
        self.move_log(transaction, position)
        transaction.round_state = plan.round_state
        term.totals["leases"] += int(plan.handle.size)
        return effects

    def move_log(self, transaction: Transaction, position: int) -> None:
        """Have the log applied up to a position."""
        transaction.log = (self.log_position, position)
        self.log_position = position

    def _store(self, effects: LeaseEffects | None, *, round_number: int = 0) -> None:
        """Put the cycle's transaction in line; what follows it waits for the commit."""
        term, transaction = self._term, self._transaction
        rows: tuple[ExecutorRows, ...] = ()
        stops, leased = self._stops, NOBODY
        if effects is not None:
            self._intake.release(effects.releases)
            rows, stops = effects.rows, (*effects.stops, *stops)
            leased = transaction.new_runs.handle if transaction.new_runs is not None else NOBODY
        if transaction.placed is not None:
            rows = (*rows, *rows_of(term.state, transaction.placed.members))
            leased = np.append(leased, transaction.placed.members.handle)
        self._note_counts(transaction)
        follow = CycleEnd(
            change_ids=transaction.change_ids,
            reported=self._reported,
            stops=stops,
            leased=leased,
            added=transaction.added,
            rows=rows,
            round_number=round_number,
            record_count=self._record_count if effects is not None else 0,
        )
        self._reported, self._stops = [], ()
        for ready in self._line.put(transaction, follow, round_number=round_number):
            self.follow(ready)
        term.enter(Phase.WAITING)
        self.go_on()

    def _note_counts(self, transaction: Transaction) -> None:
        """Add what is stored now and then: contacts, and how many jobs wait in each queue."""
        term, now_s = self._term, self._term.now.mono_s
        if now_s >= self._contacts_due_s():
            self._contacts_s = now_s
            transaction.contacts = self._sessions.take_contacts()
        if now_s - self._counted_s >= term.settings.count_period_s:
            self._counted_s = now_s
            queues = term.state.queues
            counts = queues.queued_count
            transaction.queued_counts = {queue_id: int(counts[index]) for queue_id, index in queues.ids.items()}

    def go_on(self) -> None:
        """End the cycle if the line has room for what the next one will store."""
        if self._term.phase is Phase.WAITING and self._line.has_room:
            self.end()

    # --- what follows a commit ----------------------------------------------------------------------------------------

    def follow(self, ready: FollowUp, refused: Int64s = NOBODY) -> None:
        """Do what follows a commit; a lease that was refused met a request that came while the round ran.

        It is taken back in memory, and no executor hears of it.
        """
        if isinstance(ready, CatchUp):
            self._sessions.catch_up(ready.session, ready.known)
        elif isinstance(ready, RecordEnd):
            self._intake.forget_changes(ready.change_ids)
        elif isinstance(ready, CycleEnd):
            self._follow_cycle(ready, refused)

    def _follow_cycle(self, ready: CycleEnd, refused: Int64s) -> None:
        term = self._term
        term.totals["stored_records"] += ready.record_count
        term.unstored.difference_update(ready.leased.tolist())
        term.unstored_members.discard(ready.added)
        self._intake.forget_changes(ready.change_ids)
        # A batch's acknowledgement holds for all before it.
        for session, batch in {states.session: states.batch for states in ready.reported}.items():
            if self._sessions.is_live(session):
                term.say(Acknowledge(session=session, batch=batch))
        if refused.size:
            self.take_back(refused)
        term.stories.note(term.now.db_us, "stored", ready.leased)
        for rows in ready.rows:
            kept = rows.without(refused) if refused.size else rows
            self._sessions.send_rows(kept, round_number=ready.round_number)
        for stops in ready.stops:
            self._sessions.send_stops(stops)

    def take_back(self, refused: Int64s) -> None:
        """Take back leases that the database refused; what follows goes with the next cycle."""
        term = self._term
        self.permits.note_refused(refused)
        effects = refuse_leases(term.state, refused, term.now.db_s)
        self._refusals.note_taken_back(refused)
        self._next_transaction.add_events(effects.events)
        self._next_transaction.add_job_ends(effects.job_updates)
        self._intake.release(effects.releases)
        term.stories.note(term.now.db_us, "lease refused", refused)
        term.totals["refused"] += int(refused.size)
        self.note_news()

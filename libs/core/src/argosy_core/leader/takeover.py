"""Taking over: marker, load, changes, records up to the marker, and only then sessions.

::

    publish marker -> load -> read changes until there are no more -> read and ingest records -> all stored -> serve

Source: design section 5, "Leader lost": the next leader raises the epoch, publishes a marker, ingests to it, loads,
takes sessions, goes on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import numpy as np

from argosy_core.arrays import Int64s
from argosy_core.errors import InvariantViolation
from argosy_core.job.tables.members import MemberSet
from argosy_core.leader.cycle import Cycle
from argosy_core.leader.events import (
    ChangesRead,
    Loaded,
    MarkerPublished,
    Origin,
    OriginKind,
    ReadRecord,
    RecordsRead,
)
from argosy_core.leader.instructions import Load, PublishMarker, ReadChanges, ReadRecords, Serve, Warn
from argosy_core.leader.intake import Intake
from argosy_core.leader.line import NOBODY, RecordEnd, StoreLine, TakenOver
from argosy_core.leader.sessions import ClusterSessions
from argosy_core.leader.suspects import origins_of
from argosy_core.leader.term import Phase, Term
from argosy_core.leader.transaction import SetAside, Transaction
from argosy_core.scheduler import (
    PoolState,
    adopt_plan,
    define_classes,
    define_job_sets,
    recover,
    set_queues,
    settle_missing,
)

__all__ = ["Takeover"]

_MOST_SUSPECTS: Final = 1000
"""Jobs that are set aside at once."""


class Takeover:
    """The beginning of a term.

    Args:
        term: The term.
        sessions: Sessions of clusters.
        intake: Takes changes.
        line: Transactions under way.
        cycle: Begins once everything is taken over.
    """

    def __init__(self, term: Term, *, sessions: ClusterSessions, intake: Intake, line: StoreLine, cycle: Cycle) -> None:
        """Ask for the marker to be published."""
        self._term = term
        self._sessions = sessions
        self._intake = intake
        self._line = line
        self._cycle = cycle
        self._marker = 0
        self._seen = 0
        self._highest_epoch = 0
        self._records: deque[ReadRecord] = deque()
        self._transaction: Transaction | None = None
        self._refused: list[Int64s] = []
        self._has_more_changes = False
        self._is_reading = False
        self._is_read = False
        self.is_over = False
        """Whether everything is taken over."""
        term.say(PublishMarker())

    def take_marker(self, event: MarkerPublished) -> None:
        """Read everything open now that nothing of an earlier leader can follow."""
        self._marker = event.position
        self._term.say(Load())

    def take_loaded(self, event: Loaded) -> None:
        """Fill the memory."""
        term = self._term
        state = term.state
        if event.settings is not None:
            term.change_settings(event.settings)
        define_classes(state, event.classes)
        set_queues(state, event.queues)
        define_job_sets(state, event.columns.job_sets)
        for settings in event.clusters:
            self._sessions.configure(settings)
        term.suspects = event.suspects
        state.held_classes = _keys_of(OriginKind.CLASS, event.suspects)
        self._intake.suspects = _keys_of(OriginKind.JOB, event.suspects)
        aside = [*self._intake.suspects.tolist(), *event.held, *event.unreadable]
        columns = event.columns.without(np.array(aside, dtype=np.int64))
        if event.unreadable:
            self._intake.note_aside(len(event.unreadable), "have rows that cannot be used", event.unreadable[:5])
        homeless = settle_missing(state, columns.jobs)
        if homeless.size:
            self._intake.note_homeless(homeless)
            columns = columns.without(homeless)
        try:
            effects = recover(state, columns, term.now.db_s)
        except Exception:
            term.blame.decide(origins_of(OriginKind.JOB, self._find_jobs(replace(event, columns=columns))))
            raise
        self._cycle.log_position = self._seen = event.log_position
        self._transaction = transaction = self._cycle.take_transaction()
        transaction.add_job_ends(effects.job_updates)
        transaction.add_events(effects.events)
        term.totals["recovered"] += len(state.live)
        term.say(ReadChanges())

    def _find_jobs(self, event: Loaded) -> list[int]:
        """Return the handle of a job that cannot be loaded, found by halving; several if they fail together only.

        Complexity: what loading all of them twice costs.
        """
        handles = event.columns.jobs.handle
        suspected = handles

        def fails(chosen: Int64s) -> bool:
            state = PoolState(self._term.state.settings)
            define_classes(state, event.classes)
            set_queues(state, event.queues)
            columns = event.columns.without(handles[~np.isin(handles, chosen)])
            define_job_sets(state, columns.job_sets)
            settle_missing(state, columns.jobs)
            try:
                recover(state, columns, self._term.now.db_s)
            except Exception:  # noqa: BLE001 - whatever it is, one of these raises it
                return True
            return False

        while suspected.size > 1:
            halves = np.array_split(suspected, 2)
            guilty = next((half for half in halves if fails(half)), None)
            if guilty is None:
                break
            suspected = guilty
        return [int(handle) for handle in suspected[:_MOST_SUSPECTS]]

    def take_changes(self, event: ChangesRead) -> None:
        """Take every change that can be read before any record, as much as is read at once in a transaction each.

        A record may lease a job whose submit its leader had taken, but not yet stored the events of; they must come
        before those of the lease.
        """
        is_last = not self._intake.receive(event)
        transaction = self._transaction = self._transaction or self._cycle.take_transaction()
        if not self._intake.take_changes(transaction) or not is_last:
            # Else a backlog of any length would stand in memory.
            self._transaction = None
            self._put(transaction)
            self._has_more_changes = True
            self._read_changes()
            return
        self._term.enter(Phase.REPLAYING)
        if self._cycle.log_position >= self._marker:
            # Another log than before, or one that was lost. What the database has not heard of never happened.
            self._term.say(Warn(text="the log is not the one that was applied", subject=f"marker {self._marker}"))
            self._move_to(self._marker)
        self.go_on()

    def _read_changes(self) -> None:
        """Read on while the line has room."""
        if self._line.has_room:
            self._has_more_changes = False
            self._term.say(ReadChanges())

    def take_records(self, event: RecordsRead) -> None:
        """Let records wait for their turn; one is stale if one of a higher epoch stands before it.

        A record that no leader can have published makes none of ours stale, and is never stale itself: on a log that
        others can write to, it belongs in quarantine. A leader with a later epoch would have fenced us.

        Raises:
            InvariantViolation: The log ends before the marker.
        """
        self._is_reading = False
        if not event.records:
            raise InvariantViolation(f"the log ends at {self._seen}, before the marker just written")
        for record in event.records:
            self._seen = record.position
            if not 0 < record.epoch <= self._term.epoch:
                self._records.append(record)
            elif record.epoch >= self._highest_epoch:
                self._highest_epoch = record.epoch
                self._records.append(record)
        self.go_on()

    def go_on(self) -> None:
        """Ingest what waits while the line has room, read more, and end once the marker is reached."""
        if self._term.phase is Phase.LOADING:
            if self._has_more_changes:
                self._read_changes()
            return
        while self._records and self._line.has_room:
            self._ingest(self._records.popleft())
        if self._records or self._is_reading or self._is_read:
            return
        if self._cycle.log_position < self._marker:
            self._is_reading = True
            self._term.say(ReadRecords(after=self._seen))
            return
        self._is_read = True
        for ready in self._line.put(None, TakenOver()):
            if isinstance(ready, TakenOver):
                self.serve()

    def _ingest(self, record: ReadRecord) -> None:
        """Apply one record that an earlier leader published, or put it into quarantine."""
        transaction = self._transaction or self._cycle.take_transaction()
        self._transaction = None
        bad = record.bad
        if bad is None and Origin(OriginKind.RECORD, str(record.position)) in self._term.suspects:
            bad = SetAside(payload=b"", error="applying it ended a leader term", position=record.position)
        if bad is None and not 0 < record.epoch <= self._term.epoch:
            bad = SetAside(payload=b"", error=f"epoch {record.epoch} never led the pool", position=record.position)
        if bad is not None:
            self._term.say(
                Warn(text="a log record cannot be read and goes to quarantine", subject=str(record.position))
            )
            transaction.set_aside.append(bad)
            self._term.totals["quarantined"] += 1
        if bad is None and record.plan is not None:
            with self._term.blame.of(Origin(OriginKind.RECORD, str(record.position))):
                plan = adopt_plan(self._term.state, record.plan)
                self._cycle.ingest(plan, transaction, record.position)
            self._term.enter(Phase.REPLAYING)
        else:
            self._cycle.move_log(transaction, record.position)
        self._put(transaction)

    def _move_to(self, position: int) -> None:
        """Store a position behind which everything is still to come."""
        assert self._transaction is not None
        transaction, self._transaction = self._transaction, None
        self._cycle.move_log(transaction, position)
        self._put(transaction)

    def _put(self, transaction: Transaction) -> None:
        self._line.put(transaction, RecordEnd(change_ids=transaction.change_ids))

    def note_refused(self, refused: Int64s) -> None:
        """Keep leases of records that the database refused."""
        self._refused.append(refused)

    def serve(self) -> None:
        """Take back what the database refused, before any executor can ask for its rows, and let clusters in."""
        self.is_over = True
        self._term.unstored.clear()
        self._term.unstored_members = MemberSet()
        refused = np.concatenate([NOBODY, *self._refused])
        self._sessions.await_executors()
        self._term.say(Serve())
        self._cycle.end()
        if refused.size:
            self._cycle.take_back(refused)
        self._cycle.note_news()


def _keys_of(kind: OriginKind, origins: Iterable[Origin]) -> Int64s:
    """Return the keys of one kind, as the numbers they are."""
    return np.array([int(origin.key) for origin in origins if origin.kind is kind], dtype=np.int64)

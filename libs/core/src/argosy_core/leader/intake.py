"""What arrived since the last round goes into the pool's memory and into the round's transaction.

Changes come with what they refer to, so that nothing has to be read in the middle of a round. What the memory forgot
between the reading and the taking (it lets go of idle classes and job sets) is read again with its change.

Source: design section 5, "Take changes" and "Sync".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np

from argosy_core.arrays import Int32s, Int64s
from argosy_core.job.identity import NOBODY
from argosy_core.job.reading.after import join_after
from argosy_core.job.reading.options import join_options
from argosy_core.job.tables.members import Members
from argosy_core.leader.events import (
    Change,
    ChangesRead,
    ClusterSettings,
    EndsRead,
    Origin,
    OriginKind,
    References,
    StatesReported,
)
from argosy_core.leader.instructions import Warn
from argosy_core.leader.sessions import ClusterSessions
from argosy_core.leader.suspects import origins_of
from argosy_core.leader.term import Term
from argosy_core.leader.transaction import Transaction
from argosy_core.scheduler import (
    ChangeRequestColumns,
    ChangeRequestEffects,
    EndedJobs,
    JobColumns,
    Missing,
    SpecReference,
    cancel_orphans,
    define_classes,
    define_job_sets,
    fail_unfit,
    failed_states,
    forget_cluster,
    missing,
    note_ended,
    remove_queues,
    set_queues,
    settle_missing,
    silent_states,
    take_change_requests,
    take_jobs,
    take_states,
    unheard_states,
)
from argosy_core.scheduler.columns.codes import OBJECT_CANCELLED, OBJECT_RUNNING, OBJECT_SUCCEEDED
from argosy_core.scheduler.columns.messages import ClusterRuns

__all__ = ["Intake", "Lacking", "join_jobs"]

_CANCEL: Final = 1
_CLOCK_TOLERANCE_US: Final = 1_000_000
"""By how much a clock may be off before its times are corrected; messages take a part of it."""
_MOST_SHIFTED_US: Final = 10 * 366 * 86_400_000_000
"""By how much times are corrected at most; whoever is off by more than ten years lies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lacking:
    """What changes refer to and the memory does not hold: to be read and handed in with them."""

    class_ids: tuple[int, ...]
    """Scheduling classes."""
    queue_ids: tuple[int, ...]
    """Queues."""
    job_set_ids: tuple[int, ...]
    """Job sets."""
    ended: tuple[int, ...]
    """Handles of jobs that a cancel request ended and that are not held, with their job sets."""


class Intake:
    """Changes and reports that wait for a round.

    Args:
        term: The term.
        sessions: Sessions of clusters.
    """

    def __init__(self, term: Term, sessions: ClusterSessions) -> None:
        """Start with nothing."""
        self._term = term
        self._sessions = sessions
        self._waiting: deque[tuple[list[Change], References]] = deque()
        self._held: set[int] = set()
        self._deleted: set[int] = set()  # since the read under way began: it may still have seen them
        self._returned: set[int] = set()
        self._failed: list[tuple[str, Members, str]] = []
        self._foreign: set[str] = set()
        self._ends: dict[int, int] = {}  # what the database says of jobs that others wait for
        self.suspects: Int64s = np.zeros(0, dtype=np.int64)
        """Handles of jobs that ended a term: they are not taken."""
        self.inbox: list[StatesReported] = []
        self._wrong_clocks: set[str] = set()
        """State batches that wait for a round."""

    @property
    def held_count(self) -> int:
        """Changes that are taken or wait to be, and are not deleted yet."""
        return len(self._held)

    @property
    def waiting_count(self) -> int:
        """Changes that wait to be taken."""
        return sum(len(changes) for changes, _ in self._waiting)

    @property
    def has_room(self) -> bool:
        """Whether further changes may wait to be taken."""
        return self.waiting_count < self._term.settings.changes_per_round

    def lacking(self, changes: Sequence[Change]) -> Lacking:
        """Return what must be read before changes are handed in."""
        state = self._term.state
        found = [missing(state, change.jobs) for change in changes if change.jobs is not None]
        ended: list[int] = []
        for change in changes:
            if change.requests is not None:
                ended += self._unknown_ended(change.requests)
        return Lacking(
            class_ids=_union(part.class_ids for part in found),
            queue_ids=_union(part.queue_ids for part in found),
            job_set_ids=_union(part.job_set_ids for part in found),
            ended=tuple(ended),
        )

    def _unknown_ended(self, requests: ChangeRequestColumns) -> list[int]:
        chosen = (requests.kind == _CANCEL) & (requests.ended != 0)
        handles = requests.handle[chosen]
        if not handles.size:
            return []
        return [int(handle) for handle in handles[self._term.state.live.slots(handles) < 0]]

    def is_new(self, change_id: int) -> bool:
        """Return whether a change that was read is neither held nor deleted since the read began."""
        return change_id not in self._held and change_id not in self._deleted

    def receive(self, event: ChangesRead) -> bool:
        """Let changes wait for the next round; return whether there are any that were not held already."""
        fresh = [change for change in event.changes if self.is_new(change.change_id)]
        self._deleted.clear()  # the next read begins after them
        if fresh:
            self._held.update(change.change_id for change in fresh)
            self._waiting.append((fresh, event.references))
        return bool(fresh)

    def forget_changes(self, change_ids: Iterable[int]) -> None:
        """Note that changes are deleted for good."""
        self._deleted.update(change_ids)
        self._held.difference_update(change_ids)

    def note_bound(self, cluster: str) -> None:
        """Note that a cluster came back: that it was declared gone, as was read before, is over."""
        for place, (changes, references) in enumerate(self._waiting):
            settings = references.clusters.get(cluster)
            if settings is not None and settings.forgotten:
                clusters = {**references.clusters, cluster: replace(settings, forgotten=False)}
                self._waiting[place] = changes, replace(references, clusters=clusters)

    # --- changes ------------------------------------------------------------------------------------------------------

    def take_changes(self, transaction: Transaction) -> bool:
        """Take the changes that wait, in order; return whether none has to be read again."""
        self._settle()
        is_all = True
        while self._waiting and is_all:
            changes, references = self._waiting.popleft()
            try:
                is_all = self._take_batch(changes, references, transaction)
            except Exception:
                self._term.blame.decide(origins_of(OriginKind.CHANGE, (change.change_id for change in changes)))
                raise
        self._fail_unfit(transaction)
        if is_all:
            self._cancel_orphans(transaction)
        return is_all

    def receive_ends(self, event: EndsRead) -> None:
        """Keep what became of jobs that others wait for, for the next round."""
        self._ends.update(event.states)

    def _settle(self) -> None:
        """Let jobs go whose others have ended by what the database says, as long as they are not live here."""
        ends, self._ends, state = self._ends, {}, self._term.state
        if ends:
            unsettled = state.dependencies.unsettled
            state.settle(state.dependencies.end({h: end for h, end in ends.items() if h in unsettled}))

    def _take_batch(self, changes: list[Change], references: References, transaction: Transaction) -> bool:
        """Take changes that were read together; return False if they have to be read again."""
        self._define(references)
        if self._lacks(changes):
            self._return(changes)
            return False
        self._take(changes, references, transaction)
        remove_queues(self._term.state, references.deleted_queue_ids)
        return True

    def _fail_unfit(self, transaction: Transaction) -> None:
        """End jobs that wait and cannot be led, and those that waited for one of them."""
        term = self._term
        while (failed := fail_unfit(term.state, term.now.db_s)) is not None:
            term.stories.note(term.now.db_us, "cannot be led", failed.job_updates.handle)
            transaction.add_events(failed.events)
            transaction.add_job_ends(failed.job_updates)

    def _define(self, references: References) -> None:
        """Make known what changes refer to; a job set that is known keeps its own event number."""
        state = self._term.state
        if references.settings is not None:
            self._term.change_settings(references.settings)
            self._sessions.tell_weights()
        if references.classes:
            define_classes(state, references.classes)
        if references.queues:
            set_queues(state, references.queues)
            self._sessions.tell_weights()
        if references.job_sets:
            define_job_sets(state, references.job_sets, self._term.now.db_s)

    def _lacks(self, changes: list[Change]) -> bool:
        """Return whether something is not known any more; what the database does not have either is not asked twice."""
        if any(change.change_id in self._returned for change in changes):
            return False
        nothing = Missing(class_ids=(), queue_ids=(), job_set_ids=())
        state = self._term.state
        return any(change.jobs is not None and missing(state, change.jobs) != nothing for change in changes)

    def _return(self, changes: list[Change]) -> None:
        """Let changes, and all behind them, be read again."""
        behind = [change for later, _ in self._waiting for change in later]
        self._waiting.clear()
        self._returned = {change.change_id for change in changes}
        self._held.difference_update(change.change_id for change in [*changes, *behind])

    def _take(self, changes: list[Change], references: References, transaction: Transaction) -> None:
        jobs: list[tuple[Origin, JobColumns]] = []
        for change in changes:
            origin = Origin(OriginKind.CHANGE, str(change.change_id))
            transaction.change_ids.append(change.change_id)
            if change.bad is not None:
                self._term.say(Warn(text="a change cannot be read and goes to quarantine", subject=change.bad.error))
                transaction.set_aside.append(change.bad)
                self._term.totals["quarantined"] += 1
            if change.jobs is not None:
                jobs.append((origin, change.jobs))
            if change.requests is None and not change.clusters:
                continue
            self._take_jobs(jobs, transaction)
            jobs = []
            with self._term.blame.of(origin):
                for name in change.clusters:
                    if name in references.clusters:
                        self._take_cluster(references.clusters[name], transaction)
                if change.requests is not None:
                    self._take_requests(change.requests, references.ended, transaction)
        self._take_jobs(jobs, transaction)

    def _take_jobs(self, parts: list[tuple[Origin, JobColumns]], transaction: Transaction) -> None:
        """Take accepted jobs of several changes at once."""
        if parts:
            alone = ((origin, partial(self._take_joined, jobs, Transaction())) for origin, jobs in parts)
            with self._term.blame.of_any(alone):
                self._take_joined(join_jobs([jobs for _, jobs in parts]), transaction)

    def _take_joined(self, jobs: JobColumns, transaction: Transaction) -> None:
        term = self._term
        if self.suspects.size:
            jobs = jobs.only(~np.isin(jobs.handle, self.suspects))
        homeless = settle_missing(term.state, jobs)
        if homeless.size:
            self.note_homeless(homeless)
            jobs = jobs.only(~np.isin(jobs.handle, homeless))
        taken = take_jobs(term.state, jobs, term.now.db_s)
        if term.observer is not None:
            term.observer.reach("considered", jobs.submit_time_us, term.now.db_us)
        term.stories.note(term.now.db_us, "taken", jobs.handle)
        transaction.add_events(taken.events)
        term.totals["submitted"] += taken.added_count

    def note_homeless(self, handles: Int64s) -> None:
        """Warn of jobs that are left out, since they have no queue or no job set."""
        self.note_aside(handles.size, "have no queue or no job set", handles[:5].tolist())

    def note_aside(self, count: int, why: str, first: Sequence[int]) -> None:
        """Warn of jobs that are left out, and of the first of them by handle."""
        self._term.say(Warn(text=f"{count} jobs {why} and stay aside", subject=", ".join(map(str, first))))
        self._term.totals["quarantined"] += count

    def _take_requests(self, requests: ChangeRequestColumns, ended: EndedJobs | None, transaction: Transaction) -> None:
        """Take cancel and priority requests; jobs that ended without having been held get their event all the same."""
        term = self._term
        effects = take_change_requests(term.state, requests, term.now.db_s)
        term.stories.note(term.now.db_us, "requests taken", requests.handle)
        self._add_requests(effects, transaction)
        if effects.unknown_ended.size and ended is not None:
            chosen = np.isin(ended.handle, effects.unknown_ended)
            jobs = EndedJobs(handle=ended.handle[chosen], id_high=ended.id_high[chosen], job_set=ended.job_set[chosen])
            transaction.add_events(note_ended(term.state, jobs, reason=requests.reason, now_s=term.now.db_s))

    def _cancel_orphans(self, transaction: Transaction) -> None:
        """Cancel jobs whose parents have ended, and the children of those."""
        while (effects := cancel_orphans(self._term.state, self._term.now.db_s)) is not None:
            self._add_requests(effects, transaction)

    def _add_requests(self, effects: ChangeRequestEffects, transaction: Transaction) -> None:
        transaction.add_events(effects.events)
        transaction.add_job_ends(effects.job_updates)
        self.release(effects.releases)

    def _take_cluster(self, settings: ClusterSettings, transaction: Transaction) -> None:
        """Take what an administrator decided about a cluster; the runs of one that is gone are lost."""
        term = self._term
        self._sessions.configure(settings)
        if settings.forgotten:
            effects = forget_cluster(term.state, settings.name, term.now.db_s)
            transaction.add_states(effects)
            self.release(effects.releases)
            term.totals["requeued"] += effects.requeued_count

    def note_failed(self, cluster: str, runs: Members, reason: str) -> None:
        """Let runs fail in the next round, with everything else that arrived."""
        self._failed.append((cluster, runs, reason))

    # --- reports ------------------------------------------------------------------------------------------------------

    def receive_states(self, event: StatesReported) -> None:
        """Let states wait for a round, with times as our clock would have shown them.

        A clock that is wrong on a cluster must neither end runs before their time limits nor let them run on.
        """
        now_us = self._term.now.db_us
        behind_us = now_us - event.sent_us if event.sent_us else 0
        if abs(behind_us) < _CLOCK_TOLERANCE_US:
            behind_us = 0
        elif event.session.cluster not in self._wrong_clocks:
            self._wrong_clocks.add(event.session.cluster)
            text = f"an executor's clock is off by {-behind_us / 1e6:.0f} s; its times are corrected"
            self._term.say(Warn(text=text, subject=event.session.cluster))
        shift_us = min(max(behind_us, -_MOST_SHIFTED_US), _MOST_SHIFTED_US)
        time_us = np.clip(event.columns.time_us, 0, now_us + _MOST_SHIFTED_US)
        if shift_us:
            time_us = _likely_times(time_us, time_us + shift_us, now_us)
        columns = replace(event.columns, time_us=np.clip(time_us, 0, now_us))
        self.inbox.append(replace(event, columns=columns))

    def take_reports(self, transaction: Transaction) -> tuple[list[StatesReported], tuple[ClusterRuns, ...]]:
        """Take what executors reported, all at once; return it with the runs to stop for it."""
        reported, self.inbox = self.inbox, []
        failed, self._failed = self._failed, []
        term = self._term
        unheard = unheard_states(term.state, term.now.db_s) + silent_states(term.state, term.now.db_s)
        if not reported and not failed and not unheard:
            return reported, ()
        reports = [(states.session.cluster, states.columns) for states in reported] + unheard
        for cluster, runs, reason in failed:
            reports.append((cluster, failed_states(term.state, runs, reason, term.now.db_s)))
        handles = np.concatenate([columns.handle for _, columns in reports])
        reached = np.concatenate([columns.state for _, columns in reports])
        term.reach("running", handles[reached == OBJECT_RUNNING])
        term.reach("finished", handles[(reached >= OBJECT_SUCCEEDED) & (reached <= OBJECT_CANCELLED)])
        for cluster, columns in reports:
            term.stories.note(term.now.db_us, f"states reported by {cluster}", columns.handle)
        now_s = term.now.db_s
        alone = (
            (Origin(OriginKind.EXECUTOR, report[0]), partial(take_states, term.state, [report], now_s))
            for report in reports
        )
        with term.blame.of_any(alone):
            effects = take_states(term.state, reports, now_s)
        transaction.reporters.extend(dict.fromkeys(cluster for cluster, _ in reports))
        transaction.add_states(effects)
        self.release(effects.releases)
        term.totals["requeued"] += effects.requeued_count
        term.totals["stale"] += effects.stale_count
        self._note_foreign(effects.foreign_counts)
        return reported, effects.stops

    def _note_foreign(self, counts: Mapping[str, int]) -> None:
        """Tell people of clusters that speak of runs of others; nothing of it was applied, and such runs are stopped.

        Their sessions go on: after a fail-over to a database that lost the last leases it is the truth, and has to be
        heard until what runs twice is gone.
        """
        self._term.totals["foreign_states"] += sum(counts.values())
        for cluster in counts.keys() - self._foreign:
            self._term.say(Warn(text="a cluster tells states of runs that are live in another one", subject=cluster))
        self._foreign.update(counts)

    def release(self, releases: Iterable[ClusterRuns]) -> None:
        """Have samplers told of placements that ended."""
        for runs in releases:
            self._sessions.release(runs)


def _union(parts: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(sorted({value for part in parts for value in part}))


def join_jobs(parts: list[JobColumns]) -> JobColumns:
    """Return the jobs of several changes as one; specs and metadata that repeat stand once."""
    if len(parts) == 1:
        return parts[0]
    specs: dict[tuple[bytes, int], int] = {}
    references: list[SpecReference] = []
    metadata: dict[bytes, int] = {}
    spec_columns: list[Int32s] = []
    metadata_columns: list[Int32s] = []
    for part in parts:
        moved = np.empty(len(part.specs), dtype=np.int32)
        for index, reference in enumerate(part.specs):
            # A spec is stored once a day, so at midnight the same one has two rows.
            position = specs.setdefault((reference.hash, reference.day), len(specs))
            if position == len(references):
                references.append(reference)
            moved[index] = position
        spec_columns.append(moved[part.spec])
        indices = [metadata.setdefault(body, len(metadata)) for body in part.metadata]
        metadata_columns.append(np.array([*indices, -1], dtype=np.int32)[part.metadata_index])
    return JobColumns(
        handle=np.concatenate([part.handle for part in parts]),
        id_high=np.concatenate([part.id_high for part in parts]),
        queue=np.concatenate([part.queue for part in parts]),
        job_set=np.concatenate([part.job_set for part in parts]),
        class_id=np.concatenate([part.class_id for part in parts]),
        priority=np.concatenate([part.priority for part in parts]),
        submit_time_us=np.concatenate([part.submit_time_us for part in parts]),
        spec=np.concatenate(spec_columns),
        metadata_index=np.concatenate(metadata_columns),
        specs=tuple(references),
        metadata=tuple(metadata),
        options=join_options([(part.options, part.handle.size) for part in parts]),
        after=join_after([part.after for part in parts]),
        submitter=_join_submitters(parts),
    )


def _join_submitters(parts: list[JobColumns]) -> Int32s | None:
    """Return the submitters of several changes' jobs; None if none is known."""
    if all(part.submitter is None for part in parts):
        return None
    return np.concatenate(
        [
            np.full(part.handle.size, NOBODY, dtype=np.int32) if part.submitter is None else part.submitter
            for part in parts
        ]
    )


def _likely_times(told_us: Int64s, shifted_us: Int64s, now_us: int) -> Int64s:
    """Return times of what an executor reported whose own clock is wrong.

    Its cluster's clock, which pods' times are of, may be right nevertheless. What is reported has mostly just happened,
    so of both readings the later counts, unless that is still to come.
    """
    latest_us = now_us + _CLOCK_TOLERANCE_US
    likely: Int64s = np.maximum(
        np.where(told_us <= latest_us, told_us, -1), np.where(shifted_us <= latest_us, shifted_us, -1)
    )
    return np.where(likely < 0, now_us, likely)

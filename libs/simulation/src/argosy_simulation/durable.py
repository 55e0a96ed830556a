"""What survives: the database and the log as a model in memory, with the guards that their statements have.

A transaction is applied whole or not at all, under the epoch of the leader that wrote it. Nothing here decides; what is
refused, and what absorbs, is what the store's statements say.

Source: design section 4, "States and rows"; section 5, "Submit", "Change requests", "Ingest".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from argosy_core.arrays import Int64s
from argosy_core.errors import InvariantViolation, StateConflict
from argosy_core.job.states import IS_RUN_TERMINAL, JobEventKind, JobState, ObjectState, next_job_state
from argosy_core.job.tables.members import Members, attempt_of
from argosy_core.job.tables.rows import ObjectUpdates, RunUpdates
from argosy_core.leader.events import ClusterSettings, Origin, OriginKind
from argosy_core.leader.transaction import Transaction
from argosy_core.scheduler import (
    ChangeRequestColumns,
    EventDraft,
    JobColumns,
    LeasePlan,
    LoadedColumns,
    RoundStateColumns,
)
from argosy_simulation.agenda import Process
from argosy_simulation.loads import load_columns
from argosy_simulation.plan import JobIndex
from argosy_simulation.results import JobTimes
from argosy_simulation.run_notes import note_held, note_nodes
from argosy_simulation.stored_rows import JobRow, LogRecord, RunRow

__all__ = ["Change", "DurableStore"]

Change: TypeAlias = "Int64s | ChangeRequestColumns | str"
"""News for the leader: indices of accepted jobs, change requests, or the name of a cluster whose settings changed."""
_LEASED = int(ObjectState.LEASED)
_UNKNOWN = int(ObjectState.UNKNOWN)
_RUNNING = int(ObjectState.RUNNING)
_CANCELLED = int(JobState.CANCELLED)


class DurableStore(Process):
    """Database and log of one pool.

    Args:
        job_index: The jobs there will be.
        times: Where what happened to each job is written.
    """

    def __init__(self, job_index: JobIndex, times: JobTimes) -> None:
        """Start empty, led by nobody."""
        super().__init__("store")
        self._job_index = job_index
        self._times = times
        self.epoch = 0
        self.log_position = 0
        self.round_state: RoundStateColumns | None = None
        self.jobs: dict[int, JobRow] = {}
        """By handle."""
        self.open_handles: dict[int, None] = {}
        self.changes: dict[int, Change] = {}
        self.log: list[LogRecord] = []
        self.event_numbers: dict[int, int] = {}
        """Job set id -> number of its last event."""
        self.incarnations: dict[tuple[str, str], int] = {}
        """(cluster, role) -> highest incarnation bound."""
        self.forgotten: set[str] = set()
        self.cordoned: set[str] = set()
        self.delegated: set[str] = set(job_index.plan.delegated)
        """Clusters that somebody declared gone and that have not come back."""
        self.deduplication: dict[int, None] = {}
        """Client ids that became a job; a job's client id is its index."""
        self.suspects: set[Origin] = set()
        """What ended terms and is set aside."""
        self._next_change = 0
        self.refused_runs: set[tuple[int, int]] = set()
        """Members of runs whose last lease was refused: they have no rows."""
        self.refused_count = 0

    # --- replicas of the API ------------------------------------------------------------------------------------------

    def next_change_id(self) -> int:
        """Return the id of a change that is written now; it may commit later than those behind it."""
        self._next_change += 1
        return self._next_change

    def submit(self, change_id: int, rows: Int64s, now_us: int) -> None:
        """Commit jobs together with their change; those whose client id is known are there already.

        Raises:
            InvariantViolation: A job is accepted twice.
        """
        rows = rows[[row not in self.deduplication for row in rows.tolist()]]
        if not rows.size:
            return
        self.deduplication.update(dict.fromkeys(rows.tolist()))
        for row, handle in zip(rows.tolist(), self._job_index.handles(rows).tolist(), strict=True):
            if handle in self.jobs:
                raise InvariantViolation(f"job {row} is accepted twice")
            options = self._job_index.plan.options
            held = options is not None and options.held[row] == 1
            self.jobs[handle] = JobRow(
                row, now_us, int(self._job_index.plan.priority[row]), held=held, may_run=not held
            )
            self.open_handles[handle] = None
        self._times.submit_us[rows] = now_us
        self.changes[change_id] = rows

    def change_request(
        self, handles: Iterable[int], *, priority: int | None = None, held: bool | None = None, preempt: bool = False
    ) -> bool:
        """Commit a change request for jobs together with its change; jobs without a live run end by a cancel request.

        Its change comes behind those of the jobs, because it was written after they were committed.

        Returns:
            Whether anything changed.
        """
        chosen, ended = [], []
        for handle in sorted(handles):
            job = self.jobs.get(handle)
            if job is None or job.state or not job.note_request(priority=priority, held=held, preempt=preempt):
                continue
            over = job.change_request and not job.live_attempt
            if over:
                self._end_job(handle, job, _CANCELLED)
            chosen.append(handle)
            ended.append(over)
        count = len(chosen)
        kind = 3 if preempt else 2 if priority is not None else 1 if held is None else 4 if held else 5
        if count:
            self.changes[self.next_change_id()] = ChangeRequestColumns(
                handle=np.array(chosen, dtype=np.int64),
                kind=np.full(count, kind, dtype=np.int8),
                priority=np.full(count, priority or 0, dtype=np.int32),
                ended=np.array(ended, dtype=np.int8),
                reason="somebody asked for it",
            )
        return bool(count)

    def with_states(self, columns: JobColumns) -> JobColumns:
        """Return jobs with what has become of those that they wait for."""
        if columns.after is None:
            return columns
        return replace(columns, after=columns.after.with_states(self.states(columns.after.other.tolist())))

    def states(self, handles: Iterable[int]) -> dict[int, int]:
        """Return what jobs have come to; those whose submit is still on its way count as open."""
        return {handle: self.jobs[handle].state if handle in self.jobs else 0 for handle in handles}

    def is_live(self, handle: int, ordinal: int) -> bool:
        """Return whether the run of a member has not ended."""
        return handle in self.open_handles and self.jobs[handle].live_attempt == attempt_of(ordinal)

    def forget(self, cluster: str) -> None:
        """Commit that a cluster is gone, together with its change."""
        self.forgotten.add(cluster)
        self.changes[self.next_change_id()] = cluster

    def set_cordon(self, cluster: str, *, cordoned: bool) -> None:
        """Commit that a cluster gets no new work, or gets it again, together with its change."""
        (self.cordoned.add if cordoned else self.cordoned.discard)(cluster)
        self.changes[self.next_change_id()] = cluster

    def cluster_settings(self, cluster: str) -> ClusterSettings:
        """Return what was decided about a cluster."""
        return ClusterSettings(
            name=cluster,
            cordoned=cluster in self.cordoned,
            forgotten=cluster in self.forgotten,
            delegated=cluster in self.delegated,
        )

    # --- leaders ------------------------------------------------------------------------------------------------------

    def lead(self) -> int:
        """Begin a new epoch and return it."""
        self.epoch += 1
        return self.epoch

    def check_epoch(self, epoch: int) -> None:
        """Refuse who does not lead.

        Raises:
            StateConflict: The epoch is over.
        """
        if epoch != self.epoch:
            raise StateConflict(f"epoch {epoch} is over; the epoch is {self.epoch}")

    def note_suspects(self, epoch: int, origins: Iterable[Origin]) -> None:
        """Note what ended a term.

        Raises:
            StateConflict: The epoch is over.
        """
        self.check_epoch(epoch)
        self.suspects.update(origins)

    def is_suspect(self, kind: OriginKind, key: object) -> bool:
        """Return whether something ended a term before."""
        return Origin(kind, str(key)) in self.suspects

    def append(self, epoch: int, plan: LeasePlan | None) -> int:
        """Append to the log and return the position; no plan is a marker.

        Raises:
            StateConflict: The epoch is over.
        """
        self.check_epoch(epoch)
        self.log.append(LogRecord(len(self.log) + 1, epoch, plan))
        return len(self.log)

    def bind(self, epoch: int, cluster: str, *, role: str, incarnation: int) -> None:
        """Note who speaks for a cluster; one that was forgotten begins anew.

        Raises:
            StateConflict: The epoch is over, a higher incarnation was seen, or the peer ended a term.
        """
        self.check_epoch(epoch)
        if self.is_suspect(OriginKind(role), cluster):
            raise StateConflict(f"what the {role} of {cluster} said ended a term")
        if cluster in self.forgotten:
            self.forgotten.discard(cluster)
            for each in ("executor", "sampler"):
                self.incarnations.pop((cluster, each), None)
        seen = self.incarnations.get((cluster, role), 0)
        if incarnation < seen:
            raise StateConflict(f"{role} {incarnation} of {cluster} is older than {seen}")
        self.incarnations[cluster, role] = incarnation

    def apply(self, epoch: int, transaction: Transaction) -> Int64s:
        """Commit a transaction; return the handles of refused leases.

        Raises:
            StateConflict: The epoch is over, or the position or an event number is not the next; nothing was written.
            InvariantViolation: Events are not what may follow.
        """
        self.check_epoch(epoch)
        if transaction.log is not None and transaction.log[0] != self.log_position:
            raise StateConflict(f"the log is applied up to {self.log_position}, not {transaction.log[0]}")
        self._check_numbers(transaction.events)
        self._end_runs(transaction.run_ends)
        refused = self._insert_runs(transaction)
        self._add_members(transaction)
        if transaction.held is not None:
            note_held(self.jobs, self.refused_runs, transaction.held)
        if transaction.placed is not None:
            note_nodes(self.jobs, self.refused_runs, transaction.placed)
        for updates in transaction.objects:
            self._update_objects(updates)
        for cluster, updates in transaction.ended_objects:
            self._update_objects(updates, cluster)
        self._end_runs(transaction.run_ends)
        ended_before = np.array(self._update_jobs(transaction), dtype=np.int64)
        for draft in transaction.refusals.correct(
            transaction.number, transaction.events, np.array(refused, dtype=np.int64), ended_before=ended_before
        ):
            self._take_events(draft)
        for change_id in transaction.change_ids:
            del self.changes[change_id]
        if transaction.log is not None:
            self.log_position = transaction.log[1]
        if transaction.round_state is not None:
            self.round_state = transaction.round_state
        self.refused_count += len(refused)
        return np.array(refused, dtype=np.int64)

    def _update_jobs(self, transaction: Transaction) -> list[int]:
        """End open jobs; return the handles of jobs that had ended before."""
        ended_before = []
        for ends in transaction.job_ends:
            for handle, state in zip(ends.handle.tolist(), ends.state.tolist(), strict=True):
                job = self.jobs[handle]
                if job.state:
                    ended_before.append(handle)
                else:
                    self._end_job(handle, job, state)
        return ended_before

    def _end_job(self, handle: int, job: JobRow, state: int) -> None:
        job.state = state
        del self.open_handles[handle]

    def _check_numbers(self, drafts: list[EventDraft]) -> None:
        """Refuse events that do not follow the stored ones.

        Raises:
            StateConflict: Another writer numbered the job set.
        """
        last: dict[int, int] = {}
        for draft in drafts:
            sizes = np.diff(draft.offset).tolist()
            for job_set, first, size in zip(draft.job_set_id.tolist(), draft.first_number.tolist(), sizes, strict=True):
                before = last.get(job_set, self.event_numbers.get(job_set, 0))
                if first != before + 1:
                    raise StateConflict(f"event {first} of job set {job_set} does not follow {before}")
                last[job_set] = before + size

    def _insert_runs(self, transaction: Transaction) -> list[int]:
        """Insert leases with their objects, and return the handles of those that are refused."""
        runs, objects = transaction.new_runs, transaction.new_objects
        if runs is None or objects is None:
            return []
        keys = Members.of(runs.handle, runs.attempt, runs.member)
        counts = Counter(Members.of(objects.handle, objects.attempt, objects.member).pairs())
        charges = np.zeros(len(keys), np.int64) if runs.charge_core_s is None else runs.charge_core_s
        columns = (runs.cluster_index, runs.node_index, charges, runs.lease_time_us)
        places = zip(*(column.tolist() for column in columns), strict=True)
        is_refused: dict[int, bool] = {}
        for (handle, ordinal), (cluster, node, charge, lease_us) in zip(keys.pairs(), places, strict=True):
            job, attempt = self.jobs[handle], attempt_of(ordinal)
            if not job.may_run:
                raise InvariantViolation(f"job {job.index} is leased, and was held ever since its submit")
            if handle not in is_refused:
                is_later = all(attempt_of(known) < attempt for known in job.runs)
                is_refused[handle] = bool(job.state or job.change_request or job.live_attempt or not is_later)
            if is_refused[handle]:
                self.refused_runs.add((handle, ordinal))
            else:
                self.refused_runs.discard((handle, ordinal))
                objects_of = [_LEASED] * counts[handle, ordinal]
                job.runs[ordinal] = RunRow(
                    runs.clusters[cluster], runs.nodes[node], objects_of, charge_core_s=charge, lease_time_us=lease_us
                )
                job.live_attempt = attempt
        return [handle for handle, refused in is_refused.items() if refused]

    def _add_members(self, transaction: Transaction) -> None:
        """Insert members that runs under way get, with their objects.

        Raises:
            InvariantViolation: Their run is not live, or one has a row already.
        """
        runs, objects = transaction.added_runs, transaction.added_objects
        if runs is None or objects is None:
            return
        keys = Members.of(runs.handle, runs.attempt, runs.member)
        counts = Counter(Members.of(objects.handle, objects.attempt, objects.member).pairs())
        places = zip(runs.cluster_index.tolist(), runs.node_index.tolist(), runs.lease_time_us.tolist(), strict=True)
        for (handle, ordinal), (cluster, node, lease_us) in zip(keys.pairs(), places, strict=True):
            job = self.jobs[handle]
            if job.state or job.live_attempt != attempt_of(ordinal) or ordinal in job.runs:
                raise InvariantViolation(f"job {job.index} gets member {ordinal}, which its run cannot have")
            job.runs[ordinal] = RunRow(
                runs.clusters[cluster],
                runs.nodes[node],
                [_LEASED] * counts[handle, ordinal],
                charge_core_s=next(iter(job.members().values())).charge_core_s,
                lease_time_us=lease_us,
            )

    def _update_objects(self, updates: ObjectUpdates, cluster: str = "") -> None:
        """Move objects on, those of one cluster only if it is named; what ended absorbs."""
        keys = Members.of(updates.handle, updates.attempt, updates.member)
        columns = (*keys.columns, updates.object_index, updates.state, updates.start_time_us)
        for handle, ordinal, place, state, start_us in zip(*(column.tolist() for column in columns), strict=True):
            job = self.jobs.get(handle)
            run = job.runs.get(ordinal) if job is not None else None
            if run is None or place >= len(run.objects) or cluster not in {"", run.cluster}:
                continue  # there is no such row to update
            known = run.objects[place]
            if not IS_RUN_TERMINAL[known] and (state > known or (known == _UNKNOWN and state >= _RUNNING)):
                run.objects[place] = state
                run.start_time_us = run.start_time_us or start_us

    def _end_runs(self, ends: list[RunUpdates]) -> None:
        """End live runs.

        Raises:
            InvariantViolation: One began at another moment than it does by what was stored while it ran.
        """
        for updates in ends:
            names = ("state", "start_time_us", "end_time_us", "failure", "exit_code", "reason_index")
            columns = (getattr(updates, name).tolist() for name in names)
            keys = Members.of(updates.handle, updates.attempt, updates.member).pairs()
            for (handle, ordinal), state, start_us, end_us, failure, exit_code, reason in zip(
                keys, *columns, strict=True
            ):
                job = self.jobs[handle]
                run = job.runs.get(ordinal)
                if run is not None and not run.ended:
                    if run.start_time_us not in (0, start_us):
                        raise InvariantViolation(
                            f"run {handle}/{ordinal} ends as if it had begun at {start_us}, not {run.start_time_us}"
                        )
                    run.ended, run.state, run.failure, run.exit_code = True, state, failure, exit_code
                    run.end_time_us, run.start_time_us = end_us, start_us
                    run.reason = updates.reasons[reason] if reason >= 0 else ""
                    if all(other.ended for other in job.members().values()):
                        job.live_attempt = 0
                    job.failed_time_us = end_us if failure else job.failed_time_us

    def _take_events(self, draft: EventDraft) -> None:
        """Store events.

        Raises:
            InvariantViolation: One cannot follow what its job has come to, or leads elsewhere than the table says.
        """
        jobs = self.jobs
        columns = (draft.handle, draft.kind, draft.from_state, draft.to_state)
        for handle, kind, before, after in zip(*(column.tolist() for column in columns), strict=True):
            job = jobs[handle]
            event = JobEventKind(kind)
            follows = next_job_state(JobState(before) if before else None, event, subject=f"job {job.index}")
            if job.event_state != before or after != follows:
                raise InvariantViolation(
                    f"event {event.name} of job {job.index} leads from {before} to {after}, "
                    f"but its events led to {job.event_state}"
                )
            job.event_state = after
        sizes = np.diff(draft.offset).tolist()
        for job_set, first, size in zip(draft.job_set_id.tolist(), draft.first_number.tolist(), sizes, strict=True):
            self.event_numbers[job_set] = first + size - 1
        self._times.take(draft, self._job_index.index(0))

    # --- a new leader -------------------------------------------------------------------------------------------------

    def load(self) -> LoadedColumns:
        """Return what a new leader reads."""
        return load_columns(
            self._job_index,
            {handle: self.jobs[handle] for handle in sorted(self.open_handles)},
            with_states=self.with_states,
            event_numbers=self.event_numbers,
            round_state=self.round_state,
        )

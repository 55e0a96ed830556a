"""What the scheduler's functions answer: everything a shell has to write, send or publish, as columns.

Source: design section 5, "Take changes", "Round", "Ingest", "Sync".
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import Bools, Int8s, Int16s, Int32s, Int64s, true_places
from argosy_core.job.tables.members import Members, MemberSet
from argosy_core.job.tables.rows import HeldAmounts, JobUpdates, ObjectUpdates, RunUpdates
from argosy_core.scheduler.columns.messages import ClusterRuns, JobColumns, JobSetView, RoundStateColumns, SpecReference
from argosy_core.scheduler.outgoing.events import EventDraft

__all__ = [
    "AddedMembers",
    "ChangeRequestEffects",
    "EndedMembers",
    "ExecutorRows",
    "LeaseEffects",
    "LeasePlan",
    "LoadedColumns",
    "LoadedObjects",
    "LoadedRuns",
    "RecoverEffects",
    "RefusedEffects",
    "RowsMissing",
    "StateEffects",
    "TakeEffects",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeEffects:
    """Answer of `take_jobs`."""

    events: EventDraft
    """SUBMITTED, one per job."""
    added_count: int
    """Jobs that are new to the state."""
    known_count: int
    """Jobs that the state already held from `recover`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRequestEffects:
    """Answer of `take_change_requests`."""

    events: EventDraft
    """CANCELLED, CANCEL_REQUESTED, REPRIORITIZED."""
    job_updates: JobUpdates
    """Jobs that end now because they wait without a run; those that the API ended itself are not among them."""
    releases: tuple[ClusterRuns, ...]
    """Placements of jobs that ended although they counted as leased here: the database refused their leases."""
    unknown_ended: Int64s
    """Handles that the API ended and this state never held: read (id_high, job set) and call `note_ended`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedMembers:
    """Members that runs under way get beside those that they have."""

    members: Members
    """Who, each once."""
    cluster: Int32s
    """(n,) index into `clusters`: where their runs are."""
    node: Int32s
    """(n,) index into `nodes`."""
    clusters: tuple[str, ...]
    """Names of the clusters used."""
    nodes: tuple[str, ...]
    """Names of the nodes used."""

    def take(self, chosen: npt.NDArray[np.integer] | Bools) -> AddedMembers:
        """Return some of them; the tables stay as they are."""
        return replace(self, members=self.members[chosen], cluster=self.cluster[chosen], node=self.node[chosen])


@dataclass(frozen=True, slots=True, kw_only=True)
class LeasePlan:
    """What a round decided: the content of one LeaseBatch, and what to tell samplers before it."""

    round_number: int
    """Round."""
    create_time_us: int
    """When the plan was made."""
    handle: Int64s
    """Leased jobs, in order of decision, one element per member."""
    attempt: Int32s
    """Attempts of their runs."""
    cluster: Int32s
    """Index into `clusters`."""
    node: Int32s
    """Index into `nodes`."""
    clusters: tuple[str, ...]
    """Names of the clusters used."""
    nodes: tuple[str, ...]
    """Names of the nodes used; a name may stand once per cluster."""
    stops: Members
    """Runs to stop because of a cancel request."""
    failed_handle: Int64s
    """Jobs that end because too many attempts failed."""
    failed_reasons: tuple[str, ...]
    """Why, one per failed job."""
    round_state: RoundStateColumns
    """Flow, pending order, failed attempts."""
    releases: tuple[ClusterRuns, ...]
    """Placements to release at once: commits whose answer was lost, or whose job was cancelled meanwhile."""
    member: Int16s | None = None
    """Numbers of the members in their runs; None where all are 0. Those of a run follow each other, in one cluster."""
    charge_core_s: Int64s | None = None
    """What the run of each takes of its queue's excess flow budget, core-seconds; None where nothing is charged."""
    added: AddedMembers | None = None
    """Members that runs under way get; None for none."""

    @property
    def members(self) -> Members:
        """Return the members that are leased."""
        return Members.of(self.handle, self.attempt, self.member)

    @property
    def firsts(self) -> slice | npt.NDArray[np.intp]:
        """Return where the first member of each run stands."""
        if self.member is None:
            return slice(None)
        return true_places(np.append(True, self.handle[1:] != self.handle[:-1])[: self.handle.size])

    @property
    def has_news(self) -> bool:
        """Tell whether the plan carries a lease, a member, a stop or a failed job, so that it must be published."""
        return bool(self.handle.size or len(self.stops) or self.failed_handle.size or self.added is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorRows:
    """Rows for one executor (executor.v1.ObjectRows without spec bodies); one element per member of a run."""

    cluster: str
    """Cluster."""
    handle: Int64s
    """Job handles."""
    attempt: Int32s
    """Attempts."""
    id_high: Int64s
    """Upper 64 bits of the job ids."""
    spec: Int32s
    """Index into `specs`."""
    specs: tuple[SpecReference, ...]
    """Specs used, in order of first use."""
    node: Int32s
    """Index into `nodes`."""
    nodes: tuple[str, ...]
    """Names of the nodes used."""
    metadata_index: Int32s
    """Index into `metadata`, or -1."""
    metadata: tuple[bytes, ...]
    """Labels and annotations as JSON."""
    owner: Int32s
    """Index into `owners`."""
    owners: tuple[tuple[str, str], ...]
    """(queue name, job set name)."""
    seen: Bools
    """A pod of the member was reported before: nothing of it is made again, and what is not there is lost."""
    member: Int16s | None = None
    """Numbers of the members in their runs; None where all are 0."""

    def without(self, handles: Int64s) -> ExecutorRows:
        """Return the rows of other jobs than these; the tables stay as they are."""
        return self._only(~np.isin(self.handle, handles))

    def without_members(self, members: MemberSet) -> ExecutorRows:
        """Return the rows of other members than these; the tables stay as they are."""
        return self._only(~members.has(Members.of(self.handle, self.attempt, self.member)))

    def _only(self, keep: Bools) -> ExecutorRows:
        return replace(
            self,
            handle=self.handle[keep],
            attempt=self.attempt[keep],
            id_high=self.id_high[keep],
            spec=self.spec[keep],
            node=self.node[keep],
            metadata_index=self.metadata_index[keep],
            owner=self.owner[keep],
            seen=self.seen[keep],
            member=None if self.member is None else self.member[keep],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseEffects:
    """Answer of `apply_ingested`: what follows once the store has taken the plan's rows."""

    events: EventDraft
    """LEASED, FAILED."""
    job_updates: JobUpdates
    """Jobs that failed without a run, and refused ones whose cancel request the leader already knew."""
    releases: tuple[ClusterRuns, ...]
    """Placements of refused leases."""
    rows: tuple[ExecutorRows, ...]
    """New runs per cluster."""
    stops: tuple[ClusterRuns, ...]
    """Runs to stop per cluster, after `rows`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedEffects:
    """Answer of `refuse_leases`."""

    events: EventDraft
    """CANCELLED where the change request is known."""
    job_updates: JobUpdates
    """Jobs that end because their change request is known."""
    releases: tuple[ClusterRuns, ...]
    """Placements to give back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateEffects:
    """Answer of `take_states` and `forget_cluster`."""

    object_updates: ObjectUpdates
    """Last state per object of the runs that are live here."""
    ended_updates: tuple[tuple[str, ObjectUpdates], ...]
    """(cluster, last states of objects of other runs that it reported to have ended): whose those are the rows tell."""
    run_updates: RunUpdates
    """Runs that ended."""
    job_updates: JobUpdates
    """Jobs that ended."""
    events: EventDraft
    """Every state reached, in legal order."""
    releases: tuple[ClusterRuns, ...]
    """Placements that ended, for their clusters' samplers."""
    stops: tuple[ClusterRuns, ...]
    """Runs to stop at once: not live here, or a bag of which an object failed."""
    requeued_count: int
    """Jobs that wait again."""
    stale_count: int
    """Elements of runs that are not live here."""
    foreign_counts: dict[str, int]
    """By cluster: those of them that are of a run which is live in another cluster, by attempt, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsMissing:
    """Answer of `rows_missing`: what an executor that just said hello lacks."""

    rows: ExecutorRows
    """Live runs that it does not know, stopping ones included."""
    unknown: ClusterRuns
    """Runs that it knows and that are not live."""
    stops: ClusterRuns
    """Live runs that shall stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedRuns:
    """Live rows of `runs`, one element per member of a run."""

    handle: Int64s
    """Job handles."""
    attempt: Int32s
    """Attempts."""
    cluster: Int32s
    """Index into `clusters`."""
    clusters: tuple[str, ...]
    """Cluster names."""
    node: Int32s
    """Index into `nodes`."""
    nodes: tuple[str, ...]
    """Node names."""
    member: Int16s | None = None
    """Numbers of the members in their runs; None where all are 0."""
    charge_core_s: Int64s | None = None
    """What each run takes of its queue's excess flow budget, core-seconds; None where nothing is charged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedMembers:
    """Rows of `runs` that have ended while other members of their run are live."""

    members: Members
    """The members."""
    state: Int8s
    """Run states that they ended in."""
    failure: Int8s
    """Values of FailureKind."""
    exit_code: Int32s
    """Exit codes."""
    start_time_us: Int64s
    """When the first pod of each ran, microseconds since the Unix epoch; 0 if none did."""
    reasons: tuple[str, ...]
    """Why each ended, or empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedObjects:
    """Rows of `objects` of live runs, one element per object; rows still in state LEASED may be left out."""

    handle: Int64s
    """Job handles."""
    attempt: Int32s
    """Attempts."""
    object_index: Int16s
    """Positions in the bag."""
    state: Int8s
    """Object states."""
    start_time_us: Int64s
    """When the first pod of its run ran, as stored with the object; 0 not yet, or never stored."""
    member: Int16s | None = None
    """Numbers of the members in their runs; None where all are 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedColumns:
    """What a new leader reads; classes, queues, clusters and job sets are handed in by their own functions."""

    jobs: JobColumns
    """All open jobs of the pool."""
    cancel_requested: Int8s
    """Per job: 1 if it has a cancel request."""
    last_attempt: Int32s
    """Per job: attempt of its newest run, ended or not; 0 if it never had one."""
    failures: Int32s
    """Per job: its runs that failed or were lost."""
    failed_time_us: Int64s
    """Per job: when the last of its runs that failed ended, microseconds since the Unix epoch; 0 if none has."""
    runs: LoadedRuns
    """Live runs of those jobs."""
    objects: LoadedObjects
    """States of the objects of those runs."""
    round_state: RoundStateColumns | None
    """The last stored round state, if any."""
    job_sets: tuple[JobSetView, ...] = ()
    """Job sets of those jobs."""
    ended_members: EndedMembers | None = None
    """What has ended of those runs."""
    held: HeldAmounts | None = None
    """What members of those runs hold, where that is not what their class says."""
    preempted: Int32s | None = None
    """Per job: the attempt that somebody asked to preempt, 0 for none; None if nobody asked."""

    def without(self, handles: Int64s) -> LoadedColumns:
        """Return all but some jobs; the rows of their runs and objects stay and are met by nobody."""
        kept = ~np.isin(self.jobs.handle, handles)
        return replace(
            self,
            jobs=self.jobs.only(kept),
            cancel_requested=self.cancel_requested[kept],
            last_attempt=self.last_attempt[kept],
            failures=self.failures[kept],
            failed_time_us=self.failed_time_us[kept],
            preempted=None if self.preempted is None else self.preempted[kept],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoverEffects:
    """Answer of `recover`."""

    events: EventDraft
    """CANCELLED of jobs that had a cancel request and no live run."""
    job_updates: JobUpdates
    """The same jobs."""
    job_count: int
    """Open jobs taken."""
    run_count: int
    """Live runs taken."""

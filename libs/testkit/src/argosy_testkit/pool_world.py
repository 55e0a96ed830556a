"""A pool leader's core with real ledgers and samplers around it, a model of what the store would do, and no I/O.

After every step the invariants of the pool and of the ledgers are checked, and every event against its job set's
numbers and against the transition table.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from argosy_core.arrays import Int64s
from argosy_core.job.classes import SchedulingClass
from argosy_core.job.members import Members
from argosy_core.job.rows import JobUpdates, NewRuns
from argosy_core.job.states import JobEventKind, JobState, RunState, next_job_state
from argosy_core.ledger import NodeLedger
from argosy_core.nodes import NodeSpec
from argosy_core.placement import CommitReply, CommitRequest, NodeSampler, SampleReply, SampleRequest, commit
from argosy_core.scheduler import (
    CapacityColumns,
    ChangeRequestColumns,
    ChangeRequestEffects,
    ClusterRuns,
    ClusterView,
    EndedJobs,
    EventDraft,
    JobColumns,
    JobSetView,
    LeaseEffects,
    LeasePlan,
    PoolState,
    QueueView,
    Refusals,
    RoundSettings,
    RoundStateColumns,
    SpecReference,
    StateColumns,
    StateEffects,
    adopt_plan,
    apply_ingested,
    begin_round,
    check_invariants,
    define_classes,
    define_job_sets,
    draft_ingest,
    forget_cluster,
    note_ended,
    placements_of,
    recover,
    refuse_leases,
    set_cluster,
    set_queues,
    take_change_requests,
    take_jobs,
    take_states,
    update_capacity,
)
from argosy_testkit.pool_rows import StoredJob, load_columns, spec_hash

__all__ = ["POD_LAYOUT", "PoolWorld", "Report", "StoredJob", "report_columns"]

POD_LAYOUT = b'[["Pod","work"]]'
"""Layout of a job of one pod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One state that an executor reports."""

    handle: int
    """Job handle."""
    state: int
    """ObjectState."""
    attempt: int = 1
    """Attempt."""
    object_index: int = 0
    """Position in the bag."""
    failure: int = 0
    """FailureKind."""
    exit_code: int = 0
    """Exit code."""
    text: str = ""
    """Message."""
    time_us: int = 0
    """When; 0 for now."""


@dataclass(slots=True)
class _Cluster:
    """One cluster: its ledger and sampler."""

    ledger: NodeLedger
    sampler: NodeSampler
    incarnation: int = 1
    known_classes: set[int] = field(default_factory=set)


class PoolWorld:
    """Drives a `PoolState` as a shell would, step by step, in virtual time."""

    def __init__(
        self,
        *,
        clusters: Mapping[str, int] | None = None,
        node_amounts: Mapping[str, int] | None = None,
        queues: Mapping[str, float] | None = None,
        settings: RoundSettings | None = None,
        seed: int = 1,
    ) -> None:
        """Make clusters of equal nodes and some queues.

        Args:
            clusters: Name -> number of nodes.
            node_amounts: What each node has, base units.
            queues: Name -> weight; ids are 1, 2, ...
            settings: Of the rounds.
            seed: Of all randomness.
        """
        self.settings = settings or RoundSettings()
        self.rng = np.random.default_rng(seed)
        self.now_s = 1_000_000.0
        self.state = PoolState(self.settings)
        self.queues = queues or {"alice": 1.0}
        self.node_amounts = dict(node_amounts or {"cpu": 4000, "memory": 16 << 30})
        self.clusters: dict[str, _Cluster] = {}
        self.classes: dict[int, bytes] = {}
        self.job_sets: dict[tuple[int, str], int] = {}
        self.stored: dict[int, StoredJob] = {}
        self.events: list[tuple[int, int, int, int]] = []
        self.event_numbers: dict[int, int] = {}
        self.job_states: dict[int, int] = {}
        self.sent_rows: list[tuple[str, int, int]] = []
        self.sent_stops: list[tuple[str, int, int]] = []
        self.decision_digest = hashlib.blake2b()
        self.round_state: RoundStateColumns | None = None
        self.late_refusals = False
        self._next_number = 1
        self.set_up(self.state)
        for name, count in (clusters or {"a": 4}).items():
            self.add_cluster(name, count)

    def set_up(self, state: PoolState) -> None:
        """Tell a pool the queues and classes there are."""
        set_queues(state, [QueueView(queue_id=i, name=n, weight=w) for i, (n, w) in enumerate(self.queues.items(), 1)])
        define_classes(state, self.classes)

    # --- clusters -----------------------------------------------------------------------------------------------------

    def add_cluster(self, name: str, node_count: int, node_amounts: Mapping[str, int] | None = None) -> None:
        """Add a cluster whose sampler is connected."""
        ledger = NodeLedger()
        amounts = dict(node_amounts or self.node_amounts)
        ledger.put_nodes([NodeSpec(name=f"{name}-{row}", total=amounts) for row in range(node_count)])
        ledger.take_list(Members.of([], []), np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int32))
        self.clusters[name] = _Cluster(ledger, NodeSampler(ledger, incarnation=1))
        set_cluster(self.state, ClusterView(name=name, connected=True, incarnation=1))
        self.send_capacity(name)

    def send_capacity(self, name: str) -> None:
        """Have a sampler tell its nodes and totals."""
        cluster = self.clusters[name]
        table, totals = cluster.ledger.nodes, cluster.ledger.totals()
        rows = table.live()
        fitting, room = cluster.sampler.take_fitting()
        update_capacity(
            self.state,
            name,
            CapacityColumns(
                incarnation=cluster.incarnation,
                resources=cluster.ledger.axis.names,
                node=rows,
                names=tuple(table.names[row] for row in rows.tolist()),
                allocatable=np.ascontiguousarray(table.allocatable[:, rows].T),
                free=np.ascontiguousarray(table.free[:, rows].T),
                flag=np.ones(rows.size, dtype=np.int8),
                total=totals.allocatable,
                total_free=totals.free,
                node_count=totals.node_count,
                placement_count=cluster.ledger.placement_count,
                fitting=fitting,
                fitting_room=room.astype(np.int32),
            ),
        )
        self.check()

    def tell_news(self) -> None:
        """Have the samplers tell of classes that fit by now, as they do soon after capacity rose."""
        for name in [name for name, cluster in self.clusters.items() if cluster.sampler.waiting_count]:
            self.send_capacity(name)

    def reconnect_sampler(self, name: str) -> None:
        """Restart a sampler: a new incarnation with an empty ledger takes the leader's list."""
        old = self.clusters[name]
        count = len(old.ledger.nodes.live())
        amounts = {
            key: int(value)
            for key, value in zip(old.ledger.axis.names, old.ledger.nodes.allocatable[:, 0], strict=True)
        }
        ledger = NodeLedger()
        ledger.put_nodes([NodeSpec(name=f"{name}-{row}", total=amounts) for row in reversed(range(count))])
        cluster = _Cluster(ledger, NodeSampler(ledger, incarnation=old.incarnation + 1), old.incarnation + 1)
        self.clusters[name] = cluster
        placements = placements_of(self.state, name)
        self._define(cluster, placements.class_ids.tolist())
        rows = ledger.rows_of_names(placements.nodes)[placements.node]
        ledger.take_list(placements.members, placements.class_ids, rows)
        set_cluster(self.state, ClusterView(name=name, connected=True, incarnation=cluster.incarnation))
        self.send_capacity(name)

    def _define(self, cluster: _Cluster, class_ids: Sequence[int]) -> None:
        for class_id in class_ids:
            if class_id not in cluster.known_classes:
                cluster.ledger.define_class(class_id, SchedulingClass.parse(self.classes[class_id]))
                cluster.known_classes.add(class_id)

    def sample(self, request: SampleRequest) -> SampleReply:
        """Answer a sampling request with the real sampler."""
        cluster = self.clusters[request.cluster]
        self._define(cluster, request.class_ids.tolist())
        cluster.ledger.extend_axis(request.resources)
        return cluster.sampler.sample(request, self.rng)

    def commit(self, request: CommitRequest) -> CommitReply:
        """Answer a commit request with the real MultiBind."""
        cluster = self.clusters[request.cluster]
        nodes, outcomes = commit(
            cluster.ledger,
            request.members,
            class_ids=request.class_ids,
            offsets=request.offset,
            candidates=request.candidate,
            framework=cluster.sampler.framework,
        )
        return CommitReply(incarnation=cluster.incarnation, node=nodes, outcome=outcomes)

    def release(self, runs: ClusterRuns) -> None:
        """Have a sampler release placements."""
        self.clusters[runs.cluster].ledger.release(runs.members)

    # --- people -------------------------------------------------------------------------------------------------------

    def define_class(self, class_id: int, *, node_selector: tuple[tuple[str, str], ...] = (), **requests: int) -> None:
        """Define a class by its requests, base units, and the labels that its nodes must have."""
        amounts = tuple(sorted(requests.items()))
        self.classes[class_id] = SchedulingClass(requests=amounts, node_selector=node_selector).definition()
        define_classes(self.state, self.classes)

    def job_set_id(self, queue: int, name: str) -> int:
        """Return the id of a job set, making it if it is new."""
        key = (queue, name)
        self.job_sets.setdefault(key, len(self.job_sets) + 1)
        view = JobSetView(job_set_id=self.job_sets[key], queue_id=queue, name=name, last_event_number=0)
        define_job_sets(self.state, [view], self.now_s)
        return self.job_sets[key]

    def submit(
        self,
        count: int,
        *,
        queue: int = 1,
        class_id: int = 1,
        priority: int = 0,
        job_set: str = "set",
        layout: bytes = POD_LAYOUT,
    ) -> list[int]:
        """Submit equal jobs and return their handles."""
        if class_id not in self.classes:
            self.define_class(class_id, cpu=1000)
        handles = np.arange(self._next_number, self._next_number + count, dtype=np.int64) + (20_000 << 40)
        self._next_number += count
        columns = self.columns(
            handles, queue=queue, class_id=class_id, priority=priority, job_set=job_set, layout=layout
        )
        row = {"queue": queue, "class_id": class_id, "priority": priority, "submit_time_us": round(self.now_s * 1e6)}
        for handle in handles.tolist():
            self.stored[handle] = StoredJob(row={**row, "job_set": self.job_set_id(queue, job_set)}, layout=layout)
        self.take_events(take_jobs(self.state, columns, self.now_s).events)
        self.check()
        return handles.tolist()

    def columns(
        self,
        handles: np.ndarray[tuple[int], np.dtype[np.int64]],
        *,
        queue: int,
        class_id: int,
        priority: int,
        job_set: str,
        layout: bytes,
    ) -> JobColumns:
        """Return columns of equal jobs."""
        count = handles.size
        spec = SpecReference(hash=spec_hash(layout), day=20_000, layout=layout)
        return JobColumns(
            handle=handles,
            id_high=handles * 7,
            queue=np.full(count, queue, dtype=np.int32),
            job_set=np.full(count, self.job_set_id(queue, job_set), dtype=np.int64),
            class_id=np.full(count, class_id, dtype=np.int32),
            priority=np.full(count, priority, dtype=np.int32),
            submit_time_us=np.full(count, round(self.now_s * 1e6), dtype=np.int64),
            spec=np.full(count, 0, dtype=np.int32),
            metadata_index=np.full(count, -1, dtype=np.int32),
            specs=(spec,),
        )

    def cancel(self, handles: Sequence[int], *, deliver: bool = True) -> Callable[[], ChangeRequestEffects]:
        """Set cancel requests as the API would: jobs without a live run end at once.

        Args:
            handles: Jobs.
            deliver: Whether the leader takes the change now; otherwise call what is returned.
        """
        ended = []
        for handle in handles:
            job = self.stored[handle]
            ended.append(int(job.state == 0 and job.live_attempt == 0))
            job.cancel_requested = True
            if ended[-1]:
                job.state = int(JobState.CANCELLED)
        columns = ChangeRequestColumns(
            handle=np.array(handles, dtype=np.int64),
            kind=np.ones(len(handles), dtype=np.int8),
            priority=np.zeros(len(handles), dtype=np.int32),
            ended=np.array(ended, dtype=np.int8),
            reason="asked by a test",
        )

        def take() -> ChangeRequestEffects:
            effects = take_change_requests(self.state, columns, self.now_s)
            self.take_events(effects.events)
            self.take_job_updates(effects.job_updates)
            if effects.unknown_ended.size:
                sets = [self.stored[handle].row["job_set"] for handle in effects.unknown_ended.tolist()]
                jobs = EndedJobs(
                    handle=effects.unknown_ended,
                    id_high=effects.unknown_ended * 7,
                    job_set=np.array(sets, dtype=np.int64),
                )
                self.take_events(note_ended(self.state, jobs, reason=columns.reason, now_s=self.now_s))
            for runs in effects.releases:
                self.release(runs)
            self.check()
            return effects

        if deliver:
            take()
        return take

    def reprioritize(self, handles: Sequence[int], priority: int) -> ChangeRequestEffects:
        """Give jobs another priority."""
        count = len(handles)
        columns = ChangeRequestColumns(
            handle=np.array(handles, dtype=np.int64),
            kind=np.full(count, 2, dtype=np.int8),
            priority=np.full(count, priority, dtype=np.int32),
            ended=np.zeros(count, dtype=np.int8),
        )
        effects = take_change_requests(self.state, columns, self.now_s)
        self.take_events(effects.events)
        self.check()
        return effects

    # --- rounds -------------------------------------------------------------------------------------------------------

    def plan(
        self,
        *,
        answer_sample: Callable[[SampleRequest], SampleReply | None] | None = None,
        answer_commit: Callable[[CommitRequest], CommitReply | None] | None = None,
    ) -> LeasePlan:
        """Run one round to its plan.

        Args:
            answer_sample: Stands in for the samplers' answers to sampling requests.
            answer_commit: Stands in for the samplers' answers to commits.
        """
        self.tell_news()
        current = begin_round(self.state, self.now_s, self.rng)
        self.check()
        for request in current.requests:
            current.take_sample(request.cluster, (answer_sample or self.sample)(request))
        self.check()
        requests = current.decide(self.rng)
        while requests:
            for commit_request in requests:
                current.take_commits(commit_request.cluster, (answer_commit or self.commit)(commit_request))
                self.check()
            requests = current.next_commits()
        plan = current.finish(self.now_s)
        for runs in plan.releases:
            self.release(runs)
        self.decision_digest.update(plan.handle.tobytes() + plan.cluster.tobytes() + plan.node.tobytes())
        self.decision_digest.update("|".join((*plan.clusters, *plan.nodes)).encode())
        self.check()
        return plan

    def ingest(self, plan: LeasePlan) -> LeaseEffects:
        """Store a plan as the database would, and take in the outcome.

        With `late_refusals`, the leader learns of refused leases only after it has counted them.
        """
        runs, objects = draft_ingest(self.state, plan)
        assert set(objects.handle.tolist()) == set(runs.handle.tolist())
        refused = self._store_runs(plan, runs)
        known = refused[:0] if self.late_refusals else refused
        self.round_state = plan.round_state
        effects = apply_ingested(self.state, plan, known, self.now_s)
        refusals = Refusals()
        ended_before = self.take_job_updates(effects.job_updates)
        for draft in refusals.correct(refusals.begin_draft(), [effects.events], refused, ended_before=ended_before):
            self.take_events(draft)
        for runs_to_release in effects.releases:
            self.release(runs_to_release)
        self.check()
        if self.late_refusals:
            late = refuse_leases(self.state, refused, self.now_s)
            self.take_events(late.events)
            self.take_job_updates(late.job_updates)
            for runs_to_release in late.releases:
                self.release(runs_to_release)
        for rows in (rows.without(refused) for rows in effects.rows):
            pairs = zip(rows.handle.tolist(), rows.attempt.tolist(), strict=True)
            self.sent_rows.extend((rows.cluster, handle, attempt) for handle, attempt in pairs)
        for stops in effects.stops:
            pairs = zip(stops.members.handle.tolist(), stops.members.attempt.tolist(), strict=True)
            self.sent_stops.extend((stops.cluster, handle, attempt) for handle, attempt in pairs)
        self.check()
        return effects

    def _store_runs(self, plan: LeasePlan, runs: NewRuns) -> Int64s:
        """Insert runs whose job is open and has no cancel request; return the handles of the others."""
        refused = []
        rows = {handle: row for row, handle in enumerate(plan.handle.tolist())}
        for handle, attempt in zip(runs.handle.tolist(), runs.attempt.tolist(), strict=True):
            job = self.stored[handle]
            if job.state or job.cancel_requested:
                refused.append(handle)
                continue
            assert job.live_attempt == 0, f"two live runs of {handle}"
            assert attempt == job.last_attempt + 1, f"attempts of {handle} are not in order"
            job.live_attempt = job.last_attempt = attempt
            job.objects, job.starts = {}, {}
            job.place = plan.clusters[plan.cluster[rows[handle]]], plan.nodes[plan.node[rows[handle]]]
        return np.array(refused, dtype=np.int64)

    def round(self) -> LeasePlan:
        """Run one round and ingest its plan."""
        plan = self.plan()
        self.ingest(plan)
        return plan

    # --- executors ----------------------------------------------------------------------------------------------------

    def report(self, cluster: str, reports: Sequence[Report]) -> StateEffects:
        """Have a cluster's executor report states, and do what follows."""
        effects = take_states(self.state, [(cluster, report_columns(reports, self.now_s))], self.now_s)
        self.take_state_effects(effects)
        return effects

    def take_state_effects(self, effects: StateEffects) -> None:
        """Store what reports changed, and release what ended."""
        self.take_events(effects.events)
        updates = effects.object_updates
        columns = (updates.handle, updates.attempt, updates.object_index, updates.state, updates.start_time_us)
        for handle, attempt, index, reached, start_us in zip(*(column.tolist() for column in columns), strict=True):
            job = self.stored.get(handle)
            if job is not None and attempt == job.last_attempt:
                job.objects[index] = reached
                job.starts[index] = job.starts.get(index, 0) or start_us
        ended = effects.run_updates
        for handle, attempt, end in zip(
            *(part.tolist() for part in (ended.handle, ended.attempt, ended.state)), strict=True
        ):
            assert self.stored[handle].live_attempt == attempt, "a run that is not live ended"
            self.stored[handle].live_attempt = 0
            self.stored[handle].failures += end in {RunState.FAILED, RunState.LOST}
        self.take_job_updates(effects.job_updates)
        for runs in effects.releases:
            self.release(runs)
        self.check()

    def take_over(self, unread: LeasePlan | None = None, *, forgotten: str = "") -> None:
        """Lose the leader; another one loads, ingests what stood in the log, and everybody reconnects.

        Args:
            unread: A plan that was published and not ingested.
            forgotten: A cluster that was declared gone, as the new leader reads before the log.
        """
        self.state = PoolState(self.settings)
        self.set_up(self.state)
        loaded = load_columns(self.stored, self.job_sets, self.event_numbers, self.round_state)
        effects = recover(self.state, loaded, self.now_s)
        self.take_events(effects.events)
        self.take_job_updates(effects.job_updates)
        self.check()
        if forgotten:
            set_cluster(self.state, ClusterView(name=forgotten))
            self.take_state_effects(forget_cluster(self.state, forgotten, self.now_s))
        if unread is not None:
            adopted = adopt_plan(self.state, unread)
            self.check()
            self.ingest(adopted)
        for name in self.clusters:
            self.reconnect_sampler(name)

    def live_runs(self, cluster: str) -> list[tuple[int, int]]:
        """Return (handle, attempt) of the ingested runs of a cluster."""
        placed = placements_of(self.state, cluster).members
        pairs = zip(placed.handle.tolist(), placed.attempt.tolist(), strict=True)
        return [(handle, attempt) for handle, attempt in pairs if self.stored[handle].live_attempt == attempt]

    def job_state(self, handle: int) -> JobState:
        """Return the state that the events say a job has."""
        return JobState(self.job_states[handle])

    def kinds(self, handle: int) -> list[JobEventKind]:
        """Return the kinds of a job's events in order."""
        return [JobEventKind(kind) for _, _, job, kind in sorted(self.events) if job == handle]

    # --- checks -------------------------------------------------------------------------------------------------------

    def take_job_updates(self, updates: JobUpdates) -> Int64s:
        """Store ends of jobs; terminal states absorb. Return the jobs that had ended before."""
        ended_before = []
        for handle, state in zip(updates.handle.tolist(), updates.state.tolist(), strict=True):
            if self.stored[handle].state == 0:
                self.stored[handle].state = state
            else:
                ended_before.append(handle)
        return np.array(ended_before, dtype=np.int64)

    def take_events(self, draft: EventDraft) -> None:
        """Check numbers and legality of events, and keep them."""
        for group in draft.groups():
            expected = self.event_numbers.get(group.job_set_id, 0) + 1
            assert group.first_number == expected, "events of a job set have a gap or a repeat"
            self.event_numbers[group.job_set_id] = group.last_number
            columns = zip(
                group.handle.tolist(),
                group.kind.tolist(),
                group.from_state.tolist(),
                group.to_state.tolist(),
                strict=True,
            )
            for number, (handle, kind, before, after) in enumerate(columns, group.first_number):
                assert self.job_states.get(handle, 0) == before, f"event {kind} of {handle} begins in another state"
                event = JobEventKind(kind)
                state = JobState(before) if before else None
                follows = next_job_state(state, event, history=self._events_of(handle))
                assert after == follows, f"event {event.name} from {before} led to {after}"
                self.job_states[handle] = after
                self.events.append((group.job_set_id, number, handle, kind))
            used = np.concatenate([group.cluster, group.node, group.reason])
            assert set(used[used >= 0].tolist()) == set(range(len(group.texts))), "texts and their uses differ"

    def _events_of(self, handle: int) -> Iterator[JobEventKind]:
        return (JobEventKind(kind) for _, _, job, kind in self.events if job == handle)

    def check(self) -> None:
        """Check all invariants there are."""
        check_invariants(self.state)
        for cluster in self.clusters.values():
            cluster.ledger.check_invariants()

    def event_digest(self) -> str:
        """Return a hash over all events and decisions so far."""
        digest = self.decision_digest.copy()
        digest.update(repr(self.events).encode())
        return digest.hexdigest()

    def with_settings(self, **changes: float) -> RoundSettings:
        """Return the settings with changes."""
        return replace(self.settings, **changes)  # type: ignore[arg-type]


def report_columns(reports: Sequence[Report], now_s: float) -> StateColumns:
    """Return what an executor reports as columns; what has no time of its own was seen now."""
    texts = tuple(dict.fromkeys(report.text for report in reports if report.text))
    return StateColumns(
        handle=np.array([report.handle for report in reports], dtype=np.int64),
        attempt=np.array([report.attempt for report in reports], dtype=np.int32),
        object_index=np.array([report.object_index for report in reports], dtype=np.int16),
        state=np.array([report.state for report in reports], dtype=np.int8),
        time_us=np.array([report.time_us or round(now_s * 1e6) for report in reports], dtype=np.int64),
        exit_code=np.array([report.exit_code for report in reports], dtype=np.int32),
        failure=np.array([report.failure for report in reports], dtype=np.int8),
        message=np.array([texts.index(r.text) if r.text else -1 for r in reports], dtype=np.int32),
        uid=bytes(16 * len(reports)),
        texts=texts,
    )

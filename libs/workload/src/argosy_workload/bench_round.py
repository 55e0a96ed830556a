"""Measures whole rounds of a leader as jobs, nodes, queues and classes grow tenfold, one at a time.

A leader's core and the ledgers and samplers of ten clusters are played in one process, without network or storage. The
pool is full and stays so: in each round as many jobs arrive as end, executors report what became of the runs, and the
room of the ended ones is taken by queued jobs. Times are of the processor, in real time; the pool's own time goes on by
a second a round.

Source: design section 8, "Cost"; seed 003, "Scheduler metrics".
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from argosy_core.job.reading.classes import SchedulingClass
from argosy_core.job.states import ObjectState
from argosy_core.job.tables.members import Members
from argosy_core.ledger import NodeLedger
from argosy_core.nodes import NodeSpec
from argosy_core.placement import CommitReply, CommitRequest, NodeSampler, SampleReply, SampleRequest, commit
from argosy_core.scheduler import (
    CapacityColumns,
    ClusterRuns,
    ClusterView,
    JobColumns,
    JobSetView,
    LeasePlan,
    PoolState,
    QueueView,
    RoundSettings,
    SpecReference,
    StateColumns,
    apply_ingested,
    begin_round,
    define_classes,
    define_job_sets,
    draft_ingest,
    set_cluster,
    set_queues,
    take_jobs,
    take_states,
    update_capacity,
)

__all__ = ["BASE", "GROWING", "RoundLoad", "measure", "run"]

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]

_CLUSTER_COUNT: Final = 10
_CORES_PER_NODE: Final = 32
_CORES_PER_JOB: Final = 8
_JOBS_PER_NODE: Final = _CORES_PER_NODE // _CORES_PER_JOB
_SUBMIT_SIZE: Final = 10_000
_MAX_IN_VAIN: Final = 20
_BEGIN_S: Final = 1_000_000.0
_SPEC: Final = SpecReference(hash=bytes(16), day=20_000, layout=b'[["Pod","pod"]]')


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundLoad:
    """What a measured round has to do."""

    jobs: int = 10_000
    """Jobs that wait in queues throughout."""
    nodes: int = 1_000
    """Nodes of the pool, in ten clusters; each holds four jobs."""
    queues: int = 10
    """Queues of equal weight."""
    classes: int = 100
    """Scheduling classes."""
    arrivals: int = 600
    """Jobs that arrive, and jobs that end, in each round; at most as many as run."""


BASE: Final = RoundLoad()
"""The load that others are compared with."""
GROWING: Final = ("jobs", "nodes", "queues", "classes")
"""What grows tenfold, one at a time."""


def run(base: RoundLoad = BASE, *, rounds: int = 10, seed: int = 0) -> dict[str, dict[str, Any]]:
    """Measure rounds of a load, and of loads of which one thing is ten times as large.

    Args:
        base: The load.
        rounds: Rounds to measure of each.
        seed: Seed of all randomness.

    Returns:
        By case (`base`, `jobs x10`, ...) what `measure` returns, and `ratio`: the round's time over that of the base.
    """
    cases = {"base": base}
    cases.update({f"{name} x10": replace(base, **{name: 10 * getattr(base, name)}) for name in GROWING})
    report = {case: measure(load, rounds=rounds, seed=seed) for case, load in cases.items()}
    for figures in report.values():
        figures["ratio"] = round(figures["round_us"] / report["base"]["round_us"], 2)
    return report


def measure(load: RoundLoad, *, rounds: int = 10, seed: int = 0) -> dict[str, Any]:
    """Measure rounds of one load.

    Args:
        load: What the rounds have to do.
        rounds: Rounds to measure, after two that are not.
        seed: Seed of all randomness.

    Returns:
        The load's numbers, `leased` jobs per round, `round_us` per round, `leased_us` per leased job, and the parts of
        a round in microseconds: `take_us` (take_jobs), `begin_us` (begin_round), `sample_us` (all samplers),
        `decide_us` (take_sample, decide), `commit_us` (all samplers), `finish_us` (take_commits, next_commits, finish),
        `ingest_us` (draft_ingest, apply_ingested), `states_us` (take_states), `release_us` (all samplers).
    """
    world = _World(load, seed)
    world.fill()
    for _ in range(2):
        world.play_round()
    world.spent, leased = {}, 0
    for _ in range(rounds):
        leased += world.play_round()
    total = sum(world.spent.values())
    return {
        **asdict(load),
        "leased": round(leased / rounds),
        "round_us": round(1e6 * total / rounds),
        "leased_us": round(1e6 * total / max(1, leased), 2),
        **{f"{phase}_us": round(1e6 * seconds / rounds) for phase, seconds in world.spent.items()},
    }


@dataclass(slots=True)
class _Cluster:
    """A cluster's sampler, and its runs as its executor knows them."""

    ledger: NodeLedger
    sampler: NodeSampler
    running: Int64s = field(default_factory=lambda: np.zeros(0, np.int64))
    """Handles of runs that were reported running."""
    leased: Int64s = field(default_factory=lambda: np.zeros(0, np.int64))
    """Handles of runs that were leased since."""


class _World:
    """A leader, its samplers and executors; all jobs have their first attempt."""

    def __init__(self, load: RoundLoad, seed: int) -> None:
        """Make empty clusters, and the queues and classes."""
        self._load = load
        self._rng = np.random.default_rng(seed)
        self._now_s = _BEGIN_S
        self._state = PoolState(RoundSettings())
        self._next_handle = 1
        self.spent: dict[str, float] = {}
        classes = [
            SchedulingClass(requests=(("cpu", 1000 * _CORES_PER_JOB), ("memory", (1 << 30) + (number << 20))))
            for number in range(load.classes)
        ]
        self._classes = dict(enumerate(classes, 1))
        queues = range(1, load.queues + 1)
        set_queues(self._state, [QueueView(queue_id=number, name=f"q{number}", weight=1.0) for number in queues])
        define_job_sets(
            self._state,
            [JobSetView(job_set_id=number, queue_id=number, name="bench", last_event_number=0) for number in queues],
            self._now_s,
        )
        define_classes(self._state, {number: definition.definition() for number, definition in self._classes.items()})
        self._clusters = {f"c{number}": self._add_cluster(number) for number in range(_CLUSTER_COUNT)}

    def _add_cluster(self, number: int) -> _Cluster:
        """Return a cluster that the leader knows; its memory has room for any class."""
        name, ledger = f"c{number}", NodeLedger()
        memory = _JOBS_PER_NODE * ((1 << 30) + (self._load.classes << 20))
        total = {"cpu": 1000 * _CORES_PER_NODE, "memory": memory, "pods": 110}
        rows = range(number, self._load.nodes, _CLUSTER_COUNT)
        ledger.put_nodes([NodeSpec(name=f"n{row}", total=total) for row in rows])
        ledger.take_list(Members.of([], []), np.zeros(0, np.int32), np.zeros(0, np.int32))
        for class_id, definition in self._classes.items():
            ledger.define_class(class_id, definition)
        set_cluster(self._state, ClusterView(name=name, connected=True, incarnation=1))
        cluster = _Cluster(ledger, NodeSampler(ledger, incarnation=1))
        self._tell(name, cluster, ledger.nodes.live())
        return cluster

    def _tell(self, name: str, cluster: _Cluster, rows: npt.NDArray[np.int32]) -> None:
        """Tell the leader of some nodes, of totals, and of classes that fit by now."""
        table, totals = cluster.ledger.nodes, cluster.ledger.totals()
        fitting, room = cluster.sampler.take_fitting()
        update_capacity(
            self._state,
            name,
            CapacityColumns(
                incarnation=1,
                resources=table.axis.names,
                node=rows,
                names=tuple(table.names[row] for row in rows.tolist()),
                allocatable=np.ascontiguousarray(table.allocatable[:, rows].T),
                free=np.ascontiguousarray(table.free[:, rows].T),
                flag=np.ones(rows.size, np.int8),
                total=totals.allocatable,
                total_free=totals.free,
                node_count=totals.node_count,
                placement_count=0,
                fitting=fitting,
                fitting_room=room.astype(np.int32),
            ),
        )

    @contextmanager
    def _on(self, phase: str) -> Iterator[None]:
        """Add the time of the block to a part of the round."""
        begin = time.process_time()
        yield
        self.spent[phase] = self.spent.get(phase, 0.0) + time.process_time() - begin

    def fill(self) -> None:
        """Submit jobs and play rounds until the pool is full and as many jobs wait as shall."""
        room = _JOBS_PER_NODE * self._load.nodes
        wanted = room + self._load.jobs
        for start in range(0, wanted, _SUBMIT_SIZE):
            self._submit(min(_SUBMIT_SIZE, wanted - start))
        # A round asks a part of the clusters only, so that one in vain is not the end.
        placed = in_vain = 0
        while placed < room and in_vain < _MAX_IN_VAIN:
            leased = self._lease()
            self._report(0)
            placed += leased
            in_vain = 0 if leased else in_vain + 1

    def play_round(self) -> int:
        """Play a round and return how many jobs were leased."""
        self._report(self._load.arrivals)
        self._submit(self._load.arrivals)
        return self._lease()

    def _submit(self, count: int) -> None:
        """Have jobs arrive, of random queues and classes."""
        handles = np.arange(self._next_handle, self._next_handle + count, dtype=np.int64)
        self._next_handle += count
        queue = self._rng.integers(1, self._load.queues + 1, count).astype(np.int32)
        columns = JobColumns(
            handle=handles,
            id_high=handles,
            queue=queue,
            job_set=queue.astype(np.int64),
            class_id=self._rng.integers(1, self._load.classes + 1, count).astype(np.int32),
            priority=np.zeros(count, np.int32),
            submit_time_us=np.full(count, round(self._now_s * 1e6), np.int64),
            spec=np.zeros(count, np.int32),
            metadata_index=np.full(count, -1, np.int32),
            specs=(_SPEC,),
        )
        with self._on("take"):
            take_jobs(self._state, columns, self._now_s)

    def _lease(self) -> int:
        """Play a round from its beginning to its ingest."""
        self._now_s += 1.0
        with self._on("sample"):
            for name, cluster in self._clusters.items():
                if cluster.sampler.waiting_count:
                    self._tell(name, cluster, np.zeros(0, np.int32))
        with self._on("begin"):
            current = begin_round(self._state, self._now_s, self._rng)
        for request in current.requests:
            reply = self._sample(request)
            with self._on("decide"):
                current.take_sample(request.cluster, reply)
        with self._on("decide"):
            commits = current.decide(self._rng)
        while commits:
            for commit_request in commits:
                commit_reply = self._commit(commit_request)
                with self._on("finish"):
                    current.take_commits(commit_request.cluster, commit_reply)
            with self._on("finish"):
                commits = current.next_commits()
        with self._on("finish"):
            plan = current.finish(self._now_s)
        with self._on("ingest"):
            draft_ingest(self._state, plan)
            effects = apply_ingested(self._state, plan, self._now_s)
        for runs in (*plan.releases, *effects.releases):
            self._release(runs)
        self._give_out(plan)
        return int(plan.handle.size)

    def _sample(self, request: SampleRequest) -> SampleReply:
        """Answer as a sampler does."""
        cluster = self._clusters[request.cluster]
        with self._on("sample"):
            return cluster.sampler.sample(request, self._rng)

    def _commit(self, request: CommitRequest) -> CommitReply:
        """Bind as a sampler does."""
        with self._on("commit"):
            nodes, outcomes = commit(
                self._clusters[request.cluster].ledger,
                request.members,
                class_ids=request.class_ids,
                offsets=request.offset,
                candidates=request.candidate,
            )
        return CommitReply(incarnation=1, node=nodes, outcome=outcomes)

    def _release(self, runs: ClusterRuns) -> None:
        """Have a sampler release placements."""
        with self._on("release"):
            self._clusters[runs.cluster].ledger.release(runs.members)

    def _give_out(self, plan: LeasePlan) -> None:
        """Hand a plan's leases to the executors."""
        for index, name in enumerate(plan.clusters):
            cluster = self._clusters[name]
            cluster.leased = np.concatenate([cluster.leased, plan.handle[plan.cluster == index]])

    def _report(self, ending_count: int) -> None:
        """Have every executor report that what was leased runs, and that some runs ended well."""
        running_count = sum(cluster.running.size for cluster in self._clusters.values())
        ratio = min(1.0, ending_count / max(1, running_count))
        reports = []
        for name, cluster in self._clusters.items():
            chosen = np.zeros(cluster.running.size, np.bool_)
            chosen[self._rng.permutation(chosen.size)[: round(ratio * chosen.size)]] = True
            ended, begun = cluster.running[chosen], cluster.leased
            cluster.running = np.concatenate([cluster.running[~chosen], begun])
            cluster.leased = begun[:0]
            handles = np.concatenate([begun, begun, ended])
            reached = (ObjectState.CREATED, ObjectState.RUNNING, ObjectState.SUCCEEDED)
            count = handles.size
            columns = StateColumns(
                handle=handles,
                attempt=np.ones(count, np.int32),
                object_index=np.zeros(count, np.int16),
                state=np.repeat(np.array(reached, np.int8), [begun.size, begun.size, ended.size]),
                time_us=np.full(count, round(self._now_s * 1e6), np.int64),
                exit_code=np.zeros(count, np.int32),
                failure=np.zeros(count, np.int8),
                message=np.full(count, -1, np.int32),
                uid=bytes(16 * count),
            )
            reports.append((name, columns))
        with self._on("states"):
            effects = take_states(self._state, reports, self._now_s)
        for runs in effects.releases:
            self._release(runs)

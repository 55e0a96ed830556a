"""Conflicts of several leaders on the same clusters, by commit candidates per run and by how nodes are ordered.

Prints one JSON document. Ten clusters of 2,000 nodes as in the published experiment of seed 000 (seven at the edge with
small nodes, three with larger ones), 94 jobs a second of 4 cores and 4 GiB that never end, until a part of what fits is
taken; half of the clusters and 4 % of their nodes are sampled. Every leader decides its round on what samplers said
0.6 s before it commits; the rounds of several leaders lie evenly in that time. The rounds of one leader follow each
other, so it can meet no conflict while nobody else places anything.

`failed` are scheduling conflicts as seed 000 declares them: a run *all* of whose commit candidates had no room.
They are tried again in a later round. `conflicts` are commits that a cluster refused since none of a run's candidates
there had room; a run may have some and be bound to a candidate elsewhere. `tried_again` is both per placement. `ended`
are jobs that failed for good since all of ten attempts did, `lost` how many lost at least one, two and so on.
`score` is the mean part of its node that a pod left free, which says whether placements were as good.

With `--jobs` there is one world instead, kept at that load: once it is reached pods end, after exponential run times of
such a mean that as many end as arrive, until so many jobs were placed. What there is so far is told on the way.

Usage: python tests/benchmarks/conflicts.py [--full 0.8] [--seed 1]
       python tests/benchmarks/conflicts.py --jobs 1000000 [--leaders 4] [--candidates 3] [--order best_first]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator

import numpy as np

from argosy_core.job.reading.classes import SchedulingClass
from argosy_core.job.states import ObjectState
from argosy_core.job.tables.members import Members
from argosy_core.ledger import NodeLedger
from argosy_core.nodes import NodeSpec
from argosy_core.placement import CommitReply, NodeSampler, commit
from argosy_core.plugins import Profile, build_framework
from argosy_core.scheduler import (
    CapacityColumns,
    ClusterView,
    JobColumns,
    JobSetView,
    PoolState,
    QueueView,
    Round,
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

GIB = 1 << 30
EDGE = ((600, 4000, 1), (400, 4000, 2), (800, 4000, 4), (200, 4000, 8))
"""(nodes, millicores, GiB) of a cluster at the edge."""
CLOUD = ((1000, 2000, 4), (600, 4000, 8), (400, 8000, 16))
CLUSTERS = (*[EDGE] * 7, *[CLOUD] * 3)
ROOM = 7 * 1000 + 3 * 1400
"""Jobs that fit."""
JOB = SchedulingClass(requests=(("cpu", 4000), ("memory", 4 * GIB)))
RATE_PER_S, STALE_S = 94.0, 0.6
SPEC = SpecReference(hash=bytes(16), day=20_000, layout=b'[["Pod","pod"]]')
ORDERS = {"best_first": {"least-allocated": 1.0}, "random_among_equals": {}}
"""Scores by the name of an order."""


class Leader:
    """One leader: its memory, and its round under way.

    Args:
        number: Of its pool.
        ledgers: Those of all clusters, which others place on as well.
        candidates: Commit candidates per run.
        scores: Of its sampling profile.
        rng: Draws samples and breaks ties.
    """

    def __init__(
        self,
        number: int,
        ledgers: dict[str, NodeLedger],
        *,
        candidates: int,
        scores: dict[str, float],
        rng: np.random.Generator,
    ) -> None:
        """Know the clusters, and hold no job."""
        self.number = number
        self.counts = dict.fromkeys(("placed", "conflicts", "failed", "ended"), 0)
        self.lost: Counter[int] = Counter()
        """How many jobs lost at least so many attempts."""
        self._lost_of: dict[int, int] = {}
        self.left = 0.0
        """Sum of the parts of their nodes that pods left free."""
        self._ledgers = ledgers
        self._rng = rng
        self._now_s = 1_000_000.0
        self._running = {name: (Members.of([], []), np.zeros(0)) for name in ledgers}
        """Members, and when they end, by cluster."""
        self._next_handle = 1 + (number << 32)
        self._waiting = 0.0
        self._round: Round | None = None
        framework = build_framework(Profile(scores=scores))
        self._samplers = {name: NodeSampler(ledger, framework, incarnation=1) for name, ledger in ledgers.items()}
        self._state = state = PoolState(
            RoundSettings(
                clusters_to_sample_ratio=0.5,
                nodes_to_sample_ratio=0.04,
                commit_candidate_count=candidates,
                non_preemptible_excess_ratio=1e9,
            )
        )
        set_queues(state, [QueueView(queue_id=1, name="all", weight=1.0)])
        define_job_sets(state, [JobSetView(job_set_id=1, queue_id=1, name="all", last_event_number=0)])
        define_classes(state, {1: JOB.definition()})
        for name, ledger in ledgers.items():
            set_cluster(state, ClusterView(name=name, connected=True, incarnation=1))
            self._tell(name, ledger.nodes.live())

    def _tell(self, name: str, rows: np.ndarray) -> None:
        """Hear of some nodes, and of what a cluster has in all."""
        table, totals = self._ledgers[name].nodes, self._ledgers[name].totals()
        fitting, room = self._samplers[name].take_fitting()
        columns = CapacityColumns(
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
        )
        update_capacity(self._state, name, columns)

    def submit(self, count: float) -> None:
        """Have jobs arrive; parts of one are carried on."""
        self._waiting += count
        whole = int(self._waiting)
        self._waiting -= whole
        handles = np.arange(self._next_handle, self._next_handle + whole, dtype=np.int64)
        self._next_handle += whole
        ones = np.ones(whole, np.int32)
        columns = JobColumns(
            handle=handles,
            id_high=handles,
            queue=ones,
            job_set=ones.astype(np.int64),
            class_id=ones,
            priority=0 * ones,
            submit_time_us=np.full(whole, round(self._now_s * 1e6), np.int64),
            spec=0 * ones,
            metadata_index=-ones,
            specs=(SPEC,),
        )
        take_jobs(self._state, columns, self._now_s)

    def decide(self) -> None:
        """Begin a round: sample, and decide on that."""
        for name in self._ledgers:
            self._tell(name, np.zeros(0, np.int32))
        self._round = begin_round(self._state, self._now_s, self._rng)
        for request in self._round.requests:
            self._round.take_sample(request.cluster, self._samplers[request.cluster].sample(request, self._rng))
        self._commits = self._round.decide(self._rng)

    def finish(self) -> None:
        """Commit what was decided, and end the round."""
        current = self._round
        if current is None:
            return
        commits = self._commits
        while commits:
            for request in commits:
                ledger = self._ledgers[request.cluster]
                nodes, outcomes = commit(
                    ledger,
                    request.members,
                    class_ids=request.class_ids,
                    offsets=request.offset,
                    candidates=request.candidate,
                    pool=self.number,
                )
                rows, table = nodes[nodes >= 0], ledger.nodes
                shares = table.free[:, rows] / np.maximum(table.allocatable[:, rows], 1)
                asked = [table.axis.index(name) for name in ("cpu", "memory")]
                self.left += float(shares[asked].mean(axis=0).sum())
                current.take_commits(request.cluster, CommitReply(incarnation=1, node=nodes, outcome=outcomes))
            commits = current.next_commits()
        plan = current.finish(self._now_s)
        draft_ingest(self._state, plan)
        apply_ingested(self._state, plan, self._now_s)
        for index, name in enumerate(plan.clusters):
            begun, (running, ends_s) = plan.members[plan.cluster == index], self._running[name]
            self._running[name] = (
                Members.concatenate([running, begun]),
                np.append(ends_s, np.full(len(begun), np.inf)),
            )
        statistics = self._state.statistics
        self.counts["placed"] += int(plan.handle.size)
        self.counts["conflicts"] += statistics.conflict_count
        self.counts["failed"] += statistics.failed_attempt_count
        self.counts["ended"] = self._state.totals["failed"]
        told = plan.round_state
        lost_of = dict(zip(told.attempted_handle.tolist(), told.failed_attempt.tolist(), strict=True))
        self.lost.update(count for handle, count in lost_of.items() if count > self._lost_of.get(handle, 0))
        self._lost_of = lost_of
        self._now_s += STALE_S

    def end(self, mean_s: float) -> None:
        """Have pods end whose time is up; those that have none yet get one.

        Args:
            mean_s: Of their run times.
        """
        reports = []
        for name, (running, ends_s) in self._running.items():
            fresh = np.isinf(ends_s)
            ends_s[fresh] = self._now_s + self._rng.exponential(mean_s, int(fresh.sum()))
            over = ends_s <= self._now_s
            reports.append((name, self._states(running[over])))
            self._running[name] = (running[~over], ends_s[~over])
        for runs in take_states(self._state, reports, self._now_s).releases:
            self._ledgers[runs.cluster].release(runs.members, self.number)

    def _states(self, ended: Members) -> StateColumns:
        """Return what an executor says of pods that ran and ended well."""
        reached = np.array([ObjectState.CREATED, ObjectState.RUNNING, ObjectState.SUCCEEDED], np.int8)
        count = 3 * len(ended)
        return StateColumns(
            handle=np.tile(ended.handle, 3),
            attempt=np.tile(ended.attempt, 3),
            object_index=np.zeros(count, np.int16),
            state=np.repeat(reached, len(ended)),
            time_us=np.full(count, round(self._now_s * 1e6), np.int64),
            exit_code=np.zeros(count, np.int32),
            failure=np.zeros(count, np.int8),
            message=np.full(count, -1, np.int32),
            uid=bytes(16 * count),
        )


def make_ledgers(pool_count: int) -> Iterator[tuple[str, NodeLedger]]:
    """Yield the clusters with their empty ledgers."""
    for number, kinds in enumerate(CLUSTERS):
        ledger = NodeLedger(pool_count=pool_count)
        specs = [
            NodeSpec(name=f"{kind}-{row}", total={"cpu": cpu, "memory": gib * GIB, "pods": 110})
            for kind, (count, cpu, gib) in enumerate(kinds)
            for row in range(count)
        ]
        ledger.put_nodes(specs)
        for pool in range(pool_count):
            ledger.take_list(Members.of([], []), np.zeros(0, np.int32), np.zeros(0, np.int32), pool)
        ledger.define_class(1, JOB)
        yield f"c{number}", ledger


def measure(
    leader_count: int, candidates: int, order: str, *, full_ratio: float, seed: int, job_count: int = 0
) -> dict[str, object]:
    """Return the conflicts of all leaders until a part of the clusters is taken, and then until so many jobs were."""
    ledgers, rng = dict(make_ledgers(leader_count)), np.random.default_rng(seed)
    leaders = [
        Leader(number, ledgers, candidates=candidates, scores=ORDERS[order], rng=rng) for number in range(leader_count)
    ]
    turn, placed, full_count = 0, 0, full_ratio * ROOM
    while placed < max(full_count, job_count) and turn < max(10_000, job_count):
        leader = leaders[turn % leader_count]
        leader.finish()
        if placed >= full_count:
            leader.end(full_count / RATE_PER_S)
        leader.submit(RATE_PER_S * STALE_S / leader_count)
        leader.decide()
        placed, turn = sum(one.counts["placed"] for one in leaders), turn + 1
        if job_count and turn % 1000 == 0:
            print(json.dumps(summary(leaders, ledgers)), file=sys.stderr, flush=True)  # noqa: T201
    return summary(leaders, ledgers)


def summary(leaders: list[Leader], ledgers: dict[str, NodeLedger]) -> dict[str, object]:
    """Return the figures of all leaders together."""
    lost = sum((one.lost for one in leaders), Counter())
    counts = {name: sum(one.counts[name] for one in leaders) for name in leaders[0].counts}
    return {
        **counts,
        "lost": [lost[number] for number in range(1, 1 + max(lost, default=0))],
        "load": round(sum(ledger.placement_count for ledger in ledgers.values()) / ROOM, 3),
        "tried_again": round((counts["conflicts"] + counts["failed"]) / counts["placed"], 5),
        "failed_ratio": round(counts["failed"] / counts["placed"], 5),
        "score": round(sum(one.left for one in leaders) / counts["placed"], 4),
    }


def main() -> int:
    """Measure what the arguments say and print it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", type=float, default=0.8, help="part of what fits that is placed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=0, help="keep one world at that load until so many were placed")
    parser.add_argument("--leaders", type=int, default=4, help="with --jobs")
    parser.add_argument("--candidates", type=int, default=3, help="with --jobs")
    parser.add_argument("--order", choices=sorted(ORDERS), default="best_first", help="with --jobs")
    chosen = parser.parse_args()
    worlds = [(leaders, candidates, order) for leaders in (1, 4) for candidates in (1, 3) for order in ORDERS]
    if chosen.jobs:
        worlds = [(chosen.leaders, chosen.candidates, chosen.order)]
    figures = {
        f"{leaders} leaders, m={candidates}, {order}": measure(
            leaders, candidates, order, full_ratio=chosen.full, seed=chosen.seed, job_count=chosen.jobs
        )
        for leaders, candidates, order in worlds
    }
    print(json.dumps(figures, indent=2))  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())

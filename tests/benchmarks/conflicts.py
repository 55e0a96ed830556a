"""Conflicts of several leaders on the same clusters, by commit candidates per run and by how nodes are ordered.

Prints one JSON document. Ten clusters of 2,000 nodes as in the published experiment of seed 000 (seven at the edge with
small nodes, three with larger ones), 94 jobs a second of 4 cores and 4 GiB that never end, until a part of what fits is
taken; half of the clusters and 4 % of their nodes are sampled. Every leader decides its round on what samplers said
0.6 s before it commits; the rounds of several leaders lie evenly in that time. The rounds of one leader follow each
other, so it can meet no conflict while nobody else places anything.

`conflicts` are commits that met a node without room, `failed` runs none of whose candidates had any, `tried_again` both
per placement; `ended` are jobs that failed since all of ten attempts did. `score` is the mean part of its node that a
pod left free, which says whether placements were as good.

Usage: python tests/benchmarks/conflicts.py [--full 0.8] [--seed 1]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator

import numpy as np

from argosy_core.job.reading.classes import SchedulingClass
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
    apply_ingested,
    begin_round,
    define_classes,
    define_job_sets,
    draft_ingest,
    set_cluster,
    set_queues,
    take_jobs,
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
        self.left: list[float] = []
        """Part of its node that each pod left free."""
        self._ledgers = ledgers
        self._rng = rng
        self._now_s = 1_000_000.0
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
                self.left += shares[asked].mean(axis=0).tolist()
                current.take_commits(request.cluster, CommitReply(incarnation=1, node=nodes, outcome=outcomes))
            commits = current.next_commits()
        plan = current.finish(self._now_s)
        draft_ingest(self._state, plan)
        apply_ingested(self._state, plan, self._now_s)
        statistics = self._state.statistics
        self.counts["placed"] += int(plan.handle.size)
        self.counts["conflicts"] += statistics.conflict_count
        self.counts["failed"] += statistics.failed_attempt_count
        self.counts["ended"] = self._state.totals["failed"]
        self._now_s += STALE_S


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


def measure(leader_count: int, candidates: int, order: str, *, full_ratio: float, seed: int) -> dict[str, float]:
    """Return the conflicts of all leaders until a part of the clusters is taken."""
    ledgers, rng = dict(make_ledgers(leader_count)), np.random.default_rng(seed)
    leaders = [
        Leader(number, ledgers, candidates=candidates, scores=ORDERS[order], rng=rng) for number in range(leader_count)
    ]
    turn, placed = 0, 0
    while placed < full_ratio * ROOM and turn < 10_000:
        leader = leaders[turn % leader_count]
        leader.finish()
        leader.submit(RATE_PER_S * STALE_S / leader_count)
        leader.decide()
        placed, turn = sum(one.counts["placed"] for one in leaders), turn + 1
    counts = {name: sum(one.counts[name] for one in leaders) for name in leaders[0].counts}
    left = [share for one in leaders for share in one.left]
    return {
        **counts,
        "tried_again": round((counts["conflicts"] + counts["failed"]) / placed, 5),
        "failed_ratio": round(counts["failed"] / placed, 5),
        "score": round(float(np.mean(left)), 4),
    }


def main() -> int:
    """Measure what the arguments say and print it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", type=float, default=0.8, help="part of what fits that is placed")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    figures = {
        f"{leaders} leaders, m={candidates}, {order}": measure(
            leaders, candidates, order, full_ratio=chosen.full, seed=chosen.seed
        )
        for leaders in (1, 4)
        for candidates in (1, 3)
        for order in ORDERS
    }
    print(json.dumps(figures, indent=2))  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())

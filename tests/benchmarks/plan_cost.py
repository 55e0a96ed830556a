"""Prints, as JSON, what explaining and planning cost beside a leader, and for how long they hold up its event loop.

Usage: python tests/benchmarks/plan_cost.py [--nodes N] [--jobs N] [--planned N]

Ten clusters are full but for some nodes, jobs of four queues wait. What happens on the event loop is timed alone: the
fork of the memory, the copy of the nodes, the explanation. A plan then runs in a thread, while this thread does steps
of a millisecond, as a leader does its rounds: how much longer they take is what the plan takes from them.
"""

import argparse
import json
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from argosy_core.job.reading.classes import SchedulingClass
from argosy_core.nodes import NodeTable
from argosy_core.placement import WaitReason
from argosy_core.scheduler import (
    CapacityColumns,
    ClusterView,
    JobColumns,
    JobSetView,
    PoolState,
    QueueView,
    RoundSettings,
    SpecReference,
    define_classes,
    define_job_sets,
    explain,
    explain_by_nodes,
    set_cluster,
    set_queues,
    take_jobs,
    update_capacity,
)
from argosy_core.scheduler.explain.planning import PlannedItem, plan_jobs
from argosy_server.leader.show.notes import NodeNotes

CLUSTERS = 10
RESOURCES = ("cpu", "memory", "pods")
NODE = np.array([32_000, 128 << 30, 110])
WAITING = SchedulingClass(requests=(("cpu", 24_000), ("memory", 1 << 30), ("pods", 1)))
PLANNED = SchedulingClass(requests=(("cpu", 2000), ("memory", 1 << 30), ("pods", 1)))
NOW_S = 1_800_000_000.0


def capacity(first: int, count: int) -> CapacityColumns:
    """Return nodes that are full but for four cores each; one in a hundred has eight."""
    free = np.tile(np.array([4000, 64 << 30, 90]), (count, 1))
    free[::100, 0] = 8000
    allocatable = np.tile(NODE, (count, 1))
    return CapacityColumns(
        incarnation=1, resources=RESOURCES, node=np.arange(count, dtype=np.int32),
        names=tuple(f"node-{first + n}" for n in range(count)), allocatable=allocatable, free=free,
        flag=np.ones(count, dtype=np.int8), total=allocatable.sum(axis=0), total_free=free.sum(axis=0),
        node_count=count, placement_count=0, fitting=np.zeros(0, np.int32), fitting_room=np.zeros(0, np.int32),
    )  # fmt: skip


def make_pool(nodes: int, jobs: int) -> tuple[PoolState, dict[str, NodeNotes]]:
    """Return a pool in which jobs wait, and its nodes as they were told."""
    state, notes = PoolState(RoundSettings(clusters_to_sample_ratio=1.0)), {}
    set_queues(state, [QueueView(queue_id=n, name=f"q{n}", weight=float(n)) for n in (1, 2, 3, 4)])
    define_classes(state, {1: WAITING.definition()})
    define_job_sets(state, [JobSetView(job_set_id=n, queue_id=n, name="s", last_event_number=0) for n in (1, 2, 3, 4)])
    each = nodes // CLUSTERS
    for n in range(CLUSTERS):
        name, columns = f"c{n}", capacity(n * each, each)
        set_cluster(state, ClusterView(name=name, connected=True, incarnation=1))
        update_capacity(state, name, columns)
        notes[name] = NodeNotes()
        group = json.dumps({"labels": {"zone": f"z{n}"}, "taints": []}).encode()
        notes[name].take(columns, [group], np.zeros(each, dtype=np.int32))
    queue = (np.arange(jobs) % 4 + 1).astype(np.int32)
    take_jobs(
        state,
        JobColumns(
            handle=np.arange(1, jobs + 1), id_high=np.arange(jobs), queue=queue, job_set=queue.astype(np.int64),
            class_id=np.ones(jobs, np.int32), priority=np.zeros(jobs, np.int32),
            submit_time_us=np.full(jobs, round(NOW_S * 1e6)), spec=np.zeros(jobs, np.int32),
            metadata_index=np.full(jobs, -1, np.int32),
            specs=(SpecReference(hash=bytes(16), day=0, layout=b'[["Pod","pod"]]'),),
        ),
        NOW_S,
    )  # fmt: skip
    return state, notes


def timed_ms(call: Callable[[], Any], times: int = 5) -> tuple[Any, dict[str, float]]:
    """Return what a call returns, and its median and longest time."""
    took = []
    for _ in range(times):
        begun_s = time.perf_counter()
        result = call()
        took.append((time.perf_counter() - begun_s) * 1000)
    return result, {"median_ms": round(float(np.median(took)), 1), "longest_ms": round(max(took), 1)}


def step() -> float:
    """Do a step of about a millisecond, and return how long it took, milliseconds."""
    begun_s = time.perf_counter()
    total = 0
    for n in range(15_000):
        total += n
    return (time.perf_counter() - begun_s) * 1000


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=30_000)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--planned", type=int, default=1000)
    options = parser.parse_args()
    state, notes = make_pool(options.nodes, options.jobs)
    told: dict[str, Any] = {"nodes": options.nodes, "waiting_jobs": options.jobs, "planned_jobs": options.planned}
    fork, told["fork"] = timed_ms(state.fork)
    columns, told["node_columns"] = timed_ms(lambda: {name: one.columns() for name, one in notes.items()})
    tables, told["node_tables"] = timed_ms(lambda: {name: NodeTable.of(one) for name, one in columns.items()})
    found, told["explain"] = timed_ms(lambda: explain(state, options.jobs // 2, NOW_S))
    by_nodes, told["explain_by_nodes"] = timed_ms(lambda: explain_by_nodes(found, WAITING, tables, clusters={}))
    assert by_nodes.reason in {WaitReason.NO_ROOM, WaitReason.NONE}
    state.explained.clear()
    item = PlannedItem(queue_id=1, definition=PLANNED.definition(), count=options.planned, priority=1)
    plans: list[Any] = []

    def plan() -> None:
        begun_s, cpu_s = time.perf_counter(), time.thread_time()
        plans.append(plan_jobs(fork, tables, (item,), now_s=NOW_S, rng=np.random.default_rng(1)))
        told["plan_s"] = round(time.perf_counter() - begun_s, 3)
        told["plan_cpu_s"] = round(time.thread_time() - cpu_s, 3)

    alone = [step() for _ in range(200)]
    thread = threading.Thread(target=plan)
    thread.start()
    beside = []
    while thread.is_alive():
        beside.append(step())
    thread.join()
    (result,) = plans
    told["placed"], told["complete"] = result.items[0].placed_count, result.is_complete
    told["step_alone_ms"] = {"median": round(float(np.median(alone)), 2), "longest": round(max(alone), 2)}
    told["step_beside_ms"] = {"median": round(float(np.median(beside)), 2), "longest": round(max(beside), 2)}
    sys.stdout.write(json.dumps(told, indent=2) + "\n")


if __name__ == "__main__":
    main()

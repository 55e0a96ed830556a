"""What one round of a leader places, and what it costs: many jobs at once onto an empty cluster.

Prints one JSON document. The rounds are the leader's own, with a real sampler and MultiBind behind them, all in one
process; `cpu_ms` is the processor's time from the round's begin to its plan, the sampler's part included.

`jobs_32000`: 32,000 jobs of one core, alike, of ten queues, onto 1,000 nodes of 32 cores. `one_queue`: the same of one
queue. `waiting_1000`: 1,000 jobs of one queue, of 100 classes, while there is room for all.

Usage: python tests/benchmarks/one_round.py [--repeat 3]
"""

from __future__ import annotations

import argparse
import json
import sys
import time

from argosy_core.scheduler import RoundSettings
from argosy_testkit.leader_world import LeaderWorld

NODES, CORES = 1_000, 32


def measure(job_count: int, *, class_count: int, queue_count: int) -> dict[str, float]:
    """Return how many jobs one round places, and the processor's time for it."""
    settings = RoundSettings(max_round_leases=job_count, non_preemptible_excess_ratio=1e9)
    amounts = {"cpu": CORES * 1000, "memory": 1 << 40}
    queues = {f"q{number}": 1.0 for number in range(queue_count)}
    world = LeaderWorld(clusters={"a": NODES}, node_amounts=amounts, queues=queues, settings=settings)
    for class_id in range(1, class_count + 1):
        world.define_class(class_id, cpu=1000, memory=class_id << 20)
    for class_id in range(1, class_count + 1):
        for queue in range(1, queue_count + 1):
            world.submit(job_count // class_count // queue_count, class_id=class_id, queue=queue)
    world.check = lambda: None  # type: ignore[method-assign]  # what tests look at costs as much as the round
    begin_s = time.process_time()
    plan = world.plan()
    return {"jobs": job_count, "placed": int(plan.handle.size), "cpu_ms": 1e3 * (time.process_time() - begin_s)}


def main() -> int:
    """Measure and print the run with the least time of each kind."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=3)
    chosen = parser.parse_args()
    kinds = {"jobs_32000": (NODES * CORES, 1, 10), "one_queue": (NODES * CORES, 1, 1), "waiting_1000": (1_000, 100, 1)}
    figures = {
        name: min(
            (measure(count, class_count=classes, queue_count=queues) for _ in range(chosen.repeat)),
            key=lambda one: one["cpu_ms"],
        )
        for name, (count, classes, queues) in kinds.items()
    }
    print(json.dumps(figures, indent=2))  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())

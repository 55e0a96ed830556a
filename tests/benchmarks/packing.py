"""Nodes in use by a drawn mix of jobs, by how a pool ranks nodes.

Prints one JSON document. Jobs of drawn sizes, some with an accelerator, come in batches to a cluster of three kinds of
nodes; nothing ends. The rounds are the leader's own, with a real sampler and MultiBind behind them. `nodes` are those
on which something runs; `accelerator_nodes_wasted` are nodes with an accelerator on which nobody asked for one.

Usage: python tests/benchmarks/packing.py [--jobs 3000] [--seed 1]
"""

from __future__ import annotations

import argparse
import json
import sys

import numpy as np

from argosy_core.job.states import JobState
from argosy_core.nodes import NodeSpec
from argosy_core.scheduler import RoundSettings
from argosy_testkit.leader_world import LeaderWorld

GIB = 1 << 30
KINDS = ((300, 16, 64, 0), (200, 32, 128, 0), (100, 64, 512, 8))
"""(nodes, cores, GiB, accelerators) of each kind."""
BATCH = 250


def measure(score: str, *, job_count: int, seed: int) -> dict[str, float]:
    """Return how many nodes are in use once all jobs are leased."""
    settings = RoundSettings(node_score=score, non_preemptible_excess_ratio=1e9)
    world = LeaderWorld(clusters={"a": 0}, settings=settings, seed=seed)
    specs = [
        NodeSpec(
            name=f"{kind}-{row}",
            total={"cpu": cores * 1000, "memory": gib * GIB, "pods": 110, **({"gpu": gpus} if gpus else {})},
        )
        for kind, (count, cores, gib, gpus) in enumerate(KINDS)
        for row in range(count)
    ]
    world.clusters["a"].specs = specs
    world.clusters["a"].ledger.put_nodes(specs)
    world.send_capacity("a")
    rng = np.random.default_rng(seed)
    handles: list[int] = []
    for class_id in range(1, 41):
        cores = int(rng.choice([1, 2, 3, 4, 6, 8], p=[0.35, 0.25, 0.1, 0.15, 0.05, 0.1]))
        asked = {"cpu": cores * 1000, "memory": int(rng.integers(1, 6) * cores * GIB)}
        world.define_class(class_id, **asked, **({"gpu": 1} if rng.random() < 0.1 else {}))
    left = job_count
    while left > 0:
        for class_id in rng.integers(1, 41, min(BATCH, left)).tolist():
            handles += world.submit(1, class_id=class_id)
        left -= BATCH
        for _ in range(20):
            world.round()
            if not world.state.queues.queued_count.any():
                break
    leased = sum(world.job_state(handle) == JobState.LEASED for handle in handles)
    table = world.clusters["a"].ledger.nodes
    cpu, gpu = table.axis.index("cpu"), table.axis.index("gpu")
    used = (table.free < table.allocatable).any(axis=0)
    cores_asked = int((table.allocatable - table.free)[cpu].sum())
    has = table.allocatable[gpu] > 0
    return {
        "leased": leased,
        "nodes": int(used.sum()),
        "cores_per_node": round(cores_asked / 1000 / int(used.sum()), 1),
        "accelerator_nodes_wasted": int((used & has & (table.free[gpu] == table.allocatable[gpu])).sum()),
    }


def main() -> int:
    """Measure what the arguments say and print it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    figures = {
        score or "as samplers are set up": measure(score, job_count=chosen.jobs, seed=chosen.seed)
        for score in ("", "most-allocated", "lost-opportunity", "fewest-nodes", "alignment")
    }
    print(json.dumps(figures, indent=2))  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Prints, as JSON, how fairly cores are shared over time by queues side by side and in trees, and what a choice costs.

Usage: python tests/benchmarks/fair_tree.py [--cores N,N,...] [--queues N,N,...] [--minutes N] [--run-time SECONDS]

Jobs of one core and up to 120 s fill the pool, all queues always have more, and every second what came free is given by
the rule that leaders use (`queueing.walk`), with a half time of 300 s: for 100 minutes, or in a large pool three times.
With --run-time all jobs run as long, so that all of them end in one second: every choice is then among equals.
Of each number of queues one world is flat, and one has branches of ten, which have the weights 1, 2 and 3 in turn.

Reported: Jain's index of the cores that each queue had over time by its fair share, the same if each branch had in the
long run the whole jobs that the rule gives it and its queues took turns evenly (`jain_whole_jobs`), the largest lack
of any queue's share in cores, and the processor's time for a choice. Whole jobs come to less than 1: the next one goes
to the branch whose jobs with it are fewest by weight, which rounds as the method of D'Hondt does, in favour of weight.
"""

import argparse
import json
import sys
import time
from typing import Any

import numpy as np

from argosy_core.queueing import MICRO, Filled, FillingQueues, advance_flow, walk
from argosy_core.scheduler.memory.branches import Branches

_HALF_TIME_S = 300.0
_BRANCH = 10
_MINUTES = 100
"""The first tenth does not count."""
_LONGEST_S = 120


def measure(
    cores: int, queue_count: int, *, has_tree: bool, minutes: int = _MINUTES, run_time_s: int = 0
) -> dict[str, Any]:
    """Return the figures of one world; with a run time all jobs have it."""
    branches = Branches()
    branch_count = queue_count // _BRANCH if has_tree else 0
    count = queue_count + branch_count
    leaves = np.arange(branch_count, count)
    weight = np.where(np.arange(count) < branch_count, 1.0 + np.arange(count) % 3, 1.0)
    flow = np.zeros(count)
    branches.parents = {int(leaf): f"q{(leaf - branch_count) // _BRANCH}" for leaf in leaves} if has_tree else {}
    branches.arrange({index: f"q{index}" for index in range(count)}, flow)
    share = _shares(branches, weight)[leaves] * cores
    steps = 60 * minutes if cores < 100_000 else 3
    rng = np.random.default_rng(1)
    ends = np.zeros((steps + _LONGEST_S + 1, count), dtype=np.int64)
    held, had, choice_s = np.zeros(count, dtype=np.int64), np.zeros(count), []
    ids = np.arange(1, count + 1)
    for step in range(steps):
        held -= ends[step]
        free = cores - int(held.sum())
        usage = held * MICRO
        queues = FillingQueues(
            queue_id=ids[leaves],
            weight=weight[leaves],
            flow=flow[leaves],
            usage=usage[leaves],
            least_usage=MICRO,
            heads=lambda *_: [],
            job_usage=lambda slots: np.full(slots.size, MICRO, np.int64),
            job_class=lambda slots: np.zeros(slots.size, np.int32),
            turn=step,
            tree=branches.tree(leaves, queue_id=ids, weight=weight, flow=flow, usage=usage) if has_tree else None,
        )
        jobs = _jobs(leaves.size, int(min(np.ceil(share.max()) * 1.2 + 8, free)))
        left = [free]

        def place(_job: int, _class: int) -> bool:
            left[0] -= 1  # noqa: B023 - called within this step
            return left[0] >= 0  # noqa: B023 - as above

        begin_s = time.process_time()
        placed = leaves[jobs.rows[walk(queues, jobs, place)]]
        choice_s.append(time.process_time() - begin_s)
        run_s = run_time_s or rng.integers(1, _LONGEST_S, placed.size)
        np.add.at(ends, (step + run_s, placed), 1)
        held += np.bincount(placed, minlength=count)
        had += held if step >= steps // 10 else 0
        flow = advance_flow(np.maximum(flow, held), held.astype(float), elapsed_s=1.0, half_time_s=_HALF_TIME_S)
        if has_tree:
            below = branches.sum_below(held.astype(float))
            branches.flow = advance_flow(
                np.maximum(branches.flow, below), below, elapsed_s=1.0, half_time_s=_HALF_TIME_S
            )
    steps -= steps // 10
    ratios = had[leaves] / steps / share
    return {
        "cores": cores,
        "queues": queue_count,
        "levels": 2 if has_tree else 1,
        "jain": round(_jain(ratios), 6),
        "jain_whole_jobs": round(
            _jain(_whole_jobs(cores, top := weight[:branch_count] if has_tree else weight) / top), 6
        ),
        "largest_lack_cores": round(float((share - had[leaves] / steps).max()), 3),
        "choice_ms": round(1e3 * float(np.median(choice_s)), 1),
    }


def _jain(ratios: np.ndarray) -> float:
    """Return Jain's index."""
    return float(ratios.sum() ** 2 / (ratios.size * (ratios**2).sum()))


def _whole_jobs(cores: int, weight: np.ndarray) -> np.ndarray:
    """Return how many jobs of one core each of those side by side runs, in the mean over turns where the rule ties."""
    most = int(np.ceil(cores * weight.max() / weight.sum())) + 1
    keys = np.arange(1, most + 1)[:, None] / weight
    last = np.sort(keys, axis=None)[cores - 1]
    before, tied = (keys < last).sum(axis=0), (keys == last).sum(axis=0)
    return np.asarray(before + tied * (cores - before.sum()) / tied.sum())


def _jobs(queue_count: int, job_count: int) -> Filled:
    """Return so many jobs of one core of each queue."""
    rows = np.repeat(np.arange(queue_count), job_count)
    none = np.zeros(rows.size, np.int32)
    return Filled(slots=none, rows=rows, usage=np.full(rows.size, MICRO, np.int64), classes=none)


def _shares(branches: Branches, weight: np.ndarray) -> np.ndarray:
    """Return the part of the pool that each queue has by the weights along its way."""
    if not branches:
        return np.asarray(weight / weight.sum())
    above, parents = branches.above, branches.is_parent()
    beside = np.bincount(above[~parents], weight[~parents], minlength=weight.size)
    top = weight * parents / weight[parents].sum()
    return np.where(parents, top, top[above] * weight / np.where(beside[above] > 0, beside[above], 1.0))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cores", default="640,1000000")
    parser.add_argument("--queues", default="10,100,1000")
    parser.add_argument("--minutes", type=int, default=_MINUTES)
    parser.add_argument("--run-time", type=int, choices=range(_LONGEST_S + 1), default=0, metavar="SECONDS")
    given = parser.parse_args()
    worlds = [
        measure(cores, queues, has_tree=has_tree, minutes=given.minutes, run_time_s=given.run_time)
        for cores in map(int, given.cores.split(","))
        for queues in map(int, given.queues.split(","))
        for has_tree in (False, True)
    ]
    json.dump({"fair_tree": worlds}, sys.stdout, indent=2)


if __name__ == "__main__":
    main()

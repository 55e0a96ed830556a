"""Promised starts over time: whole worlds in virtual time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from argosy_core.job.reading.classes import SchedulingClass
from argosy_core.leader import MachineSettings
from argosy_simulation import World, WorldPlan, WorldResult
from argosy_testkit.fair_worlds import ONE_CORE, SETTINGS, UNCAPPED, Jobs, clusters, held, make_plan, run, started_s
from argosy_testkit.world_rows import options_of

pytestmark = pytest.mark.timeout(600)

NODES, CORES = 3, 8
MEAN_S = 30.0
WHOLE_NODE = SchedulingClass(requests=(("cpu", 1000 * CORES), ("memory", 1 << 30)))
LARGE_S = 40.0
"""When the large job comes, seconds from the start."""
ALLOWANCE_S = 5.0


def stream(seed: int) -> WorldPlan:
    """Return one-core jobs that never let a node of eight empty by itself, and a job of a whole node."""
    rng = np.random.default_rng(seed)
    count = 260
    submit_s = np.sort(rng.uniform(0.0, count * MEAN_S / (NODES * CORES) / 1.1, count))
    run_s = rng.uniform(0.5 * MEAN_S, 1.5 * MEAN_S, count)
    return make_plan(
        Jobs(queue=0, count=count, submit_s=submit_s, run_s=run_s),
        Jobs(queue=1, count=1, submit_s=LARGE_S, run_s=60.0, class_index=1),
        weights=(1.0, 1.0),
        classes=(ONE_CORE, WHOLE_NODE),
        pool=clusters(1, NODES, CORES),
    )


def run_with(plan: WorldPlan, ratio: float) -> WorldResult:
    """Run a world in which a share of the nodes is promised at once."""
    rounds = replace(
        UNCAPPED,
        clusters_to_sample_ratio=1.0,
        run_allowance_s=ALLOWANCE_S,
        promised_nodes_ratio=ratio,
        promise_after_s=1.0,
    )
    return run(plan, replace(SETTINGS, leader=MachineSettings(round=rounds)), stop_s=260.0)


def test_a_job_of_a_whole_node_starts_beside_a_stream_of_small_ones() -> None:
    """Within a mean run time of when a node could have been empty, at the cost of no more than its own area."""
    plan = stream(1)
    without, with_ = run_with(plan, 0.0), run_with(plan, 0.05)
    large = int(np.flatnonzero(plan.class_index == 1)[0])
    assert started_s(without)[large] == np.inf
    start_s = started_s(with_)[large]
    # The longest job takes 45 s, so any node can be empty that long after the job has come.
    assert start_s <= LARGE_S + 1.5 * MEAN_S + MEAN_S
    moments = np.arange(LARGE_S, 240.0, 0.5)
    lost = (held(plan, without, moments).sum(axis=0) - held(plan, with_, moments).sum(axis=0)).sum() * 0.5
    assert lost <= CORES * 60.0


def test_no_firm_promise_is_broken_while_no_capacity_is_lost() -> None:
    """Jobs with time limits come without end, some of them pass, and each promised job starts in time."""
    rng = np.random.default_rng(1)
    count, large = 180, 8
    submit_s = np.sort(rng.uniform(0.0, 110.0, count))
    plan = make_plan(
        Jobs(queue=0, count=count, submit_s=submit_s, run_s=rng.uniform(5.0, 25.0, count)),
        Jobs(queue=1, count=large, submit_s=20.0, run_s=10.0, class_index=1),
        weights=(1.0, 1.0),
        classes=(ONE_CORE, WHOLE_NODE),
        pool=clusters(1, 1, CORES),
    )
    limits_s = rng.choice([10, 20, 30, 60], count + large)
    plan = replace(plan, options=options_of(*((-1, int(limit_s), -1) for limit_s in limits_s)))
    # By cores alone: whoever holds the node's memory, too, would have used more of it, and so the longer turns.
    weights = {"cpu": 0.001}
    rounds = replace(
        UNCAPPED, clusters_to_sample_ratio=1.0, run_allowance_s=40.0, promise_after_s=1.0, resource_weights=weights
    )
    worlds: list[World] = []
    run(plan, replace(SETTINGS, leader=MachineSettings(round=rounds)), before=worlds.append, stop_s=240.0)
    totals = worlds[0].leaders[-1].machine.state.totals
    assert totals["promises_kept"] >= 3
    assert totals["promises_firm"] >= totals["promises_kept"]
    assert totals["promises_broken_late"] == totals["promises_expected"] == 0


def test_a_queue_of_whole_node_jobs_grows_to_its_share_beside_small_ones_and_keeps_it() -> None:
    """A third of three nodes: it is promised what it is short of, and what its own jobs leave it is offered first."""
    rng = np.random.default_rng(1)
    plan = make_plan(
        Jobs(queue=0, count=220, run_s=rng.uniform(2.0, 8.0, 220)),
        Jobs(queue=1, count=30, run_s=5.0, class_index=1),
        weights=(2.0, 1.0),
        classes=(ONE_CORE, SchedulingClass(requests=(("cpu", 4000),))),
        pool=clusters(1, NODES, 4),
    )
    rounds = replace(UNCAPPED, resource_weights={"cpu": 0.001}, clusters_to_sample_ratio=1.0, promise_after_s=1.0)
    result = run(plan, replace(SETTINGS, leader=MachineSettings(round=rounds)), stop_s=75.0)
    light, heavy = held(plan, result, np.arange(30.0, 75.0, 0.25)).mean(axis=1) / (NODES * 4)
    assert heavy == pytest.approx(1 / 3, abs=0.03)
    assert light + heavy >= 0.95

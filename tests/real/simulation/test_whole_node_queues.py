"""Queues of jobs that need whole nodes reach their shares beside streams of small ones: worlds in virtual time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from argosy_core.job.reading.classes import SchedulingClass
from argosy_core.leader import MachineSettings
from argosy_local.demo import ROUND_SETTINGS
from argosy_local.simulation import simulate
from argosy_testkit.fair_worlds import ONE_CORE, SETTINGS, UNCAPPED, Jobs, clusters, held, make_plan, run
from argosy_workload.contended import contended
from argosy_workload.fairness import integrate_steps

pytestmark = pytest.mark.timeout(600)

CORES = 4
WHOLE_NODE = SchedulingClass(requests=(("cpu", 1000 * CORES), ("memory", 1 << 30)))


def mean_shares(
    nodes: int,
    large: list[Jobs],
    weights: tuple[float, ...],
    window_s: tuple[float, float],
    *,
    excess_ratio: float = UNCAPPED.non_preemptible_excess_ratio,
) -> np.ndarray:
    """Return what each queue holds of the pool on average; the first one always has more one-core jobs than room."""
    count = int(nodes * CORES * window_s[1] / 5.0)
    small = Jobs(queue=0, count=count, run_s=np.random.default_rng(1).uniform(2.0, 10.0, count))
    plan = make_plan(small, *large, weights=weights, classes=(ONE_CORE, WHOLE_NODE), pool=clusters(1, nodes, CORES))
    rounds = replace(UNCAPPED, resource_weights={"cpu": 0.001}, clusters_to_sample_ratio=1.0)
    rounds = replace(rounds, non_preemptible_excess_ratio=excess_ratio)
    result = run(plan, replace(SETTINGS, leader=MachineSettings(round=rounds)), stop_s=window_s[1])
    moments = np.arange(*window_s, 0.25)
    return np.asarray(held(plan, result, moments).mean(axis=1) / (nodes * CORES))


@pytest.mark.parametrize("run_s", [5.0, 60.0])
def test_a_queue_of_whole_node_jobs_holds_its_share_once_it_has_grown_to_it(run_s: float) -> None:
    """A third of three nodes, whether its jobs run shorter or longer than it takes a node to empty."""
    large = [Jobs(queue=1, count=60, submit_s=10.0, run_s=run_s, class_index=1)]
    light, heavy = mean_shares(3, large, (2.0, 1.0), (50.0, 240.0))
    assert heavy == pytest.approx(1 / 3, abs=0.03)
    assert light + heavy >= 0.95


@pytest.mark.parametrize(("nodes", "run_s"), [(3, 5.0), (3, 60.0), (6, 5.0), (12, 5.0)])
def test_a_queue_of_whole_node_jobs_holds_its_share_below_its_cap(nodes: int, run_s: float) -> None:
    """The cap holds its next job back until a run of its own has ended, and others are not given that node."""
    large = [Jobs(queue=1, count=20 * nodes, submit_s=10.0, run_s=run_s, class_index=1)]
    window_s = (50.0, 180.0 if run_s > 50.0 else 100.0)
    light, heavy = mean_shares(nodes, large, (2.0, 1.0), window_s, excess_ratio=0.2)
    assert heavy == pytest.approx(1 / 3, abs=0.03)
    assert light + heavy >= 0.95


def test_several_queues_of_whole_node_jobs_hold_their_shares_below_their_caps() -> None:
    """Two of eight nodes each, and nobody's share falls: some have both only after a minute and a half."""
    large = [Jobs(queue=queue, count=60, submit_s=10.0, run_s=12.0, class_index=1) for queue in (1, 2, 3)]
    shares = mean_shares(8, large, (1.0, 1.0, 1.0, 1.0), (60.0, 140.0), excess_ratio=0.2)
    assert shares == pytest.approx(np.full(4, 0.25), abs=0.04)


def test_several_queues_of_whole_node_jobs_grow_to_their_shares_beside_small_ones() -> None:
    """Two of eight nodes each: none waits until those before it have all they want."""
    large = [Jobs(queue=queue, count=60, submit_s=10.0, run_s=12.0, class_index=1) for queue in (1, 2, 3)]
    shares = mean_shares(8, large, (1.0, 1.0, 1.0, 1.0), (60.0, 100.0))
    assert shares == pytest.approx(np.full(4, 0.25), abs=0.04)
    assert shares.sum() >= 0.95


def test_training_of_the_demo_grows_to_its_share_while_the_pool_stays_full() -> None:
    """Ten times slower than `argosy demo`, so that delays of messages do not count.

    A quarter of the cores are twelve nodes: it holds two less at most on average, from 53 % of the time until others
    have had all they want. Its gangs have nodes gathered one after the other, which stand partly idle meanwhile, so
    its jobs wait somewhat longer than with first come, first served, where everybody waits for them.
    """
    within_s = 900.0
    workload, nodes = contended(within_s=within_s)
    records, first_come = (
        simulate(workload, nodes, scheduler=name, round_settings=ROUND_SETTINGS).records for name in ("flow", "fcfs")
    )
    cores = np.array([shape.total()["cpu"] / 1000 for shape in workload.shapes])
    amounts, edges_s = cores[workload.shape] / 384, np.array([0.53, 0.8]) * within_s
    training = workload.queue == [queue.name for queue in workload.queues].index("training")
    all_held, held_by_training = (
        integrate_steps(records.leased_s[of], records.finished_s[of], amounts[of], edges_s)[0]
        for of in (np.ones(len(workload), dtype=np.bool_), training)
    )
    assert held_by_training >= 0.25 - 2 / 48
    assert all_held >= 0.88
    waits_s = [(one.running_s - one.submit_s)[training].mean() for one in (records, first_come)]
    assert waits_s[0] <= 1.3 * waits_s[1]

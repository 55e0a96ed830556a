"""Further fair worlds: held shares against weighted max-min, whatever the jobs, nodes and queues are like.

Each world is drawn by a maker; its queues are full from the fifth second on. What each should hold is the division of
the pool by weight, or what its jobs can hold if that is less (`fill_weighted`, written apart from the scheduler).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest

from argosy_core.job.reading.classes import SchedulingClass
from argosy_core.leader import MachineSettings
from argosy_core.nodes import NodeSpec
from argosy_simulation import World, WorldPlan
from argosy_testkit.fair_worlds import (
    CORES,
    ONE_CORE,
    SETTINGS,
    UNCAPPED,
    Jobs,
    clusters,
    held,
    make_plan,
    run,
    started_s,
)
from argosy_workload.fairness import fill_weighted

pytestmark = pytest.mark.timeout(600)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A world and what is expected of it."""

    plan: WorldPlan
    cores: int
    window_s: tuple[float, float]
    points: float = 0.02
    """How far a queue may be from its division, as a ratio of the pool."""
    most: tuple[float, ...] = ()
    """Most cores that each queue's jobs can hold; all if empty."""
    half_time_s: float = 300.0
    used: float = 0.97
    """Least utilisation."""


def cores_of(*sizes: int) -> tuple[SchedulingClass, ...]:
    """Return a class for each number of cores."""
    return tuple(SchedulingClass(requests=(("cpu", 1000 * size), ("memory", 1 << 30))) for size in sizes)


def three_weights(_: np.random.Generator) -> Case:
    """Weights 1, 2 and 5."""
    jobs = [Jobs(queue=queue, count=count) for queue, count in enumerate((700, 1200, 2600))]
    return Case(plan=make_plan(*jobs, weights=(1.0, 2.0, 5.0)), cores=CORES, window_s=(10.0, 50.0))


def zipf_sizes(rng: np.random.Generator) -> Case:
    """Jobs of 1 to 16 cores, the small ones many."""
    ratio = 1.0 / np.arange(1, 17) ** 1.2
    jobs = [
        Jobs(queue=queue, count=2500, class_index=rng.choice(16, 2500, p=ratio / ratio.sum()), run_s=10.0)
        for queue in (0, 1)
    ]
    plan = make_plan(*jobs, weights=(1.0, 3.0), classes=cores_of(*range(1, 17)))
    return Case(plan=plan, cores=CORES, window_s=(10.0, 60.0))


def priorities(rng: np.random.Generator) -> Case:
    """Priorities order a queue's own jobs and move nothing between queues."""
    jobs = [
        Jobs(queue=queue, count=250, priority=priority, run_s=rng.integers(5, 16, 250))
        for queue in (0, 1)
        for priority in (0, 5)
    ]
    plan = make_plan(*jobs, weights=(1.0, 3.0), pool=clusters(2, 4, 16))
    return Case(plan=plan, cores=128, window_s=(10.0, 25.0))


def four_nodes(rng: np.random.Generator) -> Case:
    """Sixty-four cores."""
    jobs = [Jobs(queue=queue, count=350, run_s=rng.integers(5, 16, 350)) for queue in (0, 1, 2)]
    plan = make_plan(*jobs, weights=(1.0, 2.0, 5.0), pool=clusters(1, 4, 16))
    return Case(plan=plan, cores=64, window_s=(10.0, 50.0), points=0.03)


def one_node(rng: np.random.Generator) -> Case:
    """Sixteen cores: one job is six points."""
    jobs = [Jobs(queue=queue, count=200, run_s=rng.integers(3, 16, 200)) for queue in (0, 1)]
    plan = make_plan(*jobs, weights=(1.0, 3.0), pool=clusters(1, 1, 16))
    return Case(plan=plan, cores=16, window_s=(10.0, 70.0), points=0.0625)


def long_jobs(rng: np.random.Generator) -> Case:
    """Jobs that run for four half times."""
    jobs = [Jobs(queue=queue, count=400, run_s=rng.integers(20, 60, 400)) for queue in (0, 1)]
    plan = make_plan(*jobs, weights=(1.0, 3.0), pool=clusters(2, 4, 16))
    return Case(plan=plan, cores=128, window_s=(10.0, 70.0), points=0.03, half_time_s=10.0)


def _gpu_pool() -> tuple[tuple[str, tuple[NodeSpec, ...]], ...]:
    """Two clusters of five nodes with eight GPUs and sixteen cores, and ten of 32 cores."""
    memory = 1 << 37
    with_gpus = {"cpu": 16_000, "memory": memory, "nvidia.com/gpu": 8}
    return tuple(
        (
            f"c{number}",
            tuple(NodeSpec(name=f"c{number}-g{row}", total=with_gpus) for row in range(5))
            + tuple(NodeSpec(name=f"c{number}-n{row}", total={"cpu": 32_000, "memory": memory}) for row in range(10)),
        )
        for number in range(2)
    )


_GPU_JOB = SchedulingClass(requests=(("cpu", 1000), ("nvidia.com/gpu", 1)))


def gpus_in_front(_: np.random.Generator) -> Case:
    """Both queues have GPU jobs in front of plain ones: more than there are GPUs."""
    jobs = [Jobs(queue=queue, count=1500, class_index=1) for queue in (0, 1)]
    jobs += [Jobs(queue=queue, count=count) for queue, count in ((0, 1600), (1, 4500))]
    plan = make_plan(*jobs, weights=(1.0, 3.0), classes=(ONE_CORE, _GPU_JOB), pool=_gpu_pool())
    return Case(plan=plan, cores=800, window_s=(15.0, 60.0))


def gpus_beside_cores(_: np.random.Generator) -> Case:
    """A queue of GPU jobs alone holds every GPU, the other one the rest: neither keeps the other's waiting."""
    jobs = [Jobs(queue=0, count=700, class_index=1), Jobs(queue=1, count=5000)]
    plan = make_plan(*jobs, weights=(1.0, 1.0), classes=(ONE_CORE, _GPU_JOB), pool=_gpu_pool())
    return Case(plan=plan, cores=800, window_s=(15.0, 60.0), most=(80.0, 800.0))


MAKERS = (
    three_weights,
    zipf_sizes,
    priorities,
    four_nodes,
    one_node,
    long_jobs,
    gpus_in_front,
    gpus_beside_cores,
)


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_full_queues_hold_what_weighted_max_min_gives(make: Callable[[np.random.Generator], Case]) -> None:
    """On average over the window each queue is within a few points of its division, and the pool is used."""
    case = make(np.random.default_rng(5))
    # What is held is compared in cores, so cores alone count.
    rounds = replace(UNCAPPED, half_time_s=case.half_time_s, resource_weights={"cpu": 0.001})
    begin_s, end_s = case.window_s
    result = run(case.plan, replace(SETTINGS, leader=MachineSettings(round=rounds)), stop_s=end_s)
    real = held(case.plan, result, np.arange(begin_s, end_s, 0.25)).mean(axis=1)
    weights = np.array([weight for _, weight in case.plan.queues])
    most = np.array(case.most or [case.cores] * weights.size, dtype=np.float64)
    wanted = fill_weighted(most[None], weights, np.array([float(case.cores)]))[0]
    assert real.sum() >= case.used * case.cores
    assert np.abs(real - wanted).max() <= case.points * case.cores, (real, wanted)


def test_a_thousand_queues_take_turns_on_640_cores() -> None:
    """More queues than cores: each has had as much as every other, to a job or two."""
    count = 1000
    plan = make_plan(*(Jobs(queue=queue, count=8) for queue in range(count)), weights=(1.0,) * count)
    result = run(plan, stop_s=90.0)
    queue = np.array([queue for queue, _ in plan.job_sets])[plan.job_set]
    starts = np.bincount(queue[started_s(result) < 85.0], minlength=count)
    assert starts.max() - starts.min() <= 2


def test_cluster_that_is_there_late_is_shared_like_the_others() -> None:
    """Its cores are divided by weight from its first second on."""
    plan = make_plan(Jobs(queue=0, count=1500), Jobs(queue=1, count=4500), weights=(1.0, 3.0))

    def be_late(world: World) -> None:
        for node in sorted(world.clusters[1].nodes):
            world.clusters[1].lose_node(node, 30.0)

    result = run(plan, before=be_late, stop_s=70.0)
    for begin_s, end_s, cores in ((10.0, 28.0, CORES / 2), (32.0, 65.0, CORES)):
        light, heavy = held(plan, result, np.arange(begin_s, end_s, 0.25)).mean(axis=1)
        assert light + heavy > 0.95 * cores
        assert light / (light + heavy) == pytest.approx(0.25, abs=0.02)

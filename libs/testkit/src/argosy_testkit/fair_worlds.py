"""Worlds without faults in which queues share a pool, and what each queue holds in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from argosy_core.job.reading.classes import SchedulingClass
from argosy_core.leader import MachineSettings
from argosy_core.nodes import NodeSpec
from argosy_core.scheduler import RoundSettings
from argosy_simulation import START_US, World, WorldPlan, WorldResult, WorldSettings

__all__ = ["CORES", "ONE_CORE", "SETTINGS", "UNCAPPED", "Jobs", "clusters", "held", "make_plan", "run", "started_s"]

CORES = 640
ONE_CORE = SchedulingClass(requests=(("cpu", 1000), ("memory", 1 << 30)))
UNCAPPED = RoundSettings(non_preemptible_excess_ratio=1e9)
"""Shares cap nothing: whoever wants more than its share may have what others leave."""
SETTINGS = WorldSettings(check_steps=0, keep_finished_s=0.0, leader=MachineSettings(round=UNCAPPED))


@dataclass(frozen=True, kw_only=True)
class Jobs:
    """Equal jobs of one queue."""

    queue: int
    count: int
    submit_s: float | np.ndarray = 5.0
    run_s: float | np.ndarray = 10.0
    class_index: int | np.ndarray = 0
    priority: int = 0


def clusters(count: int, nodes: int, cores: int) -> tuple[tuple[str, tuple[NodeSpec, ...]], ...]:
    """Return clusters of equal nodes."""
    total = {"cpu": 1000 * cores, "memory": cores << 32}
    return tuple(
        (f"c{number}", tuple(NodeSpec(name=f"c{number}-n{row}", total=total) for row in range(nodes)))
        for number in range(count)
    )


def make_plan(
    *jobs: Jobs,
    weights: tuple[float, ...] = (1.0, 9.0),
    classes: tuple[SchedulingClass, ...] = (ONE_CORE,),
    pool: tuple[tuple[str, tuple[NodeSpec, ...]], ...] | None = None,
) -> WorldPlan:
    """Return the plan of a world; 640 cores in two clusters, as `argosy up` makes them, if no pool is given."""

    def column(values: list[float | np.ndarray], dtype: type) -> np.ndarray:
        parts = [np.broadcast_to(value, part.count) for value, part in zip(values, jobs, strict=True)]
        return np.concatenate(parts).astype(dtype)

    submit_s = column([part.submit_s for part in jobs], np.float64)
    order = np.argsort(submit_s, kind="stable")
    zeros = np.zeros(submit_s.size, dtype=np.int32)
    return WorldPlan(
        clusters=pool or clusters(2, 10, 32),
        queues=tuple((f"q{number}", weight) for number, weight in enumerate(weights)),
        classes=classes,
        job_sets=tuple((number, "set") for number in range(len(weights))),
        submit_s=submit_s[order],
        run_s=column([part.run_s for part in jobs], np.float64)[order],
        class_index=column([part.class_index for part in jobs], np.int32)[order],
        job_set=column([part.queue for part in jobs], np.int32)[order],
        priority=column([part.priority for part in jobs], np.int32)[order],
        exit_code=zeros,
        layout=zeros,
    )


def run(
    plan: WorldPlan,
    settings: WorldSettings = SETTINGS,
    *,
    before: Callable[[World], None] | None = None,
    stop_s: float = np.inf,
) -> WorldResult:
    """Run a world without faults, to its end or until a moment."""
    world = World(plan, seed=3, settings=settings)
    if before is not None:
        before(world)
    if stop_s == np.inf:
        return world.run()
    while world.context.agenda.elapsed_s < stop_s and world.context.agenda.step():
        pass
    return world.result()


def held(plan: WorldPlan, result: WorldResult, at_s: np.ndarray) -> np.ndarray:
    """Return (queue, moment): the cores held."""
    begin = (result.times.leased_us - START_US) / 1e6
    end = np.where(result.times.finished_us > 0, (result.times.finished_us - START_US) / 1e6, np.inf)
    begin = np.where(result.times.leased_us > 0, begin, np.inf)
    cores = np.array([dict(kind.requests)["cpu"] / 1000 for kind in plan.classes])[plan.class_index]
    queue = np.array([queue for queue, _ in plan.job_sets])[plan.job_set]
    rows = []
    for number in range(len(plan.queues)):
        mine = queue == number
        begun = np.sort(begin[mine]), np.argsort(begin[mine], kind="stable")
        ended = np.sort(end[mine]), np.argsort(end[mine], kind="stable")
        sums = [np.concatenate([[0.0], np.cumsum(cores[mine][order])]) for _, order in (begun, ended)]
        rows.append(
            sums[0][np.searchsorted(begun[0], at_s, "right")] - sums[1][np.searchsorted(ended[0], at_s, "right")]
        )
    return np.array(rows)


def started_s(result: WorldResult) -> np.ndarray:
    """Return when jobs were leased, seconds from the start."""
    return np.where(result.times.leased_us > 0, (result.times.leased_us - START_US) / 1e6, np.inf)

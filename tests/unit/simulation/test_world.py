"""Worlds whose course is known in advance."""

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from argosy_core.errors import InvalidRequest
from argosy_core.job.reading.classes import SchedulingClass
from argosy_core.job.reading.options import JobOptions
from argosy_core.job.states import JobState
from argosy_core.nodes import NodeSpec
from argosy_simulation import (
    START_US,
    ChangeRequestPlan,
    World,
    WorldPlan,
    WorldResult,
    WorldSettings,
    draw_world,
)
from argosy_testkit.simulated_worlds import NO_FAULTS


def make_plan(
    submit_s: list[float],
    run_s: list[float],
    *,
    cores: int = 2,
    exit_code: int = 0,
    layout: int = 0,
    change_requests: tuple[ChangeRequestPlan, ...] = (),
) -> WorldPlan:
    """One cluster with one node of four cores; all jobs alike."""
    count = len(submit_s)
    zeros = np.zeros(count, dtype=np.int32)
    return WorldPlan(
        clusters=(("alpha", (NodeSpec(name="n0", total={"cpu": 4000, "memory": 1 << 33}),)),),
        queues=(("alice", 1.0),),
        classes=(SchedulingClass(requests=(("cpu", 1000 * cores),)),),
        job_sets=((0, "set"),),
        submit_s=np.array(submit_s),
        run_s=np.array(run_s),
        class_index=zeros,
        job_set=zeros,
        priority=zeros,
        exit_code=zeros + exit_code,
        layout=zeros + layout,
        change_requests=change_requests,
    )


def run(plan: WorldPlan, seed: int = 1) -> WorldResult:
    """Run a world without faults."""
    return World(plan, seed=seed, settings=WorldSettings()).run()


def seconds(moments_us: np.ndarray) -> list[float]:
    """Return moments as seconds from the start."""
    return ((moments_us - START_US) / 1e6).tolist()


def test_third_job_starts_when_one_of_two_ends() -> None:
    """A node of four cores runs two jobs of two cores; the third waits for the first end, and little longer."""
    times = run(make_plan([0.0, 0.0, 1.0], [10.0, 30.0, 5.0])).times
    running = seconds(times.running_us)
    assert max(running[:2]) < 6.0  # the mesh has to come up first
    first_end = running[0] + 10.0
    assert first_end < running[2] < first_end + 2.0
    assert seconds(times.finished_us)[2] == pytest.approx(running[2] + 5.0, abs=0.1)
    assert (times.state == JobState.SUCCEEDED).all()


@pytest.mark.parametrize(("exit_code", "end"), [(0, JobState.SUCCEEDED), (3, JobState.FAILED)], ids=["well", "badly"])
@pytest.mark.parametrize("layout", [0, 1], ids=["pod", "bag"])
def test_job_ends_as_its_pod_does(exit_code: int, end: JobState, layout: int) -> None:
    """What the pod did is what becomes of the job, alone or in a bag."""
    result = run(make_plan([0.0], [5.0], exit_code=exit_code, layout=layout))
    assert result.times.state.tolist() == [end]
    assert result.counters["pods made"] == 1


def test_endless_run_is_stopped_at_its_time_limit_though_the_leader_dies() -> None:
    """The limit counts from when the run began, whoever leads by then, and the next job gets its place."""
    limit = np.array([40, -1], dtype=np.int32)
    plan = replace(
        make_plan([0.0, 1.0], [np.inf, 5.0], cores=4),
        options=replace(JobOptions.unset(2), time_limit_s=limit),
    )
    faults = replace(NO_FAULTS, until_s=30.0, leader_crashes=3)
    result = World(plan, seed=1, settings=WorldSettings(), faults=faults).run()
    assert result.times.state.tolist() == [JobState.FAILED, JobState.SUCCEEDED]
    began, ended = seconds(result.times.running_us)[0], seconds(result.times.finished_us)[0]
    assert began + 40.0 <= ended < began + 60.0
    assert result.counters["pods made"] == 2


def test_cancelled_job_ends_and_leaves_nothing() -> None:
    """A cancel request stops an endless pod; the world comes to rest only if nothing of it is left."""
    plan = make_plan([0.0], [np.inf], change_requests=(ChangeRequestPlan(at_s=60.0, jobs=(0,)),))
    world = World(plan, seed=1)
    result = world.run()
    assert result.times.state.tolist() == [JobState.CANCELLED]
    assert 60.0 < seconds(result.times.finished_us)[0] < 62.0
    assert not world.clusters[0].objects


def test_endless_job_is_the_same_everywhere_at_rest() -> None:
    """Rows, pods, placements and memories agree while a pod goes on."""
    world = World(make_plan([0.0], [np.inf]), seed=1)
    world.run()
    assert len(world.clusters[0].unfinished_pods()) == 1
    assert world.samplers[0].ledger.placement_count == 1


def test_idle_time_costs_nothing() -> None:
    """A year without anything to do passes in as few events as a minute."""
    soon = run(make_plan([0.0, 100.0], [1.0, 1.0]))
    late = run(make_plan([0.0, 31_536_000.0], [1.0, 1.0]))
    assert late.elapsed_s > 31_536_000.0
    assert late.step_count <= soon.step_count + 10


def test_one_seed_gives_one_world() -> None:
    """Same plan and seed: same fingerprint, bit for bit; another seed: another one."""
    first, second, other = (draw_world(seed, check_steps=0).run() for seed in (1, 1, 12))
    assert first.fingerprint == second.fingerprint
    assert (first.times.finished_us == second.times.finished_us).all()
    assert first.fingerprint != other.fingerprint


def test_fingerprint_does_not_depend_on_the_process() -> None:
    """The order of sets of texts differs between processes; nothing may depend on it."""
    program = "from argosy_simulation import draw_world; print(draw_world(2, check_steps=0).run().fingerprint)"
    found = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"submit_s": np.array([1.0, 0.0])},
        {"run_s": np.array([1.0])},
        {"class_index": np.array([0, 1], dtype=np.int32)},
    ],
    ids=["order", "length", "class"],
)
def test_impossible_plan_is_refused(change: dict[str, np.ndarray]) -> None:
    """Columns must fit each other and name what exists."""
    plan = make_plan([0.0, 1.0], [1.0, 1.0])
    values = {name: getattr(plan, name) for name in plan.__slots__}
    with pytest.raises(InvalidRequest):
        WorldPlan(**{**values, **change})


@pytest.mark.parametrize(
    "change", [{"message_s": (2.0, 1.0)}, {"fence_s": 3.0}, {"max_steps": 0}], ids=["range", "fence", "steps"]
)
def test_impossible_settings_are_refused(change: dict[str, object]) -> None:
    """Delays with which nothing can work are no settings."""
    with pytest.raises(InvalidRequest):
        WorldSettings(**change)  # type: ignore[arg-type]

"""Worlds in which executors are cut off from their leaders, and jobs wait for them for some time only.

A world that fails prints its seed.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from argosy_core.job.states import JobState
from argosy_core.leader import MachineSettings
from argosy_core.leader.sessions import ClusterSessions
from argosy_core.nodes import NodeSpec
from argosy_core.reconcile import Fence
from argosy_core.reconcile.cut_off import CutOff
from argosy_core.scheduler import RoundSettings
from argosy_simulation import FaultSettings, World, WorldPlan, WorldSettings, draw_plan
from argosy_testkit.simulated_worlds import NO_FAULTS, fails_within

STOP_AFTER_S = 40.0
"""As jobs of layout 4 say."""
MARGIN_S = 120.0
"""The default: how much later a leader counts a run as lost."""
CUT_OFF_AT_S = 10.0
RESTART_S = 1.0
FAULTS = replace(
    NO_FAULTS, until_s=300.0, executor_isolations=8, stream_cuts=10, leader_depositions=4, call_loss_ratio=0.05
)


def cut_off_world(seed: int, faults: FaultSettings = FAULTS, margin_s: float = MARGIN_S) -> World:
    """Return a random world whose jobs wait for executors for a while, and run for minutes."""
    plan = draw_plan(np.random.default_rng([seed, 61]), 60.0)
    plan = replace(
        plan,
        layout=np.full(len(plan), 4, np.int32),
        run_s=np.minimum(20.0 * plan.run_s, 400.0),
        change_requests=(),
    )
    rounds = RoundSettings(max_runs=250, non_preemptible_excess_ratio=1e9)
    leader = MachineSettings(round=rounds, executor_lost_margin_s=margin_s)
    settings = WorldSettings(leader=leader, pod_stop_s=(0.0, 30.0), renew_s=(0.0, 10.0), check_steps=0)
    return World(plan, seed=seed, settings=settings, faults=faults)


def one_job_world(*, isolated_s: float, layout: int = 4, deposed_s: float = 0.0) -> World:
    """Return a world of two clusters and one job of ten minutes whose executor is cut off for a while from 10 s on.

    Args:
        isolated_s: For how long.
        layout: 4: the job waits 40 s for its executor; 1: for ever.
        deposed_s: When another leads, seconds from the start; 0 for never.
    """
    node = NodeSpec(name="n", total={"cpu": 4000, "memory": 8 << 30})
    zero, drawn = np.zeros(1, np.int32), draw_plan(np.random.default_rng(0), 60.0)
    plan = WorldPlan(
        clusters=(("a", (node,)), ("b", (node,))),
        queues=(("q", 1.0),),
        classes=drawn.classes[:1],
        job_sets=((0, "s"),),
        submit_s=np.array([5.0]),
        run_s=np.array([600.0]),
        layout=np.full(1, layout, np.int32),
        class_index=zero,
        job_set=zero,
        priority=zero,
        exit_code=zero,
    )
    leader = MachineSettings(round=RoundSettings(non_preemptible_excess_ratio=1e9))
    settings = WorldSettings(
        leader=leader, dial_s=(0.05, 0.05), restart_s=(RESTART_S, RESTART_S), pod_stop_s=(60.0, 60.0), check_steps=0
    )
    world = World(plan, seed=1, settings=settings)

    def isolate() -> None:
        (job,) = world.context.store.jobs.values()
        (run,) = job.runs.values()
        world.isolate_executor(["a", "b"].index(run.cluster), isolated_s)

    world.context.agenda.after(CUT_OFF_AT_S, world.clusters[0], isolate)
    if deposed_s:
        world.context.agenda.after(deposed_s, world.clusters[0], world.elect)
    return world


def restarted_world() -> World:
    """Return a world in which an executor dies when it is cut off, and its successor is so, too."""
    world = one_job_world(isolated_s=500.0)
    isolate = world.isolate_executor

    def isolate_and_restart(index: int, length_s: float) -> None:
        isolate(index, length_s)
        world.restart_executor(index)
        world.context.agenda.after(RESTART_S + 0.0005, world.clusters[0], isolate, index, length_s)

    world.isolate_executor = isolate_and_restart  # type: ignore[method-assign]
    return world


def runs_of(world: World) -> list[tuple[str, JobState]]:
    """Return the cluster of each run of the only job, and how the job ended."""
    world.run()
    (job,) = world.context.store.jobs.values()
    return [(run.cluster, JobState(job.state)) for _, run in sorted(job.runs.items())]


def test_run_goes_on_if_its_executor_is_back_in_time() -> None:
    """An executor counts from the last word of its leader, a heartbeat before it was cut off at most."""
    assert len(runs_of(one_job_world(isolated_s=STOP_AFTER_S - 6.0))) == 1


@pytest.mark.parametrize("late_s", [3.0, 60.0, MARGIN_S - 1.0, MARGIN_S + 1.0, 500.0])
def test_job_runs_again_once_if_its_executor_is_back_too_late(late_s: float) -> None:
    """Whether the executor tells that it stopped the run, or its leader counted it as lost before it was back."""
    runs = runs_of(one_job_world(isolated_s=STOP_AFTER_S + late_s))
    assert [state for _, state in runs] == [JobState.SUCCEEDED] * 2
    if late_s > MARGIN_S + 10.0:  # a leader notices after some heartbeats
        assert runs[0][0] != runs[1][0]


def test_run_is_waited_for_if_its_job_does_not_say_otherwise() -> None:
    """By default no job runs twice for want of news."""
    assert len(runs_of(one_job_world(isolated_s=900.0, layout=1))) == 1


@pytest.mark.parametrize("deposed_s", [CUT_OFF_AT_S - 0.5, 60.0, 160.0])
def test_next_leader_counts_silence_from_when_it_leads(deposed_s: float) -> None:
    """Time in which nobody could have heard an executor is not its silence; two leaders give up no run twice."""
    assert len(runs_of(one_job_world(isolated_s=500.0, deposed_s=deposed_s))) == 2


def test_executor_that_was_restarted_while_it_is_cut_off_stops_what_it_finds() -> None:
    """It cannot know for how long its predecessor was, so it looks for a leader for half a minute only."""
    assert len(runs_of(restarted_world())) == 2


def test_no_job_runs_twice_at_once_in_a_world_with_executors_that_are_cut_off() -> None:
    """Whatever else goes wrong: leaders that are replaced, calls that are lost, pods that take half a minute to end."""
    world = cut_off_world(0)
    world.run()
    assert sum(len(job.runs) - 1 for job in world.context.store.jobs.values()) > 3


# --- without one of its defences, a world must fail -----------------------------------------------------------------


def test_without_stopping_what_is_cut_off_a_job_that_runs_twice_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader gives a run up that its executor lets go on."""
    overdue = CutOff.overdue
    monkeypatch.setattr(CutOff, "overdue", lambda self, _silent_s: overdue(self, 0.0))
    assert fails_within(1, lambda _: one_job_world(isolated_s=500.0))


def test_without_a_margin_a_job_that_runs_twice_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader does not wait until the pods have ended that the executor stops."""
    begin = ClusterSessions._begin_silence

    def begin_early(self: ClusterSessions, cluster: str) -> None:
        begin(self, cluster)
        silence = self._term.state.silence
        silence.begin(self._term.state.clusters.index(cluster), self._term.now.db_s)

    one_job_world(isolated_s=500.0).run()
    monkeypatch.setattr(ClusterSessions, "_begin_silence", begin_early)
    assert fails_within(1, lambda _: one_job_world(isolated_s=500.0))


def test_without_a_bound_for_the_first_contact_a_job_that_runs_twice_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A restarted executor waits for a leader for ever."""
    silent_s = Fence.silent_s

    def never(self: Fence, now_s: float) -> float:
        return 0.0 if self._confirmed_at_s is None else silent_s(self, now_s)

    monkeypatch.setattr(Fence, "silent_s", never)
    assert fails_within(1, lambda _: restarted_world())

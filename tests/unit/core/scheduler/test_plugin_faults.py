"""Plugins that fail or ask to wait, from the round to the lease."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from argosy_core.framework import CandidateCycle, Cycle, JobBatch, NotNow, PlacementBatch, Point, Registration
from argosy_core.placement import WaitReason
from argosy_core.scheduler import RoundSettings, count_waiting, explain
from argosy_testkit.leader_world import LeaderWorld

_SETTINGS = RoundSettings(clusters_to_sample_ratio=1.0)


@pytest.mark.parametrize("error", [ConnectionError("away"), NotNow("closed")], ids=["error", "wait"])
@pytest.mark.parametrize("reads_nodes_only", [True, False])
def test_filter_that_fails_for_a_while_holds_back_its_class_for_as_long(
    *, error: Exception, reads_nodes_only: bool
) -> None:
    """The other class runs meanwhile, nothing has to happen on a node afterwards, and no job fails."""
    world = LeaderWorld(clusters={"a": 4, "b": 4}, settings=_SETTINGS)
    world.define_class(2, cpu=500)
    is_away = [True]

    def licences(cycle: Cycle) -> None:
        requests = [dict(cycle.pods.definition(pod).requests) for pod in range(len(cycle))]
        if is_away and any(amounts["cpu"] == 500 for amounts in requests):
            raise error

    for cluster in world.clusters.values():
        cluster.sampling.sampler.framework.register(
            Registration(point=Point.FILTER, name="licences", function=licences, reads_nodes_only=reads_nodes_only)
        )
    held_back, others = world.submit(3, class_id=2), world.submit(3)
    leased: list[int] = []
    for _ in range(4):
        world.now_s += 30.0
        leased += world.round().handle.tolist()
    assert sorted(leased) == others
    is_away.clear()
    for _ in range(4):
        world.now_s += 30.0
        leased += world.round().handle.tolist()
    assert sorted(leased) == sorted([*held_back, *others])


def test_run_that_a_plugin_refuses_at_the_commit_is_tried_again_and_never_fails() -> None:
    """Refusals are no conflicts: they do not count towards the attempts after which a job fails."""
    settings = RoundSettings(clusters_to_sample_ratio=1.0, max_failed_attempts=2)
    world = LeaderWorld(clusters={"a": 4}, settings=settings)
    is_open: list[bool] = []

    def refuse(batch: PlacementBatch) -> np.ndarray:
        return np.full(len(batch), bool(is_open))

    world.clusters["a"].sampling.sampler.framework.register(
        Registration(point=Point.RESERVE, name="refuse", function=refuse)
    )
    handles = world.submit(3)
    for _ in range(5):
        world.now_s += 30.0
        plan = world.round()
        assert (plan.handle.size, plan.failed_handle.size) == (0, 0)
    assert world.round().handle.size == 0
    assert world.state.statistics.decided_count == 0, "tried again at once, in every round"
    is_open.append(True)
    world.now_s += 30.0
    assert sorted(world.round().handle.tolist()) == handles


@pytest.mark.parametrize(
    ("error", "reason", "after_s"),
    [(NotNow("closed", retry_after_s=20), WaitReason.PLUGIN, 20.0), (KeyError("zone"), WaitReason.FAULT, 1.0)],
    ids=["wait", "error"],
)
def test_class_that_a_plugin_of_the_leader_turns_away_waits_with_its_reason(
    error: Exception, reason: WaitReason, after_s: float
) -> None:
    """It is asked for again when the plugin wants to be asked, or after the back-off, and not before."""
    world = LeaderWorld(clusters={"a": 4}, settings=_SETTINGS)
    is_closed = [True]

    def refuse(_: CandidateCycle) -> None:
        if is_closed:
            raise error

    profile = world.state.decision_profile
    profile.framework.register(Registration(point=Point.FILTER, name="budget", function=refuse))
    handles = world.submit(3)
    assert world.round().handle.size == 0
    assert count_waiting(world.state)[reason] == 3
    is_closed.clear()
    world.now_s += 0.9 * after_s
    assert world.round().handle.size == 0
    world.now_s += 0.2 * after_s
    assert world.round().handle.tolist() == handles


def test_jobs_of_a_queue_are_leased_in_the_order_of_a_plugins_keys() -> None:
    """Between jobs of equal keys priority decides; a job on which the plugin fails has the key 0."""
    world = LeaderWorld(clusters={"a": 1}, settings=_SETTINGS)

    def by_job_set(jobs: JobBatch) -> np.ndarray:
        assert set(jobs.queue) == {"alice"}
        assert [definition.requests for definition in jobs.definition] == [(("cpu", 1000),)] * len(jobs)
        return np.array([int(name) for name in jobs.job_set])

    framework = world.state.decision_profile.framework
    framework.register(Registration(point=Point.QUEUE_SORT, name="by-job-set", function=by_job_set))
    late, low, high, failed = (
        world.submit(count, job_set=job_set, priority=priority)
        for count, job_set, priority in ((2, "9", 5), (2, "3", 0), (1, "3", 1), (2, "?", -1))
    )
    assert sorted(world.round().handle.tolist()) == sorted([*failed, *high, low[0]])
    (fault,) = framework.take_faults()
    assert (fault.point, fault.plugin, fault.count) == ("queue-sort", "by-job-set", 2)
    assert explain(world.state, late[0], world.now_s).queue_position == 1


def test_class_that_a_sampler_plugin_turned_away_is_asked_for_again_when_the_plugin_wants() -> None:
    """An event function that answers true ends the wait of what its own plugin turned away, and of nothing else."""
    world = LeaderWorld(clusters={"a": 4}, settings=_SETTINGS)
    world.define_class(2, cpu=500)
    is_open: list[int] = []
    framework = world.clusters["a"].sampling.sampler.framework

    def gate(class_cpu: int) -> Callable[[Cycle], None]:
        def judge(cycle: Cycle) -> None:
            asked = [dict(cycle.pods.definition(pod).requests)["cpu"] for pod in range(len(cycle))]
            if class_cpu in asked and class_cpu not in is_open:
                raise NotNow("closed", retry_after_s=600)

        return judge

    for name, cpu in (("one", 1000), ("other", 500)):
        framework.register(Registration(point=Point.FILTER, name=name, function=gate(cpu), reads_nodes_only=False))
        framework.register(Registration(point=Point.EVENT, name=name, function=lambda event, name=name: event == name))
    ones, others = world.submit(2), world.submit(2, class_id=2)
    assert world.round().handle.size == 0
    is_open += [500, 1000]
    for event, woken in (("none", []), ("other", others), ("one", ones)):
        framework.notify(event)
        world.send_capacity("a")
        world.now_s += 1.0
        assert sorted(world.round().handle.tolist()) == woken

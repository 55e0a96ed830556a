"""Runs on nodes that are not heard of: kept, or replaced after the time that their specs say."""

from __future__ import annotations

import numpy as np
import pytest

from argosy_core.job.reading.classes import GangGroup, SchedulingClass
from argosy_core.job.states import JobState
from argosy_core.leader.instructions import SendStops
from argosy_core.scheduler import next_due_s
from argosy_core.scheduler.runs.unheard import next_replacement_s
from argosy_testkit.leader_world import LeaderWorld
from argosy_testkit.world_rows import LOST_LAYOUT, POD_LAYOUT, Report

RUNNING, SUCCEEDED, CANCELLED, UNKNOWN = 3, 4, 6, 8
REPLACE_AFTER_S = 300.0


def unheard(layout: bytes = LOST_LAYOUT) -> tuple[LeaderWorld, int]:
    """Return a world with one job whose node is not heard of."""
    world = LeaderWorld(clusters={"a": 2, "b": 2})
    (handle,) = world.submit(1, layout=layout)
    world.round()
    report(world, handle, RUNNING)
    report(world, handle, UNKNOWN)
    return world, handle


def cluster_of(world: LeaderWorld, handle: int) -> str:
    """Return where a job's run is."""
    live = world.state.live
    return world.state.clusters.names[int(live.cluster[live.slots(np.array([handle]))[0]])]


def report(world: LeaderWorld, handle: int, state: int, attempt: int = 1) -> None:
    """Let the cluster of a job's run report a state."""
    world.report(cluster_of(world, handle), [Report(handle=handle, attempt=attempt, state=state)])


def pass_time(world: LeaderWorld, seconds: float) -> None:
    """Let time pass, and the leader see what is due."""
    world.now_s += seconds
    world.round()


def test_run_is_replaced_when_its_node_was_not_heard_of_for_as_long_as_its_spec_says() -> None:
    """Not before; the first run has ended as lost, and what is heard of it later is told to stop."""
    world, handle = unheard()
    where = cluster_of(world, handle)
    pass_time(world, REPLACE_AFTER_S - 1.0)
    assert world.job_state(handle) == JobState.RUNNING
    pass_time(world, 2.0)
    pass_time(world, 1.0)
    live = world.state.live
    slot = live.slots(np.array([handle]))[0]
    assert (int(live.attempt[slot]), int(live.failures[slot])) == (2, 1)
    world.sent(SendStops)
    world.report(where, [Report(handle=handle, attempt=1, state=RUNNING)])
    assert (where, handle, 1) in world.sent(SendStops)


def test_round_is_due_when_a_run_is_to_be_replaced() -> None:
    """Without any other news, and no later."""
    world, _ = unheard()
    assert next_due_s(world.state, world.now_s) == next_replacement_s(world.state) <= world.now_s + REPLACE_AFTER_S


def test_run_without_the_word_is_waited_for() -> None:
    """It may be running, and no job runs twice unless it says that it may."""
    world, handle = unheard(POD_LAYOUT)
    pass_time(world, 100 * REPLACE_AFTER_S)
    assert world.job_state(handle) == JobState.RUNNING
    assert next_replacement_s(world.state) > world.now_s


def test_node_that_is_heard_again_keeps_its_run() -> None:
    """And the time counts anew when it is not heard of once more."""
    world, handle = unheard()
    pass_time(world, REPLACE_AFTER_S - 1.0)
    report(world, handle, RUNNING)
    pass_time(world, 10.0)
    report(world, handle, UNKNOWN)
    pass_time(world, REPLACE_AFTER_S - 1.0)
    assert world.job_state(handle) == JobState.RUNNING
    report(world, handle, SUCCEEDED)
    pass_time(world, REPLACE_AFTER_S)
    assert world.job_state(handle) == JobState.SUCCEEDED


@pytest.mark.parametrize("passed_s", [0.0, REPLACE_AFTER_S - 1.0])
def test_next_leader_waits_as_long_again(passed_s: float) -> None:
    """Nobody knows how long the node was not heard of; waiting longer than asked runs no job twice."""
    world, handle = unheard()
    pass_time(world, passed_s)
    world.take_over()
    pass_time(world, REPLACE_AFTER_S - 1.0)
    assert world.job_state(handle) == JobState.RUNNING
    pass_time(world, 2.0)
    pass_time(world, 1.0)
    assert int(world.state.live.attempt[world.state.live.slots(np.array([handle]))[0]]) == 2


def test_members_that_are_heard_of_are_stopped_when_another_one_is_replaced() -> None:
    """The run has broken: those on healthy nodes end first, then the job waits for its next run."""
    world = LeaderWorld(clusters={"a": 2})
    world.define_gang(2, GangGroup(pod=SchedulingClass(requests=(("cpu", 3000),)), minimum=2, maximum=2))
    (handle,) = world.submit(1, class_id=2, layout=LOST_LAYOUT)
    world.round()
    world.report("a", [Report(handle=handle, member=member, state=RUNNING) for member in (0, 1)])
    world.report("a", [Report(handle=handle, member=1, state=UNKNOWN)])
    world.sent(SendStops)
    pass_time(world, REPLACE_AFTER_S + 1.0)
    pass_time(world, 1.0)
    assert world.sent(SendStops) == [("a", handle, 1)]
    assert world.job_state(handle) == JobState.RUNNING
    world.report("a", [Report(handle=handle, member=0, state=CANCELLED)])
    assert world.job_state(handle) == JobState.QUEUED

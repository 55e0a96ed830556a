"""The life of a run of several members, on different nodes, from its plan to its end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from argosy_core.job.states import FailureKind, JobEventKind, JobState, ObjectState, RunState
from argosy_core.job.tables.members import ordinal_of
from argosy_core.leader import instructions as say
from argosy_core.scheduler import LeasePlan, placements_of
from argosy_testkit.leader_world import LeaderWorld
from argosy_testkit.world_rows import BAG_LAYOUT, POD_LAYOUT, Report

CREATED, RUNNING = ObjectState.CREATED, ObjectState.RUNNING
SUCCEEDED, FAILED = ObjectState.SUCCEEDED, ObjectState.FAILED
CANCELLED, LOST, UNKNOWN = ObjectState.CANCELLED, ObjectState.LOST, ObjectState.UNKNOWN


def of_members(plan: LeasePlan, nodes: Sequence[str] = ("a-0", "a-1")) -> LeasePlan:
    """Return a plan of one lease with one member on each of some nodes, as gang placement would make it."""
    count = len(nodes)
    return replace(
        plan,
        handle=np.repeat(plan.handle, count),
        attempt=np.repeat(plan.attempt, count),
        cluster=np.repeat(plan.cluster, count),
        member=np.arange(count, dtype=np.int16),
        node=np.arange(count, dtype=np.int32),
        nodes=tuple(nodes),
    )


def run_of_two(layout: bytes = POD_LAYOUT) -> tuple[LeaderWorld, int]:
    """Return a world of two nodes of four cores, and a job of one core that has a member on each."""
    world = LeaderWorld(clusters={"a": 2})
    (handle,) = world.submit(1, layout=layout)
    world.take_over(unread=of_members(world.plan()))
    return world, handle


def tell(world: LeaderWorld, handle: int, *states: tuple[int, ObjectState], **report: object) -> None:
    """Have the executor report (member, state) of the run's first attempt."""
    world.report("a", [Report(handle=handle, member=m, state=int(s), **report) for m, s in states])  # type: ignore[arg-type]


def held(world: LeaderWorld) -> tuple[float, int]:
    """Return the cores that jobs hold, and the cores free by the leader's account."""
    index = world.state.clusters.index("a")
    cpu = world.state.classes.axis.index("cpu")
    return int(world.state.queues.usage.sum()) / 1e6, int(world.state.clusters.free[index, cpu]) // 1000


def rows_of(world: LeaderWorld, handle: int) -> dict[int, int]:
    """Return the state of the stored row of each member of the first attempt that has ended."""
    return {ordinal >> 32: run.state for ordinal, run in world.job(handle).runs.items() if run.ended}


def test_run_of_two_members_is_leased_stored_and_sent_member_by_member() -> None:
    """Each member has a row, a placement and its own objects; the job has one lease and holds what both do."""
    world, handle = run_of_two()
    assert world.job_state(handle) == JobState.LEASED
    assert world.kinds(handle) == [JobEventKind.SUBMITTED, JobEventKind.LEASED]
    assert {ordinal: run.node for ordinal, run in world.job(handle).runs.items()} == {1: "a-0", ordinal_of(1, 1): "a-1"}
    assert world.sent(say.SendRows) == [("a", handle, 1), ("a", handle, ordinal_of(1, 1))]
    placements = placements_of(world.state, "a")
    assert [placements.nodes[node] for node in placements.node] == ["a-0", "a-1"]
    assert world.clusters["a"].ledger.placement_count == 2
    assert held(world) == (2.0, 6)


def test_objects_of_members_have_names_of_their_own() -> None:
    """What the cluster makes of one member is not what it makes of another."""
    world, _ = run_of_two(BAG_LAYOUT)
    names = [name for one in world.stored if one.new_objects is not None for name in one.new_objects.name]
    assert len(set(names)) == len(names) == 6
    assert sum(name.endswith(b"-1-1") for name in names) == 3


def test_run_is_as_far_as_its_member_that_is_furthest_behind() -> None:
    """It is created and runs once all do."""
    world, handle = run_of_two()
    tell(world, handle, (0, CREATED), (0, RUNNING))
    assert world.kinds(handle)[2:] == []
    tell(world, handle, (1, CREATED))
    assert world.kinds(handle)[2:] == [JobEventKind.CREATED]
    tell(world, handle, (1, RUNNING))
    assert world.job_state(handle) == JobState.RUNNING
    tell(world, handle, (0, UNKNOWN))
    tell(world, handle, (0, RUNNING))
    assert world.kinds(handle)[3:] == [JobEventKind.RUNNING, JobEventKind.UNKNOWN, JobEventKind.RUNNING]


@pytest.mark.parametrize("takes_over", [False, True])
def test_run_succeeds_when_its_last_member_has(*, takes_over: bool) -> None:
    """What a member held is free at once; a leader that comes between the two ends knows of the first."""
    world, handle = run_of_two()
    tell(world, handle, (0, RUNNING), (1, RUNNING))
    tell(world, handle, (0, SUCCEEDED))
    assert world.job_state(handle) == JobState.RUNNING
    assert rows_of(world, handle) == {0: RunState.SUCCEEDED}
    if takes_over:
        world.take_over()
    assert held(world) == (1.0, 7)
    assert world.clusters["a"].ledger.placement_count == 1
    assert placements_of(world.state, "a").members.pairs() == [(handle, ordinal_of(1, 1))]
    tell(world, handle, (0, FAILED))  # late, and of no account
    tell(world, handle, (1, SUCCEEDED))
    assert world.job_state(handle) == JobState.SUCCEEDED
    assert rows_of(world, handle) == {0: RunState.SUCCEEDED, 1: RunState.SUCCEEDED}
    assert held(world) == (0.0, 8)
    assert world.clusters["a"].ledger.placement_count == 0
    assert not len(world.state.live.members)


def test_members_that_end_together_end_the_run_once() -> None:
    """One report of everything is as good as many."""
    world, handle = run_of_two()
    tell(world, handle, *((member, state) for state in (CREATED, RUNNING, SUCCEEDED) for member in (0, 1)))
    assert world.kinds(handle)[2:] == [JobEventKind.CREATED, JobEventKind.RUNNING, JobEventKind.SUCCEEDED]
    assert rows_of(world, handle) == {0: RunState.SUCCEEDED, 1: RunState.SUCCEEDED}


@pytest.mark.parametrize("takes_over", [False, True])
def test_member_that_fails_has_the_others_stopped_and_fails_the_job(*, takes_over: bool) -> None:
    """The job tells what the member failed of, whoever leads when the last member is gone."""
    world, handle = run_of_two()
    tell(world, handle, (0, RUNNING), (1, RUNNING))
    tell(world, handle, (1, FAILED), failure=FailureKind.EXIT_CODE, exit_code=3, text="three")
    assert world.sent(say.SendStops) == [("a", handle, 1)]
    assert world.job_state(handle) == JobState.RUNNING
    if takes_over:
        world.take_over()
        assert world.sent(say.SendStops)[1:] == [("a", handle, 1)]
    tell(world, handle, (0, CANCELLED))
    assert world.job_state(handle) == JobState.FAILED
    assert rows_of(world, handle) == {0: RunState.CANCELLED, 1: RunState.FAILED}
    assert "three" in [text for one in world.stored for draft in one.events for text in draft.texts]
    assert world.job(handle).runs[ordinal_of(1, 0)].reason.startswith("stopped: a member of its run failed")
    assert held(world) == (0.0, 8)


@pytest.mark.parametrize("takes_over", [False, True])
def test_member_whose_node_is_lost_has_the_run_tried_again(*, takes_over: bool) -> None:
    """The others are stopped; the job waits again, and that counts as one failure of a run."""
    world, handle = run_of_two()
    tell(world, handle, (0, RUNNING), (1, RUNNING))
    tell(world, handle, (0, LOST))
    assert world.sent(say.SendStops) == [("a", handle, ordinal_of(1, 1))]
    if takes_over:
        world.take_over()
    tell(world, handle, (1, CANCELLED))
    assert world.job_state(handle) == JobState.QUEUED
    assert rows_of(world, handle) == {0: RunState.LOST, 1: RunState.CANCELLED}
    world.take_over()
    slot = world.state.live.slots(np.array([handle]))
    assert (world.state.live.failures[slot].tolist(), world.state.live.attempt[slot].tolist()) == ([1], [1])
    assert held(world) == (0.0, 8)


def test_cancelled_run_stops_all_its_live_members() -> None:
    """A stop is of members, and none goes to one that has ended."""
    world, handle = run_of_two()
    tell(world, handle, (0, RUNNING), (1, RUNNING))
    tell(world, handle, (0, SUCCEEDED))
    world.cancel([handle])
    world.round()
    assert world.sent(say.SendStops) == [("a", handle, ordinal_of(1, 1))]
    tell(world, handle, (1, FAILED))
    assert world.job_state(handle) == JobState.CANCELLED
    assert rows_of(world, handle) == {0: RunState.SUCCEEDED, 1: RunState.CANCELLED}


def test_member_of_several_objects_ends_with_its_last_pod() -> None:
    """The rule of bags holds within each member."""
    world, handle = run_of_two(BAG_LAYOUT)
    for member in (0, 1):
        for pod in (1, 2):
            world.report("a", [Report(handle=handle, member=member, object_index=pod, state=int(RUNNING))])
    world.report("a", [Report(handle=handle, member=0, object_index=1, state=int(SUCCEEDED))])
    assert rows_of(world, handle) == {}
    world.take_over()
    world.report("a", [Report(handle=handle, member=0, object_index=2, state=int(SUCCEEDED))])
    assert rows_of(world, handle) == {0: RunState.SUCCEEDED}
    world.report("a", [Report(handle=handle, member=1, object_index=0, state=int(FAILED))])
    assert world.sent(say.SendStops) == [("a", handle, ordinal_of(1, 1))]
    world.report("a", [Report(handle=handle, member=1, object_index=pod, state=int(CANCELLED)) for pod in (1, 2)])
    assert world.job_state(handle) == JobState.FAILED


def test_executor_that_restarts_is_sent_the_members_that_it_does_not_know() -> None:
    """Members are compared, not runs."""
    world, handle = run_of_two()
    world.clusters["a"].made.discard((handle, 1))
    world.reconnect_executor("a")
    assert world.sent(say.SendRows)[2:] == [("a", handle, 1)]


def test_members_that_no_run_has_are_stopped_and_change_nothing() -> None:
    """What an executor says of a member that was never leased is strange, and so is member 1 of a run of one."""
    world, handle = run_of_two()
    (single,) = world.submit(1)
    world.round()
    tell(world, handle, (7, RUNNING))
    tell(world, single, (1, RUNNING))
    assert sorted(world.sent(say.SendStops)) == sorted(
        [("a", handle, ordinal_of(1, 7)), ("a", single, ordinal_of(1, 1))]
    )
    assert world.job_state(handle) == world.job_state(single) == JobState.LEASED


def test_cluster_that_is_forgotten_loses_all_members() -> None:
    """The run is lost as a whole and the job waits again."""
    world, handle = run_of_two()
    tell(world, handle, (0, RUNNING), (1, RUNNING))
    world.forget("a")
    assert world.job_state(handle) == JobState.QUEUED
    assert rows_of(world, handle) == {0: RunState.LOST, 1: RunState.LOST}


def test_what_is_left_of_a_member_that_has_ended_is_stopped_while_the_others_run() -> None:
    """An executor that restarted finds an object that its predecessor had not deleted; no row of it will ever come."""
    world, handle = run_of_two(BAG_LAYOUT)
    for member, state in ((0, RUNNING), (1, RUNNING), (0, SUCCEEDED)):
        pods = [Report(handle=handle, member=member, object_index=pod, state=int(state)) for pod in (1, 2)]
        world.report("a", pods)
    assert rows_of(world, handle) == {0: RunState.SUCCEEDED}
    assert world.sent(say.SendStops) == []
    world.report("a", [Report(handle=handle, object_index=0, state=int(RUNNING))])
    assert world.sent(say.SendStops) == [("a", handle, 1)]
    assert world.job_state(handle) == JobState.RUNNING

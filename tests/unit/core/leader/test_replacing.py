"""Members that are lost or fail are placed anew while the others of their run go on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from argosy_core.job.reading.classes import GangGroup, SchedulingClass
from argosy_core.job.states import FailureKind, JobEventKind, JobState, ObjectState, RunState
from argosy_core.job.tables.members import member_of, number_of, ordinal_of
from argosy_core.leader import instructions as say
from argosy_core.scheduler import RoundSettings, explain, placements_of
from argosy_testkit.leader_world import LeaderWorld
from argosy_testkit.world_rows import KEEP_LOST_LAYOUT, POD_LAYOUT, REPLACE_LAYOUT, Report

RUNNING, SUCCEEDED = ObjectState.RUNNING, ObjectState.SUCCEEDED
FAILED, LOST, CANCELLED = ObjectState.FAILED, ObjectState.LOST, ObjectState.CANCELLED
SECOND = number_of(1, 1)
"""Number of the first replacement of member 1."""


def world_of_two(*, nodes: int = 3, layout: bytes = KEEP_LOST_LAYOUT) -> tuple[LeaderWorld, int]:
    """Return a world of nodes of four cores, and a job that runs with a member of four cores on each of two."""
    world = LeaderWorld(clusters={"a": nodes}, settings=RoundSettings(promised_nodes_ratio=0.0))
    pod = SchedulingClass(requests=(("cpu", 4000),))
    world.define_gang(2, GangGroup(name="workers", pod=pod, minimum=2, maximum=2))
    (handle,) = world.submit(1, class_id=2, layout=layout)
    world.round()
    tell(world, handle, (0, RUNNING), (1, RUNNING), object_index=int(layout is REPLACE_LAYOUT))
    return world, handle


def tell(world: LeaderWorld, handle: int, *states: tuple[int, ObjectState], **report: Any) -> None:
    """Have the executor report (member, state) of pods of a run's first attempt."""
    world.report("a", [Report(handle=handle, member=m, state=int(s), **report) for m, s in states])


def later(world: LeaderWorld, seconds: float = 60.0) -> None:
    """Let time pass, and have the leader do what is due."""
    world.now_s += seconds
    world.round()


def runs_of(world: LeaderWorld, handle: int) -> dict[int, str]:
    """Return how each stored member of a job ended, or its node while it is live, by number."""
    rows = sorted(world.job(handle).runs.items())
    return {member_of(ordinal): RunState(run.state).name if run.ended else run.node for ordinal, run in rows}


@pytest.mark.parametrize("takes_over", [False, True])
def test_lost_member_is_placed_anew_and_its_peer_runs_on(*, takes_over: bool) -> None:
    """It has the same place and the next number there, another node, and the run is the same; it ends with the last."""
    world, handle = world_of_two()
    before = runs_of(world, handle)
    (spare,) = {"a-0", "a-1", "a-2"} - set(before.values())
    tell(world, handle, (1, LOST))
    assert world.job_state(handle) == JobState.RUNNING
    assert world.sent(say.SendStops) == []
    if takes_over:
        world.take_over()
    later(world)
    assert runs_of(world, handle) == {0: before[0], 1: "LOST", SECOND: spare}
    assert world.sent(say.SendRows)[-1:] == [("a", handle, ordinal_of(1, SECOND))]
    assert sorted(placements_of(world.state, "a").members.ordinal.tolist()) == [1, ordinal_of(1, SECOND)]
    assert world.clusters["a"].ledger.placement_count == 2
    assert (world.state.totals["members_replaced"], world.state.totals["members_grown"]) == (1, 0)
    tell(world, handle, (SECOND, RUNNING))
    came_and_went = [JobEventKind.MEMBER_ENDED, JobEventKind.MEMBER_LEASED, JobEventKind.MEMBER_RUNNING]
    assert world.kinds(handle)[2:] == [JobEventKind.CREATED, JobEventKind.RUNNING, *came_and_went]
    tell(world, handle, (0, SUCCEEDED), (SECOND, SUCCEEDED))
    assert world.job_state(handle) == JobState.SUCCEEDED
    assert not len(world.state.live.members)
    assert not len(world.state.vacancies)
    assert world.clusters["a"].ledger.placement_count == 0


@pytest.mark.parametrize("takes_over", [False, True])
def test_members_of_a_run_past_its_time_limit_say_so(*, takes_over: bool) -> None:
    """Each says why it was stopped, whoever leads by then; what had ended before says nothing."""
    world, _ = world_of_two(nodes=4)
    (handle,) = world.submit(1, class_id=2, layout=KEEP_LOST_LAYOUT, options=(-1, 60, -1))
    world.round()
    tell(world, handle, (0, RUNNING), (1, RUNNING))
    tell(world, handle, (0, SUCCEEDED))
    later(world)
    assert ("a", handle, ordinal_of(1, 1)) in world.sent(say.SendStops)
    if takes_over:
        world.take_over()
    tell(world, handle, (1, CANCELLED))
    reasons = {member_of(ordinal): run.reason for ordinal, run in world.job(handle).runs.items()}
    assert reasons[1] == "its run reached its time limit"
    assert not reasons[0]
    assert world.job_state(handle) == JobState.FAILED


@pytest.mark.parametrize("layout", [POD_LAYOUT, KEEP_LOST_LAYOUT], ids=["endRun", "replaceLost"])
def test_member_that_fails_ends_the_run_where_nothing_else_is_said(layout: bytes) -> None:
    """What fails by itself is replaced only where the job says so."""
    world, handle = world_of_two(layout=layout)
    tell(world, handle, (1, FAILED), failure=FailureKind.EXIT_CODE, exit_code=3)
    assert world.sent(say.SendStops) == [("a", handle, 1)]
    tell(world, handle, (0, CANCELLED))
    assert world.job_state(handle) == JobState.FAILED


def test_lost_member_ends_the_run_where_nothing_is_said() -> None:
    """Its peers may not be able to go on with another one."""
    world, handle = world_of_two(layout=POD_LAYOUT)
    tell(world, handle, (1, LOST))
    assert world.sent(say.SendStops) == [("a", handle, 1)]


def test_members_are_replaced_until_as_many_are_lost_as_runs_may_fail() -> None:
    """Three may be lost of a job whose rules allow three failed runs: with the third the run is broken."""
    world, handle = world_of_two(layout=REPLACE_LAYOUT, nodes=3)
    for replacement in range(2):
        number = number_of(1, replacement)
        rows = [Report(handle=handle, member=number, object_index=1, state=int(FAILED), failure=FailureKind.EXIT_CODE)]
        rows += [Report(handle=handle, member=number, object_index=0, state=int(CANCELLED))]
        world.report("a", rows)
        assert world.job_state(handle) == JobState.RUNNING
        later(world)
        assert number_of(1, replacement + 1) in runs_of(world, handle)
    world.report("a", [Report(handle=handle, member=number_of(1, 2), object_index=1, state=int(LOST))])
    assert ("a", handle, 1) in world.sent(say.SendStops)


def test_members_wait_ever_longer_before_they_are_replaced() -> None:
    """The first back-off is the installation's."""
    world, handle = world_of_two()
    tell(world, handle, (1, LOST))
    back_off_s = world.state.settings.back_off_initial_s
    later(world, back_off_s * 0.9)
    assert SECOND not in runs_of(world, handle)
    later(world, back_off_s * 0.2)
    assert SECOND in runs_of(world, handle)


def test_service_of_a_replacement_has_the_name_that_its_peers_know() -> None:
    """Its pod has a name of its own."""
    world, handle = world_of_two(layout=REPLACE_LAYOUT)
    first = {name for one in world.stored if one.new_objects is not None for name in one.new_objects.name}
    rows = [Report(handle=handle, member=1, object_index=1, state=int(LOST))]
    world.report("a", rows)
    later(world)
    (objects,) = [one.added_objects for one in world.stored if one.added_objects is not None]
    service, pod = objects.name
    assert service in first
    assert pod not in first


def test_member_without_room_waits_and_its_peer_keeps_its_node() -> None:
    """It is tried again, and gets what comes free."""
    world, handle = world_of_two(nodes=2)
    world.define_class(3, cpu=1000)
    before = runs_of(world, handle)
    tell(world, handle, (1, LOST))
    (small,) = world.submit(1, class_id=3)
    world.round()
    assert world.job_state(small) == JobState.LEASED
    for _ in range(4):
        later(world, 20.0)
    assert runs_of(world, handle) == {0: before[0], 1: "LOST"}
    vacancy = world.state.vacancies.get(handle)
    assert vacancy is not None
    told = explain(world.state, handle, world.now_s)
    assert told is not None
    assert "member 1 is lost and is placed anew" in told.summary
    assert "no room" in told.summary
    tell(world, small, (0, RUNNING), (0, SUCCEEDED))
    later(world)
    assert runs_of(world, handle) == {0: before[0], 1: "LOST", SECOND: before[1]}


def test_run_that_waits_too_long_for_a_member_is_given_up_for_a_whole_new_one() -> None:
    """Its peers would hold nodes for ever; that costs the job none of its failures."""
    world, handle = world_of_two(nodes=2)
    world.define_class(3, cpu=1000)
    tell(world, handle, (1, LOST))
    world.submit(1, class_id=3)
    world.round()
    for _ in range(32):
        later(world, 20.0)
    assert world.sent(say.SendStops)[-1:] == [("a", handle, 1)]
    tell(world, handle, (0, CANCELLED))
    assert world.job_state(handle) == JobState.QUEUED
    assert int(world.state.live.failures[world.state.live.slots(np.array([handle]))[0]]) == 0


@pytest.mark.parametrize("dies", ["before the log", "after the log", "after the store"])
def test_leader_that_dies_between_loss_and_replacement_leaves_one_replacement(dies: str) -> None:
    """Nobody is placed twice, and what was placed and never published is given back."""
    world, handle = world_of_two()
    tell(world, handle, (1, LOST))
    world.now_s += 60.0
    plan = world.plan()
    assert plan.added is not None
    if dies == "after the store":
        world.ingest(plan)
    world.take_over(unread=plan if dies == "after the log" else None)
    later(world)
    live = {number for number, text in runs_of(world, handle).items() if text.startswith("a-")}
    assert live == {0, SECOND}
    assert world.clusters["a"].ledger.placement_count == 2
    tell(world, handle, (SECOND, RUNNING), (SECOND, SUCCEEDED), (0, SUCCEEDED))
    assert world.job_state(handle) == JobState.SUCCEEDED


def test_replacement_is_stopped_with_the_run_that_a_peer_ends() -> None:
    """It is a member as any other, and the run ends with the last of them."""
    world, handle = world_of_two()
    tell(world, handle, (1, LOST))
    later(world)
    tell(world, handle, (0, FAILED), failure=FailureKind.EXIT_CODE)
    assert world.sent(say.SendStops) == [("a", handle, ordinal_of(1, SECOND))]
    tell(world, handle, (SECOND, CANCELLED))
    assert world.job_state(handle) == JobState.FAILED
    assert world.clusters["a"].ledger.placement_count == 0


def test_run_whose_last_live_member_ends_ends_with_it() -> None:
    """Nobody is placed for a run of which nobody is left; a lost member makes it a lost run."""
    world, handle = world_of_two(nodes=2)
    tell(world, handle, (1, LOST))
    tell(world, handle, (0, SUCCEEDED))
    assert runs_of(world, handle) == {0: "SUCCEEDED", 1: "LOST"}
    assert world.job_state(handle) == JobState.QUEUED
    assert not len(world.state.vacancies)

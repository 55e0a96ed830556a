"""Gangs grow with spare room towards their maxima, and are the first to give it back."""

from __future__ import annotations

from typing import Any

import pytest

from argosy_core.job.reading.classes import GangGroup, SchedulingClass
from argosy_core.job.states import FailureKind, JobState, ObjectState, RunState
from argosy_core.job.tables.members import member_of, number_of, ordinal_of, place_of
from argosy_core.leader import instructions as say
from argosy_core.queueing import to_cores
from argosy_core.scheduler import RoundSettings
from argosy_core.scheduler.memory.flows import non_preemptible_usage
from argosy_testkit.leader_world import LeaderWorld
from argosy_testkit.world_rows import Report

RUNNING, SUCCEEDED = ObjectState.RUNNING, ObjectState.SUCCEEDED
FAILED, LOST, CANCELLED = ObjectState.FAILED, ObjectState.LOST, ObjectState.CANCELLED


def world_of(*, nodes: int = 4, least: int = 1, most: int = 3) -> tuple[LeaderWorld, int]:
    """Return a world of nodes of four cores, and a job that runs with its least of members of four cores each."""
    world = LeaderWorld(clusters={"a": nodes}, settings=RoundSettings(promised_nodes_ratio=0.0))
    pod = SchedulingClass(requests=(("cpu", 4000),))
    world.define_gang(2, GangGroup(name="workers", pod=pod, minimum=least, maximum=most))
    world.define_class(3, cpu=4000)
    (handle,) = world.submit(1, class_id=2)
    world.round()
    tell(world, handle, *((member, RUNNING) for member in range(least)))
    return world, handle


def tell(world: LeaderWorld, handle: int, *states: tuple[int, ObjectState], **report: Any) -> None:
    """Have the executor report (member, state) of pods of a run's first attempt."""
    world.report("a", [Report(handle=handle, member=m, state=int(s), **report) for m, s in states])


def later(world: LeaderWorld, seconds: float = 11.0, turns: int = 1) -> None:
    """Let time pass, and have the leader do what is due."""
    for _ in range(turns):
        world.now_s += seconds
        world.round()


def live_members(world: LeaderWorld, handle: int) -> list[int]:
    """Return the numbers of the stored members of a job that have not ended."""
    return sorted(member_of(ordinal) for ordinal, run in world.job(handle).runs.items() if not run.ended)


def test_gang_grows_to_its_maximum_while_nobody_waits() -> None:
    """It begins with its minimum; its state stays what it is, and its queue is charged for all."""
    world, handle = world_of(nodes=6, least=2, most=4)
    assert live_members(world, handle) == [0, 1]
    later(world)
    assert live_members(world, handle) == [0, 1, 2, 3]
    assert world.job_state(handle) == JobState.RUNNING
    assert [key[2] for key in world.sent(say.SendRows)[-2:]] == [ordinal_of(1, 2), ordinal_of(1, 3)]
    assert int(world.state.queues.usage.sum()) == 16_000_000
    later(world, turns=5)
    assert live_members(world, handle) == [0, 1, 2, 3]


def test_gang_of_one_pod_grows_too() -> None:
    """Its only member gets a row of its own then."""
    world, handle = world_of(least=1, most=3)
    later(world)
    assert live_members(world, handle) == [0, 1, 2]


def test_gang_grows_by_what_there_is_room_for() -> None:
    """What has no room is tried again."""
    world, handle = world_of(nodes=3, least=2, most=8)
    later(world)
    assert live_members(world, handle) == [0, 1, 2]
    world.add_cluster("b", 3)  # is another cluster, and none of its
    later(world, turns=3)
    assert live_members(world, handle) == [0, 1, 2]


def test_extras_are_no_work_that_lasts() -> None:
    """The cap of what cannot be preempted sees the minimum alone."""
    world, _ = world_of(nodes=4, least=1, most=3)
    later(world)
    usage = world.state.queues.usage
    assert to_cores(usage).sum() == 12.0
    assert non_preemptible_usage(world.state, to_cores(usage)).sum() == 4.0


@pytest.mark.parametrize("takes_over", [False, True])
def test_extras_are_the_first_to_make_room_for_a_job_that_waits(*, takes_over: bool) -> None:
    """As many as it needs, the newest; the run goes on with the others, and grows no more for a while."""
    world, handle = world_of(nodes=3, least=1, most=3)
    later(world)
    assert live_members(world, handle) == [0, 1, 2]
    if takes_over:
        world.take_over()
        tell(world, handle, *((number, RUNNING) for number in range(3)))
    (waiting,) = world.submit(1, class_id=3)
    later(world, 1.0, turns=3)
    stopped = [ordinal for _, job, ordinal in world.sent(say.SendStops) if job == handle]
    assert stopped == [ordinal_of(1, 2)]
    tell(world, handle, (2, CANCELLED))
    assert world.job(handle).runs[ordinal_of(1, 2)].reason == "taken back: a job that waits needs its room"
    assert [world.state.totals[f"members_{kind}"] for kind in ("grown", "taken_back")] == [0 if takes_over else 2, 1]
    assert world.job_state(handle) == JobState.RUNNING
    later(world, 1.0, turns=2)
    assert world.job_state(waiting) == JobState.LEASED
    assert live_members(world, handle) == [0, 1]
    tell(world, waiting, (0, RUNNING), (0, SUCCEEDED))
    later(world, 20.0, turns=2)
    assert live_members(world, handle) == [0, 1]
    later(world, 30.0)
    assert live_members(world, handle) == [0, 1, number_of(2, 1)]


def test_gang_that_waits_has_extras_taken_back_for_all_its_pods() -> None:
    """Room on one node would be none for it."""
    world, handle = world_of(nodes=4, least=1, most=4)
    later(world)
    assert len(live_members(world, handle)) == 4
    pod = SchedulingClass(requests=(("cpu", 4000),))
    world.define_gang(4, GangGroup(name="pair", pod=pod, minimum=2, maximum=2))
    (waiting,) = world.submit(1, class_id=4)
    later(world, 1.0, turns=3)
    stopped = sorted(ordinal for _, job, ordinal in world.sent(say.SendStops) if job == handle)
    assert stopped == [ordinal_of(1, 2), ordinal_of(1, 3)]
    tell(world, handle, (2, CANCELLED), (3, CANCELLED))
    later(world, 1.0, turns=2)
    assert world.job_state(waiting) == JobState.LEASED


@pytest.mark.parametrize("ended", [0, 1])
def test_next_leader_neither_forgets_nor_repeats_a_shrink(ended: int) -> None:
    """It stops the same extras and no more for the same head, and the run does not grow before its pause is over."""
    world, handle = world_of(nodes=4, least=1, most=4)
    later(world)
    tell(world, handle, *((number, RUNNING) for number in range(4)))
    pod = SchedulingClass(requests=(("cpu", 4000),))
    world.define_gang(4, GangGroup(name="pair", pod=pod, minimum=2, maximum=2))
    (waiting,) = world.submit(1, class_id=4)
    later(world, 1.0, turns=3)
    tell(world, handle, *((number, CANCELLED) for number in (2, 3)[:ended]))
    world.take_over()
    tell(world, handle, *((number, RUNNING) for number in range(4)[: 4 - ended] if ended == 0 or number != 2))
    later(world, 1.0, turns=5)
    stopped = {ordinal for _, job, ordinal in world.sent(say.SendStops) if job == handle}
    assert stopped == {ordinal_of(1, 2), ordinal_of(1, 3)}
    tell(world, handle, *((number, CANCELLED) for number in (2, 3)[ended:]))
    later(world, 1.0, turns=3)
    assert world.job_state(waiting) == JobState.LEASED
    tell(world, waiting, *((number, state) for number in (0, 1) for state in (RUNNING, SUCCEEDED)))
    later(world, 11.0, turns=2)
    assert live_members(world, handle) == [0, 1]
    later(world, 11.0, turns=4)
    assert len(live_members(world, handle)) == 4


def test_members_below_the_minimum_are_never_taken_back() -> None:
    """What waits for them waits."""
    world, handle = world_of(nodes=2, least=2, most=4)
    world.submit(1, class_id=3)
    later(world, 5.0, turns=10)
    assert world.sent(say.SendStops) == []
    assert live_members(world, handle) == [0, 1]


def test_nothing_grows_while_a_job_waits_for_room() -> None:
    """What would come free is its."""
    world, handle = world_of(nodes=3, least=1, most=3)
    pod = SchedulingClass(requests=(("cpu", 4000),))
    world.define_gang(4, GangGroup(name="trio", pod=pod, minimum=3, maximum=3))
    world.submit(1, class_id=4)
    later(world, turns=5)
    assert live_members(world, handle) == [0]


@pytest.mark.parametrize("end", [LOST, CANCELLED])
def test_run_goes_on_without_an_extra_that_is_lost(end: ObjectState) -> None:
    """It grows again in that place, by another number."""
    world, handle = world_of(nodes=4, least=1, most=2)
    later(world)
    tell(world, handle, (1, RUNNING), (1, end))
    assert world.job_state(handle) == JobState.RUNNING
    assert world.sent(say.SendStops) == []
    later(world)
    assert [place_of(number) for number in live_members(world, handle)] == [0, 1]


def test_run_ends_by_an_extra_that_fails() -> None:
    """Its program says that something is wrong."""
    world, handle = world_of(nodes=4, least=1, most=2)
    later(world)
    tell(world, handle, (1, RUNNING), (1, FAILED), failure=FailureKind.EXIT_CODE)
    assert ("a", handle, 1) in world.sent(say.SendStops)


@pytest.mark.parametrize("dies", ["before the log", "after the log", "after the store"])
def test_leader_that_dies_in_the_middle_of_a_grow_leaves_each_extra_once(dies: str) -> None:
    """What was placed and not published is given back; what was published is there."""
    world, handle = world_of(nodes=4, least=2, most=3)
    world.now_s += 11.0
    plan = world.plan()
    assert plan.added is not None
    if dies == "after the store":
        world.ingest(plan)
    world.take_over(unread=plan if dies == "after the log" else None)
    expected = [0, 1] if dies == "before the log" else [0, 1, 2]
    assert live_members(world, handle) == expected
    assert world.clusters["a"].ledger.placement_count == len(expected)
    later(world, turns=2)
    assert live_members(world, handle) == [0, 1, 2]
    tell(world, handle, *((number, state) for number in range(3) for state in (RUNNING, SUCCEEDED)))
    assert world.job_state(handle) == JobState.SUCCEEDED
    assert {RunState(run.state).name for run in world.job(handle).runs.values()} == {"SUCCEEDED"}


def test_record_of_a_grow_that_stands_twice_on_the_log_adds_each_member_once() -> None:
    """A log may hold a record twice, as after a publish that was repeated since its answer was lost."""
    world, handle = world_of(nodes=4, least=2, most=3)
    world.now_s += 11.0
    plan = world.plan()
    world.store.append(world.machine.epoch, plan)
    world.take_over(unread=plan)
    assert live_members(world, handle) == [0, 1, 2]
    assert world.clusters["a"].ledger.placement_count == 3

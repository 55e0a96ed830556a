"""What single jobs ask for and may hold, and what their ends count as."""

from __future__ import annotations

import numpy as np
import pytest

from argosy_core.errors import InvalidRequest, InvariantViolation
from argosy_core.job.states import JobState
from argosy_core.job.tables.live import STOP_SENT
from argosy_core.job.tables.members import MAX_STORED_ATTEMPT
from argosy_core.scheduler import RoundSettings, take_states
from argosy_core.scheduler.invariants import check_invariants
from argosy_core.scheduler.memory.flows import advance_flows, set_demands
from argosy_core.scheduler.memory.resource_columns import shrink_axis
from argosy_core.scheduler.runs.retrying import back_off_s
from argosy_testkit.leader_world import LeaderWorld
from argosy_testkit.world_rows import Report, report_columns

CORE = 1_000_000


def _resize(world: LeaderWorld, handle: int, asked: int, held: int) -> None:
    """Say what a job asks for and may hold, millicores."""
    state = world.state
    advance_flows(state, world.now_s)
    amounts = np.array([[[asked, 0, 1]], [[held, 0, 1]]], dtype=np.int64)
    amounts = np.pad(amounts, ((0, 0), (0, 0), (0, len(state.classes.axis) - 3)))
    set_demands(state, state.live.slots(np.array([handle])), *amounts)


def test_usage_and_free_capacity_follow_the_job_and_not_its_class() -> None:
    """A held job is counted with what it is permitted; what it may not hold is free."""
    world = LeaderWorld(clusters={"a": 1})
    handle, other = world.submit(2)
    world.round()
    state, free = world.state, world.state.clusters.free[0].copy()
    _resize(world, handle, 3000, 500)
    assert state.queues.usage.tolist()[0] == CORE + CORE // 2
    assert (state.clusters.free[0] - free).tolist() == [500, 0, 0]
    world.report("a", [Report(handle=handle, state=4), Report(handle=other, state=4)])
    assert (state.queues.usage[0], len(state.demands)) == (0, 0)
    assert (state.clusters.free[0] - free).tolist() == [2000, 0, 2]


def test_job_that_waits_again_is_permitted_all_that_it_asks_for() -> None:
    """What a run holds lasts for the run; what the job asks for stays its own."""
    world = LeaderWorld(clusters={"a": 1})
    (handle,) = world.submit(1)
    world.round()
    _resize(world, handle, 3000, 500)
    world.report("a", [Report(handle=handle, state=7)])
    state = world.state
    assert (state.queues.usage[0], state.queues.queued_usage[0], len(state.demands)) == (0, 3 * CORE, 1)
    check_invariants(state)


def test_job_that_is_as_its_class_again_owns_no_row() -> None:
    """Rows are given back, when a resize or an end makes the job an ordinary one."""
    world = LeaderWorld(clusters={"a": 1})
    handle, other = world.submit(2)
    world.round()
    _resize(world, handle, 1000, 500)
    _resize(world, other, 2000, 2000)
    assert len(world.state.demands) == 2
    _resize(world, other, 1000, 1000)
    assert len(world.state.demands) == 1
    world.report("a", [Report(handle=handle, state=7)])
    assert (len(world.state.demands), world.state.queues.queued_usage[0]) == (0, CORE)


def test_rows_are_used_again() -> None:
    """The table is as large as what differs at once."""
    world = LeaderWorld(clusters={"a": 1})
    (handle,) = world.submit(1)
    for asked in range(2000, 2100):
        _resize(world, handle, asked, asked)
    assert (len(world.state.demands), len(world.state.demands.usage)) == (1, 16)


@pytest.mark.parametrize(("asked", "held"), [(-1, 1000), (1000, -1)])
def test_amounts_below_nothing_are_refused(asked: int, held: int) -> None:
    """And changes nothing."""
    world = LeaderWorld(clusters={"a": 1})
    (handle,) = world.submit(1)
    with pytest.raises(InvalidRequest, match="less than nothing"):
        _resize(world, handle, asked, held)
    check_invariants(world.state)


@pytest.mark.parametrize("damage", ["usage", "row", "lost"])
def test_invariants_find_damaged_demands(damage: str) -> None:
    """A fault of ours in what single jobs hold does not stay hidden."""
    world = LeaderWorld(clusters={"a": 1})
    (handle,) = world.submit(1)
    _resize(world, handle, 2000, 1500)
    state = world.state
    if damage == "usage":
        state.demands.usage[0] += 1
        state.queues.queued_usage[0] += 1
    elif damage == "row":
        state.demands.permitted[0, 0] = -1
    else:
        state.live.demand[state.live.slots(np.array([handle]))] = -1
        state.queues.queued_usage[0] = CORE
    with pytest.raises(InvariantViolation):
        check_invariants(state)


def test_demands_follow_the_axis_when_resources_come() -> None:
    """A class with a resource of its own adds a column to every row."""
    world = LeaderWorld(clusters={"a": 1})
    (handle,) = world.submit(1)
    _resize(world, handle, 2000, 1500)
    world.define_class(9, gpu=1)
    assert world.state.demands.permitted.shape[1] == len(world.state.classes.axis)
    world.check()


def test_demands_follow_the_axis_when_resources_go() -> None:
    """What nobody counts any more has no column, in no row; what a job holds stays what it was."""
    world = LeaderWorld(clusters={"a": 1})
    (handle,) = world.submit(1)
    world.define_class(2, gpu=1)
    (other,) = world.submit(1, class_id=2)
    _resize(world, handle, 2000, 1500)
    world.cancel([other])
    world.take()
    state = world.state
    state.classes.drop_idle(0)
    shrink_axis(state)
    assert "gpu" not in state.classes.axis.names
    assert state.job_vectors(state.live.slots(np.array([handle]))).tolist() == [[1500, 0, 1]]
    world.check()


def test_runs_that_were_preempted_are_no_failures() -> None:
    """A run that the leader stopped uses up neither the runs of its job nor its back-off; a lost one does, for good."""
    world = LeaderWorld(settings=RoundSettings(max_runs=2))
    (handle,) = world.submit(1)
    for attempt, stopped in enumerate([True, True, False, True], start=1):
        world.round()
        slot = world.state.live.slots(np.array([handle]))
        world.state.live.flags[slot] |= STOP_SENT if stopped else 0
        world.report("a", [Report(handle=handle, attempt=attempt, state=7)])
        assert world.state.live.failures[slot].tolist() == [int(attempt > 2)]
        world.take_over()
    assert world.state.live.failures[world.state.live.slots(np.array([handle]))].tolist() == [1]
    world.round()
    world.report("a", [Report(handle=handle, attempt=5, state=7)])
    assert world.job_state(handle) == JobState.FAILED


def test_first_back_off_is_that_of_no_failure_too() -> None:
    """Doubling begins with the second failure."""
    assert back_off_s(LeaderWorld().state, np.array([0, 1, 2])).tolist() == [1.0, 1.0, 2.0]


@pytest.mark.parametrize(("live", "told"), [(44, 300), (1, 65_537)], ids=str)
def test_attempts_do_not_wrap(live: int, told: int) -> None:
    """A report of an attempt that differs by 256 or 65,536 is about another run, and is never stored as this one."""
    world = LeaderWorld()
    (handle,) = world.submit(1)
    world.round()
    world.state.live.attempt[world.state.live.slots(np.array([handle]))] = live
    columns = report_columns([Report(handle=handle, attempt=told, state=4)], world.now_s)
    effects = take_states(world.state, [("a", columns)], world.now_s)
    assert effects.run_updates.handle.size == effects.job_updates.handle.size == 0
    assert effects.object_updates.handle.size == 0
    stored = [(cluster, updates.attempt.tolist()) for cluster, updates in effects.ended_updates]
    assert stored == ([("a", [told])] if told <= MAX_STORED_ATTEMPT else [])


def test_job_of_as_many_runs_as_rows_can_hold_fails() -> None:
    """The next attempt would be stored as another."""
    world = LeaderWorld()
    (handle,) = world.submit(1)
    world.round()
    world.state.live.attempt[world.state.live.slots(np.array([handle]))] = MAX_STORED_ATTEMPT
    lost = report_columns([Report(handle=handle, attempt=MAX_STORED_ATTEMPT, state=7)], world.now_s)
    effects = take_states(world.state, [("a", lost)], world.now_s)
    assert effects.job_updates.state.tolist() == [JobState.FAILED]
    assert effects.job_updates.reasons == (f"a job has at most {MAX_STORED_ATTEMPT} runs",)

"""Held jobs: they keep their places and begin nothing until they are released."""

from __future__ import annotations

import numpy as np
import pytest

from argosy_core.job.reading.options import UNSET
from argosy_core.job.states import JobEventKind, JobStage, JobState, ObjectState
from argosy_core.placement import WaitReason
from argosy_core.scheduler import count_waiting, explain, next_due_s, pending_handles, shares, standings
from argosy_testkit.leader_world import LeaderWorld
from argosy_testkit.world_rows import Report

HELD = (UNSET, UNSET, UNSET, 1)
"""Options of a job that is held from the beginning."""


def leased(world: LeaderWorld, handles: list[int]) -> list[int]:
    """Return which jobs have a run."""
    return [handle for handle in handles if world.job_state(handle) != JobState.QUEUED]


def test_job_held_at_its_submit_begins_when_it_is_released_and_before_later_ones() -> None:
    """It is passed over, wants nothing meanwhile, and has kept its place."""
    world = LeaderWorld(clusters={"a": 1}, node_amounts={"cpu": 1000, "memory": 16 << 30})
    (held,) = world.submit(1, options=HELD)
    assert next_due_s(world.state, world.now_s + 1e6) == float("inf")
    first, second = world.submit(2)
    world.round()
    assert leased(world, [held, first, second]) == [first]
    (row,) = shares(world.state, world.now_s).queues
    assert (row.demand_cores, row.queued_count + row.pending_count) == (2.0, 2)
    world.release([held])
    world.report("a", [Report(handle=first, state=ObjectState.SUCCEEDED)])
    world.tell_news()
    world.round()
    assert leased(world, [held, second]) == [held]
    assert world.kinds(held) == [JobEventKind.SUBMITTED, JobEventKind.RELEASED, JobEventKind.LEASED]


def test_standings_of_many_jobs_are_those_that_each_is_explained_with() -> None:
    """One answer for a list says of each what its own explanation does; who is not live is left out."""
    world = LeaderWorld(clusters={"a": 1}, node_amounts={"cpu": 1000, "memory": 16 << 30})
    held = world.submit(1, options=HELD)
    handles = [*held, *world.submit(3)]
    world.round()
    world.round()
    found = standings(world.state, np.array([*handles, 99], dtype=np.int64))
    told = {handle: explain(world.state, handle, world.now_s) for handle in handles}
    assert found == {handle: (one.stage, one.reason) for handle, one in told.items() if one is not None}
    assert [stage for stage, _ in found.values()].count(JobStage.LEASED) + [stage for stage, _ in found.values()].count(
        JobStage.IN_FLIGHT
    ) == 1
    assert found[held[0]] == (JobStage.QUEUED, WaitReason.HELD)
    pending = sorted(handle for handle, (stage, _) in found.items() if stage == JobStage.PENDING)
    assert pending_handles(world.state) == pending != []


def test_explanation_and_counts_say_that_a_job_is_held() -> None:
    """The reason is held, whatever else is true of its queue or class."""
    world = LeaderWorld(clusters={"a": 1})
    held, other = world.submit(2, options=HELD)
    world.release([other])
    told = explain(world.state, held, world.now_s)
    assert told is not None
    assert told.reason is WaitReason.HELD
    assert "it is held until it is released" in told.summary
    assert count_waiting(world.state)[WaitReason.HELD] == 1


def test_waiting_head_that_is_held_makes_room_for_the_next() -> None:
    """It is no head any more at once; the next job in order becomes one and gets the room."""
    world = LeaderWorld(clusters={"a": 1}, node_amounts={"cpu": 1000, "memory": 16 << 30})
    running, head, behind = world.submit(3)
    world.round()
    world.round()
    assert world.state.heads.tolist()[:1] == [head]
    world.hold([head])
    assert head not in world.state.heads.tolist()
    world.report("a", [Report(handle=running, state=ObjectState.SUCCEEDED)])
    world.tell_news()
    world.round()
    assert leased(world, [head, behind]) == [behind]


def test_running_job_that_is_held_goes_on_and_waits_held_once_it_is_tried_again() -> None:
    """Holding takes nothing away; a run that is lost is not followed by another before the release."""
    world = LeaderWorld(clusters={"a": 2})
    (handle,) = world.submit(1)
    world.round()
    world.report("a", [Report(handle=handle, state=ObjectState.RUNNING)])
    world.hold([handle])
    assert world.job_state(handle) == JobState.RUNNING
    world.report("a", [Report(handle=handle, state=ObjectState.LOST)])
    world.now_s += 1000
    world.round()
    assert world.job_state(handle) == JobState.QUEUED
    world.release([handle])
    world.round()
    assert leased(world, [handle]) == [handle]


@pytest.mark.parametrize("later", [False, True], ids=["at-its-submit", "later"])
def test_held_job_stays_held_across_a_change_of_leader(later: bool) -> None:  # noqa: FBT001 - a parameter
    """The next leader reads it from the job's row, and a release that was not taken yet counts there."""
    world = LeaderWorld(clusters={"a": 1})
    handles = world.submit(2, options=None if later else HELD)
    if later:
        world.hold(handles)
    world.store.change_request(handles[:1], held=False)
    world.take_over()
    world.round()
    assert leased(world, handles) == handles[:1]
    world.release(handles)
    world.round()
    assert leased(world, handles) == handles


def test_job_held_after_its_lease_was_published_runs_under_the_next_leader() -> None:
    """What stands in the log was decided before; it is held once it waits again."""
    world = LeaderWorld(clusters={"a": 1})
    (handle,) = world.submit(1)
    plan = world.plan()
    world.store.change_request([handle], held=True)
    world.take_over(unread=plan)
    assert world.job_state(handle) == JobState.LEASED
    world.report("a", [Report(handle=handle, state=ObjectState.LOST)])
    world.now_s += 1000
    world.round()
    assert world.job_state(handle) == JobState.QUEUED


def test_holding_twice_says_so_once_and_cancelling_ends_a_held_job() -> None:
    """Repetitions are no events; whoever holds a job can still give it up."""
    world = LeaderWorld(clusters={"a": 1})
    (handle,) = world.submit(1, options=HELD)
    world.hold([handle])
    world.cancel([handle])
    world.take()
    assert world.kinds(handle) == [JobEventKind.SUBMITTED, JobEventKind.CANCELLED]
    assert not world.state.queues.on_hold_count.any()

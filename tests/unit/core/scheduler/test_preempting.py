"""Runs that are stopped so that others have room: their jobs wait again, at no cost to their retries."""

from __future__ import annotations

import pytest

from argosy_core.job.reading.options import UNSET
from argosy_core.job.states import FailureKind, JobEventKind, JobState, ObjectState, RunState
from argosy_core.leader.instructions import SendStops
from argosy_core.scheduler import next_due_s
from argosy_testkit.leader_world import LeaderWorld
from argosy_testkit.world_rows import Report

KILLED = 143


def started(world: LeaderWorld) -> int:
    """Return a job whose pod runs."""
    (handle,) = world.submit(1)
    world.round()
    world.report("a", [Report(handle=handle, state=ObjectState.RUNNING)])
    return handle


def stops(world: LeaderWorld) -> list[int]:
    """Return the handles of the stops that went to executors, in order."""
    return [handle for _, handle, _ in world.sent(SendStops)]


@pytest.mark.parametrize(
    ("state", "failure"),
    [
        pytest.param(ObjectState.CANCELLED, FailureKind.NONE, id="gone"),
        pytest.param(ObjectState.FAILED, FailureKind.EXIT_CODE, id="killed-by-the-stop"),
        pytest.param(ObjectState.FAILED, FailureKind.EVICTED, id="evicted-meanwhile"),
        pytest.param(ObjectState.LOST, FailureKind.NONE, id="lost-meanwhile"),
    ],
)
def test_preempted_run_is_stopped_once_and_its_job_begins_again_at_once(
    state: ObjectState, failure: FailureKind
) -> None:
    """However its pod ends after the stop, nothing of it counts as a failure, and no back-off follows."""
    world = LeaderWorld(clusters={"a": 1})
    handle = started(world)
    world.preempt([handle])
    world.preempt([handle])
    world.round()
    assert (stops(world), world.job_state(handle)) == ([handle], JobState.RUNNING)
    transaction = world.report("a", [Report(handle=handle, state=state, failure=failure, exit_code=KILLED)])
    (ends,) = transaction.run_ends
    assert (ends.state.tolist(), ends.failure.tolist()) == ([RunState.PREEMPTED], [FailureKind.NONE])
    assert ends.reasons[ends.reason_index[0]] == "preempted: somebody asked for it"
    assert world.kinds(handle)[-1] == JobEventKind.REQUEUED
    assert world.state.live.failures[world.state.live.slots(world.state.live.handle[:1])].tolist() == [0]
    assert not world.state.room.preempted
    world.round()
    assert world.job_state(handle) == JobState.LEASED
    world.round()
    assert stops(world) == [handle]


def test_run_that_succeeds_before_it_is_gone_has_succeeded() -> None:
    """What the pod did wins over what was asked."""
    world = LeaderWorld(clusters={"a": 1})
    handle = started(world)
    world.preempt([handle])
    world.round()
    world.report("a", [Report(handle=handle, state=ObjectState.SUCCEEDED)])
    assert world.job_state(handle) == JobState.SUCCEEDED
    assert not world.state.room.preempted


def test_cancelled_job_ends_although_its_run_was_preempted_before() -> None:
    """A cancel request is about the job, and wins."""
    world = LeaderWorld(clusters={"a": 1})
    handle = started(world)
    world.preempt([handle])
    world.round()
    world.cancel([handle])
    world.round()
    world.report("a", [Report(handle=handle, state=ObjectState.CANCELLED)])
    assert world.job_state(handle) == JobState.CANCELLED


def test_time_limit_that_is_reached_before_the_stop_wins_and_one_after_it_changes_nothing() -> None:
    """One stop, for one reason."""
    for is_late, outcome in ((False, JobState.FAILED), (True, JobState.QUEUED)):
        world = LeaderWorld(clusters={"a": 1})
        (handle,) = world.submit(1, options=(UNSET, 60, UNSET))
        world.round()
        world.report("a", [Report(handle=handle, state=ObjectState.RUNNING)])
        if is_late:
            world.preempt([handle])
        world.store.change_request([handle], preempt=True)
        world.now_s += 61
        world.read()
        world.round()
        world.round()
        assert (stops(world), next_due_s(world.state, world.now_s)) == ([handle], float("inf"))
        world.report("a", [Report(handle=handle, state=ObjectState.CANCELLED)])
        assert world.job_state(handle) == outcome


def test_job_that_waits_is_not_preempted_and_neither_is_its_next_run() -> None:
    """A request is about the run that there is."""
    world = LeaderWorld(clusters={"a": 1})
    handle = started(world)
    world.report("a", [Report(handle=handle, state=ObjectState.LOST)])
    world.preempt([handle])
    world.now_s += 1000
    world.round()
    world.round()
    assert (world.job_state(handle), stops(world)) == (JobState.LEASED, [])


@pytest.mark.parametrize("is_sent", [False, True], ids=["before-the-stop", "after-the-stop"])
def test_next_leader_goes_on_with_what_somebody_asked_to_preempt(is_sent: bool) -> None:  # noqa: FBT001 - a parameter
    """The request stands in the job's row, with the attempt that it is about."""
    world = LeaderWorld(clusters={"a": 1})
    handle = started(world)
    world.preempt([handle]) if is_sent else world.store.change_request([handle], preempt=True)
    if is_sent:
        world.round()
    world.take_over()
    world.round()
    assert set(stops(world)) == {handle}
    world.report("a", [Report(handle=handle, state=ObjectState.CANCELLED)])
    world.round()
    world.take_over()
    world.round()
    assert world.job_state(handle) == JobState.LEASED
    (run, again) = world.store.jobs[handle].runs.values()
    assert (run.state, again.ended) == (RunState.PREEMPTED, False)


def test_preempted_run_of_a_lost_cluster_makes_its_job_wait_again_without_a_failure() -> None:
    """Nobody can say any more how it ended."""
    world = LeaderWorld(clusters={"a": 1})
    handle = started(world)
    world.preempt([handle])
    world.round()
    world.forget("a")
    assert world.job_state(handle) == JobState.QUEUED
    assert [run.state for run in world.store.jobs[handle].runs.values()] == [RunState.PREEMPTED]

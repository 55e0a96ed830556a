"""Jobs that run after others: what they wait for, what ends the wait, and what it means if it is in vain."""

from __future__ import annotations

import pytest

from argosy_core.errors import InvalidRequest
from argosy_core.job.identity import compose_id
from argosy_core.job.reading.after import FORGOTTEN, AfterJobs, AfterUntil, decode_after, encode_after
from argosy_core.job.states import FailureKind, JobEventKind, JobState, ObjectState
from argosy_core.leader.events import EndsRead
from argosy_core.placement import WaitReason
from argosy_core.scheduler import count_waiting, explain, shares
from argosy_testkit.leader_world import LeaderWorld
from argosy_testkit.world_rows import Report

SUCCEEDED, ENDED = AfterUntil.SUCCEEDED, AfterUntil.ENDED


def end(world: LeaderWorld, handle: int, state: ObjectState = ObjectState.SUCCEEDED) -> None:
    """Have the pod of a job end; a failure is its own."""
    failure = FailureKind.EXIT_CODE if state == ObjectState.FAILED else FailureKind.NONE
    world.report("a", [Report(handle=handle, state=state, failure=failure, exit_code=int(failure))])


def told(world: LeaderWorld, handle: int) -> str:
    """Return how a job is explained."""
    explanation = explain(world.state, handle, world.now_s)
    assert explanation is not None
    assert explanation.reason is WaitReason.DEPENDENCY
    return explanation.summary


def test_job_begins_when_all_that_it_waits_for_have_succeeded_and_not_before() -> None:
    """It wants nothing meanwhile, and whoever asks is told how many are missing."""
    world = LeaderWorld(clusters={"a": 2})
    first, second = world.submit(2)
    (last,) = world.submit(1, after=(SUCCEEDED, [first, second]))
    world.round()
    assert world.job_state(last) == JobState.QUEUED
    assert "waits for 2 of 2 jobs that have not succeeded yet" in told(world, last)
    assert count_waiting(world.state)[WaitReason.DEPENDENCY] == 1
    assert count_waiting(world.state)[WaitReason.HELD] == 0
    assert shares(world.state, world.now_s).queues[0].demand_cores == 2.0
    end(world, first)
    world.round()
    assert "waits for 1 of 2 jobs" in told(world, last)
    end(world, second)
    world.round()
    assert world.job_state(last) == JobState.LEASED


@pytest.mark.parametrize(
    ("until", "how", "outcome"),
    [
        pytest.param(SUCCEEDED, "failed", JobState.FAILED, id="needs-success-and-it-failed"),
        pytest.param(SUCCEEDED, "was cancelled", JobState.FAILED, id="needs-success-and-it-was-cancelled"),
        pytest.param(ENDED, "failed", JobState.LEASED, id="needs-its-end-and-it-failed"),
        pytest.param(ENDED, "was cancelled", JobState.LEASED, id="needs-its-end-and-it-was-cancelled"),
    ],
)
def test_end_without_success_fails_who_needs_it_and_frees_who_needs_the_end(
    until: AfterUntil, how: str, outcome: JobState
) -> None:
    """The reason names the job that was waited for; those that wait for the failed one fail with it."""
    world = LeaderWorld(clusters={"a": 2})
    (other,) = world.submit(1)
    (waiting,) = world.submit(1, after=(until, [other]))
    (behind,) = world.submit(1, after=(until, [waiting]))
    if how == "failed":
        world.round()
        end(world, other, ObjectState.FAILED)
    else:
        world.cancel([other])
    world.round()
    assert world.job_state(waiting) == outcome
    assert world.job_state(behind) == (JobState.QUEUED if outcome == JobState.LEASED else JobState.FAILED)
    if outcome == JobState.FAILED:
        name = compose_id(other * 7, other)
        reasons = [ends.reasons for one in world.stored for ends in one.job_ends if waiting in ends.handle]
        assert reasons[-1][0] == f"it was to run after the success of job {name}, which {how}"
        assert world.kinds(behind)[-1] == JobEventKind.FAILED


@pytest.mark.parametrize("until", [SUCCEEDED, ENDED])
def test_job_submitted_after_the_other_has_ended_begins_at_once(until: AfterUntil) -> None:
    """What has become of a job that is no longer live is read with the submit."""
    world = LeaderWorld(clusters={"a": 2})
    (other,) = world.submit(1)
    world.round()
    end(world, other)
    (waiting,) = world.submit(1, after=(until, [other]))
    world.round()
    assert world.job_state(waiting) == JobState.LEASED


def test_end_that_only_the_database_knows_is_asked_for_until_it_is_there() -> None:
    """A job of another pool, or one whose end is on its way to the database, is open at first."""
    world = LeaderWorld(clusters={"a": 2})
    (other,) = world.submit(1)
    world.round()
    rows = world.grow(1, after=(SUCCEEDED, [other]))
    waiting = int(world.job_index.handles(rows)[0])
    end(world, other)
    world.store.jobs[other].state = 0
    world.store.submit(world.store.next_change_id(), rows, round(world.now_s * 1e6))
    world.take()
    assert world.machine.unsettled() == (other,)
    world.round()
    assert world.job_state(waiting) == JobState.QUEUED
    world.tell(EndsRead(states={other: JobState.SUCCEEDED}))
    world.round()
    assert world.job_state(waiting) == JobState.LEASED
    assert world.machine.unsettled() == ()


@pytest.mark.parametrize(("until", "outcome"), [(SUCCEEDED, JobState.FAILED), (ENDED, JobState.LEASED)])
def test_forgotten_job_has_ended_and_nobody_knows_whether_it_succeeded(until: AfterUntil, outcome: JobState) -> None:
    """Retention takes rows away some days after the end."""
    world = LeaderWorld(clusters={"a": 2})
    (other,) = world.submit(1)
    world.round()
    rows = world.grow(1, after=(until, [other]))
    end(world, other)
    world.store.jobs[other].state = FORGOTTEN
    world.store.submit(world.store.next_change_id(), rows, round(world.now_s * 1e6))
    world.take()
    world.round()
    assert world.job_state(int(world.job_index.handles(rows)[0])) == outcome


def test_next_leader_waits_on_for_what_is_left() -> None:
    """What has ended meanwhile it reads from the rows."""
    world = LeaderWorld(clusters={"a": 2})
    first, second = world.submit(2)
    (last,) = world.submit(1, after=(SUCCEEDED, [first, second]))
    world.round()
    end(world, first)
    world.take_over()
    assert "waits for 1 of 2 jobs" in told(world, last)
    end(world, second)
    world.take_over()
    world.round()
    assert world.job_state(last) == JobState.LEASED


def test_lease_that_was_published_before_the_end_was_stored_holds() -> None:
    """The leader that decided it knew the end; the next one takes it in all the same."""
    world = LeaderWorld(clusters={"a": 2})
    (other,) = world.submit(1)
    (waiting,) = world.submit(1, after=(SUCCEEDED, [other]))
    world.round()
    end(world, other)
    plan = world.plan()
    assert plan.handle.tolist() == [waiting]
    row = world.store.jobs[other]
    world.store.open_handles[other], row.state, row.live_attempt = None, 0, 1
    for run in row.runs.values():
        run.ended = False
    world.take_over(unread=plan)
    assert world.job_state(waiting) == JobState.LEASED
    assert not len(world.state.dependencies)


def test_cancelled_job_that_waited_is_forgotten_by_the_others() -> None:
    """Nothing is left of it when they end."""
    world = LeaderWorld(clusters={"a": 2})
    (other,) = world.submit(1)
    (waiting,) = world.submit(1, after=(SUCCEEDED, [other]))
    world.cancel([waiting])
    world.take()
    assert (len(world.state.dependencies), world.job_state(waiting)) == (0, JobState.CANCELLED)
    world.round()
    end(world, other)
    assert not world.state.queues.on_hold_count.any()


def test_what_a_job_runs_after_is_read_back_from_its_row_and_anything_else_is_refused() -> None:
    """Condition and ids come back; other bytes are no such row."""
    ids = (compose_id(0x0190_0000_0000_7000, 5), compose_id(0x0190_0000_0000_7001, 6))
    assert decode_after(encode_after(ENDED, ids)) == (ENDED, ids)
    pairs = AfterJobs.of_payloads([9, 10], [b"", encode_after(SUCCEEDED, ids)])
    assert pairs is not None
    assert (pairs.handle.tolist(), pairs.other.tolist(), pairs.until.tolist()) == ([10, 10], [5, 6], [1, 1])
    for bad in (b"\x03" + bytes(16), b"\x01" + bytes(15)):
        with pytest.raises(InvalidRequest, match="cannot be read"):
            decode_after(bad)

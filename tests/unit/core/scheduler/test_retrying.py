"""Jobs whose specs say which failures are tried again, and after how long."""

from __future__ import annotations

import pytest

from argosy_core.job.states import FailureKind, JobState
from argosy_core.placement import WaitReason
from argosy_core.scheduler import explain
from argosy_testkit.leader_world import LeaderWorld
from argosy_testkit.world_rows import RETRY_LAYOUT, Report

FAILED, LOST = 5, 7


def fail(world: LeaderWorld, handle: int, attempt: int, kind: int, *, state: int = FAILED) -> JobState | None:
    """Let a run fail; return what its job comes to. Its back-off passes."""
    world.report("a", [Report(handle=handle, attempt=attempt, state=state, failure=kind, text="why")])
    reached = world.job_state(handle)
    world.now_s += 100.0
    world.round()
    return reached


@pytest.mark.parametrize(
    ("kinds", "states"),
    [
        pytest.param([FailureKind.EXIT_CODE] * 2, [JobState.QUEUED, JobState.FAILED], id="own-failure-twice"),
        pytest.param([FailureKind.EVICTED], [JobState.FAILED], id="kind-that-is-not-tried-again"),
        pytest.param([FailureKind.OUT_OF_MEMORY], [JobState.FAILED], id="kind-of-which-nothing-is-said"),
        pytest.param(
            [FailureKind.INFRASTRUCTURE] * 3, [JobState.QUEUED, JobState.QUEUED, JobState.FAILED], id="for-all-kinds"
        ),
        pytest.param(
            [FailureKind.INFRASTRUCTURE, FailureKind.EXIT_CODE], [JobState.QUEUED, JobState.FAILED], id="all-count"
        ),
    ],
)
def test_job_fails_with_as_many_failed_runs_as_its_spec_says(kinds: list[int], states: list[JobState]) -> None:
    """By the kind of the last failure, all failed runs counted; a job without rules is as before."""
    world = LeaderWorld(clusters={"a": 4})
    (handle,), (plain,) = world.submit(1, layout=RETRY_LAYOUT), world.submit(1)
    world.round()
    assert [fail(world, handle, attempt, kind) for attempt, kind in enumerate(kinds, start=1)] == states
    assert fail(world, plain, 1, FailureKind.EXIT_CODE) == JobState.FAILED


def test_lost_run_counts_as_one_of_infrastructure() -> None:
    """Three of them end the job, with the number in the reason."""
    world = LeaderWorld(clusters={"a": 4})
    (handle,) = world.submit(1, layout=RETRY_LAYOUT)
    world.round()
    assert [fail(world, handle, attempt, 0, state=LOST) for attempt in (1, 2)] == [JobState.QUEUED] * 2
    effects = world.report("a", [Report(handle=handle, attempt=3, state=LOST)])
    (ends,) = effects.job_ends
    assert ends.reasons[ends.reason_index[0]] == "3 runs ended for reasons that are not the job's own"


def test_failure_of_its_own_is_the_reason_when_tries_are_over() -> None:
    """What the pod said stands in the job, as of one that is never tried again."""
    world = LeaderWorld(clusters={"a": 4})
    (handle,) = world.submit(1, layout=RETRY_LAYOUT)
    world.round()
    fail(world, handle, 1, FailureKind.EXIT_CODE)
    effects = world.report("a", [Report(handle=handle, attempt=2, state=FAILED, failure=1, text="exit 3")])
    (ends,) = effects.job_ends
    assert ends.reasons[ends.reason_index[0]] == "exit 3"


def test_back_off_is_the_specs_and_is_explained() -> None:
    """60 s, then 100 s, which is the longest; the job says until when and why."""
    world = LeaderWorld(clusters={"a": 4})
    (handle,) = world.submit(1, layout=RETRY_LAYOUT)
    world.round()
    for attempt, wait_s in ((1, 60.0), (2, 100.0)):
        world.report("a", [Report(handle=handle, attempt=attempt, state=FAILED, failure=FailureKind.INFRASTRUCTURE)])
        told = explain(world.state, handle, world.now_s)
        assert told is not None
        assert told.reason is WaitReason.BACK_OFF
        assert f"for {wait_s:.1f} s more, after {attempt} failed runs" in told.summary
        world.now_s += wait_s - 1.0
        assert not world.round().handle.size
        world.now_s += 1.0
        assert world.round().attempt.tolist() == [attempt + 1]


def test_failures_and_back_off_go_on_under_the_next_leader() -> None:
    """A leader that takes over waits until the same moment, and counts on."""
    world = LeaderWorld(clusters={"a": 4})
    (handle,) = world.submit(1, layout=RETRY_LAYOUT)
    world.round()
    world.report("a", [Report(handle=handle, state=FAILED, failure=FailureKind.EXIT_CODE)])
    world.take_over()
    world.now_s += 59.0
    assert not world.round().handle.size
    world.now_s += 1.0
    assert world.round().attempt.tolist() == [2]
    world.report("a", [Report(handle=handle, attempt=2, state=FAILED, failure=FailureKind.EXIT_CODE)])
    assert world.job_state(handle) == JobState.FAILED

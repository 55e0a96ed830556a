"""Runs that take longer than their time limits: stopped with grace, failed, and nobody forgets them."""

from __future__ import annotations

import pytest

from argosy_core.job.states import FailureKind, JobEventKind, JobState, ObjectState
from argosy_core.leader.instructions import SendStops
from argosy_core.scheduler import define_classes, next_due_s, recover, set_queues, take_states
from argosy_core.scheduler.memory.state import PoolState
from argosy_testkit.leader_world import LeaderWorld
from argosy_testkit.world_rows import BAG_LAYOUT, Report, report_columns

LIMIT_S = 60
KILLED = 143


def started(world: LeaderWorld, count: int = 1, **job: object) -> list[int]:
    """Return jobs with a time limit whose pods run from now on."""
    handles = world.submit(count, options=(-1, LIMIT_S, -1), **job)
    world.round()
    world.report("a", [Report(handle=handle, state=ObjectState.RUNNING) for handle in handles])
    return handles


def pass_limit(world: LeaderWorld) -> None:
    """Let the time limit of what began now pass."""
    world.now_s += LIMIT_S + 1


def stopped(world: LeaderWorld) -> list[int]:
    """Return the handles of the stops that went to executors, in order."""
    return [handle for _, handle, _ in world.sent(SendStops)]


def test_run_past_its_time_limit_is_stopped_once_and_its_job_fails() -> None:
    """The stop is sent when the limit is reached, not before; the end of the pod is the failure, with its reason."""
    world = LeaderWorld(clusters={"a": 1})
    (handle,) = started(world)
    began_s = world.now_s
    world.round()
    assert next_due_s(world.state, world.now_s) == pytest.approx(began_s + LIMIT_S)
    assert stopped(world) == []
    pass_limit(world)
    assert next_due_s(world.state, world.now_s) == world.now_s
    for _ in range(3):
        world.round()
    assert stopped(world) == [handle]
    assert world.job_state(handle) == JobState.RUNNING
    transaction = world.report("a", [Report(handle=handle, state=ObjectState.CANCELLED)])
    (ends,) = transaction.run_ends
    assert (ends.state.tolist(), ends.failure.tolist()) == ([ObjectState.FAILED], [FailureKind.TIME_LIMIT])
    assert ends.reasons == ("the run took longer than its time limit of 60 s",)
    assert world.job_state(handle) == JobState.FAILED
    assert world.kinds(handle)[-1] == JobEventKind.FAILED
    assert next_due_s(world.state, world.now_s + 1e6) == float("inf")


@pytest.mark.parametrize("ahead_s", [86_400.0, 3.0, -3.0, -86_400.0])
def test_clock_of_an_executor_that_is_wrong_moves_no_time_limit(ahead_s: float) -> None:
    """A day ahead a run would run a day too long, a day behind it would be stopped at once."""
    world = LeaderWorld(clusters={"a": 1})
    (handle,) = world.submit(1, options=(-1, LIMIT_S, -1))
    world.round()
    transaction = world.report("a", [Report(handle=handle, state=ObjectState.RUNNING)], ahead_s=ahead_s)
    (states,) = transaction.objects
    assert states.start_time_us.tolist() == [round(world.now_s * 1e6)]
    world.now_s += LIMIT_S - 1
    world.round()
    assert stopped(world) == []
    pass_limit(world)
    world.round()
    assert stopped(world) == [handle]


@pytest.mark.parametrize("ahead_s", [259_200.0, -259_200.0])
def test_times_of_a_cluster_are_right_though_its_executors_own_clock_is_wrong(ahead_s: float) -> None:
    """Pods' times are of the clocks of nodes, the time of the message is of the executor's."""
    world = LeaderWorld(clusters={"a": 1})
    (handle,) = world.submit(1, options=(-1, LIMIT_S, -1))
    world.round()
    (states,) = world.report("a", [Report(handle=handle, state=ObjectState.RUNNING)], sent_ahead_s=ahead_s).objects
    assert states.start_time_us.tolist() == [round(world.now_s * 1e6)]


@pytest.mark.parametrize(
    ("state", "failure", "outcome"),
    [
        pytest.param(ObjectState.SUCCEEDED, FailureKind.NONE, JobState.SUCCEEDED, id="success-wins"),
        pytest.param(ObjectState.FAILED, FailureKind.EXIT_CODE, JobState.FAILED, id="killed-by-the-stop"),
        pytest.param(ObjectState.FAILED, FailureKind.EVICTED, JobState.FAILED, id="evicted-while-it-was-stopped"),
        pytest.param(ObjectState.LOST, FailureKind.NONE, JobState.FAILED, id="lost-while-it-was-stopped"),
    ],
)
def test_what_the_pod_did_after_the_stop_counts_only_if_it_succeeded(
    state: ObjectState, failure: FailureKind, outcome: JobState
) -> None:
    """A run that was stopped for its limit is not tried again, however its pod ended."""
    world = LeaderWorld(clusters={"a": 1})
    (handle,) = started(world)
    pass_limit(world)
    world.round()
    transaction = world.report("a", [Report(handle=handle, state=state, failure=failure, exit_code=KILLED)])
    assert world.job_state(handle) == outcome
    if outcome == JobState.FAILED:
        assert transaction.run_ends[0].failure.tolist() == [FailureKind.TIME_LIMIT]


def test_failure_before_the_stop_is_the_pods_own() -> None:
    """What ended by itself before anybody stopped it is told as it was, and tried again if it is not its own."""
    world = LeaderWorld(clusters={"a": 1})
    own, lost = started(world, 2)
    world.now_s += LIMIT_S - 1
    world.report(
        "a",
        [
            Report(handle=own, state=ObjectState.FAILED, failure=FailureKind.EXIT_CODE, exit_code=3),
            Report(handle=lost, state=ObjectState.LOST),
        ],
    )
    assert (world.job_state(own), world.job_state(lost)) == (JobState.FAILED, JobState.QUEUED)
    pass_limit(world)
    world.round()
    assert stopped(world) == []


def test_next_run_has_the_whole_limit_again() -> None:
    """The limit is of a run: that of an earlier attempt stops no later one."""
    world = LeaderWorld(clusters={"a": 1})
    (handle,) = started(world)
    world.now_s += LIMIT_S - 1
    world.report("a", [Report(handle=handle, state=ObjectState.LOST)])
    world.now_s += 30
    world.round()
    world.report("a", [Report(handle=handle, attempt=2, state=ObjectState.RUNNING)])
    world.now_s += LIMIT_S - 1
    world.round()
    assert stopped(world) == []
    world.now_s += 2
    world.round()
    assert stopped(world) == [handle]


def test_limit_goes_on_with_the_next_leader() -> None:
    """It counts from when the run began, however often the leader changed."""
    world = LeaderWorld(clusters={"a": 1})
    handles = started(world, 2)
    world.now_s += LIMIT_S - 1
    world.take_over()
    world.round()
    assert stopped(world) == []
    world.now_s += 2
    world.round()
    assert sorted(stopped(world)) == sorted(handles)


def test_stop_of_the_last_leader_is_known_before_the_next_decides_anything() -> None:
    """A pod that ends by that stop while the next leader loads has ended at its limit: it is not run again."""
    world = LeaderWorld(clusters={"a": 1})
    (handle,) = started(world)
    pass_limit(world)
    world.round()
    state = PoolState()
    define_classes(state, world.job_index.definitions)
    set_queues(state, world.job_index.queues())
    recover(state, world.store.load(), world.now_s)
    reports = report_columns([Report(handle=handle, state=ObjectState.CANCELLED)], world.now_s)
    effects = take_states(state, [("a", reports)], world.now_s)
    assert effects.job_updates.state.tolist() == [JobState.FAILED]


@pytest.mark.parametrize("is_first", [False, True], ids=["limit-first", "request-first"])
def test_cancel_request_beside_the_limit_sends_one_stop(*, is_first: bool) -> None:
    """Whoever was first decides what the job has come to."""
    world = LeaderWorld(clusters={"a": 1})
    (handle,) = started(world)
    if is_first:
        world.cancel([handle])
        world.round()
    pass_limit(world)
    world.round()
    if not is_first:
        world.cancel([handle])
        world.round()
    assert stopped(world) == [handle]
    assert next_due_s(world.state, world.now_s) > world.now_s
    world.report("a", [Report(handle=handle, state=ObjectState.CANCELLED)])
    assert world.job_state(handle) == (JobState.CANCELLED if is_first else JobState.FAILED)


def test_bag_runs_since_its_first_pod_does() -> None:
    """The limit of a bag counts once, and its run fails when all its pods are gone."""
    world = LeaderWorld(clusters={"a": 1})
    (handle,) = world.submit(1, options=(-1, LIMIT_S, -1), layout=BAG_LAYOUT)
    world.round()
    world.report("a", [Report(handle=handle, object_index=1, state=ObjectState.RUNNING)])
    world.now_s += LIMIT_S - 1
    world.report("a", [Report(handle=handle, object_index=2, state=ObjectState.RUNNING)])
    world.now_s += 2
    world.round()
    assert stopped(world) == [handle]
    world.report("a", [Report(handle=handle, object_index=i, state=ObjectState.CANCELLED) for i in range(3)])
    assert world.job_state(handle) == JobState.FAILED


def test_runs_that_ended_long_before_their_limits_are_forgotten() -> None:
    """What is kept is bounded by the live jobs, not by all that ever ran."""
    world = LeaderWorld(clusters={"a": 40})
    for _ in range(12):
        handles = started(world, 160)
        world.report("a", [Report(handle=handle, state=ObjectState.SUCCEEDED) for handle in handles])
    assert len(world.state.time_limits) <= 1024 + 2 * 160


def test_limit_of_a_run_that_has_ended_is_no_reason_for_a_round() -> None:
    """Most runs end before their limits: time passes up to the limit of the next one that goes on."""
    world = LeaderWorld(clusters={"a": 40})
    ended = started(world, 7)
    world.now_s += 10
    started(world, 2)
    began_s = world.now_s
    world.report("a", [Report(handle=handle, state=ObjectState.SUCCEEDED) for handle in ended])
    world.round()
    assert next_due_s(world.state, world.now_s) == pytest.approx(began_s + LIMIT_S)
    assert len(world.state.time_limits) == 2

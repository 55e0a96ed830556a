"""A new leader goes on where the last one stopped."""

from __future__ import annotations

import numpy as np
import pytest

from argosy_core.errors import InvariantViolation
from argosy_core.job.states import FailureKind, JobEventKind, JobStage, JobState
from argosy_core.job.tables.members import Members
from argosy_core.leader.instructions import SendRows, SendStops
from argosy_core.scheduler import RoundSettings, explain, placements_of, recover, shares
from argosy_testkit.leader_world import LeaderWorld
from argosy_testkit.world_rows import BAG_LAYOUT, POD_LAYOUT, Report


def test_new_leader_keeps_runs_queued_jobs_their_order_and_flow() -> None:
    """Nothing starts over."""
    world = LeaderWorld(clusters={"a": 1}, queues={"alice": 1, "bob": 2})
    running = world.submit(4, queue=1)
    world.round()
    world.round()
    world.report("a", [Report(handle=running[0], state=3)])
    waiting = world.submit(5, queue=1, priority=-1)
    other = world.submit(5, queue=2)
    before = shares(world.state, world.now_s).queues
    positions = [explain(world.state, handle, world.now_s).queue_position for handle in waiting]  # type: ignore[union-attr]
    world.take_over()
    world.take()
    assert shares(world.state, world.now_s).queues == before
    assert [explain(world.state, h, world.now_s).queue_position for h in waiting] == positions  # type: ignore[union-attr]
    assert explain(world.state, running[0], world.now_s).stage == JobStage.RUNNING  # type: ignore[union-attr]
    assert placements_of(world.state, "a").members.handle.tolist() == running
    world.report("a", [Report(handle=handle, state=4) for handle in running])
    assert world.job_state(running[0]) == JobState.SUCCEEDED
    assert world.round().handle.tolist() == other[:4]


def test_failed_attempts_survive_the_leader() -> None:
    """The tenth is the tenth whoever leads."""
    world = LeaderWorld(settings=RoundSettings(max_failed_attempts=3))
    handle = world.submit(1)[0]
    no = np.full(1, -1, np.int32)
    for turn in range(3):
        world.now_s += 20

        def conflict(request: object) -> object:
            reply = world.commit(request)  # type: ignore[arg-type]
            world.clusters["a"].ledger.release(Members.of([handle], [1]))
            return type(reply)(incarnation=reply.incarnation, node=no, outcome=np.full(1, 2, np.int8))

        plan = world.plan(answer_commit=conflict)  # type: ignore[arg-type]
        world.ingest(plan)
        if turn < 2:
            world.take_over()
    assert world.job_state(handle) == JobState.FAILED


def test_back_off_after_a_failed_run_goes_on_under_the_next_leader() -> None:
    """A leader that comes and goes must not have a job tried again at once."""
    world = LeaderWorld()
    handle = world.submit(1)[0]
    world.round()
    world.report("a", [Report(handle=handle, state=5, failure=FailureKind.INFRASTRUCTURE)])
    world.take_over()
    assert not world.round().handle.size
    world.now_s += 1.0
    assert world.round().attempt.tolist() == [2]


def test_plan_that_the_last_leader_left_in_the_log_is_ingested_by_the_next() -> None:
    """Adopted, stored, and counted once."""
    world = LeaderWorld(clusters={"a": 1})
    handles = world.submit(6)
    plan = world.plan()
    world.take_over(unread=plan)
    assert [world.job_state(handle) for handle in handles] == [JobState.LEASED] * 4 + [JobState.QUEUED] * 2
    assert world.clusters["a"].ledger.placement_count == 4
    assert not world.round().handle.size


def test_plan_in_the_log_does_not_bring_back_what_ended() -> None:
    """A job that was cancelled meanwhile, or has had that attempt, is left out."""
    world = LeaderWorld(clusters={"a": 1})
    handles = world.submit(2)
    plan = world.plan()
    world.cancel(handles[:1])
    world.take_over(unread=plan)
    assert [handle for handle, _ in world.live_runs("a")] == handles[1:]
    world.take_over(unread=plan)
    assert [handle for handle, _ in world.live_runs("a")] == handles[1:]
    assert world.sent(SendRows) == [("a", handles[1], 1)]


def test_plan_in_the_log_leases_nothing_to_a_cluster_that_was_declared_gone() -> None:
    """Who declared it gone was answered by a leader that is dead; the next one must not wait for that cluster."""
    world = LeaderWorld(clusters={"a": 1})
    handles = world.submit(4)
    plan = world.plan()
    assert plan.handle.tolist() == handles
    world.store.forget("a")
    world.take_over(unread=plan)
    assert world.live_runs("a") == []
    assert [world.job_state(handle) for handle in handles] == [JobState.QUEUED] * 4
    assert world.round().handle.tolist() == handles, "it has come back and may be given work"


def test_job_with_a_change_request_and_no_run_is_ended_by_the_next_leader() -> None:
    """The API saw a run that was over before its change request was read."""
    world = LeaderWorld()
    handle = world.submit(1)[0]
    world.round()
    world.cancel([handle], deliver=False)
    world.report("a", [Report(handle=handle, state=7)])
    world.take_over()
    assert world.job_state(handle) == JobState.CANCELLED
    assert world.job(handle).state == JobState.CANCELLED


def test_stop_is_decided_again_by_the_next_leader() -> None:
    """The change request is in the row, so its stop cannot be lost."""
    world = LeaderWorld()
    handle = world.submit(1)[0]
    world.round()
    world.cancel([handle])
    world.take()
    world.said.clear()
    world.take_over()
    assert world.sent(SendStops) == [("a", handle, 1)]


@pytest.mark.parametrize(
    ("reports", "rest", "outcome"),
    [
        pytest.param([(0, 3), (1, 4)], [(2, 4)], JobState.SUCCEEDED, id="one-pod-had-ended"),
        pytest.param([(1, 3), (2, 3), (1, 5)], [(2, 6)], JobState.FAILED, id="one-pod-had-failed"),
        pytest.param([(1, 3)], [(1, 4), (2, 4)], JobState.SUCCEEDED, id="running"),
    ],
)
def test_bag_goes_on_from_the_states_of_its_objects(
    reports: list[tuple[int, int]], rest: list[tuple[int, int]], outcome: JobState
) -> None:
    """What was reported to the last leader counts."""
    world = LeaderWorld()
    handle = world.submit(1, layout=BAG_LAYOUT)[0]
    world.round()
    for index, state in reports:
        world.report("a", [Report(handle=handle, object_index=index, state=state, failure=int(state == 5))])
    world.take_over()
    for index, state in rest:
        world.report("a", [Report(handle=handle, object_index=index, state=state)])
    assert world.job_state(handle) == outcome


@pytest.mark.parametrize(
    ("layout", "reports"),
    [
        pytest.param(POD_LAYOUT, [(0, 3, 100)], id="running"),
        pytest.param(POD_LAYOUT, [(0, 3, 100), (0, 8, 200)], id="running-then-unknown"),
        pytest.param(POD_LAYOUT, [(0, 8, 50), (0, 3, 100)], id="unknown-first"),
        pytest.param(BAG_LAYOUT, [(0, 3, 50), (2, 3, 100), (1, 3, 90)], id="bag-counts-from-its-first-report-of-a-pod"),
        pytest.param(BAG_LAYOUT, [(1, 3, 100), (1, 4, 200)], id="bag-whose-first-pod-has-ended"),
    ],
)
@pytest.mark.parametrize("takeover_count", [0, 1, 2])
def test_run_has_begun_when_it_began_whoever_leads(
    layout: bytes, reports: list[tuple[int, int, int]], takeover_count: int
) -> None:
    """The start time in the row of the run is that of the first report, not lost and not that of the takeover."""
    world = LeaderWorld()
    handle = world.submit(1, layout=layout)[0]
    world.round()
    for index, state, time_us in reports:
        world.report("a", [Report(handle=handle, object_index=index, state=state, time_us=time_us)])
    for _ in range(takeover_count):
        world.take_over()
    left = [1, 2] if layout == BAG_LAYOUT else [0]
    ends = [
        world.report("a", [Report(handle=handle, object_index=index, state=state, time_us=300)])
        for index in left
        for state in (3, 4)
    ]
    assert [
        time_us for effects in ends for updates in effects.run_ends for time_us in updates.start_time_us.tolist()
    ] == [100]


@pytest.mark.parametrize(
    ("state", "failure"), [(5, FailureKind.INFRASTRUCTURE), (7, 0), (6, 0)], ids=["failed", "lost", "cancelled"]
)
def test_bag_of_which_a_pod_ended_before_any_ran_is_not_running_for_the_next_leader(state: int, failure: int) -> None:
    """Its events have led to leased; what follows must begin there."""
    world = LeaderWorld()
    handle = world.submit(1, layout=BAG_LAYOUT)[0]
    world.round()
    world.report("a", [Report(handle=handle, object_index=1, state=2)])
    world.report("a", [Report(handle=handle, object_index=2, state=state, failure=failure)])
    before = world.job_state(handle)
    world.take_over()
    assert before == JobState.LEASED
    assert world.state.live.state[world.state.live.slots(np.array([handle]))].tolist() == [before]


def test_next_run_of_a_job_has_not_begun_because_the_last_one_had() -> None:
    """What is stored belongs to one attempt."""
    world = LeaderWorld()
    handle = world.submit(1)[0]
    world.round()
    world.report("a", [Report(handle=handle, state=3, time_us=100), Report(handle=handle, state=7, time_us=200)])
    world.now_s += 60
    world.round()
    world.take_over()
    assert world.state.live.start_time_us[world.state.live.slots(np.array([handle]))].tolist() == [0]


def test_submit_that_was_loaded_before_its_change_was_read_gets_its_event_once() -> None:
    """A row of changes is taken exactly once, whoever loaded the job."""
    world = LeaderWorld()
    world.submit(1)
    rows = world.grow(1)
    world.store.submit(world.store.next_change_id(), rows, 1)
    world.take_over()
    (handle,) = world.job_index.handles(rows).tolist()
    assert world.kinds(handle) == [JobEventKind.SUBMITTED]
    assert world.machine.totals["submitted"] == 0, "it was loaded"
    assert world.round().handle.size == 2


def test_recover_refuses_a_pool_that_holds_jobs() -> None:
    """It would count them twice."""
    world = LeaderWorld()
    world.submit(1)
    with pytest.raises(InvariantViolation):
        recover(world.state, world.store.load(), world.now_s)

"""Changes: submitted jobs and change requests, at every stage a job can be in."""

from __future__ import annotations

import numpy as np
import pytest

from argosy_core.errors import NotFound
from argosy_core.job.states import JobEventKind, JobState, ObjectState
from argosy_core.job.tables.members import Members
from argosy_core.leader.instructions import SendReleases, SendRows, SendStops
from argosy_core.scheduler import (
    ChangeRequestColumns,
    EndedJobs,
    begin_round,
    explain,
    missing,
    note_ended,
    remove_queues,
    rows_missing,
    shares,
    take_change_requests,
    take_jobs,
)
from argosy_testkit.leader_world import LeaderWorld
from argosy_testkit.world_rows import Report


def test_submitted_jobs_wait_in_priority_and_submit_order() -> None:
    """Higher priority first, then submit order."""
    world = LeaderWorld(clusters={"a": 1})
    low = world.submit(3, priority=0)
    high = world.submit(2, priority=5)
    assert [explain(world.state, h, world.now_s).queue_position for h in (*high, *low)] == [0, 1, 2, 3, 4]  # type: ignore[union-attr]
    assert world.round().handle.tolist() == [*high, *low[:2]]


def test_taking_jobs_says_what_is_not_defined_and_changes_nothing() -> None:
    """The shell reads what is missing first."""
    world = LeaderWorld()
    rows = world.grow(1, class_id=99)
    columns = world.job_index.columns(rows, np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int32))
    assert missing(world.state, columns).class_ids == (99,)
    with pytest.raises(NotFound):
        take_jobs(world.state, columns, world.now_s)
    world.check()
    assert len(world.state.live) == 0


def test_reprioritised_job_moves_in_its_queue_pending_or_not() -> None:
    """It stands where its priority says, and goes first when there is room."""
    world = LeaderWorld(clusters={"a": 1})
    first = world.submit(6)
    world.round()
    queued = world.submit(2)
    world.reprioritize([queued[1], first[5]], 9)
    assert explain(world.state, queued[1], world.now_s).queue_position == 1  # type: ignore[union-attr]
    assert explain(world.state, first[4], world.now_s).queue_position == 2  # type: ignore[union-attr]
    assert world.kinds(queued[1])[-1] == JobEventKind.REPRIORITIZED
    world.reprioritize([queued[1]], 9)
    assert [world.kinds(handle).count(JobEventKind.REPRIORITIZED) for handle in (queued[1], first[5])] == [1, 1]
    world.report("a", [Report(handle=first[0], state=ObjectState.SUCCEEDED)])
    assert world.round().handle.tolist() == [first[5]]


@pytest.mark.parametrize("rounds", [pytest.param(0, id="queued"), pytest.param(1, id="pending")])
def test_cancelled_job_that_waits_is_gone_at_once(rounds: int) -> None:
    """The API ended its row; the leader numbers the event."""
    world = LeaderWorld(clusters={"a": 1})
    handles = world.submit(6)
    for _ in range(rounds):
        world.round()
    world.cancel(handles[4:])
    world.take()
    assert world.job_state(handles[5]) == JobState.CANCELLED
    assert explain(world.state, handles[5], world.now_s) is None
    assert world.stored[-1].job_ends == []


def test_running_job_is_stopped_by_the_next_plan_and_ends_when_its_pod_has() -> None:
    """The change request is an event, the stop a message, the end a fact."""
    world = LeaderWorld()
    handle = world.submit(1)[0]
    world.round()
    world.report("a", [Report(handle=handle, state=3)])
    world.cancel([handle])
    plan = world.round()
    assert world.kinds(handle)[-1] == JobEventKind.CANCEL_REQUESTED
    assert plan.stops.handle.tolist() == [handle]
    assert world.sent(SendStops) == [("a", handle, 1)]
    assert not world.round().has_news
    world.report("a", [Report(handle=handle, state=6)])
    assert world.job_state(handle) == JobState.CANCELLED
    assert world.clusters["a"].ledger.placement_count == 0


@pytest.mark.parametrize(
    ("stop_sent", "state", "failure", "outcome"),
    [
        pytest.param(False, 4, 0, JobState.SUCCEEDED, id="success-wins"),
        pytest.param(True, 4, 0, JobState.SUCCEEDED, id="success-wins-after-the-stop"),
        pytest.param(False, 5, 1, JobState.FAILED, id="own-failure-before-the-stop"),
        pytest.param(True, 5, 1, JobState.CANCELLED, id="killed-by-the-stop"),
        pytest.param(False, 5, 5, JobState.CANCELLED, id="no-new-run-after-the-node-failed"),
        pytest.param(False, 7, 0, JobState.CANCELLED, id="no-new-run-after-it-was-lost"),
    ],
)
def test_what_the_pod_did_wins_over_the_change_request(
    *, stop_sent: bool, state: int, failure: int, outcome: JobState
) -> None:
    """Success always; failure only if it was the pod's own."""
    world = LeaderWorld()
    handle = world.submit(1)[0]
    world.round()
    world.cancel([handle])
    if stop_sent:
        world.round()
    world.report("a", [Report(handle=handle, state=state, failure=failure)])
    assert world.job_state(handle) == outcome


@pytest.mark.parametrize("is_read", [True, False], ids=["read-before-the-lease", "read-later"])
def test_change_request_that_overtook_its_lease_in_the_database_refuses_it(*, is_read: bool) -> None:
    """The API ended the job while its lease was on the log: refused, released, gone when the change request arrives."""
    world = LeaderWorld()
    handle = world.submit(1)[0]
    plan = world.plan()
    read = world.cancel([handle], deliver=is_read)
    world.ingest(plan)
    assert world.sent(SendReleases) == [("a", handle, 1)]
    assert world.clusters["a"].ledger.placement_count == 0
    assert not world.round().has_news
    read()
    world.take()
    kinds = [JobEventKind.SUBMITTED, JobEventKind.CANCEL_REQUESTED, JobEventKind.CANCELLED]
    assert world.kinds(handle) == kinds, "never leased"
    assert len(world.state.live) == 0
    assert world.sent(SendRows) == []


def test_cancel_of_a_job_between_two_runs_is_ended_by_the_leader() -> None:
    """The API saw a live run, the leader knows that it is over."""
    world = LeaderWorld()
    handle = world.submit(1)[0]
    world.round()
    read = world.cancel([handle], deliver=False)
    world.report("a", [Report(handle=handle, state=7)])
    assert world.job_state(handle) == JobState.QUEUED
    read()
    world.take()
    assert world.job_state(handle) == JobState.CANCELLED
    assert world.job(handle).state == JobState.CANCELLED


def test_change_request_refused_at_ingest_ends_the_job_if_the_leader_knows_it() -> None:
    """A cancel of an in-flight second attempt: the row stays open until the leader writes its end."""
    world = LeaderWorld()
    handle = world.submit(1)[0]
    world.round()
    read = world.cancel([handle], deliver=False)
    world.report("a", [Report(handle=handle, state=7)])
    plan = world.plan()
    read()
    world.ingest(plan)
    world.take()
    assert world.job(handle).state == world.job_state(handle) == JobState.CANCELLED
    assert world.clusters["a"].ledger.placement_count == 0


def test_job_cancelled_in_the_middle_of_a_round_is_left_out() -> None:
    """Committed already: released with the plan. Its slot may have another job by then."""
    world = LeaderWorld()
    handles = world.submit(2)
    current = begin_round(world.state, world.now_s, world.rng)
    current.take_sample("a", world.sample(current.requests[0]))
    reply = world.commit(current.decide(world.rng)[0])
    take_change_requests(world.state, _cancel(handles[0]), world.now_s)
    take_jobs(world.state, world.job_index.columns(world.grow(1), *np.zeros((2, 1), dtype=np.int64)), world.now_s)
    current.take_commits("a", reply)
    assert current.next_commits() == ()
    plan = current.finish(world.now_s)
    assert plan.handle.tolist() == [handles[1]]
    assert [runs.members.handle.tolist() for runs in plan.releases] == [[handles[0]]]


def _cancel(*handles: int) -> ChangeRequestColumns:
    """Return cancel requests for jobs that the API ended."""
    return ChangeRequestColumns(
        handle=np.array(handles, dtype=np.int64),
        kind=np.ones(len(handles), dtype=np.int8),
        priority=np.zeros(len(handles), dtype=np.int32),
        ended=np.ones(len(handles), dtype=np.int8),
    )


def test_change_request_for_a_job_that_never_was_here_is_told_so_that_its_event_is_not_lost() -> None:
    """After a change of leader the shell reads the job and numbers its event."""
    world = LeaderWorld()
    world.submit(1)
    change_requests = ChangeRequestColumns(
        handle=np.array([77, 78], dtype=np.int64),
        kind=np.ones(2, dtype=np.int8),
        priority=np.zeros(2, dtype=np.int32),
        ended=np.array([1, 0], dtype=np.int8),
    )
    effects = take_change_requests(world.state, change_requests, world.now_s)
    assert effects.unknown_ended.tolist() == [77]
    jobs = EndedJobs(handle=effects.unknown_ended, id_high=np.array([1]), job_set=np.array([1]))
    draft = note_ended(world.state, jobs, reason="gone", now_s=world.now_s)
    group = draft.groups()[0]
    assert (group.first_number, group.kind.tolist(), group.texts) == (2, [JobEventKind.CANCELLED], ("gone",))


def test_stop_of_a_run_is_repeated_to_an_executor_that_says_hello_again() -> None:
    """Level-triggered: what must stop is said again, what is missing is sent again."""
    world = LeaderWorld()
    handles = world.submit(3)
    world.round()
    world.cancel([handles[0]])
    world.round()
    known = Members.of([handles[0], 99], [1, 1])
    answer = rows_missing(world.state, "a", known)
    assert answer.rows.handle.tolist() == handles[1:]
    assert answer.stops.members.handle.tolist() == [handles[0]]
    assert answer.unknown.members.handle.tolist() == [99]
    assert (answer.unknown.is_unknown, answer.stops.is_unknown) == (True, False)


def test_deleted_queue_with_open_jobs_stays_until_they_have_ended_and_places_nothing() -> None:
    """What ended them before the queue was deleted may not have been read yet; their events need it."""
    world = LeaderWorld(queues={"alice": 1, "bob": 1})
    handles = world.submit(1)
    remove_queues(world.state, [1])
    assert 1 in world.state.queues.ids
    assert world.state.queues.cordoned[world.state.queues.ids.find(1)]
    world.cancel(handles)
    world.take()
    remove_queues(world.state, [1, 1, 77])
    assert [row.queue for row in shares(world.state, world.now_s).queues] == ["bob"]

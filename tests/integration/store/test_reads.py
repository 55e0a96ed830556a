"""Jobs and events as the API reads them."""

import time
from typing import Any

import numpy as np
import psycopg
import pytest

from argosy_core.errors import OutOfRange
from argosy_core.job.states import JobState
from argosy_store import Effects, EventRow, JobFilter, LabelRequirement
from argosy_store.postgres.connection import StoreConnection
from argosy_testkit.store_world import StoreWorld
from argosy_testkit.submissions import make_job_ends, make_leases, make_objects, make_reports, make_run_ends

DAY_US = 86_400_000_000


def add_events(world: StoreWorld, *spans: tuple[int, int], day: int | None = None) -> None:
    """Store batches of events."""
    time_us = (world.day if day is None else day) * DAY_US + 5
    rows = [
        EventRow(
            job_set_id=world.job_set_id,
            first_number=first,
            last_number=last,
            create_time_us=time_us,
            payload=b"%d-%d" % (first, last),
        )
        for first, last in spans
    ]
    world.leader.apply(world.epoch, Effects(events=rows))


@pytest.fixture
def states(world: StoreWorld) -> dict[JobState, int]:
    """Give one job in each state."""
    handles = world.submit_jobs(6)
    queued, leased, running, succeeded, failed, cancelled = handles.tolist()
    started = np.array([leased, running, succeeded])
    world.leader.apply(
        world.epoch, Effects(new_runs=make_leases(started), new_objects=make_objects(started, kinds=("Service", "Pod")))
    )
    with psycopg.connect(world.url) as connection:
        connection.execute("UPDATE objects SET state = 3 WHERE handle = %s", [running])
        connection.execute("UPDATE objects SET state = 2 WHERE handle = %s", [leased])
    world.leader.apply(
        world.epoch,
        Effects(run_updates=make_run_ends(np.array([succeeded])), job_updates=make_job_ends(np.array([succeeded]), 4)),
    )
    world.leader.apply(world.epoch, Effects(job_updates=make_job_ends(np.array([failed]), 5)))
    world.leader.apply(world.epoch, Effects(job_updates=make_job_ends(np.array([cancelled]), 6)))
    return dict(zip(JobState, (queued, leased, running, succeeded, failed, cancelled), strict=True))


def test_state_of_a_job_follows_from_its_row_or_its_pods(world: StoreWorld, states: dict[JobState, int]) -> None:
    """Terminal states stand in the job; the others follow from the live run's pods."""
    found = {job.handle: job.state for job in world.list_jobs(JobFilter())}
    assert found == {handle: int(state) for state, handle in states.items()}
    assert world.api.count_states(world.job_set_id) == {int(state): 1 for state in JobState}


@pytest.mark.parametrize(
    "wanted",
    [
        {JobState.QUEUED},
        {JobState.LEASED},
        {JobState.RUNNING},
        {JobState.FAILED, JobState.RUNNING},
        {JobState.QUEUED, JobState.LEASED, JobState.RUNNING},
        {JobState.SUCCEEDED, JobState.CANCELLED},
        set(JobState),
    ],
    ids=lambda wanted: "+".join(state.name.lower() for state in sorted(wanted)),
)
def test_list_jobs_filters_by_state(world: StoreWorld, states: dict[JobState, int], wanted: set[JobState]) -> None:
    """A filter by states gives the jobs in these states and no others."""
    found = world.list_jobs(JobFilter(states=frozenset(wanted)))
    assert {job.handle for job in found} == {states[state] for state in wanted}


def test_a_job_whose_run_was_lost_is_queued_again(world: StoreWorld) -> None:
    """Without a live run an open job waits."""
    handles = world.submit_jobs(1)
    world.lease(handles)
    world.leader.apply(
        world.epoch, Effects(object_updates=make_reports(handles, 7), run_updates=make_run_ends(handles, 7))
    )
    job = world.list_jobs(JobFilter())[0]
    assert (job.state, [run.state for run in job.runs]) == (JobState.QUEUED, [7])


@pytest.mark.parametrize(
    ("requirement", "expected"),
    [
        (LabelRequirement(key="app", operator="In", values=("x", "z")), [0, 3]),
        (LabelRequirement(key="app", operator="NotIn", values=("x",)), [1, 2, 4]),
        (LabelRequirement(key="app", operator="Exists"), [0, 1, 3, 4]),
        (LabelRequirement(key="app", operator="DoesNotExist"), [2]),
        (LabelRequirement(key="a'b.c/d%s", operator="In", values=("q'",)), [4]),
    ],
    ids=["in", "not in", "exists", "does not exist", "odd characters"],
)
def test_list_jobs_filters_by_labels(world: StoreWorld, requirement: LabelRequirement, expected: list[int]) -> None:
    """Label requirements mean what they mean in Kubernetes; jobs without labels have none."""
    labels = (b'{"labels": {"app": "x"}}', b'{"labels": {"app": "y"}}', b'{"labels": {}}')
    one = world.submit_jobs(4, metadata=labels)
    two = world.submit_jobs(1, metadata=(b'{"labels": {"app": "w", "a\'b.c/d%s": "q\'"}}',))
    handles = np.concatenate([one[:3], one[3:], two])
    found = [job.handle for job in world.list_jobs(JobFilter(labels=(requirement,)))]
    assert found == handles[expected].tolist()


def test_list_jobs_pages_in_submit_order_within_queue_and_job_set(world: StoreWorld) -> None:
    """Pages join to the whole without overlap, across days."""
    other_set = world.api.job_set_ids([(world.queue.queue_id, "weekly")])[0]
    mine = [*world.submit_jobs(5).tolist(), *world.submit_jobs(4, day=world.day + 1).tolist()]
    world.submit_jobs(3, job_set_id=other_set)
    chosen = JobFilter(queue_id=world.queue.queue_id, job_set="nightly")
    pages, after = [], 0
    while page := world.list_jobs(chosen, after_handle=after, limit=2):
        pages += [job.handle for job in page]
        after = page[-1].handle
    assert pages == sorted(mine)
    assert world.list_jobs(JobFilter(queue_id=world.queue.queue_id, job_set="none")) == []
    assert world.api.find_job_set(world.queue.queue_id, "weekly") == other_set
    assert world.api.find_job_set(world.queue.queue_id, "none") is None


def test_get_job_of_an_unknown_handle_is_none(world: StoreWorld) -> None:
    """A handle that names no job is no error of the store's."""
    assert world.api.get_job(77) is None
    assert world.api.get_jobs([77]) == []


@pytest.mark.parametrize(
    ("after", "expected"),
    [(0, [(1, 3), (4, 4), (5, 9)]), (3, [(4, 4), (5, 9)]), (2, [(1, 3), (4, 4), (5, 9)]), (6, [(5, 9)]), (9, [])],
)
def test_read_events_gives_the_batches_that_hold_later_numbers(
    world: StoreWorld, after: int, expected: list[tuple[int, int]]
) -> None:
    """Reading goes on where a cursor stands, also in the middle of a batch, across days."""
    add_events(world, (1, 3), (4, 4), day=world.day - 1)
    add_events(world, (5, 9))
    assert [row[:2] for row in world.api.read_events(world.job_set_id, after)] == expected
    assert world.api.oldest_event_number(world.job_set_id) == 1


def test_read_events_is_limited_and_goes_on(world: StoreWorld) -> None:
    """A limit cuts between batches; the next read begins after the last number."""
    add_events(world, *((number, number) for number in range(1, 8)))
    first = world.api.read_events(world.job_set_id, 0, limit_rows=3)
    second = world.api.read_events(world.job_set_id, first[-1][1], limit_rows=10)
    assert [row[0] for row in first + second] == list(range(1, 8))
    assert first[0][2] == b"1-1"


def test_read_events_of_a_job_set_without_any_is_empty(world: StoreWorld) -> None:
    """No events are no error, and the oldest number is the one to come."""
    assert world.api.read_events(world.job_set_id, 0) == []
    assert world.api.oldest_event_number(world.job_set_id) == 1


def test_event_that_is_stored_while_the_oldest_is_looked_for_is_not_older(
    world: StoreWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A watch that begins in that moment would miss it, and wait for ever for the first event of a job set."""
    execute, pending = StoreConnection.execute, [(1, 1)]

    def execute_and_store(connection: StoreConnection, *args: Any, **options: Any) -> Any:
        found = execute(connection, *args, **options)
        if pending and "job_set_events" in str(args[0]):
            add_events(world, pending.pop())
        return found

    monkeypatch.setattr(StoreConnection, "execute", execute_and_store)
    assert world.api.oldest_event_number(world.job_set_id) == 1
    assert not pending


def test_read_events_tells_a_cursor_that_is_too_old(world: StoreWorld) -> None:
    """When events have aged out, a cursor before them is out of range and one after them is not."""
    add_events(world, (1, 3), day=world.day - 1)
    add_events(world, (4, 6))
    with psycopg.connect(world.url) as connection:
        connection.execute("DELETE FROM job_set_events WHERE first_number = 1")
    with pytest.raises(OutOfRange):
        world.api.read_events(world.job_set_id, 2)
    assert [row[:2] for row in world.api.read_events(world.job_set_id, 3)] == [(4, 6)]
    with psycopg.connect(world.url) as connection:
        connection.execute("DELETE FROM job_set_events")
    with pytest.raises(OutOfRange):
        world.api.read_events(world.job_set_id, 5)
    assert world.api.read_events(world.job_set_id, 6) == []
    assert world.api.oldest_event_number(world.job_set_id) == 7


def test_reading_does_not_wait_for_the_clock(world: StoreWorld) -> None:
    """Times in the future are stored as they are."""
    request = world.request(1, submit_time_us=int((time.time() + 1e6) * 1e6))
    world.submit(request)
    assert world.list_jobs(JobFilter())[0].submit_time_us == request.submit_time_us[0]

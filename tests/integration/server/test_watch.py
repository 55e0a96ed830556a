"""Tests of WatchJobSet."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import grpc
import numpy as np
import pytest

from argosy.api.v1 import event_pb2, job_pb2
from argosy.lease.v1 import lease_pb2
from argosy_core.job.identity import parse_id
from argosy_core.job.states import JobEventKind, JobState
from argosy_runtime.columns import pack_column
from argosy_store import Effects, EventRow
from argosy_store.postgres.connection import READ_SETTINGS, connect
from argosy_testkit.submissions import make_job_ends

SUBMITTED = (JobEventKind.SUBMITTED, 0, JobState.QUEUED)
LEASED = (JobEventKind.LEASED, JobState.QUEUED, JobState.LEASED)
RUNNING = (JobEventKind.RUNNING, JobState.LEASED, JobState.RUNNING)
SUCCEEDED = (JobEventKind.SUCCEEDED, JobState.RUNNING, JobState.SUCCEEDED)
CANCELLED = (JobEventKind.CANCELLED, JobState.QUEUED, JobState.CANCELLED)

Event = tuple[str, tuple[int, int, int]]


class Leader:
    """Writes events as a leader does."""

    def __init__(self, store: Any) -> None:
        """Take the lead."""
        self._store = store
        self._epoch = store.try_lead("leader", "127.0.0.1:1", 600.0).epoch
        self.number = 0

    def tell(self, *events: Event, ended: list[str] | None = None, job_set_id: int = 1) -> None:
        """Store a batch of events, and that some jobs ended."""
        ids = [parse_id(job_id) for job_id, _ in events]
        kinds = [kind for _, kind in events]
        count = len(events)
        payload = lease_pb2.EventBatch(
            handle_column=pack_column([handle for _, handle in ids], "int64"),
            id_high_column=pack_column([high for high, _ in ids], "int64"),
            kind_column=pack_column([int(kind[0]) for kind in kinds], "int8"),
            attempt_column=pack_column([1] * count, "int32"),
            time_us_column=pack_column([1_700_000_000_123_456] * count, "int64"),
            cluster_column=pack_column([0] * count, "int32"),
            node_column=pack_column([1] * count, "int32"),
            reason_column=pack_column([-1] * count, "int32"),
            texts=["east", "node-1"],
            from_state_column=pack_column([int(kind[1]) for kind in kinds], "int8"),
            to_state_column=pack_column([int(kind[2]) for kind in kinds], "int8"),
        ).SerializeToString()
        row = EventRow(
            job_set_id=job_set_id,
            first_number=self.number + 1,
            last_number=self.number + count,
            create_time_us=time.time_ns() // 1000,
            payload=payload,
        )
        self.number += count
        handles = np.array([parse_id(job_id)[1] for job_id in ended or ()], dtype=np.int64)
        self._store.apply(self._epoch, Effects(events=(row,), job_updates=make_job_ends(handles) if ended else None))


@pytest.fixture
def leader(leader_store: Any) -> Leader:
    """Give a leader that writes events."""
    return Leader(leader_store)


def watch(api: Any, **fields: Any) -> Any:
    """Begin a watch of job set one."""
    return api.events.WatchJobSet(event_pb2.WatchJobSetRequest(queue="red", job_set="one", **fields), timeout=100)


def counts_of(message: Any) -> dict[str, int]:
    """Return the jobs of a set by state."""
    names = {number: name.removeprefix("JOB_STATE_").lower() for name, number in job_pb2.JobState.items()}
    return {names[count.state]: count.job_count for count in message.state_counts}


async def collect(call: Any) -> list[Any]:
    """Return all messages of a watch that ends."""
    messages = []
    while (message := await call.read()) is not grpc.aio.EOF:
        messages.append(message)
    return messages


async def test_watch_sends_events_numbered_with_counts_and_ends_when_finished(api: Any, leader: Leader) -> None:
    """All events from the beginning, in order, with counts per state as of each message; it ends with the last job."""
    ids = await api.submit({"count": 2})
    leader.tell((ids[0], SUBMITTED), (ids[1], SUBMITTED), (ids[0], LEASED))
    call = watch(api, until_finished=True)
    first = await call.read()
    assert [event.number for event in first.events] == [1, 2, 3]
    assert [event.job_id for event in first.events] == [ids[0], ids[1], ids[0]]
    assert counts_of(first) == {"queued": 1, "leased": 1}
    event = first.events[2]
    assert (event.kind, event.attempt, event.cluster, event.node, event.reason) == (2, 1, "east", "node-1", "")
    assert (event.event_time.seconds, event.event_time.nanos) == (1_700_000_000, 123_456_000)
    leader.tell((ids[0], RUNNING), (ids[0], SUCCEEDED), (ids[1], LEASED), ended=ids[:1])
    leader.tell((ids[1], RUNNING), (ids[1], SUCCEEDED), ended=ids[1:])
    rest = await collect(call)
    assert [event.number for message in rest for event in message.events] == [4, 5, 6, 7, 8]
    assert counts_of(rest[-1]) == {"succeeded": 2}


async def test_watch_goes_on_from_any_cursor_at_any_replica(api: Any, leader: Leader, serve: Any) -> None:
    """Cutting a watch anywhere and going on elsewhere gives every event once and the same counts."""
    ids = await api.submit({"count": 4})
    leader.tell(*((job_id, SUBMITTED) for job_id in ids))
    leader.tell(*((job_id, LEASED) for job_id in ids))
    async with serve(api.url, api={"watch_batch_count": 3}) as other:
        messages = []
        cursor = ""
        while len(messages) < 4:
            call = watch(other, cursor=cursor)
            messages.append(await call.read())
            call.cancel()
            cursor = messages[-1].cursor
    numbers = [event.number for message in messages for event in message.events]
    assert numbers == list(range(1, 9))
    assert [len(message.events) for message in messages] == [3, 1, 3, 1]
    assert counts_of(messages[-1]) == {"leased": 4}
    assert counts_of(messages[2]) == {"queued": 1, "leased": 3}


async def test_watch_waits_for_events_of_jobs_cancelled_before_leader_knew_them(api: Any, leader: Leader) -> None:
    """A set is finished only once its events have told of every job."""
    ids = await api.submit({"count": 2})
    await api.jobs.CancelJobs(job_pb2.CancelJobsRequest(jobs=job_pb2.JobIds(ids=ids)))
    call = watch(api, until_finished=True)
    leader.tell((ids[0], SUBMITTED), (ids[0], CANCELLED))
    assert counts_of(await call.read()) == {"cancelled": 1}
    leader.tell((ids[1], SUBMITTED), (ids[1], CANCELLED))
    assert counts_of(await call.read()) == {"cancelled": 2}
    assert await call.read() is grpc.aio.EOF


async def test_watch_of_some_jobs_sends_their_events_and_ends_with_them(api: Any, leader: Leader) -> None:
    """A watch by ids or labels leaves out the others' events, and ends when its own jobs have ended."""
    ids = await api.submit({"labels": {"team": "a"}}, {"labels": {"team": "b"}})
    calls = [watch(api, until_finished=True, job_ids=ids[:1]), watch(api, until_finished=True, label_selector="team=a")]
    leader.tell((ids[0], SUBMITTED), (ids[1], SUBMITTED), (ids[0], LEASED))
    leader.tell((ids[1], LEASED), (ids[0], RUNNING), (ids[0], SUCCEEDED), ended=ids[:1])
    for call in calls:
        messages = await collect(call)
        numbers = [event.number for message in messages for event in message.events]
        assert numbers == [1, 3, 5, 6]
        assert {event.job_id for message in messages for event in message.events} == {ids[0]}
        assert counts_of(messages[-1]) == {"leased": 1, "succeeded": 1}


async def test_watch_may_begin_before_the_first_job(api: Any, leader: Leader) -> None:
    """A watch that allows it waits for the first job of its set; others are told that there is none."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await watch(api).read()
    assert caught.value.code() == grpc.StatusCode.NOT_FOUND
    call = watch(api, allow_missing=True, until_finished=True)
    for _ in range(3):
        await api.app.hub.next_poll()
    ids = await api.submit({})
    leader.tell((ids[0], SUBMITTED), (ids[0], CANCELLED), ended=ids)
    assert [event.number for message in await collect(call) for event in message.events] == [1, 2]


async def test_watch_answers_out_of_range_for_cursor_older_than_retention(api: Any, leader: Leader) -> None:
    """Events that are gone are never skipped in silence; without a cursor a watch begins with the oldest kept."""
    ids = await api.submit({})
    leader.tell((ids[0], SUBMITTED))
    cursor = (await watch(api).read()).cursor
    leader.tell((ids[0], LEASED))
    leader.tell((ids[0], RUNNING))
    with connect(api.url, READ_SETTINGS) as connection:
        connection.execute("DELETE FROM job_set_events WHERE first_number <= 2")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await watch(api, cursor=cursor).read()
    assert caught.value.code() == grpc.StatusCode.OUT_OF_RANGE
    assert "no longer" in str(caught.value.details())
    call = watch(api, until_finished=True)
    message = await call.read()
    assert [event.number for event in message.events] == [3]
    assert counts_of(message) == {"running": 1}
    leader.tell((ids[0], SUCCEEDED), ended=ids)
    assert counts_of((await collect(call))[-1]) == {"succeeded": 1}


async def test_watch_refuses_cursor_of_another_job_set(api: Any, leader: Leader) -> None:
    """A cursor names its job set."""
    ids = await api.submit({}, {"job_set": "two"})
    leader.tell((ids[0], SUBMITTED))
    cursor = (await watch(api).read()).cursor
    request = event_pb2.WatchJobSetRequest(queue="red", job_set="two", cursor=cursor)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await api.events.WatchJobSet(request).read()
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert "belongs to another job set" in str(caught.value.details())


async def test_watch_polls_only_while_somebody_watches(api: Any, leader: Leader) -> None:
    """The hub rests without watchers, and one poll serves many."""
    ids = await api.submit({})
    leader.tell((ids[0], SUBMITTED))
    assert api.app.hub.poll_count == 0
    calls = [watch(api) for _ in range(5)]
    for call in calls:
        await call.read()
    # Each has what there was and waits for more; the time limit of the test ends it.
    while api.app.hub.poll_count == 0:  # noqa: ASYNC110 - the hub tells nobody of its polls
        await asyncio.sleep(0.01)
    leader.tell((ids[0], LEASED))
    for call in calls:
        assert [event.number for event in (await call.read()).events] == [2]
        call.cancel()


async def test_watch_ends_with_unavailable_when_server_drains(database_url: str, leader: Leader, serve: Any) -> None:
    """A watcher is told to go on elsewhere rather than cut off."""
    async with serve(database_url) as api:
        await api.make_queue("red")
        ids = await api.submit({})
        leader.tell((ids[0], SUBMITTED))
        call = watch(api)
        await call.read()
        api.life.request_stop()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
        assert caught.value.code() == grpc.StatusCode.UNAVAILABLE

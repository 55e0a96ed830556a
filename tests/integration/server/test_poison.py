"""A server on a real database: what raises ends one term at most, and what was done while nobody led ends none."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from argosy.api.v1 import job_pb2, queue_pb2, scheduling_pb2
from argosy_core.leader import intake
from argosy_server.leader.settings import LeaderSettings
from argosy_store.terms.suspects import list_set_aside, retry_set_aside

TIMEOUT_S = 50.0
SETTINGS = LeaderSettings(lease_s=1.5, heartbeat_s=0.5, fence_s=5.0)
BAD_PRIORITY = 666


def rows(url: str, statement: str) -> list[tuple[Any, ...]]:
    """Return what the database holds."""
    with psycopg.connect(url) as database:
        return database.execute(statement.encode()).fetchall()


async def until(url: str, statement: str, wanted: list[tuple[Any, ...]]) -> None:
    """Wait until the database holds something."""
    async with asyncio.timeout(TIMEOUT_S):
        while (found := await asyncio.to_thread(rows, url, statement)) != wanted:
            assert len(found) <= max(len(wanted), 1)
            await asyncio.sleep(0.05)


async def test_a_change_that_raises_ends_one_term_and_is_taken_once_it_is_let_in_again(
    database_url: str, serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The origin is stored before the term ends; the next leader does without; a word brings it back."""
    is_bad = [True]
    take_jobs = intake.take_jobs

    def poisoned(state: Any, columns: Any, now_s: float) -> Any:
        if is_bad and BAD_PRIORITY in columns.priority:
            raise LookupError("nobody foresaw this")
        return take_jobs(state, columns, now_s)

    monkeypatch.setattr(intake, "take_jobs", poisoned)
    async with serve(database_url, role="both", leader_settings=SETTINGS) as api:
        await api.make_queue("red")
        await api.submit({"client_id": "good"})
        await until(database_url, "SELECT last_event_number FROM job_sets", [(1,)])
        await api.submit({"client_id": "bad", "priority": BAD_PRIORITY})
        await until(database_url, "SELECT kind FROM suspects", [("change",)])
        await api.submit({"client_id": "later"})
        await until(database_url, "SELECT last_event_number FROM job_sets", [(2,)])
        assert rows(database_url, "SELECT epoch FROM pools") == [(2,)]
        (found,) = list_set_aside(database_url)
        assert (found.kind, found.error) == ("change", "LookupError: nobody foresaw this")
        is_bad.clear()
        retry_set_aside(database_url, "default", kind="change", key=found.key)
        await until(database_url, "SELECT last_event_number FROM job_sets", [(3,)])
        assert rows(database_url, "SELECT epoch FROM pools") == [(2,)]
        assert rows(database_url, "SELECT count(*) FROM changes") == [(0,)]


async def test_a_queue_that_came_and_went_while_nobody_led_ends_no_term(database_url: str, serve: Any) -> None:
    """Made, used, emptied and deleted: the next leader reads that one by one, and the queue is deleted already."""
    async with serve(database_url, role="api") as api:
        await api.make_queue("red")
        (job_id,) = await api.submit({"client_id": "gone"})
        await api.jobs.CancelJobs(job_pb2.CancelJobsRequest(jobs=job_pb2.JobIds(ids=[job_id])))
        await api.queues.DeleteQueue(queue_pb2.DeleteQueueRequest(name="red"))
    slow = replace(SETTINGS, changes_per_round=1)
    async with serve(database_url, role="both", leader_settings=slow) as api:
        await until(database_url, "SELECT count(*) FROM changes", [(0,)])
        await api.make_queue("blue")
        await api.submit({"client_id": "next", "queue": "blue", "job_set": "two"})
        await until(database_url, "SELECT name, last_event_number FROM job_sets ORDER BY 1", [("one", 2), ("two", 1)])
    assert rows(database_url, "SELECT epoch FROM pools") == [(1,)]
    with psycopg.connect(database_url) as database:
        database.execute("UPDATE pools SET round_state = '\\xff'")
    async with serve(database_url, role="both", leader_settings=SETTINGS) as api:
        await api.submit({"client_id": "after", "queue": "blue", "job_set": "two"})
        await until(database_url, "SELECT name, last_event_number FROM job_sets ORDER BY 1", [("one", 2), ("two", 2)])
    assert rows(database_url, "SELECT epoch FROM pools") == [(2,)], "a round state that cannot be read is done without"


UNREADABLE = (
    "DELETE FROM changes",
    "UPDATE jobs SET run_after = '\\xff' WHERE client_id = 'waits'",
    "UPDATE queues SET max_running_amounts = '{cpu=many}' WHERE name = 'red'",
    "INSERT INTO clusters (name, uid) VALUES ('east', 'u')",
    "INSERT INTO cluster_bounds (cluster, max_capacity) VALUES ('east', '{cpu=1e3}')",
    """INSERT INTO cluster_pools (cluster, pool, role, process, incarnation)
    VALUES ('east', 'default', 'executor', gen_random_uuid(), 1)""",
    """INSERT INTO suspects (pool, kind, key, epoch, error, create_time_us)
    VALUES ('default', 'of a newer version', 'x', 1, '', 1), ('default', 'job', 'no number', 1, '', 1)""",
)


async def test_rows_that_nobody_can_read_cost_what_they_are_of_and_no_term(database_url: str, serve: Any) -> None:
    """A queue, a cluster, what a job waits for, and what a newer version had set aside: others' jobs go on."""
    async with serve(database_url, role="api") as api:
        await api.make_queue("red")
        await api.make_queue("green")
        await api.submit({"client_id": "waits", "queue": "green"}, {"client_id": "good", "queue": "green"})
    with psycopg.connect(database_url) as database:
        for statement in UNREADABLE:
            database.execute(statement.encode())
    async with serve(database_url, role="both", leader_settings=SETTINGS) as api:
        await api.submit({"client_id": "next", "queue": "green"}, {"client_id": "other", "queue": "red"})
        await until(database_url, "SELECT last_event_number FROM job_sets ORDER BY 1", [(1,), (1,)])
        found = await api.scheduling.GetShares(scheduling_pb2.GetSharesRequest())
        assert {share.queue: share.demand_cores for share in found.shares} == {"green": 2.0, "red": 1.0}
    assert rows(database_url, "SELECT epoch FROM pools") == [(1,)]


async def test_a_change_whose_events_are_stored_already_ends_one_term(database_url: str, serve: Any) -> None:
    """As after a table was restored without another: the next leader would number the same events, and does without."""
    async with serve(database_url, role="api") as api:
        await api.make_queue("red")
        await api.submit({"client_id": "bad"})
    with psycopg.connect(database_url) as database:
        database.execute(
            "INSERT INTO job_set_events (day, job_set_id, first_number, last_number, create_time_us, payload)"
            " SELECT handle >> 40, job_set_id, 1, 1, 1, '' FROM jobs"
        )
    async with serve(database_url, role="both", leader_settings=SETTINGS) as api:
        await until(database_url, "SELECT DISTINCT kind FROM suspects", [("change",)])
        await api.submit({"client_id": "next", "job_set": "two"})
        await until(database_url, "SELECT name, last_event_number FROM job_sets ORDER BY 1", [("one", 0), ("two", 1)])
    assert rows(database_url, "SELECT epoch FROM pools") == [(2,)]

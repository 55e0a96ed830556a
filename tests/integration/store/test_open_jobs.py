"""How many jobs of a submitter are open, and the limit that this is held to."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import psycopg
import pytest

from argosy_core.errors import QuotaExceeded
from argosy_store import ApiStore, Effects, SubmitRequest
from argosy_store.open_jobs import count_open_jobs, sum_open_jobs
from argosy_testkit.store_world import StoreWorld, encode_change_requests, encode_parts
from argosy_testkit.submissions import make_job_ends


def by(name: str, request: SubmitRequest, limit: int = 0) -> SubmitRequest:
    """Return a request of a submitter."""
    return replace(request, submitter=name, submitter_limit=limit)


def rows(world: StoreWorld) -> list[tuple[str, int]]:
    """Return the rows of the table, in the order of their making."""
    with psycopg.connect(world.url) as connection:
        return connection.execute("SELECT submitter, job_count FROM open_job_counts ORDER BY id").fetchall()


def open_jobs(world: StoreWorld) -> dict[str, int]:
    """Return how many jobs submitters have open by the table, which must be what the jobs say."""
    with psycopg.connect(world.url) as connection:
        told: list[tuple[str, int]] = connection.execute(
            "SELECT submitter, sum(job_count)::bigint FROM open_job_counts GROUP BY 1 HAVING sum(job_count) <> 0"
        ).fetchall()
        true: list[tuple[str, int]] = connection.execute(
            "SELECT submitter, count(*) FROM jobs WHERE state = 0 AND submitter IS NOT NULL GROUP BY 1"
        ).fetchall()
    assert dict(told) == dict(true)
    return dict(told)


def end(world: StoreWorld, handles: Any) -> None:
    """End jobs as their leader does."""
    world.leader.apply(world.epoch, Effects(job_updates=make_job_ends(np.asarray(handles), 4)))


def test_what_is_submitted_counts_until_it_has_ended(world: StoreWorld) -> None:
    """A job counts for its submitter from its submit to its end, and what ends twice does so once."""
    world.submit(by("user:ann", world.request(3)), by("user:bob", world.request(2)), world.request(4))
    first = by("user:ann", world.request(2))
    world.submit(first)
    assert open_jobs(world) == {"user:ann": 5, "user:bob": 2}
    end(world, first.handles)
    end(world, first.handles)
    assert open_jobs(world) == {"user:ann": 3, "user:bob": 2}


def test_cancelled_job_counts_until_its_run_has_ended(world: StoreWorld) -> None:
    """A job that waits ends as it is cancelled; one that runs counts until its leader says that it ended."""
    request = by("user:ann", world.request(3))
    world.submit(request)
    world.lease(request.handles[:1])
    world.api.set_change_requests(None, request.handles.tolist(), "cancel", encode=encode_change_requests)
    assert open_jobs(world) == {"user:ann": 1}
    end(world, request.handles[:1])
    assert open_jobs(world) == {}


def test_repeat_of_accepted_jobs_does_not_count_again(world: StoreWorld) -> None:
    """Client ids that stand for jobs already bring no open job, and need no room below the limit."""
    for _ in range(2):
        result = world.submit(by("user:ann", world.request(3, client_ids=["a", "b", "c"]), limit=3))[0]
        assert result.accepted
    assert open_jobs(world) == {"user:ann": 3}


def test_submit_beyond_the_limit_is_refused_whole_with_numbers_and_advice(world: StoreWorld) -> None:
    """Who has as many open jobs as a user may is refused by name, with the numbers; others' requests are stored."""
    world.submit(by("user:ann", world.request(4), limit=5))
    refused, other = world.submit(by("user:ann", world.request(2), limit=5), by("user:bob", world.request(2), limit=5))
    assert isinstance(refused.error, QuotaExceeded)
    assert refused.error.reason == "USER_OPEN_JOBS"
    for part in ("user:ann", "has 4 jobs", "may have 5", "2 more", "cancel", "access.quotas.max_open_job_count"):
        assert part in refused.error.message
    assert other.accepted
    assert open_jobs(world) == {"user:ann": 4, "user:bob": 2}
    assert world.submit(by("user:ann", world.request(1), limit=5))[0].accepted


def test_room_comes_back_as_jobs_end(world: StoreWorld) -> None:
    """A full user may submit again as soon as jobs have ended, without waiting for anything that is remembered."""
    request = by("user:ann", world.request(5), limit=5)
    world.submit(request)
    assert world.submit(by("user:ann", world.request(1), limit=5))[0].error is not None
    end(world, request.handles[:1])
    assert world.submit(by("user:ann", world.request(1), limit=5))[0].accepted


def test_limit_is_kept_by_replicas_that_submit_at_once(world: StoreWorld) -> None:
    """Several replicas near a user's limit accept exactly what fits."""
    stores = [ApiStore(world.url) for _ in range(3)]
    requests = [[by("user:ann", world.request(3), limit=20) for _ in range(5)] for _ in stores]

    def submit(place: int) -> int:
        return sum(stores[place].submit([request], encode_parts)[0].accepted for request in requests[place])

    with ThreadPoolExecutor(len(stores)) as threads:
        accepted = sum(threads.map(submit, range(len(stores))))
    for store in stores:
        store.close()
    assert accepted == 6
    assert open_jobs(world) == {"user:ann": 18}


def test_far_below_a_large_limit_nothing_is_read_or_locked(world: StoreWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the first submit within a second asks how many jobs are open, while not half of a large limit is used."""
    seen: list[str] = []
    real = psycopg.Connection.execute

    def execute(self: Any, query: Any, *args: Any, **options: Any) -> Any:
        seen.append(str(query))
        return real(self, query, *args, **options)

    monkeypatch.setattr(psycopg.Connection, "execute", execute)
    for _ in range(3):
        world.submit(by("user:ann", world.request(2), limit=1_000_000))
    assert sum("FROM open_job_counts" in query for query in seen) == 1
    assert not any("7313" in query for query in seen)


def test_many_rows_of_a_submitter_are_summed_up_as_it_submits(world: StoreWorld) -> None:
    """Reading how many jobs are open stays cheap, however many transactions brought or ended some."""
    with psycopg.connect(world.url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO open_job_counts (submitter, job_count) SELECT 'user:ann', 0 FROM generate_series(1, 300)"
        )
        connection.execute("INSERT INTO open_job_counts (submitter, job_count) VALUES ('user:bob', 0)")
    world.submit(by("user:ann", world.request(2), limit=1_000_000))
    assert rows(world) == [("user:bob", 0), ("user:ann", 2)]


def test_summing_up_and_counting_anew_leave_the_truth(world: StoreWorld) -> None:
    """Sums stay as they are when rows become one; counting anew mends what an older version did not note."""
    first = by("user:ann", world.request(3))
    world.submit(first, by("user:bob", world.request(1)))
    end(world, first.handles[:1])
    sum_open_jobs(world.url)
    assert sorted(rows(world)) == [("user:ann", 2), ("user:bob", 1)]
    with psycopg.connect(world.url, autocommit=True) as connection:
        connection.execute("UPDATE open_job_counts SET job_count = 77 WHERE submitter = 'user:bob'")
        connection.execute("INSERT INTO open_job_counts (submitter, job_count) VALUES ('user:gone', 5)")
    count_open_jobs(world.url)
    assert open_jobs(world) == {"user:ann": 2, "user:bob": 1}
    assert len(rows(world)) == 2

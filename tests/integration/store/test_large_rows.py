"""However large single rows are, nobody reads more of them at once than a bound of bytes."""

from __future__ import annotations

import json

import psycopg
import pytest

from argosy_core.errors import InvalidRequest
from argosy_store import JobFilter
from argosy_testkit.store_world import StoreWorld


def test_changes_are_read_in_pages_of_bounded_bytes_behind_what_is_held(world: StoreWorld) -> None:
    """A backlog of large requests must not take the memory of each leader that finds it; one larger comes alone."""
    with psycopg.connect(world.url, autocommit=True) as connection:
        ids = []
        for size in (3000, 3000, 3000, 20_000, 10):
            row = connection.execute(
                "INSERT INTO changes (pool, payload) VALUES ('default', %s) RETURNING id", [bytes(size)]
            ).fetchone()
            assert row is not None
            ids.append(row[0])
    before = [change_id for change_id, _ in world.leader.read_changes(100) if change_id not in ids]
    held = set(before)
    pages = []

    def is_new(change_id: int) -> bool:
        return change_id not in held

    while found := world.leader.read_changes(100, is_new, most_bytes=7000):
        pages.append([len(payload) for _, payload in found])
        held.update(change_id for change_id, _ in found)
    assert held >= set(ids)
    assert pages == [[3000, 3000], [3000], [20_000], [10]]
    assert [len(payload) for _, payload in world.leader.read_changes(1 + len(before))][-1:] == [3000]


def test_pages_of_jobs_are_bounded_in_bytes_and_lead_on(world: StoreWorld) -> None:
    """A thousand jobs with annotations of a quarter of a megabyte are many pages, not one that nobody takes."""
    handles: list[int] = []
    for name in ("a", "b", "c"):
        entry = json.dumps({"labels": {"l": name}, "annotations": {"note": name * 240_000}}).encode()
        handles += world.submit_jobs(50, metadata=(entry,)).tolist()
    handles += world.submit_jobs(200).tolist()
    for newest_first in (False, True):
        found: list[int] = []
        pages: list[int] = []
        after = 0
        while not pages or after:
            page = world.api.list_jobs(JobFilter(), after, 100, newest_first=newest_first)
            pages.append(sum(len(str(job.annotations)) for job in page.jobs))
            found += [job.handle for job in page.jobs]
            assert all(job.annotations.get("note", "")[:1] == job.labels.get("l", "") for job in page.jobs)
            after = page.next_handle
        assert found == sorted(handles, reverse=newest_first)
        assert max(pages) <= 2 << 20
    with pytest.raises(InvalidRequest, match="ask for fewer at once"):
        world.api.get_jobs(handles[:150])
    assert len(world.api.get_jobs(handles[:100])) == 100
    bare = world.api.get_jobs(handles, with_metadata=False)
    assert [(job.handle, job.annotations) for job in bare] == [(handle, {}) for handle in handles]

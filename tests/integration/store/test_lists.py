"""What lists and change requests cost among many jobs."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from argosy_core.errors import DeadlineExceeded
from argosy_store import ApiStore, BoundedFilter, Effects, JobFilter, LabelRequirement
from argosy_store.postgres.connection import compiled
from argosy_store.replicas.job_filters import OPEN_STATES, WINDOW
from argosy_testkit.store_world import StoreWorld, encode_change_requests
from argosy_testkit.submissions import make_job_ends

MANY = 60_000
_READ = (
    "SELECT (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE relname LIKE 'jobs%')"
    " + (SELECT sum(seq_tup_read) FROM pg_stat_user_tables WHERE relname LIKE 'jobs%')"
)


class Crowd:
    """Five jobs among many: in a queue and a job set of their own, with a label of their own, and failed."""

    def __init__(self, world: StoreWorld) -> None:
        self.world = world
        other = world.api.create_queue("other", weight=1, pool="default", create_time_us=1, encode=lambda _: b"q")
        self.queue_id = other.queue_id
        job_set_id = world.api.job_set_ids([(other.queue_id, "few")])[0]
        common = (b'{"labels": {"app": "common"}}',)
        before = world.submit_jobs(MANY // 2, metadata=common)
        handles = world.submit_jobs(
            5, queue_id=other.queue_id, job_set_id=job_set_id, metadata=(b'{"labels": {"app": "rare", "x": "1"}}',)
        )
        behind = world.submit_jobs(MANY // 2, metadata=common)
        world.leader.apply(world.epoch, Effects(job_updates=make_job_ends(handles, 5)))
        self.handles = handles.tolist()
        self.others = np.concatenate((before, behind))

    @contextmanager
    def reading_at_most(self, count: int) -> Iterator[None]:
        """Fail if more index entries and rows of jobs are read meanwhile."""
        connections = self.world.api._connections
        with connections.read() as connection:
            connection.execute("SELECT pg_stat_force_next_flush()")
        with psycopg.connect(self.world.url, autocommit=True) as connection:
            before = connection.execute(_READ).fetchone()
        yield
        with connections.read() as lent:
            lent.execute("SELECT pg_stat_force_next_flush()")
        with psycopg.connect(self.world.url, autocommit=True) as connection:
            after = connection.execute(_READ).fetchone()
        assert before is not None
        assert after is not None
        assert 0 < after[0] - before[0] <= count


@pytest.fixture
def crowd(world: StoreWorld) -> Crowd:
    """Give five jobs among many."""
    return Crowd(world)


def rare(operator: str, *values: str, key: str = "app") -> tuple[LabelRequirement, ...]:
    """Return a requirement on a label."""
    return (LabelRequirement(key=key, operator=operator, values=values),)  # type: ignore[arg-type]


def test_few_jobs_among_many_are_listed_without_looking_at_the_others(crowd: Crowd) -> None:
    """By queue, by job set and by label an index leads to them, whatever the order, and with any state beside it."""
    api, mine = crowd.world.api, JobFilter(queue_id=crowd.queue_id)
    filters = (
        mine,
        JobFilter(queue_id=crowd.queue_id, job_set="few"),
        JobFilter(labels=rare("In", "rare")),
        JobFilter(labels=rare("Exists", key="x")),
        JobFilter(labels=(*rare("In", "rare", "common"), *rare("Exists", key="x"))),
        JobFilter(queue_id=crowd.queue_id, labels=rare("In", "rare", "common")),
        JobFilter(queue_id=crowd.queue_id, states=frozenset({5})),
        JobFilter(queue_id=crowd.queue_id, labels=rare("NotIn", "common")),
    )
    api.list_jobs(mine)
    for chosen in filters:
        for newest_first in (False, True):
            with crowd.reading_at_most(200 if not chosen.labels or len(chosen.labels) == 2 else 2 * WINDOW):
                page = api.list_jobs(chosen, newest_first=newest_first)
            found = [job.handle for job in page.jobs]
            assert found == (crowd.handles[::-1] if newest_first else crowd.handles), chosen
            assert page.next_handle == 0


def test_page_looks_at_a_bounded_number_of_jobs_where_no_index_leads_to_them(crowd: Crowd) -> None:
    """A page may be short, and says where to go on."""
    api, rarely = crowd.world.api, JobFilter(labels=rare("NotIn", "common"))
    api.list_jobs(rarely)
    found: list[int] = []
    after, pages = 0, 0
    while pages == 0 or after:
        with crowd.reading_at_most(8 * WINDOW * 4):
            page = api.list_jobs(rarely, after)
        found += [job.handle for job in page.jobs]
        after, pages = page.next_handle, pages + 1
    assert found == crowd.handles
    assert pages > 1


def test_jobs_of_other_states_are_left_out_where_they_stand(crowd: Crowd) -> None:
    """What changes has no index: rows are looked at once, many at a time, and only those that may be meant are read."""
    api, leader = crowd.world.api, crowd.world.leader
    leader.apply(crowd.world.epoch, Effects(job_updates=make_job_ends(crowd.others, 4)))
    with psycopg.connect(crowd.world.url, autocommit=True) as connection:
        connection.execute("VACUUM jobs")
    for states, meant in ((frozenset({5}), crowd.handles), (frozenset({1, 5}), crowd.handles), (OPEN_STATES, [])):
        chosen = JobFilter(states=states)
        api.list_jobs(chosen)
        for newest_first in (False, True):
            with crowd.reading_at_most(MANY + 1000):
                page = api.list_jobs(chosen, newest_first=newest_first)
            assert [job.handle for job in page.jobs] == (meant[::-1] if newest_first else meant)
            assert page.next_handle == 0


def test_first_page_of_many_reads_that_page_only(crowd: Crowd) -> None:
    """A page costs what it holds, oldest or newest first, in any of its places."""
    api, everything = crowd.world.api, JobFilter(queue_id=crowd.world.queue.queue_id)
    after = 0
    for _ in range(3):
        with crowd.reading_at_most(1000):
            page = api.list_jobs(everything, after, 50, newest_first=True)
        assert len(page.jobs) == 50
        after = page.next_handle


def test_change_of_few_jobs_among_many_counts_nothing_first(crowd: Crowd) -> None:
    """A request by selector looks at the jobs that the selector leads to, once to show some and once to change them."""
    api = crowd.world.api
    more = crowd.world.submit_jobs(3, queue_id=crowd.queue_id, job_set_id=api.job_set_ids([(crowd.queue_id, "few")])[0])
    target = BoundedFilter(job_filter=JobFilter(queue_id=crowd.queue_id), upper_handle=int(more[-1]))
    with crowd.reading_at_most(500):
        assert api.sample_change_requests(target, 20) == more.tolist()
        assert api.set_change_requests(None, target, "cancel", encode=encode_change_requests).job_count == 3


def test_list_that_takes_too_long_says_so(world: StoreWorld) -> None:
    """It is not called unavailable: the same call would take as long again."""
    world.submit_jobs(1)
    hurried = ApiStore(make_conninfo(world.url, options="-c statement_timeout=400"))
    with psycopg.connect(world.url) as holder:
        holder.execute("LOCK TABLE jobs IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(DeadlineExceeded, match="ask for less"):
            hurried.list_jobs(JobFilter())
    assert len(hurried.list_jobs(JobFilter()).jobs) == 1
    hurried.close()


def test_metadata_of_many_copies_is_stored_once(world: StoreWorld) -> None:
    """Annotations of 240 kB on 2,000 jobs of one item take that once, and load as one text."""
    entry = json.dumps({"labels": {"a": "1"}, "annotations": {"note": "x" * 240_000}}).encode()
    world.submit_jobs(2000, metadata=(entry,))
    loaded = world.leader.load()
    assert len(loaded.columns.jobs.metadata) == 1
    assert set(loaded.columns.jobs.metadata_index.tolist()) == {0}
    with psycopg.connect(world.url) as connection:
        row = connection.execute(f"SELECT pg_total_relation_size('jobs_d{world.day}')".encode()).fetchone()
    assert row is not None
    assert row[0] < 2_000_000


def test_second_list_of_a_shape_is_not_built_again(world: StoreWorld) -> None:
    """Nor is a change's: only values differ."""
    handles = world.submit_jobs(3, metadata=(b'{"labels": {"app": "a"}}',)).tolist()
    texts = []
    for value, found in (("a", handles), ("b", [])):
        chosen = JobFilter(queue_id=world.queue.queue_id, states=frozenset({1}), labels=rare("In", value))
        assert [job.handle for job in world.api.list_jobs(chosen).jobs] == found
        target = BoundedFilter(job_filter=chosen, upper_handle=handles[-1])
        assert world.api.sample_change_requests(target, 20) == found
        texts.append(compiled.cache_info().misses)
    assert texts[0] == texts[1]

"""What leaves, and what stays."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import psycopg
import pytest

from argosy_core.errors import NotAllowedNow, OutOfRange
from argosy_core.job.states import JobState
from argosy_store import ApiStore, Effects, EventRow, JobFilter, ensure_partitions, retain
from argosy_store.postgres.locks import PARTITION_LOCK
from argosy_testkit.postgres import set_database_time
from argosy_testkit.store_world import StoreWorld, encode_change_requests
from argosy_testkit.submissions import make_job_ends, make_reports, make_run_ends

DAY_US = 86_400_000_000
RETENTION_DAYS = 7


@pytest.fixture
def aged(world: StoreWorld) -> StoreWorld:
    """Give a world with partitions for the last eight days, and for one long ago."""
    ensure_partitions(world.url, world.day - 15, days_ahead=0)
    ensure_partitions(world.url, world.day - 8, days_ahead=7)
    return world


def partitions(world: StoreWorld, table: str) -> list[str]:
    """Return the names of a table's partitions."""
    with psycopg.connect(world.url) as connection:
        rows = connection.execute(
            "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = %s::regclass ORDER BY 1", [table]
        ).fetchall()
    return [row[0] for row in rows]


def count(world: StoreWorld, table: str) -> int:
    """Return the number of rows of a table."""
    with psycopg.connect(world.url) as connection:
        row = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
    assert row is not None
    return int(row[0])


def end(world: StoreWorld, handles: np.ndarray, day: int) -> None:
    """End jobs on a day."""
    ends = make_job_ends(handles, end_time_us=day * DAY_US)
    world.leader.apply(world.epoch, Effects(run_updates=make_run_ends(handles), job_updates=ends))


def now_us(world: StoreWorld) -> int:
    """Return the middle of today."""
    return world.day * DAY_US + DAY_US // 2


def test_ensure_partitions_makes_days_once(world: StoreWorld) -> None:
    """Partitions are made where they are missing, for every table of jobs."""
    assert ensure_partitions(world.url, world.day + 1, days_ahead=3) == (world.day + 4,)
    assert ensure_partitions(world.url, world.day + 1, days_ahead=3) == ()
    for table in ("jobs", "runs", "objects", "job_specs", "job_set_events"):
        assert f"{table}_d{world.day + 4}" in partitions(world, table)


def test_jobs_of_a_day_without_partition_are_stored_and_move_when_it_is_made(world: StoreWorld) -> None:
    """Nobody is refused because a partition is late; its rows are moved into it once it is there."""
    day = world.day + 40
    handles = world.submit_jobs(3, day=day)
    assert world.lease(handles[:2]).tolist() == []
    world.leader.apply(world.epoch, Effects(object_updates=make_reports(handles[:1], 3)))
    assert count(world, "jobs_carried") == 3
    assert ensure_partitions(world.url, day, days_ahead=0) == (day,)
    assert count(world, "jobs_carried") == count(world, "objects_carried") == count(world, "job_specs_carried") == 0
    assert count(world, f"runs_d{day}") == 2
    end(world, handles, day)
    assert [job.state for job in world.list_jobs(JobFilter())] == [JobState.SUCCEEDED] * 3


def test_retain_drops_aged_days_and_keeps_the_rest(aged: StoreWorld) -> None:
    """Finished jobs leave by partition; those within retention stay."""
    old = aged.submit_jobs(3, day=aged.day - 15)
    recent = aged.submit_jobs(2, day=aged.day - 3)
    for handles in (old, recent):
        aged.lease(handles)
    end(aged, old, aged.day - 14)
    end(aged, recent, aged.day - 3)
    done = retain(aged.url, RETENTION_DAYS)
    assert done.dropped_days == (aged.day - 15, aged.day - 8)
    assert done.carried_job_count == 0
    assert [job.handle for job in aged.list_jobs(JobFilter())] == recent.tolist()
    for table in ("jobs", "runs", "objects", "job_specs", "job_set_events"):
        names = partitions(aged, table)
        assert f"{table}_d{aged.day - 8}" not in names
        assert f"{table}_d{aged.day - 7}" in names
    again = retain(aged.url, RETENTION_DAYS)
    assert (again.dropped_days, again.closed_days, again.carried_job_count) == ((), (), 0)


def test_retain_moves_open_jobs_out_and_they_live_on(aged: StoreWorld) -> None:
    """An open job outlives its day's partitions with its run, objects and spec, and ends like any other."""
    handles = aged.submit_jobs(4, day=aged.day - 15)
    waiting, running, cancelled, ended = (handles[place : place + 1] for place in range(4))
    aged.lease(handles[1:])
    aged.leader.apply(aged.epoch, Effects(object_updates=make_reports(running, 3)))
    end(aged, ended, aged.day - 14)
    before = aged.api.get_jobs(handles[:3].tolist())
    assert retain(aged.url, RETENTION_DAYS).carried_job_count == 3
    assert aged.api.get_jobs(handles.tolist()) == before
    loaded = aged.leader.load()
    assert loaded.columns.jobs.handle.tolist() == handles[:3].tolist()
    assert loaded.columns.runs.handle.tolist() == handles[1:3].tolist()
    assert loaded.columns.objects.state.tolist() == [3, 1]
    assert loaded.columns.jobs.specs[0].layout == b"layout"
    aged.leader.apply(
        aged.epoch,
        Effects(
            object_updates=make_reports(running, 4),
            run_updates=make_run_ends(running),
            job_updates=make_job_ends(running),
        ),
    )
    aged.api.set_change_requests(None, cancelled, "cancel", encode=encode_change_requests)
    assert aged.lease(waiting).tolist() == []
    jobs = {job.handle: job for job in aged.list_jobs(JobFilter())}
    assert jobs[int(running[0])].state == JobState.SUCCEEDED
    assert jobs[int(cancelled[0])].cancel_requested
    assert jobs[int(waiting[0])].state == JobState.LEASED
    assert jobs[int(waiting[0])].runs[0].cluster == "east"


def test_retain_keeps_jobs_that_ended_lately_whenever_they_were_submitted(aged: StoreWorld) -> None:
    """Retention counts from the end of a job: a long one stays as long as a short one, then leaves from where it is."""
    handles = aged.submit_jobs(2, day=aged.day - 15, client_ids=["long", "short"])
    aged.lease(handles)
    end(aged, handles[:1], aged.day - 1)
    end(aged, handles[1:], aged.day - 14)
    done = retain(aged.url, RETENTION_DAYS)
    assert (done.carried_job_count, done.deleted_client_id_count) == (1, 1)
    job = aged.api.get_job(int(handles[0]))
    assert job is not None
    assert job.spec_body is not None
    assert len(job.runs) == 1
    repeat = aged.request(1, client_ids=["long"])
    assert aged.submit(repeat)[0].handles.tolist() == handles[:1].tolist()
    set_database_time(aged.url, now_us(aged) + RETENTION_DAYS * DAY_US)
    later = retain(aged.url, RETENTION_DAYS)
    assert later.deleted_client_id_count == 1
    assert aged.api.get_job(int(handles[0])) is None
    for table in ("jobs", "runs", "objects", "job_specs"):
        assert count(aged, f"{table}_carried") == 0


def test_retain_keeps_client_ids_of_open_and_recent_jobs(aged: StoreWorld) -> None:
    """One job per client id within retention, and as long as the job is open."""
    old = aged.submit_jobs(1, day=aged.day - 15, client_ids=["open"])
    recent = aged.submit_jobs(1, client_ids=["recent"])
    assert retain(aged.url, RETENTION_DAYS).deleted_client_id_count == 0
    result = aged.submit(aged.request(2, client_ids=["open", "recent"]))[0]
    assert result.handles.tolist() == [*old.tolist(), *recent.tolist()]


def test_retain_makes_old_cursors_detectable(aged: StoreWorld) -> None:
    """Events leave with their day; a cursor older than what is kept is out of range, and numbering goes on."""

    def write(first: int, last: int, day: int) -> None:
        row = EventRow(
            job_set_id=aged.job_set_id, first_number=first, last_number=last, create_time_us=day * DAY_US, payload=b""
        )
        aged.leader.apply(aged.epoch, Effects(events=[row]))

    write(1, 5, aged.day - 15)
    write(6, 7, aged.day - 2)
    retain(aged.url, RETENTION_DAYS)
    with pytest.raises(OutOfRange):
        aged.api.read_events(aged.job_set_id, 3)
    assert [row[:2] for row in aged.api.read_events(aged.job_set_id, 5)] == [(6, 7)]
    assert aged.api.oldest_event_number(aged.job_set_id) == 6
    set_database_time(aged.url, now_us(aged) + (RETENTION_DAYS + 1) * DAY_US)
    retain(aged.url, RETENTION_DAYS)
    assert aged.api.oldest_event_number(aged.job_set_id) == 8
    write(8, 9, aged.day)
    assert [row[:2] for row in aged.api.read_events(aged.job_set_id, 7)] == [(8, 9)]


def test_closed_days_are_left_out_by_leaders_and_open_ones_are_not(aged: StoreWorld) -> None:
    """Only past days without open jobs are closed."""
    aged.submit_jobs(1, day=aged.day - 4)
    done = retain(aged.url, 100)
    assert aged.day - 4 not in done.closed_days
    assert aged.day - 5 in done.closed_days
    assert max(done.closed_days) == aged.day - 2
    assert len(aged.leader.load().columns.jobs.handle) == 1


def test_a_connection_learns_of_new_and_dropped_partitions(aged: StoreWorld) -> None:
    """A leader and a replica that worked before retention go on after it without an error."""
    handles = aged.submit_jobs(2, day=aged.day - 15)
    aged.lease(handles)
    retain(aged.url, RETENTION_DAYS)
    ensure_partitions(aged.url, aged.day + 30, days_ahead=0)
    new = aged.submit_jobs(1, day=aged.day + 30)
    assert aged.lease(new).tolist() == []
    end(aged, np.concatenate([handles, new]), aged.day)
    assert [job.state for job in aged.list_jobs(JobFilter())] == [JobState.SUCCEEDED] * 3
    assert count(aged, f"jobs_d{aged.day + 30}") == 1


@pytest.mark.parametrize("function", ["argosy_open_from(%s + 1)", "argosy_drop_partitions(%s, 0)"])
def test_database_refuses_to_close_or_drop_a_day_from_yesterday_on(aged: StoreWorld, function: str) -> None:
    """Whatever a server believes, what the database's clock calls yesterday, today or the future stays."""
    with psycopg.connect(aged.url, autocommit=True) as connection:
        for day in (aged.day - 1, aged.day, aged.day + 9):
            with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="is not past"):
                connection.execute(f"SELECT {function}", [day])
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="still takes jobs"):
            connection.execute("SELECT argosy_close_day(%s)", [aged.day - 5])
        connection.execute(f"SELECT {function}", [aged.day - 8])


def test_no_server_clock_closes_drops_or_makes_a_day(aged: StoreWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """One server whose clock is days ahead changes nothing for anybody: days go by the database's clock."""
    handles = aged.submit_jobs(2, day=aged.day)
    end(aged, handles, aged.day)
    before = partitions(aged, "jobs")
    monkeypatch.setattr("time.time", lambda: (aged.day + 400) * 86_400.0)
    monkeypatch.setattr("time.time_ns", lambda: (aged.day + 400) * DAY_US * 1000)
    done = retain(aged.url, RETENTION_DAYS)
    assert ensure_partitions(aged.url, days_ahead=4) == ()
    assert aged.day not in done.dropped_days
    assert max(done.closed_days) == aged.day - 2
    assert set(before) - set(partitions(aged, "jobs")) == {f"jobs_d{aged.day - 15}", f"jobs_d{aged.day - 8}"}
    assert [job.handle for job in aged.list_jobs(JobFilter())] == handles.tolist()


def test_a_day_takes_no_jobs_before_its_open_ones_are_counted(aged: StoreWorld) -> None:
    """No job can slip into a day between the look for open jobs and the mark that it has none."""
    aged.submit_jobs(1, day=aged.day - 4)
    retain(aged.url, 100)
    late = aged.submit(aged.request(1, day=aged.day - 4))[0]
    assert isinstance(late.error, NotAllowedNow)
    assert aged.submit(aged.request(1, day=aged.day - 1))[0].accepted


def test_submits_pass_while_a_day_is_looked_through(aged: StoreWorld) -> None:
    """Whoever looks for open jobs of a day does not hold the lock of partitions: that would take as long as the day."""
    aged.submit_jobs(1, day=aged.day - 4)
    retain(aged.url, 100)
    with psycopg.connect(aged.url) as connection:
        assert connection.execute("SELECT argosy_close_day(%s)", [aged.day - 4]).fetchone() == (False,)
        locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
        assert connection.execute(locks).fetchone() == (0,)
        assert aged.submit(aged.request(1))[0].accepted


def test_submits_pass_while_a_change_of_partitions_waits_for_a_reader(aged: StoreWorld) -> None:
    """Whoever reads for long holds up retention, but not the submits that come meanwhile."""
    with psycopg.connect(aged.url) as reader, ThreadPoolExecutor(1) as threads:
        reader.execute("SELECT count(*) FROM jobs").fetchone()  # its lock stays until the transaction ends
        retention = threads.submit(retain, aged.url, RETENTION_DAYS)
        for _ in range(20):
            assert aged.submit(aged.request(1))[0].accepted
        assert not retention.done()
        reader.rollback()
        assert retention.result(30).dropped_days == (aged.day - 15, aged.day - 8)


def test_submits_pass_while_the_end_of_a_day_waits_for_whoever_loads_the_pool(aged: StoreWorld) -> None:
    """A load may take minutes, and longer if its process is stopped; who comes after a waiter waits as long."""
    with psycopg.connect(aged.url) as loading, psycopg.connect(aged.url) as other, ThreadPoolExecutor(1) as threads:
        other.execute(f"LOCK TABLE jobs_d{aged.day - 5} IN ACCESS EXCLUSIVE MODE")
        retention = threads.submit(retain, aged.url, 100)
        await_waiter(aged.url, "relation")  # behind what takes the lock of partitions first
        loading.execute(f"SELECT pg_advisory_xact_lock_shared({PARTITION_LOCK})")
        other.rollback()
        await_waiter(aged.url, "advisory")
        for _ in range(5):
            assert aged.submit(aged.request(1))[0].accepted
        assert not retention.done()
        loading.rollback()
        assert aged.day - 5 in retention.result(30).closed_days


def await_waiter(url: str, kind: str) -> None:
    """Wait until a session waits for a lock of a kind."""
    waiting = "SELECT FROM pg_locks WHERE locktype = %s AND NOT granted"
    with psycopg.connect(url, autocommit=True) as connection:
        while connection.execute(waiting, [kind]).fetchone() is None:
            pass


def test_client_ids_are_forgotten_in_one_pass_over_them(aged: StoreWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every page is looked through once, however many transactions that takes."""
    monkeypatch.setattr("argosy_store.schema.retention._PAGES", 1)
    ids = [f"id-{number:04d}" for number in range(600)]
    old = aged.submit_jobs(600, day=aged.day - 15, client_ids=ids)
    end(aged, old[:-1], aged.day - 14)
    assert retain(aged.url, RETENTION_DAYS).deleted_client_id_count == 599
    assert aged.submit(aged.request(1, client_ids=ids[-1:]))[0].handles.tolist() == old[-1:].tolist()


def test_retain_deletes_what_names_no_job_any_more(aged: StoreWorld) -> None:
    """Classes, job sets and metadata leave some days after the last job that used them; a carried job keeps its own."""
    kept = aged.submit_jobs(1, day=aged.day, metadata=(b'{"labels": {"stays": "1"}}',))
    gone_class, gone_set = aged.api.class_ids([b"gone"])[0], aged.api.job_set_ids([(aged.queue.queue_id, "gone")])[0]
    ended = aged.submit_jobs(
        2, day=aged.day, metadata=(b'{"labels": {"gone": "1"}}',), class_id=gone_class, job_set_id=gone_set
    )
    aged.leader.apply(aged.epoch, Effects(job_updates=make_job_ends(ended, end_time_us=now_us(aged))))
    assert retain(aged.url, RETENTION_DAYS).deleted_unused_count == 0
    set_database_time(aged.url, now_us(aged) + (RETENTION_DAYS + 4) * DAY_US)
    assert retain(aged.url, RETENTION_DAYS).deleted_unused_count == 3
    assert [job.labels for job in aged.list_jobs(JobFilter())] == [{"stays": "1"}]
    loaded = aged.leader.load()
    assert loaded.columns.jobs.handle.tolist() == kept.tolist()
    assert (list(loaded.classes), [one.job_set_id for one in loaded.columns.job_sets]) == (
        [aged.class_id],
        [aged.job_set_id],
    )
    again = ApiStore(aged.url)  # as any replica on another day
    assert again.job_set_ids([(aged.queue.queue_id, "gone")])[0] > gone_set
    assert again.class_ids([b"gone"])[0] > gone_class
    again.close()


def test_use_on_another_day_is_stored_once_by_each_replica(aged: StoreWorld) -> None:
    """What a replica knows from days before is told to the database again, or retention would take it away."""
    set_database_time(aged.url, now_us(aged) + 3 * DAY_US)
    aged.api._cache_day = 0
    aged.submit_jobs(1, metadata=(b'{"labels": {"a": "1"}}',))
    for _ in range(2):
        assert aged.api.class_ids([b'{"requests":{"cpu":1000}}']) == [aged.class_id]
        assert aged.api.job_set_ids([(aged.queue.queue_id, "nightly")]) == [aged.job_set_id]
    with psycopg.connect(aged.url) as connection:
        for table in ("scheduling_classes", "job_sets", "job_metadata"):
            days = connection.execute(f"SELECT last_used_day FROM {table}".encode()).fetchall()
            assert days == [(now_us(aged) // DAY_US + 3,)]

"""Plans and page layout: what the cost of the hot path hangs on."""

import time

import psycopg

from argosy_store import Effects
from argosy_testkit.store_world import StoreWorld
from argosy_testkit.submissions import make_job_ends, make_leases, make_objects, make_reports, make_run_ends

NODES = tuple(f"node-{number}" for number in range(50))


def run_jobs(world: StoreWorld, count: int) -> None:
    """Take jobs through their life in three transactions after the submit."""
    handles = world.submit_jobs(count)
    world.leader.apply(
        world.epoch, Effects(new_runs=make_leases(handles, nodes=NODES), new_objects=make_objects(handles))
    )
    world.leader.apply(world.epoch, Effects(object_updates=make_reports(handles, 3, start_time_us=1)))
    world.leader.apply(
        world.epoch,
        Effects(
            object_updates=make_reports(handles, 4),
            run_updates=make_run_ends(handles),
            job_updates=make_job_ends(handles),
        ),
    )


def _updates(connection: psycopg.Connection, table: str, *, expected_count: int) -> tuple[int, int]:
    """Return (updates, hot updates) of a table; a server process tells its share when it ends, after its client."""
    deadline_s = time.monotonic() + 20.0
    while True:
        row = connection.execute(
            "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = %s", [table]
        ).fetchone()
        if row is not None and (row[0] >= expected_count or time.monotonic() > deadline_s):
            return row[0], row[1]
        time.sleep(0.05)


def test_updates_stay_hot(world: StoreWorld) -> None:
    """At least 90 % of the updates of jobs, runs and objects touch no index, as the statistics say."""
    for _ in range(12):
        run_jobs(world, 500)
    world.close()
    with psycopg.connect(world.url, autocommit=True) as connection:
        for table, updated_per_job in (("jobs", 1), ("runs", 1), ("objects", 2)):
            row = _updates(connection, f"{table}_d{world.day}", expected_count=6000 * updated_per_job)
            assert row[0] == 6000 * updated_per_job
            assert row[1] / row[0] >= 0.9, table


def test_never_analysed_tables_are_read_by_index_only(world: StoreWorld) -> None:
    """From empty tables on, each updated row costs a constant number of buffers, whatever has piled up.

    A sequential scan or a hash over the table reads every page of it once per statement; the statistics of scans tell.
    """
    with psycopg.connect(world.url, autocommit=True) as connection:
        row = connection.execute("SELECT count(*) FROM pg_stat_user_tables WHERE last_analyze IS NOT NULL").fetchone()
        assert row == (0,)
        for table in ("jobs", "runs", "objects"):
            connection.execute(f"ALTER TABLE {table}_d{world.day} SET (autovacuum_enabled = false)")
    for _ in range(4):
        run_jobs(world, 300)
    world.close()
    with psycopg.connect(world.url, autocommit=True) as connection:
        connection.execute("SELECT pg_stat_force_next_flush()")
        for table in ("jobs", "runs", "objects"):
            row = connection.execute(
                "SELECT seq_tup_read, idx_scan, last_autoanalyze FROM pg_stat_user_tables WHERE relname = %s",
                [f"{table}_d{world.day}"],
            ).fetchone()
            assert row is not None
            assert row[0] == 0, f"{table} was scanned"
            assert row[1] >= 1200
            assert row[2] is None

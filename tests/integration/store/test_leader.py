"""Election, epochs, and what a leader's transaction does."""

import select
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import numpy as np
import psycopg
import pytest
from tests.integration.store.stored import fingerprint, object_states

from argosy_core.errors import BackendUnavailable, InvariantViolation, StateConflict
from argosy_core.job.states import JobState, ObjectState, RunState
from argosy_core.job.tables.rows import NewObjects
from argosy_eventlog import QuarantinedLogRecord
from argosy_store import Effects, EventRow, JobFilter, LeaderStore
from argosy_store.terms.election import Election, LogState
from argosy_store.terms.suspects import list_set_aside
from argosy_testkit.store_world import StoreWorld, encode_change_requests
from argosy_testkit.submissions import make_job_ends, make_leases, make_objects, make_reports, make_run_ends

NOW_US = int(time.time() * 1e6)


def event(world: StoreWorld, first: int, last: int) -> EventRow:
    """Return a batch of events."""
    return EventRow(
        job_set_id=world.job_set_id, first_number=first, last_number=last, create_time_us=NOW_US, payload=b"%d" % first
    )


def everything(world: StoreWorld, handles: np.ndarray) -> Effects:
    """Return effects with every part."""
    return Effects(
        log_position=(0, 1),
        round_state=b"round",
        deleted_change_ids=np.array([change for change, _ in world.leader.read_changes(100)], dtype=np.int64),
        new_runs=make_leases(handles),
        new_objects=make_objects(handles),
        object_updates=make_reports(handles[:1], 4),
        run_updates=make_run_ends(handles[:1]),
        job_updates=make_job_ends(handles[:1]),
        events=[event(world, 1, 3)],
        quarantined=[QuarantinedLogRecord(position=1, payload=b"bad", error="why\0", create_time_us=NOW_US)],
        contacts={("east", "executor"): (2 * NOW_US, 2 * NOW_US)},
        queued_counts={world.queue.queue_id: 5},
    )


# --- election ---------------------------------------------------------------------------------------------------------


def test_try_lead_refuses_a_second_leader_until_the_first_resigns(world: StoreWorld) -> None:
    """One leader per pool; the next one has a higher epoch and starts where the first ended."""
    world.leader.apply(world.epoch, Effects(log_position=(0, 4), round_state=b"state"))
    other = LeaderStore(world.url, "default")
    assert other.try_lead("leader-2", "localhost:2", 600) is None
    world.leader.resign(world.epoch)
    leadership = other.try_lead("leader-2", "localhost:2", 600)
    assert leadership is not None
    assert (leadership.epoch, leadership.log_position, leadership.round_state) == (world.epoch + 1, 4, b"state")
    assert world.api.pool_leader("default") == ("localhost:2", leadership.epoch)
    other.close()


def test_try_lead_takes_over_when_the_lease_has_expired(world: StoreWorld) -> None:
    """A leader that does not renew loses the pool by the database's clock."""
    world.leader.renew(world.epoch, -1.0)
    assert world.api.pool_leader("default") is None
    other = LeaderStore(world.url, "default")
    leadership = other.try_lead("leader-2", "localhost:2", 600)
    assert leadership is not None
    assert leadership.epoch == world.epoch + 1
    other.close()


def test_time_that_a_new_leader_is_told_is_not_older_than_its_commit(world: StoreWorld) -> None:
    """A commit may wait for a standby for seconds; leases would be written as of a time before others' ends."""
    world.leader.resign(world.epoch)
    with psycopg.connect(world.url, autocommit=True) as connection:
        connection.execute(
            "CREATE FUNCTION waits() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN PERFORM set_config('test.none', pg_sleep(0.3)::text, false); RETURN NULL; END $$;"
            "CREATE CONSTRAINT TRIGGER waits AFTER INSERT OR UPDATE ON pools DEFERRABLE INITIALLY DEFERRED"
            " FOR EACH ROW EXECUTE FUNCTION waits()"
        )
        try:
            (before_us,) = connection.execute("SELECT argosy_now_us()").fetchone() or (0,)
            leadership = world.leader.try_lead("l-1", "host:1", lease_s=60)
        finally:
            connection.execute("DROP TRIGGER waits ON pools; DROP FUNCTION waits()")
    assert leadership is not None
    assert leadership.time_us - before_us >= 300_000


def test_renew_after_the_lease_expired_holds_until_another_leader_takes_the_pool(world: StoreWorld) -> None:
    """A late renewal is good while the epoch is the current one; once somebody else leads it is refused."""
    world.leader.renew(world.epoch, -1.0)
    world.leader.renew(world.epoch, 600)
    world.leader.renew(world.epoch, -1.0)
    assert world.leader.try_lead("leader-2", "localhost:2", 600) is not None
    with pytest.raises(StateConflict):
        world.leader.renew(world.epoch, 600)


def test_lease_is_renewed_while_the_pool_is_loaded(world: StoreWorld) -> None:
    """However long a load takes, the lease does not run out behind it."""
    with psycopg.connect(world.url) as other, ThreadPoolExecutor(1) as threads:
        other.execute("LOCK TABLE jobs IN ACCESS EXCLUSIVE MODE")
        load = threads.submit(world.leader.load)
        world.leader.renew(world.epoch, 600)
        assert not load.done()
        other.rollback()
        assert load.result(30).columns.jobs.handle.tolist() == []


def test_renew_is_refused_though_the_epoch_is_ours_if_another_was_given_it(world: StoreWorld) -> None:
    """As after a fail-over to a standby that had not heard of our election."""
    with psycopg.connect(world.url) as connection:
        connection.execute("UPDATE pools SET leader_id = 'leader-2'")
    with pytest.raises(StateConflict):
        world.leader.renew(world.epoch, 600)


def _log_failure(world: StoreWorld) -> tuple[float, str] | None:
    """Return since when, seconds, and why nothing can be published, None if all is well."""
    with psycopg.connect(world.url) as connection:
        row = connection.execute(
            "SELECT extract(epoch FROM clock_timestamp() - log_failure_time)::float8, log_failure FROM pools"
        ).fetchone()
    assert row is not None
    return None if row == (None, "") else row


def test_renewals_tell_since_when_the_log_fails_across_leaders_until_one_publishes(world: StoreWorld) -> None:
    """The first one's time stands, the last one's reason counts, and who has not tried yet changes nothing."""
    world.leader.renew(world.epoch, 600, LogState(publishes=True))
    assert _log_failure(world) is None
    world.leader.renew(world.epoch, 600, LogState(failing_s=100.0))
    told = [_log_failure(world)]
    world.leader.resign(world.epoch, LogState(failing_s=120.0, reason="away\0"))
    told.append(_log_failure(world))
    leadership = world.leader.try_lead("leader-2", "localhost:2", 600)
    assert leadership is not None
    for state in (LogState(), LogState(failing_s=6.0)):
        world.leader.renew(leadership.epoch, 600, state)
        told.append(_log_failure(world))
    assert [reason for _, reason in filter(None, told)] == ["it does not answer", "away", "away", "away"]
    assert all(100 <= seconds < 110 for seconds, _ in filter(None, told))
    world.leader.renew(leadership.epoch, 600, LogState(publishes=True))
    assert _log_failure(world) is None


def test_try_lead_raises_the_epoch_for_the_leader_itself(world: StoreWorld) -> None:
    """A leader that starts again under its own name gets a new epoch, and its old one is worth nothing."""
    again = world.leader.try_lead("leader-1", "localhost:1", 600)
    assert again is not None
    assert again.epoch == world.epoch + 1
    with pytest.raises(StateConflict):
        world.leader.renew(world.epoch, 600)


def test_leader_that_stops_within_a_transaction_loses_its_session(world: StoreWorld) -> None:
    """Its locks would hold up the next leader; it learns of it as of any lost connection."""
    with pytest.raises(BackendUnavailable), world.leader._writer.use() as connection:  # noqa: PT012 - the last one fails
        assert connection.execute("SHOW idle_in_transaction_session_timeout").fetchone() == ("5s",)
        connection.execute("SET idle_in_transaction_session_timeout = 1")
        with connection.transaction_block():
            poller = select.poll()
            poller.register(connection.pgconn.socket, select.POLLIN)
            assert poller.poll(10_000)  # the server's farewell
            connection.run("SELECT 1")

    world.leader.apply(world.epoch, Effects())  # a new session is opened


def test_candidate_that_stops_before_it_commits_does_not_keep_the_pool(world: StoreWorld) -> None:
    """It holds the pool's row as a leader does, so it loses its session as soon: Postgres ends it by itself."""
    with closing(Election(world.url, "default")) as election, election._line.use() as connection:
        assert connection.execute("SHOW idle_in_transaction_session_timeout").fetchone() == ("5s",)


def test_leader_that_stops_while_it_sends_rows_does_not_keep_the_pool(world: StoreWorld) -> None:
    """Postgres waits for the rest of a COPY without end, with the pool's row locked, so the next leader ends it."""
    world.leader.renew(world.epoch, -1.0)
    next_one = Election(world.url, "default", stalled_s=0.0)
    with pytest.raises(BackendUnavailable), world.leader._writer.use() as connection:  # noqa: PT012 - the last one fails
        connection.execute("SET statement_timeout = 100")
        with connection.transaction_block("BEGIN; SELECT FROM pools FOR SHARE"):
            connection.pgconn.send_query(b"COPY job_set_events FROM STDIN (FORMAT binary)")
            assert next_one.try_lead("leader-2", "localhost:2", 600) is None
            taken = next_one.try_lead("leader-2", "localhost:2", 600)
            connection._finish()
            connection.run("SELECT 1")
    next_one.close()

    assert taken is not None
    assert taken.epoch == world.epoch + 1
    with pytest.raises(StateConflict):
        world.leader.apply(world.epoch, Effects())


def test_pools_are_led_independently(world: StoreWorld) -> None:
    """One pool's leader is no other pool's."""
    other = LeaderStore(world.url, "gpu")
    leadership = other.try_lead("leader-2", "localhost:2", 600)
    assert leadership is not None
    assert leadership.epoch == 1
    world.leader.renew(world.epoch, 600)
    other.close()


def test_apply_of_a_stale_epoch_changes_nothing(world: StoreWorld) -> None:
    """A leader that was replaced changes nothing, whatever it tries."""
    handles = world.submit_jobs(3)
    world.leader.bind_cluster(world.epoch, "east", uid="uid", role="executor", process=bytes(16), keep_s=15.0)
    assert world.leader.try_lead("leader-1", "localhost:1", 600) is not None
    before = fingerprint(world)
    with pytest.raises(StateConflict):
        world.leader.apply(world.epoch, everything(world, handles))
    with pytest.raises(StateConflict):
        world.leader.bind_cluster(world.epoch, "east", uid="uid", role="executor", process=bytes(16), keep_s=15.0)
    world.leader.resign(world.epoch)
    assert fingerprint(world) == before


# --- one transaction --------------------------------------------------------------------------------------------------


def test_apply_writes_every_part(world: StoreWorld) -> None:
    """All parts of the effects are in the database afterwards."""
    handles = world.submit_jobs(3)
    world.leader.bind_cluster(world.epoch, "east", uid="uid", role="executor", process=bytes(16), keep_s=15.0)
    applied = world.leader.apply(world.epoch, everything(world, handles))
    assert applied.refused_handles.tolist() == applied.absorbed_handles.tolist() == []
    jobs = world.list_jobs(JobFilter())
    assert [job.state for job in jobs] == [JobState.SUCCEEDED, JobState.LEASED, JobState.LEASED]
    run = jobs[0].runs[0]
    assert (run.attempt, run.cluster, run.node, run.state, run.exit_code) == (1, "east", "node-1", 4, 0)
    assert (run.start_time_us, run.end_time_us) == (1_700_000_002_000_000, 1_700_000_003_000_000)
    assert world.api.read_events(world.job_set_id, 0) == [(1, 3, b"1")]
    assert world.leader.read_changes(10) == []
    assert world.api.get_cluster("east").contact_time_us == 2 * NOW_US
    assert world.api.find_queues(["team"])["team"][1] == 5
    assert [(row.kind, row.error) for row in list_set_aside(world.url)] == [("unread record", "why ")]
    loaded = world.leader.load()
    assert (loaded.log_position, loaded.round_state) == (1, b"round")


def test_apply_of_the_same_log_position_twice_is_a_conflict_without_effect(world: StoreWorld) -> None:
    """Redelivery has no effect: the position moves from its expected value only."""
    handles = world.submit_jobs(3)
    effects = everything(world, handles)
    world.leader.apply(world.epoch, effects)
    before = fingerprint(world)
    with pytest.raises(StateConflict):
        world.leader.apply(world.epoch, effects)
    assert fingerprint(world) == before


@pytest.mark.parametrize("position", [(0, 1), (2, 3), (0, 9)], ids=["behind", "ahead", "repeat"])
def test_apply_of_another_position_than_the_stored_one_is_a_conflict(
    world: StoreWorld, position: tuple[int, int]
) -> None:
    """The position alone decides, also where nothing else would clash."""
    world.leader.apply(world.epoch, Effects(log_position=(0, 1)))
    with pytest.raises(StateConflict):
        world.leader.apply(world.epoch, Effects(log_position=position, round_state=b"other"))
    loaded = world.leader.load()
    assert (loaded.log_position, loaded.round_state) == (1, b"")


def test_apply_stores_nothing_when_one_part_fails(world: StoreWorld) -> None:
    """One transaction: events that leave a gap take the leases with them."""
    handles = world.submit_jobs(2)
    before = fingerprint(world)
    effects = Effects(new_runs=make_leases(handles), events=[event(world, 1, 2), event(world, 4, 5)])
    with pytest.raises(InvariantViolation):
        world.leader.apply(world.epoch, effects)
    assert fingerprint(world) == before


@pytest.mark.parametrize("first", [1, 2, 5], ids=["repeat", "overlap", "gap"])
def test_apply_refuses_events_that_do_not_follow_the_stored_ones(world: StoreWorld, first: int) -> None:
    """Events of a job set are numbered 1..n without gap or repeat, across transactions too."""
    world.leader.apply(world.epoch, Effects(events=[event(world, 1, 3)]))
    with pytest.raises(StateConflict):
        world.leader.apply(world.epoch, Effects(events=[event(world, first, first + 1)]))
    world.leader.apply(world.epoch, Effects(events=[event(world, 4, 4), event(world, 5, 9)]))
    assert [row[:2] for row in world.api.read_events(world.job_set_id, 0)] == [(1, 3), (4, 4), (5, 9)]


def test_apply_takes_events_that_depend_on_what_was_refused(world: StoreWorld) -> None:
    """Events can be made once it is known which leases were refused."""
    handles = world.submit_jobs(3)
    world.api.set_change_requests(None, handles[:1], "cancel", encode=encode_change_requests)
    seen: list[list[int]] = []

    def make(applied: object) -> list[EventRow]:
        seen.append(applied.refused_handles.tolist())  # type: ignore[attr-defined]
        return [event(world, 1, 2)]

    world.leader.apply(world.epoch, Effects(new_runs=make_leases(handles), events=make))
    assert seen == [[handles[0]]]
    assert world.api.read_events(world.job_set_id, 0) == [(1, 2, b"1")]


# --- leases -----------------------------------------------------------------------------------------------------------


def test_apply_refuses_leases_singly(world: StoreWorld) -> None:
    """A lease is refused if its job ended, shall be cancelled, has a live run or a later one, or is unknown."""
    handles = world.submit_jobs(7)
    ended, asked, stopped, live, again, fine, unknown = handles.tolist()
    world.leader.apply(world.epoch, Effects(job_updates=make_job_ends(np.array([ended]))))
    world.lease(np.array([asked, stopped, live, again]))
    world.api.set_change_requests(None, [asked, stopped], "cancel", encode=encode_change_requests)
    lost = np.array([stopped, again])
    world.leader.apply(world.epoch, Effects(run_updates=make_run_ends(lost, RunState.LOST)))
    with psycopg.connect(world.url) as connection:
        connection.execute("DELETE FROM jobs WHERE handle = %s", [unknown])
    assert world.lease(handles[::-1]).tolist() == sorted([ended, asked, stopped, live, again, unknown])
    assert [len(job.runs) for job in world.api.get_jobs([fine, live])] == [1, 1]
    assert world.lease(np.array([stopped, again]), attempt=2).tolist() == [stopped]
    assert len(object_states(world)) == 6


def test_apply_leases_again_in_the_transaction_that_ends_the_run_before(world: StoreWorld) -> None:
    """A lost run can be ended and its job leased anew in one transaction."""
    handles = world.submit_jobs(1)
    world.lease(handles)
    effects = Effects(
        run_updates=make_run_ends(handles, RunState.LOST, reason="node is gone"),
        new_runs=make_leases(handles, attempt=2),
        new_objects=make_objects(handles, attempt=2),
    )
    assert world.leader.apply(world.epoch, effects).refused_handles.tolist() == []
    job = world.api.get_job(int(handles[0]))
    assert job is not None
    assert [(run.attempt, run.state, run.reason) for run in job.runs] == [(1, 7, "node is gone"), (2, 1, None)]
    assert job.state == JobState.LEASED


def test_apply_ends_a_run_that_is_leased_in_the_same_transaction(world: StoreWorld) -> None:
    """A run may come and go between two transactions."""
    handles = world.submit_jobs(2)
    effects = Effects(
        new_runs=make_leases(handles),
        new_objects=make_objects(handles),
        object_updates=make_reports(handles, ObjectState.SUCCEEDED),
        run_updates=make_run_ends(handles),
        job_updates=make_job_ends(handles),
    )
    world.leader.apply(world.epoch, effects)
    assert [job.state for job in world.list_jobs(JobFilter())] == [JobState.SUCCEEDED] * 2


def test_what_another_cluster_reports_of_a_run_is_not_stored(world: StoreWorld) -> None:
    """Whose a run is its row tells, also when the run has ended long ago."""
    handles = world.submit_jobs(1)
    world.lease(handles)
    (owner,) = make_leases(handles).clusters

    def report(cluster: str, **options: Any) -> list[int]:
        updates = make_reports(handles, ObjectState.FAILED, **options)
        world.leader.apply(world.epoch, Effects(ended_updates=[(cluster, updates)]))
        return object_states(world)

    assert report("liar") == report("liar", message="forged") == [ObjectState.LEASED]
    assert report(owner, message="true") == [ObjectState.FAILED]


def test_a_bag_of_objects_is_stored_as_the_tuples_of_the_seed(world: StoreWorld) -> None:
    """The view gives (job id, executor id, spec, name, state), one row per object of the bag."""
    body = b'[{"kind": "Pod"}, {"kind": "Service"}]'
    from argosy_testkit.submissions import make_spec

    handles = world.submit_jobs(1, specs=(make_spec(body),))
    world.leader.apply(
        world.epoch,
        Effects(new_runs=make_leases(handles), new_objects=make_objects(handles, kinds=("Pod", "Service"))),
    )
    job = world.api.get_job(int(handles[0]))
    assert job is not None
    with psycopg.connect(world.url) as connection:
        rows = connection.execute("SELECT job_id::text, executor_id, spec, name, state FROM object_rows").fetchall()
    name = f"main-{handles[0]}-1"
    assert sorted(rows, key=lambda row: row[2]["kind"]) == [
        (job.job_id, "east", {"kind": "Pod"}, name, 1),
        (job.job_id, "east", {"kind": "Service"}, name, 1),
    ]


def test_apply_takes_rows_in_any_order_over_several_days(world: StoreWorld) -> None:
    """Rows are put in key order and sent to the partitions of their days."""
    mixed = np.concatenate([world.submit_jobs(3, day=world.day + 1), world.submit_jobs(3)])
    shuffled = mixed[[4, 0, 5, 2, 1, 3]]
    assert world.lease(shuffled).tolist() == []
    world.leader.apply(
        world.epoch,
        Effects(
            object_updates=make_reports(shuffled, 4),
            run_updates=make_run_ends(shuffled),
            job_updates=make_job_ends(shuffled),
        ),
    )
    jobs = world.list_jobs(JobFilter())
    assert [job.state for job in jobs] == [4] * 6
    names = {int(handle): f"main-{handle}-1" for handle in mixed}
    with psycopg.connect(world.url) as connection:
        rows = connection.execute("SELECT handle, name FROM objects").fetchall()
    assert dict(rows) == names


def test_new_objects_keep_their_own_names_and_kinds_when_some_are_refused(world: StoreWorld) -> None:
    """Leaving out the objects of refused runs shifts nothing."""
    handles = world.submit_jobs(3)
    world.api.set_change_requests(None, handles[1:2], "cancel", encode=encode_change_requests)
    objects = make_objects(handles, kinds=("Pod", "Service"))
    named = NewObjects(
        handle=objects.handle,
        attempt=objects.attempt,
        object_index=objects.object_index,
        kind_index=objects.kind_index,
        kinds=objects.kinds,
        name=[b"a0", b"a1", b"b0", b"b1", b"c0", b"c1"],
    )
    world.leader.apply(world.epoch, Effects(new_runs=make_leases(handles), new_objects=named))
    with psycopg.connect(world.url) as connection:
        rows = connection.execute("SELECT handle, object, kind, name FROM objects ORDER BY 1, 2").fetchall()
    a, c = int(handles[0]), int(handles[2])
    assert rows == [(a, 0, "Pod", "a0"), (a, 1, "Service", "a1"), (c, 0, "Pod", "c0"), (c, 1, "Service", "c1")]


def test_numbers_of_waiting_jobs_cost_a_row_only_where_they_change(world: StoreWorld) -> None:
    """They are stored every second for every queue, most of which have not changed."""
    versions = []
    for count in (5, 5, 6):
        world.leader.apply(world.epoch, Effects(queued_counts={world.queue.queue_id: count}))
        with psycopg.connect(world.url) as connection:
            versions.append(connection.execute("SELECT queued_count, xmin::text FROM queue_counts").fetchone())
    assert versions[0] == versions[1]
    assert versions[2] is not None
    assert versions[2][0] == 6

"""What a new leader reads."""

import re
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import psycopg
import pytest

from argosy_core.errors import NotFound
from argosy_core.job.identity import NOBODY, compose_id, submitter_number
from argosy_core.job.reading.after import FORGOTTEN, AfterUntil, encode_after
from argosy_core.job.states import JobState, RunState
from argosy_core.job.tables.members import Members, member_key, number_of
from argosy_core.job.tables.rows import HeldAmounts, PlacedNodes
from argosy_core.scheduler import JobSetView
from argosy_store import Effects, JobFilter, LeaderStore
from argosy_store.postgres.connection import MAINTENANCE_SETTINGS, connect
from argosy_store.postgres.partitions import exclusively
from argosy_testkit.store_world import StoreWorld, encode_change_requests
from argosy_testkit.submissions import (
    make_job_ends,
    make_leases,
    make_objects,
    make_reports,
    make_run_ends,
    make_spec,
)
from argosy_testkit.world_rows import options_of


def test_load_of_a_pool_nobody_led_is_not_found(database_url: str) -> None:
    """A pool comes into being with its first leader."""
    store = LeaderStore(database_url, "default")
    with pytest.raises(NotFound):
        store.load()
    store.close()


def test_load_has_the_lock_of_partitions_only_where_a_stopped_process_loses_it(
    world: StoreWorld, tmp_path: Path
) -> None:
    """Postgres ends a session that is idle within a transaction; one outside would keep the lock without end."""
    with (tmp_path / "protocol").open("w+") as protocol:
        with world.leader._reader.use() as connection:
            connection.pgconn.trace(protocol.fileno())
        world.leader.load()
        with world.leader._reader.use() as connection:
            connection.pgconn.untrace()
        told = (tmp_path / "protocol").read_text()
    _, _, held = told.partition("pg_advisory_lock_shared")
    held, _, _ = held.partition("pg_advisory_unlock_shared")
    assert re.findall(r"ReadyForQuery\s+\d+\s+(\w)|ReadyForQuery\s+(\w)", held)
    assert not re.search(r"ReadyForQuery.*\bI$", held, re.MULTILINE), held


def test_load_that_fails_lets_go_of_the_lock_of_partitions(database_url: str) -> None:
    """The session goes on; a lock of it would outlast the load."""
    with closing(LeaderStore(database_url, "default")) as store, connect(database_url, MAINTENANCE_SETTINGS) as other:
        with pytest.raises(NotFound):
            store.load()
        assert other.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").fetchone() == (0,)
        assert exclusively(other, lambda: "changed") == "changed"


def test_load_of_an_empty_pool_gives_empty_columns(world: StoreWorld) -> None:
    """Nothing is no special case."""
    loaded = world.leader.load()
    columns = loaded.columns
    assert columns.jobs.handle.size == columns.runs.handle.size == columns.objects.handle.size == 0
    assert [queue.name for queue in loaded.queues] == ["team"]
    assert columns.jobs.specs == columns.jobs.metadata == columns.runs.clusters == columns.job_sets == ()


def test_load_gives_open_jobs_with_all_that_the_leader_keeps(world: StoreWorld) -> None:
    """Columns of open jobs, their specs and metadata by index; ended jobs are left out."""
    specs = (make_spec(b"[1]"), make_spec(b"[2]"))
    labels = (b'{"labels": {"a": "1"}, "annotations": {}}',)
    request = world.request(5, specs=specs, metadata=labels, priority=3)
    bare = world.request(1, specs=specs[:1], day=world.day + 1)
    world.submit(request, bare)
    handles = request.handles
    world.leader.apply(world.epoch, Effects(job_updates=make_job_ends(handles[1:2])))
    world.lease(handles[2:3])
    world.api.set_change_requests(None, handles[2:3], "cancel", encode=encode_change_requests)
    loaded = world.leader.load()
    jobs, columns = loaded.columns.jobs, loaded.columns
    kept = [*handles[[0, 2, 3, 4]].tolist(), int(bare.handles[0])]
    assert jobs.handle.tolist() == kept
    assert jobs.id_high.tolist() == [int(request.id_highs[0])] * 5
    assert jobs.queue.tolist() == [world.queue.queue_id] * 5
    assert jobs.job_set.tolist() == [world.job_set_id] * 5
    assert jobs.class_id.tolist() == [world.class_id] * 5
    assert jobs.priority.tolist() == [3, 3, 3, 3, 0]
    assert jobs.submit_time_us.tolist() == request.submit_time_us.tolist()
    assert columns.cancel_requested.tolist() == [0, 1, 0, 0, 0]
    assert columns.last_attempt.tolist() == [0, 1, 0, 0, 0]
    found = [jobs.specs[index] for index in jobs.spec]
    expected = [(world.day, specs[0]), (world.day, specs[0]), (world.day, specs[1]), (world.day, specs[0])]
    assert [(spec.day, spec.hash, spec.layout) for spec in found] == [
        *((day, spec.hash, b"layout") for day, spec in expected),
        (world.day + 1, specs[0].hash, b"layout"),
    ]
    assert [jobs.metadata[index] if index >= 0 else None for index in jobs.metadata_index] == [
        *(labels[0],) * 4,
        None,
    ]
    assert loaded.classes == {world.class_id: b'{"requests":{"cpu":1000}}'}
    assert columns.job_sets == (
        JobSetView(job_set_id=world.job_set_id, queue_id=world.queue.queue_id, name="nightly", last_event_number=0),
    )


def test_load_gives_live_runs_with_the_states_of_their_objects(world: StoreWorld) -> None:
    """Ended runs only leave the number of their attempt."""
    handles = world.submit_jobs(4)
    leases = make_leases(handles, clusters=("east", "west"), nodes=("n1", "n2", "n3"))
    leases = replace(leases, charge_core_s=np.array([0, 600, 0, 60], dtype=np.int64))
    world.leader.apply(
        world.epoch, Effects(new_runs=leases, new_objects=make_objects(handles, kinds=("Pod", "Service")))
    )
    world.leader.apply(
        world.epoch,
        Effects(object_updates=make_reports(handles[1:3], 3), run_updates=make_run_ends(handles[3:], 7)),
    )
    columns = world.leader.load().columns
    runs = columns.runs
    assert runs.handle.tolist() == handles[:3].tolist()
    assert runs.attempt.tolist() == [1, 1, 1]
    assert runs.charge_core_s is not None
    assert runs.charge_core_s.tolist() == [0, 600, 0]
    assert [runs.clusters[index] for index in runs.cluster] == ["east", "west", "east"]
    assert [runs.nodes[index] for index in runs.node] == ["n1", "n2", "n3"]
    assert columns.last_attempt.tolist() == [1, 1, 1, 1]
    objects = columns.objects
    assert objects.handle.tolist() == np.repeat(handles[:3], 2).tolist()
    assert objects.object_index.tolist() == [0, 1] * 3
    assert objects.state.tolist() == [1, 1, 3, 1, 3, 1]


def test_nodes_whose_names_were_made_to_collide_are_told_apart(world: StoreWorld) -> None:
    """Clusters choose names; these two have one hash of 64 bits, as anybody can compute who knows its seed."""
    handles = world.submit_jobs(2)
    nodes = ("node-0000000qaauarm0wh0a", "oeb0af115yvyaaiara0ia0hy")
    with psycopg.connect(world.url) as database:
        hashes = "SELECT count(DISTINCT hashtextextended(n, 0)) FROM unnest(%s::text[]) n"
        assert database.execute(hashes, [list(nodes)]).fetchone() == (1,)
    world.leader.apply(
        world.epoch, Effects(new_runs=make_leases(handles, nodes=nodes), new_objects=make_objects(handles))
    )
    runs = world.leader.load().columns.runs
    assert [runs.nodes[index] for index in runs.node] == list(nodes)


def test_load_gives_since_when_runs_run(world: StoreWorld) -> None:
    """The first start stored with an object stays; the API shows it while the run is live, then what the end says."""
    handles = world.submit_jobs(3)
    world.lease(handles)
    running, again, waiting = (handles[place : place + 1] for place in range(3))
    world.leader.apply(world.epoch, Effects(object_updates=make_reports(handles[:2], 3, start_time_us=70)))
    world.leader.apply(world.epoch, Effects(object_updates=make_reports(waiting, 2, start_time_us=0)))
    world.leader.apply(world.epoch, Effects(object_updates=make_reports(again, 8, start_time_us=90)))
    assert world.leader.load().columns.objects.start_time_us.tolist() == [70, 70, 0]
    world.leader.apply(world.epoch, Effects(run_updates=make_run_ends(running)))
    shown = {job.handle: job.runs[0].start_time_us for job in world.list_jobs(JobFilter())}
    assert [shown[handle] for handle in handles.tolist()] == [1_700_000_002_000_000, 70, None]


def test_load_leaves_out_other_pools(world: StoreWorld) -> None:
    """A leader sees the jobs of its own pool's queues."""
    other = world.api.create_queue("gpu", weight=1, pool="gpu", create_time_us=1, encode=lambda _: b"queue")
    mine = world.submit_jobs(1)
    theirs = world.submit_jobs(1, queue_id=other.queue_id, pool="gpu")
    assert world.leader.load().columns.jobs.handle.tolist() == mine.tolist()
    store = LeaderStore(world.url, "gpu")
    store.try_lead("x", "y", 60)
    assert store.load().columns.jobs.handle.tolist() == theirs.tolist()
    store.close()


def test_reads_by_key_give_what_was_stored(world: StoreWorld) -> None:
    """Specs, classes, queues and job sets are read by their keys; unknown keys are left out."""
    spec = make_spec(b"[7]")
    world.submit_jobs(1, specs=(spec,))
    key = (world.day, spec.hash)
    assert world.leader.read_specs([key, (world.day, bytes(16))]) == {key: (spec.body, spec.layout)}
    assert world.leader.read_classes([world.class_id, 99]) == {world.class_id: b'{"requests":{"cpu":1000}}'}
    assert world.leader.read_queues([world.queue.queue_id, 99]) == [world.queue]
    assert world.leader.read_job_sets([world.job_set_id]) == {world.job_set_id: (world.queue.queue_id, "nightly", 0)}


def test_load_gives_when_the_last_failed_run_of_a_job_ended(world: StoreWorld) -> None:
    """A new leader lets the job back off for as long as the one before would have; preempted runs did not fail."""
    handles = world.submit_jobs(2)
    world.lease(handles)
    ends = make_run_ends(handles, 5)
    lost_and_preempted = np.array([RunState.LOST, RunState.PREEMPTED], dtype=np.int16)
    failure = np.array([5, 0], dtype=np.int16)
    world.leader.apply(world.epoch, Effects(run_updates=replace(ends, failure=failure, state=lost_and_preempted)))
    columns = world.leader.load().columns
    assert columns.failed_time_us.tolist() == [int(ends.end_time_us[0]), 0]
    assert columns.last_attempt.tolist() == [1, 1]
    assert columns.failures.tolist() == [1, 0]


def test_members_of_a_run_have_rows_of_their_own_and_end_apart(world: StoreWorld) -> None:
    """Each ends by itself, is refused with its run, and what ended of a live run is loaded beside it."""
    first, other = world.submit_jobs(2).tolist()
    twice = np.repeat(np.array([first, other]), 2)
    numbers = np.array([0, 1, 0, 1], dtype=np.int16)
    runs = replace(make_leases(twice, nodes=("n0", "n1")), member=numbers)
    objects = replace(make_objects(twice), member=numbers, name=[b"a", b"b", b"c", b"d"])
    world.api.set_change_requests(None, np.array([other]), "cancel", encode=encode_change_requests)
    refused = world.leader.apply(world.epoch, Effects(new_runs=runs, new_objects=objects)).refused_handles
    assert refused.tolist() == [other]
    both = np.array([first, first])
    reports = replace(make_reports(both, 3, start_time_us=5), member=numbers[:2])
    world.leader.apply(world.epoch, Effects(object_updates=reports))
    ended = replace(make_run_ends(both[:1], int(RunState.FAILED), reason="it broke"), member=numbers[1:2])
    done = replace(make_reports(both[:1], 5), member=numbers[1:2])
    world.leader.apply(world.epoch, Effects(run_updates=ended, object_updates=done))
    columns = world.leader.load().columns
    assert columns.runs.handle.tolist() == [first]
    assert columns.runs.nodes == ("n0",)
    assert (columns.objects.handle.tolist(), columns.objects.state.tolist()) == ([first], [3])
    assert columns.ended_members is not None
    assert columns.ended_members.members.pairs() == [member_key(first, 1, 1)]
    assert columns.ended_members.state.tolist() == [int(RunState.FAILED)]
    assert columns.ended_members.reasons == ("it broke",)
    assert columns.ended_members.start_time_us.tolist() == ended.start_time_us.tolist()
    assert (columns.failures.tolist(), columns.last_attempt.tolist()) == ([0], [1])
    job = next(job for job in world.list_jobs(JobFilter()) if job.handle == first)
    assert [(run.attempt, run.member, run.node, run.state) for run in job.runs] == [
        (1, 0, "n0", int(RunState.RUNNING)),
        (1, 1, "n1", int(RunState.FAILED)),
    ]
    world.leader.apply(world.epoch, Effects(run_updates=make_run_ends(both[:1], int(RunState.CANCELLED))))
    columns = world.leader.load().columns
    assert (columns.runs.handle.size, columns.ended_members, columns.failures.tolist()) == (0, None, [1])


def test_load_gives_what_live_runs_hold_that_were_resized(world: StoreWorld) -> None:
    """By member, as it was told last; what is as its class, or has ended, is not spoken of."""
    handles = world.submit_jobs(4)
    world.lease(handles)

    def hold(chosen: list[int], *amounts: tuple[int, int]) -> None:
        members = Members.of(handles[chosen], np.ones(len(chosen)))
        held = HeldAmounts(members=members, names=("cpu", "memory"), amounts=np.array(amounts, dtype=np.int64))
        world.leader.apply(world.epoch, Effects(held=held))

    assert world.leader.load().columns.held is None
    hold([3, 0, 1, 2], (1, 1), (1500, -1), (200, 1 << 40), (700, 7))
    hold([2, 1], (-1, -1), (300, -1))
    world.leader.apply(world.epoch, Effects(run_updates=make_run_ends(handles[3:], int(RunState.SUCCEEDED))))
    hold([3], (9, 9))
    held = world.leader.load().columns.held
    assert held is not None
    assert (held.members.handle.tolist(), held.members.attempt.tolist()) == (handles[:2].tolist(), [1, 1])
    assert (held.names, held.amounts.tolist()) == (("cpu",), [[1500], [300]])


def test_load_gives_the_node_that_was_chosen_after_the_lease(world: StoreWorld) -> None:
    """Of runs that were leased to their cluster as a whole; one that has ended keeps what it had."""
    handles = world.submit_jobs(3)
    world.lease(handles)
    before = world.leader.load().columns.runs
    world.leader.apply(world.epoch, Effects(run_updates=make_run_ends(handles[2:], int(RunState.SUCCEEDED))))
    placed = PlacedNodes(members=Members.of(handles[[2, 0]], np.ones(2)), nodes=("n9", "n7"))
    world.leader.apply(world.epoch, Effects(placed=placed))
    runs = world.leader.load().columns.runs
    nodes = dict(zip(runs.handle.tolist(), (runs.nodes[node] for node in runs.node.tolist()), strict=True))
    assert nodes == {int(handles[0]): "n7", int(handles[1]): before.nodes[int(before.node[1])]}
    job = world.api.get_job(int(handles[2]))
    assert job is not None
    assert job.runs[-1].node != "n9"


def test_load_gives_what_open_jobs_wait_for_and_what_has_become_of_it(world: StoreWorld) -> None:
    """Others are open, ended, or not stored at all; jobs that wait for none cost nothing."""
    others = world.submit_jobs(2)
    assert world.leader.load().columns.jobs.after is None
    world.leader.apply(world.epoch, Effects(job_updates=make_job_ends(others[:1])))
    strange = int(others[1]) + 1000
    names = [compose_id(0x0190_0000_0000_7000, handle) for handle in (*others.tolist(), strange)]
    (result,) = world.submit(replace(world.request(2), run_after=(encode_after(AfterUntil.ENDED, names), b"")))
    pairs = world.leader.load().columns.jobs.after
    assert pairs is not None
    assert pairs.handle.tolist() == [int(result.handles[0])] * 3
    assert pairs.other.tolist() == [*others.tolist(), strange]
    assert pairs.state.tolist() == [JobState.SUCCEEDED, 0, FORGOTTEN]


def test_jobs_with_rows_that_cannot_be_used_stay_aside(world: StoreWorld) -> None:
    """Nobody can say when one may begin, or what another's run is; once one has begun nobody asks what it waited for.

    What is held and cannot be read is told by the sampler again.
    """
    waits, runs, good, odd = (world.submit_jobs(1) for _ in range(4))
    world.lease(np.concatenate([runs, odd]))
    after = encode_after(AfterUntil.ENDED, [compose_id(0x0190_0000_0000_7000, int(good[0]))])
    with psycopg.connect(world.url) as database:
        for handles, payload in ((waits, b"\xff"), (runs, b"\1" + bytes(16)), (good, after)):
            database.execute("UPDATE jobs SET run_after = %s WHERE handle = ANY (%s)", [payload, handles.tolist()])
        database.execute("""UPDATE runs SET held_amounts = '{"cpu": "many"}'""")
        database.execute("UPDATE runs SET attempt = -1 WHERE handle = ANY (%s)", [odd.tolist()])
    loaded = world.leader.load()
    assert loaded.unreadable == (*waits.tolist(), *odd.tolist())
    assert loaded.columns.jobs.after is not None
    assert loaded.columns.jobs.after.handle.tolist() == good.tolist()
    assert loaded.columns.held is None


def test_load_gives_how_long_jobs_run_by_what_was_said(world: StoreWorld) -> None:
    """Each open job has its own options; if nothing is said of any, there are no columns."""
    world.submit(world.request(1))
    assert world.leader.load().columns.jobs.options is None
    world.submit(world.request(2, options=options_of((0, 60, -1), (-1, -1, 5, 1, 7))))
    options = world.leader.load().columns.jobs.options
    assert options is not None
    assert {name: values.tolist() for name, values in options.columns().items()} == {
        "lifetime_s": [-1, 0, -1],
        "time_limit_s": [-1, 60, -1],
        "estimate_s": [-1, -1, 5],
        "held": [-1, -1, 1],
        "job_set_limit": [-1, -1, 7],
    }


def test_member_that_a_run_gets_has_its_rows_though_the_run_is_live(world: StoreWorld) -> None:
    """It is not refused as a second run would be, and the next leader loads it beside its peer and the lost one."""
    (handle,) = world.submit_jobs(1).tolist()
    pair, numbers = np.array([handle, handle]), np.array([0, 1], dtype=np.int16)
    runs = replace(make_leases(pair, nodes=("n0", "n1")), member=numbers)
    objects = replace(make_objects(pair), member=numbers, name=[b"a", b"b"])
    world.leader.apply(world.epoch, Effects(new_runs=runs, new_objects=objects))
    one, number = pair[:1], np.array([number_of(1, 1)], dtype=np.int16)
    lost = replace(make_run_ends(one, int(RunState.LOST), reason="gone"), member=numbers[1:])
    runs = replace(make_leases(one, nodes=("n2",)), member=number)
    objects = replace(make_objects(one), member=number, name=[b"c"])
    effects = Effects(run_updates=lost, added_runs=runs, added_objects=objects)
    assert not world.leader.apply(world.epoch, effects).refused_handles.size
    columns = world.leader.load().columns
    assert columns.runs.member is not None
    assert columns.runs.member.tolist() == [0, int(number[0])]
    assert columns.ended_members is not None
    assert columns.ended_members.members.pairs() == [member_key(handle, 1, 1)]


def test_load_gives_numbers_of_submitters(world: StoreWorld) -> None:
    """They are those that the API tells the leader of; where nobody knows who submitted, there is no column."""
    world.submit(world.request(1))
    assert world.leader.load().columns.jobs.submitter is None
    names = ["ada", "Zoë/ops", "x" * 300]
    for name in names:
        world.submit(world.request(1, submitter=name))
    submitter = world.leader.load().columns.jobs.submitter
    assert submitter is not None
    assert submitter.tolist() == [NOBODY, *map(submitter_number, names)]

"""Accepting jobs."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import psycopg
import pytest

from argosy_core.errors import (
    BackendUnavailable,
    InvalidRequest,
    NotAllowedNow,
    NotFound,
    QuotaExceeded,
    StateConflict,
)
from argosy_store import ApiStore, Effects, JobFilter, retain
from argosy_store.replicas.queue_limits import QueueLimit
from argosy_testkit.postgres import set_database_time
from argosy_testkit.store_world import StoreWorld, encode_parts
from argosy_testkit.submissions import make_spec
from argosy_testkit.world_rows import options_of

DAY_US = 86_400_000_000


def stored(world: StoreWorld) -> list[int]:
    """Return the handles of all jobs."""
    return [job.handle for job in world.list_jobs(JobFilter(), limit=1000)]


def client_ids(world: StoreWorld) -> dict[str, int]:
    """Return the handle of each client id."""
    with psycopg.connect(world.url) as connection:
        return dict(connection.execute("SELECT client_id, handle FROM deduplication").fetchall())


def news(world: StoreWorld) -> list[bytes]:
    """Return the payloads for the leader, those about queues left out."""
    return [payload for _, payload in world.leader.read_changes(1000) if payload != b"queue"]


def test_submit_stores_every_column_of_a_job(world: StoreWorld) -> None:
    """What was accepted can be read back at once, exactly."""
    spec = make_spec(b'[{"kind":"Pod","n":1}]')
    request = world.request(
        2, specs=(spec,), priority=7, client_ids=["a", None], metadata=(b'{"labels": {"app": "x"}, "annotations": {}}',)
    )
    world.submit(request)
    job = world.api.get_job(int(request.handles[0]))
    assert job is not None
    assert (job.queue, job.job_set, job.class_id, job.priority) == ("team", "nightly", world.class_id, 7)
    assert (job.state, job.client_id, job.cancel_requested) == (1, "a", False)
    assert (job.labels, job.annotations) == ({"app": "x"}, {})
    assert job.spec_body == spec.body
    assert job.submit_time_us == 1_700_000_000_000_000
    other = world.api.get_job(int(request.handles[1]))
    assert other is not None
    assert other.client_id is None


def test_submit_tells_the_leader_in_the_same_transaction(world: StoreWorld) -> None:
    """One row of changes per transaction and pool names exactly the jobs that were inserted."""
    one, two = world.request(2), world.request(1)
    world.submit(one, two)
    assert news(world) == [b"submitted " + b",".join(b"%d" % h for h in [*one.handles.tolist(), *two.handles.tolist()])]


def test_submit_stores_nothing_when_the_encoding_of_changes_fails(world: StoreWorld) -> None:
    """Jobs, client ids and news are stored together or not at all."""

    def fail(_: object) -> bytes:
        raise ArithmeticError

    with pytest.raises(ArithmeticError):
        world.api.submit([world.request(3, client_ids=["a", "b", "c"])], fail)
    assert stored(world) == []
    assert client_ids(world) == {}
    assert news(world) == []


def test_submit_gives_the_existing_job_when_client_id_and_payload_are_the_same(world: StoreWorld) -> None:
    """Same client id, same payload: same job id, and the leader hears nothing."""
    first = world.request(2, client_ids=["a", "b"])
    world.submit(first)
    before = news(world)
    again = world.submit(world.request(2, client_ids=["a", "b"], submit_time_us=1_800_000_000_000_000))[0]
    assert again.accepted
    assert again.handles.tolist() == first.handles.tolist()
    assert again.id_highs.tolist() == first.id_highs.tolist()
    assert stored(world) == first.handles.tolist()
    assert news(world) == before


def test_submit_inserts_only_what_is_new_when_some_items_repeat(world: StoreWorld) -> None:
    """A request may hold repeats beside new items."""
    old = world.submit_jobs(1, client_ids=["a"])
    request = world.request(3, client_ids=["x", "a", None])
    result = world.submit(request)[0]
    assert result.handles.tolist() == [request.handles[0], old[0], request.handles[2]]
    assert stored(world) == [old[0], request.handles[0], request.handles[2]]
    assert news(world)[-1] == b"submitted %d,%d" % (request.handles[0], request.handles[2])


def test_submit_refuses_the_request_and_keeps_others_when_a_payload_differs(world: StoreWorld) -> None:
    """Other payload under the same client id: nothing of that request is stored, all else in the transaction is."""
    world.submit_jobs(1, client_ids=["a"])
    bad = world.request(3, client_ids=["new", "a", None], payloads=[b"payload", b"other", b"payload"])
    good = world.request(2, client_ids=["new", "more"])
    results = world.submit(bad, good)
    assert results[0].conflicts == ((1, "a"),)
    assert not results[0].accepted
    assert results[1].accepted
    assert results[1].handles.tolist() == good.handles.tolist()
    assert set(stored(world)).isdisjoint(bad.handles.tolist())
    assert set(good.handles.tolist()) <= set(stored(world))
    assert client_ids(world)["new"] == good.handles[0]


def test_submit_lists_every_conflict_of_a_request(world: StoreWorld) -> None:
    """All bad items are named, not only the first."""
    world.submit_jobs(2, client_ids=["a", "b"])
    result = world.submit(world.request(3, client_ids=["a", "c", "b"], payloads=[b"1", b"2", b"3"]))[0]
    assert result.conflicts == ((0, "a"), (2, "b"))
    assert client_ids(world).keys() == {"a", "b"}


@pytest.mark.parametrize(
    ("payloads", "conflicts"), [([b"same", b"same"], ()), ([b"one", b"two"], ((1, "a"),))], ids=["equal", "unequal"]
)
def test_submit_treats_two_items_with_one_client_id_as_one_job_or_as_conflict(
    world: StoreWorld, payloads: list[bytes], conflicts: tuple[tuple[int, str], ...]
) -> None:
    """Two items of one request with one client id: equal payloads are one job, unequal ones a conflict."""
    request = world.request(2, client_ids=["a", "a"], payloads=payloads)
    result = world.submit(request)[0]
    assert result.conflicts == conflicts
    if conflicts:
        assert stored(world) == []
        assert client_ids(world) == {}
    else:
        assert result.handles.tolist() == [request.handles[0]] * 2
        assert stored(world) == [request.handles[0]]


def test_submit_leaves_a_client_id_to_a_later_request_when_the_first_is_refused(world: StoreWorld) -> None:
    """A refused request owns nothing, also within its transaction."""
    world.submit_jobs(1, client_ids=["taken"])
    refused = world.request(2, client_ids=["k", "taken"], payloads=[b"first", b"other"])
    later = world.request(1, client_ids=["k"], payloads=[b"second"])
    results = world.submit(refused, later)
    assert [result.accepted for result in results] == [False, True]
    assert client_ids(world)["k"] == later.handles[0]


def test_submit_keeps_client_ids_of_queues_apart(world: StoreWorld) -> None:
    """A client id is unique within its queue only."""
    other = world.api.create_queue("other", weight=1, pool="default", create_time_us=1, encode=lambda _: b"queue")
    world.submit_jobs(1, client_ids=["a"])
    request = world.request(1, client_ids=["a"], queue_id=other.queue_id, payloads=[b"different"])
    assert world.submit(request)[0].handles.tolist() == request.handles.tolist()


def test_submit_gives_one_job_when_two_stores_submit_one_client_id_at_once(world: StoreWorld) -> None:
    """Concurrent submits of the same keys from two replicas give one job per key, and both callers the same ids."""
    other = ApiStore(world.url)
    keys = [f"key-{number}" for number in range(50)]
    try:
        for _ in range(5):
            batches = [world.request(50, client_ids=keys), world.request(50, client_ids=keys[::-1])]
            with ThreadPoolExecutor(2) as executor:
                futures = [
                    executor.submit(store.submit, [batch], encode_parts)
                    for store, batch in zip((world.api, other), batches, strict=True)
                ]
                one, two = (future.result()[0] for future in futures)
            assert one.handles.tolist() == two.handles.tolist()[::-1]
            assert len(set(stored(world))) == len(keys)
            keys = [f"{key}x" for key in keys]
            with psycopg.connect(world.url) as connection:
                connection.execute("DELETE FROM jobs")
    finally:
        other.close()


def test_submit_shares_a_spec_among_jobs_of_a_day(world: StoreWorld) -> None:
    """A spec is stored once per day and hash, whoever submits it."""
    specs = (make_spec(b"[1]"), make_spec(b"[2]"))
    world.submit_jobs(4, specs=specs)
    other = ApiStore(world.url)
    other.submit([world.request(4, specs=specs)], encode_parts)
    other.close()
    with psycopg.connect(world.url) as connection:
        rows = connection.execute("SELECT body FROM job_specs ORDER BY body").fetchall()
    assert rows == [(b"[1]",), (b"[2]",)]


def test_submit_stores_a_spec_again_when_its_transaction_failed(world: StoreWorld) -> None:
    """A spec counts as known only once its transaction is durable."""

    def fail(_: object) -> bytes:
        raise ArithmeticError

    with pytest.raises(ArithmeticError):
        world.api.submit([world.request(1)], fail)
    handles = world.submit_jobs(1)
    job = world.api.get_job(int(handles[0]))
    assert job is not None
    assert job.spec_body == make_spec().body


def test_submit_orders_news_by_pool(world: StoreWorld) -> None:
    """Each pool's leader hears of its own jobs only."""
    gpu = world.api.create_queue("gpu", weight=1, pool="gpu", create_time_us=1, encode=lambda _: b"queue")
    world.submit(world.request(1), world.request(2, pool="gpu", queue_id=gpu.queue_id))
    with psycopg.connect(world.url) as connection:
        pools = connection.execute("SELECT pool FROM changes WHERE payload <> 'queue' ORDER BY pool").fetchall()
    assert pools == [("default",), ("gpu",)]


def test_submit_refuses_jobs_of_a_deleted_queue_and_keeps_others(world: StoreWorld) -> None:
    """A submit that raced with the deletion of its queue is refused alone."""
    gone = world.api.create_queue("gone", weight=1, pool="default", create_time_us=1, encode=lambda _: b"queue")
    world.api.delete_queue("gone", encode=lambda _: b"queue")
    results = world.submit(world.request(1, queue_id=gone.queue_id), world.request(1))
    assert isinstance(results[0].error, NotFound)
    assert results[1].accepted
    assert len(stored(world)) == 1


def test_submit_refuses_jobs_of_a_closed_day(world: StoreWorld) -> None:
    """No job comes into a day that leaders do not look at any more."""
    set_database_time(world.url, (world.day + 1) * 86_400_000_000 + 1)
    retain(world.url, retention_days=30)
    result = world.submit(world.request(1, day=world.day - 1))[0]
    assert isinstance(result.error, NotAllowedNow)
    assert stored(world) == []


def test_submit_reports_text_that_cannot_be_stored_as_invalid(world: StoreWorld) -> None:
    """A zero byte in a text is the caller's fault and stores nothing."""
    with pytest.raises(InvalidRequest):
        world.submit(world.request(1, client_ids=["a\0b"]))
    assert stored(world) == []


def test_submit_spreads_a_request_over_days(world: StoreWorld) -> None:
    """Jobs of two days in one request go to two partitions."""
    today_jobs, tomorrow = world.request(2), world.request(2, day=world.day + 1)
    world.submit(tomorrow, today_jobs)
    with psycopg.connect(world.url) as connection:
        rows = connection.execute(
            "SELECT tableoid::regclass::text, count(*) FROM jobs GROUP BY 1 ORDER BY 1"
        ).fetchall()
    assert rows == [(f"jobs_d{world.day}", 2), (f"jobs_d{world.day + 1}", 2)]


def test_time_is_the_databases_and_is_carried_on_without_asking(
    world: StoreWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server whose clock is wrong puts jobs into no other day, and a look at the time costs no round trip."""
    monkeypatch.setattr("time.time", lambda: 0.0)
    set_database_time(world.url, 30 * DAY_US)
    store = ApiStore(world.url)
    first = store.now_us()
    set_database_time(world.url, 90 * DAY_US)
    assert 30 * DAY_US <= first < store.now_us() < 31 * DAY_US
    store.close()


def test_reserve_numbers_never_gives_a_number_twice(database_url: str) -> None:
    """Numbers are distinct across replicas and blocks, also for requests larger than a block."""
    stores = [ApiStore(database_url), ApiStore(database_url)]
    seen: list[int] = []
    for count in (1, 9_999, 5, 25_000, 3, 9_998):
        for store in stores:
            first = store.reserve_numbers(count)
            seen.extend((first, first + count - 1) if count > 1 else (first,))
            seen_spans = np.array(seen)
            assert len(np.unique(seen_spans)) == len(seen)
    for store in stores:
        store.close()


def test_class_and_job_set_ids_are_the_same_for_every_replica(database_url: str) -> None:
    """Ids are given once, whoever asks, in whatever order."""
    stores = [ApiStore(database_url), ApiStore(database_url)]
    definitions = [b"a", b"b", b"a", b"c"]
    pairs = [(1, "x"), (2, "x"), (1, "y"), (1, "x")]
    assert stores[0].class_ids(definitions[:2]) == stores[1].class_ids(definitions[:2])
    one, two = (store.class_ids(definitions) for store in stores)
    assert one == two
    assert len(set(one)) == 3
    sets = [store.job_set_ids(pairs) for store in stores]
    assert sets[0] == sets[1] == stores[0].job_set_ids(pairs)
    assert len(set(sets[0])) == 3
    for store in stores:
        store.close()


def test_refused_request_leaves_its_client_ids_to_others(world: StoreWorld) -> None:
    """What a full queue refuses stores nothing, its client ids neither; who repeats them in one transaction is new."""
    limits = {world.queue.queue_id: QueueLimit(name="team", max_queued_count=2, known_count=0)}
    large = world.request(3, client_ids=["a", "b", "c"], limits=limits)
    small = world.request(2, client_ids=["a", "x"], limits=limits)
    refused, accepted = world.submit(large, small)
    assert isinstance(refused.error, QuotaExceeded)
    assert "'team' has 0 jobs waiting and may have 2; 3 more do not fit" in refused.error.message
    assert accepted.handles.tolist() == small.handles.tolist() == stored(world)
    assert client_ids(world).keys() == {"a", "x"}


def test_submit_rate_is_kept_in_one_transaction_and_over_several(world: StoreWorld) -> None:
    """A request that goes beyond ten seconds' worth is the last one; its debt outlasts the transaction."""
    limits = {world.queue.queue_id: QueueLimit(name="team", max_queued_count=1000, known_count=0, submit_rate_per_s=1)}
    parts = [world.request(count, limits=limits) for count in (4, 20, 1)]
    first, second, third = world.submit(*parts)
    assert (first.error, second.error) == (None, None)
    assert isinstance(third.error, QuotaExceeded)
    (again,) = world.submit(world.request(1, limits=limits))
    assert isinstance(again.error, QuotaExceeded)
    assert again.error.retry_delay_s == pytest.approx(14.0, abs=1.0)
    assert len(stored(world)) == 24


def test_queue_has_the_jobs_waiting_that_no_leader_has_taken(world: StoreWorld) -> None:
    """Jobs count as waiting from their acceptance on; once their news is taken, the leader's count stands for them."""
    world.submit_jobs(3)
    world.submit_jobs(2)
    assert world.api.find_queues(["team"])["team"][1] == 5
    ids = np.array([change for change, _ in world.leader.read_changes(1000)], dtype=np.int64)
    effects = Effects(deleted_change_ids=ids, queued_counts={world.queue.queue_id: 4}, queued_count_time_us=1)
    world.leader.apply(world.epoch, effects)
    assert world.api.find_queues(["team"])["team"][1] == 4


# --- another database -------------------------------------------------------------------------------------------------


def _replace_database(world: StoreWorld) -> None:
    """Have the database be on another timeline, as a standby that was promoted, without what its primary had last."""
    with psycopg.connect(world.url) as connection:
        connection.execute("CREATE OR REPLACE FUNCTION argosy_timeline() RETURNS text LANGUAGE sql AS $$SELECT 'new'$$")


@pytest.fixture
def replaceable(world: StoreWorld) -> Iterator[StoreWorld]:
    """Give a world whose database may be replaced, with one job of it stored."""
    world.submit_jobs(1)
    with psycopg.connect(world.url) as connection:
        (definition,) = connection.execute("SELECT pg_get_functiondef('argosy_timeline'::regproc)").fetchone() or ("",)
    yield world
    with psycopg.connect(world.url) as connection:
        connection.execute(definition)


def test_ids_of_a_lost_database_are_not_used_after_a_fail_over(replaceable: StoreWorld) -> None:
    """A job set that the standby never had must not mean another queue's, so nothing remembered outlives a timeline."""
    world = replaceable
    (lost,) = world.api.job_set_ids([(world.queue.queue_id, "lost")])
    generation = world.api.generation
    request = replace(world.request(1, job_set_id=lost), generation=generation)
    with psycopg.connect(world.url) as connection:
        connection.execute("DELETE FROM job_sets WHERE job_set_id = %s", [lost])
    _replace_database(world)
    with pytest.raises(BackendUnavailable, match="replaced by another"):
        world.submit(request)
    with pytest.raises(BackendUnavailable, match="replaced by another"):
        world.submit(request)
    assert world.api.generation > generation
    assert len(stored(world)) == 1
    (found,) = world.api.job_set_ids([(world.queue.queue_id, "lost")])
    assert world.submit(replace(world.request(1, job_set_id=found), generation=world.api.generation))[0].accepted


def test_numbers_and_epochs_of_a_lost_database_are_not_given_again(replaceable: StoreWorld) -> None:
    """What the primary gave last may not have reached the standby: both go on far behind it."""
    world = replaceable
    before = world.api.reserve_numbers(1)
    _replace_database(world)
    with pytest.raises(BackendUnavailable):
        world.submit(world.request(1))
    assert world.api.reserve_numbers(1) - before > 500_000_000
    leadership = world.leader.try_lead("leader-1", "localhost:1", 600)
    assert leadership is not None
    assert leadership.epoch >= world.epoch + 1000


def test_leader_of_a_lost_database_writes_nothing_and_loads_again(replaceable: StoreWorld) -> None:
    """Its memory may hold what the standby never had."""
    world = replaceable
    handles = world.submit_jobs(1)
    _replace_database(world)
    with pytest.raises(StateConflict, match="load again"):
        world.lease(handles)
    leadership = world.leader.try_lead("leader-1", "localhost:1", 600)
    assert leadership is not None
    world.leadership = leadership
    assert world.lease(handles).tolist() == []


def test_what_a_slow_caller_was_told_by_a_lost_database_is_not_remembered_for_the_new_one(world: StoreWorld) -> None:
    """Looking at the timeline and remembering ids is one step, whoever else meets another database meanwhile."""
    api = world.api
    done = threading.Event()

    def remember(timeline: str, class_id: int) -> None:
        while not done.is_set():
            api._remember(api._classes, {b"c": class_id}, timeline)

    threads = [threading.Thread(target=remember, args=arguments) for arguments in (("lost", 1), ("new", 2))]
    for thread in threads:
        thread.start()
    seen = set()
    for _ in range(20_000):
        with api._caches_lock:
            seen.add((api._timeline, api._classes.get(b"c")))
    done.set()
    for thread in threads:
        thread.join()
    assert {pair for pair in seen if pair[0] in {"lost", "new"}} <= {("lost", 1), ("new", 2)}


@pytest.mark.parametrize("kind", ["classes", "job sets"])
def test_ids_are_told_though_what_was_remembered_is_forgotten_meanwhile(
    world: StoreWorld, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Another caller may begin a new day, or meet another database, between any two steps of this one."""
    api = world.api

    def ask(*names: str) -> list[int]:
        if kind == "classes":
            return api.class_ids([name.encode() for name in names])
        return api.job_set_ids([(world.queue.queue_id, name) for name in names])

    known = ask("known", "other")
    remember, begin_day = api._remember, api._begin_day

    def forget() -> None:
        with api._caches_lock:
            api._classes.clear()
            api._job_sets.clear()

    def remember_in_vain(cache: dict[Any, int], found: dict[Any, int], timeline: str) -> None:
        remember(cache, found, timeline)
        forget()

    def begin_in_vain() -> None:
        begin_day()
        forget()

    monkeypatch.setattr(api, "_remember", remember_in_vain)
    told = ask("known", "new", "other")
    assert [told[0], told[2]] == known
    assert told[1] not in {0, *known}
    monkeypatch.setattr(api, "_begin_day", begin_in_vain)
    assert ask("known", "new", "other") == told


def test_submit_stores_durations_that_are_given_and_null_for_others(world: StoreWorld) -> None:
    """What a submitter says of how long jobs run is read back; of others nothing is written."""
    world.submit(world.request(1), world.request(2, options=options_of((0, 60, -1), (-1, -1, 5))))
    found = [(job.lifetime_s, job.time_limit_s, job.estimate_s) for job in world.list_jobs(JobFilter())]
    assert found == [(None, None, None), (0, 60, None), (None, None, 5)]

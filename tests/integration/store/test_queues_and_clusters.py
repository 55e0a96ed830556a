"""Queues and clusters as the API writes them."""

from collections.abc import Sequence

import numpy as np
import psycopg
import pytest

from argosy_core.errors import AlreadyExists, BackendUnavailable, NotAllowedNow, NotFound, StateConflict
from argosy_store import Effects, JobFilter
from argosy_testkit.store_world import StoreWorld
from argosy_testkit.submissions import make_job_ends


def encode(things: Sequence[object]) -> bytes:
    """Return what changed as text."""
    return b"changed " + ",".join(map(str, things)).encode()


def news(world: StoreWorld, pool: str = "default") -> list[bytes]:
    """Return what a leader hears."""
    with psycopg.connect(world.url) as connection:
        rows = connection.execute("SELECT payload FROM changes WHERE pool = %s ORDER BY id", [pool]).fetchall()
    return [row[0] for row in rows if row[0].startswith(b"changed")]


def make(world: StoreWorld, name: str = "new", **options: object) -> object:
    """Create a queue."""
    values = {"weight": 2.0, "pool": "default", "create_time_us": 5, "encode": encode, **options}
    return world.api.create_queue(name, **values)  # type: ignore[arg-type]


def test_create_queue_twice_is_success_when_equal_and_refused_when_not(world: StoreWorld) -> None:
    """An equal queue by the same name is success and no news; another one already exists."""
    queue = make(world, namespaces=["a"], max_queued_count=3)
    assert make(world, namespaces=["a"], max_queued_count=3, create_time_us=9) == queue
    for other in ({"weight": 3.0}, {"pool": "gpu"}, {"namespaces": []}, {"max_queued_count": 4}):
        with pytest.raises(AlreadyExists):
            make(world, **{"namespaces": ["a"], "max_queued_count": 3, **other})
    assert len(news(world)) == 1


def test_list_queues_pages_by_name(world: StoreWorld) -> None:
    """Queues come in order of their names."""
    for name in ("b", "a", "c"):
        make(world, name)
    first = world.api.list_queues(limit=2)
    rest = world.api.list_queues(after_name=first[-1].name)
    assert [queue.name for queue in first + rest] == ["a", "b", "c", "team"]


def test_update_queue_checks_the_etag(world: StoreWorld) -> None:
    """An etag that is not the current one is a conflict; fields that are not named stay."""
    made = make(world)
    changed = world.api.update_queue("new", etag=made.etag, changes={"weight": 5.0, "namespaces": ["n"]}, encode=encode)
    assert (changed.version, changed.weight, changed.namespaces, changed.pool) == (2, 5.0, ("n",), made.pool)
    with pytest.raises(StateConflict):
        world.api.update_queue("new", etag=made.etag, changes={"weight": 6.0}, encode=encode)
    with pytest.raises(NotFound):
        world.api.update_queue("none", etag=made.etag, changes={"weight": 7.0}, encode=encode)
    assert len(news(world)) == 2


def test_a_queue_changes_its_pool_only_without_open_jobs(world: StoreWorld) -> None:
    """Both leaders hear of a move, and none takes place under open jobs."""
    handles = world.submit_jobs(1)
    etag = world.queue.etag
    with pytest.raises(NotAllowedNow):
        world.api.update_queue("team", etag=etag, changes={"pool": "gpu"}, encode=encode)
    world.leader.apply(world.epoch, Effects(job_updates=make_job_ends(handles)))
    take_changes(world)
    assert world.api.update_queue("team", etag=etag, changes={"pool": "gpu"}, encode=encode).pool == "gpu"
    told = b"changed %d" % world.queue.queue_id
    assert news(world)[-1] == told
    assert news(world, "gpu") == [told]


def take_changes(world: StoreWorld) -> None:
    """Let the leader take all changes."""
    ids = [change_id for change_id, _ in world.leader.read_changes(100)]
    world.leader.apply(world.epoch, Effects(deleted_change_ids=np.array(ids, dtype=np.int64)))


def of_another_queue(world: StoreWorld) -> dict[str, int]:
    """Make a queue that the leader knows; return what makes a request one of its jobs."""
    queue_id = make(world, "other").queue_id  # type: ignore[attr-defined]
    take_changes(world)
    return {"queue_id": queue_id, "job_set_id": world.api.job_set_ids([(queue_id, "set")])[0]}


def test_a_queue_moves_only_once_its_leader_has_taken_what_happened_to_its_jobs(world: StoreWorld) -> None:
    """Events are numbered by one leader: the last of the old pool's come before the first of the new one's."""
    handles = world.submit_jobs(1)
    etag = world.queue.etag
    world.leader.apply(world.epoch, Effects(job_updates=make_job_ends(handles)))
    with pytest.raises(NotAllowedNow, match="yet to take"):
        world.api.update_queue("team", etag=etag, changes={"pool": "gpu"}, encode=encode)
    take_changes(world)
    world.submit_jobs(1, **of_another_queue(world))
    assert world.api.update_queue("team", etag=etag, changes={"pool": "gpu"}, encode=encode).pool == "gpu"


def test_a_submit_that_knows_the_queues_former_pool_is_refused_whole(world: StoreWorld) -> None:
    """Its job would be led by the leader that is told of it, and by the one that loads the queue; others go through."""
    late, fine = world.request(2), world.request(3, **of_another_queue(world))
    world.api.update_queue("team", etag=world.queue.etag, changes={"pool": "gpu"}, encode=encode)
    take_changes(world)
    refused, accepted = world.submit(late, fine)
    assert isinstance(refused.error, BackendUnavailable)
    assert accepted.accepted
    assert len(world.leader.read_changes(10)) == 1
    assert [job.handle for job in world.list_jobs(JobFilter())] == accepted.handles.tolist()
    assert world.submit(world.request(2, pool="gpu"))[0].accepted


def test_cordon_keeps_its_reason_until_it_is_lifted(world: StoreWorld) -> None:
    """A cordon carries a reason; lifting it takes the reason away."""
    queue = world.api.set_queue_cordon("team", cordoned=True, reason="budget", encode=encode)
    assert (queue.cordoned, queue.cordon_reason, queue.version) == (True, "budget", 2)
    queue = world.api.set_queue_cordon("team", cordoned=False, reason="budget", encode=encode)
    assert (queue.cordoned, queue.cordon_reason, queue.version) == (False, "", 3)
    assert world.api.queues_by_id([queue.queue_id]) == {queue.queue_id: queue}
    assert world.api.find_queues(["team", "none"]) == {"team": (queue, 0)}
    with pytest.raises(NotFound):
        world.api.set_queue_cordon("none", cordoned=True, reason="", encode=encode)


def test_delete_queue_needs_that_no_job_is_open(world: StoreWorld) -> None:
    """A queue with open jobs stays; a deleted one is gone by name and its name is free again."""
    handles = world.submit_jobs(1)
    with pytest.raises(NotAllowedNow):
        world.api.delete_queue("team", encode=encode)
    world.leader.apply(world.epoch, Effects(job_updates=make_job_ends(handles)))
    world.api.delete_queue("team", encode=encode)
    with pytest.raises(NotFound):
        world.api.get_queue("team")
    heard = len(news(world))
    world.api.delete_queue("team", encode=encode)  # as a client does that got no answer
    assert len(news(world)) == heard
    with pytest.raises(NotFound):
        world.api.delete_queue("never-was", encode=encode)
    assert world.api.list_queues() == []
    assert make(world, "team").queue_id != world.queue.queue_id  # type: ignore[attr-defined]
    job = world.api.get_job(int(handles[0]))
    assert job is not None
    assert job.queue == "team"


def test_capacity_of_a_cluster_is_bounded_also_before_it_is_known(world: StoreWorld) -> None:
    """The bound is with the cluster's row for API and leader, the leader hears of it, and none takes it away."""
    world.api.invite_cluster("west", "hash", lifetime_s=60.0, max_capacity=["memory=7", "cpu=5"])
    bound = world.leader.bind_cluster(world.epoch, "west", uid="u", role="sampler", process=bytes(16), keep_s=0.0)
    assert bound.cluster.max_capacity == ("cpu=5", "memory=7")
    world.api.invite_cluster("west", "another", lifetime_s=60.0)
    assert world.api.get_cluster("west").max_capacity == ("cpu=5", "memory=7")
    assert world.api.set_max_capacity("west", ["cpu=9"], encode=encode).max_capacity == ("cpu=9",)
    assert [row.max_capacity for row in world.leader.read_clusters(["west"])] == [("cpu=9",)]
    assert world.api.set_max_capacity("west", [], encode=encode).max_capacity == ()
    with pytest.raises(NotFound):
        world.api.set_max_capacity("nowhere", ["cpu=9"], encode=encode)
    assert news(world) == [b"changed west"] * 2


def test_clusters_are_cordoned_node_by_node_and_forgotten(world: StoreWorld) -> None:
    """Cordons and forgetting are stored, and the leader hears of each."""
    for name in ("west", "east"):
        world.leader.bind_cluster(world.epoch, name, uid="u", role="executor", process=bytes(16), keep_s=0.0)
    assert [cluster.name for cluster in world.api.list_clusters()] == ["east", "west"]
    assert [cluster.name for cluster in world.api.list_clusters(after_name="east")] == ["west"]
    cluster = world.api.set_cluster_cordon("east", cordoned=True, reason="broken", encode=encode)
    assert (cluster.cordoned, cluster.cordon_reason) == (True, "broken")
    for node in ("n2", "n1", "n2"):
        cluster = world.api.set_node_cordon("east", node, cordoned=True, reason=f"{node} is old", encode=encode)
    assert sorted(cluster.cordoned_nodes) == ["n1", "n2"]
    assert cluster.node_cordon_reasons == {"n1": "n1 is old", "n2": "n2 is old"}
    cluster = world.api.set_node_cordon("east", "n2", cordoned=False, encode=encode)
    assert (cluster.cordoned_nodes, cluster.node_cordon_reasons) == (("n1",), {"n1": "n1 is old"})
    assert not cluster.delegated
    assert world.api.set_delegated("east", delegated=True, encode=encode).delegated
    assert world.api.get_cluster("east").delegated
    world.api.forget_cluster("east", encode=encode)
    with pytest.raises(NotFound):
        world.api.get_cluster("east")
    with pytest.raises(NotFound):
        world.api.forget_cluster("east", encode=encode)
    assert news(world) == [b"changed east"] * 7

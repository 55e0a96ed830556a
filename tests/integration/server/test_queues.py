"""Tests of QueueService."""

from __future__ import annotations

import contextlib
from typing import Any

import grpc
import pytest
from google.protobuf.field_mask_pb2 import FieldMask

from argosy.api.v1 import job_pb2, queue_pb2
from argosy.lease.v1 import lease_pb2
from argosy_store.terms.leader import LeaderStore

Queue = queue_pb2.Queue


async def create(api: Any, queue: Queue) -> Queue:
    """Make a queue and return it as stored."""
    return (await api.queues.CreateQueue(queue_pb2.CreateQueueRequest(queue=queue))).queue


async def test_create_queue_fills_defaults_and_accepts_equal_one_again(api: Any) -> None:
    """Weight 1 and the default pool are filled in; making the same queue again is success."""
    made = await create(api, Queue(name="blue", namespaces=["b", "a", "b"]))
    assert (made.weight, made.pool, list(made.namespaces)) == (1.0, "default", ["a", "b"])
    assert made.create_time.seconds > 1_700_000_000
    assert await create(api, Queue(name="blue", namespaces=["a", "b"])) == made


async def test_queue_of_weight_zero_is_not_one_without_weight(api: Any) -> None:
    """A weight that is given counts, also 0; only one that is not given is 1."""
    assert (await create(api, Queue(name="idle", weight=0.0))).weight == 0.0
    assert (await api.queues.GetQueue(queue_pb2.GetQueueRequest(name="idle"))).queue.weight == 0.0


async def test_pool_that_nobody_led_is_refused(api: Any, database_url: str) -> None:
    """Jobs of such a queue would wait for ever; a pool that was led once may be without a leader now."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await create(api, Queue(name="blue", pool="defualt"))
    assert caught.value.code() == grpc.StatusCode.FAILED_PRECONDITION
    assert caught.value.details() == (
        "no server has ever led the pool 'defualt', so its jobs would wait for ever; there is only default"
    )
    made = await create(api, Queue(name="blue"))
    with pytest.raises(grpc.aio.AioRpcError):
        await update(api, Queue(name="blue", etag=made.etag, pool="gpu"), "pool")
    with contextlib.closing(LeaderStore(database_url, "gpu")) as leader:
        assert leader.try_lead("one", "", 60.0) is not None
    assert (await create(api, Queue(name="green", pool="gpu"))).pool == "gpu"


async def update(api: Any, queue: Queue, *paths: str) -> Queue:
    """Change fields of a queue and return it as stored."""
    mask = FieldMask(paths=paths)
    return (await api.queues.UpdateQueue(queue_pb2.UpdateQueueRequest(queue=queue, update_mask=mask))).queue


async def test_update_queue_changes_what_the_mask_names_and_nothing_else(api: Any) -> None:
    """Fields that the mask does not name stay; one that is named and not set gets its default."""
    made = await create(api, Queue(name="blue", weight=3.0, namespaces=["a"], max_queued_count=7))
    changed = await update(api, Queue(name="blue", etag=made.etag, max_queued_count=9, weight=5.0), "max_queued_count")
    assert (changed.weight, list(changed.namespaces), changed.max_queued_count) == (3.0, ["a"], 9)
    rates = Queue(name="blue", etag=changed.etag, submit_rate_per_s=2.5, lease_rate_per_s=0.1)
    changed = await update(api, rates, "submit_rate_per_s", "lease_rate_per_s")
    assert (changed.submit_rate_per_s, changed.lease_rate_per_s, changed.max_queued_count) == (2.5, 0.1, 9)
    rights = Queue(name="blue", etag=changed.etag, preempts_unexpired=True, preempts_endless=True)
    changed = await update(api, rights, "preempts_endless")
    assert (changed.preempts_unexpired, changed.preempts_endless) == (False, True)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await update(api, Queue(name="blue", etag=changed.etag, lease_rate_per_s=-1), "lease_rate_per_s")
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    reset = await update(api, Queue(name="blue", etag=changed.etag, namespaces=["b"]), "*")
    assert (reset.weight, list(reset.namespaces), reset.max_queued_count) == (1.0, ["b"], 0)


@pytest.mark.parametrize(
    ("etag", "paths", "code", "text"),
    [
        ("", ["weight"], grpc.StatusCode.INVALID_ARGUMENT, "needs the etag that GetQueue answered"),
        ("7-7", ["weight"], grpc.StatusCode.ABORTED, "read it again"),
        ("right", [], grpc.StatusCode.INVALID_ARGUMENT, "update_mask"),
        ("right", ["weight", "cordon"], grpc.StatusCode.INVALID_ARGUMENT, "'cordon', which cannot be changed"),
    ],
)
async def test_update_queue_needs_an_etag_and_known_fields(
    *, api: Any, etag: str, paths: list[str], code: grpc.StatusCode, text: str
) -> None:
    """Nobody overwrites what somebody else changed meanwhile, and a mask names what can be changed."""
    row = (await api.queues.GetQueue(queue_pb2.GetQueueRequest(name="red"))).queue
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await update(api, Queue(name="red", etag=row.etag if etag == "right" else etag), *paths)
    assert caught.value.code() == code
    assert text in str(caught.value.details())


async def test_update_queue_moves_the_etag_and_tells_leader(api: Any, leader_store: Any) -> None:
    """An update moves the etag, and each change is news for the leader."""
    row = (await api.queues.GetQueue(queue_pb2.GetQueueRequest(name="red"))).queue
    news = len(leader_store.read_changes(100))
    updated = await update(api, Queue(name="red", weight=2.5, etag=row.etag), "weight")
    assert updated.weight == 2.5
    assert updated.etag != row.etag
    cordoned = (await api.queues.CordonQueue(queue_pb2.CordonQueueRequest(name="red", reason="audit"))).queue
    assert cordoned.cordon.reason == "audit"
    freed = (await api.queues.UncordonQueue(queue_pb2.UncordonQueueRequest(name="red"))).queue
    assert not freed.HasField("cordon")
    changes = [lease_pb2.Changes.FromString(payload) for _, payload in leader_store.read_changes(100)][news:]
    assert [list(change.changed_queue_ids) for change in changes] == [[1], [1], [1]]


async def test_cordoned_queue_takes_submits(api: Any) -> None:
    """A cordon keeps jobs from becoming pending, not from being accepted."""
    await api.queues.CordonQueue(queue_pb2.CordonQueueRequest(name="red"))
    assert len(await api.submit({})) == 1


async def test_delete_queue_waits_for_its_jobs(api: Any) -> None:
    """A queue with open jobs stays; without them it goes, and its name is free again."""
    await api.submit({})
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await api.queues.DeleteQueue(queue_pb2.DeleteQueueRequest(name="red"))
    assert caught.value.code() == grpc.StatusCode.FAILED_PRECONDITION
    await api.jobs.CancelJobs(job_pb2.CancelJobsRequest(selector=job_pb2.JobSelector(queue="red")))
    await api.queues.DeleteQueue(queue_pb2.DeleteQueueRequest(name="red"))
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await api.submit({})
    assert caught.value.code() == grpc.StatusCode.NOT_FOUND
    await api.make_queue("red")
    assert len(await api.submit({})) == 1


async def test_list_queues_pages_by_name(api: Any) -> None:
    """Pages join in order of names without gap or repeat."""
    for name in ("e", "d", "c", "b", "a"):
        await api.make_queue(name)
    names: list[str] = []
    token = ""
    while True:
        page = await api.queues.ListQueues(queue_pb2.ListQueuesRequest(page_size=2, page_token=token))
        names += [queue.name for queue in page.queues]
        token = page.next_page_token
        if not token:
            break
    assert names == ["a", "b", "c", "d", "e", "red"]

"""Tests of QueueService."""

from __future__ import annotations

from typing import Any

import grpc
import pytest

from argosy.api.v1 import job_pb2, queue_pb2
from argosy.lease.v1 import lease_pb2

Queue = queue_pb2.Queue


async def create(api: Any, queue: Queue) -> Queue:
    """Make a queue and return it as stored."""
    return (await api.queues.CreateQueue(queue_pb2.CreateQueueRequest(queue=queue))).queue


async def test_create_queue_fills_defaults_and_accepts_equal_one_again(api: Any) -> None:
    """Weight 1 and the default pool are filled in; making the same queue again is success."""
    made = await create(api, Queue(name="blue", namespaces=["b", "a", "b"]))
    assert (made.weight, made.pool, list(made.namespaces), made.version) == (1.0, "default", ["a", "b"], 1)
    assert made.create_time.seconds > 1_700_000_000
    assert await create(api, Queue(name="blue", namespaces=["a", "b"])) == made


async def test_update_queue_keeps_version_and_tells_leader(api: Any, leader_store: Any) -> None:
    """An update moves the version, and each change is news for the leader."""
    row = (await api.queues.GetQueue(queue_pb2.GetQueueRequest(name="red"))).queue
    news = len(leader_store.read_changes(100))
    updated = (
        await api.queues.UpdateQueue(
            queue_pb2.UpdateQueueRequest(queue=Queue(name="red", weight=2.5, version=row.version))
        )
    ).queue
    assert (updated.weight, updated.version) == (2.5, row.version + 1)
    cordoned = (await api.queues.CordonQueue(queue_pb2.CordonQueueRequest(name="red", reason="audit"))).queue
    assert (cordoned.cordoned, cordoned.cordon_reason) == (True, "audit")
    freed = (await api.queues.UncordonQueue(queue_pb2.UncordonQueueRequest(name="red"))).queue
    assert (freed.cordoned, freed.cordon_reason) == (False, "")
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

"""What grants let a caller see and change, and on whose behalf it may act."""

from __future__ import annotations

import asyncio

import grpc
import pytest
from google.protobuf.field_mask_pb2 import FieldMask

from argosy.api.v1 import access_pb2, job_pb2, queue_pb2
from argosy_core.access import Role, Verb

from .tenants import ABSENT, OTHERS, OWN, Mesh, Place, bearer, submit

DENIED = grpc.StatusCode.PERMISSION_DENIED
HIDDEN = grpc.StatusCode.NOT_FOUND


async def test_lists_show_what_the_caller_may_see(mesh: Mesh) -> None:
    """Queues, jobs of all queues and jobs by id: another's are not among them."""
    mine = {"metadata": bearer("may-watch")}
    ids_of_both = [mesh.places[OWN].job_id, mesh.places[OTHERS].job_id]
    queues = await mesh.api.queues.ListQueues(queue_pb2.ListQueuesRequest(), **mine)
    jobs = await mesh.api.jobs.ListJobs(job_pb2.ListJobsRequest(selector=job_pb2.JobSelector()), **mine)
    found = await mesh.api.jobs.BatchGetJobs(job_pb2.BatchGetJobsRequest(ids=ids_of_both), **mine)
    assert [queue.name for queue in queues.queues] == [OWN]
    assert [job.queue for job in jobs.jobs] == [OWN]
    assert ([job.queue for job in found.jobs], list(found.unknown_ids)) == ([OWN], ids_of_both[1:])
    everything = await mesh.api.jobs.ListJobs(
        job_pb2.ListJobsRequest(selector=job_pb2.JobSelector()), metadata=bearer("auditor")
    )
    assert {job.queue for job in everything.jobs} == {OWN, OTHERS}


async def test_change_touches_what_the_caller_may_touch(mesh: Mesh) -> None:
    """Of two jobs one's own is cancelled; the other's is unknown, and goes on."""
    both = job_pb2.JobIds(ids=[mesh.places[OWN].job_id, mesh.places[OTHERS].job_id])
    outcome = await mesh.api.jobs.CancelJobs(job_pb2.CancelJobsRequest(jobs=both), metadata=bearer("may-cancel"))
    assert (outcome.job_count, list(outcome.unknown_ids)) == (1, [mesh.places[OTHERS].job_id])
    request = job_pb2.GetJobRequest(id=mesh.places[OTHERS].job_id)
    other = await mesh.api.jobs.GetJob(request, metadata=bearer("auditor"))
    assert other.job.state == job_pb2.JOB_STATE_QUEUED


async def test_who_sees_a_job_is_told_that_more_is_needed_to_cancel_it(mesh: Mesh) -> None:
    """What one sees and may not touch is refused by name, not hidden."""
    add = access_pb2.AddGrantsRequest(grants=[access_pb2.Grant(subject="user:stranger", queue=OWN, verb="watch")])
    add.grants.add(subject="user:stranger", queue=OTHERS, verb="cancel")
    await mesh.api.access.AddGrants(add, metadata=bearer("root"))
    request = job_pb2.CancelJobsRequest(jobs=job_pb2.JobIds(ids=[mesh.places[OWN].job_id]))
    with pytest.raises(grpc.aio.AioRpcError, match="needs cancel on queue red"):
        await mesh.api.jobs.CancelJobs(request, metadata=bearer("stranger"))


async def test_nobody_adopts_a_job_of_a_queue_to_which_it_may_not_submit(mesh: Mesh) -> None:
    """Another's operator is as if it were not there; one's own is a parent."""
    request = submit(Place(OWN, ""))
    request.validate_only, request.items[0].operator = False, True
    own = (await mesh.api.jobs.SubmitJobs(request, metadata=bearer("root"))).job_ids[0]
    request.items[0].queue = OTHERS
    others = (await mesh.api.jobs.SubmitJobs(request, metadata=bearer("root"))).job_ids[0]
    told = []
    for job_id in (others, mesh.places[ABSENT].job_id):
        child = submit(Place(OWN, ""))
        child.items[0].parent.job_id = job_id
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await mesh.api.jobs.SubmitJobs(child, metadata=bearer("may-submit"))
        told.append((refused.value.code(), str(refused.value.details()).replace(job_id, "X")))
    assert told[0] == told[1]
    assert told[0][0] == HIDDEN
    child.items[0].parent.job_id = own
    await mesh.api.jobs.SubmitJobs(child, metadata=bearer("may-submit"))


async def test_who_edits_a_queue_gives_it_no_share_and_no_namespace(mesh: Mesh) -> None:
    """Weight, pool and namespaces of a queue are an administrator's."""
    queue = (await mesh.api.queues.GetQueue(queue_pb2.GetQueueRequest(name=OWN), metadata=bearer("may-edit"))).queue
    for path in ("weight", "pool", "namespaces", "*"):
        request = queue_pb2.UpdateQueueRequest(queue=queue, update_mask=FieldMask(paths=[path]))
        with pytest.raises(grpc.aio.AioRpcError, match="admin"):
            await mesh.api.queues.UpdateQueue(request, metadata=bearer("may-edit"))
    request = queue_pb2.UpdateQueueRequest(queue=queue, update_mask=FieldMask(paths=["max_queued_count"]))
    assert await mesh.api.queues.UpdateQueue(request, metadata=bearer("may-edit"))


async def test_grant_ends_with_its_queue(mesh: Mesh) -> None:
    """A queue that is made anew by an old name is nobody's; one that is not there gets no grants."""
    root = {"metadata": bearer("root")}
    await mesh.api.queues.CreateQueue(queue_pb2.CreateQueueRequest(queue=queue_pb2.Queue(name="brief")), **root)
    grant = access_pb2.Grant(subject="user:stranger", queue="brief", verb="watch")
    await mesh.api.access.AddGrants(access_pb2.AddGrantsRequest(grants=[grant]), **root)
    await mesh.api.queues.DeleteQueue(queue_pb2.DeleteQueueRequest(name="brief"), **root)
    listed = await mesh.api.access.ListGrants(access_pb2.ListGrantsRequest(subject="user:stranger"), **root)
    assert list(listed.grants) == []
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await mesh.api.access.AddGrants(access_pb2.AddGrantsRequest(grants=[grant]), **root)
    assert caught.value.code() == HIDDEN


async def test_grants_are_listed_page_by_page_and_say_something(mesh: Mesh) -> None:
    """Pages go on where the last one ended; a role for a queue and a verb for none are refused."""
    root = {"metadata": bearer("root")}
    longest = access_pb2.Grant(subject="group:" + "\U0001f600" * 253, queue=OWN, verb="watch")
    await mesh.api.access.AddGrants(access_pb2.AddGrantsRequest(grants=[longest]), **root)
    request = access_pb2.ListGrantsRequest(page_size=1)
    pages = []
    while not pages or request.page_token:
        page = await mesh.api.access.ListGrants(request, **root)
        pages += [(one.subject, one.queue, one.verb) for one in page.grants]
        request.page_token = page.next_page_token
    assert pages == sorted(set(pages))
    assert len(pages) == len(Role) + len(Verb) + 2
    await mesh.api.access.RemoveGrants(access_pb2.RemoveGrantsRequest(grants=[longest]), **root)
    for queue, verb in ((OWN, "admin"), ("", "watch")):
        odd = access_pb2.AddGrantsRequest(grants=[access_pb2.Grant(subject="user:x", queue=queue, verb=verb)])
        with pytest.raises(grpc.aio.AioRpcError, match=r"grants\[0\]"):
            await mesh.api.access.AddGrants(odd, **root)


async def test_submitter_is_whose_token_was_sent_or_whom_a_facade_acts_as(mesh: Mesh) -> None:
    """A job keeps the name of who submitted it; in one transaction each its own, and none where nobody is asked."""
    request = submit(mesh.places[OWN])
    request.validate_only = False
    acting = (*bearer("impersonator"), ("argosy-acting-as", "may-submit"))
    answers = await asyncio.gather(
        *(mesh.api.jobs.SubmitJobs(request, metadata=metadata) for metadata in (bearer("admin"), acting))
    )
    read = [
        await mesh.api.jobs.GetJob(job_pb2.GetJobRequest(id=one.job_ids[0]), metadata=bearer("auditor"))
        for one in answers
    ]
    assert [one.job.submitter for one in read] == ["admin", "may-submit"]


async def test_facade_may_do_what_its_user_may_and_nothing_more(mesh: Mesh) -> None:
    """Acting as somebody without submit, or as an administrator, submits nothing."""
    for name in ("may-watch", "admin"):
        metadata = (*bearer("impersonator"), ("argosy-acting-as", name))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await mesh.api.jobs.SubmitJobs(submit(mesh.places[OWN]), metadata=metadata)
        assert caught.value.code() == DENIED


async def test_grant_holds_for_queues_below_and_not_above(mesh: Mesh) -> None:
    """Who may watch a queue may watch what stands below it, at any depth, and nothing beside or above it."""
    root = {"metadata": bearer("root")}
    for name, parent in (("top", ""), ("middle", "top"), ("bottom", "middle"), ("beside", "top")):
        queue = queue_pb2.Queue(name=name, parent=parent)
        await mesh.api.queues.CreateQueue(queue_pb2.CreateQueueRequest(queue=queue), **root)
    grant = access_pb2.Grant(subject="user:stranger", queue="middle", verb="watch")
    await mesh.api.access.AddGrants(access_pb2.AddGrantsRequest(grants=[grant]), **root)
    listed = await mesh.api.queues.ListQueues(queue_pb2.ListQueuesRequest(), metadata=bearer("stranger"))
    assert [queue.name for queue in listed.queues] == ["bottom", "middle"]

"""Jobs that submit jobs: which may be named as parents, what is kept of it, and what others see."""

from __future__ import annotations

import contextlib
from typing import Any

import grpc
import numpy as np
import pytest

from argosy.api.v1 import job_pb2
from argosy_core.job.identity import parse_id
from argosy_core.job.reading.families import MAX_GENERATION
from argosy_core.job.states import JobState
from argosy_store import Effects, LeaderStore
from argosy_testkit.submissions import make_job_ends


def child_of(job_id: str, *, outlives: bool = False, **fields: Any) -> dict[str, Any]:
    """Return an item that names a parent."""
    return {"parent": job_pb2.ParentJob(job_id=job_id, outlives=outlives), **fields}


async def job(api: Any, job_id: str) -> job_pb2.Job:
    """Return a job."""
    return (await api.jobs.GetJob(job_pb2.GetJobRequest(id=job_id))).job


async def refused(api: Any, code: grpc.StatusCode, *items: dict[str, Any]) -> str:
    """Return why a submit was refused."""
    with pytest.raises(grpc.RpcError) as told:
        await api.submit(*items)
    assert told.value.code() == code
    return str(told.value.details())


async def test_children_tell_their_parent_and_are_listed_under_it(api: Any) -> None:
    """By a label that nobody can give; labels of the user's stay, and ours are not among them."""
    (parent,) = await api.submit({"operator": True})
    ids = await api.submit(child_of(parent.upper(), count=2, labels={"a": "b"}), child_of(parent, outlives=True))
    (other,) = await api.submit({})
    first, last = await job(api, ids[0]), await job(api, ids[2])
    assert (first.parent.job_id, first.parent.outlives, dict(first.labels)) == (parent, False, {"a": "b"})
    assert (last.parent.job_id, last.parent.outlives, dict(last.annotations)) == (parent, True, {})
    assert ((await job(api, parent)).operator, first.operator) == (True, False)
    assert not (await job(api, other)).HasField("parent")
    selector = job_pb2.JobSelector(queue="red", label_selector=f"argosy.dev/parent={parent}")
    listed = await api.jobs.ListJobs(job_pb2.ListJobsRequest(selector=selector, page_size=10))
    assert [one.id for one in listed.jobs] == ids
    await refused(api, grpc.StatusCode.INVALID_ARGUMENT, {"labels": {"argosy.dev/parent": parent}})


async def test_job_that_cannot_have_children_is_refused_as_a_parent(api: Any, leader_store: Any) -> None:
    """One that does not exist, that did not say that it is an operator, or that has ended."""
    plain, ended = await api.submit({}, {"operator": True})
    unknown = ended[:-1] + ("0" if ended[-1] != "0" else "1")
    await refused(api, grpc.StatusCode.NOT_FOUND, child_of(unknown[:-2] + "ff"))
    assert "is no operator" in await refused(api, grpc.StatusCode.INVALID_ARGUMENT, child_of(plain))
    epoch = leader_store.try_lead("leader", "127.0.0.1:1", 600.0).epoch
    handles = np.array([parse_id(ended)[1]])
    leader_store.apply(epoch, Effects(job_updates=make_job_ends(handles, JobState.CANCELLED)))
    assert "has ended" in await refused(api, grpc.StatusCode.INVALID_ARGUMENT, child_of(ended))
    assert "parent.job_id" in await refused(api, grpc.StatusCode.INVALID_ARGUMENT, child_of("x"))


async def test_job_of_another_pool_is_refused_as_a_parent(api: Any) -> None:
    """Only the leader of both could end the child with it."""
    with contextlib.closing(LeaderStore(api.url, "other")) as other:
        assert other.try_lead("one", "", 60.0) is not None
    await api.make_queue("far", pool="other")
    (parent,) = await api.submit({"operator": True, "queue": "far"})
    assert "another pool" in await refused(api, grpc.StatusCode.INVALID_ARGUMENT, child_of(parent))


async def test_job_that_submits_itself_comes_to_an_end(api: Any) -> None:
    """Generations are bounded; a parent exists before its child, so there are no circles."""
    (parent,) = await api.submit({"operator": True})
    for _ in range(MAX_GENERATION):
        (parent,) = await api.submit(child_of(parent, operator=True))
    assert "parents above it" in await refused(api, grpc.StatusCode.INVALID_ARGUMENT, child_of(parent))


async def test_client_id_stands_for_the_child_of_one_parent(api: Any) -> None:
    """The same submit again is the same job; the child of another one is not."""
    one, other = await api.submit({"operator": True}, {"operator": True})
    (first,) = await api.submit(child_of(one, client_id="c"))
    assert await api.submit(child_of(one, client_id="c")) == [first]
    await refused(api, grpc.StatusCode.ALREADY_EXISTS, child_of(other, client_id="c"))

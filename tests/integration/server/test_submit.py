"""Tests of SubmitJobs against a real database."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

import grpc
import psycopg
import pytest
from google.protobuf.duration_pb2 import Duration
from tests.integration.server.conftest import make_item

from argosy.api.v1 import job_pb2, queue_pb2
from argosy.lease.v1 import lease_pb2
from argosy_core.errors import QuotaExceeded
from argosy_core.job.identity import parse_id
from argosy_runtime.columns import unpack_column
from argosy_runtime.errors import from_rpc_error
from argosy_store import LeaderStore


def take_changes(leader_store: Any) -> list[lease_pb2.Changes]:
    """Return the news for the leader, in order."""
    return [lease_pb2.Changes.FromString(payload) for _, payload in leader_store.read_changes(1000)]


def submitted_handles(leader_store: Any) -> list[int]:
    """Return the handles that the leader hears of, in order."""
    return [
        int(handle)
        for changes in take_changes(leader_store)
        for handle in unpack_column(changes.submitted.handle_column, "int64", name="handle_column")
    ]


async def test_submit_answers_ids_that_can_be_read_back_at_once(api: Any) -> None:
    """What was answered OK is there: job, labels, spec byte for byte."""
    ids = await api.submit(
        {"priority": 7, "labels": {"team": "a"}, "annotations": {"why": "x y"}, "client_id": "c-1"}, {"count": 2}
    )
    assert len(ids) == 3
    assert ids == sorted(ids)
    job = (await api.jobs.GetJob(job_pb2.GetJobRequest(id=ids[0]))).job
    assert (job.queue, job.job_set, job.priority, job.client_id) == ("red", "one", 7, "c-1")
    assert (dict(job.labels), dict(job.annotations)) == ({"team": "a"}, {"why": "x y"})
    assert job.state == job_pb2.JOB_STATE_QUEUED
    assert job.create_time.seconds > 1_700_000_000
    assert '"image": "busybox"' in job.spec.manifests[0]


async def test_submit_takes_manifests_as_yaml(api: Any) -> None:
    """A manifest may be YAML; it is answered as JSON, and the same text is the same spec."""
    text = (
        "# a pod\napiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - name: main\n    image: busybox\n"
        "    resources: {requests: {cpu: 1, memory: 1Gi}}\n"
    )
    request = job_pb2.SubmitJobsRequest(
        specs=[job_pb2.JobSpec(manifests=[text])],
        items=[job_pb2.JobItem(queue="red", job_set="one", client_id="yaml")],
    )
    ids = (await api.jobs.SubmitJobs(request)).job_ids
    assert (await api.jobs.SubmitJobs(request)).job_ids == ids
    job = (await api.jobs.GetJob(job_pb2.GetJobRequest(id=ids[0]))).job
    assert json.loads(job.spec.manifests[0])["spec"]["containers"][0]["image"] == "busybox"


async def test_submit_judges_unknown_fields_as_the_request_wants(api: Any) -> None:
    """Strict refuses them, warn tells and accepts, ignore accepts; memory without a unit is told unless ignored."""
    request = make_item()
    text = request.specs[0].manifests[0].replace('"image"', '"imagee": "x", "image"').replace('"1Gi"', '"512"')
    request.specs[0].manifests[0] = text
    place = "specs[0].manifests[0].spec.containers[0]"
    for strict in (job_pb2.MANIFEST_VALIDATION_UNSPECIFIED, job_pb2.MANIFEST_VALIDATION_STRICT):
        request.validation = strict
        with pytest.raises(grpc.RpcError) as caught:
            await api.jobs.SubmitJobs(request)
        (fault,) = from_rpc_error(caught.value).violations
        assert (fault.field, fault.description) == (
            f"{place}.imagee",
            "is no field of this object; did you mean image?",
        )
    request.validation = job_pb2.MANIFEST_VALIDATION_WARN
    answer = await api.jobs.SubmitJobs(request)
    assert len(answer.job_ids) == 1
    assert [told.field for told in answer.warnings] == [
        f"{place}.imagee",
        f"{place}.resources.requests.memory",
    ]
    request.validation = job_pb2.MANIFEST_VALIDATION_IGNORE
    answer = await api.jobs.SubmitJobs(request)
    assert (len(answer.job_ids), list(answer.warnings)) == (1, [])
    request.validation = 9
    with pytest.raises(grpc.RpcError, match="validation"):
        await api.jobs.SubmitJobs(request)


async def test_submit_tells_leader_exactly_what_was_accepted(api: Any, leader_store: Any) -> None:
    """The leader's news names every accepted job once, with its spec, class, set and metadata."""
    before = len(take_changes(leader_store))
    ids = await api.submit({"spec": 1, "priority": 3, "labels": {"a": "b"}}, {"spec": 0, "count": 3}, specs=2)
    news = take_changes(leader_store)[before:]
    assert len(news) == 1
    jobs = news[0].submitted
    handles = unpack_column(jobs.handle_column, "int64", name="handle")
    assert [parse_id(job_id)[1] for job_id in ids] == handles.tolist()
    assert unpack_column(jobs.priority_column, "int32", name="priority").tolist() == [3, 0, 0, 0]
    specs = unpack_column(jobs.spec_column, "int32", name="spec")
    assert len(jobs.specs) == 2
    assert specs[0] != specs[1]
    assert specs[1:].tolist() == [specs[1]] * 3
    assert jobs.specs[int(specs[0])].layout == b'[["Pod","pod"]]'
    assert jobs.specs[0].day == int(handles[0]) >> 40
    assert unpack_column(jobs.metadata_column, "int32", name="metadata").tolist() == [0, -1, -1, -1]
    assert list(jobs.metadata) == [b'{"annotations":{},"labels":{"a":"b"}}']


async def test_submit_gives_same_job_for_same_client_id_and_payload(api: Any, leader_store: Any) -> None:
    """A repeat of client id and payload is the same job, within a request and between requests, and no news."""
    first = await api.submit({"client_id": "c"}, {"client_id": "c"})
    again = await api.submit({"client_id": "c"})
    assert first == [again[0], again[0]]
    assert len(submitted_handles(leader_store)) == 1


async def test_submit_says_which_jobs_existed_before(api: Any) -> None:
    """The copies that a larger count adds are made, those that were there are named by their index."""
    few, many = (make_item(client_id="x", count=count) for count in (2, 4))
    assert list((await api.jobs.SubmitJobs(few)).existing_jobs) == []
    answer = await api.jobs.SubmitJobs(many)
    assert (len(answer.job_ids), list(answer.existing_jobs)) == (4, [0, 1])


async def test_submit_refuses_other_payload_under_same_client_id(api: Any, leader_store: Any) -> None:
    """A client id stands for one job; another payload is ALREADY_EXISTS and nothing of its request is stored."""
    await api.submit({"client_id": "c"})
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await api.submit({"client_id": "new"}, {"client_id": "c", "priority": 1})
    assert caught.value.code() == grpc.StatusCode.ALREADY_EXISTS
    assert [violation.field for violation in from_rpc_error(caught.value).violations] == ["items[1].client_id"]
    assert len(submitted_handles(leader_store)) == 1


async def test_submit_refuses_unequal_items_with_one_client_id(api: Any, leader_store: Any) -> None:
    """Two different jobs with one client id in one request are refused before anything is stored."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await api.submit({"client_id": "c"}, {"client_id": "c", "job_set": "two"})
    assert caught.value.code() == grpc.StatusCode.ALREADY_EXISTS
    assert "items[1].client_id" in str(caught.value.details())
    assert submitted_handles(leader_store) == []


async def test_submit_names_copies_after_their_client_id(api: Any) -> None:
    """Copies of an item are `id`, `id~1`, `id~2`, which no client can ask for: a job called `id/2` is another one."""
    ids = await api.submit({"client_id": "c", "count": 3})
    assert await api.submit({"client_id": "c", "count": 3}) == ids
    assert (await api.submit({"client_id": "c/2"}))[0] not in ids
    assert (await api.submit({"client_id": "c/1", "priority": 9}))[0] not in ids
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await api.submit({"client_id": "c~1"})
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT


async def test_submit_applies_concurrent_requests_once_each(api: Any, leader_store: Any) -> None:
    """Requests that share transactions, some of them repeats of each other, make each client id one job."""
    requests = [api.submit(*({"client_id": f"c-{number % 40}-{item}"} for item in range(5))) for number in range(80)]
    answers = await asyncio.gather(*requests)
    for number in range(40):
        assert answers[number] == answers[number + 40]
    handles = submitted_handles(leader_store)
    assert len(handles) == len(set(handles)) == 200


async def test_submit_stores_nothing_when_one_of_gathered_requests_is_refused(api: Any, leader_store: Any) -> None:
    """A refused request does not take those with it that share its transaction."""
    await api.submit({"client_id": "taken"})
    good, bad = await asyncio.gather(
        api.submit({"client_id": "fresh"}),
        api.submit({"client_id": "taken", "priority": 9}, {"client_id": "other"}),
        return_exceptions=True,
    )
    assert isinstance(good, list)
    assert isinstance(bad, grpc.aio.AioRpcError)
    assert len(submitted_handles(leader_store)) == 2


async def test_submit_stores_nothing_when_only_validating(api: Any, leader_store: Any) -> None:
    """`validate_only` checks all and stores nothing."""
    assert await api.submit({"count": 5}, validate_only=True) == []
    assert submitted_handles(leader_store) == []
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await api.submit({"queue": "blue"}, validate_only=True)
    assert caught.value.code() == grpc.StatusCode.NOT_FOUND


async def test_submit_refuses_more_than_queue_may_hold(api: Any) -> None:
    """A queue's limit on waiting jobs is RESOURCE_EXHAUSTED and names queue and limit."""
    await api.make_queue("small", max_queued_count=5)
    await api.submit({"queue": "small", "count": 3})
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await api.submit({"queue": "small", "count": 3})
    assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "'small' has 3 jobs waiting and may have 5" in str(caught.value.details())


async def test_submit_repeats_its_answer_though_the_queue_is_full(api: Any) -> None:
    """A retry of an accepted submit makes no job, so it needs no room; a new job does."""
    await api.make_queue("small", max_queued_count=3)
    request = {"queue": "small", "client_id": "c", "count": 3}
    ids = await api.submit(request)
    assert await api.submit(request) == ids
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await api.submit({"queue": "small", "client_id": "d"})
    assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_submit_keeps_limits_at_all_replicas_while_nobody_leads(api: Any, serve: Any) -> None:
    """Without a leader that counts, replicas together accept no more than the queue may hold."""
    await api.make_queue("small", max_queued_count=50)
    async with serve(api.url, api={"queue_cache_s": 0.0}) as other:
        calls = [each.submit({"queue": "small", "count": 3}) for _ in range(20) for each in (api, other)]
        answers = await asyncio.gather(*calls, return_exceptions=True)
    accepted = [answer for answer in answers if isinstance(answer, list)]
    assert len(accepted) == 16
    refused = {answer.code() for answer in answers if isinstance(answer, grpc.aio.AioRpcError)}
    assert refused == {grpc.StatusCode.RESOURCE_EXHAUSTED}


async def test_submit_keeps_the_rate_of_a_queue_at_all_replicas(api: Any, serve: Any) -> None:
    """Ten seconds' worth at once over all of them; then the refusal says when, repeats and other queues pass."""
    await api.make_queue("slow", submit_rate_per_s=0.5)
    async with serve(api.url, api={"queue_cache_s": 0.0}) as other:
        request = {"queue": "slow", "client_id": "c", "count": 4}
        ids = await api.submit(request)
        await other.submit({"queue": "slow", "count": 100})
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await api.submit({"queue": "slow"})
        assert await other.submit(request) == ids
        await api.submit()
    assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "queue 'slow' takes 0.5 jobs a second; submit again in" in str(caught.value.details())
    error = from_rpc_error(caught.value)
    assert isinstance(error, QuotaExceeded)
    assert error.reason == "SUBMIT_RATE"
    assert error.retry_delay_s is not None
    assert 180.0 < error.retry_delay_s <= 198.0


async def test_submit_goes_on_while_lists_hang(database_url: str, serve: Any) -> None:
    """Requests that take every reader and every connection of theirs hold up no submit."""
    async with serve(database_url, api={"reader_count": 2}) as api:
        await api.make_queue("red")
        await api.submit()
        with psycopg.connect(database_url) as blocker:
            blocker.execute("LOCK TABLE runs IN ACCESS EXCLUSIVE MODE")
            request = job_pb2.ListJobsRequest(selector=job_pb2.JobSelector(queue="red"))
            lists = [asyncio.ensure_future(api.jobs.ListJobs(request)) for _ in range(4)]
            assert len(await asyncio.wait_for(api.submit({"count": 2}), 50)) == 2
            assert not any(task.done() for task in lists)
        await asyncio.gather(*lists)


async def test_submit_notices_deleted_queue_though_it_is_remembered(api: Any, serve: Any) -> None:
    """A queue deleted at another replica takes no jobs, though this one remembers it."""
    await api.submit(validate_only=True)
    async with serve(api.url) as other:
        await other.queues.DeleteQueue(queue_pb2.DeleteQueueRequest(name="red"))
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await api.submit()
    assert caught.value.code() == grpc.StatusCode.NOT_FOUND


async def test_submit_refuses_namespace_that_queue_may_not_use(api: Any) -> None:
    """A pod may stand in the queue's namespaces only."""
    await api.make_queue("spaces", namespaces=["lab"])
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await api.submit({"queue": "spaces"})
    assert caught.value.code() == grpc.StatusCode.PERMISSION_DENIED
    assert "may not use namespace 'default'; it may use lab" in str(caught.value.details())


async def test_submit_refuses_queues_of_two_pools_in_one_request(api: Any, database_url: str) -> None:
    """One request is one transaction of one pool."""
    with contextlib.closing(LeaderStore(database_url, "other")) as leader:
        assert leader.try_lead("one", "", 60.0) is not None
    await api.make_queue("far", pool="other")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await api.submit({}, {"queue": "far"})
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert [violation.field for violation in from_rpc_error(caught.value).violations] == ["items[1].queue"]


async def test_submit_answers_what_it_took_while_draining(database_url: str, serve: Any) -> None:
    """A submit that was taken before SIGTERM is stored and answered."""
    async with serve(database_url) as api:
        await api.make_queue("red")
        under_way = asyncio.ensure_future(api.submit())
        await api.app.gather._arrived.wait()
        api.life.request_stop()
        assert len(await under_way) == 1


async def test_submit_keeps_how_long_jobs_run_and_refuses_what_cannot_be(api: Any) -> None:
    """Durations are read back with the job; one that is out of range is named with its item."""
    said = {"lifetime": Duration(), "time_limit": Duration(seconds=60), "job_set_limit": 4}
    ids = await api.submit(said, {})
    jobs = (await api.jobs.BatchGetJobs(job_pb2.BatchGetJobsRequest(ids=ids))).jobs
    names = ("lifetime", "time_limit", "estimate")
    found = [[getattr(job, name).seconds if job.HasField(name) else None for name in names] for job in jobs]
    assert found == [[0, 60, None], [None, None, None]]
    assert [job.job_set_limit for job in jobs] == [4, 0]
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await api.submit({}, {"time_limit": Duration(seconds=-1)})
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert "items[1].time_limit" in [one.field for one in from_rpc_error(caught.value).violations]

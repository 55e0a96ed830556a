"""Tests of reading jobs and of change requests."""

from __future__ import annotations

from typing import Any

import grpc
import numpy as np
import pytest

from argosy.api.v1 import job_pb2, server_pb2
from argosy.lease.v1 import lease_pb2
from argosy_core.job.identity import parse_id, short_id
from argosy_core.job.states import JobState, ObjectState, RunState
from argosy_runtime.columns import unpack_column
from argosy_store import Effects
from argosy_testkit.submissions import make_job_ends, make_leases, make_objects, make_reports, make_run_ends


def handles_of(ids: list[str]) -> np.ndarray:
    """Return the handles of job ids."""
    return np.array([parse_id(job_id)[1] for job_id in ids], dtype=np.int64)


def lead(leader_store: Any, *effects: Effects) -> None:
    """Take the lead and apply effects."""
    leadership = leader_store.try_lead("leader", "127.0.0.1:1", 600.0)
    for effect in effects:
        leader_store.apply(leadership.epoch, effect)


async def list_ids(api: Any, **selector: Any) -> list[str]:
    """Return the ids of all jobs that a selector over queue red means, page by page."""
    ids: list[str] = []
    token = ""
    while True:
        answer = await api.jobs.ListJobs(
            job_pb2.ListJobsRequest(
                selector=job_pb2.JobSelector(queue="red", **selector), page_size=2, page_token=token
            )
        )
        ids += [job.id for job in answer.jobs]
        token = answer.next_page_token
        if not token:
            return ids


async def test_batch_get_finds_jobs_by_the_ends_of_their_ids(api: Any) -> None:
    """The last digits that are a job's own are enough, in any case of letters; others are answered as unknown."""
    ids = await api.submit({"count": 3})
    endings = [short_id(job_id) for job_id in ids]
    for digits in (4, 6, 12):  # fewer than are shown, and more
        found = await api.jobs.BatchGetJobs(job_pb2.BatchGetJobsRequest(ids=[ids[2][-digits:]]))
        assert [job.id for job in found.jobs] == [ids[2]]
    request = job_pb2.BatchGetJobsRequest(ids=[endings[1].upper(), ids[0], ids[1], "ffffff"])
    answer = await api.jobs.BatchGetJobs(request)
    assert ([job.id for job in answer.jobs], list(answer.unknown_ids)) == ([ids[1], ids[0]], ["ffffff"])
    for wrong in ("123", "1234567890123", "xyzw"):
        with pytest.raises(grpc.RpcError, match="ids"):
            await api.jobs.BatchGetJobs(job_pb2.BatchGetJobsRequest(ids=[wrong]))
    with pytest.raises(grpc.RpcError, match="at most 20"):
        await api.jobs.BatchGetJobs(job_pb2.BatchGetJobsRequest(ids=[f"{number:06d}" for number in range(21)]))


async def test_get_job_shows_runs_and_why_they_ended(api: Any, leader_store: Any) -> None:
    """A job carries its runs by attempt, its state follows from the live one, and 0 is of those that succeeded."""
    ids = await api.submit({})
    handles = handles_of(ids)
    lead(
        leader_store,
        Effects(new_runs=make_leases(handles), new_objects=make_objects(handles)),
        Effects(run_updates=make_run_ends(handles, RunState.LOST, reason="node gone")),
        Effects(new_runs=make_leases(handles, attempt=2), new_objects=make_objects(handles, attempt=2)),
        Effects(object_updates=make_reports(handles, ObjectState.RUNNING, attempt=2)),
    )
    job = (await api.jobs.GetJob(job_pb2.GetJobRequest(id=ids[0].upper()))).job
    assert job.state == job_pb2.JOB_STATE_RUNNING
    assert [(run.attempt, run.state, run.cluster, run.node, run.reason) for run in job.runs] == [
        (1, job_pb2.RUN_STATE_LOST, "east", "node-1", "node gone"),
        (2, job_pb2.RUN_STATE_RUNNING, "east", "node-1", ""),
    ]
    assert not any(run.HasField("exit_code") for run in job.runs)
    assert job.runs[0].end_time.seconds == 1_700_000_003


async def test_get_job_refuses_id_whose_upper_half_is_another(api: Any) -> None:
    """An id must fit as a whole; a right handle alone names no job."""
    (job_id,) = await api.submit({})
    forged = f"00000000-0000-7000-{job_id[19:]}"
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await api.jobs.GetJob(job_pb2.GetJobRequest(id=forged))
    assert caught.value.code() == grpc.StatusCode.NOT_FOUND
    answer = await api.jobs.CancelJobs(job_pb2.CancelJobsRequest(jobs=job_pb2.JobIds(ids=[forged])))
    assert (answer.job_count, list(answer.unknown_ids)) == (0, [forged])


async def test_list_jobs_pages_in_submit_order_by_selector(api: Any, leader_store: Any) -> None:
    """Queue, job set, states and labels narrow the list; pages join without gap or repeat."""
    await api.make_queue("blue")
    ids = await api.submit(
        {"labels": {"team": "a"}}, {"labels": {"team": "b"}, "job_set": "two"}, {"count": 3}, {"queue": "blue"}
    )
    handles = handles_of(ids)
    lead(
        leader_store,
        Effects(new_runs=make_leases(handles[:1]), new_objects=make_objects(handles[:1])),
        Effects(job_updates=make_job_ends(handles[1:2], JobState.FAILED, reason="no")),
    )
    assert await list_ids(api) == ids[:5]
    everywhere = await api.jobs.ListJobs(job_pb2.ListJobsRequest())  # no queue: those of all queues
    assert [job.id for job in everywhere.jobs] == ids
    assert await list_ids(api, job_set="two") == [ids[1]]
    assert await list_ids(api, label_selector="team in (a, b), team != b") == [ids[0]]
    assert await list_ids(api, label_selector="!team") == ids[2:5]
    assert await list_ids(api, states=[job_pb2.JOB_STATE_QUEUED]) == ids[2:5]
    assert await list_ids(api, states=[job_pb2.JOB_STATE_LEASED, job_pb2.JOB_STATE_FAILED]) == ids[:2]


async def test_list_jobs_gives_the_newest_first_and_within_a_time(api: Any) -> None:
    """Lists go backwards page by page, and may be bound to a time of submit."""
    first, second = await api.submit({}), await api.submit({"count": 2})
    selector = job_pb2.JobSelector(queue="red")
    newest = job_pb2.JOB_ORDER_NEWEST_FIRST
    page = await api.jobs.ListJobs(job_pb2.ListJobsRequest(selector=selector, page_size=2, order=newest))
    assert [job.id for job in page.jobs] == second[::-1]
    rest = await api.jobs.ListJobs(
        job_pb2.ListJobsRequest(selector=selector, page_size=2, order=newest, page_token=page.next_page_token)
    )
    assert ([job.id for job in rest.jobs], rest.next_page_token) == (first, "")
    at = page.jobs[0].create_time
    after = await api.jobs.ListJobs(job_pb2.ListJobsRequest(selector=selector, create_time_from=at))
    before = await api.jobs.ListJobs(job_pb2.ListJobsRequest(selector=selector, create_time_before=at))
    assert ([job.id for job in after.jobs], [job.id for job in before.jobs]) == (second, first)


async def test_batch_get_answers_each_job_once_and_names_what_is_unknown(api: Any) -> None:
    """Jobs come in the order asked for, without their specs; ids that name none are told."""
    ids = await api.submit({"count": 3})
    unknown = f"{ids[0][:-2]}{int(ids[0][-2:], 16) ^ 0x80:02x}"
    answer = await api.jobs.BatchGetJobs(job_pb2.BatchGetJobsRequest(ids=[ids[2], ids[0].upper(), unknown, ids[2]]))
    assert ([job.id for job in answer.jobs], list(answer.unknown_ids)) == ([ids[2], ids[0]], [unknown])
    assert not answer.jobs[0].HasField("spec")


async def test_list_job_sets_pages_by_name_and_counts_if_asked(api: Any, leader_store: Any) -> None:
    """A queue's job sets come by name; their jobs are counted by state only for who asks."""
    ids = await api.submit({"job_set": "b", "count": 2}, {"job_set": "a"}, {"job_set": "c"})
    lead(leader_store, Effects(job_updates=make_job_ends(handles_of(ids[:1]))))
    request = job_pb2.ListJobSetsRequest(queue="red", page_size=2)
    page = await api.jobs.ListJobSets(request)
    assert [(one.queue, one.name, len(one.state_counts)) for one in page.job_sets] == [("red", "a", 0), ("red", "b", 0)]
    request.page_token = page.next_page_token
    assert [one.name for one in (await api.jobs.ListJobSets(request)).job_sets] == ["c"]
    counted = await api.jobs.ListJobSets(job_pb2.ListJobSetsRequest(queue="red", count_states=True))
    counts = {one.name: [(count.state, count.job_count) for count in one.state_counts] for one in counted.job_sets}
    succeeded, queued = job_pb2.JOB_STATE_SUCCEEDED, job_pb2.JOB_STATE_QUEUED
    assert counts == {"a": [(queued, 1)], "b": [(queued, 1), (succeeded, 1)], "c": [(queued, 1)]}


async def test_server_tells_version_limits_and_features(api: Any) -> None:
    """A client need not guess what a server takes."""
    info = await api.server.GetServerInfo(server_pb2.GetServerInfoRequest())
    assert info.version
    assert (info.default_pool, info.limits.max_jobs_per_request, info.limits.max_page_size) == (
        "default",
        100_000,
        1000,
    )
    assert server_pb2.FEATURE_YAML_MANIFESTS in info.features


async def test_list_jobs_refuses_token_of_another_selector(api: Any) -> None:
    """A page token goes on with its own request only."""
    await api.submit({"count": 3})
    selector = job_pb2.JobSelector(queue="red")
    page = await api.jobs.ListJobs(job_pb2.ListJobsRequest(selector=selector, page_size=1))
    other = job_pb2.JobSelector(queue="red", job_set="two")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await api.jobs.ListJobs(job_pb2.ListJobsRequest(selector=other, page_token=page.next_page_token))
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT


async def test_cancel_ends_jobs_without_run_and_asks_leader_for_others(api: Any, leader_store: Any) -> None:
    """A waiting job ends in the request's own transaction; one with a run keeps it until the leader has stopped it."""
    ids = await api.submit({"count": 2})
    handles = handles_of(ids)
    lead(leader_store, Effects(new_runs=make_leases(handles[:1]), new_objects=make_objects(handles[:1])))
    unknown = f"{ids[0][:-2]}{int(ids[0][-2:], 16) ^ 0x80:02x}"
    answer = await api.jobs.CancelJobs(
        job_pb2.CancelJobsRequest(jobs=job_pb2.JobIds(ids=[*ids, ids[0], unknown]), reason="by \x1b[31mme")
    )
    assert (answer.job_count, list(answer.unknown_ids)) == (2, [unknown])
    jobs = [(await api.jobs.GetJob(job_pb2.GetJobRequest(id=job_id))).job for job_id in ids]
    assert [job.state for job in jobs] == [job_pb2.JOB_STATE_LEASED, job_pb2.JOB_STATE_CANCELLED]
    assert [job.cancel_requested for job in jobs] == [True, True]
    change_requests = lease_pb2.Changes.FromString(leader_store.read_changes(100)[-1][1]).change_requests
    assert unpack_column(change_requests.handle_column, "int64", name="x").tolist() == handles.tolist()
    assert unpack_column(change_requests.kind_column, "int8", name="x").tolist() == [1, 1]
    assert unpack_column(change_requests.ended_column, "int8", name="x").tolist() == [0, 1]
    assert change_requests.reason == "by  [31mme"


async def test_cancel_previews_count_and_sample_without_doing_anything(api: Any, leader_store: Any) -> None:
    """`validate_only` counts what would be done and shows up to 20 of the jobs."""
    ids = await api.submit({"count": 30}, {"job_set": "two"})
    news = len(leader_store.read_changes(100))
    for target in (
        {"selector": job_pb2.JobSelector(queue="red", job_set="one")},
        {"jobs": job_pb2.JobIds(ids=ids[:30])},
    ):
        preview = await api.jobs.CancelJobs(job_pb2.CancelJobsRequest(validate_only=True, **target))
        assert preview.job_count == 30
        assert [job.id for job in preview.sample] == ids[:20]
    assert len(leader_store.read_changes(100)) == news
    done = await api.jobs.CancelJobs(
        job_pb2.CancelJobsRequest(selector=job_pb2.JobSelector(queue="red", job_set="one"))
    )
    assert done.job_count == 30
    assert await list_ids(api, states=[job_pb2.JOB_STATE_QUEUED]) == ids[30:]
    again = await api.jobs.CancelJobs(job_pb2.CancelJobsRequest(selector=job_pb2.JobSelector(queue="red")))
    assert again.job_count == 1


async def test_reprioritize_changes_priority_and_tells_leader(api: Any, leader_store: Any) -> None:
    """Open jobs of the selector get the new priority; ended ones keep theirs."""
    ids = await api.submit({"count": 3})
    lead(leader_store, Effects(job_updates=make_job_ends(handles_of(ids[:1]))))
    selector = job_pb2.JobSelector(queue="red", job_set="one")
    answer = await api.jobs.ReprioritizeJobs(job_pb2.ReprioritizeJobsRequest(selector=selector, priority=-5))
    assert answer.job_count == 2
    jobs = [(await api.jobs.GetJob(job_pb2.GetJobRequest(id=job_id))).job for job_id in ids]
    assert [job.priority for job in jobs] == [0, -5, -5]
    change_requests = lease_pb2.Changes.FromString(leader_store.read_changes(100)[-1][1]).change_requests
    assert unpack_column(change_requests.kind_column, "int8", name="x").tolist() == [2, 2]
    assert unpack_column(change_requests.priority_column, "int32", name="x").tolist() == [-5, -5]


async def test_jobs_are_held_and_released_by_selector_and_id(api: Any, leader_store: Any) -> None:
    """Open jobs are marked and the leader hears of those that changed; a preview and a repetition tell it nothing."""
    ids = await api.submit({"count": 2, "hold": True}, {})
    selector = job_pb2.JobSelector(queue="red", job_set="one")
    preview = await api.jobs.HoldJobs(job_pb2.HoldJobsRequest(selector=selector, validate_only=True))
    assert (preview.job_count, len(preview.sample)) == (3, 3)
    held = await api.jobs.HoldJobs(job_pb2.HoldJobsRequest(selector=selector, reason="wait"))
    assert held.job_count == 3
    released = await api.jobs.ReleaseJobs(job_pb2.ReleaseJobsRequest(jobs=job_pb2.JobIds(ids=ids[:1])))
    assert released.job_count == 1
    jobs = [(await api.jobs.GetJob(job_pb2.GetJobRequest(id=job_id))).job for job_id in ids]
    assert [job.held for job in jobs] == [False, True, True]
    changes = [lease_pb2.Changes.FromString(payload) for _, payload in leader_store.read_changes(100)]
    (submitted,) = [change.submitted for change in changes if change.HasField("submitted")]
    assert unpack_column(submitted.held_column, "int32", name="x").tolist() == [1, 1, -1]
    told = [change.change_requests for change in changes if change.HasField("change_requests")]
    assert [unpack_column(one.kind_column, "int8", name="x").tolist() for one in told] == [[4], [5]]
    assert told[0].reason == "wait"
    assert [unpack_column(one.handle_column, "int64", name="x").tolist() for one in told] == [
        handles_of(ids[2:]).tolist(),
        handles_of(ids[:1]).tolist(),
    ]


async def test_runs_are_preempted_by_selector_and_jobs_that_wait_are_not_meant(api: Any, leader_store: Any) -> None:
    """The row says which attempt; the leader hears once; a request for jobs that wait changes nothing."""
    ids = await api.submit({"count": 2})
    lead(
        leader_store, Effects(new_runs=make_leases(handles_of(ids[:1])), new_objects=make_objects(handles_of(ids[:1])))
    )
    selector = job_pb2.JobSelector(queue="red", job_set="one")
    preview = await api.jobs.PreemptJobs(job_pb2.PreemptJobsRequest(selector=selector, validate_only=True))
    assert [job.id for job in preview.sample] == ids[:1]
    for _ in range(2):
        answer = await api.jobs.PreemptJobs(job_pb2.PreemptJobsRequest(selector=selector, reason="make room"))
        assert answer.job_count == 1
    waiting = await api.jobs.PreemptJobs(job_pb2.PreemptJobsRequest(jobs=job_pb2.JobIds(ids=ids[1:])))
    assert waiting.job_count == 0
    changes = [lease_pb2.Changes.FromString(payload) for _, payload in leader_store.read_changes(100)]
    (told,) = [change.change_requests for change in changes if change.HasField("change_requests")]
    assert unpack_column(told.handle_column, "int64", name="x").tolist() == handles_of(ids[:1]).tolist()
    assert (unpack_column(told.kind_column, "int8", name="x").tolist(), told.reason) == ([3], "make room")
    preempted = leader_store.load().columns.preempted
    assert preempted is not None
    assert preempted.tolist() == [1, 0]


async def test_jobs_run_after_others_that_are_known(api: Any, leader_store: Any) -> None:
    """Pairs go to the leader and come back with the job; an unknown or made-up id, or too many pairs, are refused."""
    (first,) = await api.submit({})
    after = job_pb2.RunAfter(job_ids=[first], until=job_pb2.AFTER_UNTIL_ENDED)
    ids = await api.submit({"count": 2, "after": after}, {})
    jobs = [(await api.jobs.GetJob(job_pb2.GetJobRequest(id=job_id))).job for job_id in ids]
    assert [job.after for job in jobs] == [after, after, job_pb2.RunAfter()]
    changes = [lease_pb2.Changes.FromString(payload) for _, payload in leader_store.read_changes(100)]
    submitted = [change.submitted for change in changes if change.submitted.after_handle_column]
    (columns,) = [
        [
            unpack_column(getattr(one, f"after_{name}_column"), kind, name="x").tolist()
            for name, kind in (("handle", "int64"), ("other", "int64"), ("until", "int8"))
        ]
        for one in submitted
    ]
    (other,) = handles_of([first]).tolist()
    assert columns == [handles_of(ids[:2]).tolist(), [other, other], [2, 2]]
    assert leader_store.read_states([other, 7]) == {other: 0}
    unknown = first[:-1] + ("0" if first[-1] != "0" else "1")
    for job_ids, count, code in (
        ([unknown], 1, grpc.StatusCode.NOT_FOUND),
        (["00000000-0000-0000-0000-000000000000"], 1, grpc.StatusCode.INVALID_ARGUMENT),
        ([first, first], 1, grpc.StatusCode.INVALID_ARGUMENT),
        ([first, ids[0]], 60_000, grpc.StatusCode.INVALID_ARGUMENT),
    ):
        with pytest.raises(grpc.RpcError) as refusal:
            await api.submit({"count": count, "after": job_pb2.RunAfter(job_ids=job_ids)})
        assert refusal.value.code() == code


async def test_explain_answers_from_row_for_ended_job_without_leader(api: Any, leader_store: Any) -> None:
    """An ended job needs no leader to be explained."""
    ids = await api.submit({})
    lead(leader_store, Effects(job_updates=make_job_ends(handles_of(ids), JobState.FAILED, reason="out of luck")))
    answer = await api.jobs.ExplainJob(job_pb2.ExplainJobRequest(id=ids[0]))
    assert (answer.stage, answer.job.id) == (job_pb2.JOB_STAGE_FAILED, ids[0])
    assert answer.summary == "The job has ended, failed because: out of luck."

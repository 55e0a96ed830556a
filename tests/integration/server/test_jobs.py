"""Tests of reading jobs and of wishes."""

from __future__ import annotations

from typing import Any

import grpc
import numpy as np
import pytest

from argosy.api.v1 import job_pb2
from argosy.lease.v1 import lease_pb2
from argosy_core.job.identity import parse_id
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


async def test_get_job_shows_runs_and_why_they_ended(api: Any, leader_store: Any) -> None:
    """A job carries its runs by attempt, and its state follows from the live one."""
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
        (1, "lost", "east", "node-1", "node gone"),
        (2, "running", "east", "node-1", ""),
    ]
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
    assert await list_ids(api, job_set="two") == [ids[1]]
    assert await list_ids(api, label_selector="team in (a, b), team != b") == [ids[0]]
    assert await list_ids(api, label_selector="!team") == ids[2:5]
    assert await list_ids(api, states=[job_pb2.JOB_STATE_QUEUED]) == ids[2:5]
    assert await list_ids(api, states=[job_pb2.JOB_STATE_LEASED, job_pb2.JOB_STATE_FAILED]) == ids[:2]


async def test_list_jobs_refuses_token_of_another_selector(api: Any) -> None:
    """A page token goes on with its own question only."""
    await api.submit({"count": 3})
    selector = job_pb2.JobSelector(queue="red")
    page = await api.jobs.ListJobs(job_pb2.ListJobsRequest(selector=selector, page_size=1))
    other = job_pb2.JobSelector(queue="red", job_set="two")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await api.jobs.ListJobs(job_pb2.ListJobsRequest(selector=other, page_token=page.next_page_token))
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT


async def test_cancel_ends_jobs_without_run_and_asks_leader_for_others(api: Any, leader_store: Any) -> None:
    """A waiting job ends in the wish's own transaction; one with a run keeps it until the leader has stopped it."""
    ids = await api.submit({"count": 2})
    handles = handles_of(ids)
    lead(leader_store, Effects(new_runs=make_leases(handles[:1]), new_objects=make_objects(handles[:1])))
    unknown = ids[0][:-2] + "ff"
    answer = await api.jobs.CancelJobs(
        job_pb2.CancelJobsRequest(jobs=job_pb2.JobIds(ids=[*ids, ids[0], unknown]), reason="by \x1b[31mme")
    )
    assert (answer.job_count, list(answer.unknown_ids)) == (2, [unknown])
    jobs = [(await api.jobs.GetJob(job_pb2.GetJobRequest(id=job_id))).job for job_id in ids]
    assert [job.state for job in jobs] == [job_pb2.JOB_STATE_LEASED, job_pb2.JOB_STATE_CANCELLED]
    assert [job.cancel_requested for job in jobs] == [True, True]
    wishes = lease_pb2.Changes.FromString(leader_store.read_changes(100)[-1][1]).wishes
    assert unpack_column(wishes.handle_column, "int64", name="x").tolist() == handles.tolist()
    assert unpack_column(wishes.kind_column, "int8", name="x").tolist() == [1, 1]
    assert unpack_column(wishes.ended_column, "int8", name="x").tolist() == [0, 1]
    assert wishes.reason == "by  [31mme"


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
    wishes = lease_pb2.Changes.FromString(leader_store.read_changes(100)[-1][1]).wishes
    assert unpack_column(wishes.kind_column, "int8", name="x").tolist() == [2, 2]
    assert unpack_column(wishes.priority_column, "int32", name="x").tolist() == [-5, -5]


async def test_explain_answers_from_row_for_ended_job_without_leader(api: Any, leader_store: Any) -> None:
    """An ended job needs no leader to be explained."""
    ids = await api.submit({})
    lead(leader_store, Effects(job_updates=make_job_ends(handles_of(ids), JobState.FAILED, reason="out of luck")))
    answer = await api.jobs.ExplainJob(job_pb2.ExplainJobRequest(id=ids[0]))
    assert (answer.stage, answer.job.id) == ("failed", ids[0])
    assert answer.summary == "The job has ended, failed because: out of luck."

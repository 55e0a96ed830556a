"""One process with both roles serves a job from submit to its end, with a cluster that is played by two streams."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import grpc
import numpy as np
import pytest

from argosy.api.v1 import cluster_pb2, job_pb2, scheduling_pb2
from argosy.debug.v1 import debug_pb2
from argosy.executor.v1 import executor_pb2, executor_pb2_grpc
from argosy.sampler.v1 import sampler_pb2, sampler_pb2_grpc

TIMEOUT_S = 50.0
CLUSTER = "lab"
RESOURCES = ("cpu", "memory", "pods")
NODE = (8000, 1 << 34, 10)


def packed(kind: str, *values: int) -> bytes:
    """Return a packed column."""
    return np.array(values, dtype=kind).tobytes()


async def greet(call: Any, hello: Any) -> None:
    """Say hello until the process leads; each refused stream ends, so this is for the first one only."""
    await call.write(hello)
    first = await call.read()
    assert first is not grpc.aio.EOF
    assert first.WhichOneof("message") == "welcome"


async def play_sampler(channel: Any) -> None:
    """Have one node, say that everything fits there, and place all that is asked for."""
    call = sampler_pb2_grpc.SamplerServiceStub(channel).Session()
    hello = sampler_pb2.Hello(cluster=CLUSTER, cluster_uid="uid", process_id=bytes(16), pool="default")
    await greet(call, sampler_pb2.SessionRequest(hello=hello))
    capacity = sampler_pb2.Capacity(
        resources=RESOURCES,
        node_column=packed("<i4", 0),
        names=["n0"],
        allocatable_column=packed("<i8", *NODE),
        free_column=packed("<i8", *NODE),
        flag_column=packed("<i1", 1),
        groups=[b'{"labels": {}, "taints": []}'],
        group_column=packed("<i4", 0),
        total_column=packed("<i8", *NODE),
        total_free_column=packed("<i8", *NODE),
        node_count=1,
    )
    await call.write(sampler_pb2.SessionRequest(capacity=capacity))
    await call.write(sampler_pb2.SessionRequest(ready=sampler_pb2.Ready()))
    while (message := await call.read()) is not grpc.aio.EOF:
        kind = message.WhichOneof("message")
        if kind == "sample":
            request, count = message.sample, len(message.sample.class_column) // 4
            free = [dict(zip(RESOURCES, NODE, strict=True)).get(name, 0) for name in request.resources]
            answer = sampler_pb2.SampleResponse(
                round=request.round,
                incarnation=1,
                node_column=packed("<i4", 0),
                free_column=packed("<i8", *free),
                offset_column=packed("<i4", *range(count + 1)),
                candidate_column=packed("<i4", *[0] * count),
                score_column=packed("<f4", *[1] * count),
                examined_column=packed("<i4", *[1] * count),
                eligible_column=packed("<i4", *[1] * count),
                complete_column=packed("<i1", *[1] * count),
                reason_column=packed("<i1", *[0] * count),
                total_free_column=packed("<i8", *free),
            )
            await call.write(sampler_pb2.SessionRequest(sample=answer))
        elif kind == "commit":
            count = len(message.commit.handle_column) // 8
            placed = sampler_pb2.CommitResponse(
                round=message.commit.round,
                stage=message.commit.stage,
                incarnation=1,
                node_column=packed("<i4", *[0] * count),
                outcome_column=packed("<i1", *[sampler_pb2.COMMIT_OUTCOME_PLACED] * count),
            )
            await call.write(sampler_pb2.SessionRequest(commit=placed))


async def play_executor(channel: Any) -> None:
    """Report every run that comes down as created, running and succeeded."""
    call = executor_pb2_grpc.ExecutorServiceStub(channel).Sync()
    hello = executor_pb2.Hello(cluster=CLUSTER, cluster_uid="uid", process_id=bytes(16), pool="default")
    await greet(call, executor_pb2.SyncRequest(hello=hello))
    number = 0
    while (message := await call.read()) is not grpc.aio.EOF:
        if message.WhichOneof("message") != "rows":
            continue
        rows = message.rows
        count = len(rows.handle_column) // 8
        for state in ("CREATED", "RUNNING", "SUCCEEDED"):
            number += 1
            batch = executor_pb2.StateBatch(
                batch=number,
                handle_column=rows.handle_column,
                attempt_column=rows.attempt_column,
                object_column=packed("<i2", *[0] * count),
                state_column=packed("<i1", *[executor_pb2.ObjectState.Value(f"OBJECT_STATE_{state}")] * count),
                time_us_column=packed("<i8", *[1_800_000_000_000_000 + number] * count),
                exit_code_column=packed("<i4", *[0] * count),
                failure_column=packed("<i1", *[0] * count),
                message_column=packed("<i4", *[-1] * count),
                uid_column=bytes(16 * count),
            )
            await call.write(executor_pb2.SyncRequest(states=batch))


async def once(ask: Any, is_so: Any) -> Any:
    """Ask until the answer is so."""
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            try:
                answer = await ask()
            except grpc.RpcError:
                answer = None  # nobody leads yet
            if answer is not None and is_so(answer):
                return answer
            await asyncio.sleep(0.02)


async def test_one_process_with_both_roles_serves_a_job_to_its_end(database_url: str, serve: Any) -> None:
    """It accepts, leads, leases and ingests, and answers what became of the job and its cluster."""
    async with serve(database_url, role="both") as api:
        await api.make_queue("red")

        async def clusters() -> Any:
            return (await api.clusters.ListClusters(cluster_pb2.ListClustersRequest())).clusters

        async def epoch() -> Any:
            return (await api.scheduling.GetLastRound(scheduling_pb2.GetLastRoundRequest())).epoch

        await once(epoch, bool)
        async with asyncio.TaskGroup() as group:
            played = [group.create_task(play(api.channel)) for play in (play_sampler, play_executor)]
            (job_id,) = await api.submit({"client_id": "whole"})

            async def job() -> Any:
                return (await api.jobs.GetJob(job_pb2.GetJobRequest(id=job_id))).job

            ended = await once(job, lambda found: found.state == job_pb2.JOB_STATE_SUCCEEDED)
            seeds = {await dumped_seed(api), await epoch()}
            heard = await once(clusters, lambda found: found and found[0].contact_time.seconds)
            for task in played:
                task.cancel()
    assert [(run.cluster, run.node) for run in ended.runs] == [(CLUSTER, "n0")]
    (run,) = ended.runs
    moments = [one.ToMicroseconds() for one in (run.lease_time, run.start_time, run.end_time)]
    assert moments == sorted(moments), "a time ahead of the database's is corrected"
    assert [cluster.name for cluster in heard] == [CLUSTER]
    assert len(seeds) == 1, "a leader that was given no seed takes its epoch, and its dump says so"


async def test_jobs_are_planned_by_the_leader_and_none_is_stored(database_url: str, serve: Any) -> None:
    """Whoever is asked: one node of eight cores holds so many, and the others are told why they would wait."""
    async with serve(database_url, role="both") as api, serve(database_url) as replica:
        await api.make_queue("red")
        await once(lambda: api.scheduling.GetLastRound(scheduling_pb2.GetLastRoundRequest()), lambda last: last.epoch)
        async with asyncio.TaskGroup() as group:
            played = [group.create_task(play(api.channel)) for play in (play_sampler, play_executor)]
            await once(lambda: api.jobs.PlanJobs(plan_request(1)), lambda answer: answer.items[0].placed_count)
            for one in (api, replica):
                answer = await one.jobs.PlanJobs(plan_request(12))
                (item,) = answer.items
                assert (item.placed_count, item.waiting_count) == (8, 4)
                assert [(place.cluster, place.node, place.job_count) for place in item.places] == [(CLUSTER, "n0", 8)]
                assert item.first_waiting.wait_reason == job_pb2.WAIT_REASON_NO_ROOM
                assert [change.queue for change in answer.share_changes] == ["red"]
                assert answer.complete
            with pytest.raises(grpc.aio.AioRpcError, match="at most 10,000 jobs"):
                await api.jobs.PlanJobs(plan_request(10_001))
            for task in played:
                task.cancel()
        assert not (await api.jobs.ListJobs(job_pb2.ListJobsRequest())).jobs


async def test_plan_of_a_pool_that_nobody_leads_is_unavailable(api: Any) -> None:
    """There is no memory to plan on."""
    await api.make_queue("red")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await api.jobs.PlanJobs(plan_request(1))
    assert caught.value.code() == grpc.StatusCode.UNAVAILABLE


def plan_request(count: int) -> job_pb2.PlanJobsRequest:
    """Return what asks to plan jobs of a core each."""
    resources = {"requests": {"cpu": "1", "memory": "1Gi"}}
    spec = {"containers": [{"name": "main", "image": "busybox", "resources": resources}]}
    pod = json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": spec})
    return job_pb2.PlanJobsRequest(
        submission=job_pb2.SubmitJobsRequest(
            specs=[job_pb2.JobSpec(manifests=[pod])], items=[job_pb2.JobItem(queue="red", job_set="one", count=count)]
        )
    )


async def dumped_seed(api: Any) -> int:
    """Return the seed that the leader's state says."""
    chunks = [part.chunk async for part in api.debug.DumpState(debug_pb2.DumpStateRequest())]
    return int(json.loads("".join(chunks))["seed"])

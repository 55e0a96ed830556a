"""Streams of clusters that say what they must not: only their own session ends, the leadership goes on."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import numpy as np
import psycopg
import pytest
import pytest_asyncio

from argosy.api.v1 import cluster_pb2, job_pb2, scheduling_pb2
from argosy.executor.v1 import executor_pb2, executor_pb2_grpc
from argosy.sampler.v1 import sampler_pb2, sampler_pb2_grpc
from argosy_server.leader.settings import LeaderSettings
from argosy_store import create_database, drop_database
from argosy_store.terms.ended_sessions import list_ended_sessions

pytestmark = pytest.mark.asyncio(loop_scope="module")

TIMEOUT_S = 50.0
REFUSED = {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.ABORTED}
RESOURCES = ("cpu", "memory", "pods")
NODE = np.array([8000, 1 << 34, 10])


def int64(*values: int) -> bytes:
    """Return a packed column."""
    return np.array(values, dtype="<i8").tobytes()


def int32(*values: int) -> bytes:
    """Return a packed column."""
    return np.array(values, dtype="<i4").tobytes()


def int16(*values: int) -> bytes:
    """Return a packed column."""
    return np.array(values, dtype="<i2").tobytes()


def int8(*values: int) -> bytes:
    """Return a packed column."""
    return np.array(values, dtype="<i1").tobytes()


def capacity(**changes: Any) -> sampler_pb2.SessionRequest:
    """Return one node, described well but for the changes."""
    fields: dict[str, Any] = {
        "resources": RESOURCES,
        "node_column": int32(0),
        "names": ["n0"],
        "allocatable_column": int64(*NODE),
        "free_column": int64(*NODE),
        "flag_column": int8(1),
        "groups": [b'{"labels": {}, "taints": []}'],
        "group_column": int32(0),
        "total_column": int64(*NODE),
        "total_free_column": int64(*NODE),
        "node_count": 1,
    }
    return sampler_pb2.SessionRequest(capacity=sampler_pb2.Capacity(**{**fields, **changes}))


def states(**changes: Any) -> executor_pb2.SyncRequest:
    """Return one state of a run that nobody knows, said well but for the changes."""
    fields: dict[str, Any] = {
        "batch": 1,
        "handle_column": int64(12345),
        "attempt_column": int32(1),
        "object_column": int16(0),
        "state_column": int8(5),
        "time_us_column": int64(1),
        "exit_code_column": int32(1),
        "failure_column": int8(1),
        "message_column": int32(0),
        "uid_column": bytes(16),
        "texts": ["out of luck"],
    }
    return executor_pb2.SyncRequest(states=executor_pb2.StateBatch(**{**fields, **changes}))


def sampler_hello(cluster: str, **fields: Any) -> sampler_pb2.SessionRequest:
    """Return a sampler's first message."""
    hello = sampler_pb2.Hello(
        cluster=cluster, cluster_uid=f"uid-{cluster}", process_id=bytes(16), pool="default", **fields
    )
    return sampler_pb2.SessionRequest(hello=hello)


def executor_hello(cluster: str, **fields: Any) -> executor_pb2.SyncRequest:
    """Return an executor's first message."""
    hello = executor_pb2.Hello(
        cluster=cluster, cluster_uid=f"uid-{cluster}", process_id=bytes(16), pool="default", **fields
    )
    return executor_pb2.SyncRequest(hello=hello)


@pytest.fixture(scope="module", name="database")
def streams_database(postgres_server: Any) -> Iterator[str]:
    """Give the database of this module."""
    yield create_database(postgres_server.url, "streams", "argosy_template")
    drop_database(postgres_server.url, "streams")


@pytest_asyncio.fixture(scope="module", loop_scope="module", name="api")
async def leading_api(database: str, serve: Any) -> AsyncIterator[Any]:
    """Give one server that leads, with the queue red, for the whole table: no message may end its leadership."""
    settings = LeaderSettings(heartbeat_s=5.0, log_trim_s=0.02, kept_log_count=2)
    async with serve(database, role="both", leader_settings=settings) as api:
        await api.make_queue("red")
        await leading_epoch(api)
        yield api


async def leading_epoch(api: Any) -> int:
    """Return the epoch, once there is a leader."""
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            try:
                return int((await api.scheduling.GetLastRound(scheduling_pb2.GetLastRoundRequest())).epoch)
            except grpc.RpcError:
                await asyncio.sleep(0.02)


@asynccontextmanager
async def stream(method: Callable[[], Any], first: Any) -> AsyncIterator[Any]:
    """Open a stream that has been welcomed."""
    call = method()
    async with asyncio.timeout(TIMEOUT_S):
        await call.write(first)
        assert (await call.read()).WhichOneof("message") == "welcome"
        try:
            yield call
        finally:
            call.cancel()


async def end_of(call: Any) -> grpc.StatusCode:
    """Read until the stream ends; return its code."""
    try:
        while await call.read() is not grpc.aio.EOF:
            pass
    except grpc.RpcError as error:
        return error.code()
    return await call.code()


BAD_SAMPLER_MESSAGES = {
    "second-hello": sampler_hello("bad"),
    "nothing": sampler_pb2.SessionRequest(),
    "node-below-zero": capacity(node_column=int32(-1)),
    "node-beyond-all": capacity(node_column=int32(2**31 - 1)),
    "name-with-zero-byte": capacity(names=["n\0"]),
    "name-empty": capacity(names=[""]),
    "name-missing": capacity(names=[]),
    "resource-twice": capacity(resources=["cpu", "cpu", "pods"]),
    "matrix-short": capacity(free_column=int64(1)),
    "matrix-broken": capacity(free_column=b"abc"),
    "group-unknown": capacity(group_column=int32(7)),
    "totals-short": capacity(total_column=b""),
    "node-after-a-gap": capacity(node_column=int32(200_000)),
    "name-of-escapes": capacity(names=["\x1b[2J"]),
    "labels-no-json": capacity(groups=[b"{"]),
    "amount-beyond-all": capacity(free_column=int64(2**63 - 1, 0, 0)),
    "class-twice": capacity(fitting_class_column=int32(1, 1), fitting_room_column=int32(1, 1)),
    "ready-below-zero": sampler_pb2.SessionRequest(ready=sampler_pb2.Ready(placement_count=-1)),
}
BAD_EXECUTOR_MESSAGES = {
    "second-hello": executor_hello("bad"),
    "nothing": executor_pb2.SyncRequest(),
    "state-unknown": states(state_column=int8(99)),
    "failure-unknown": states(failure_column=int8(99)),
    "failure-negative": states(failure_column=int8(-1)),
    "text-unknown": states(message_column=int32(1)),
    "uid-short": states(uid_column=b"x"),
    "columns-differ": states(attempt_column=int32(1, 2)),
    "column-broken": states(handle_column=b"abc"),
    "attempt-negative": states(attempt_column=int32(-1)),
    "object-negative": states(object_column=int16(-1)),
    "handle-negative": states(handle_column=int64(-1)),
    "text-long": states(texts=["x" * 1_000_000]),
    "batch-zero": states(batch=0),
    "log-end-of-no-code": executor_pb2.SyncRequest(log_end=executor_pb2.LogEnd(request=1, code=99)),
    "time-negative": states(time_us_column=int64(-1)),
    "time-beyond-all": states(time_us_column=int64(2**62)),
}


@pytest.mark.parametrize("message", BAD_SAMPLER_MESSAGES.values(), ids=BAD_SAMPLER_MESSAGES)
async def test_bad_message_of_a_sampler_ends_its_session_only(api: Any, message: sampler_pb2.SessionRequest) -> None:
    """The stream ends with a code that says whose fault it was; the epoch stays."""
    epoch = await leading_epoch(api)

    async with stream(sampler_pb2_grpc.SamplerServiceStub(api.channel).Session, sampler_hello("bad")) as call:
        await call.write(message)
        code = await end_of(call)

    assert code in REFUSED
    assert await leading_epoch(api) == epoch


@pytest.mark.parametrize("message", BAD_EXECUTOR_MESSAGES.values(), ids=BAD_EXECUTOR_MESSAGES)
async def test_bad_message_of_an_executor_ends_its_session_only(api: Any, message: executor_pb2.SyncRequest) -> None:
    """The stream ends with a code that says whose fault it was; the epoch stays."""
    epoch = await leading_epoch(api)

    async with stream(executor_pb2_grpc.ExecutorServiceStub(api.channel).Sync, executor_hello("bad")) as call:
        await call.write(message)
        code = await end_of(call)

    assert code in REFUSED
    assert await leading_epoch(api) == epoch


@pytest.mark.parametrize(
    "hello",
    [executor_hello("bad", handle_column=b"abc"), executor_hello("bad", handle_column=int64(1)), states()],
    ids=["column-broken", "columns-differ", "no-hello"],
)
async def test_bad_hello_of_an_executor_is_refused(api: Any, hello: executor_pb2.SyncRequest) -> None:
    """Nothing is taken from it, and the leadership goes on."""
    epoch = await leading_epoch(api)
    call = executor_pb2_grpc.ExecutorServiceStub(api.channel).Sync()

    async with asyncio.timeout(TIMEOUT_S):
        await call.write(hello)
        code = await end_of(call)

    assert code == grpc.StatusCode.INVALID_ARGUMENT
    assert await leading_epoch(api) == epoch


async def test_session_that_is_ended_for_what_was_said_there_is_remembered(api: Any, database: str) -> None:
    """Operators see whose it was, where it ran and what was wrong; a session that just ends is not among them."""
    hello = sampler_hello("noted")
    hello.hello.host = "host-\x1b7"
    async with stream(sampler_pb2_grpc.SamplerServiceStub(api.channel).Session, hello) as call:
        await call.write(capacity(flag_column=int8(99)))
        assert await end_of(call) == grpc.StatusCode.INVALID_ARGUMENT
    async with stream(sampler_pb2_grpc.SamplerServiceStub(api.channel).Session, hello) as call:
        await call.write(capacity())
        await call.done_writing()
        assert await end_of(call) == grpc.StatusCode.OK

    noted = [row for row in await asyncio.to_thread(list_ended_sessions, database) if row.cluster == "noted"]
    assert [(row.pool, row.role, row.host) for row in noted] == [("default", "sampler", "host- 7")]
    assert "capacity.flag_column has 99, not between 0 and 7" in noted[0].reason


async def test_executor_may_come_before_its_sampler_and_its_odd_texts_are_stored(api: Any) -> None:
    """A cluster is known from either's hello on; a text that the database cannot take is no poison."""
    cluster = f"early-{uuid.uuid4().hex[:6]}"
    epoch = await leading_epoch(api)

    async with stream(executor_pb2_grpc.ExecutorServiceStub(api.channel).Sync, executor_hello(cluster)) as call:
        await call.write(states(texts=["zero \0 byte"]))
        while (answer := await call.read()).WhichOneof("message") != "stored":
            assert answer is not grpc.aio.EOF

    assert answer.stored.batch == 1
    assert await leading_epoch(api) == epoch


def sample_response(request: sampler_pb2.SampleRequest, **changes: Any) -> sampler_pb2.SampleResponse:
    """Return the one node as candidate for every class asked, well but for the changes."""
    count = len(request.class_column) // 4
    free = {name: int(amount) for name, amount in zip(RESOURCES, NODE, strict=True)}
    amounts = [free.get(name, 0) for name in request.resources]
    fields: dict[str, Any] = {
        "round": request.round,
        "incarnation": 1,
        "node_column": int32(0),
        "free_column": int64(*amounts),
        "offset_column": int32(*range(count + 1)),
        "candidate_column": int32(*[0] * count),
        "score_column": np.ones(count, dtype="<f4").tobytes(),
        "examined_column": int32(*[1] * count),
        "eligible_column": int32(*[1] * count),
        "complete_column": int8(*[1] * count),
        "reason_column": int8(*[0] * count),
        "total_free_column": int64(*amounts),
    }
    return sampler_pb2.SampleResponse(**{**fields, **changes})


async def answer_samples(call: Any, **changes: Any) -> grpc.StatusCode:
    """Become ready, and answer requests so until the stream ends; return its code."""
    await call.write(capacity())
    await call.write(sampler_pb2.SessionRequest(ready=sampler_pb2.Ready()))
    try:
        while (message := await call.read()) is not grpc.aio.EOF:
            kind = message.WhichOneof("message")
            if kind == "sample":
                await call.write(sampler_pb2.SessionRequest(sample=sample_response(message.sample, **changes)))
            elif kind == "commit":
                return grpc.StatusCode.OK  # the answer was good enough to be decided upon
    except grpc.RpcError as error:
        return error.code()
    return await call.code()


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({}, grpc.StatusCode.OK),
        ({"score_column": b"abc"}, grpc.StatusCode.INVALID_ARGUMENT),
        ({"score_column": b""}, grpc.StatusCode.INVALID_ARGUMENT),
        ({"candidate_column": int32(5)}, grpc.StatusCode.INVALID_ARGUMENT),
        ({"offset_column": int32(1, 0)}, grpc.StatusCode.INVALID_ARGUMENT),
        ({"examined_column": b""}, grpc.StatusCode.INVALID_ARGUMENT),
        ({"free_column": int64(1)}, grpc.StatusCode.INVALID_ARGUMENT),
        ({"filter_texts": ["of no filter"]}, grpc.StatusCode.INVALID_ARGUMENT),
    ],
    ids=["good", "score-broken", "score-short", "candidate", "offsets", "classes", "matrix", "texts"],
)
async def test_answer_that_cannot_be_read_ends_that_samplers_session_only(
    api: Any, changes: dict[str, Any], code: grpc.StatusCode
) -> None:
    """The round goes on without the cluster."""
    epoch = await leading_epoch(api)
    await api.submit({"client_id": "waits"})

    async with (
        stream(executor_pb2_grpc.ExecutorServiceStub(api.channel).Sync, executor_hello("answers")),
        stream(sampler_pb2_grpc.SamplerServiceStub(api.channel).Session, sampler_hello("answers")) as call,
    ):
        assert await answer_samples(call, **changes) == code

    assert await leading_epoch(api) == epoch


async def place_everything(call: Any) -> None:
    """Become ready, and place all that is asked for until cancelled."""
    await call.write(capacity())
    await call.write(sampler_pb2.SessionRequest(ready=sampler_pb2.Ready()))
    while (message := await call.read()) is not grpc.aio.EOF:
        kind = message.WhichOneof("message")
        if kind == "sample":
            await call.write(sampler_pb2.SessionRequest(sample=sample_response(message.sample)))
        elif kind == "commit":
            count = len(message.commit.handle_column) // 8
            answer = sampler_pb2.CommitResponse(
                round=message.commit.round,
                stage=message.commit.stage,
                incarnation=1,
                node_column=int32(*[0] * count),
                outcome_column=int8(*[sampler_pb2.COMMIT_OUTCOME_PLACED] * count),
            )
            await call.write(sampler_pb2.SessionRequest(commit=answer))


async def test_applied_records_of_the_log_are_deleted_but_for_the_last(api: Any) -> None:
    """The log does not grow for ever; what was not applied yet is never deleted."""
    with psycopg.connect(api.url, autocommit=True) as database:

        def after_applied() -> list[int]:
            """Return how far each record is behind the last that was applied, at one moment."""
            rows = database.execute(
                "SELECT position - (SELECT log_position FROM pools) FROM log_records ORDER BY position"
            ).fetchall()
            return [distance for (distance,) in rows]

        async with (
            stream(executor_pb2_grpc.ExecutorServiceStub(api.channel).Sync, executor_hello("trim")),
            stream(sampler_pb2_grpc.SamplerServiceStub(api.channel).Session, sampler_hello("trim")) as call,
        ):
            placing = asyncio.create_task(place_everything(call))
            for number in range(4):
                (job_id,) = await api.submit({"client_id": f"trim-{number}"})
                while not (await api.jobs.GetJob(job_pb2.GetJobRequest(id=job_id))).job.runs:  # noqa: ASYNC110 - only the database tells
                    await asyncio.sleep(0.01)
            placing.cancel()
        async with asyncio.timeout(TIMEOUT_S):
            while after_applied() != [-1, 0]:  # noqa: ASYNC110 - only the database tells
                await asyncio.sleep(0.01)


async def test_sampler_says_whether_its_cluster_is_delegated_and_executors_do_not(api: Any) -> None:
    """The wish is there with the welcome; the executor's hello leaves it as it is."""
    session, get = sampler_pb2_grpc.SamplerServiceStub(api.channel).Session, cluster_pb2.GetClusterRequest(name="wish")
    async with (
        stream(session, sampler_hello("wish", delegated=True)),
        stream(executor_pb2_grpc.ExecutorServiceStub(api.channel).Sync, executor_hello("wish")),
    ):
        assert (await api.clusters.GetCluster(get)).cluster.delegated
    async with stream(session, sampler_hello("wish")):
        assert not (await api.clusters.GetCluster(get)).cluster.delegated

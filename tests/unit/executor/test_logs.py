"""Logs on the stream: asked for, sent within the credit, ended, and none of it in the way of states."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest

from argosy.executor.v1 import executor_pb2
from argosy_core.errors import BackendUnavailable, InvariantViolation, NotFound
from argosy_core.job.tables.members import ordinal_of
from argosy_executor.logs import MAX_CHUNK_BYTES, LogReadings

NOT_FOUND, EXHAUSTED, UNAVAILABLE, INTERNAL = 5, 8, 14, 13


class LogCluster:
    """A cluster of which only logs are read."""

    def __init__(self, pieces: list[bytes], error: Exception | None = None, *, endless: bool = False) -> None:
        """Give some pieces, then end, fail, or wait for ever."""
        self.pieces = pieces
        self.error = error
        self.endless = endless
        self.asked: list[dict[str, Any]] = []
        self.given_count = 0
        self.closed = asyncio.Event()

    async def read_log(
        self, handle: int, attempt: int, object_index: int, **options: Any
    ) -> AsyncGenerator[bytes, None]:
        """Give the pieces."""
        self.asked.append({"run": (handle, attempt, object_index), **options})
        try:
            for piece in self.pieces:
                self.given_count += 1
                yield piece
            if self.error is not None:
                raise self.error
            if self.endless:
                await asyncio.Event().wait()
        finally:
            self.closed.set()


class Sink:
    """Takes what is written."""

    def __init__(self) -> None:
        """Start empty."""
        self.sizes: list[int] = []
        self.data = b""
        self.ends: list[tuple[int, int, str]] = []
        self.news = asyncio.Event()

    async def write(self, message: executor_pb2.SyncRequest) -> None:
        """Take a message."""
        if message.HasField("log_chunk"):
            self.sizes.append(len(message.log_chunk.data))
            self.data += message.log_chunk.data
        else:
            self.ends.append((message.log_end.request, message.log_end.code, message.log_end.message))
        self.news.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Return once a condition holds."""
        async with asyncio.timeout(50):
            while not condition():
                self.news.clear()
                await self.news.wait()


def ask(number: int, *, credit_bytes: int = 1 << 20, **fields: Any) -> executor_pb2.LogRequest:
    """Return a request."""
    values = {"handle": 7, "attempt": 1, "object": 0, "tail_line_count": -1} | fields
    return executor_pb2.LogRequest(request=number, credit_bytes=credit_bytes, **values)


async def test_log_is_sent_in_chunks_and_ends() -> None:
    """Pieces of any size become chunks within the bound, in order; then comes one end."""
    cluster, sink = LogCluster([b"a" * 100_000, b"b" * 10]), Sink()
    async with asyncio.TaskGroup() as group:
        readings = LogReadings(cluster, sink.write, group, max_count=4)
        readings.begin(
            ask(1, member=3, container="main", follow=True, tail_line_count=5, object=2, timestamps=True, since_s=9)
        )
        await sink.until(lambda: bool(sink.ends))
        assert len(readings) == 0
    assert sink.data == b"a" * 100_000 + b"b" * 10
    assert max(sink.sizes) <= MAX_CHUNK_BYTES
    assert sink.ends == [(1, 0, "")]
    assert cluster.asked == [
        {
            "run": (7, ordinal_of(1, 3), 2),
            "container": "main",
            "follow": True,
            "tail_line_count": 5,
            "timestamps": True,
            "since_s": 9,
        }
    ]


async def test_no_more_is_sent_than_there_is_credit_for_and_the_cluster_is_not_read_ahead() -> None:
    """A reader that takes nothing holds up its own log, in the cluster and not in memory."""
    cluster, sink = LogCluster([b"x" * 1000] * 100, endless=True), Sink()
    async with asyncio.TaskGroup() as group:
        readings = LogReadings(cluster, sink.write, group, max_count=4)
        readings.begin(ask(1, credit_bytes=2500))
        await sink.until(lambda: len(sink.data) == 2500)
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(sink.data) == 2500
        assert cluster.given_count == 3
        readings.take_credit(executor_pb2.LogCredit(request=1, credit_bytes=1000))
        await sink.until(lambda: len(sink.data) == 3500)
        readings.take_credit(executor_pb2.LogCredit(request=1, cancelled=True))
        await asyncio.wait_for(cluster.closed.wait(), 50.0)
    assert sink.ends == [], "nobody reads any more, so nothing is said"
    assert len(readings) == 0


@pytest.mark.parametrize(
    ("error", "code"),
    [
        pytest.param(NotFound("the pod is gone"), NOT_FOUND, id="gone"),
        pytest.param(BackendUnavailable("no answer"), UNAVAILABLE, id="cluster away"),
        pytest.param(InvariantViolation("odd"), INTERNAL, id="fault"),
    ],
)
async def test_end_says_why_a_log_cannot_be_read(error: Exception, code: int) -> None:
    """What the cluster says becomes a code and a text; what came before stays sent."""
    cluster, sink = LogCluster([b"so far"], error), Sink()
    async with asyncio.TaskGroup() as group:
        LogReadings(cluster, sink.write, group, max_count=4).begin(ask(1))
        await sink.until(lambda: bool(sink.ends))
    assert sink.data == b"so far"
    assert sink.ends == [(1, code, str(error))]


async def test_too_many_readings_are_refused_and_the_others_go_on() -> None:
    """The bound is on readings under way; one that was refused holds none."""
    cluster, sink = LogCluster([b"x"], endless=True), Sink()
    async with asyncio.TaskGroup() as group:
        readings = LogReadings(cluster, sink.write, group, max_count=1)
        readings.begin(ask(1))
        readings.begin(ask(2))
        await sink.until(lambda: bool(sink.ends))
        assert sink.ends[0][:2] == (2, EXHAUSTED)
        assert len(readings) == 1
        readings.take_credit(executor_pb2.LogCredit(request=1, cancelled=True))
        readings.begin(ask(3))
        await sink.until(lambda: len(sink.data) == 2)
        readings.take_credit(executor_pb2.LogCredit(request=3, cancelled=True))


async def test_log_of_a_pod_comes_over_the_stream_beside_its_states(
    leader: Any, host: Any, run_executor: Any, make_bag: Any
) -> None:
    """Asked over the wire, a pod's log comes in chunks; of a pod that is not there the end says so."""
    async with run_executor(host, leader.address):
        session = await leader.next_session()
        await session.give([(1, 1)], make_bag(run_time="1s"))
        await session.wait_states(1, "CREATED", "RUNNING", "SUCCEEDED")
        await session.send(log_request=ask(1, handle=1))
        await session.wait_for(lambda: 1 in session.log_ends)
        assert session.log_ends[1][0] == 0
        assert b"".join(session.chunks[1]).count(b"\n") >= 1
        await session.send(log_request=ask(2, handle=99))
        await session.wait_for(lambda: 2 in session.log_ends)
        assert session.log_ends[2][0] == NOT_FOUND

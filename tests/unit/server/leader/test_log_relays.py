"""Readers of logs at the leader: windows, ends, and what happens when either side goes away."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from argosy.executor.v1 import executor_pb2
from argosy_core.errors import ArgosyError, BackendUnavailable, InvalidRequest, NotFound, QuotaExceeded
from argosy_server.api.leadership.leader_view import LogRequest
from argosy_server.leader.sessions.log_relays import MAX_RELAY_COUNT, WINDOW_BYTES, LogRelays

QUESTION = LogRequest(
    handle=7, attempt=2, member=3, object_index=1, container="main", follow=True, tail_line_count=3, since_s=5
)


class Stream:
    """What was sent to the executor."""

    def __init__(self) -> None:
        """Start with nothing."""
        self.sent: list[executor_pb2.SyncResponse] = []
        self.relays = LogRelays(self.sent.append)

    def requests(self) -> list[executor_pb2.LogRequest]:
        """Return the requests sent."""
        return [message.log_request for message in self.sent if message.HasField("log_request")]

    def credits(self) -> list[executor_pb2.LogCredit]:
        """Return the credit sent."""
        return [message.log_credit for message in self.sent if message.HasField("log_credit")]


async def test_log_is_given_in_order_until_its_end() -> None:
    """What the executor sends is what the reader gets; the request travels whole, and tail 0 is not no tail."""
    stream = Stream()
    reading = stream.relays.read(QUESTION)
    first = asyncio.ensure_future(anext(reading))
    await asyncio.sleep(0)
    request = stream.requests()[0]
    assert (request.handle, request.attempt, request.member, request.object) == (7, 2, 3, 1)
    assert (request.container, request.follow, request.tail_line_count, request.since_s) == ("main", True, 3, 5)
    assert request.credit_bytes == WINDOW_BYTES
    stream.relays.take_chunk(request.request, b"one")
    stream.relays.take_chunk(request.request, b"two")
    stream.relays.take_end(executor_pb2.LogEnd(request=request.request))
    assert [await first, *[piece async for piece in reading]] == [b"one", b"two"]
    assert len(stream.relays) == 0
    assert stream.credits() == [], "nothing is said about a log that is over"


async def test_credit_is_given_as_the_reader_takes_and_never_more_than_a_window() -> None:
    """Half a window taken is half a window given; an executor that sends more than it may is at fault."""
    stream = Stream()
    reading = stream.relays.read(LogRequest(handle=1, attempt=1, object_index=0))
    first = asyncio.ensure_future(anext(reading))
    await asyncio.sleep(0)
    assert stream.requests()[0].tail_line_count == -1
    half = bytes(WINDOW_BYTES // 2)
    stream.relays.take_chunk(1, half)
    stream.relays.take_chunk(1, half)
    with pytest.raises(InvalidRequest, match="more than its reader has room for"):
        stream.relays.take_chunk(1, b"x")
    await first
    assert stream.credits() == []
    await anext(reading)
    assert [credit.credit_bytes for credit in stream.credits()] == [WINDOW_BYTES // 2]
    await reading.aclose()
    assert stream.credits()[-1].cancelled
    stream.relays.take_chunk(1, half)  # was on its way
    assert len(stream.relays) == 0


@pytest.mark.parametrize(
    ("code", "error"),
    [
        pytest.param(5, NotFound, id="gone"),
        pytest.param(8, QuotaExceeded, id="too many"),
        pytest.param(14, BackendUnavailable, id="cluster away"),
        pytest.param(13, BackendUnavailable, id="fault"),
    ],
)
async def test_end_with_a_code_is_an_error_after_what_came_before(code: int, error: type[ArgosyError]) -> None:
    """Nothing that was sent is lost to an error."""
    stream = Stream()
    reading = stream.relays.read(QUESTION)
    first = asyncio.ensure_future(anext(reading))
    await asyncio.sleep(0)
    stream.relays.take_chunk(1, b"so far")
    stream.relays.take_end(executor_pb2.LogEnd(request=1, code=code, message="why"))
    assert await first == b"so far"
    with pytest.raises(error, match="why"):
        await anext(reading)


async def test_end_of_the_stream_ends_every_reading_and_refuses_new_ones() -> None:
    """A reader learns that the executor went, and what to do."""
    stream = Stream()
    readings = [stream.relays.read(QUESTION) for _ in range(2)]
    waiting = [asyncio.ensure_future(anext(reading)) for reading in readings]
    await asyncio.sleep(0)
    stream.relays.close("replaced")
    for task in waiting:
        with pytest.raises(BackendUnavailable, match=r"replaced.*try again"):
            await task
    with pytest.raises(BackendUnavailable, match="replaced"):
        await anext(stream.relays.read(QUESTION))


async def test_readings_of_a_cluster_are_bounded() -> None:
    """One reader too many is refused, and taken again once another has gone."""
    stream = Stream()
    async with contextlib.AsyncExitStack() as stack:
        readings = [stream.relays.read(QUESTION) for _ in range(MAX_RELAY_COUNT)]
        waiting = [asyncio.ensure_future(anext(reading)) for reading in readings]
        await asyncio.sleep(0)
        with pytest.raises(QuotaExceeded, match="end one"):
            await anext(stream.relays.read(QUESTION))
        waiting[0].cancel()
        await asyncio.gather(waiting[0], return_exceptions=True)
        assert stream.credits()[-1].cancelled
        another = asyncio.ensure_future(anext(stream.relays.read(QUESTION)))
        await asyncio.sleep(0)
        assert not another.done()
        stack.callback(another.cancel)
        for task in waiting[1:]:
            stack.callback(task.cancel)

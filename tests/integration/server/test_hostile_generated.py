"""Calls that a generator drew from the descriptors, and every one that found a fault before, against a real process."""

from __future__ import annotations

import asyncio
import base64
import itertools
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import grpc

from argosy.api.v1 import event_pb2, event_pb2_grpc, job_pb2, job_pb2_grpc, queue_pb2, queue_pb2_grpc
from argosy_server.api.codecs.cursors import WatchCursor, write_handle_token
from argosy_testkit.hostile_requests import METHODS, draw_calls, hostile_change, list_lengths
from argosy_testkit.hostile_run import Verdict, call_all, good_calls, read_corpus, submit_one

CORPUS = Path(__file__).with_name("hostile_corpus.json")
SAMPLE_COUNT = 300
"""More of them are drawn by `make hostile`."""


@contextmanager
def server(url: str, log: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Run a server of all roles; give its process and address."""
    command = [sys.executable, "-m", "argosy_server", "--grpc-listen", "127.0.0.1:0", "--database-url", url]
    command += ["--grpc-calls-per-s", "0"]  # failed calls are slowed down else
    with log.open("wb") as out:
        process = subprocess.Popen(command, stderr=out)
    try:
        address = ""
        while not address:
            assert process.poll() is None, log.read_text()[-2000:]
            lines = [line for line in log.read_text().splitlines() if '"listening"' in line]
            address = lines[0].partition('"address": "')[2].partition('"')[0] if lines else ""
        yield process, address
    finally:
        process.kill()
        process.wait()


async def attack(address: str, seed: int, count: int) -> Verdict:
    """Make the corpus' calls and drawn ones; the server still serves afterwards."""
    async with grpc.aio.insecure_channel(address) as channel:
        queues = queue_pb2_grpc.QueueServiceStub(channel)
        await queues.CreateQueue(queue_pb2.CreateQueueRequest(queue=queue_pb2.Queue(name="red")), wait_for_ready=True)
        drawn = itertools.islice(draw_calls(seed, good_calls()), count)
        verdict = await call_all(channel, itertools.chain(read_corpus(CORPUS), drawn), at_once=16)
        await hold_watches(channel, 100)
        await queues.ListQueues(queue_pb2.ListQueuesRequest(), timeout=100)
    return verdict


async def hold_watches(channel: grpc.aio.Channel, count: int) -> None:
    """Watch from cursors that were made up, and list from made-up pages beside; another's calls go on meanwhile."""
    jobs, events = job_pb2_grpc.JobServiceStub(channel), event_pb2_grpc.EventServiceStub(channel)
    await channel.unary_unary("/argosy.api.v1.JobService/SubmitJobs")(submit_one("red"), timeout=100)
    watch = events.WatchJobSet(event_pb2.WatchJobSetRequest(queue="red", job_set="one"))
    message: Any = await watch.read()
    packed = base64.urlsafe_b64decode(message.cursor + "=" * (-len(message.cursor) % 4))
    own = int.from_bytes(packed[1:9], "little")
    watch.cancel()

    def hold(job_set_id: int, number: int) -> Any:
        cursor = WatchCursor(job_set_id=job_set_id, number=number).text()
        return events.WatchJobSet(event_pb2.WatchJobSetRequest(queue="red", job_set="one", cursor=cursor))

    held = [asyncio.ensure_future(hold(own, 1_000_000 + number).read()) for number in range(count)]
    foreign = [hold(own + 1 + number, 0).read() for number in range(count)]
    selector = job_pb2.JobSelector(queue="red")
    pages = [write_handle_token(number << 30, b"made up") for number in range(count)]
    lists = [jobs.ListJobs(job_pb2.ListJobsRequest(selector=selector, page_token=page)) for page in pages]
    answers = await asyncio.wait_for(asyncio.gather(*foreign, *lists, return_exceptions=True), 30)
    codes = {one.code() for one in answers if isinstance(one, grpc.aio.AioRpcError)}
    assert codes == {grpc.StatusCode.INVALID_ARGUMENT}
    assert not any(one.done() for one in held), "a cursor that runs ahead is told of what has not happened"
    await channel.unary_unary("/argosy.api.v1.JobService/SubmitJobs")(submit_one("red"), timeout=100)
    for one in held:
        one.cancel()
    await asyncio.gather(*held, return_exceptions=True)


def test_server_answers_hostile_calls_with_its_own_codes(database_url: str, tmp_path: Path) -> None:
    """None of them is answered with INTERNAL, UNKNOWN or the text of an exception, and the process lives."""
    with server(database_url, tmp_path / "log") as (process, address):
        verdict = asyncio.run(attack(address, 1, SAMPLE_COUNT))
        assert not verdict.faults, verdict.faults[:3]
        assert process.poll() is None
    assert verdict.codes.total() >= SAMPLE_COUNT
    assert '"exception"' not in (tmp_path / "log").read_text()


def test_draw_covers_every_method_and_level_and_repeats() -> None:
    """A seed gives the same calls again, of all methods and levels."""
    first, again = (list(itertools.islice(draw_calls(3, good_calls()), 500)) for _ in range(2))
    assert first == again
    assert {call.method for call in first} == set(METHODS)
    assert {call.level for call in first} == {"bytes", "protobuf", "values", "sequence"}


def test_lists_are_drawn_empty_single_full_and_beyond_with_elements_alike_and_not() -> None:
    """Lists of values and lists of messages, at the limits that the protocol sets."""
    random = Random(5)
    for kind, name in ((job_pb2.SubmitJobsRequest, "items"), (job_pb2.JobIds, "ids")):
        lengths, has_alike, has_different = set(), False, False
        for _ in range(500):
            message: Any = kind()
            hostile_change(message, random)
            elements = [str(one) for one in getattr(message, name)]
            lengths.add(len(elements))
            has_alike |= len(elements) > 1 and len(set(elements)) == 1
            has_different |= len(set(elements)) > 1
        assert lengths >= set(list_lengths(kind.DESCRIPTOR.fields_by_name[name]))
        assert has_alike
        assert has_different

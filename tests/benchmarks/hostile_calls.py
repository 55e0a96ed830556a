"""Hostile calls against a server process with an embedded Postgres, and what legal ones beside them feel.

Prints one JSON object: answers by code, faults (answers that no server may give), the latency of legal calls alone and
beside these, by turns, and beside each of four floods (calls without a message, lists by selector, watches from
made-up cursors, submits of YAML that takes long to read), and the process's memory before and after. Legal calls come
from a process of their own, which feels the server and not what keeps the attackers' process busy. Ends with 1 if there
was a fault or the server died.
`make hostile`.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import numpy as np

from argosy.api.v1 import event_pb2, event_pb2_grpc, job_pb2, job_pb2_grpc, queue_pb2, queue_pb2_grpc
from argosy_server.api.codecs.cursors import WatchCursor
from argosy_store import EmbeddedPostgres, migrate
from argosy_testkit.hostile_requests import draw_calls
from argosy_testkit.hostile_run import call_all, good_calls, read_corpus, submit_one

CORPUS = Path(__file__).parents[1] / "integration" / "server" / "hostile_corpus.json"
LEGAL_S = 0.05
ROUNDS = 5
WINDOW_S = 4.0
FLOOD_S = 8.0
GET_QUEUE = "/argosy.api.v1.QueueService/GetQueue"
OWN_CONNECTION = [("grpc.use_local_subchannel_pool", 1)]
SUBMIT = "/argosy.api.v1.JobService/SubmitJobs"


@contextmanager
def server(url: str, log: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Run a server of all roles; give its process and address."""
    command = [sys.executable, "-m", "argosy_server", "--grpc-listen", "127.0.0.1:0", "--database-url", url]
    with log.open("wb") as out:
        process = subprocess.Popen(command, stderr=out)
    try:
        address = ""
        while not address:
            if process.poll() is not None:
                raise RuntimeError(log.read_text()[-2000:])
            time.sleep(0.1)
            lines = [line for line in log.read_text().splitlines() if '"listening"' in line]
            address = json.loads(lines[0])["address"] if lines else ""
        yield process, address
    finally:
        process.terminate()
        process.wait()


def memory_mib(process_id: int) -> float:
    """Return the resident memory of a process."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{process_id}/status").read_text().splitlines())
    return int(fields["VmRSS"].split()[0]) / 1024


async def until_served(call: Callable[[], Any]) -> None:
    """Make a call until it is served; what is refused is tried again soon, and its time counts."""
    while True:
        try:
            await call()
        except grpc.aio.AioRpcError as error:
            if error.code() != grpc.StatusCode.RESOURCE_EXHAUSTED:
                raise
            await asyncio.sleep(0.02)
        else:
            return


@contextmanager
def timed(latencies_s: list[float]) -> Iterator[None]:
    """Note how long something takes; a call that is cut off at the end counts with its time so far: it is the worst."""
    started = time.perf_counter()
    try:
        yield
    finally:
        latencies_s.append(time.perf_counter() - started)


async def submit_steadily(address: str, latencies_s: list[float]) -> None:
    """Submit one job after another to a queue of its own, on a connection of its own, until cancelled."""
    async with grpc.aio.insecure_channel(address, options=OWN_CONNECTION) as channel:
        submit: Any = channel.unary_unary(SUBMIT)
        while True:
            with timed(latencies_s):
                await until_served(lambda: submit(submit_one("legal"), timeout=30))
            await asyncio.sleep(LEGAL_S)


async def read_steadily(address: str, latencies_s: list[float]) -> None:
    """Read a queue again and again, on a connection of its own, until cancelled."""
    async with grpc.aio.insecure_channel(address, options=OWN_CONNECTION) as channel:
        read = queue_pb2_grpc.QueueServiceStub(channel).GetQueue
        while True:
            with timed(latencies_s):
                await until_served(lambda: read(queue_pb2.GetQueueRequest(name="legal"), timeout=30))
            await asyncio.sleep(LEGAL_S)


async def call_legally(address: str, kinds: list[str]) -> dict[str, list[float]]:
    """Say `begun` on standard output, and return the latencies of legal calls of some kinds, made until input ends."""
    found: dict[str, list[float]] = {kind: [] for kind in kinds}
    steadily = {"submits": submit_steadily, "reads": read_steadily}
    legal = [asyncio.ensure_future(steadily[kind](address, found[kind])) for kind in kinds]
    sys.stdout.write("begun\n")
    sys.stdout.flush()
    await asyncio.wait(
        [asyncio.ensure_future(asyncio.to_thread(sys.stdin.read)), *legal], return_when=asyncio.FIRST_COMPLETED
    )
    cancelled = [task for task in legal if task.cancel()]
    ended = await asyncio.gather(*legal, return_exceptions=True)
    for task, error in zip(legal, ended, strict=True):
        # A call that was being made when its task was cancelled may say so by an error of its own.
        is_ours = isinstance(error, grpc.aio.AioRpcError) and error.code() == grpc.StatusCode.CANCELLED
        if isinstance(error, Exception) and not (task in cancelled and is_ours):
            raise error
    return found


@asynccontextmanager
async def legal_calls(address: str, *kinds: str) -> AsyncIterator[dict[str, list[float]]]:
    """Have another process make legal calls while the block lasts; give their latencies, known once it ends."""
    found: dict[str, list[float]] = {}
    process = await asyncio.create_subprocess_exec(
        sys.executable, __file__, "--legal", address, *kinds, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        await process.stdout.readline()  # it takes a second to load, in which it would see nothing
        yield found
        output, _ = await process.communicate(b"")  # its input ends
        found.update(json.loads(output))
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def again(make: Callable[[], Any]) -> None:
    """Make a call, read what it answers, and make it again, whatever comes, until cancelled."""
    while True:
        try:
            call = make()
            if hasattr(call, "read"):
                while await call.read() is not grpc.aio.EOF:
                    pass
            else:
                await call
        except grpc.aio.AioRpcError:
            pass


async def job_set_id(channel: grpc.aio.Channel) -> int:
    """Return the id of job set legal/one, as a cursor tells it."""
    watch = event_pb2_grpc.EventServiceStub(channel).WatchJobSet
    call = watch(event_pb2.WatchJobSetRequest(queue="legal", job_set="one"))
    message: Any = await call.read()
    call.cancel()
    packed = base64.urlsafe_b64decode(message.cursor + "=" * (-len(message.cursor) % 4))
    return int.from_bytes(packed[1:9], "little")


def long_yaml(numbers: Iterator[int]) -> job_pb2.SubmitJobsRequest:
    """Return a submit of a pod in YAML, 80 KB of it and like no other; it is refused once it is read."""
    number = next(numbers)
    annotations = "".join(f"    example.com/key-{place}: 'value {number}'\n" for place in range(2200))
    pod = f"apiVersion: v1\nkind: Pod\nmetadata:\n  annotations:\n{annotations}spec: {{}}\n"
    return job_pb2.SubmitJobsRequest(
        specs=[job_pb2.JobSpec(manifests=[pod])], items=[job_pb2.JobItem(queue="red", job_set="one")]
    )


async def floods(address: str) -> dict[str, dict[str, dict[str, float]]]:
    """Return the latencies of legal submits and reads beside each flood."""
    channels = [grpc.aio.insecure_channel(address, options=OWN_CONNECTION) for _ in range(4)]
    jobs, events = job_pb2_grpc.JobServiceStub(channels[0]), event_pb2_grpc.EventServiceStub(channels[0])
    selector = job_pb2.JobSelector(queue="legal", label_selector="tier=none")
    own_id = await job_set_id(channels[0])
    cursors = [WatchCursor(job_set_id=own_id, number=1_000_000 + number).text() for number in range(800)]
    numbers = itertools.count()
    found: dict[str, dict[str, dict[str, float]]] = {}
    silent: list[Any] = [channel.stream_unary(GET_QUEUE) for channel in channels]
    attacks: dict[str, list[Callable[[], Any]]] = {
        "nothing": [],
        "calls without a message": silent * 692,
        "lists by selector": [lambda: jobs.ListJobs(job_pb2.ListJobsRequest(selector=selector))] * 30,
        "made-up cursors": [
            partial(events.WatchJobSet, event_pb2.WatchJobSetRequest(queue="legal", job_set="one", cursor=cursor))
            for cursor in cursors
        ],
        "YAML": [lambda: jobs.SubmitJobs(long_yaml(numbers))] * 16,
    }
    for name, makes in attacks.items():
        attack = [asyncio.ensure_future(again(make)) for make in makes]
        async with legal_calls(address, "submits", "reads") as latencies:
            await asyncio.sleep(FLOOD_S)
        for task in attack:
            task.cancel()
        await asyncio.gather(*attack, return_exceptions=True)
        found[name] = {kind: summary(latencies_s) for kind, latencies_s in latencies.items()}
    for channel in channels:
        await channel.close()
    return found


def summary(latencies_s: list[float]) -> dict[str, float]:
    """Return the count and percentiles of latencies."""
    p50, p99 = np.percentile(latencies_s or [np.nan], [50, 99]) * 1000
    return {"count": len(latencies_s), "p50_ms": round(float(p50), 2), "p99_ms": round(float(p99), 2)}


async def measure(address: str, process_id: int, *, seed: int, count: int, per_s: float) -> dict[str, Any]:
    """Return everything that is printed."""
    async with grpc.aio.insecure_channel(address) as channel:
        queues = queue_pb2_grpc.QueueServiceStub(channel)
        for name in ("red", "legal"):
            queue = queue_pb2.Queue(name=name)
            await queues.CreateQueue(queue_pb2.CreateQueueRequest(queue=queue), wait_for_ready=True)
        before_mib = memory_mib(process_id)
        drawn = draw_calls(seed, good_calls())
        verdicts, took_s, alone_s, beside_s = [], 0.0, [], []
        for number in range(ROUNDS):  # by turns, so that what else the machine does is beside both alike
            async with legal_calls(address, "submits") as alone:
                await asyncio.sleep(WINDOW_S)
            corpus = () if number else read_corpus(CORPUS)
            calls = itertools.chain(corpus, itertools.islice(drawn, count // ROUNDS))
            async with legal_calls(address, "submits") as beside:  # from the first hostile call to the last
                started = time.monotonic()
                verdicts.append(await call_all(channel, calls, at_once=16, per_s=per_s))
                took_s += time.monotonic() - started
            alone_s += alone["submits"]
            beside_s += beside["submits"]
        codes = sum((one.codes for one in verdicts), Counter())
        submit: Any = channel.unary_unary(SUBMIT)
        await submit(submit_one("legal"), timeout=30)
    return {
        "floods": await floods(address),
        "calls": codes.total(),
        "seconds": round(took_s, 1),
        "codes": dict(codes),
        "levels": dict(sum((one.levels for one in verdicts), Counter())),
        "faults": [fault for one in verdicts for fault in one.faults],
        "alone": summary(alone_s),
        "beside": summary(beside_s),
        "memory_mib": [round(before_mib), round(memory_mib(process_id))],
    }


def main() -> int:
    """Run and print; 1 if there was a fault."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument(
        "--per-s", type=float, default=0.0, help="hostile calls begun in a second; 0 for all there can be"
    )
    parser.add_argument("--legal", nargs="+", help="address and kinds of the legal calls to make until input ends")
    options = parser.parse_args()
    if options.legal:
        address, *kinds = options.legal
        sys.stdout.write(json.dumps(asyncio.run(call_legally(address, kinds))))
        return 0
    with tempfile.TemporaryDirectory(prefix="argosy-hostile-") as directory:
        postgres = EmbeddedPostgres(Path(directory) / "postgres")
        url = postgres.start()
        try:
            migrate(url)
            with server(url, Path(directory) / "log") as (process, address):
                result = asyncio.run(
                    measure(address, process.pid, seed=options.seed, count=options.count, per_s=options.per_s)
                )
                result["died"] = process.poll() is not None
        finally:
            postgres.stop()
    sys.stdout.write(json.dumps(result, indent=1) + "\n")
    return int(result["died"] or bool(result["faults"]))


if __name__ == "__main__":
    sys.exit(main())

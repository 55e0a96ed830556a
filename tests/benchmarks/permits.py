"""Prints, as JSON, how many permits a sampler gives in a second, and how long each takes, over a real socket.

Usage: python tests/benchmarks/permits.py [PODS ...]; `permits_noted.py` is the same with durable permits.

A process serves permits as a sampler does; this one plays ten agents. Pods want one to eight units at random, twenty to
a node that has room for five each, so that about one request in ten is granted in part and pushed later. `rate` is
reached when every agent asks again as soon as it is answered, for a tenth of its pods at a time; `latency` is from the
write of a request to the read of its answer while all agents ask for 5,000 permits a second, ten pods a message: an
even stream that waits for no answer, not a burst of all pods.

`busy_ratio` is the processor time that the sampler takes then, and `starved_ratio` the part of that time in which its
event loop could have run and other work did: where it is not next to nothing, the quantiles are the machine's.
"""

import asyncio
import itertools
import json
import multiprocessing
import os
import random
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from argosy.autoscale.v1 import permit_pb2, permit_pb2_grpc
from argosy_core.job.reading.scaling import Scaling
from argosy_core.job.tables.members import Members
from argosy_core.ledger import NodeLedger, PermitSettings, PodEvents
from argosy_core.nodes import NodeSpec
from argosy_core.permits import PermitService
from argosy_runtime.channel import ChannelCredentials, open_channel
from argosy_runtime.grpc_server import GrpcServer, GrpcSettings
from argosy_runtime.logs import get_logger
from argosy_sampler.permits import PermitServicer

UNIT = (250, 1 << 30)
PODS_A_NODE = 20
AGENTS = 10
RATE = 5000
SECONDS = 8.0
_HEARTBEAT_S = 2.0
"""As the sampler asks for; what is not heard for three of them is cut off."""


def make_uids(first: int, count: int) -> np.ndarray:
    """Return uids of pods by their numbers."""
    uids = np.zeros((count, 2), np.int64)
    uids[:, 0] = np.arange(first + 1, first + 1 + count)
    return uids


def make_ledger(pods: int, *, is_started: bool = False, noted_by: str = "") -> NodeLedger:
    """Return a ledger whose pods have one unit each; one that has just started does not know what they may have."""
    ledger = NodeLedger(permits=PermitSettings(unit=UNIT, rises_per_s=1000.0, noted_by=noted_by))
    room = 5 * PODS_A_NODE
    total = {"cpu": room * UNIT[0], "memory": room * UNIT[1]}
    ledger.put_nodes([NodeSpec(name=f"n{node}", total=total) for node in range(pods // PODS_A_NODE)])
    ledger.permits.has_listed = not is_started
    scaling = Scaling(least=UNIT, most=(8 * UNIT[0], 8 * UNIT[1]))
    take = ledger.observe_all if is_started else ledger.observe
    take(
        PodEvents(
            members=Members.of([0] * pods, [0] * pods),
            uids=make_uids(0, pods).view(np.uint8).reshape(-1, 16),
            nodes=(np.arange(pods) // PODS_A_NODE).astype(np.int32),
            ended=np.zeros(pods, np.bool_),
            requests=np.tile(np.array([*UNIT, 1], np.int64), (pods, 1)),
            scalings=dict.fromkeys(range(pods), scaling),
        )
    )
    return ledger


async def _serve(pods: int, pipe: Connection) -> None:
    servicer = PermitServicer("c", b"p" * 16, log=get_logger())
    server = GrpcServer(GrpcSettings(listen="127.0.0.1:0"))
    server.add(permit_pb2_grpc.add_PermitServiceServicer_to_server, servicer, "permits")
    servicer.open(PermitService(make_ledger(pods), cluster="c", cluster_uid="u"))
    await server.start()
    pipe.send(server.address)
    async with asyncio.TaskGroup() as group:
        ticking = group.create_task(servicer.run())
        while await asyncio.to_thread(pipe.recv):
            pipe.send((time.process_time(), waited_s()))
        ticking.cancel()
    await server.stop(0)


def waited_s() -> float:
    """Return how long the thread of this process's event loop was ready to run, and another ran instead, seconds."""
    return int(Path(f"/proc/self/task/{os.getpid()}/schedstat").read_text().split()[1]) / 1e9


def _process(pods: int, pipe: Connection) -> None:
    asyncio.run(_serve(pods, pipe))


class Agent:
    """One agent with its part of the pods."""

    def __init__(self, channel: Any, number: int, uids: np.ndarray) -> None:
        self.stream = permit_pb2_grpc.PermitServiceStub(channel).Session()
        self.uids = uids
        self._turn = asyncio.Lock()
        self.numbers = itertools.count(2)
        self.sequences = itertools.count(1)
        self.process_id = bytes([number]) * 16
        self.random = random.Random(number)
        self.sent: dict[int, float] = {}
        self.waits: list[float] = []
        self.answered = asyncio.Event()

    async def say(self, **message: Any) -> None:
        """Say something in turn."""
        async with self._turn:
            await self.stream.write(permit_pb2.SessionRequest(sequence=next(self.sequences), **message))

    async def beat(self) -> None:
        """Keep the leases while nothing else is said, until cancelled."""
        while True:
            await asyncio.sleep(_HEARTBEAT_S)
            await self.say(heartbeat=permit_pb2.Heartbeat())

    async def greet(self, cluster_uid: str = "u") -> None:
        """Say hello."""
        hello = permit_pb2.Hello(cluster="c", cluster_uid=cluster_uid, process_id=self.process_id)
        await self.say(hello=hello)
        await self.stream.read()

    async def join(self, *, is_held: bool = False) -> None:
        """Tell the pods, with leases that last or not, and hear what each may have."""
        count = len(self.uids)
        await self.say(
            inventory=permit_pb2.Inventory(
                uid_column=self.uids.tobytes(),
                ceiling_column=np.tile(np.array(UNIT, np.int64), (count, 1)).tobytes(),
                held_column=bytes([is_held]) * count,
                number_column=np.ones(count, np.int64).tobytes(),
            )
        )
        told = 0
        while told < count:
            heard = await self.stream.read()
            assert isinstance(heard, permit_pb2.SessionResponse), "the sampler ended the session"
            assert heard.WhichOneof("message") != "refusals", list(heard.refusals.reason_column)
            told += len(heard.permits.uid_column) // 16

    async def ask(self, count: int) -> None:
        """Ask for as many pods, all by one number."""
        first = self.random.randrange(0, len(self.uids) - count + 1)
        number = next(self.numbers)
        units = np.array([self.random.randint(1, 8) for _ in range(count)], np.int64)
        request = permit_pb2.PermitRequest(
            uid_column=self.uids[first : first + count].tobytes(),
            wanted_column=(units[:, np.newaxis] * np.array(UNIT)).tobytes(),
            number_column=np.full(count, number, np.int64).tobytes(),
        )
        self.sent[number] = time.perf_counter()
        await self.say(request=request)

    async def read(self) -> None:
        """Note how long each request took until its first answer."""
        while True:
            heard = await self.stream.read()
            if not isinstance(heard, permit_pb2.SessionResponse):
                return
            assert heard.WhichOneof("message") != "refusals", heard
            now_s = time.perf_counter()
            for number in np.unique(np.frombuffer(heard.permits.number_column, np.int64)).tolist():
                if number in self.sent:
                    self.waits.append(now_s - self.sent.pop(number))
                    self.answered.set()


async def flat_out(agent: Agent, until_s: float) -> int:
    """Ask again as soon as answered; return how many permits were given."""
    size = max(1, len(agent.uids) // 10)
    given = 0
    while time.perf_counter() < until_s:
        agent.answered.clear()
        await agent.ask(size)
        await agent.answered.wait()
        given += size
    return given


async def paced(agent: Agent, until_s: float) -> None:
    """Ask at the rate, ten pods a message."""
    gap_s = 10 * AGENTS / RATE
    next_s = time.perf_counter() + agent.random.random() * gap_s
    while next_s < until_s:
        await asyncio.sleep(max(0.0, next_s - time.perf_counter()))
        await agent.ask(10)
        next_s += gap_s


async def measure(
    agents: Sequence[Agent], seconds: float = SECONDS, mark: Callable[[], None] = lambda: None
) -> tuple[float, np.ndarray]:
    """Return permits per second flat out, then seconds from request to permit at the rate; the agents have begun.

    `mark` is called where the rate begins and where it ends.
    """
    async with asyncio.TaskGroup() as group:
        reading = [group.create_task(agent.read()) for agent in agents]
        begun_s = time.perf_counter()
        given = await asyncio.gather(*(flat_out(agent, begun_s + seconds) for agent in agents))
        rate = sum(given) / (time.perf_counter() - begun_s)
        for agent in agents:
            agent.waits.clear()
        mark()
        await asyncio.gather(*(paced(agent, time.perf_counter() + seconds) for agent in agents))
        mark()
        await asyncio.sleep(0.5)
        waits = np.array([wait for agent in agents for wait in agent.waits])
        for task in reading:
            task.cancel()
    return rate, waits


async def _play(address: str, pods: int, pipe: Connection) -> dict[str, float]:
    channels = [open_channel(address, ChannelCredentials()) for _ in range(AGENTS)]
    share = pods // AGENTS
    agents = [Agent(channel, number, make_uids(number * share, share)) for number, channel in enumerate(channels)]
    for agent in agents:
        await agent.greet()
        await agent.join()
    marks: list[tuple[float, float, float]] = []

    def mark() -> None:
        pipe.send(True)
        marks.append((*pipe.recv(), time.perf_counter()))

    rate, waits = await measure(agents, mark=mark)
    for channel in channels:
        await channel.close()
    cpu_s, late_s, elapsed_s = np.subtract(marks[1], marks[0]).tolist()
    return {
        "pods": pods,
        **figures_of(rate, waits),
        "busy_ratio": round(cpu_s / elapsed_s, 2),
        "starved_ratio": round(late_s / elapsed_s, 2),
    }


def figures_of(rate: float, waits: np.ndarray, seconds: float = SECONDS) -> dict[str, float]:
    """Return the figures of permits per second flat out, and of seconds from request to permit at the rate."""
    return {
        "permits_per_s": round(rate),
        "asked_per_s": round(10 * len(waits) / seconds),
        "p50_ms": round(1e3 * float(np.quantile(waits, 0.5)), 2),
        "p99_ms": round(1e3 * float(np.quantile(waits, 0.99)), 2),
    }


def main() -> None:
    """Measure each size in turn."""
    context = multiprocessing.get_context("spawn")
    for pods in [int(word) for word in sys.argv[1:]] or [1000, 10_000]:
        ours, theirs = context.Pipe()
        process = context.Process(target=_process, args=(pods, theirs))
        process.start()
        address = ours.recv()
        figures = asyncio.run(_play(address, pods, ours))
        ours.send(False)
        process.join()
        print(json.dumps(figures))  # noqa: T201 - the result of the program


if __name__ == "__main__":
    main()

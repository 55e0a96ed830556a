"""Prints, as JSON, how soon free room is right again after a start of the sampler, agents coming back under load.

Usage: python tests/benchmarks/permit_reconnect.py [PODS ...]

Twenty agents have the pods of `permits.py`, whose nodes hold less than the maxima of their pods. A sampler that has
just started books these maxima, so no node has room. Agents dial within two seconds, in random order; whoever is back
asks again and again.

`reconnect` is from the dial of each to the permits of all its pods: from then on nothing of theirs is booked for
uncertainty. `buffer` and `over_committed` say what is left of it once all are back, and of how many nodes more is taken
than they have.
"""

import asyncio
import json
import multiprocessing
import random
import sys
import time
from multiprocessing.connection import Connection

import numpy as np
from permits import PODS_A_NODE, UNIT, Agent, make_ledger, make_uids

from argosy.autoscale.v1 import permit_pb2, permit_pb2_grpc
from argosy_core.ledger import NodeLedger
from argosy_core.permits import PermitService
from argosy_runtime.channel import ChannelCredentials, open_channel
from argosy_runtime.grpc_server import GrpcServer, GrpcSettings
from argosy_runtime.logs import get_logger
from argosy_sampler.permits import PermitServicer

_AGENTS = 20
_SPREAD_S = 2.0


def _uncertain(pods: int) -> NodeLedger:
    """Return the ledger of a sampler that has just started: each pod may have been permitted its maximum."""
    ledger = make_ledger(pods, is_started=True)
    free = ledger.nodes.free[0]
    assert (free < 0).all(), "a node has room though its pods may have all of it"
    return ledger


async def _serve(pods: int, pipe: Connection) -> None:
    ledger = _uncertain(pods)
    servicer = PermitServicer("c", b"p" * 16, log=get_logger())
    server = GrpcServer(GrpcSettings(listen="127.0.0.1:0"))
    server.add(permit_pb2_grpc.add_PermitServiceServicer_to_server, servicer, "permits")
    ledger.permits.start(time.monotonic())
    servicer.open(PermitService(ledger, cluster="c", cluster_uid="u"))
    await server.start()
    pipe.send(server.address)
    async with asyncio.TaskGroup() as group:
        ticking = group.create_task(servicer.run())
        await asyncio.to_thread(pipe.recv)
        ticking.cancel()
    books = ledger.permits.node_books()
    over = (books.reserved > books.total - books.system).any(axis=0)
    pipe.send((int(books.buffer[0].sum()) // UNIT[0], int(over.sum())))
    await asyncio.to_thread(pipe.recv)
    await server.stop(0)


def _process(pods: int, pipe: Connection) -> None:
    asyncio.run(_serve(pods, pipe))


async def _come_back(address: str, number: int, pods: int, *, wait_s: float) -> float:
    """Dial after a while, tell the pods, and ask for more ever after; return how long the pods were uncertain for."""
    await asyncio.sleep(wait_s)
    begun_s = time.perf_counter()
    agent = Agent(open_channel(address, ChannelCredentials()), number, pods)
    hello = permit_pb2.Hello(cluster="c", cluster_uid="u", process_id=bytes([number]) * 16)
    await agent.say(hello=hello)
    await agent.stream.read()
    # Three units each, of which the permit's lease has not ended.
    ceilings = np.tile(3 * np.array(UNIT, np.int64), (pods, 1))
    inventory = permit_pb2.Inventory(
        uid_column=make_uids(number * pods, pods).tobytes(),
        ceiling_column=ceilings.tobytes(),
        held_column=b"\1" * pods,
        number_column=np.ones(pods, np.int64).tobytes(),
    )
    await agent.say(inventory=inventory)
    told = 0
    while told < pods:
        heard = await agent.stream.read()
        assert heard.WhichOneof("message") == "permits", heard
        told += len(heard.permits.uid_column) // 16
    took_s = time.perf_counter() - begun_s
    _LOAD.append(asyncio.ensure_future(_ask_on(agent)))
    return took_s


_LOAD: list[asyncio.Future[None]] = []


async def _ask_on(agent: Agent) -> None:
    """Ask for ten pods, fifty times a second."""
    reading = asyncio.ensure_future(agent.read())
    try:
        while True:
            await agent.ask(min(10, len(agent.uids)))
            await asyncio.sleep(0.02)
    finally:
        reading.cancel()


async def _play(address: str, pods: int, pipe: Connection) -> dict[str, float]:
    order = random.Random(1)
    took_s = await asyncio.gather(
        *(_come_back(address, one, pods // _AGENTS, wait_s=order.random() * _SPREAD_S) for one in range(_AGENTS))
    )
    pipe.send(None)
    buffer, over_committed = await asyncio.to_thread(pipe.recv)
    for one in _LOAD:
        one.cancel()
    await asyncio.gather(*_LOAD, return_exceptions=True)
    pipe.send(None)
    _LOAD.clear()
    return {
        "pods": pods,
        "nodes": pods // PODS_A_NODE,
        "reconnect_p50_ms": round(1e3 * float(np.median(took_s)), 1),
        "reconnect_most_ms": round(1e3 * max(took_s), 1),
        "buffer": buffer,
        "over_committed": over_committed,
    }


def main() -> None:
    """Measure each size in turn."""
    context = multiprocessing.get_context("spawn")
    for pods in [int(word) for word in sys.argv[1:]] or [1000, 10_000]:
        ours, theirs = context.Pipe()
        process = context.Process(target=_process, args=(pods, theirs))
        process.start()
        figures = asyncio.run(_play(ours.recv(), pods, ours))
        process.join()
        print(json.dumps(figures))  # noqa: T201 - the result of the program


if __name__ == "__main__":
    main()

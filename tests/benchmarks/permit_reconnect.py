"""Prints, as JSON, how soon free room is right again after everybody was lost, agents coming back under load.

Usage: python tests/benchmarks/permit_reconnect.py [--lost sampler agents] [PODS ...]

Twenty agents have the pods of `permits.py`. With `sampler`, one has just started: it books the maxima of the pods,
which is more than nodes have. With `agents`, the agents ask under load until all of them are killed at once; every
other one comes back as a new process, which has to wait for the leases of the one before it.

Agents dial within two seconds, in random order; whoever is back asks again and again. `reconnect` is from the dial of
each, or from the end of the leases that it has to wait for, to the permits of all its pods: from then on nothing of
theirs is booked for uncertainty. `buffer` says what is left of it once all are back, and `over_committed` on how many
nodes more was taken than they have, counted twenty times a second while agents come back (`agents`) and in the end.
"""

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import random
import time
from multiprocessing.connection import Connection

import numpy as np
from permits import PODS_A_NODE, UNIT, Agent, make_ledger, make_uids

from argosy.autoscale.v1 import permit_pb2, permit_pb2_grpc
from argosy_core.ledger import NodeLedger, PermitSettings
from argosy_core.permits import PermitService
from argosy_runtime.channel import ChannelCredentials, open_channel
from argosy_runtime.grpc_server import GrpcServer, GrpcSettings
from argosy_runtime.logs import get_logger
from argosy_sampler.permits import PermitServicer

_AGENTS = 20
_SPREAD_S = 2.0
_LOAD_S = 4.0
_LOOK_S = 0.05
_LEASES_S = PermitSettings().lease_s + PermitSettings().margin_s
_LEASE_LASTS, _UNKNOWN = 3, 1
"""Reasons of refusals that pass: another process's lease lasts; the pod is not known yet."""


def _start_ledger(pods: int, *, is_uncertain: bool) -> NodeLedger:
    """Return a ledger; where it is uncertain, each pod may have been permitted its maximum."""
    ledger = make_ledger(pods, is_started=is_uncertain)
    free = ledger.nodes.free[0]
    assert not is_uncertain or (free < 0).all(), "a node has room though its pods may have all of it"
    return ledger


def _over_committed(ledger: NodeLedger) -> int:
    """Return on how many nodes more is taken than they have."""
    books = ledger.permits.room.node_accounts()
    return int((books.reserved > books.total - books.system).any(axis=0).sum())


async def _serve(pods: int, pipe: Connection, *, is_uncertain: bool) -> None:
    ledger = _start_ledger(pods, is_uncertain=is_uncertain)
    servicer = PermitServicer("c", b"p" * 16, log=get_logger())
    server = GrpcServer(GrpcSettings(listen="127.0.0.1:0"))
    server.add(permit_pb2_grpc.add_PermitServiceServicer_to_server, servicer, "permits")
    ledger.permits.start(time.monotonic())
    servicer.open(PermitService(ledger, cluster="c", cluster_uid="u"))
    await server.start()
    pipe.send(server.address)
    over = 0

    async def look() -> None:
        nonlocal over
        while True:
            over = max(over, 0 if is_uncertain else _over_committed(ledger))
            await asyncio.sleep(_LOOK_S)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(servicer.run()), group.create_task(look())]
        await asyncio.to_thread(pipe.recv)
        for task in tasks:
            task.cancel()
    books = ledger.permits.room.node_accounts()
    pipe.send((int(books.buffer[0].sum()) // UNIT[0], max(over, _over_committed(ledger))))
    await asyncio.to_thread(pipe.recv)
    await server.stop(0)


def _process(pods: int, pipe: Connection, is_uncertain: bool) -> None:  # noqa: FBT001 - arguments of a process
    asyncio.run(_serve(pods, pipe, is_uncertain=is_uncertain))


async def _come_back(agent: Agent, *, wait_s: float, leases_end_s: float = 0.0, units: int) -> float:
    """Dial after a while and tell the pods, again while leases last; return how long the pods were uncertain for."""
    await asyncio.sleep(wait_s)
    begun_s = max(time.perf_counter(), leases_end_s)
    await agent.greet()
    count, waiting = len(agent.uids), {uid.tobytes() for uid in agent.uids}
    ceilings = np.tile(units * np.array(UNIT, np.int64), (count, 1))
    while True:
        names = b"".join(waiting)
        inventory = permit_pb2.Inventory(
            uid_column=names,
            ceiling_column=ceilings[: len(waiting)].tobytes(),
            held_column=bytes([leases_end_s == 0]) * len(waiting),
            number_column=np.ones(len(waiting), np.int64).tobytes(),
        )
        await agent.say(inventory=inventory)
        refused = await _hear(agent, waiting)
        if not refused:
            return time.perf_counter() - begun_s
        await asyncio.sleep(min(refused, 0.5) if refused > 1.0 else 0.1)


async def _hear(agent: Agent, waiting: set[bytes]) -> float:
    """Take in answers for all that wait; return after how many seconds those that were refused may ask again, or 0."""
    left, refused_s = len(waiting), 0.0
    while left:
        heard = await agent.stream.read()
        kind = heard.WhichOneof("message")
        if kind == "refusals":
            reasons = set(heard.refusals.reason_column)
            assert reasons <= {_LEASE_LASTS, _UNKNOWN}, reasons
            refused_s = float(np.frombuffer(heard.refusals.retry_after_column, np.float32).max())
            left -= len(heard.refusals.uid_column) // 16
        elif kind == "permits":
            told = heard.permits.uid_column
            left -= len(told) // 16
            waiting.difference_update(told[at : at + 16] for at in range(0, len(told), 16))
    return refused_s


async def _ask_on(agent: Agent) -> None:
    """Ask for ten pods, fifty times a second."""
    reading = asyncio.ensure_future(agent.read())
    try:
        while True:
            await agent.ask(min(10, len(agent.uids)))
            await asyncio.sleep(0.02)
    finally:
        reading.cancel()
        agent.stream.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await reading


async def _kill(load: list[asyncio.Future[None]]) -> None:
    """End agents without a goodbye."""
    for one in load:
        one.cancel()
    await asyncio.gather(*load, return_exceptions=True)


def _agent(address: str, number: int, share: int, *, process: int) -> Agent:
    uids = make_uids(number * share, share)
    agent = Agent(open_channel(address, ChannelCredentials()), number, uids)
    agent.process_id = bytes([process]) * 16
    return agent


async def _play(address: str, pods: int, pipe: Connection, *, lost: str) -> dict[str, object]:
    order, share = random.Random(1), pods // _AGENTS
    ends_s, is_killed = 0.0, lost == "agents"
    if is_killed:
        first = [_agent(address, one, share, process=one + 1) for one in range(_AGENTS)]
        await asyncio.gather(*(_come_back(agent, wait_s=0.0, units=1) for agent in first))
        load = [asyncio.ensure_future(_ask_on(agent)) for agent in first]
        await asyncio.sleep(_LOAD_S)
        await _kill(load)
        ends_s = time.perf_counter() + _LEASES_S
    agents = [_agent(address, one, share, process=one + 1 + 100 * (one % 2)) for one in range(_AGENTS)]
    load = []

    async def back(number: int, wait_s: float) -> float:
        is_new = is_killed and number % 2 == 1
        units = 1 if is_killed else 3  # under load it is not known what each was permitted last: no less than this
        took_s = await _come_back(agents[number], wait_s=wait_s, leases_end_s=ends_s * is_new, units=units)
        load.append(asyncio.ensure_future(_ask_on(agents[number])))
        return took_s

    took_s = await asyncio.gather(*(back(one, order.random() * _SPREAD_S) for one in range(_AGENTS)))
    pipe.send(None)
    buffer, over_committed = await asyncio.to_thread(pipe.recv)
    await _kill(load)
    pipe.send(None)
    return {
        "lost": lost,
        "pods": pods,
        "nodes": pods // PODS_A_NODE,
        "reconnect_p50_ms": round(1e3 * float(np.median(took_s)), 1),
        "reconnect_most_ms": round(1e3 * max(took_s), 1),
        "buffer": buffer,
        "over_committed": over_committed,
    }


def main() -> None:
    """Measure each size in turn."""
    parser = argparse.ArgumentParser()
    parser.add_argument("pods", type=int, nargs="*", default=[1000, 10_000])
    parser.add_argument("--lost", nargs="+", choices=("sampler", "agents"), default=["sampler", "agents"])
    options = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    for lost in options.lost:
        for pods in options.pods:
            ours, theirs = context.Pipe()
            process = context.Process(target=_process, args=(pods, theirs, lost == "sampler"))
            process.start()
            figures = asyncio.run(_play(ours.recv(), pods, ours, lost=lost))
            process.join()
            print(json.dumps(figures))  # noqa: T201 - the result of the program


if __name__ == "__main__":
    main()

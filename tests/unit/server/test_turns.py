"""Callers take turns at the threads that read: one that asks for much delays itself."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref

from argosy_runtime.peers import NOBODY, PEER, Peer
from argosy_server.api.store_threads import StoreThreads
from argosy_server.api.turns import Turns

GREEDY, SIBLING, OTHER = Peer("a:1", "a"), Peer("a:2", "a"), Peer("b:1", "b")


async def settle() -> None:
    """Let every task go as far as it can."""
    for _ in range(10):
        await asyncio.sleep(0)


async def begin(turns: Turns, peer: Peer, begun: list[Peer], count: int = 1) -> list[asyncio.Task[None]]:
    """Ask for turns of a peer, whose beginnings are noted."""

    async def take() -> None:
        await turns.take(peer)
        begun.append(peer)

    tasks = [asyncio.create_task(take()) for _ in range(count)]
    await settle()
    return tasks


async def test_connection_and_host_hold_a_part_of_the_turns_and_others_begin_at_once() -> None:
    """A quarter for a connection, half for a host, the rest is there for the next; the server has all that is left."""
    turns = Turns(8)
    begun: list[Peer] = []
    tasks = await begin(turns, GREEDY, begun, 30)
    assert begun == [GREEDY] * 2
    tasks += await begin(turns, SIBLING, begun, 30)
    tasks += await begin(turns, Peer("a:3", "a"), begun)
    assert begun == [GREEDY] * 2 + [SIBLING] * 2
    tasks += await begin(turns, OTHER, begun)
    tasks += await begin(turns, NOBODY, begun, 9)
    assert begun[4:] == [OTHER] + [NOBODY] * 3
    for task in tasks:
        task.cancel()


async def test_those_who_wait_take_turns_by_host_and_by_connection() -> None:
    """However many one has waiting, the next turn is another's."""
    turns = Turns(1)
    begun: list[Peer] = []
    await begin(turns, GREEDY, begun, 4)
    await begin(turns, SIBLING, begun, 2)
    await begin(turns, OTHER, begun, 2)
    while len(begun) < 8:
        turns.end(begun[-1])
        await settle()
    assert begun == [GREEDY, GREEDY, OTHER, SIBLING, OTHER, GREEDY, SIBLING, GREEDY]


async def test_user_holds_half_of_the_turns_from_however_many_hosts() -> None:
    """The third host of one user waits; another user on one of these hosts begins at once."""
    turns = Turns(8)
    hosts = [Peer(f"{host}:1", host) for host in "abc"]
    for peer in (*hosts[:2], *hosts[:2]):
        await asyncio.wait_for(turns.take(peer, "mallory"), 50)
    waiting = asyncio.create_task(turns.take(hosts[2], "mallory"))
    await settle()
    assert not waiting.done()
    await asyncio.wait_for(turns.take(hosts[0], "alice"), 50)
    turns.end(hosts[1], "mallory")
    await asyncio.wait_for(waiting, 50)


async def test_users_behind_one_connection_take_turns() -> None:
    """A facade's connection holds a quarter for each user that it acts for, and one who floods delays itself."""
    turns = Turns(8)
    flood = [asyncio.create_task(turns.take(GREEDY, "mallory")) for _ in range(30)]
    await settle()
    assert sum(task.done() for task in flood) == 2
    await asyncio.wait_for(turns.take(GREEDY, "alice"), 50)
    for task in flood:
        task.cancel()


async def test_turn_that_was_given_up_goes_to_the_next() -> None:
    """Neither one that waits nor one that has just begun keeps a turn after its caller went."""
    turns = Turns(1)
    begun: list[Peer] = []
    await begin(turns, GREEDY, begun)
    waiting, begins = (await begin(turns, OTHER, begun))[0], (await begin(turns, SIBLING, begun))[0]
    waiting.cancel()
    await settle()
    turns.end(GREEDY)
    begins.cancel()
    await settle()
    await asyncio.wait_for(turns.take(GREEDY), 50)


async def test_short_read_passes_long_ones_of_another_caller() -> None:
    """Reads that stay hold up their own connection; a thread whose caller went is free again once its call is over."""
    threads = StoreThreads(reader_count=4, submit_count=1)
    release = threading.Event()

    async def read_long() -> None:
        PEER.set(GREEDY)
        await threads.run(release.wait)

    long = [asyncio.create_task(read_long()) for _ in range(20)]
    await settle()
    PEER.set(OTHER)
    assert await asyncio.wait_for(threads.run(str, 7), 50) == "7"
    for task in long:
        task.cancel()
    await settle()
    release.set()
    PEER.set(GREEDY)
    assert await asyncio.wait_for(threads.run(str, 8), 50) == "8"
    threads.close()


async def test_one_host_keeps_the_interpreter_busy_in_one_thread_at_most() -> None:
    """However much one host has computed, one call of it goes on at a time, and another host's begins beside it."""
    threads = StoreThreads(reader_count=1, submit_count=1)
    release, begun = threading.Event(), threading.Semaphore(0)

    def compute_long() -> None:
        begun.release()
        release.wait(50)

    async def ask(peer: Peer) -> None:
        PEER.set(peer)
        await threads.compute(compute_long)

    asked = [asyncio.create_task(ask(peer)) for peer in (GREEDY, SIBLING) * 10]
    try:
        assert await asyncio.to_thread(begun.acquire, timeout=50)
        PEER.set(OTHER)
        assert await asyncio.wait_for(threads.compute(str, 7), 50) == "7"
        assert not begun.acquire(blocking=False)
    finally:
        release.set()
    await asyncio.wait_for(asyncio.gather(*asked), 50)
    threads.close()


class OddError(Exception):
    """What a call fails with."""


async def test_error_of_a_call_is_gone_when_the_call_is() -> None:
    """No garbage collector is needed for it, which would hold every other call up."""

    def fail() -> None:
        raise OddError

    threads = StoreThreads(reader_count=1, submit_count=1)
    gc.disable()
    try:
        try:
            await threads.run(fail)
        except OddError as error:
            seen = weakref.ref(error)
        async with asyncio.timeout(50):
            while seen() is not None:  # noqa: ASYNC110 - the thread is about to forget it
                await asyncio.sleep(0)
    finally:
        gc.enable()
        threads.close()

"""Threads for the store, whose calls block: submits have their own, so that slow requests do not hold them up.

What takes long to compute, as reading YAML, has its own as well, and few of them.

Source: `argosy_store.replicas.api`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Final, ParamSpec, TypeVar

from argosy_runtime.access.guard import CALLER, Caller
from argosy_runtime.peers import PEER, Peer
from argosy_server.api.submits.yaml_processes import YamlProcesses
from argosy_server.api.turns import Turns
from argosy_store.replicas.audit import ACTOR, Actor

__all__ = ["StoreThreads"]

P = ParamSpec("P")
Answer = TypeVar("Answer")

_COMPUTE_COUNT: Final = 2
"""Threads that compute, or wait for a process that does: one for a host, and one that it leaves to others. Each that
computes itself makes the event loop wait for the interpreter whenever it wakes, up to 0.25 ms as a server's process
sets it (`argosy_server.app`)."""


class _SharedThreads:
    """Threads at which callers take turns (`Turns`).

    Args:
        count: How many.
        name: What threads are called.
    """

    def __init__(self, count: int, name: str) -> None:
        """Make the threads; they start when first needed."""
        self._turns = Turns(count)
        self._threads = ThreadPoolExecutor(count, thread_name_prefix=name)

    async def run(self, peer: Peer, user: str, call: Callable[[], Answer]) -> Answer:
        """Return what a call returns, made in a thread when it is its caller's turn."""
        await self._turns.take(peer, user)
        loop = asyncio.get_running_loop()
        try:
            future = self._threads.submit(call)
        except RuntimeError:  # the threads are closed
            self._turns.end(peer, user)
            raise
        try:
            return await asyncio.wrap_future(future)
        finally:
            if future.done():
                self._turns.end(peer, user)
            else:  # the caller is gone; the thread is not free before the call is over
                future.add_done_callback(partial(self._end_from_thread, loop, peer, user))
            del future  # an error that it holds leads to this frame, and would stay with all of its call

    def close(self) -> None:
        """Let the threads end once their present calls are over."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _end_from_thread(self, loop: asyncio.AbstractEventLoop, peer: Peer, user: str, _: Future[object]) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(self._turns.end, peer, user)


class StoreThreads:
    """Four bounded sets of threads: for reads and change requests, submits, what submits look up, what is computed.

    Callers take turns at the first and the last (`Turns`). Waiting calls are bounded by the number of gRPC calls and
    streams that may be under way.

    Args:
        reader_count: Threads for requests and change requests.
        submit_count: Threads for submit transactions.
    """

    def __init__(self, *, reader_count: int, submit_count: int) -> None:
        """Make the threads; they start when first needed."""
        self._readers = _SharedThreads(reader_count, "store-read")
        self._computing = _SharedThreads(_COMPUTE_COUNT, "compute")
        self.yaml = YamlProcesses()
        """What reads YAML, while a thread of `compute` waits for it."""
        self.submits = ThreadPoolExecutor(submit_count, thread_name_prefix="store-submit")
        """Where submit transactions run."""
        self._look_ups = ThreadPoolExecutor(1, thread_name_prefix="store-look-up")

    async def run(self, function: Callable[P, Answer], *args: P.args, **kwargs: P.kwargs) -> Answer:
        """Return what a blocking call returns, called in a thread for requests when it is its caller's turn."""
        peer, caller = PEER.get(), CALLER.get()
        actor = _actor(caller, peer)
        call = partial(function, *args, **kwargs)
        return await self._readers.run(peer, _user(caller), call if actor is None else partial(_act, actor, call))

    async def compute(self, function: Callable[P, Answer], *args: P.args, **kwargs: P.kwargs) -> Answer:
        """Return what a call returns that keeps the interpreter busy, made in a thread when it is its caller's turn.

        One host has one thread at a time, so that however much it asks for, all others lose a part of one core only.
        """
        return await self._computing.run(PEER.get(), _user(CALLER.get()), partial(function, *args, **kwargs))

    async def look_up(self, function: Callable[P, Answer], *args: P.args, **kwargs: P.kwargs) -> Answer:
        """Return what a short blocking call returns that submits wait for; slow requests do not hold it up."""
        call = partial(function, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._look_ups, call)

    def close(self) -> None:
        """Let the threads end once their present calls are over."""
        self._readers.close()
        self._computing.close()
        self.yaml.close()
        self._look_ups.shutdown(wait=False, cancel_futures=True)
        self.submits.shutdown(wait=False, cancel_futures=True)


def _user(caller: Caller) -> str:
    """Return the user whose turn it is; empty for those who have no limits."""
    return caller.principal.name if caller.principal.subjects else ""


def _actor(caller: Caller, peer: Peer) -> Actor | None:
    """Return whom the audit names for what a call changes; None where nobody is asked who they are."""
    if not caller.method:
        return None
    principal = caller.principal
    return Actor(method=caller.method, principal=principal.name, acted_by=principal.acted_by, host=peer.host)


def _act(actor: Actor, call: Callable[[], Answer]) -> Answer:
    token = ACTOR.set(actor)
    try:
        return call()
    finally:
        ACTOR.reset(token)

"""Threads for the store, whose calls block: submits have their own, so that slow requests do not hold them up.

Source: `argosy_store.replicas.api`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

from argosy_runtime.access.guard import CALLER, Caller
from argosy_runtime.peers import PEER, Peer
from argosy_server.api.turns import Turns
from argosy_store.replicas.audit import ACTOR, Actor

__all__ = ["StoreThreads"]

P = ParamSpec("P")
Answer = TypeVar("Answer")


class StoreThreads:
    """Three bounded sets of threads: for reads and change requests, for submits, and for what submits look up before.

    Callers take turns at the first (`Turns`). Waiting calls are bounded by the number of gRPC calls and streams that
    may be under way.

    Args:
        reader_count: Threads for requests and change requests.
        submit_count: Threads for submit transactions.
    """

    def __init__(self, *, reader_count: int, submit_count: int) -> None:
        """Make the threads; they start when first needed."""
        self._turns = Turns(reader_count)
        self._readers = ThreadPoolExecutor(reader_count, thread_name_prefix="store-read")
        self.submits = ThreadPoolExecutor(submit_count, thread_name_prefix="store-submit")
        """Where submit transactions run."""
        self._look_ups = ThreadPoolExecutor(1, thread_name_prefix="store-look-up")

    async def run(self, function: Callable[P, Answer], *args: P.args, **kwargs: P.kwargs) -> Answer:
        """Return what a blocking call returns, called in a thread for requests when it is its caller's turn."""
        peer = PEER.get()
        actor = _actor(CALLER.get(), peer)
        await self._turns.take(peer)
        loop = asyncio.get_running_loop()
        call = partial(function, *args, **kwargs)
        try:
            future = self._readers.submit(call if actor is None else partial(_act, actor, call))
        except RuntimeError:  # the threads are closed
            self._turns.end(peer)
            raise
        try:
            return await asyncio.wrap_future(future)
        finally:
            if future.done():
                self._turns.end(peer)
            else:  # the caller is gone; the thread is not free before the call is over
                future.add_done_callback(partial(self._end_from_thread, loop, peer))

    async def look_up(self, function: Callable[P, Answer], *args: P.args, **kwargs: P.kwargs) -> Answer:
        """Return what a short blocking call returns that submits wait for; slow requests do not hold it up."""
        call = partial(function, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._look_ups, call)

    def close(self) -> None:
        """Let the threads end once their present calls are over."""
        self._readers.shutdown(wait=False, cancel_futures=True)
        self._look_ups.shutdown(wait=False, cancel_futures=True)
        self.submits.shutdown(wait=False, cancel_futures=True)

    def _end_from_thread(self, loop: asyncio.AbstractEventLoop, peer: Peer, _: Future[object]) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(self._turns.end, peer)


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

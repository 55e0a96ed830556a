"""Threads for the store, whose calls block: submits have their own, so that slow requests do not hold them up.

Source: `argosy_store.api`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

__all__ = ["StoreThreads"]

P = ParamSpec("P")
Answer = TypeVar("Answer")


class StoreThreads:
    """Three bounded sets of threads: for reads and change requests, for submits, and for what submits look up before.

    Waiting calls are bounded by the number of gRPC calls that may be under way.

    Args:
        reader_count: Threads for requests and change requests.
        submit_count: Threads for submit transactions.
    """

    def __init__(self, *, reader_count: int, submit_count: int) -> None:
        """Make the threads; they start when first needed."""
        self._readers = ThreadPoolExecutor(reader_count, thread_name_prefix="store-read")
        self.submits = ThreadPoolExecutor(submit_count, thread_name_prefix="store-submit")
        """Where submit transactions run."""
        self._look_ups = ThreadPoolExecutor(1, thread_name_prefix="store-look-up")

    async def run(self, function: Callable[P, Answer], *args: P.args, **kwargs: P.kwargs) -> Answer:
        """Return what a blocking call returns, called in a thread for requests."""
        call = partial(function, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._readers, call)

    async def look_up(self, function: Callable[P, Answer], *args: P.args, **kwargs: P.kwargs) -> Answer:
        """Return what a short blocking call returns that submits wait for; slow requests do not hold it up."""
        call = partial(function, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._look_ups, call)

    def close(self) -> None:
        """Let the threads end once their present calls are over."""
        self._readers.shutdown(wait=False, cancel_futures=True)
        self._look_ups.shutdown(wait=False, cancel_futures=True)
        self.submits.shutdown(wait=False, cancel_futures=True)

"""The life of a service: start, serve, drain, stop; the same for all of them.

::

    starting -> serving -> draining -> stopped
       |           |           ^
       +-----------+- SIGTERM, SIGINT, or a task that failed

A start that is asked to stop is given up where it waits, for a database that does not answer or a cluster that is away.
Draining: health says NOT_SERVING and intake stops, then what was accepted is finished up to a deadline, then tasks are
cancelled and things are closed in reverse order of their opening. A second signal skips to the cancelling.

Source: CONTRIBUTING.md, "Async"; design section 9.
"""

from __future__ import annotations

import asyncio
import gc
import signal
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Final

from argosy_core.errors import ArgosyError
from argosy_runtime.logs import Logger, get_logger
from argosy_runtime.traces import start_tracing

__all__ = ["Lifecycle", "run_service"]

Callback = Callable[[], Awaitable[None]]
"""Something to do while draining or stopping."""

_GC_THRESHOLDS: Final = (50_000, 20, 50)
"""Rounds make tens of thousands of short-lived values that no cycle holds; looking at them after every 700, as usual,
costs 10 to 15 % of a round (measured)."""
_STOP_DEADLINE_S: Final = 5.0  # each closing step; whatever does not close by then is left to the operating system


class Lifecycle:
    """What a service registers with and asks about its life; one per process, or one per service composed into it.

    Args:
        name: Name of the service, for logs.
        drain_s: Most time to finish what was accepted, seconds.
    """

    def __init__(self, name: str, *, drain_s: float = 10.0) -> None:
        """Make a life that has not begun."""
        self.name = name
        self._drain_s = drain_s
        self._log: Logger = get_logger()
        self._group: asyncio.TaskGroup | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._intake: list[Callback] = []
        self._drain: list[Callback] = []
        self._close: list[Callback] = []
        self.stopping = asyncio.Event()
        """Set when draining begins; loops that wait for work should wait for this too."""
        self._hurry = asyncio.Event()

    def spawn(self, work: Coroutine[Any, Any, None], *, name: str) -> asyncio.Task[None]:
        """Run a long task in the service's task group; its failure stops the service, its return does not.

        Args:
            work: The task; cancelled after draining.
            name: For logs and debuggers.
        """
        if self._group is None:
            work.close()
            raise RuntimeError("tasks can be spawned only while the service is alive")
        task = self._group.create_task(work, name=f"{self.name}: {name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def on_stop_intake(self, callback: Callback) -> None:
        """Call back first when draining: say NOT_SERVING, take nothing new."""
        self._intake.append(callback)

    def on_drain(self, callback: Callback) -> None:
        """Call back to finish what was accepted; all at once, up to the drain deadline."""
        self._drain.append(callback)

    def on_close(self, callback: Callback) -> None:
        """Call back to close something, after tasks were cancelled; in reverse order of registration."""
        self._close.append(callback)

    def request_stop(self) -> None:
        """Begin draining; called again, cut it short."""
        if self.stopping.is_set():
            self._hurry.set()
        self.stopping.set()

    async def run(self, start: Callable[[Lifecycle], Awaitable[None]]) -> None:
        """Start the service, serve until asked to stop, drain, close; a request to stop does not wait for the start.

        Args:
            start: Opens ports, spawns tasks, registers callbacks; returns once the service serves.

        Raises:
            ExceptionGroup: What a task or the start failed with; everything was closed first.
        """
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                if await self._is_started(start):
                    # What is alive now stays; leaving it out of collections keeps their pauses short.
                    gc.collect()
                    gc.freeze()
                    gc.set_threshold(*_GC_THRESHOLDS)
                    self._log.info("serving", component=self.name)
                    await self.stopping.wait()
                else:
                    self._log.warning("asked to stop while starting", component=self.name)
                await self._drain_all()
                for task in tuple(self._tasks):
                    task.cancel()
        finally:
            self.stopping.set()
            self._group = None
            await self._close_all()
            self._log.info("stopped", component=self.name)

    async def _is_started(self, start: Callable[[Lifecycle], Awaitable[None]]) -> bool:
        """Start; return False if a request to stop came first and the start was given up."""
        starting = asyncio.ensure_future(_awaited(start(self)))
        asked = asyncio.ensure_future(self.stopping.wait())
        try:
            await asyncio.wait({starting, asked}, return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                starting.result()
                return True
        finally:
            asked.cancel()
            starting.cancel()
        await asyncio.wait({starting}, timeout=_STOP_DEADLINE_S)
        if starting.done() and not starting.cancelled() and (error := starting.exception()) is not None:
            self._log.warning("the start failed while it was given up", component=self.name, exc_info=error)
        return False

    async def _drain_all(self) -> None:
        self._log.info("draining", component=self.name, deadline_s=self._drain_s)
        for callback in self._intake:
            await self._guarded(callback, "stop intake")
        work = asyncio.gather(*(self._guarded(callback, "drain") for callback in self._drain))
        hurry = asyncio.ensure_future(self._hurry.wait())
        try:
            pending: set[asyncio.Future[Any]] = {work, hurry}
            done, _ = await asyncio.wait(pending, timeout=self._drain_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            hurry.cancel()
        if work not in done:
            self._log.warning("drain cut short", component=self.name, hurried=self._hurry.is_set())
            work.cancel()
        await asyncio.gather(work, return_exceptions=True)

    async def _close_all(self) -> None:
        for callback in reversed(self._close):
            await self._guarded(callback, "close", deadline_s=_STOP_DEADLINE_S)

    async def _guarded(self, callback: Callback, step: str, *, deadline_s: float | None = None) -> None:
        # One thing that does not close must not keep the others open.
        try:
            async with asyncio.timeout(deadline_s):
                await callback()
        except Exception as error:  # noqa: BLE001 - logged; the process is going away
            self._log.error("a step of stopping failed", component=self.name, step=step, exc_info=error)


async def _awaited(work: Awaitable[None]) -> None:
    """Be a coroutine that awaits whatever a start returned."""
    await work


def run_service(name: str, start: Callable[[Lifecycle], Awaitable[None]], *, drain_s: float = 10.0) -> int:
    """Run one service as this process until SIGTERM or SIGINT; the second signal cuts draining short.

    Args:
        name: Name of the service.
        start: As for `Lifecycle.run`.
        drain_s: Most time to finish what was accepted, seconds.

    Returns:
        Exit code: 0 after a stop that was asked for, 1 after a fault, 2 if it could not start as configured.
    """
    return asyncio.run(_serve(name, start, drain_s))


async def _serve(name: str, start: Callable[[Lifecycle], Awaitable[None]], drain_s: float) -> int:
    life = Lifecycle(name, drain_s=drain_s)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, life.request_stop)
    log = get_logger()
    try:
        await life.run(partial(_start_traced, name, start))
    except* ArgosyError as group:
        for error in _leaves(group):
            log.error("cannot run", component=name, reason=str(error), kind=type(error).__name__)  # noqa: TRY400 - ours
        return_code = 2
    except* Exception:
        log.exception("service failed", component=name)
        return_code = 1
    else:
        return_code = 0
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
    return return_code


async def _start_traced(name: str, start: Callable[[Lifecycle], Awaitable[None]], life: Lifecycle) -> None:
    """Start a service, with traces if the environment asks for them; they are sent last when it stops."""
    kind, _, cluster = name.partition(" ")
    tracing = start_tracing(f"argosy-{kind.removeprefix('argosy-')}", instance=cluster)
    if tracing is not None:
        life.on_close(partial(asyncio.to_thread, tracing.close))
    await start(life)


def _leaves(group: BaseExceptionGroup[ArgosyError]) -> list[ArgosyError]:
    found: list[ArgosyError] = []
    for error in group.exceptions:
        found.extend(_leaves(error) if isinstance(error, BaseExceptionGroup) else [error])
    return found

"""A simulated cluster alive: the engine with a clock, watchers that wait, and the port without a socket."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable

import numpy as np

from argosy_core.errors import BackendUnavailable
from argosy_kube.port import (
    Change,
    NodeDescription,
    NodeEvents,
    WatchGone,
)
from argosy_kube.simulated.engine import ClusterEngine
from argosy_kube.simulated.faults import Audit, Fault
from argosy_kube.simulated.objects import EventBlock
from argosy_kube.simulated.selection import Tables

__all__ = ["ClusterHost", "wall_clock"]

_BOOKMARK_INTERVAL_S = 5.0


def wall_clock() -> Callable[[], int]:
    """Return a clock in microseconds since the Unix epoch that never goes back."""
    offset_us = (time.time_ns() - time.monotonic_ns()) // 1000

    def read() -> int:
        return time.monotonic_ns() // 1000 + offset_us

    return read


class ClusterHost:
    """An engine with a clock; several connections or in-process clusters may use it at once."""

    def __init__(self, engine: ClusterEngine, *, clock: Callable[[], int], flush_interval_s: float = 0.05) -> None:
        """Wrap an engine.

        Args:
            engine: The state.
            clock: Microseconds since the Unix epoch, never going back.
            flush_interval_s: How long events gather before watchers see them.
        """
        self.engine = engine
        self._clock = clock
        self._flush_interval_s = flush_interval_s
        self._news = asyncio.Event()
        self._node_news = asyncio.Event()
        self._tables: Tables | None = None

    async def run(self) -> None:
        """Let time pass until cancelled."""
        while True:
            await asyncio.sleep(self._flush_interval_s)
            self.tick()

    def tick(self) -> None:
        """Let time pass up to now and show watchers what happened."""
        self.engine.advance(self._clock())
        if self.engine.journal.flush():
            self.wake()

    def wake(self) -> None:
        """Let watchers of objects look again."""
        news, self._news = self._news, asyncio.Event()
        news.set()

    def _wake_all(self) -> None:
        """Let watchers of nodes look again, too: pods come and go without them."""
        self.wake()
        news, self._node_news = self._node_news, asyncio.Event()
        news.set()

    def meet(self) -> ClusterEngine:
        """Return the engine at the present time, for one call.

        Raises:
            BackendUnavailable: A failure on order stands against the call.
        """
        if self.engine.faults.take("unavailable"):
            msg = "the cluster does not answer"
            raise BackendUnavailable(msg)
        self.engine.touch(self._clock())
        return self.engine

    def inject(self, fault: Fault) -> None:
        """Make a failure happen; see Fault."""
        self.engine.touch(self._clock())
        self.engine.inject(fault)
        self.tick()
        self._wake_all()

    def put_nodes(self, nodes: tuple[NodeDescription, ...]) -> None:
        """Add or change nodes."""
        for node in nodes:
            self.engine.put_node(node)
        self._wake_all()

    def remove_node(self, name: str) -> None:
        """Take a node and its pods away."""
        self.engine.remove_node(name)
        self.tick()
        self._wake_all()

    def add_unmanaged_pods(self, node: str, amounts: dict[str, int], count: int) -> None:
        """Put pods of somebody else on a node."""
        self.engine.touch(self._clock())
        self.engine.add_unmanaged_pods(node, amounts, count)
        self.tick()

    def audit(self) -> Audit:
        """Return what was counted so far."""
        self.engine.advance(self._clock())
        return self.engine.audit()

    def tables(self) -> Tables:
        """Return the tables as they are now; each is the same object until it grows."""
        engine, known = self.engine, self._tables
        requests = engine.requests.matrix
        if (
            known is None
            or known.requests is not requests
            or known.nodes is not engine.nodes.names
            or known.texts is not engine.texts.texts
            or known.kinds is not engine.kinds.texts
        ):
            known = self._tables = Tables(
                kinds=engine.kinds.texts,
                nodes=engine.nodes.names,
                texts=engine.texts.texts,
                resources=engine.requests.axis.names,
                requests=requests,
                notes=engine.requests.notes,
            )
        return known

    async def watch_blocks(self, version: int) -> AsyncGenerator[EventBlock | None, None]:
        """Give blocks with events after a version; None now and then when there are none; ends when told to.

        Raises:
            WatchGone: The version is too old.
        """
        engine = self.engine
        drops = engine.journal.drops
        while engine.journal.drops == drops:
            news = self._news
            blocks = engine.journal.history.after(version)
            for block in blocks:
                version = block.last_version
                yield block
            if not blocks and not await _wait(news):
                yield None

    def node_changes(self, version: int) -> NodeEvents:
        """Return the changes of nodes after a version.

        Raises:
            WatchGone: The version is too old.
        """
        engine = self.engine
        if version < engine.journal.node_floor or version > engine.journal.history.version:
            msg = f"version {version} is no longer kept (oldest is {engine.journal.node_floor}); list again"
            raise WatchGone(msg)
        newer = [entry for entry in engine.journal.node_history if entry[0] > version]
        return NodeEvents(
            change_column=np.array([entry[1] for entry in newer], dtype=np.int8),
            nodes=tuple(entry[2] for entry in newer),
            version=engine.journal.history.version,
        )

    async def watch_nodes(self, version: int) -> AsyncGenerator[NodeEvents, None]:
        """Give the changes of nodes after a version; see Cluster.watch_nodes."""
        drops = self.engine.journal.drops
        while self.engine.journal.drops == drops:
            news = self._node_news
            events = self.node_changes(version)
            if len(events) or not await _wait(news):
                version = events.version
                yield events

    def present_nodes(self) -> NodeEvents:
        """Return every node as ADDED."""
        engine = self.engine
        nodes = tuple(engine.nodes.descriptions[index] for index in engine.nodes.present_indices())
        changes = np.full(len(nodes), Change.ADDED, dtype=np.int8)
        return NodeEvents(change_column=changes, nodes=nodes, version=engine.journal.history.version)


async def _wait(news: asyncio.Event) -> bool:
    """Wait for news; return False if none came for some seconds."""
    try:
        async with asyncio.timeout(_BOOKMARK_INTERVAL_S):
            await news.wait()
    except TimeoutError:
        return False
    return True

"""What nodes, as they were told, say of scheduling classes: warnings of submits, and reasons to wait in lists.

A warning refuses nothing, and nobody waits long for it. What the leader says of a scheduling class is remembered, and
it is asked seldom: a submit of classes that are new meanwhile goes without.

Source: design section 5, "Submit"; section 9 (explanations).
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

import grpc

from argosy.lease.v1 import outlook_pb2, outlook_pb2_grpc
from argosy_core.errors import ArgosyError
from argosy_core.job.reading.classes import SchedulingClass
from argosy_core.nodes import NodeColumns, NodeTable
from argosy_core.placement import WaitReason
from argosy_core.plugins import find_missing
from argosy_core.scheduler import ClusterStanding, reason_by_nodes
from argosy_server.api.leadership.leader_view import LeaderView
from argosy_server.api.leadership.routing import LeaderRouter

__all__ = ["ClassOutlook", "KnownNodes", "Wait"]

Wait = tuple[WaitReason, bytes, bool]
"""(why jobs wait by the leader's memory, the definition of their class, whether their queue is cordoned)."""

_KEEP_S: Final = 30.0
"""How long it is remembered that no node can hold a class; nodes may have come."""
_KEEP_HELD_S: Final = 300.0
"""How long that some can: their going is told seldom and late by a warning, and looking costs the leader 0.4 ms."""
_MOST_KEPT: Final = 10_000
_MOST_ASKED: Final = 10
"""Classes asked of at once: a few milliseconds each for tens of thousands of nodes."""
_PERIOD_S: Final = 0.5
"""A pool's leader is asked at most this often by one replica."""
_MOST_LOOKED_AT: Final = 32
"""New classes that one list looks at, likewise."""
_WAIT_S: Final = 0.25
"""How long a submit waits for an answer: the first of its class, once it is stored."""
_TABLES_S: Final = 5.0
_UNTOLD: Final[tuple[float, tuple[str, ...]]] = (0.0, ())


class KnownNodes:
    """Says of classes what no node has that they ask for, by what samplers have told the leader of this process.

    Args:
        clock_s: Monotonic clock.
    """

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        """Start knowing nothing."""
        self._clock_s = clock_s
        self._tables: Mapping[str, NodeTable] = {}
        self._until_s = 0.0
        self._reasons: dict[Wait, WaitReason] = {}
        self._turn = asyncio.Lock()

    async def find_missing(self, view: LeaderView, definitions: Sequence[bytes]) -> list[tuple[str, ...]]:
        """Return what is missing for each class, empty for nothing or if no node is known; as of 5 s ago at most."""
        async with self._turn:
            columns = view.node_columns() if self._clock_s() >= self._until_s else None
            return await asyncio.to_thread(self._find, columns, definitions)

    async def find_reasons(
        self, view: LeaderView, waits: Collection[Wait], clusters: Callable[[], Mapping[str, ClusterStanding]]
    ) -> dict[Wait, WaitReason]:
        """Return why jobs wait that wait alike, as explanations of them say it; as of 5 s ago at most.

        A list is not kept up by many classes: the first new ones are looked at, and the rest of them is left out.

        Args:
            view: The leader.
            waits: What is asked, each once.
            clusters: Tells how clusters stand, for explanations; called in a thread, if anything is new.
        """
        async with self._turn:
            columns = view.node_columns() if self._clock_s() >= self._until_s else None
            if columns is None and all(wait in self._reasons for wait in waits):
                return {wait: self._reasons[wait] for wait in waits}
            return await asyncio.to_thread(self._look, columns, waits, clusters)

    def _look(
        self,
        columns: Mapping[str, NodeColumns] | None,
        waits: Collection[Wait],
        clusters: Callable[[], Mapping[str, ClusterStanding]],
    ) -> dict[Wait, WaitReason]:
        self._take(columns)
        fresh = [wait for wait in waits if wait not in self._reasons][:_MOST_LOOKED_AT]
        standings = clusters() if fresh else {}
        for reason, definition, is_of_queue in fresh:
            self._reasons[reason, definition, is_of_queue] = reason_by_nodes(
                reason,
                SchedulingClass.parse(definition),
                self._tables,
                clusters=standings,
                is_of_queue=is_of_queue,
            )
        return {wait: self._reasons[wait] for wait in waits if wait in self._reasons}

    def _take(self, columns: Mapping[str, NodeColumns] | None) -> None:
        if columns is not None:
            self._tables = {name: NodeTable.of(one) for name, one in columns.items()}
            self._until_s = self._clock_s() + _TABLES_S
            self._reasons.clear()

    def _find(self, columns: Mapping[str, NodeColumns] | None, definitions: Sequence[bytes]) -> list[tuple[str, ...]]:
        self._take(columns)
        if not any(len(table.live()) for table in self._tables.values()):
            return [()] * len(definitions)
        return [find_missing(self._tables, SchedulingClass.parse(definition)) for definition in definitions]


class ClassOutlook:
    """Remembers what leaders say of classes.

    Args:
        router: Finds leaders.
        nodes: Answers for the leader of this process.
        clock_s: Monotonic clock.
    """

    def __init__(self, router: LeaderRouter, nodes: KnownNodes, clock_s: Callable[[], float] = time.monotonic) -> None:
        """Start knowing nothing."""
        self._router = router
        self._nodes = nodes
        self._clock_s = clock_s
        self._known: OrderedDict[tuple[str, bytes], tuple[float, tuple[str, ...]]] = OrderedDict()
        self._next_s: dict[str, float] = {}

    async def missing(self, pool: str, definitions: Sequence[bytes]) -> dict[bytes, tuple[str, ...]]:
        """Return what is known to be missing for classes; those of which nothing is known are left out."""
        now_s = self._clock_s()
        told = {one: self._known.get((pool, one), _UNTOLD) for one in definitions}
        fresh = [one for one, (until_s, _) in told.items() if until_s <= now_s][:_MOST_ASKED]
        if fresh and self._next_s.get(pool, 0.0) <= now_s:
            self._next_s[pool] = now_s + _PERIOD_S
            try:
                async with asyncio.timeout(_WAIT_S):
                    found = await self._ask(pool, fresh)
            except (ArgosyError, grpc.aio.AioRpcError, TimeoutError):
                found = []
            for definition, texts in zip(fresh, found, strict=False):
                kept_s = _KEEP_S if texts else _KEEP_HELD_S
                self._known[pool, definition] = told[definition] = now_s + kept_s, texts
            while len(self._known) > _MOST_KEPT:
                self._known.popitem(last=False)
        return {one: texts for one, (until_s, texts) in told.items() if until_s > now_s}

    async def _ask(self, pool: str, definitions: Sequence[bytes]) -> list[tuple[str, ...]]:
        view = self._router.view(pool)
        if view is not None:
            return await self._nodes.find_missing(view, definitions)
        answer = await self._router.forward(
            pool,
            lambda channel: outlook_pb2_grpc.OutlookServiceStub(channel).FindMissing,
            outlook_pb2.FindMissingRequest(pool=pool, definitions=definitions),
            context=None,
        )
        return [tuple(one.texts) for one in answer.classes]

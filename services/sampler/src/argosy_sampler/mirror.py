"""The mirror: keeps the ledger's nodes and pods what the cluster shows.

Everything starts from a full list; a watch then goes on from the list's version. A watch that ends is resumed; one that
is told its version is gone starts from a list again. Nothing here depends on seeing every step in between.

Source: design section 5, "Sampler lost"; `argosy_kube.port`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from typing import Any, Final, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from argosy_core.errors import BackendUnavailable
from argosy_core.ledger import NodeLedger, PodEvents, RunPods, run_keys
from argosy_core.nodes import NodeSpec
from argosy_kube.port import (
    Change,
    Cluster,
    NodeDescription,
    NodeEvents,
    ObjectEvents,
    PodPhase,
    Selector,
    WatchGone,
)
from argosy_runtime.channel import Backoff
from argosy_runtime.logs import Logger

__all__ = ["Mirror"]

_ENDED: Final = np.zeros(8, dtype=np.bool_)
_ENDED[[PodPhase.SUCCEEDED, PodPhase.FAILED]] = True


class _Batch(Protocol):
    """A batch of events of any kind."""

    @property
    def version(self) -> int:
        """Version to resume from."""


B = TypeVar("B", bound=_Batch)


class Mirror:
    """Copies nodes and pods of a cluster into a ledger.

    Args:
        cluster: The cluster.
        ledger: Where to; the mirror and the session's handler change it on one event loop, so never at once.
        backoff: Makes the waits between attempts to reach the cluster.
        log: Where failures to reach it are told.
    """

    def __init__(self, cluster: Cluster, ledger: NodeLedger, *, backoff: Callable[[], Backoff], log: Logger) -> None:
        """Start without having seen anything."""
        self._cluster = cluster
        self._ledger = ledger
        self._backoff = backoff
        self._log = log
        self._run_pods = RunPods()
        self._nodes_listed = asyncio.Event()
        self._pods_listed = asyncio.Event()
        self._names: tuple[str, ...] | None = None
        self._rows: npt.NDArray[np.int32] = np.zeros(0, dtype=np.int32)
        self._requests: npt.NDArray[np.int64] | None = None
        self._mapped: npt.NDArray[np.int64] = np.zeros((0, 0), dtype=np.int64)
        self._shapes: list[npt.NDArray[np.int64]] = []

    async def cluster_uid(self) -> str:
        """Return the cluster's uid, waiting until the cluster can be reached."""
        backoff = self._backoff()
        while True:
            try:
                return await self._cluster.cluster_uid()
            except BackendUnavailable as error:
                await self._wait(backoff, "cluster uid", error)

    async def wait_listed(self) -> None:
        """Return once nodes and pods were listed in full."""
        await self._nodes_listed.wait()
        await self._pods_listed.wait()

    async def follow_nodes(self) -> None:
        """Keep the nodes up to date until cancelled."""
        await self._follow("nodes", self._list_nodes, self._cluster.watch_nodes, self.take_nodes)

    async def follow_pods(self) -> None:
        """Keep the pods up to date until cancelled."""

        def watch(version: int) -> AsyncGenerator[ObjectEvents, None]:
            return self._cluster.watch_objects(Selector.ALL_PODS, version)

        await self._follow("pods", self._list_pods, watch, self.take_pods)

    async def _follow(
        self,
        what: str,
        take_list: Callable[[], Coroutine[Any, Any, int]],
        watch: Callable[[int], AsyncGenerator[B, None]],
        take: Callable[[B], None],
    ) -> None:
        backoff = self._backoff()
        version: int | None = None
        while True:
            try:
                if version is None:
                    version = await take_list()
                    backoff.reset()
                received = False
                async with aclosing(watch(version)) as stream:
                    async for batch in stream:
                        take(batch)
                        version = batch.version
                        received = True
                if received:
                    backoff.reset()
                else:  # a watch that ends at once must not become a busy loop
                    await asyncio.sleep(backoff.next_wait_s())
            except WatchGone:
                version = None
            except BackendUnavailable as error:
                await self._wait(backoff, what, error)

    async def _wait(self, backoff: Backoff, what: str, error: BackendUnavailable) -> None:
        wait_s = backoff.next_wait_s()
        self._log.warning("cluster unavailable", what=what, reason=error.message, wait_s=round(wait_s, 3))
        await asyncio.sleep(wait_s)

    # --- nodes --------------------------------------------------------------------------------------------------------

    async def _list_nodes(self) -> int:
        listed = await self._cluster.list_nodes()
        present = {node.name for node in listed.nodes}
        table = self._ledger.nodes
        gone = [name for name in (table.names[row] for row in table.live().tolist()) if name not in present]
        self._ledger.remove_nodes(gone)
        self.take_nodes(listed)
        self._nodes_listed.set()
        return listed.version

    def take_nodes(self, events: NodeEvents) -> None:
        """Take in changes of nodes."""
        last = {node.name: (change, node) for change, node in zip(events.change_column, events.nodes, strict=True)}
        put = [_spec(node) for change, node in last.values() if change != Change.DELETED]
        removed = [name for name, (change, _) in last.items() if change == Change.DELETED]
        if put:
            self._ledger.put_nodes(put)
        if removed:
            self._ledger.remove_nodes(removed)

    # --- pods ---------------------------------------------------------------------------------------------------------

    async def _list_pods(self) -> int:
        listed = await self._cluster.list_objects(Selector.ALL_PODS)
        self._run_pods.clear()
        self._ledger.observe_all(self._pod_events(listed))
        self._pods_listed.set()
        return listed.version

    def take_pods(self, events: ObjectEvents) -> None:
        """Take in changes of pods, strangers' included."""
        if len(events):
            self._ledger.observe(self._pod_events(events))

    def _pod_events(self, events: ObjectEvents) -> PodEvents:
        if events.nodes is not self._names:
            self._names, self._rows = events.nodes, self._ledger.rows_of_names(events.nodes)
        self._ledger.extend_axis(events.resources)
        axis = self._ledger.axis
        if events.requests is not self._requests or self._mapped.shape[1] != len(axis):
            self._requests = events.requests
            # One row more, of zeros, for the index -1.
            self._mapped = np.zeros((len(events.requests) + 1, len(axis)), dtype=np.int64)
            for column, name in enumerate(events.resources):
                self._mapped[:-1, axis.index(name)] = events.requests[:, column]
            self._shapes = list(self._mapped)
        if len(self._rows):
            nodes = np.where(events.node_column >= 0, self._rows[events.node_column], np.int32(-1))
        else:
            nodes = np.full(len(events), -1, dtype=np.int32)
        keys = run_keys(events.handle_column, events.attempt_column)
        pods = PodEvents(
            run_keys=keys if events.ours_column.all() else np.where(events.ours_column, keys, 0),
            uids=np.ascontiguousarray(events.uid_column),
            nodes=nodes,
            ended=_ENDED[events.phase_column] | (events.change_column == Change.DELETED),
            requests=self._mapped[events.request_column],
        )
        return self._run_pods.fold(pods, self._shapes, events.request_column)


def _spec(node: NodeDescription) -> NodeSpec:
    return NodeSpec(
        name=node.name,
        total=node.allocatable,
        labels=node.labels,
        taints=node.taints,
        platform=(node.operating_system, node.architecture),
        ready=node.ready,
        unschedulable=node.unschedulable,
    )

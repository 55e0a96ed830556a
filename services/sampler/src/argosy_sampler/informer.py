"""The informer: keeps the ledger's nodes and pods what the cluster shows.

Everything starts from a full list; a watch then goes on from the list's version (`argosy_kube.following`). Nothing here
depends on seeing every step in between.

Source: design section 5, "Sampler lost"; `argosy_kube.port`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.errors import BackendUnavailable
from argosy_core.framework import Framework, NodesChanged, Point
from argosy_core.job.tables.members import Members
from argosy_core.ledger import NodeLedger, PodEvents
from argosy_core.nodes import NodeSpec
from argosy_kube.following import Follower
from argosy_kube.port import (
    Change,
    Cluster,
    NodeDescription,
    NodeEvents,
    ObjectEvents,
    PodPhase,
    Selector,
)
from argosy_runtime.channel import Backoff
from argosy_runtime.logs import Logger

__all__ = ["Informer"]

_ENDED: Final = np.zeros(8, dtype=np.bool_)
_ENDED[[PodPhase.SUCCEEDED, PodPhase.FAILED]] = True
_DELETED: Final = int(Change.DELETED)
_OVERHEADS_S: Final = 60.0
"""How often runtime classes are listed: few, and they change when somebody installs one."""


class Informer:
    """Copies nodes and pods of a cluster into a ledger.

    Args:
        cluster: The cluster.
        ledger: Where to; the informer and the session's handler change it on one event loop, so never at once.
        framework: Whose event functions are told of nodes and pods.
        backoff: Makes the waits between attempts to reach the cluster.
        log: Where failures to reach it are told.
        see_pods: Called with whatever is heard of pods, before the ledger takes it in; nobody if None.
    """

    def __init__(
        self,
        cluster: Cluster,
        ledger: NodeLedger,
        *,
        framework: Framework,
        backoff: Callable[[], Backoff],
        log: Logger,
        see_pods: Callable[[ObjectEvents], None] | None = None,
    ) -> None:
        """Start without having seen anything."""
        self._cluster = cluster
        self._ledger = ledger
        self._framework = framework
        self._backoff = backoff
        self._log = log
        self._see_pods = see_pods
        self._nodes_listed = asyncio.Event()
        self._pods_listed = asyncio.Event()
        self._overheads_read = asyncio.Event()
        self._names: tuple[str, ...] | None = None
        self._renamed_at = 0
        self._rows: npt.NDArray[np.int32] = np.zeros(0, dtype=np.int32)
        self._resources: tuple[str, ...] = ()
        self._requests: npt.NDArray[np.int64] | None = None
        self._mapped: npt.NDArray[np.int64] = np.zeros((0, 0), dtype=np.int64)

    async def cluster_uid(self) -> str:
        """Return the cluster's uid, waiting until the cluster can be reached."""
        backoff = self._backoff()
        while True:
            try:
                return await self._cluster.cluster_uid()
            except BackendUnavailable as error:
                wait_s = backoff.next_wait_s()
                self._tell("cluster uid", error, wait_s)
                await asyncio.sleep(wait_s)

    async def wait_listed(self) -> None:
        """Return once nodes and pods were listed in full, and runtime classes looked at."""
        await self._nodes_listed.wait()
        await self._pods_listed.wait()
        await self._overheads_read.wait()

    async def follow_runtime_classes(self) -> None:
        """Keep the overheads of runtime classes up to date until cancelled; they change with the nodes' software."""
        backoff = self._backoff()
        while True:
            try:
                overheads = await self._cluster.runtime_overheads()
            except BackendUnavailable as error:
                wait_s = backoff.next_wait_s()
                self._tell("runtime classes", error, wait_s)
                await asyncio.sleep(wait_s)
                continue
            backoff.reset()
            if overheads is not None:
                self._ledger.set_overheads(overheads)
            self._overheads_read.set()
            await asyncio.sleep(_OVERHEADS_S)

    async def follow_nodes(self) -> None:
        """Keep the nodes up to date until cancelled."""
        await Follower(
            self._cluster.list_nodes,
            self._cluster.watch_nodes,
            take_list=self._take_node_list,
            take=self.take_nodes,
            tell=partial(self._tell, "nodes"),
            waits=self._backoff(),
        ).run()

    async def follow_pods(self) -> None:
        """Keep the pods up to date until cancelled."""
        await Follower(
            partial(self._cluster.list_objects, Selector.ALL_PODS),
            partial(self._cluster.watch_objects, Selector.ALL_PODS),
            take_list=self._take_pod_list,
            take=self.take_pods,
            tell=partial(self._tell, "pods"),
            waits=self._backoff(),
        ).run()

    def _tell(self, what: str, error: BackendUnavailable, wait_s: float) -> None:
        self._log.warning("cluster unavailable", what=what, reason=error.message, wait_s=round(wait_s, 3))

    # --- nodes --------------------------------------------------------------------------------------------------------

    def _take_node_list(self, listed: NodeEvents) -> None:
        present = {node.name for node in listed.nodes}
        table = self._ledger.nodes
        gone = [name for name in (table.names[row] for row in table.live().tolist()) if name not in present]
        self._change_nodes([], gone)
        self.take_nodes(listed)
        self._nodes_listed.set()

    def take_nodes(self, events: NodeEvents) -> None:
        """Take in changes of nodes."""
        last = {node.name: (change, node) for change, node in zip(events.change_column, events.nodes, strict=True)}
        put = [_spec(node) for change, node in last.values() if change != Change.DELETED]
        removed = [name for name, (change, _) in last.items() if change == Change.DELETED]
        self._change_nodes(put, removed)

    def _change_nodes(self, put: list[NodeSpec], removed: list[str]) -> None:
        if put:
            self._ledger.put_nodes(put)
        if removed:
            self._ledger.remove_nodes(removed)
        if self._framework.has(Point.EVENT) and (put or removed):
            self._framework.notify(NodesChanged(put=tuple(put), removed=tuple(removed)))

    # --- pods ---------------------------------------------------------------------------------------------------------

    def _take_pod_list(self, listed: ObjectEvents) -> None:
        pods, column = self._pod_events(listed), listed.request_column
        self._tell_pods(self._ledger.take_pod_list(pods, shapes=self._mapped, shape_column=column))
        self._pods_listed.set()

    def take_pods(self, events: ObjectEvents) -> None:
        """Take in changes of pods, unmanaged ones included."""
        if len(events):
            pods, column = self._pod_events(events), events.request_column
            self._tell_pods(self._ledger.take_pods(pods, shapes=self._mapped, shape_column=column))

    def _tell_pods(self, pods: PodEvents) -> None:
        if self._framework.has(Point.EVENT):
            self._framework.notify(pods)

    def _pod_events(self, events: ObjectEvents) -> PodEvents:
        if self._see_pods is not None:
            self._see_pods(events)
        table = self._ledger.nodes
        if events.nodes is not self._names or table.last_rename != self._renamed_at:
            self._names, self._rows = events.nodes, self._ledger.rows_of_names(events.nodes)
            self._renamed_at = table.last_rename
        if events.resources is not self._resources:
            self._ledger.extend_axis(events.resources)
            self._resources = events.resources
        axis = self._ledger.axis
        if events.requests is not self._requests or self._mapped.shape[1] != len(axis):
            self._requests = events.requests
            # One row more, of zeros, for the index -1.
            self._mapped = np.zeros((len(events.requests) + 1, len(axis)), dtype=np.int64)
            for column, name in enumerate(events.resources):
                self._mapped[:-1, axis.index(name)] = events.requests[:, column]
        if len(self._rows):
            nodes = self._rows[events.node_column]
            nodes[events.node_column < 0] = -1
        else:
            nodes = np.full(len(events), -1, dtype=np.int32)
        ordinals = events.ordinal_column
        if np.count_nonzero(events.ours_column) < len(events):
            ordinals = np.where(events.ours_column, ordinals, 0)
        return PodEvents(
            members=Members(events.handle_column.astype(np.int64, copy=False), ordinals),
            uids=np.ascontiguousarray(events.uid_column),
            nodes=nodes,
            ended=_ENDED[events.phase_column] | (events.change_column == _DELETED),
            requests=self._mapped[events.request_column],
            host_ports=events.host_ports,
            scalings=events.scalings,
        )


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

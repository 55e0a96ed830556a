"""The simulated cluster without a socket: the cluster port on a host in the same process."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator

from argosy_core.reconcile import Creates, Deletes
from argosy_kube.port import CreateResult, DeleteResult, NodeEvents, ObjectEvents, Selector
from argosy_kube.simulated.host import ClusterHost
from argosy_kube.simulated.objects import EventColumns
from argosy_kube.simulated.pod_log import SIMULATED_CONTAINER, read_simulated_log
from argosy_kube.simulated.selection import build_events, select_block, select_columns, select_objects

__all__ = ["InProcessCluster"]


class InProcessCluster:
    """The cluster port on a ClusterHost in the same process."""

    def __init__(self, host: ClusterHost, installation: str) -> None:
        """Open the host's cluster for one installation."""
        self._host = host
        self._installation = host.engine.installations.intern(installation)

    async def cluster_uid(self) -> str:
        """See Cluster."""
        return self._host.meet().uid

    async def list_nodes(self) -> NodeEvents:
        """See Cluster."""
        self._host.meet()
        return self._host.present_nodes()

    async def watch_nodes(self, version: int) -> AsyncGenerator[NodeEvents, None]:
        """See Cluster."""
        self._host.meet()
        async for events in self._host.watch_nodes(version):
            yield events

    async def runtime_overheads(self) -> dict[str, dict[str, int]] | None:
        """See Cluster; a simulated cluster has no runtime classes."""
        return None

    async def list_objects(self, selector: Selector) -> ObjectEvents:
        """See Cluster."""
        engine = self._host.meet()
        columns = select_columns(engine.journal.present(), selector, self._installation)
        self._host.wake()
        return self._build(columns, engine.journal.history.version)

    async def watch_objects(self, selector: Selector, version: int) -> AsyncGenerator[ObjectEvents, None]:
        """See Cluster."""
        self._host.meet()
        async for block in self._host.watch_blocks(version):
            if block is not None:
                columns = select_block(block, selector, self._installation, version)
                version = block.last_version
                if len(columns):
                    yield self._build(columns, version)

    async def create_objects(self, batch: Creates) -> CreateResult:
        """See Cluster."""
        return self._host.meet().create(batch, self._installation)

    async def delete_objects(self, batch: Deletes) -> DeleteResult:
        """See Cluster."""
        return self._host.meet().delete(batch)

    async def find_objects(self, batch: Creates) -> ObjectEvents:
        """See Cluster; objects of a simulated cluster have no labels that somebody could change."""
        engine = self._host.meet()
        runs = (batch.handle_column, batch.ordinal_column, batch.object_column)
        columns = select_objects(engine.journal.present(), runs, self._installation)
        self._host.wake()
        return self._build(columns, engine.journal.history.version)

    async def container_names(self, handle: int, ordinal: int, object_index: int) -> tuple[str, ...]:  # noqa: ARG002 - all alike
        """See Cluster."""
        return (SIMULATED_CONTAINER,)

    async def read_log(  # noqa: PLR0913 - what can be said of a log
        self,
        handle: int,
        ordinal: int,
        object_index: int,
        *,
        container: str = "",
        follow: bool,
        tail_line_count: int | None,
        timestamps: bool = False,
        since_s: int = 0,
    ) -> AsyncGenerator[bytes, None]:
        """See Cluster."""
        self._host.meet()
        run = (handle, ordinal, object_index)
        pieces = read_simulated_log(
            self._host,
            self._installation,
            run,
            container=container,
            follow=follow,
            tail=tail_line_count,
            timestamps=timestamps,
            since_s=since_s,
        )
        async with contextlib.aclosing(pieces):
            async for piece in pieces:
                yield piece

    async def close(self) -> None:
        """See Cluster."""

    def _build(self, columns: EventColumns, version: int) -> ObjectEvents:
        return build_events(columns, self._host.tables(), installation=self._installation, version=version)

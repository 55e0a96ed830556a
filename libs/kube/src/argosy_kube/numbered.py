"""A cluster whose versions are counted here, so that `argosy_kube.shared` can share its watch.

`SharedCluster` asks that a version means the same for lists and watches of every selector, and that later batches have
greater versions. An API server has neither: each kind has its own resource version. So the events of the one watch are
numbered as they come, and a list gets the number of the moment at which it was asked for: whatever was told by then is
in the list, and whatever is told later is told to who listed, perhaps for the second time. Nothing is left out.

Source: `argosy_kube.port`; design section 5, "Sync" and "Sampler lost".
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Final

import numpy as np

from argosy_kube.port import (
    Cluster,
    ObjectEvents,
    Selector,
    WatchGone,
)
from argosy_kube.shared import PassedOn, select_events

__all__ = ["NumberedCluster"]

_KEPT: Final = 4096
"""Numbers of which is known where a watch goes on."""


class NumberedCluster(PassedOn):
    """A cluster with versions of its own; implements the cluster port, watches of objects with `Selector.SHARED` only.

    Args:
        cluster: The cluster; it must know `Selector.SHARED`, and is closed with this one.
    """

    def __init__(self, cluster: Cluster) -> None:
        """Have told nothing yet."""
        super().__init__(cluster)
        self._number = 0
        self._starts: OrderedDict[int, int] = OrderedDict()
        self._watch_count = 0
        self._listing = asyncio.Lock()

    async def list_objects(self, selector: Selector) -> ObjectEvents:
        """See Cluster. Without a watch under way everything is listed, for one may begin from there."""
        async with self._listing:
            if self._watch_count:
                number = self._number
                events = await self._cluster.list_objects(selector)
            else:
                self._number += 1
                number = self._number
                everything = await self._cluster.list_objects(Selector.SHARED)
                self._keep(number, everything.version)
                events = select_events(everything, selector)
        return replace(events, version=number, version_column=np.full(len(events), number, dtype=np.int64))

    async def watch_objects(self, selector: Selector, version: int) -> AsyncGenerator[ObjectEvents, None]:
        """See Cluster.

        Raises:
            WatchGone: The version is none of those given out last, or too old for the cluster.
        """
        start = self._starts.get(version)
        if start is None or selector != Selector.SHARED:
            raise WatchGone(f"what came after version {version} is not known here any more; list again")
        self._watch_count += 1
        try:
            async with aclosing(self._cluster.watch_objects(Selector.SHARED, start)) as batches:
                async for events in batches:
                    first = self._number + 1
                    self._number += max(len(events), 1)
                    self._keep(self._number, events.version)
                    numbers = np.arange(first, first + len(events), dtype=np.int64)
                    yield replace(events, version=self._number, version_column=numbers)
        finally:
            self._watch_count -= 1

    def _keep(self, number: int, version: int) -> None:
        self._starts[number] = version
        if len(self._starts) > _KEPT:
            self._starts.popitem(last=False)

"""Logs of pods that have ended on their way to the archive, beside everything else the executor does.

Pods that end are noted as they are seen, which costs a look at the columns of a batch; reading and keeping is done by a
few tasks, from a bounded queue. What does not fit the queue, or cannot be read before the pod is gone, is counted and
not kept.

Source: `docs/executor.md`, "Logs of pods that are gone".
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from typing import Final

import numpy as np

from argosy_core.arrays import has_true, true_places
from argosy_core.errors import ArgosyError, NotFound
from argosy_kube.port import Change, Cluster, ObjectEvents, PodPhase
from argosy_runtime.log_archives.archive import KeptLog, LogArchive, LogArchiveSettings, log_key
from argosy_runtime.logs import get_logger
from argosy_runtime.metrics import METRICS

__all__ = ["LogShipper"]

_MOST_NOTED: Final = 100_000
"""Pods remembered so that none is shipped twice; each stands in many events, and again in every listing."""

_DELETED: Final = int(Change.DELETED)

Key = tuple[int, int, int]


class LogShipper:
    """Ships the logs of pods that ended.

    Args:
        cluster: Where the logs are.
        archive: Where they go.
        settings: Which, and how much.
        name: Name of the cluster, for metrics.
    """

    def __init__(self, cluster: Cluster, archive: LogArchive, settings: LogArchiveSettings, *, name: str) -> None:
        """Start with nothing to ship."""
        self._cluster = cluster
        self._archive = archive
        self._settings = settings
        self._log = get_logger(cluster=name)
        self._is_shipped = np.zeros(len(PodPhase) + 1, dtype=np.bool_)
        self._is_shipped[PodPhase.FAILED] = True
        self._is_shipped[PodPhase.SUCCEEDED] = settings.pods != "failed"
        self._queue: asyncio.Queue[Key] = asyncio.Queue(settings.queue_count)
        self._noted: OrderedDict[Key, None] = OrderedDict()
        self._counts = {
            outcome: METRICS.shipped_logs.labels(name, outcome) for outcome in ("kept", "dropped", "gone", "failed")
        }

    def note(self, events: ObjectEvents) -> None:
        """Take note of pods that have ended; never waits.

        Complexity: O(n) in NumPy, and O(1) for each pod that has ended.
        """
        ended = self._is_shipped.take(events.phase_column)
        if not has_true(ended):
            return
        ended &= (events.kind_column == 0) & events.ours_column & (events.change_column != _DELETED)
        places = true_places(ended)
        columns = (events.handle_column, events.ordinal_column, events.object_column)
        for key in zip(*(column[places].tolist() for column in columns), strict=True):
            if key in self._noted:
                continue
            self._noted[key] = None
            if len(self._noted) > _MOST_NOTED:
                self._noted.popitem(last=False)
            try:
                self._queue.put_nowait(key)
            except asyncio.QueueFull:
                self._counts["dropped"].inc()

    async def run(self) -> None:
        """Ship until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(self._settings.reading_count):
                tasks.create_task(self._work(), name="executor: ship logs")

    async def _work(self) -> None:
        while True:
            key = await self._queue.get()
            try:
                await self.ship(key)
            except NotFound:
                self._counts["gone"].inc()
            except (ArgosyError, TimeoutError) as error:
                self._counts["failed"].inc()
                self._log.warning("a log cannot be kept", handle=key[0], reason=str(error) or "no answer in time")

    async def ship(self, key: Key) -> None:
        """Keep the logs of all containers of one pod.

        Raises:
            NotFound: The pod is gone.
            ArgosyError: A log cannot be read, or not kept.
            TimeoutError: It takes too long.
        """
        timeout_s = self._settings.timeout_s
        async with asyncio.timeout(timeout_s):
            names = await self._cluster.container_names(*key)
        for number, name in enumerate(names):
            async with asyncio.timeout(2 * timeout_s):
                kept = await self._read(key, name)
                await self._archive.put(log_key(*key, name if number else ""), kept.encode())
            self._counts["kept"].inc()

    async def _read(self, key: Key, container: str) -> KeptLog:
        """Return the end of one container's log, in bounded memory."""
        most, lines = self._settings.max_log_bytes, self._settings.max_line_count
        data, is_whole = bytearray(), True
        pieces = self._cluster.read_log(*key, container=container, follow=False, tail_line_count=lines, timestamps=True)
        async with contextlib.aclosing(pieces):
            async for piece in pieces:
                data += piece
                if len(data) > 2 * most:
                    is_whole = False
                    del data[:-most]
        if len(data) > most:
            is_whole = False
            del data[:-most]
        if not is_whole:  # begin with a whole line
            data = data[data.find(b"\n") + 1 :]
        return KeptLog(container=container, data=bytes(data), is_whole=is_whole and data.count(b"\n") < lines)

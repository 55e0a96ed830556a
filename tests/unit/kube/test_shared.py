"""One watch for several readers: each its part, none twice, none lost, whoever leaves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from functools import partial
from typing import Any

import numpy as np
import pytest

from argosy_core.errors import BackendUnavailable
from argosy_kube.port import ObjectEvents, Selector, WatchGone
from argosy_kube.simulated import shared
from argosy_kube.simulated.shared import SharedWatch

Batch = list[tuple[int, int, bool]]
"""(version, kind, ours) of each event."""


def make_events(batch: Batch, version: int) -> ObjectEvents:
    """Return a batch; the handle of each event is its version."""
    count = len(batch)
    versions = np.array([event[0] for event in batch], dtype=np.int64)
    columns: dict[str, Any] = {
        name: np.zeros(count, dtype=np.int64) for name in ObjectEvents.__slots__ if name.endswith("_column")
    }
    columns |= {
        "uid_column": np.zeros((count, 16), dtype=np.uint8),
        "handle_column": versions,
        "version_column": versions,
        "kind_column": np.array([event[1] for event in batch], dtype=np.int16),
        "ours_column": np.array([event[2] for event in batch], dtype=np.bool_),
    }
    return ObjectEvents(
        **columns, kinds=("Pod", "Service"), nodes=(), texts=(), resources=(), requests=np.zeros((0, 0), np.int64),
        version=version,
    )  # fmt: skip


class Source:
    """A cluster of which only the shared watch is used; a test says what it brings."""

    def __init__(self) -> None:
        """Bring nothing yet."""
        self.history: list[ObjectEvents] = []
        self.news = asyncio.Event()
        self.watched: list[int] = []
        self.open_count = 0
        self.failure: Exception | None = None
        self.ends = False

    def bring(self, *batch: tuple[int, int, bool]) -> None:
        """Let a batch come."""
        self.history.append(make_events(list(batch), batch[-1][0]))
        self.wake()

    def wake(self) -> None:
        """Let the watch look."""
        news, self.news = self.news, asyncio.Event()
        news.set()

    async def watch_objects(self, selector: Selector, version: int) -> AsyncGenerator[ObjectEvents, None]:
        """Give everything after a version."""
        assert selector == Selector.SHARED
        self.watched.append(version)
        self.open_count += 1
        try:
            while True:
                news = self.news
                for events in [one for one in self.history if one.version > version]:
                    version = events.version
                    yield events
                if self.failure is not None:
                    raise self.failure
                if self.ends:
                    return
                if not any(one.version > version for one in self.history):
                    await news.wait()
        finally:
            self.open_count -= 1


async def take(watch: AsyncGenerator[ObjectEvents, None]) -> list[int]:
    """Return the versions of the next batch."""
    return (await asyncio.wait_for(anext(watch), 50.0)).version_column.tolist()


async def test_each_reader_gets_its_part_of_one_watch() -> None:
    """An executor's reader gets what is ours, a sampler's every pod, and the cluster is watched once."""
    source = Source()
    cluster = SharedWatch(partial(source.watch_objects, Selector.SHARED))
    ours, pods = cluster.watch(Selector.OURS, 0), cluster.watch(Selector.ALL_PODS, 0)
    waiting = asyncio.gather(take(ours), take(pods))
    await asyncio.sleep(0)
    source.bring((1, 0, True), (2, 0, False), (3, 1, True))
    assert await waiting == [[1, 3], [1, 2]]
    assert (source.watched, cluster.reader_count) == ([0], 2)
    await ours.aclose()
    await pods.aclose()
    assert (source.open_count, cluster.reader_count) == (0, 0)


async def test_reader_that_comes_later_gets_what_it_has_not_seen() -> None:
    """What was read before is kept; what a list has shown already is left out, also within a batch."""
    source = Source()
    cluster = SharedWatch(partial(source.watch_objects, Selector.SHARED))
    first = cluster.watch(Selector.ALL_PODS, 0)
    source.bring((1, 0, True), (2, 0, True))
    source.bring((3, 0, True))
    assert [await take(first), await take(first)] == [[1, 2], [3]]
    late = cluster.watch(Selector.OURS, 1)
    assert [await take(late), await take(late)] == [[2], [3]]
    ahead = cluster.watch(Selector.OURS, 4)
    waiting = asyncio.ensure_future(take(ahead))
    await asyncio.sleep(0)
    source.bring((4, 0, True), (5, 0, True))
    assert await waiting == [5]
    assert await take(first) == [4, 5]


async def test_next_reader_goes_on_when_the_one_that_reads_leaves() -> None:
    """Nothing is lost or given twice when whoever read for all is cancelled."""
    source = Source()
    cluster = SharedWatch(partial(source.watch_objects, Selector.SHARED))
    reads, waits = cluster.watch(Selector.OURS, 0), cluster.watch(Selector.ALL_PODS, 0)
    reading = asyncio.ensure_future(take(reads))
    await asyncio.sleep(0)
    waiting = asyncio.ensure_future(take(waits))
    await asyncio.sleep(0)
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    source.bring((1, 0, True))
    assert await waiting == [1]
    assert source.watched == [0, 0]
    back = cluster.watch(Selector.OURS, 0)
    assert await take(back) == [1]


@pytest.mark.parametrize("error", [WatchGone("old"), BackendUnavailable("away")], ids=["gone", "away"])
async def test_failure_of_the_watch_is_every_readers(error: Exception) -> None:
    """All readers are told, after what had come; then each begins where it says."""
    source = Source()
    cluster = SharedWatch(partial(source.watch_objects, Selector.SHARED))
    readers = [cluster.watch(Selector.OURS, 0) for _ in range(2)]
    waiting = asyncio.gather(*(take(reader) for reader in readers))
    await asyncio.sleep(0)
    source.bring((1, 0, True))
    assert await waiting == [[1], [1]]
    source.failure = error
    again = [asyncio.ensure_future(anext(reader)) for reader in readers]
    await asyncio.sleep(0)
    source.wake()
    for task in again:
        with pytest.raises(type(error)):
            await task
    source.failure = None
    source.bring((9, 0, True))
    assert await take(cluster.watch(Selector.OURS, 7)) == [9]
    assert source.watched[-1] == (7 if isinstance(error, WatchGone) else source.watched[-1])


async def test_watch_that_ends_is_resumed_unless_it_brings_nothing() -> None:
    """A dropped stream is nobody's business; one that ends at once ends the readers, who wait before they try again."""
    source = Source()
    cluster = SharedWatch(partial(source.watch_objects, Selector.SHARED))
    reader = cluster.watch(Selector.OURS, 0)
    source.bring((1, 0, True))
    source.ends = True
    assert await take(reader) == [1]
    with pytest.raises(StopAsyncIteration):
        await anext(reader)
    assert source.watched == [0, 1]


async def test_what_is_kept_for_late_readers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is too far behind lists again; a reader that takes nothing is dropped."""
    monkeypatch.setattr(shared, "_KEPT_COUNT", 3)
    monkeypatch.setattr(shared, "_WAITING_COUNT", 5)
    source = Source()
    cluster = SharedWatch(partial(source.watch_objects, Selector.SHARED))
    lazy, keen = cluster.watch(Selector.OURS, 0), cluster.watch(Selector.OURS, 0)
    waiting = asyncio.gather(take(lazy), take(keen))
    await asyncio.sleep(0)
    source.bring((1, 0, True))
    assert await waiting == [[1], [1]]
    for version in range(2, 9):
        source.bring((version, 0, True))
        assert await take(keen) == [version]
    assert [events.version async for events in lazy] == [2, 3, 4, 5, 6, 7, 8][: len(range(2, 9))]
    with pytest.raises(WatchGone):
        await anext(cluster.watch(Selector.OURS, 1))
    assert await take(cluster.watch(Selector.OURS, 5)) == [6]

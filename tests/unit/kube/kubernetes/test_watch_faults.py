"""What becomes of a watch when the API server drops, refuses or forgets it."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from argosy_core.errors import BackendUnavailable
from argosy_kube.port import Change, Selector, WatchGone
from argosy_testkit.cluster_batches import SeenObject, make_create_batch, read_events
from argosy_testkit.cluster_contract import changed, ended, watch_until
from argosy_testkit.fake_kube_api import ApiFault
from argosy_testkit.fake_kube_api.lab import FakeKubeLab


def lists(lab: FakeKubeLab) -> list[str]:
    """Return the lists of pods that were asked for, but for those of pods that have lost their labels."""
    asked = [path for method, path in lab.api.faults.seen if method == "GET" and "/pods?limit" in path]
    return [path for path in asked if "status.phase" not in path]


async def test_dropped_watch_goes_on_without_gap_and_without_its_reader_noticing(lab: FakeKubeLab) -> None:
    """What a dropped stream had brought is told, and the rest from where it ended."""
    cluster = lab.open("one")
    version = (await cluster.list_objects(Selector.OURS)).version
    await cluster.create_objects(make_create_batch([(11, 1)]))
    seen: list[SeenObject] = []
    async with asyncio.timeout(50), aclosing(cluster.watch_objects(Selector.OURS, version)) as watch:
        async for events in watch:
            seen += read_events(events)
            runs = [item.run[0] for item in seen if item.change == Change.ADDED]
            if runs == [11] and len(lists(lab)) == 1:
                lab.api.drop_watches()
                await cluster.create_objects(make_create_batch([(12, 1)]))
            if 12 in runs:
                break
    assert [item.run[0] for item in seen if item.change == Change.ADDED] == [11, 12]
    assert len(lists(lab)) == 1


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param({"status": 429, "retry_after": "1"}, id="429"),
        pytest.param({"status": 500}, id="500"),
        pytest.param({"kind": "drop"}, id="dropped"),
    ],
)
async def test_watch_that_is_refused_for_now_is_begun_again_and_nothing_is_listed(
    lab: FakeKubeLab, fault: dict[str, Any]
) -> None:
    """Its position is as good as before: one refusal costs one call, not lists of all kinds."""
    cluster = lab.open("one")
    version = (await cluster.list_objects(Selector.OURS)).version
    lab.api.faults.add(ApiFault(method="GET", path="/pods?watch", **fault))
    await cluster.create_objects(make_create_batch([(11, 1)]))
    before = len(lists(lab))
    seen, _ = await watch_until(cluster.watch_objects(Selector.OURS, version), changed(Change.ADDED))
    assert (seen[0].run[0], len(lists(lab))) == (11, before)


async def test_watch_that_cannot_be_had_is_unavailable_and_goes_on_from_its_version(lab: FakeKubeLab) -> None:
    """Whoever reads is told after some tries, and may come back with the version it had."""
    cluster = lab.open("one")
    version = (await cluster.list_objects(Selector.OURS)).version
    fault = ApiFault(method="GET", path="/pods?watch", status=500, count=4)
    lab.api.faults.add(fault)
    with pytest.raises(BackendUnavailable, match="watching"):
        await watch_until(cluster.watch_objects(Selector.OURS, version), lambda _: False)
    await cluster.create_objects(make_create_batch([(11, 1)]))
    seen, _ = await watch_until(cluster.watch_objects(Selector.OURS, version), changed(Change.ADDED))
    assert [item.run[0] for item in seen[:1]] == [11]
    assert len(lists(lab)) == 1


@pytest.mark.parametrize("selector", [Selector.OURS, Selector.ALL_PODS])
async def test_stale_watch_is_gone_and_a_new_list_works(lab: FakeKubeLab, selector: Selector) -> None:
    """410 Gone, in the middle of a watch as at its beginning, is WatchGone."""
    cluster = lab.open("one")
    version = (await cluster.list_objects(selector)).version
    await cluster.create_objects(make_create_batch([(11, 1)]))
    lab.api.forget_history()
    with pytest.raises(WatchGone):
        await watch_until(cluster.watch_objects(selector, version), ended(9))
    listed = await cluster.list_objects(selector)
    await cluster.create_objects(make_create_batch([(12, 1)]))
    seen, _ = await watch_until(cluster.watch_objects(selector, listed.version), changed(Change.ADDED))
    assert [item.run[0] for item in seen if item.change == Change.ADDED] == [12]


async def test_silent_watch_is_begun_again(lab: FakeKubeLab) -> None:
    """A connection over which nothing comes, not even bookmarks, is given up; one more is tried."""
    cluster = lab.open("one", watch_idle_s=0.05)
    version = (await cluster.list_objects(Selector.ALL_PODS)).version
    with pytest.raises(BackendUnavailable):
        await watch_until(cluster.watch_objects(Selector.ALL_PODS, version), bool)
    assert sum("/pods?watch" in path for _, path in lab.api.faults.seen) == 4

"""One watch of an API server for sampler and executor: the port's contract, and what is watched."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from argosy_kube.port import Selector, WatchGone
from argosy_testkit.cluster_batches import make_create_batch, read_events
from argosy_testkit.cluster_contract import ClusterContract, watch_until
from argosy_testkit.fake_kube_api import FakeKubeApi
from argosy_testkit.fake_kube_api.lab import FakeKubeLab


class SharedLab(FakeKubeLab):
    """A fake API server whose objects are watched once."""

    def open(self, installation: str, **settings: Any) -> Any:
        """See ClusterLab."""
        return super().open(installation, shares_pods=True, **settings)


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncGenerator[SharedLab, None]:
    """Serve a fake API server for one test."""
    async with AsyncExitStack() as stack:
        api = await stack.enter_async_context(FakeKubeApi(speed=10.0, bookmark_s=0.2))
        yield SharedLab(api, api.write_kubeconfig(tmp_path / "kubeconfig"), stack)


class TestSharedKubernetesCluster(ClusterContract):
    """What is shared is the same port."""


def pod_watches(lab: FakeKubeLab) -> int:
    """Return how often pods were watched."""
    return sum("/pods?" in path and "watch=" in path for _, path in lab.api.faults.seen)


async def test_two_readers_watch_pods_once_and_nothing_is_left_out(lab: SharedLab) -> None:
    """Both lists come before the watch; each reader gets what happened since its own, whoever reads for it."""
    cluster = lab.open("one")
    await lab.add_unmanaged_pod("node-b", {"cpu": 1000})
    pods = await cluster.list_objects(Selector.ALL_PODS)
    await cluster.create_objects(make_create_batch([(11, 1)], nodes=("nowhere",)))
    ours = await cluster.list_objects(Selector.OURS)
    assert [item.ours for item in read_events(pods)] == [False]
    assert [item.run[0] for item in read_events(ours)] == [11]
    sampler = cluster.watch_objects(Selector.ALL_PODS, pods.version)
    executor = cluster.watch_objects(Selector.OURS, ours.version)
    seen = asyncio.gather(
        watch_until(sampler, lambda items: {item.run[0] for item in items} >= {11, 12}),
        watch_until(executor, lambda items: 12 in {item.run[0] for item in items}),
    )
    await asyncio.sleep(0.05)
    await cluster.create_objects(make_create_batch([(12, 1)], nodes=("nowhere",)))
    await seen
    assert pod_watches(lab) == 1


async def test_list_beside_a_watch_goes_on_with_that_watch(lab: SharedLab) -> None:
    """What happens while a list is under way is told after it, though the watch had told it before."""
    cluster = lab.open("one")
    first = await cluster.list_objects(Selector.ALL_PODS)
    sampler = cluster.watch_objects(Selector.ALL_PODS, first.version)
    reading = asyncio.ensure_future(watch_until(sampler, lambda items: 13 in {item.run[0] for item in items}))
    await asyncio.sleep(0.05)
    listing = asyncio.ensure_future(cluster.list_objects(Selector.OURS))
    await cluster.create_objects(make_create_batch([(12, 1)], nodes=("nowhere",)))
    listed = await listing
    await cluster.create_objects(make_create_batch([(13, 1)], nodes=("nowhere",)))
    seen, _ = await watch_until(
        cluster.watch_objects(Selector.OURS, listed.version), lambda items: 13 in {item.run[0] for item in items}
    )
    await reading
    assert {item.run[0] for item in [*read_events(listed), *seen]} == {12, 13}
    assert pod_watches(lab) <= 2  # begun again where the list stands, if it was further


async def test_watch_begins_only_from_what_was_given_out(lab: SharedLab) -> None:
    """A version of another process means nothing here."""
    listed = await lab.open("one").list_objects(Selector.OURS)
    for selector in (Selector.OURS, Selector.ALL_PODS):
        with pytest.raises(WatchGone):
            await anext(lab.open("one").watch_objects(selector, listed.version))

"""Our finalizer keeps pods until their end is told, and lets them go then."""

from __future__ import annotations

import asyncio

from argosy_kube.kubernetes.ours.ownership import STORED_FINALIZER
from argosy_kube.port import Change, PodPhase, Selector
from argosy_testkit.cluster_batches import make_bag, make_create_batch, make_delete_batch, make_pod, read_events
from argosy_testkit.cluster_contract import ended, watch_until
from argosy_testkit.fake_kube_api.lab import FakeKubeLab


async def test_pod_collected_while_nobody_watched_still_tells_its_end(lab: FakeKubeLab) -> None:
    """Somebody deletes an ended pod: it stays until we delete it, and its end is listed."""
    cluster = lab.open("one")
    version = (await cluster.list_objects(Selector.OURS)).version
    await cluster.create_objects(make_create_batch([(11, 1)], bag=make_bag(make_pod(run_time="1s", exit_code=3))))
    await watch_until(cluster.watch_objects(Selector.OURS, version), ended(1))
    (document,) = lab.api.store.all("pods")
    assert document["metadata"]["finalizers"] == [STORED_FINALIZER]
    lab.api.store.delete("pods", "default", document["metadata"]["name"], {})
    other = lab.open("one")
    (seen,) = read_events(await other.list_objects(Selector.OURS))
    assert (seen.phase, seen.exit_code) == (PodPhase.FAILED, 3)
    await other.delete_objects(make_delete_batch(seen))
    assert not list(lab.api.store.all("pods"))


async def test_pod_that_somebody_deletes_tells_that_it_was_deleted(lab: FakeKubeLab) -> None:
    """Its containers are killed, which is no failure of the job: the reason says so, live and listed."""
    cluster = lab.open("one")
    await cluster.create_objects(make_create_batch([(11, 1)]))
    version = (await cluster.list_objects(Selector.OURS)).version
    (document,) = lab.api.store.all("pods")
    lab.api.store.delete("pods", "default", document["metadata"]["name"], {})
    (document,) = lab.api.store.all("pods")
    lab.api.kubelets.finish(document, 143, "Error")
    seen, _ = await watch_until(cluster.watch_objects(Selector.OURS, version), ended(1))
    (listed,) = read_events(await lab.open("one").list_objects(Selector.OURS))
    for event in (seen[-1], listed):
        assert (event.phase, event.exit_code, event.reason) == (PodPhase.FAILED, 143, "Deleted")


async def test_pod_deleted_by_force_is_told_once_and_let_go(lab: FakeKubeLab) -> None:
    """A pod that only our finalizer keeps, and that will never tell its end, is deleted to the port's reader."""
    cluster = lab.open("one")
    await cluster.create_objects(make_create_batch([(11, 1)]))
    version = (await cluster.list_objects(Selector.OURS)).version
    (document,) = lab.api.store.all("pods")
    lab.api.store.delete("pods", "default", document["metadata"]["name"], {"gracePeriodSeconds": 0})
    await cluster.create_objects(make_create_batch([(12, 1)]))
    seen, _ = await watch_until(
        cluster.watch_objects(Selector.OURS, version), lambda items: any(item.run[0] == 12 for item in items)
    )
    assert [item.run[0] for item in seen if item.change == Change.DELETED] == [11]
    async with asyncio.timeout(50):
        await lab.api.wait_until(lambda: len(list(lab.api.store.all("pods"))) == 1)
    assert [item.run[0] for item in read_events(await cluster.list_objects(Selector.OURS))] == [12]


async def test_without_finalizer_pods_go_with_one_call(lab: FakeKubeLab) -> None:
    """The setting takes the finalizer away."""
    cluster = lab.open("one", finalizer=False)
    await cluster.create_objects(make_create_batch([(11, 1)]))
    (document,) = lab.api.store.all("pods")
    assert "finalizers" not in document["metadata"]
    (seen,) = read_events(await cluster.list_objects(Selector.OURS))
    await cluster.delete_objects(make_delete_batch(seen))
    assert not any(method == "PATCH" for method, _ in lab.api.faults.seen)

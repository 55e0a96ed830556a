"""A conflict on a deletion: whose object it is, decides."""

from __future__ import annotations

import pytest

from argosy_core.reconcile.rendering import INSTALLATION_LABEL
from argosy_kube.kubernetes.ours.ownership import STORED_FINALIZER
from argosy_kube.port import DeleteCode, PodPhase, Selector
from argosy_testkit.cluster_batches import SeenObject, make_bag, make_create_batch, make_delete_batch, make_pod
from argosy_testkit.cluster_batches import read_events as read
from argosy_testkit.cluster_contract import ended, watch_until
from argosy_testkit.fake_kube_api import ApiFault
from argosy_testkit.fake_kube_api.lab import FakeKubeLab
from argosy_testkit.fake_kube_api.store import Document

PODS = "pods"
OTHER_UID = "99999999-0000-4000-8000-000000000000"


async def replaced(lab: FakeKubeLab) -> tuple[SeenObject, Document]:
    """Return a pod of ours as it was seen, and the unmanaged one that has its name since."""
    cluster = lab.open("one")
    await cluster.create_objects(make_create_batch([(11, 1)], nodes=("nowhere",)))
    (seen,) = read(await cluster.list_objects(Selector.OURS))
    (pod,) = list(lab.api.store.all(PODS))
    key = pod["metadata"]["namespace"], pod["metadata"]["name"]
    metadata = {**pod["metadata"], "uid": OTHER_UID, "labels": {}, "finalizers": []}
    lab.api.store.objects[PODS][key] = {**pod, "metadata": metadata}
    result = await cluster.delete_objects(make_delete_batch(seen))
    assert result.code_column.tolist() == [DeleteCode.GONE]
    return seen, lab.api.store.objects[PODS][key]


async def test_object_whose_name_another_has_is_gone_and_the_other_stays(lab: FakeKubeLab) -> None:
    """The uid of the precondition is not that of the object: ours went, theirs is not touched."""
    _, other = await replaced(lab)
    assert other["metadata"]["uid"] == OTHER_UID
    assert "deletionTimestamp" not in other["metadata"]
    assert INSTALLATION_LABEL not in other["metadata"]["labels"]


async def test_any_other_conflict_is_tried_again(lab: FakeKubeLab) -> None:
    """The object is there with its uid, so it is not gone; the next try deletes it."""
    cluster = lab.open("one")
    await cluster.create_objects(make_create_batch([(11, 1)], nodes=("nowhere",)))
    (seen,) = read(await cluster.list_objects(Selector.OURS))
    lab.api.faults.add(ApiFault(method="DELETE", status=409, reason="Conflict", message="storage is busy"))
    batch = make_delete_batch(seen)
    assert (await cluster.delete_objects(batch)).code_column.tolist() == [DeleteCode.UNAVAILABLE]
    assert len(list(lab.api.store.all(PODS))) == 1
    assert (await cluster.delete_objects(batch)).code_column.tolist() == [DeleteCode.DELETED]
    assert not list(lab.api.store.all(PODS))


async def test_conflict_is_not_judged_while_nobody_can_be_asked(lab: FakeKubeLab) -> None:
    """Whether ours is there is then not known."""
    cluster = lab.open("one")
    await cluster.create_objects(make_create_batch([(11, 1)], nodes=("nowhere",)))
    (seen,) = read(await cluster.list_objects(Selector.OURS))
    lab.api.faults.add(
        ApiFault(method="DELETE", status=409, reason="Conflict"),
        ApiFault(method="GET", path="/pods/", status=500, count=99),
    )
    result = await cluster.delete_objects(make_delete_batch(seen))
    assert result.code_column.tolist() == [DeleteCode.UNAVAILABLE]


@pytest.mark.parametrize("status", [409, 422])
async def test_finalizer_that_a_conflict_kept_is_taken_by_the_next_try(lab: FakeKubeLab, status: int) -> None:
    """An ended pod does not stay because somebody changed it in that moment."""
    cluster = lab.open("one")
    version = (await cluster.list_objects(Selector.OURS)).version
    await cluster.create_objects(make_create_batch([(11, 1)], bag=make_bag(make_pod(run_time="10ms"))))
    seen, _ = await watch_until(cluster.watch_objects(Selector.OURS, version), ended(1))
    over = next(item for item in seen if item.phase == PodPhase.SUCCEEDED)
    lab.api.faults.add(ApiFault(method="PATCH", status=status, reason="Conflict", count=1))
    batch = make_delete_batch(over)
    assert (await cluster.delete_objects(batch)).code_column.tolist() == [DeleteCode.UNAVAILABLE]
    (kept,) = list(lab.api.store.all(PODS))
    assert STORED_FINALIZER in kept["metadata"]["finalizers"]
    assert (await cluster.delete_objects(batch)).code_column.tolist() == [DeleteCode.DELETED]
    assert not list(lab.api.store.all(PODS))

"""What the life of a pod costs an API server in calls."""

from __future__ import annotations

from argosy_kube.port import CreateCode, PodPhase, Selector
from argosy_testkit.cluster_batches import make_bag, make_create_batch, make_delete_batch, make_pod
from argosy_testkit.cluster_contract import codes, ended, watch_until
from argosy_testkit.fake_kube_api.lab import FakeKubeLab

METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
WHOLE = "application/json"


async def test_pod_is_made_by_one_call_and_taken_away_by_two(lab: FakeKubeLab) -> None:
    """Its end is stored before its finalizer goes, hence the second; whole pods are answered only where one is read."""
    cluster = lab.open("one")
    version = (await cluster.list_objects(Selector.OURS)).version
    await cluster.create_objects(make_create_batch([(11, 1)], bag=make_bag(make_pod(run_time="1ms"))))
    seen, _ = await watch_until(cluster.watch_objects(Selector.OURS, version), ended(1))
    assert seen[-1].phase == PodPhase.SUCCEEDED
    await cluster.delete_objects(make_delete_batch(seen[-1]))
    assert not list(lab.api.store.all("pods"))
    made = [(method, accept) for method, accept in lab.api.faults.accepted if method != "GET"]
    assert made == [("POST", METADATA), ("DELETE", WHOLE), ("PATCH", METADATA)]


async def test_secret_that_has_the_name_already_is_read_as_its_metadata(lab: FakeKubeLab) -> None:
    """Whose it is stands there; what is in it is nobody's business, and may be somebody else's."""
    bag = make_bag({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}}, make_pod())
    batch = make_create_batch([(11, 1)], bag=bag, objects=2)
    await lab.open("one").create_objects(batch)
    before = len(lab.api.faults.seen)
    assert codes(await lab.open("one").create_objects(batch)) == [CreateCode.EXISTS] * 2
    asked = zip(lab.api.faults.seen[before:], lab.api.faults.accepted[before:], strict=True)
    assert [accept for (method, path), (_, accept) in asked if method == "GET" and "/secrets/" in path] == [METADATA]

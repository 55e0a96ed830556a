"""Pods are bound to the nodes of their runs by us, or left to kube-scheduler on one node."""

from __future__ import annotations

import asyncio

import pytest

from argosy_kube.port import CreateCode, Selector
from argosy_testkit.cluster_batches import make_bag, make_create_batch, make_pod
from argosy_testkit.cluster_contract import codes
from argosy_testkit.fake_kube_api import ApiFault
from argosy_testkit.fake_kube_api.lab import FakeKubeLab


async def test_binding_subresource_binds_and_finishes_what_was_lost(lab: FakeKubeLab) -> None:
    """A pod is made without node and scheduler of others, then bound; a lost binding is made by the repeated create."""
    cluster = lab.open("one", binding="subresource")
    lab.api.faults.add(ApiFault(method="POST", path="/binding", status=500, count=4))
    batch = make_create_batch([(11, 1)])
    assert codes(await cluster.create_objects(batch)) == [CreateCode.UNAVAILABLE]
    (pod,) = lab.api.store.all("pods")
    assert "nodeName" not in pod["spec"]
    assert pod["spec"]["schedulerName"] == "argosy"
    assert codes(await cluster.create_objects(batch)) == [CreateCode.EXISTS]
    assert [pod["spec"]["nodeName"] for pod in lab.api.store.all("pods")] == ["node-a"]


async def test_pod_that_nobody_has_bound_is_bound_by_whoever_sees_it(
    lab: FakeKubeLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its maker died, or tried in vain; whoever comes next reads the node from the pod, and tries until it is bound."""
    monkeypatch.setattr("argosy_kube.kubernetes.ours.binding.FIRST_S", 0.02)
    maker = lab.open("one", binding="subresource")
    lab.api.faults.add(ApiFault(method="POST", path="/binding", status=500, count=4))
    assert codes(await maker.create_objects(make_create_batch([(11, 1)]))) == [CreateCode.UNAVAILABLE]
    await maker.close()
    lab.api.faults.add(ApiFault(method="POST", path="/binding", status=403, count=2))
    successor = lab.open("one", binding="subresource")
    await successor.list_objects(Selector.OURS)
    async with asyncio.timeout(50):
        await lab.api.wait_until(lambda: "nodeName" in next(lab.api.store.all("pods"))["spec"])
    (pod,) = lab.api.store.all("pods")
    assert pod["spec"]["nodeName"] == pod["metadata"]["annotations"]["argosy.dev/node"] == "node-a"


async def test_pod_that_goes_or_has_a_node_is_not_bound(lab: FakeKubeLab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what is there, and waits, is bound; what was bound meanwhile is left alone."""
    monkeypatch.setattr("argosy_kube.kubernetes.ours.binding.FIRST_S", 0.02)
    cluster = lab.open("one", binding="subresource")
    await cluster.create_objects(make_create_batch([(11, 1)]))
    lab.api.faults.add(ApiFault(method="POST", path="/binding", status=403, count=10_000))
    await cluster.create_objects(make_create_batch([(12, 1)]))
    unbound = next(pod for pod in lab.api.store.all("pods") if "nodeName" not in pod["spec"])
    await cluster.list_objects(Selector.OURS)
    key = unbound["metadata"]["namespace"], unbound["metadata"]["name"]
    del lab.api.store.objects["pods"][key]
    lab.api.faults.seen.clear()
    async with asyncio.timeout(50):
        # Nothing tells that a call came.
        while not (looks := [at for at, (_, path) in enumerate(lab.api.faults.seen) if path.endswith(key[1])]):  # noqa: ASYNC110
            await asyncio.sleep(0.002)
    await cluster.list_objects(Selector.OURS)
    assert not [path for _, path in lab.api.faults.seen[looks[0] :] if path.endswith("/binding")]


async def test_affinity_leaves_the_pod_to_kube_scheduler_on_one_node(lab: FakeKubeLab) -> None:
    """The node becomes a requirement beside those that the pod has."""
    manifest = make_pod()
    rule = "requiredDuringSchedulingIgnoredDuringExecution"
    zone = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    manifest["spec"]["affinity"] = {"nodeAffinity": {rule: {"nodeSelectorTerms": [zone]}}}
    await lab.open("one", binding="affinity").create_objects(make_create_batch([(11, 1)], bag=make_bag(manifest)))
    (pod,) = lab.api.store.all("pods")
    field = {"key": "metadata.name", "operator": "In", "values": ["node-a"]}
    assert "nodeName" not in pod["spec"]
    assert pod["spec"]["affinity"]["nodeAffinity"][rule]["nodeSelectorTerms"] == [{**zone, "matchFields": [field]}]

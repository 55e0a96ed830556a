"""Evictions: deletions that disruption budgets may put off."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from argosy_core.errors import BackendUnavailable
from argosy_kube.kubernetes.acting.eviction import EvictionCode
from argosy_kube.port import CreateCode, Selector
from argosy_testkit.cluster_batches import make_create_batch, read_events
from argosy_testkit.cluster_contract import codes
from argosy_testkit.fake_kube_api import ApiFault
from argosy_testkit.fake_kube_api.lab import FakeKubeLab


async def test_eviction_deletes_the_pod_with_its_grace(lab: FakeKubeLab) -> None:
    """The pod is told as any that is deleted; another eviction finds it gone in the end."""
    cluster = lab.open("one", finalizer=False)
    uid = (await cluster.create_objects(make_create_batch([(11, 1)]))).uid_column[0].tobytes()
    assert (await cluster.evict_pod(uid)).code == EvictionCode.EVICTED
    async with asyncio.timeout(10):
        await lab.api.wait_until(lambda: not list(lab.api.store.all("pods")))
    assert (await cluster.evict_pod(uid)).code == EvictionCode.GONE


async def test_eviction_that_a_budget_forbids_waits_and_holds_up_no_other_call(lab: FakeKubeLab) -> None:
    """It is asked once, the wait is told, and creating goes on at once."""
    cluster = lab.open("one", retry_most_s=5.0)
    uid = (await cluster.create_objects(make_create_batch([(11, 1)]))).uid_column[0].tobytes()
    lab.api.budget_text = "needs 1 healthy pod and has 1"
    began_s = asyncio.get_running_loop().time()
    answer = await cluster.evict_pod(uid)
    assert (answer.code, answer.retry_after_s) == (EvictionCode.BUDGETED, 10.0)
    assert "disruption budget" in answer.message
    assert codes(await cluster.create_objects(make_create_batch([(12, 1)]))) == [CreateCode.CREATED]
    assert asyncio.get_running_loop().time() - began_s < 2.0
    assert sum("/eviction" in path for _, path in lab.api.faults.seen) == 1
    assert len(read_events(await cluster.list_objects(Selector.OURS))) == 2


async def test_eviction_hits_no_other_pod_of_the_name(lab: FakeKubeLab) -> None:
    """The uid is a precondition."""
    cluster = lab.open("one", finalizer=False)
    uid = (await cluster.create_objects(make_create_batch([(11, 1)]))).uid_column[0].tobytes()
    (pod,) = lab.api.store.all("pods")
    lab.api.store.delete("pods", "default", pod["metadata"]["name"], {"gracePeriodSeconds": 0})
    lab.make_pod(pod["metadata"]["name"], "node-a", {})
    assert (await cluster.evict_pod(uid)).code == EvictionCode.GONE
    assert len(list(lab.api.store.all("pods"))) == 1


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param({"status": 429, "retry_after": "1", "count": 99}, id="throttled"),
        pytest.param({"status": 500, "count": 99}, id="500-for-ever"),
        pytest.param({"status": 403, "reason": "Forbidden", "resource": "pods"}, id="no-right"),
        pytest.param({"kind": "drop", "count": 99}, id="no-answer"),
        pytest.param({"status": 409, "reason": "Conflict"}, id="conflict-over-the-pod-itself"),
    ],
)
async def test_eviction_that_is_not_answered_is_unavailable(lab: FakeKubeLab, fault: dict[str, Any]) -> None:
    """A throttled call is no budget; nothing is concluded."""
    cluster = lab.open("one")
    uid = (await cluster.create_objects(make_create_batch([(11, 1)]))).uid_column[0].tobytes()
    lab.api.faults.add(ApiFault(method="POST", path="/eviction", **fault))
    with pytest.raises(BackendUnavailable):
        await cluster.evict_pod(uid)
    assert len(list(lab.api.store.all("pods"))) == 1

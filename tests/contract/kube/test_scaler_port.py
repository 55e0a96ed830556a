"""The contract of an agent's port, held by the adapter of Kubernetes and by the simulated cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from argosy_core.autoscale import Amounts
from argosy_core.autoscale.events import PodGone, PodSeen, Resize, ResizeOutcome
from argosy_core.errors import InvalidRequest
from argosy_core.reconcile import Deletes
from argosy_kube import open_cluster
from argosy_kube.opening import open_scaler
from argosy_kube.port import Cluster, Selector
from argosy_kube.scaler_port import PodEvent, Scaler
from argosy_kube.simulated.__main__ import make_host
from argosy_kube.simulated.server import serve_cluster
from argosy_testkit.cluster_contract import LAB_NODES, make_bag, make_create_batch, make_pod
from argosy_testkit.fake_kube_api import FakeKubeApi
from argosy_testkit.fake_kube_api.lab import QUICK, FakeKubeLab

GIB = 1 << 30
BOUNDS: dict[str, Any] = {
    "autoscale_min": "cpu=500m,memory=1Gi",
    "autoscale_max": "cpu=3,memory=6Gi",
    "autoscale_targets": "load=0.8",
}


class Lab:
    """A cluster of nodes with four cores, as an executor and an agent see it."""

    def __init__(self, cluster: Cluster, scaler: Scaler) -> None:
        """Have heard of no pod."""
        self.cluster, self.scaler = cluster, scaler
        self.heard: list[PodEvent] = []
        self._events = scaler.follow()

    async def make(self, handle: int, **notes: str) -> str:
        """Make a pod on the first node that runs at once; return its uid."""
        pod = make_pod(run_time="1h", **BOUNDS | notes)
        created = await self.cluster.create_objects(make_create_batch([(handle, 1)], bag=make_bag(pod)))
        return str(UUID(bytes=created.uid_column[0].tobytes()))

    async def delete(self, handle: int, uid: str) -> None:
        """Delete a pod."""
        column = np.frombuffer(UUID(uid).bytes, np.uint8).reshape(1, 16)
        one = np.zeros(1, np.int16)
        run = np.array([handle]), np.array([1])
        await self.cluster.delete_objects(
            Deletes(
                uid_column=column,
                kind_column=one,
                handle_column=run[0],
                ordinal_column=run[1],
                object_column=one,
                kinds=("Pod",),
            )
        )

    async def until(self, kind: type, **fields: object) -> Any:
        """Return the first event of a kind with some fields."""
        while True:
            for event in self.heard:
                if isinstance(event, kind) and all(getattr(event, key) == value for key, value in fields.items()):
                    return event
            self.heard += await anext(self._events)

    async def resize(self, uid: str, version: int, cpu: int) -> Any:
        """Give a pod so many millicores, and 1 GiB."""
        return await self.scaler.resize(Resize(uid=uid, number=7, version=version, amounts=Amounts(cpu, GIB)), 5.0)

    async def stop_watch(self) -> None:
        """Hear of nothing more."""
        await self._events.aclose()

    async def close(self) -> None:
        """End everything."""
        await self.stop_watch()
        await self.scaler.close()
        await self.cluster.close()


@pytest.fixture(params=["kubernetes", "simulated"])
async def lab(request: Any, tmp_path: Path) -> AsyncGenerator[Lab, None]:
    """Serve a cluster."""
    async with AsyncExitStack() as stack:
        if request.param == "kubernetes":
            api = await stack.enter_async_context(FakeKubeApi(speed=10.0, bookmark_s=0.2))
            made = FakeKubeLab(api, api.write_kubeconfig(tmp_path / "kubeconfig"), stack)
            address = f"kubernetes:{made.kubeconfig}"
        else:
            host = make_host("lab", LAB_NODES, speed=1.0, seed=0, flush_interval_s=0.01)
            served = await stack.enter_async_context(serve_cluster(host, f"unix:{tmp_path}/socket"))
            address = f"simulated:{served}"
        cluster = open_cluster(address, installation="one", settings=QUICK)
        scaler = open_scaler(address, installation="one", metrics="metrics-api", settings=QUICK)
        opened = Lab(cluster, scaler)
        stack.push_async_callback(opened.close)
        async with asyncio.timeout(50):
            yield opened


@pytest.mark.parametrize("address", ["nowhere", "simulated:unix:", "kubernetes:/there/is/none"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    """As for any other part of Argosy."""
    with pytest.raises(InvalidRequest, match="cluster address"):
        open_scaler(address, installation="one", metrics="metrics-api")


async def test_a_pod_with_bounds_is_told_with_its_size_and_policy(lab: Lab) -> None:
    """One without them, or with ones that cannot be read, is not there for an agent."""
    uid = await lab.make(1)
    await lab.make(2, autoscale="off")
    await lab.make(3, autoscale_max="cpu=1")
    last = await lab.make(4)
    seen: PodSeen = await lab.until(PodSeen, uid=uid)
    await lab.until(PodSeen, uid=last)
    assert seen.desired == seen.allocated == seen.actual == Amounts(1000, GIB)
    assert (seen.policy.most, seen.policy.load_ratio, seen.refusal) == (Amounts(3000, 6 * GIB), 0.8, "")
    assert {event.uid for event in lab.heard} == {uid, last}
    assert await lab.scaler.cluster_uid() == await lab.cluster.cluster_uid()


async def test_a_resize_is_taken_up_and_told(lab: Lab) -> None:
    """The version that the answer names is not above the one at which it is told, and samplers see it too."""
    uid = await lab.make(1)
    seen: PodSeen = await lab.until(PodSeen, uid=uid)
    ended = await lab.resize(uid, seen.version, 2500)
    assert (ended.outcome, ended.number) == (ResizeOutcome.ACCEPTED, 7)
    after: PodSeen = await lab.until(PodSeen, uid=uid, actual=Amounts(2500, GIB))
    assert seen.version < ended.version <= after.version
    pods = await lab.cluster.list_objects(Selector.ALL_PODS)
    (row,) = pods.request_column.tolist()
    assert dict(zip(pods.resources, pods.requests[row].tolist(), strict=True))["cpu"] == 2500
    assert pods.scalings[0].most == (3000, 6 * GIB)
    assert pods.scalings[0].queue == "queue"


async def test_a_resize_for_a_version_that_is_over_does_nothing(lab: Lab) -> None:
    """Somebody was there before; a pod that is not known is refused."""
    uid = await lab.make(1)
    seen: PodSeen = await lab.until(PodSeen, uid=uid)
    assert (await lab.resize(uid, seen.version, 2000)).outcome is ResizeOutcome.ACCEPTED
    assert (await lab.resize(uid, seen.version, 3000)).outcome is ResizeOutcome.CONFLICT
    assert (await lab.resize(str(UUID(int=9)), 1, 3000)).outcome is ResizeOutcome.REFUSED


async def test_a_pod_that_is_deleted_is_gone(lab: Lab) -> None:
    """Also one that went while nobody watched."""
    uid = await lab.make(1)
    await lab.until(PodSeen, uid=uid)
    await lab.delete(1, uid)
    await lab.until(PodGone, uid=uid)
    second = await lab.make(2)
    await lab.until(PodSeen, uid=second)
    await lab.stop_watch()
    await lab.delete(2, second)
    async with aclosing(lab.scaler.follow()) as again:
        async for events in again:
            if PodGone(second) in events:
                break


async def test_what_nobody_tells_is_not_a_number(lab: Lab) -> None:
    """So the pod may grow by other metrics, and may not shrink."""
    uid = await lab.make(1)
    await lab.until(PodSeen, uid=uid)
    usage = await lab.scaler.read_usage()
    assert usage.uids == (uid,)
    assert np.isnan([usage.load_cores[0], usage.memory_bytes[0]]).all()

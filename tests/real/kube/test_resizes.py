"""Resizes of running pods on a real API server: each is confirmed by its kubelet, or refused with a reason."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any

import msgspec
import pytest
from testbed.lab import NAMESPACE, PODS, RealLab

from argosy_core.autoscale import Amounts
from argosy_core.autoscale.events import Pending, PodGone, PodSeen, Resize, ResizeEnded, ResizeOutcome
from argosy_core.reconcile.rendering import INSTALLATION_LABEL
from argosy_kube.opening import open_scaler
from argosy_kube.scaler_port import Scaler
from argosy_testkit.fake_kubelet.api import STRATEGIC_PATCH

MIB = 1 << 20
TIMEOUT_S = 50.0
NOTES = {
    "argosy.dev/simulated-run-time": "1h",
    "argosy.dev/autoscale-min": "cpu=100m,memory=16Mi",
    "argosy.dev/autoscale-max": "cpu=64,memory=256Gi",
}


class Followed:
    """The scaled pods of a cluster, as an agent sees them."""

    def __init__(self, lab: RealLab, scaler: Scaler) -> None:
        """Have seen none."""
        self.lab = lab
        self.scaler = scaler
        self.pods: dict[str, PodSeen] = {}
        self.names: dict[str, str] = {}
        self._number = 0
        self._news = asyncio.Condition()

    async def follow(self) -> None:
        """Take in what is told, until cancelled."""
        async for events in self.scaler.follow():
            async with self._news:
                for event in events:
                    if isinstance(event, PodSeen):
                        self.pods[event.uid] = event
                    elif isinstance(event, PodGone):
                        self.pods.pop(event.uid, None)
                self._news.notify_all()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Return once something is so."""
        async with asyncio.timeout(TIMEOUT_S), self._news:
            await self._news.wait_for(condition)

    async def make(self, name: str, cpu: str, *, limit_cpu: str = "") -> str:
        """Make a scaled pod on node-a and return its uid once it is seen running."""
        held = {"cpu": cpu, "memory": "64Mi"}
        limits = {"cpu": limit_cpu or cpu, "memory": "64Mi"}
        container = {"name": "main", "image": "example.test/work:1", "resources": {"requests": held, "limits": limits}}
        manifest = {
            "metadata": {"name": name, "annotations": NOTES, "labels": {INSTALLATION_LABEL: "one"}},
            "spec": {"nodeName": "node-a", "containers": [container]},
        }
        status, body = await self.lab.admin.request("POST", PODS, manifest)
        assert status == 201, body
        uid = str(msgspec.json.decode(body)["metadata"]["uid"])
        self.names[uid] = name
        await self.until(lambda: uid in self.pods)
        return uid

    async def resize(self, uid: str, cpu: int) -> ResizeEnded:
        """Ask as an agent does: for a pod that changed meanwhile, again once its newer version is seen.

        A kubelet may write a status of its own at any time, above all of a resize that it deferred.
        """
        async with asyncio.timeout(TIMEOUT_S):
            while True:
                version = self.pods[uid].version
                ended = await self.resize_at(uid, cpu, version)
                if ended.outcome is not ResizeOutcome.CONFLICT:
                    return ended
                await self.until(lambda version=version: self.pods[uid].version != version)  # type: ignore[misc]

    async def resize_at(self, uid: str, cpu: int, version: int) -> ResizeEnded:
        """Ask the API server once for processors, at a version that was seen."""
        self._number += 1
        resize = Resize(uid=uid, number=self._number, version=version, amounts=Amounts(cpu, 64 * MIB))
        return await self.scaler.resize(resize, TIMEOUT_S)

    def is_at(self, uid: str, cpu: int) -> bool:
        """Return whether the containers run with so many processors, and nothing is pending."""
        pod, size = self.pods[uid], Amounts(cpu, 64 * MIB)
        return pod.desired == pod.allocated == pod.actual == size and pod.pending is Pending.NO

    async def document(self, uid: str) -> dict[str, Any]:
        """Return the pod as the API server has it."""
        found: dict[str, Any] = msgspec.json.decode(await self.lab.admin.get(f"{PODS}/{self.names[uid]}"))
        return found


async def wait_for_use(lab: RealLab, path: str) -> None:
    """Wait until a quota counts: its controller makes that known."""
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            if msgspec.json.decode(await lab.admin.get(path))["status"].get("used"):
                return
            await asyncio.sleep(0.05)


@pytest.fixture
async def followed(lab: RealLab) -> AsyncGenerator[Followed, None]:
    """Follow the pods of a cluster."""
    scaler = open_scaler(f"kubernetes:{lab.api.kubeconfig}", installation="one", metrics="metrics-api")
    found = Followed(lab, scaler)
    following = asyncio.ensure_future(found.follow())
    yield found
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    await scaler.close()


async def test_a_pod_grows_and_shrinks_in_place_and_keeps_its_class(followed: Followed) -> None:
    """The kubelet confirms what the API server took; limits go with requests, and nothing is restarted."""
    uid = await followed.make("grows", "500m", limit_cpu="1")
    for cpu in (1500, 250):
        ended = await followed.resize(uid, cpu)
        assert (ended.outcome, ended.reason) == (ResizeOutcome.ACCEPTED, "")
        await followed.until(lambda cpu=cpu: followed.is_at(uid, cpu))  # type: ignore[misc]
        pod = await followed.document(uid)
        (container,), (state,) = pod["spec"]["containers"], pod["status"]["containerStatuses"]
        assert container["resources"]["limits"]["cpu"] == {1500: "3", 250: "500m"}[cpu]
        assert (pod["status"]["qosClass"], state["restartCount"]) == ("Burstable", 0)


async def test_a_size_that_its_node_never_has_is_refused_with_what_the_node_has(followed: Followed) -> None:
    """The API server of today says so itself; what the pod runs with stays, and it goes on from there."""
    uid = await followed.make("huge", "500m")
    ended = await followed.resize(uid, 64_000)
    assert ended.outcome is ResizeOutcome.REFUSED
    assert "requested: 64000, allocatable: 4000" in ended.reason
    assert followed.is_at(uid, 500)
    assert (await followed.resize(uid, 1000)).outcome is ResizeOutcome.ACCEPTED
    await followed.until(lambda: followed.is_at(uid, 1000))


async def test_a_size_for_which_there_is_no_room_is_deferred_until_there_is(followed: Followed) -> None:
    """Another pod that shrinks makes the room."""
    first = await followed.make("first", "3")
    second = await followed.make("second", "500m")
    assert (await followed.resize(second, 2000)).outcome is ResizeOutcome.ACCEPTED
    await followed.until(lambda: followed.pods[second].pending is Pending.DEFERRED)
    assert followed.pods[second].actual == Amounts(500, 64 * MIB)
    assert (await followed.resize(first, 1000)).outcome is ResizeOutcome.ACCEPTED
    await followed.until(lambda: followed.is_at(first, 1000) and followed.is_at(second, 2000))


async def test_a_resize_that_names_an_old_version_or_a_pod_that_went_does_nothing(followed: Followed) -> None:
    """What is late has no effect, and is told as what it is."""
    uid = await followed.make("late", "500m")
    old = followed.pods[uid].version
    assert (await followed.resize(uid, 1000)).outcome is ResizeOutcome.ACCEPTED
    await followed.until(lambda: followed.is_at(uid, 1000))
    assert (await followed.resize_at(uid, 2000, old)).outcome is ResizeOutcome.CONFLICT
    version = followed.pods[uid].version
    await followed.lab.admin.request("DELETE", f"{PODS}/late", {"gracePeriodSeconds": 0})
    await followed.until(lambda: uid not in followed.pods)
    ended = await followed.resize_at(uid, 2000, version)
    assert (ended.outcome, ended.reason) == (ResizeOutcome.REFUSED, "the pod is gone")


async def test_a_size_above_a_quota_is_refused_with_the_quota_as_reason(followed: Followed) -> None:
    """Admission's words reach the pod's story; nothing changes."""
    uid = await followed.make("bounded", "500m")
    quota = {"metadata": {"name": "small"}, "spec": {"hard": {"requests.cpu": "1"}}}
    path = f"/api/v1/namespaces/{NAMESPACE}/resourcequotas"
    status, body = await followed.lab.admin.request("POST", path, quota)
    assert status == 201, body
    await wait_for_use(followed.lab, f"{path}/small")
    ended = await followed.resize(uid, 2000)
    assert ended.outcome is ResizeOutcome.REFUSED
    assert "exceeded quota: small" in ended.reason
    assert followed.is_at(uid, 500)


async def test_a_resize_by_another_actor_is_seen(followed: Followed) -> None:
    """The agent books it at once; it is told by the pod alone."""
    uid = await followed.make("by-hand", "500m")
    size = {"requests": {"cpu": "900m"}, "limits": {"cpu": "900m"}}
    patch = {"spec": {"containers": [{"name": "main", "resources": size}]}}
    status, body = await followed.lab.admin.request(
        "PATCH", f"{PODS}/by-hand/resize", patch, content_type=STRATEGIC_PATCH
    )
    assert status == 200, body
    await followed.until(lambda: followed.is_at(uid, 900))


async def test_many_pods_are_resized_at_once_and_each_is_confirmed_or_told_why_not(followed: Followed) -> None:
    """The node has not room for all: those it has room for run with it, the others are deferred."""
    uids = await asyncio.gather(*(followed.make(f"many-{number}", "100m") for number in range(9)))
    for cpu in (600, 100):
        ended = await asyncio.gather(*(followed.resize(uid, cpu) for uid in uids))
        assert {one.outcome for one in ended} == {ResizeOutcome.ACCEPTED}
        await followed.until(
            lambda cpu=cpu: all(  # type: ignore[misc]
                followed.is_at(uid, cpu) or (cpu == 600 and followed.pods[uid].pending is Pending.DEFERRED)
                for uid in uids
            )
        )
    assert all(followed.is_at(uid, 100) for uid in uids)

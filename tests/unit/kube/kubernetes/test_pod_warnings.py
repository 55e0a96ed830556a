"""Pods that wait without saying why: what others wrote about them is told with them."""

from __future__ import annotations

import asyncio
import math
import time
from typing import Any

import pytest

from argosy_kube.kubernetes.ours.pod_warnings import OTHER_WARNING
from argosy_kube.port import Cluster, Detail, ObjectEvents, PodPhase, Selector
from argosy_testkit.cluster_batches import SeenObject, make_bag, make_create_batch, make_pod, read_events
from argosy_testkit.cluster_contract import watch_until
from argosy_testkit.fake_kube_api import ApiFault
from argosy_testkit.fake_kube_api.lab import FakeKubeLab

LONGEST_S = 50.0  # a guard against what hangs, not a measure
SLOW = make_bag(make_pod(simulated_start_delay="1h"))


def warn(lab: FakeKubeLab, reason: str, message: str, **fields: Any) -> None:
    """Write an event about the only pod."""
    (pod,) = lab.api.store.all("pods")
    number = len(list(lab.api.store.all("events")))
    event = {
        "metadata": {"name": f"event-{number}", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "uid": pod["metadata"]["uid"]},
        "type": "Warning",
        "reason": reason,
        "message": message,
        "lastTimestamp": f"2030-01-01T00:00:{number:02}Z",
    } | fields
    lab.api.store.create("events", "default", event)


def waits_for(reason: str) -> Any:
    """Return a condition: the last that was seen gives a reason."""
    return lambda items: bool(items) and items[-1].reason == reason


async def watch_for(lab: FakeKubeLab, reason: str, *, cluster: Cluster) -> list[SeenObject]:
    """Make a pod that waits, have a warning written about it after the list, and watch until it is told."""
    await cluster.create_objects(make_create_batch([(11, 1)], bag=SLOW))
    version = (await cluster.list_objects(Selector.OURS)).version
    warn(lab, "FailedMount", 'MountVolume.SetUp failed for volume "data"')
    seen, _ = await watch_until(cluster.watch_objects(Selector.OURS, version), waits_for(reason))
    return seen


@pytest.mark.parametrize("shares_pods", [False, True])
async def test_warning_about_a_pod_that_waits_becomes_its_reason(lab: FakeKubeLab, *, shares_pods: bool) -> None:
    """The pod has not changed, and is told again with the word and the message of the event."""
    cluster = lab.open("one", shares_pods=shares_pods, warnings_after_s=0.02)
    seen = await watch_for(lab, "FailedMount", cluster=cluster)
    assert (seen[-1].run, seen[-1].phase) == ((11, 1, 0), PodPhase.PENDING)


async def listed_after_warnings(lab: FakeKubeLab) -> tuple[str | None, Detail | None]:
    """Return (reason, detail) of the only pod, listed after its events were read."""
    cluster = lab.open("one", warnings_after_s=0.02)
    version = (await cluster.list_objects(Selector.OURS)).version

    async def follow() -> None:
        async for _ in cluster.watch_objects(Selector.OURS, version):
            pass

    following = asyncio.ensure_future(follow())
    try:
        before = len(lab.api.faults.seen)
        async with asyncio.timeout(50):
            while sum("/events?" in path for _, path in lab.api.faults.seen[before:]) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        events: ObjectEvents = await cluster.list_objects(Selector.OURS)
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
    (seen,) = read_events(events)
    return seen.reason, events.details.get(0)


@pytest.mark.parametrize(
    ("events", "reason", "message"),
    [
        pytest.param(
            [("FailedMount", "no volume", {}), ("FailedCreatePodSandBox", "no network", {})],
            "FailedCreatePodSandBox",
            "no network",
            id="last-of-several",
        ),
        pytest.param(
            [
                ("FailedScheduling", "none of 3 nodes", {"lastTimestamp": None, "eventTime": "2031-01-01T00:00:00.1Z"}),
                ("FailedMount", "before", {}),
            ],
            "FailedScheduling",
            "none of 3 nodes",
            id="time-of-the-newer-kind-of-events",
        ),
        pytest.param(
            [("FailedToRetrieveImagePullSecret", "not there", {})],
            OTHER_WARNING,
            "FailedToRetrieveImagePullSecret: not there",
            id="word-that-would-be-taken-for-another",
        ),
        pytest.param([("FailedMount", "x\n" * 4000, {})], "FailedMount", "x " * 26 + "x…" + " x" * 53, id="long-text"),
        pytest.param([("Scheduled", "assigned", {"type": "Normal"})], None, None, id="no-warning"),
        pytest.param(
            [("FailedMount", "of another", {"involvedObject": {"kind": "Pod", "uid": "x"}})],
            None,
            None,
            id="of-another",
        ),
    ],
)
async def test_reason_is_the_last_warning(
    lab: FakeKubeLab, events: list[tuple[str, str, dict[str, Any]]], reason: str | None, message: str | None
) -> None:
    """Its word if it is one that says why pods do not start; its message bounded, on one line."""
    await lab.open("one").create_objects(make_create_batch([(11, 1)], bag=SLOW))
    for word, text, fields in events:
        warn(lab, word, text, **fields)
    assert await listed_after_warnings(lab) == (reason, None if message is None else Detail("", message))


async def test_pods_of_a_namespace_are_asked_for_together_and_ever_more_seldom(lab: FakeKubeLab) -> None:
    """An API server looks through all events of a namespace each time."""
    after_s = 0.05
    cluster = lab.open("one", warnings_after_s=after_s)
    began_s = time.monotonic()
    await cluster.create_objects(make_create_batch([(number, 1) for number in range(1, 21)], bag=SLOW))
    version = (await cluster.list_objects(Selector.OURS)).version
    watching = asyncio.ensure_future(watch_until(cluster.watch_objects(Selector.OURS, version), waits_for("never")))
    asked: list[str] = []
    async with asyncio.timeout(LONGEST_S):
        while len(asked) < 3:
            await asyncio.sleep(0.01)
            asked = [path for _, path in lab.api.faults.seen if "/events?" in path]
    # Each pause is twice the last, so the time that has passed, which on a busy machine is long, bounds how often.
    assert len(asked) <= math.log2((time.monotonic() - began_s) / after_s) + 2
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    assert all("type%3DWarning" in path and "uid" not in path for path in asked)


async def test_events_that_may_not_be_read_stop_nothing(lab: FakeKubeLab) -> None:
    """No right to events: the pod waits without a reason, and the watch goes on."""
    lab.api.faults.add(ApiFault(method="GET", path="/events", status=403, resource="events", count=1000))
    await lab.open("one").create_objects(make_create_batch([(11, 1)], bag=SLOW))
    warn(lab, "FailedMount", "no volume")
    assert await listed_after_warnings(lab) == (None, None)


async def test_pod_that_begins_is_not_told_with_an_old_warning(lab: FakeKubeLab) -> None:
    """What kept it is over."""
    cluster = lab.open("one", warnings_after_s=0.02)
    await watch_for(lab, "FailedMount", cluster=cluster)
    (pod,) = lab.api.store.all("pods")
    lab.api.store.replace("pods", {**pod, "status": {"phase": "Running"}})
    (seen,) = read_events(await cluster.list_objects(Selector.OURS))
    assert (seen.phase, seen.reason) == (PodPhase.RUNNING, None)

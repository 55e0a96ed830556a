"""Reading what containers wrote, of an API server that fails and of pods that have not begun."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from argosy_core.errors import BackendUnavailable, NotFound
from argosy_testkit.cluster_batches import make_bag, make_create_batch, make_pod
from argosy_testkit.fake_kube_api import ApiFault
from argosy_testkit.fake_kube_api.lab import FakeKubeLab

OTHER_UID = "00000000-0000-0000-0000-0000000000ff"


async def test_log_that_breaks_off_is_unavailable(lab: FakeKubeLab) -> None:
    """A kubelet that does not answer is no missing pod."""
    cluster = lab.open("one")
    await cluster.create_objects(make_create_batch([(11, 1)]))
    async with asyncio.timeout(50):
        await lab.api.wait_until(lambda: next(lab.api.store.all("pods"))["status"]["phase"] == "Running")
    lab.api.faults.add(ApiFault(method="GET", path="/log", status=500))
    with pytest.raises(BackendUnavailable):
        await anext(cluster.read_log(11, 1, 0, follow=False, tail_line_count=None))


async def test_log_of_a_pod_that_has_not_begun_is_empty_or_waits(lab: FakeKubeLab) -> None:
    """Without follow there is nothing yet; with it the lines come once there are some."""
    cluster = lab.open("one")
    bag = make_bag(make_pod(run_time="1s", simulated_start_delay="3s"))
    await cluster.create_objects(make_create_batch([(11, 1)], bag=bag))
    assert [piece async for piece in cluster.read_log(11, 1, 0, follow=False, tail_line_count=None)] == []
    before = len(lab.api.faults.seen)
    pieces = [piece async for piece in cluster.read_log(11, 1, 0, follow=True, tail_line_count=None)]
    assert b"ended" in b"".join(pieces)
    lists = [path for method, path in lab.api.faults.seen[before:] if method == "GET" and "labelSelector" in path]
    assert len(lists) == 1, "who waits for a pod asks for it by its name"


async def test_log_of_another_pod_of_the_name_is_not_read(lab: FakeKubeLab) -> None:
    """Ours went before it had begun, and somebody made one of its name: what that one writes is nobody's business."""
    cluster = lab.open("one")
    bag = make_bag(make_pod(run_time="60s", simulated_start_delay="60s"))
    await cluster.create_objects(make_create_batch([(11, 1)], bag=bag))
    pods = lab.api.store.objects["pods"]

    async def read() -> list[bytes]:
        return [piece async for piece in cluster.read_log(11, 1, 0, follow=True, tail_line_count=None)]

    reading = asyncio.create_task(read())
    async with asyncio.timeout(50):
        while not any("labelSelector" in path for _, path in lab.api.faults.seen):  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.01)
    for key, pod in list(pods.items()):
        state: dict[str, Any] = {"state": {"running": {}}}
        statuses = [{"name": container["name"], **state} for container in pod["spec"]["containers"]]
        status = {"phase": "Running", "containerStatuses": statuses}
        pods[key] = {**pod, "metadata": {**pod["metadata"], "uid": OTHER_UID}, "status": status}
    with pytest.raises(NotFound):
        await reading
    assert not any("/log" in path for _, path in lab.api.faults.seen)

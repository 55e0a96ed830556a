"""What the Kubernetes adapter relies on beyond the port's contract, shown by a real API server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import msgspec
import pytest
from testbed.lab import PODS, RealLab

from argosy_core.errors import BackendUnavailable
from argosy_core.reconcile.rendering import INSTALLATION_LABEL, RUN_LABEL, run_label
from argosy_kube import KubernetesSettings
from argosy_kube.port import Change, Cluster, CreateCode, DeleteCode, PodPhase, Selector, WatchGone
from argosy_testkit.cluster_batches import (
    SeenObject,
    make_bag,
    make_create_batch,
    make_delete_batch,
    make_pod,
    read_events,
)
from argosy_testkit.cluster_contract import changed, codes, ended
from argosy_testkit.fake_kubelet.api import STRATEGIC_PATCH

LONGEST_S = 100.0  # a guard against what hangs, not a measure
WIDGETS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.test"},
    "spec": {
        "group": "example.test",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


async def until(cluster: Cluster, enough: Callable[[list[SeenObject]], bool], *, version: int) -> list[SeenObject]:
    """Watch our objects, resuming as often as it takes, until enough was seen."""
    seen: list[SeenObject] = []
    async with asyncio.timeout(LONGEST_S):
        while True:
            async with aclosing(cluster.watch_objects(Selector.OURS, version)) as watch:
                async for events in watch:
                    seen += read_events(events)
                    version = events.version
                    if enough(seen):
                        return seen


def is_running(seen: list[SeenObject]) -> bool:
    """Return whether the last that was seen runs."""
    return bool(seen) and seen[-1].phase == PodPhase.RUNNING


async def pod_count(lab: RealLab) -> int:
    """Return how many pods there are."""
    return len(msgspec.json.decode(await lab.admin.get("/api/v1/pods"))["items"])


async def test_quota_is_told_as_such(lab: RealLab) -> None:
    """What a quota refuses may be taken later; the message is the cluster's."""
    path = "/api/v1/namespaces/default/resourcequotas"
    quota = {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "1"}}}
    assert (await lab.admin.request("POST", path, quota))[0] == 201
    async with asyncio.timeout(LONGEST_S):
        while "hard" not in msgspec.json.decode(await lab.admin.get(f"{path}/few")).get("status", {}):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    batch = make_create_batch([(number, 1) for number in range(1, 5)])
    result = await lab.open("one").create_objects(batch)
    assert sorted(codes(result)) == [CreateCode.CREATED, CreateCode.QUOTA, CreateCode.QUOTA, CreateCode.QUOTA]
    assert any("exceeded quota: few" in message for message in result.messages)


@pytest.mark.parametrize("state", ["missing", "terminating", "restricted"])
async def test_namespace_that_takes_no_pods_rejects_them(lab: RealLab, state: str) -> None:
    """A missing or ending namespace, or one whose admission refuses the pod, will never take it."""
    name = f"ns-{state}"
    if state != "missing":
        labels = {"pod-security.kubernetes.io/enforce": "restricted"} if state == "restricted" else {}
        finalizers = ["kubernetes"]
        body = {"metadata": {"name": name, "labels": labels}, "spec": {"finalizers": finalizers}}
        assert (await lab.admin.request("POST", "/api/v1/namespaces", body))[0] == 201
    if state == "terminating":  # something that does not end keeps it
        settings = {"metadata": {"name": "kept", "finalizers": ["example.test/never"]}}
        kept = f"/api/v1/namespaces/{name}/configmaps"
        assert (await lab.admin.request("POST", kept, settings))[0] == 201
        await lab.admin.request("DELETE", f"/api/v1/namespaces/{name}", {})
    if state == "restricted":
        async with asyncio.timeout(LONGEST_S):
            path = f"/api/v1/namespaces/{name}/serviceaccounts/default"
            while (await lab.admin.request("GET", path))[0] != 200:  # noqa: ASYNC110 - the cluster tells nobody
                await asyncio.sleep(0.05)
    pod = make_pod()
    pod["metadata"]["namespace"] = name
    result = await lab.open("one").create_objects(make_create_batch([(11, 1)], bag=make_bag(pod)))
    assert codes(result) == [CreateCode.REJECTED]
    assert name in result.messages[0] or "PodSecurity" in result.messages[0]


async def test_pod_collected_while_nobody_watched_tells_its_end(lab: RealLab) -> None:
    """Our finalizer keeps an ended pod that somebody deleted; once we delete it, it goes."""
    cluster = lab.open("one")
    version = (await cluster.list_objects(Selector.OURS)).version
    await cluster.create_objects(make_create_batch([(11, 1)], bag=make_bag(make_pod(run_time="1s", exit_code=3))))
    await until(cluster, ended(1), version=version)
    (pod,) = msgspec.json.decode(await lab.admin.get(PODS))["items"]
    assert (await lab.admin.request("DELETE", f"{PODS}/{pod['metadata']['name']}", {}))[0] == 200
    other = lab.open("one")
    (seen,) = read_events(await other.list_objects(Selector.OURS))
    assert (seen.phase, seen.exit_code, seen.reason) == (PodPhase.FAILED, 3, "Error")
    result = await other.delete_objects(make_delete_batch(seen))
    assert result.code_column.tolist() == [DeleteCode.DELETED]
    assert await pod_count(lab) == 0


async def test_running_pod_is_stopped_and_goes(lab: RealLab) -> None:
    """Deleting a running pod lets its kubelet end it; then nothing is left of it."""
    cluster = lab.open("one")
    listed = await cluster.list_objects(Selector.OURS)
    await cluster.create_objects(make_create_batch([(11, 1)]))
    seen = await until(cluster, is_running, version=listed.version)
    await cluster.delete_objects(make_delete_batch(seen[-1]))
    await until(cluster, changed(Change.DELETED), version=listed.version)
    assert await pod_count(lab) == 0


async def test_pod_deleted_by_force_is_told_and_let_go(lab: RealLab) -> None:
    """What was taken away without waiting for its end is gone, and nothing of ours keeps it."""
    cluster = lab.open("one")
    await cluster.create_objects(make_create_batch([(11, 1)], nodes=("node-a",)))
    listed = await cluster.list_objects(Selector.OURS)
    await lab.kubelet.partition(["node-a"])
    (pod,) = msgspec.json.decode(await lab.admin.get(PODS))["items"]
    await lab.admin.request("DELETE", f"{PODS}/{pod['metadata']['name']}", {"gracePeriodSeconds": 0})
    seen = await until(cluster, changed(Change.DELETED), version=listed.version)
    assert [item.run[0] for item in seen if item.change == Change.DELETED] == [11]
    async with asyncio.timeout(LONGEST_S):
        while await pod_count(lab):  # noqa: ASYNC110 - the cluster tells nobody
            await asyncio.sleep(0.05)


async def test_binding_subresource_binds(lab: RealLab) -> None:
    """A pod made without a node gets it by a second call, and runs."""
    settings = KubernetesSettings(binding="subresource", discover=False)
    cluster = lab.open("one", settings)
    version = (await cluster.list_objects(Selector.OURS)).version
    assert codes(await cluster.create_objects(make_create_batch([(11, 1)], nodes=("node-c",)))) == [CreateCode.CREATED]
    seen = await until(cluster, is_running, version=version)
    assert seen[-1].node == "node-c"


async def test_custom_resources_are_found_and_followed(lab: RealLab) -> None:
    """A kind that the cluster defines is made, watched, found by another process and deleted."""
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    status, body = await lab.admin.request("POST", path, WIDGETS)
    assert status in {201, 409}, body
    async with asyncio.timeout(LONGEST_S):
        path = "/apis/example.test/v1/widgets"
        while (await lab.admin.request("GET", path, is_answer_wanted=True))[0] != 200:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    cluster = lab.open("one")
    version = (await cluster.list_objects(Selector.OURS)).version
    widget = {"apiVersion": "example.test/v1", "kind": "Widget", "metadata": {"name": "wheel"}, "spokes": 7}
    batch = make_create_batch([(11, 1)], bag=make_bag(widget, make_pod()), objects=2)
    assert codes(await cluster.create_objects(batch)) == [CreateCode.CREATED] * 2
    await until(cluster, lambda items: {item.kind for item in items} == {"Widget.example.test", "Pod"}, version=version)
    other = lab.open("one", KubernetesSettings())
    listed = read_events(await other.list_objects(Selector.OURS))
    assert sorted(item.kind for item in listed) == ["Pod", "Widget.example.test"]
    result = await other.delete_objects(make_delete_batch(*listed))
    assert result.code_column.tolist() == [DeleteCode.DELETED] * 2
    assert msgspec.json.decode(await lab.admin.get("/apis/example.test/v1/widgets"))["items"] == []


@pytest.mark.parametrize("how", ["removed", "out-of-service"])
async def test_pods_of_a_lost_node_have_failed(lab: RealLab, how: str) -> None:
    """The node object is gone, or a person said that the node is: its pods have ended and can be deleted at once."""
    cluster = lab.open("one")
    await cluster.create_objects(make_create_batch([(11, 1), (12, 1)], nodes=("node-a", "node-b")))
    version = (await cluster.list_objects(Selector.OURS)).version
    if how == "removed":
        await lab.kubelet.remove_nodes(["node-a"])
    else:
        await lab.kubelet.partition(["node-a"])
        taint = {"key": "node.kubernetes.io/out-of-service", "value": "down", "effect": "NoExecute"}
        patch = {"spec": {"taints": [taint]}}
        await lab.admin.request("PATCH", "/api/v1/nodes/node-a", patch, content_type=STRATEGIC_PATCH)
    seen = await until(cluster, ended(1), version=version)
    failed = next(item for item in seen if item.phase == PodPhase.FAILED)
    assert (failed.run[0], failed.reason) == (11, "NodeLost")
    await cluster.delete_objects(make_delete_batch(failed))
    async with asyncio.timeout(LONGEST_S):
        while await pod_count(lab) > 1:  # noqa: ASYNC110 - the cluster tells nobody
            await asyncio.sleep(0.05)


async def test_pods_of_a_node_that_is_not_heard_are_unknown(lab: RealLab) -> None:
    """Ready says Unknown, as controllers write it when heartbeats fail to come; and True again later."""
    cluster = lab.open("one")
    listed = await cluster.list_objects(Selector.OURS)
    await cluster.create_objects(make_create_batch([(11, 1)]))
    await until(cluster, is_running, version=listed.version)
    version = (await cluster.list_objects(Selector.OURS)).version
    condition = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": ""}
    patch = {"status": {"conditions": [condition]}}
    path = "/api/v1/nodes/node-a/status"
    assert (await lab.admin.request("PATCH", path, patch, content_type=STRATEGIC_PATCH))[0] == 200
    await until(cluster, lambda items: any(item.phase == PodPhase.UNKNOWN for item in items), version=version)
    (seen,) = read_events(await cluster.list_objects(Selector.OURS))
    assert seen.phase == PodPhase.UNKNOWN
    await lab.kubelet.set_ready(["node-a"], is_ready=True)
    await until(cluster, is_running, version=version)


async def test_unmanaged_pods_count_with_init_containers_sidecars_and_overhead(lab: RealLab) -> None:
    """What a sampler sees of a pod is what the cluster's own scheduler would count."""

    def container(name: str, cpu: str, **fields: Any) -> dict[str, Any]:
        return {"name": name, "image": "example.test/work:1", "resources": {"requests": {"cpu": cpu}}, **fields}

    init = [container("side", "300m", restartPolicy="Always"), container("init", "1500m")]
    await lab.make_pod("unmanaged-pod", "node-a", {"requests": {"cpu": "1"}}, initContainers=init)
    (seen,) = read_events(await lab.open("one").list_objects(Selector.ALL_PODS))
    assert (seen.ours, seen.node, seen.requests) == (False, "node-a", {"cpu": 1800, "pods": 1})


async def test_list_of_many_pages_is_whole(lab: RealLab) -> None:
    """Pages of one list make one snapshot."""
    cluster = lab.open("one", KubernetesSettings(page_count=7, discover=False))
    await cluster.create_objects(make_create_batch([(number, 1) for number in range(1, 51)], nodes=("nowhere",)))
    listed = read_events(await cluster.list_objects(Selector.OURS))
    assert sorted(item.run[0] for item in listed) == list(range(1, 51))


async def test_killed_api_server_ends_watches_and_is_found_again(lab: RealLab) -> None:
    """While it is away calls are unavailable; when it is back the same adapter goes on, by version or by a list."""
    cluster = lab.open("one")
    await cluster.create_objects(make_create_batch([(11, 1)]))
    version = (await cluster.list_objects(Selector.OURS)).version
    watch = cluster.watch_objects(Selector.OURS, version)
    following = asyncio.ensure_future(_drain(watch))
    await asyncio.sleep(0)
    await asyncio.to_thread(lab.api.kill)
    async with asyncio.timeout(LONGEST_S):
        assert await following
    with pytest.raises(BackendUnavailable):
        await cluster.create_objects(make_create_batch([(12, 1)]))
    await asyncio.to_thread(lab.api.restart)
    result = await cluster.create_objects(make_create_batch([(12, 1)]))
    assert codes(result)[0] in {CreateCode.CREATED, CreateCode.EXISTS}
    try:
        seen = await until(cluster, changed(Change.ADDED), version=version)
    except WatchGone:
        seen = read_events(await cluster.list_objects(Selector.OURS))
    assert 12 in {item.run[0] for item in seen}


async def _drain(watch: Any) -> bool:
    """Read a watch to its end, in whatever way it ends."""
    try:
        async for _ in watch:
            pass
    except BackendUnavailable:
        pass
    return True


async def test_pod_that_was_evicted_says_so(lab: RealLab) -> None:
    """A pod that an administrator evicts fails with the reason Evicted, whatever its exit code."""
    cluster = lab.open("one")
    version = (await cluster.list_objects(Selector.OURS)).version
    await cluster.create_objects(make_create_batch([(11, 1)]))
    await until(cluster, is_running, version=version)
    (pod,) = msgspec.json.decode(await lab.admin.get(PODS))["items"]
    name = pod["metadata"]["name"]
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "default"}}
    assert (await lab.admin.request("POST", f"{PODS}/{name}/eviction", eviction))[0] == 201
    seen = await until(cluster, ended(1), version=version)
    assert {item.reason for item in seen if item.phase == PodPhase.FAILED} == {"Evicted"}


@pytest.mark.parametrize("is_shared", [False, True])
async def test_pod_that_loses_its_labels_is_not_told_as_gone(lab: RealLab, *, is_shared: bool) -> None:
    """A watch with a label selector is told DELETED, one without MODIFIED; the pod gets its labels again."""
    cluster = lab.open("one", is_shared=is_shared)
    await cluster.create_objects(make_create_batch([(11, 1), (12, 1)]))
    version = (await cluster.list_objects(Selector.OURS)).version
    pods = msgspec.json.decode(await lab.admin.get(PODS))["items"]
    first = next(pod for pod in pods if pod["metadata"]["labels"][RUN_LABEL] == run_label(11, 1))
    path = f"{PODS}/{first['metadata']['name']}"
    patch = {"metadata": {"labels": {INSTALLATION_LABEL: None}}}
    assert (await lab.admin.request("PATCH", path, patch, content_type=STRATEGIC_PATCH))[0] == 200
    seen: list[SeenObject] = []
    async with asyncio.timeout(LONGEST_S), aclosing(cluster.watch_objects(Selector.OURS, version)) as watch:
        async for events in watch:
            seen += read_events(events)
            labels = msgspec.json.decode(await lab.admin.get(path))["metadata"]["labels"]
            if labels.get(INSTALLATION_LABEL) == "one":
                break
    assert {(item.ours, item.change == Change.DELETED) for item in seen if item.run[0] == 11} == {(True, False)}
    listed = read_events(await cluster.list_objects(Selector.OURS))
    assert sorted(item.run for item in listed if item.ours) == [(11, 1, 0), (12, 1, 0)]

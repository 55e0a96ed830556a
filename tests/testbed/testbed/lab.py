"""A real API server as the lab of the cluster port's contract."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import AsyncExitStack
from typing import Any, Final

import msgspec

from argosy_core.reconcile.rendering import OBJECT_LABEL, RUN_LABEL, run_label
from argosy_kube import KubernetesSettings, open_cluster
from argosy_kube.port import Cluster, NodeDescription
from argosy_testkit.fake_kubelet import FakeKubelet
from argosy_testkit.fake_kubelet.api import MERGE_PATCH, Api
from argosy_testkit.fake_kubelet.nodes import node_document
from testbed.cluster import KubeApi

__all__ = ["NAMESPACE", "PODS", "RealLab", "make_node"]

NAMESPACE: Final = "default"
PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
CALL_TIMEOUT_S: Final = 20.0


class RealLab:
    """A real cluster with the nodes of the contract, whose kubelet is fake.

    Args:
        api: The cluster.
        admin: A client with every right.
        kubelet: What plays the nodes.
        stack: Closes what is opened.
    """

    def __init__(self, api: KubeApi, admin: Api, kubelet: FakeKubelet, stack: AsyncExitStack) -> None:
        """Open nothing yet."""
        self.api = api
        self.admin = admin
        self.kubelet = kubelet
        self._stack = stack
        self._numbers = itertools.count()

    def open(
        self, installation: str, settings: KubernetesSettings | None = None, *, is_shared: bool = False
    ) -> Cluster:
        """See ClusterLab; closed at the end of the test."""
        cluster = open_cluster(
            f"kubernetes:{self.api.kubeconfig}",
            installation=installation,
            call_timeout_s=CALL_TIMEOUT_S,
            settings=settings or KubernetesSettings(discover=False),
            is_shared=is_shared,
        )
        self._stack.push_async_callback(cluster.close)
        return cluster

    async def put_node(self, node: NodeDescription) -> None:
        """See ClusterLab."""
        status, _ = await self.admin.request("POST", "/api/v1/nodes", make_node(node))
        if status == 409:
            path, spec = f"/api/v1/nodes/{node.name}", {"unschedulable": node.unschedulable}
            status, _ = await self.admin.request("PATCH", path, {"spec": spec}, content_type=MERGE_PATCH)
        assert status < 300

    async def remove_node(self, name: str) -> None:
        """See ClusterLab; what the garbage collector of pods does in its time is done at once."""
        await self.kubelet.remove_nodes([name])
        query = f"/api/v1/pods?fieldSelector=spec.nodeName={name}"
        for pod in msgspec.json.decode(await self.admin.get(query))["items"]:
            await self.admin.request("DELETE", f"{PODS}/{pod['metadata']['name']}", {"gracePeriodSeconds": 0})

    async def add_unmanaged_pod(self, node: str, amounts: dict[str, int]) -> None:
        """See ClusterLab."""
        requests = {name: f"{amount}m" if name == "cpu" else str(amount) for name, amount in amounts.items()}
        await self.make_pod(f"unmanaged-{next(self._numbers)}", node, {"requests": requests})

    async def take_labels(self, run: tuple[int, int, int]) -> None:
        """See ClusterLab."""
        query = f"labelSelector={RUN_LABEL}%3D{run_label(*run[:2])}%2C{OBJECT_LABEL}%3D{run[2]}"
        for plural in ("pods", "configmaps"):
            path = f"/api/v1/namespaces/{NAMESPACE}/{plural}"
            for item in msgspec.json.decode(await self.admin.get(f"{path}?{query}"))["items"]:
                patch = {"metadata": {"labels": dict.fromkeys(item["metadata"]["labels"])}}
                target = f"{path}/{item['metadata']['name']}"
                status, body = await self.admin.request("PATCH", target, patch, content_type=MERGE_PATCH)
                assert status < 300, body

    async def forget(self) -> None:
        """See ClusterLab; a new API server knows nothing of what was before it."""
        await asyncio.to_thread(self.api.restart)

    async def make_pod(self, name: str, node: str, resources: dict[str, Any], **spec: object) -> None:
        """Make a pod that is nobody's we know."""
        container = {"name": "main", "image": "example.test/work:1", "resources": resources}
        manifest = {
            "metadata": {"name": name, "annotations": {"argosy.dev/simulated-run-time": "1h"}},
            "spec": {"nodeName": node, "containers": [container], **spec},
        }
        status, body = await self.admin.request("POST", PODS, manifest)
        assert status == 201, body

    async def clear(self) -> None:
        """Take away what a test made."""
        for node in msgspec.json.decode(await self.admin.get("/api/v1/nodes"))["items"]:
            await self.admin.request("DELETE", f"/api/v1/nodes/{node['metadata']['name']}")
        while pods := msgspec.json.decode(await self.admin.get("/api/v1/pods"))["items"]:
            for pod in pods:
                path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
                await self.admin.request("DELETE", path, {"gracePeriodSeconds": 0})
                patch = {"metadata": {"finalizers": None}}
                await self.admin.request("PATCH", path, patch, content_type=MERGE_PATCH)
        for plural in ("services", "configmaps", "secrets", "resourcequotas"):
            query = f"/api/v1/namespaces/{NAMESPACE}/{plural}"
            for item in msgspec.json.decode(await self.admin.get(query))["items"]:
                if item["metadata"]["name"] not in {"kubernetes", "kube-root-ca.crt"}:
                    await self.admin.request("DELETE", f"{query}/{item['metadata']['name']}")


def make_node(node: NodeDescription) -> dict[str, Any]:
    """Return the document of a node of the lab."""
    amounts = {name: f"{amount}m" if name == "cpu" else str(amount) for name, amount in node.allocatable.items()}
    document = node_document(node.name, resources=amounts, labels=node.labels, taints=[], log_port=0)
    document["spec"]["unschedulable"] = node.unschedulable
    return document

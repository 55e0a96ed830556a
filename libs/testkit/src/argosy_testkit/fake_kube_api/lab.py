"""The fake API server as the lab of the cluster port's contract, with the Kubernetes adapter on it."""

from __future__ import annotations

import itertools
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from argosy_core.reconcile.rendering import OBJECT_LABEL, RUN_LABEL, run_label
from argosy_kube import KubernetesSettings
from argosy_kube.kubernetes.api.credentials import CredentialSource
from argosy_kube.kubernetes.cluster import KubernetesCluster
from argosy_kube.meter import NO_METER, ApiMeter
from argosy_kube.port import NodeDescription
from argosy_testkit.cluster_contract import LAB_NODES
from argosy_testkit.fake_kube_api.server import FakeKubeApi

__all__ = ["QUICK", "FakeKubeLab", "node_document"]

QUICK = KubernetesSettings(retry_first_s=0.01, retry_most_s=0.05, gather_ms=1.0)
"""Settings that wait for little."""
CALL_TIMEOUT_S = 5.0


class FakeKubeLab:
    """A fake API server with the nodes of the contract.

    Args:
        api: The server, begun.
        kubeconfig: Where its credentials were written.
        stack: Closes what is opened.
    """

    def __init__(self, api: FakeKubeApi, kubeconfig: Path, stack: AsyncExitStack) -> None:
        """Open nothing yet."""
        self.api = api
        self.kubeconfig = kubeconfig
        self._stack = stack
        self._numbers = itertools.count()
        for node in LAB_NODES:
            api.store.create("nodes", "", node_document(node))

    def open(
        self,
        installation: str,
        *,
        call_timeout_s: float = CALL_TIMEOUT_S,
        shares_pods: bool = False,
        meter: ApiMeter = NO_METER,
        **settings: Any,  # noqa: ANN401 - fields of KubernetesSettings
    ) -> KubernetesCluster:
        """Return the cluster as one installation sees it; closed at the end of the test."""
        cluster = KubernetesCluster(
            CredentialSource(path=str(self.kubeconfig)),
            installation=installation,
            call_timeout_s=call_timeout_s,
            settings=replace(QUICK, **settings),
            rng=np.random.default_rng(1),
            shares_pods=shares_pods,
            meter=meter,
        )
        self._stack.push_async_callback(cluster.close)
        return cluster

    async def put_node(self, node: NodeDescription) -> None:
        """See ClusterLab."""
        known = self.api.store.objects["nodes"].get(("", node.name))
        if known is None:
            self.api.store.create("nodes", "", node_document(node))
        else:
            document = node_document(node)
            self.api.store.replace("nodes", {**document, "metadata": {**known["metadata"], **document["metadata"]}})

    async def remove_node(self, name: str) -> None:
        """See ClusterLab."""
        store = self.api.store
        store.delete("nodes", "", name, {})
        for pod in [pod for pod in store.all("pods") if pod["spec"].get("nodeName") == name]:
            store.delete("pods", "default", pod["metadata"]["name"], {"gracePeriodSeconds": 0})

    async def add_unmanaged_pod(self, node: str, amounts: dict[str, int]) -> None:
        """See ClusterLab."""
        requests = {name: f"{amount}m" if name == "cpu" else str(amount) for name, amount in amounts.items()}
        self.make_pod(f"unmanaged-{next(self._numbers)}", node, {"requests": requests})

    def make_pod(self, name: str, node: str, resources: dict[str, Any], **metadata: object) -> dict[str, Any]:
        """Make a pod that is nobody's we know."""
        spec = {"nodeName": node, "containers": [{"name": "main", "resources": resources}]}
        notes = {"argosy.dev/simulated-run-time": "1h"}
        document = {"metadata": {"name": name, "annotations": notes, **metadata}, "spec": spec}
        return self.api.store.create("pods", "default", document)

    async def take_labels(self, run: tuple[int, int, int]) -> None:
        """See ClusterLab."""
        store, whose = self.api.store, {RUN_LABEL: run_label(*run[:2]), OBJECT_LABEL: str(run[2])}
        for plural in list(store.objects):
            for item in list(store.all(plural)):
                if whose.items() <= (item["metadata"].get("labels") or {}).items():
                    store.replace(plural, {**item, "metadata": {**item["metadata"], "labels": {}}})

    async def forget(self) -> None:
        """See ClusterLab."""
        self.api.forget_history()


def node_document(node: NodeDescription) -> dict[str, Any]:
    """Return a description of a node as an API server shows it."""
    amounts = {name: f"{amount}m" if name == "cpu" else str(amount) for name, amount in node.allocatable.items()}
    return {
        "metadata": {"name": node.name, "labels": dict(node.labels)},
        "spec": {"unschedulable": node.unschedulable},
        "status": {
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True" if node.ready else "Unknown"}],
        },
    }

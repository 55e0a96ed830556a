"""Nodes that a fake kubelet plays: their documents, what is taken of them, their heartbeats."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from argosy_core.resources import parse_quantity
from argosy_testkit.fake_kubelet.behaviour import rfc3339

__all__ = ["OWNER_ANNOTATION", "FakeNode", "lease_document", "node_document", "ready_conditions"]

OWNER_ANNOTATION: Final = "argosy.dev/fake-kubelet"
"""Marks the nodes that fake kubelets play, so that one that is started again finds them."""
LEASE_NAMESPACE: Final = "kube-node-lease"
_LEASE_S: Final = 40
_PODS: Final = "1000"
_QUIET_CONDITIONS: Final = ("MemoryPressure", "DiskPressure", "PIDPressure")


@dataclass(slots=True)
class FakeNode:
    """A node and what of it is in use."""

    name: str
    """Its name."""
    uid: str
    """Its uid."""
    allocatable: dict[str, int]
    """What it has for pods, base units."""
    used: dict[str, int] = field(default_factory=dict)
    """What pods that have started and not ended ask for."""
    is_partitioned: bool = False
    """The API server and its kubelet do not reach each other; its pods go on."""
    next_heartbeat_s: float = 0.0
    """When it renews its lease, monotonic time."""
    has_lease: bool = False
    """Its lease was made."""

    def take(self, request: Mapping[str, int]) -> str:
        """Take what a pod asks for; return the resource that does not suffice, or nothing."""
        for name, amount in request.items():
            if amount and self.used.get(name, 0) + amount > self.allocatable.get(name, 0):
                return name
        for name, amount in request.items():
            self.used[name] = self.used.get(name, 0) + amount
        return ""

    def retake(self, before: Mapping[str, int], after: Mapping[str, int]) -> bool:
        """Take another amount for a pod that has some; return whether there was room, and it has it."""
        self.give_back(before)
        if self.take(after):
            self.take(before)
            return False
        return True

    def give_back(self, request: Mapping[str, int]) -> None:
        """Give back what a pod had taken."""
        for name, amount in request.items():
            self.used[name] -= amount


def allocatable_of(document: Mapping[str, Any]) -> dict[str, int]:
    """Return the allocatable amounts of a node's document in base units."""
    stated = document.get("status", {}).get("allocatable", {})
    return {name: parse_quantity(name, str(quantity)) for name, quantity in stated.items()}


def ready_conditions(now_s: float, *, is_ready: bool) -> list[dict[str, str]]:
    """Return the conditions that a kubelet writes."""
    now = rfc3339(now_s)
    ready = {
        "type": "Ready",
        "status": str(is_ready),
        "reason": "KubeletReady" if is_ready else "KubeletNotReady",
        "message": "played by a fake kubelet",
    }
    others = [{"type": name, "status": "False", "reason": "Fake", "message": ""} for name in _QUIET_CONDITIONS]
    return [{**condition, "lastHeartbeatTime": now, "lastTransitionTime": now} for condition in (ready, *others)]


def node_document(
    name: str,
    *,
    resources: Mapping[str, str],
    labels: Mapping[str, str],
    taints: list[dict[str, str]],
    log_port: int,
) -> dict[str, Any]:
    """Return a node as its kubelet registers it, ready at once."""
    amounts = {"pods": _PODS, "ephemeral-storage": "1Ti", **resources}
    endpoints = {"daemonEndpoints": {"kubeletEndpoint": {"Port": log_port}}} if log_port else {}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/os": "linux",
                "kubernetes.io/hostname": name,
                **labels,
            },
            "annotations": {OWNER_ANNOTATION: "true"},
        },
        "spec": {"taints": taints},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": ready_conditions(time.time(), is_ready=True),
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}, {"type": "Hostname", "address": name}],
            "nodeInfo": {
                "architecture": "amd64",
                "bootID": "",
                "containerRuntimeVersion": "fake://1",
                "kernelVersion": "fake",
                "kubeProxyVersion": "",
                "kubeletVersion": "v1.36.0-fake",
                "machineID": "",
                "operatingSystem": "linux",
                "osImage": "fake",
                "systemUUID": "",
            },
            **endpoints,
        },
    }


def lease_document(node: FakeNode, now_s: float) -> dict[str, Any]:
    """Return the lease with which a node tells that it lives."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": node.name,
            "namespace": LEASE_NAMESPACE,
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.uid}],
        },
        "spec": {
            "holderIdentity": node.name,
            "leaseDurationSeconds": _LEASE_S,
            "renewTime": rfc3339(now_s).replace("Z", f".{int(now_s % 1 * 1e6):06}Z"),
        },
    }

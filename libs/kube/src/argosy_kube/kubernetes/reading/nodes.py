"""What a node's document says, and which nodes are not heard of or lost.

Source: design section 5, "Node lost": a run ends only when its node object is gone or tainted out-of-service.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from enum import IntEnum
from typing import Final

from argosy_core.errors import InvalidRequest
from argosy_core.nodes import Taint
from argosy_core.resources import parse_quantity
from argosy_kube.kubernetes.api.documents import NodeDocument, Quantities, RuntimeClassDocument
from argosy_kube.port import NodeDescription

__all__ = ["OUT_OF_SERVICE", "NodeHealth", "NodeStates", "describe_node", "health_of", "overheads_of"]

OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"
"""Key of the taint by which a person says that a node is down for good and its pods may be given up."""
_OS_LABEL: Final = "kubernetes.io/os"
_ARCH_LABEL: Final = "kubernetes.io/arch"


class NodeHealth(IntEnum):
    """What can be known of the pods of a node."""

    HEARD = 0
    """Its kubelet reports, so pods are what they say."""
    UNHEARD = 1
    """Its kubelet does not report: pods may run or not."""
    LOST = 2
    """The node object is gone or tainted out-of-service: its pods have ended."""


def _ready(node: NodeDocument) -> str:
    for condition in node.status.conditions or ():
        if condition.type == "Ready":
            return condition.status
    return "False"


def _amounts(quantities: Quantities) -> dict[str, int]:
    """Return amounts in base units; what cannot be read is left out."""
    amounts: dict[str, int] = {}
    for name, quantity in quantities.items():
        with contextlib.suppress(InvalidRequest):
            amounts[name] = parse_quantity(name, str(quantity))
    return amounts


def overheads_of(classes: Iterable[RuntimeClassDocument]) -> dict[str, dict[str, int]]:
    """Return what a pod of each RuntimeClass takes beside its containers, base units; those that take nothing apart."""
    read = {one.metadata.name: _amounts(one.overhead.pod_fixed or {}) for one in classes if one.overhead is not None}
    return {name: amounts for name, amounts in read.items() if any(amounts.values())}


def describe_node(node: NodeDocument) -> NodeDescription:
    """Return a node as the port describes it; quantities that cannot be read count as none."""
    amounts = _amounts(node.status.allocatable or {})
    allocatable = {name: amount for name, amount in amounts.items() if amount or name in {"cpu", "memory", "pods"}}
    labels = node.metadata.labels or {}
    return NodeDescription(
        name=node.metadata.name,
        allocatable=allocatable,
        labels=labels,
        taints=tuple(
            Taint(key=taint.key, value=taint.value or "", effect=taint.effect) for taint in node.spec.taints or ()
        ),
        ready=_ready(node) == "True",
        unschedulable=bool(node.spec.unschedulable),
        operating_system=labels.get(_OS_LABEL, "linux"),
        architecture=labels.get(_ARCH_LABEL, "amd64"),
        uid=node.metadata.uid,
    )


def health_of(node: NodeDocument) -> NodeHealth:
    """Return what can be known of a node's pods; a node that has not reported yet counts as heard."""
    if any(taint.key == OUT_OF_SERVICE for taint in node.spec.taints or ()):
        return NodeHealth.LOST
    return NodeHealth.UNHEARD if _ready(node) == "Unknown" else NodeHealth.HEARD


class NodeStates:
    """The nodes that are not heard; all others are, also those that were never seen."""

    def __init__(self) -> None:
        """Start with every node heard."""
        self._health: dict[str, NodeHealth] = {}

    def __getitem__(self, name: str | None) -> NodeHealth:
        """Return what can be known of the pods of a node."""
        return self._health.get(name, NodeHealth.HEARD) if name else NodeHealth.HEARD

    def __bool__(self) -> bool:
        """Return whether some node is not heard."""
        return bool(self._health)

    def set(self, name: str, health: NodeHealth) -> bool:
        """Note what is known of a node; return whether that is news."""
        if health == self[name]:
            return False
        if health == NodeHealth.HEARD:
            del self._health[name]
        else:
            self._health[name] = health
        return True

    def reset(self, nodes: Iterable[NodeDocument], used: Iterable[str]) -> None:
        """Take a list of all nodes, and which ones pods were on when it was made: those that are missing are lost.

        Args:
            nodes: All nodes, listed after the pods.
            used: Names of nodes that pods are on.
        """
        health = {node.metadata.name: health_of(node) for node in nodes}
        self._health = {name: NodeHealth.LOST for name in used if name not in health}
        self._health |= {name: state for name, state in health.items() if state != NodeHealth.HEARD}

"""Nodes of a simulated cluster: from a file, or some kinds of which all nodes are alike.

A node file is a JSON array, or a JSON object with the array under `nodes`::

    [{"name": "n1", "allocatable": {"cpu": "32", "memory": "128Gi"}, "labels": {"rack": "r7"},
      "taints": [{"key": "gpu", "value": "", "effect": "NoSchedule"}]}]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from argosy_core.errors import InvalidRequest
from argosy_core.resources import PODS, format_amount, parse_quantity
from argosy_kube.port import NodeDescription, Taint
from argosy_kube.simulated.node_kinds import DEFAULT_POD_COUNT, NodeKind

__all__ = ["format_nodes", "make_nodes", "parse_nodes"]


class _Node(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    name: str
    allocatable: dict[str, str | int]
    labels: dict[str, str] = {}
    taints: list[Taint] = []
    ready: bool = True
    unschedulable: bool = False
    operating_system: str = "linux"
    architecture: str = "amd64"


class _Nodes(msgspec.Struct, kw_only=True):
    nodes: list[_Node]


def parse_nodes(document: bytes) -> list[NodeDescription]:
    """Return the nodes of a node file.

    Raises:
        InvalidRequest: It is no node file, has a bad quantity, or names a node twice.
    """
    try:
        if document.lstrip().startswith(b"{"):
            nodes = msgspec.json.decode(document, type=_Nodes).nodes
        else:
            nodes = msgspec.json.decode(document, type=list[_Node])
    except msgspec.DecodeError as cause:
        msg = f"not a node file: {cause}"
        raise InvalidRequest(msg) from cause
    seen: set[str] = set()
    described: list[NodeDescription] = []
    for node in nodes:
        if node.name in seen:
            msg = f"node {node.name!r} stands twice in the node file"
            raise InvalidRequest(msg)
        seen.add(node.name)
        described.append(
            NodeDescription(
                name=node.name,
                allocatable=_amounts(node.allocatable),
                labels=_labels(node.name, node.labels, node.operating_system, node.architecture),
                taints=tuple(node.taints),
                ready=node.ready,
                unschedulable=node.unschedulable,
                operating_system=node.operating_system,
                architecture=node.architecture,
                uid=f"node-{node.name}",
            )
        )
    return described


def format_nodes(nodes: Iterable[NodeDescription]) -> bytes:
    """Return nodes as a node file that parses back to them."""
    return msgspec.json.encode(
        [
            {
                "name": node.name,
                "allocatable": {name: format_amount(name, amount) for name, amount in node.allocatable.items()},
                "labels": dict(node.labels),
                "taints": [{"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in node.taints],
                "ready": node.ready,
                "unschedulable": node.unschedulable,
                "operating_system": node.operating_system,
                "architecture": node.architecture,
            }
            for node in nodes
        ]
    )


def make_nodes(cluster: str, kinds: Sequence[NodeKind]) -> list[NodeDescription]:
    """Return nodes of some kinds, named after their cluster: `c1-n00000` and so on, kind by kind."""
    nodes: list[NodeDescription] = []
    for kind in kinds:
        for number in range(len(nodes), len(nodes) + kind.count):
            name = f"{cluster}-n{number:05d}"
            nodes.append(
                NodeDescription(
                    name=name,
                    allocatable=kind.allocatable,
                    labels=_labels(name, kind.labels, "linux", "amd64"),
                    taints=kind.taints,
                    uid=f"node-{name}",
                )
            )
    return nodes


def _amounts(quantities: Mapping[str, str | int]) -> dict[str, int]:
    amounts = {name: parse_quantity(name, str(quantity)) for name, quantity in quantities.items()}
    return {PODS: DEFAULT_POD_COUNT, **amounts}


def _labels(name: str, labels: Mapping[str, str], operating_system: str, architecture: str) -> dict[str, str]:
    """Return labels together with those that every kubelet sets."""
    return {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": operating_system,
        "kubernetes.io/arch": architecture,
        **labels,
    }

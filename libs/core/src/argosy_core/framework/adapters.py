"""Plugins written per node, as plain Python functions, made to answer for many nodes at once.

The convenient way to write a plugin; the answer is the same as that of the vectorised form, only slower (about a
microsecond a node).

Source: design section 6, "vectorised plugins"; seed 002 "Filter", "Scoring".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from argosy_core.framework.cycle import Cycle
from argosy_core.job.reading.classes import HostPort, SchedulingClass
from argosy_core.nodes import HOSTNAME_LABEL, NodeFlag, NodeTable, Taint
from argosy_core.resources import PODS

__all__ = ["NodeView", "PodView", "per_node_filter", "per_node_score", "view_node"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """One node as a value."""

    name: str
    """Node name."""
    labels: Mapping[str, str]
    """All labels."""
    taints: tuple[Taint, ...]
    """All taints."""
    platform: tuple[str, str]
    """(operating system, architecture)."""
    usable: bool
    """Ready, not cordoned, in the cluster."""
    allocatable: Mapping[str, int]
    """Total minus system, base units by resource name."""
    free: Mapping[str, int]
    """Free now, base units by resource name; may be negative."""
    host_ports: frozenset[HostPort]
    """Ports in use of those that the pod asks for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodView:
    """One pod as a value."""

    definition: SchedulingClass
    """Its scheduling class."""
    requests: Mapping[str, int]
    """Base units by resource name, `pods` included."""


def view_node(table: NodeTable, row: int, ports: tuple[HostPort, ...] = ()) -> NodeView:
    """Return a node of the table as a value.

    Args:
        table: The node table.
        row: The node.
        ports: Host ports to tell the use of.
    """
    group = table.groups[int(table.group[row])]
    labels = dict(group.labels)
    if table.hostnames[row]:
        labels[HOSTNAME_LABEL] = table.hostnames[row]
    return NodeView(
        name=table.names[row],
        labels=labels,
        taints=group.taints,
        platform=group.platform,
        usable=bool(table.flags[row] == NodeFlag.READY),
        allocatable=dict(zip(table.axis.names, table.allocatable[:, row].tolist(), strict=True)),
        free=dict(zip(table.axis.names, table.free[:, row].tolist(), strict=True)),
        host_ports=frozenset(port for port in ports if not table.ports.is_free(row, (port,))),
    )


def per_node_filter(function: Callable[[PodView, NodeView], bool]) -> Callable[[Cycle], npt.NDArray[np.bool_]]:
    """Return the vectorised form of a filter that answers for one pod and one node."""

    def vectorised(cycle: Cycle) -> npt.NDArray[np.bool_]:
        passed = np.zeros(cycle.shape, np.bool_)
        for pod, place, node in _pairs(cycle):
            passed[pod, place] = function(_view_pod(cycle, pod), node)
        return passed

    return vectorised


def per_node_score(function: Callable[[PodView, NodeView], float]) -> Callable[[Cycle], npt.NDArray[np.float64]]:
    """Return the vectorised form of a score; a node on which the function fails scores 0 and blocks nothing."""

    def vectorised(cycle: Cycle) -> npt.NDArray[np.float64]:
        scores = np.zeros(cycle.shape)
        for pod, place, node in _pairs(cycle):
            try:
                scores[pod, place] = function(_view_pod(cycle, pod), node)
            except Exception:  # noqa: BLE001, S112 - a score never blocks scheduling (seed 002)
                continue
        return scores

    return vectorised


def _pairs(cycle: Cycle) -> list[tuple[int, int, NodeView]]:
    """Return (pod, place, node) for every pair that no earlier filter turned away."""
    pods, places = np.nonzero(cycle.alive)
    rows = np.broadcast_to(cycle.nodes, cycle.shape)[pods, places]
    pairs = zip(pods.tolist(), places.tolist(), rows.tolist(), strict=True)
    return [
        (pod, place, view_node(cycle.table, row, cycle.pods.definition(pod).host_ports)) for pod, place, row in pairs
    ]


def _view_pod(cycle: Cycle, pod: int) -> PodView:
    """Return a pod of the batch as a value."""
    definition = cycle.pods.definition(pod)
    return PodView(definition=definition, requests={PODS: 1, **dict(definition.requests)})

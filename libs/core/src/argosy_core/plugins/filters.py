"""The built-in filters: which nodes can run a pod. All are vectorised over k pods and n nodes.

Source: seed 004 "Filters"; design section 1 of the first capability: ready and not cordoned, resources, node selector
and affinity, taints and tolerations, platform, host ports.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import has_true, true_places
from argosy_core.framework import ClassTable, Cycle
from argosy_core.job.reading.classes import Toleration
from argosy_core.nodes import NodeFlag, NodeGroup, Taint
from argosy_core.plugins.groups import GroupResults

__all__ = [
    "PlatformFilter",
    "TaintFilter",
    "host_ports",
    "node_ready",
    "resources",
    "runs_on",
    "tolerates",
]

Bools = npt.NDArray[np.bool_]

_READY: Final = np.uint8(NodeFlag.READY)
_REPELLING: Final = frozenset({"NoSchedule", "NoExecute"})


def node_ready(cycle: Cycle) -> Bools:
    """Filter `node-ready`: ready, not cordoned, in the cluster."""
    return np.asarray(cycle.flags() == _READY)


def resources(cycle: Cycle) -> Bools | None:
    """Filter `resources`: of each resource that the pod asks for, as much is free."""
    passed: Bools | None = None
    for column in true_places(cycle.pods.needed).tolist():
        enough = cycle.free(column) >= cycle.pods.demands[:, column, None]
        passed = enough if passed is None else np.logical_and(passed, enough, out=passed)
    return passed


def host_ports(cycle: Cycle) -> Bools | None:
    """Filter `host-ports`: no port of the pod clashes with one that another pod on the node holds."""
    pods = cycle.pods
    if not has_true(pods.port):
        return None
    passed = np.ones(cycle.shape, np.bool_)
    nodes = np.broadcast_to(cycle.nodes, cycle.shape)
    for number in np.unique(pods.port[pods.port > 0]).tolist():
        taken = np.zeros(len(cycle.table), np.bool_)
        taken[cycle.table.ports.taken_at(pods.table.ports[number])] = True
        rows = pods.port == number
        passed[rows] = ~taken[nodes[rows]]
    return passed


def tolerates(tolerations: tuple[Toleration, ...], taint: Taint) -> bool:
    """Return whether one of the tolerations matches a taint, by the rules of Kubernetes."""
    return any(
        (not toleration.effect or toleration.effect == taint.effect)
        and (toleration.key == taint.key or (not toleration.key and toleration.operator == "Exists"))
        and (toleration.operator == "Exists" or toleration.value == taint.value)
        for toleration in tolerations
    )


class TaintFilter:
    """Filter `taints`: the pod tolerates every taint of effect NoSchedule or NoExecute."""

    def __init__(self) -> None:
        """Start with nothing evaluated."""
        self._classes: ClassTable | None = None
        self._answers = GroupResults(self._accepts)

    def __call__(self, cycle: Cycle) -> Bools | None:
        """Return (k, n): which nodes have no taint that repels the pod; None if no node has one."""
        pods = cycle.pods
        if self._classes is not pods.table:
            self._classes = pods.table
            self._answers = GroupResults(self._accepts)
        if self._answers.all_true(cycle.table.groups, len(pods.table.tolerations)):
            return None
        return self._answers.look_up(cycle.table.groups, len(pods.table.tolerations), pods.toleration, cycle.group())

    def _accepts(self, number: int, group: NodeGroup) -> bool:
        """Return whether the tolerations of a number bear the taints of a group."""
        assert self._classes is not None
        tolerations = self._classes.tolerations[number]
        return all(tolerates(tolerations, taint) for taint in group.taints if taint.effect in _REPELLING)


def runs_on(platforms: tuple[tuple[str, str], ...], platform: tuple[str, str]) -> bool:
    """Return whether a node's (os, architecture) is among those wanted; empty text is any, no list is all platforms.

    Names are compared literally, as a kubelet compares labels: x86_64 is not amd64.
    """
    os, architecture = platform
    return not platforms or any(
        wanted_os in {"", os} and wanted_architecture in {"", architecture}
        for wanted_os, wanted_architecture in platforms
    )


class PlatformFilter:
    """Filter `platform`: operating system and architecture are among those that the pod can run on."""

    def __init__(self) -> None:
        """Start with nothing evaluated."""
        self._classes: ClassTable | None = None
        self._answers = GroupResults(self._accepts)

    def __call__(self, cycle: Cycle) -> Bools | None:
        """Return (k, n): which nodes have a platform that the pod accepts; None if no pod minds."""
        pods = cycle.pods
        if not has_true(pods.platform):
            return None
        if self._classes is not pods.table:
            self._classes = pods.table
            self._answers = GroupResults(self._accepts)
        return self._answers.look_up(cycle.table.groups, len(pods.table.platforms), pods.platform, cycle.group())

    def _accepts(self, number: int, group: NodeGroup) -> bool:
        """Return whether the platforms of a number include that of a group."""
        assert self._classes is not None
        return runs_on(self._classes.platforms[number], group.platform)

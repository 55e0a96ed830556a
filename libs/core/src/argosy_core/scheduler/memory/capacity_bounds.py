"""How much of what a cluster tells is believed: so much of a node, and so much of all its nodes together.

A cluster's totals count for everybody's shares, and its own sampler tells them. One that lies must not shift them
without end: no node has more than a machine can have, all of them have no more than as many such machines, and where an
administrator said what a cluster has at most, no more than that counts. Nor may tables of nodes grow beyond what was
told. May import resource names only.

Source: design section 7, invariant 15.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.errors import InvalidRequest
from argosy_core.resources import CPU, MEMORY

__all__ = [
    "MAX_NODES",
    "MAX_TOTAL",
    "MAX_UNSET_TOTAL",
    "NODE_BOUNDS",
    "check_growth",
    "check_nodes",
    "counted_total",
]

MAX_NODES: Final = 1 << 18
"""Nodes of one cluster, those that went and whose numbers are not used again included."""
MAX_TOTAL: Final = 1 << 60
"""Most of one resource that one cluster may have, base units."""
_MAX_CELLS: Final = 1 << 23
"""Nodes times resources of one cluster: 100,000 nodes with 80 resources, 64 MiB in each table of theirs."""
NODE_BOUNDS: Final[Mapping[str, int]] = {CPU: 1 << 23, MEMORY: 1 << 48}
"""Most that a node has: 8,388 cores, as Linux serves 8,192; 256 TiB, five times the largest machine on sale."""
_OTHER_NODE_BOUND: Final = 1 << 48
"""Most of any other resource, whose units are its maker's."""
MAX_UNSET_TOTAL: Final = 1 << 55
"""Most that counts of a resource where nobody set a bound, base units: 32 PiB, so that it takes more than a hundred
lying clusters until an honest one's capacity cannot be counted beside theirs."""


def _node_bounds(resources: Sequence[str]) -> npt.NDArray[np.int64]:
    return np.array([NODE_BOUNDS.get(name, _OTHER_NODE_BOUND) for name in resources], dtype=np.int64)


def check_growth(node: npt.NDArray[np.integer], known_count: int, resource_count: int) -> None:
    """Do nothing if a table of nodes may grow by what a sampler tells, which must have told the nodes before them.

    Without that, one node with a high number would cost the memory of as many.

    Args:
        node: Numbers of the nodes told, each once.
        known_count: One more than the highest number told before.
        resource_count: Resources that the cluster has told, these included.

    Raises:
        InvalidRequest: The numbers leave a gap, or the cluster has too many nodes with too many resources.
    """
    end = int(node.max(initial=-1)) + 1
    if end > known_count + node.size:
        raise InvalidRequest(f"node {end - 1} is told, but only {known_count + node.size} nodes with those before it")
    if max(end, known_count) * resource_count > _MAX_CELLS:
        raise InvalidRequest(
            f"{max(end, known_count)} nodes with {resource_count} different resources are more than a leader counts"
        )


def check_nodes(names: Sequence[str], allocatable: npt.NDArray[np.int64], resources: Sequence[str]) -> None:
    """Do nothing if no node has more than a machine can have.

    Args:
        names: Names of n nodes.
        allocatable: (n, r) base units.
        resources: Names of the r resources.

    Raises:
        InvalidRequest: One has; the error names it.
    """
    most = _node_bounds(resources)
    beyond = allocatable > most
    if beyond.any():
        node, column = (int(found[0]) for found in np.nonzero(beyond))
        raise InvalidRequest(
            f"node {names[node]!r} has {allocatable[node, column]} of {resources[column]}; no machine has more than"
            f" {most[column]}"
        )


def counted_total(
    total: npt.NDArray[np.int64], resources: Sequence[str], *, node_count: int, most: Mapping[str, int]
) -> npt.NDArray[np.int64]:
    """Return what of a cluster's totals counts.

    Args:
        total: r totals as they were told, base units.
        resources: Names of the r resources.
        node_count: Nodes that were named.
        most: What an administrator set, base units by resource; may be without any of them.
    """
    unset = np.minimum(_node_bounds(resources), MAX_UNSET_TOTAL // max(node_count, 1)) * node_count
    bounds = [most.get(name, int(bound)) for name, bound in zip(resources, unset, strict=True)]
    return np.minimum(total, np.array(bounds, dtype=np.int64))

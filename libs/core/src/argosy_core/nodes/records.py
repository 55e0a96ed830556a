"""Nodes as values: what is told of one or of many, sums over all, and the bits of a node's state.

Owns what passes in and out of the node table. May import groups of nodes; knows nothing of the table.

Source: design section 6, "Data layout"; seed 001 "Basics: reserved, system, and total".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntFlag
from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.nodes.groups import NodeGroup, Taint

__all__ = ["ANY_NODE", "DEFAULT_POD_COUNT", "NodeColumns", "NodeFlag", "NodeSpec", "NodeTotals"]

Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]

DEFAULT_POD_COUNT: Final = 110
"""Pods that a node takes if it does not say, as in Kubernetes."""
ANY_NODE: Final = "*"
"""Node of a lease that names its cluster only, until a sampler has placed it; no node of Kubernetes has such a name."""


class NodeFlag(IntFlag):
    """State of a node in one byte; the bits of the sampler's capacity message."""

    READY = 1
    """The node is ready."""
    CORDONED = 2
    """Somebody cordoned it: Kubernetes (`unschedulable`) or an administrator."""
    REMOVED = 4
    """It is not in the cluster (any more)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpec:
    """A node as its cluster describes it."""

    name: str
    """Node name, unique in the cluster."""
    total: Mapping[str, int]
    """All it has, base units by resource name; `pods` is DEFAULT_POD_COUNT if not named."""
    system: Mapping[str, int] = field(default_factory=dict)
    """What is kept for functions the scheduler is not responsible for, base units by resource name."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """All labels."""
    taints: tuple[Taint, ...] = ()
    """All taints."""
    platform: tuple[str, str] = ("", "")
    """(operating system, architecture); empty texts are read from the labels."""
    ready: bool = True
    """It can run pods."""
    unschedulable: bool = False
    """Kubernetes cordoned it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeColumns:
    """n nodes as another process has told them; what is told of each is final."""

    names: Sequence[str]
    """Names, each once."""
    groups: Sequence[NodeGroup]
    """Distinct labels, taints and platforms."""
    group: Int32s
    """(n,) index into `groups`."""
    flags: npt.NDArray[np.uint8]
    """(n,) bits of NodeFlag."""
    resources: tuple[str, ...]
    """r resources."""
    allocatable: Int64s
    """(n, r) total minus system, base units."""
    free: Int64s
    """(n, r) free, base units."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTotals:
    """Sums over the usable (ready, not cordoned) nodes; arrays have one element per resource of the axis."""

    allocatable: Int64s
    """Total minus system."""
    free: Int64s
    """Free now, nodes with a negative amount counted as 0."""
    node_count: int
    """Nodes in the cluster, usable or not."""
    usable_count: int
    """Usable nodes."""

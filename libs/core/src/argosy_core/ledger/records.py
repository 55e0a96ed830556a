"""What the ledger is told and what it answers, as columns.

Source: design section 5, "Sampler session".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from argosy_core.job.reading.classes import HostPort
from argosy_core.job.reading.scaling import Scaling
from argosy_core.job.tables.members import Members

__all__ = ["LedgerTotals", "ListOutcome", "ObserveOutcome", "PodEvents"]

Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True, kw_only=True)
class PodEvents:
    """Pods as the cluster shows them, n events, in order per pod; states in between may be left out."""

    members: Members
    """(n,) member of a run that the pod's labels name; ordinal 0 for an unmanaged pod."""
    uids: npt.NDArray[np.uint8]
    """(n, 16) uid of the pod."""
    nodes: Int32s
    """(n,) row of the node table, -1 for a pod without a node."""
    ended: npt.NDArray[np.bool_]
    """(n,) the pod's containers ended for good, or the pod is gone."""
    requests: Int64s
    """(n, resource of the ledger's axis) base units that the pod asks for, `pods` included."""
    host_ports: Mapping[int, tuple[HostPort, ...]] = field(default_factory=dict)
    """By position of the event: host ports that the pod takes, left out where it takes none."""
    scalings: Mapping[int, Scaling] = field(default_factory=dict)
    """By position of the event: within what the pod is resized, left out where it is not."""

    def __len__(self) -> int:
        """Return the number of events."""
        return len(self.members)

    def part(self, positions: npt.NDArray[np.integer]) -> PodEvents:
        """Return some of the events."""
        chosen: dict[int, int] = {}
        if self.host_ports or self.scalings:
            chosen = {old: new for new, old in enumerate(positions.tolist())}
        return PodEvents(
            members=self.members[positions],
            uids=self.uids[positions],
            nodes=self.nodes[positions],
            ended=self.ended[positions],
            requests=self.requests[positions],
            host_ports={chosen[old]: ports for old, ports in self.host_ports.items() if old in chosen},
            scalings={chosen[old]: scaling for old, scaling in self.scalings.items() if old in chosen},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserveOutcome:
    """What pod events changed."""

    added_count: int
    """Pods that nothing was known of."""
    replaced_count: int
    """Placements whose pod stands elsewhere or asks for something else; its facts now count."""
    ended_count: int
    """Placements that ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOutcome:
    """What a leader's full list changed."""

    added_count: int
    """Placements that were not known."""
    moved_count: int
    """Placements without a pod that the leader has elsewhere or with another class."""
    dropped_count: int
    """Placements that the list lacks and no pod of which was observed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerTotals:
    """Sums over the cluster; arrays have one element per resource of the ledger's axis."""

    allocatable: Int64s
    """Total minus system, over usable nodes."""
    free: Int64s
    """Free now, over usable nodes, nodes with a negative amount counted as 0."""
    node_count: int
    """Nodes in the cluster."""
    usable_count: int
    """Nodes that are ready and not cordoned."""
    placement_count: int
    """Members of runs that have a placement."""

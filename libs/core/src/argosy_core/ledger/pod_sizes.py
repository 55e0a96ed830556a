"""Sizes of scaled pods, for people: what each asked for, may have and has, and what keeps it there.

Source: docs/autoscale.md "Seen".
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from argosy_core.arrays import Int8s, Int64s
from argosy_core.job.tables.members import Members
from argosy_core.ledger.permits import PermitLedger
from argosy_core.ledger.placements import PlacementTable

__all__ = ["PodSizeState", "PodSizes", "pod_sizes"]


class PodSizeState(IntEnum):
    """What keeps a pod at its size; values of argosy.api.v1.ScaledPodState."""

    AS_ASKED = 1
    """It may have what was asked for."""
    WAITS_FOR_ROOM = 2
    """Its node has not all that was asked for."""
    NODE_DRAINS = 3
    """Its node is cordoned: it is not granted more."""
    IS_MOVED = 4
    """It was named to be moved, because its node is too full."""
    NO_AGENT = 5
    """No agent holds it."""
    UNCERTAIN = 6
    """No agent holds it, and it counts at what one may still give it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSizes:
    """n pods; amounts are (resource of SCALED, n), base units."""

    members: Members
    """Members of runs that they are."""
    requested: Int64s
    """Asked for."""
    approved: Int64s
    """Permitted; 0 where nobody holds the pod."""
    actual: Int64s
    """What the cluster shows: the most of desired, allocated and actual."""
    state: Int8s
    """Values of PodSizeState."""

    def __len__(self) -> int:
        """Return how many they are."""
        return len(self.members)


def pod_sizes(permits: PermitLedger, placements: PlacementTable, pool: int) -> PodSizes:
    """Return the scaled pods of a pool's runs. Complexity: O(scaled pods) in NumPy."""
    pods = permits.pods
    rows = pods.live()
    slots = pods.slot[rows]
    ours = (placements.pool[slots] == pool) & (placements.handle[slots] >= 0) & ~pods.is_off[rows]
    rows, slots = rows[ours], slots[ours]
    held = pods.session[rows] != 0
    state = np.select(
        [
            pods.is_moving[rows],
            ~held & pods.buffer(rows).any(axis=0),
            ~held,
            pods.is_draining[rows],
            pods.deferred(rows).any(axis=0),
        ],
        [
            PodSizeState.IS_MOVED, PodSizeState.UNCERTAIN, PodSizeState.NO_AGENT, PodSizeState.NODE_DRAINS,
            PodSizeState.WAITS_FOR_ROOM,
        ],
        PodSizeState.AS_ASKED,
    )  # fmt: skip
    return PodSizes(
        members=placements.keys(slots),
        requested=np.where(held, pods.wanted[:, rows], pods.observed[:, rows]),
        approved=pods.permit[:, rows].copy(),
        actual=pods.observed[:, rows].copy(),
        state=state.astype(np.int8),
    )

"""The room that permits come from: what of each node is left for them, and what scaled pods are booked at.

Above the watermark no pod is placed where pods are scaled, so that much is withheld from placements, though permits may
have it. What a pod is booked at is taken off its node like any placement's.

Owns what is withheld and every change of a scaled pod's booking. May import placements, nodes, the scaled pods and how
room is shared; knows no session, clock or note.

Source: seed 001 "Deep dive into resource management"; design sections 5 "Resize", 7 invariant 8.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from argosy_core.arrays import Float64s, Int32s, Int64s
from argosy_core.job.reading.scaling import SCALED
from argosy_core.ledger.permit_records import NodeAccounts, PermitSettings, sums_by_node
from argosy_core.ledger.placements import PlacementTable
from argosy_core.ledger.scaled_pods import ScaledPodTable
from argosy_core.ledger.sharing import Demand, share_room
from argosy_core.nodes import NodeTable

__all__ = ["PermitRoom"]


class PermitRoom:
    """Bookings of the scaled pods of one cluster.

    Args:
        pods: The scaled pods.
        placements: Who takes how much; bookings of scaled pods are kept there.
        nodes: What is free.
        settings: How permits are given.
    """

    def __init__(
        self, pods: ScaledPodTable, placements: PlacementTable, nodes: NodeTable, settings: PermitSettings
    ) -> None:
        """Start with nothing withheld."""
        self.settings = settings
        """How permits are given; a unit that changes counts from the next answer on."""
        self.pods = pods
        self.columns = np.array([nodes.axis.index(name) for name in SCALED])
        """Places of SCALED on the axis."""
        self._placements = placements
        self._nodes = nodes
        self._withheld = np.zeros((len(SCALED), 0), np.int64)

    def node_accounts(self) -> NodeAccounts:
        """Return the accounts of all nodes. Complexity: O(nodes + scaled pods) in NumPy."""
        nodes, pods, rows = self._nodes, self.pods, self.pods.live()
        at = self._placements.node[pods.slot[rows]]
        allocatable, system = nodes.allocatable[self.columns], nodes.system[self.columns]
        moving = rows[pods.is_moving[rows]]
        return NodeAccounts(
            total=allocatable + system,
            system=system.copy(),
            reserved=allocatable - self.left(),
            buffer=sums_by_node(pods.buffer(rows), at, len(nodes)),
            pressure=sums_by_node(pods.deferred(rows), at, len(nodes)),
            watermark=(allocatable * self._watermarks()).astype(np.int64),
            accounted=sums_by_node(pods.booked(moving) + pods.deferred(moving), at[pods.is_moving[rows]], len(nodes)),
        )

    def withheld(self) -> Int64s:
        """Return (resource, node) what placements may not have, though permits may: what is above the watermark."""
        missing = len(self._nodes) - self._withheld.shape[1]
        if missing > 0:
            self._withheld = np.pad(self._withheld, ((0, 0), (0, missing)))
        return self._withheld

    def left(self) -> Int64s:
        """Return (resource, node) what permits may have of what is left."""
        room: Int64s = self._nodes.free[self.columns] + self.withheld()
        return room

    def _watermarks(self) -> Float64s:
        """Return the watermark of each node, a part of 1."""
        ratios = np.full(len(self._nodes), self.settings.watermark_ratio)
        for name, ratio in self.settings.node_watermarks.items():
            row = int(self._nodes.index_of([name])[0])
            if row >= 0:
                ratios[row] = ratio
        return ratios

    def withhold(self) -> None:
        """Keep what is above the watermark from placements, on nodes where pods are scaled."""
        before, nodes = self.withheld(), self._nodes
        if self.settings.watermark_ratio >= 1 and not self.settings.node_watermarks and not before.any():
            return
        has_scaled = np.zeros(len(nodes), np.bool_)
        has_scaled[self._placements.node[self.pods.slot[self.pods.live()]]] = True
        allocatable = nodes.allocatable[self.columns]
        wanted = np.where(has_scaled, allocatable - (allocatable * self._watermarks()).astype(np.int64), 0)
        self._withheld = wanted
        self._move_amounts(np.arange(len(nodes), dtype=np.int32), wanted - before)

    def units(self, rows: Int32s) -> Int64s:
        """Return (resource, n) the compute unit at each pod's node."""
        units = np.repeat(np.array(self.settings.unit, np.int64)[:, np.newaxis], len(rows), axis=1)
        if self.settings.node_units:
            at = self._placements.node[self.pods.slot[rows]]
            for name, unit in self.settings.node_units.items():
                units[:, at == self._nodes.index_of([name])[0]] = np.array(unit)[:, np.newaxis]
        own = self.pods.own_unit[:, rows]
        return np.where(own > 0, own, units)

    def rebook(self, rows: Int32s) -> None:
        """Book distinct pods at what they are to be booked at now."""
        placements = self._placements
        slots = self.pods.slot[rows]
        where = np.ix_(self.columns, slots)
        booked = self.pods.booked(rows)
        change = booked - placements.amounts[where]
        if not change.any():
            return
        placements.amounts[where] = booked
        self._move_amounts(placements.node[slots], change)

    def share(self, rows: Int32s, node: int, weights: Mapping[int, float]) -> None:
        """Share out the room of one node that has too little among pods there that want more, by weights of queues."""
        pods, live = self.pods, self.pods.live()
        there = live[self._placements.node[pods.slot[live]] == node]
        growth = np.maximum(pods.booked(there) - pods.buffer(there) - pods.least[:, there], 0)
        grown: dict[int, list[int]] = {}
        for queue in np.unique(pods.queue[there]).tolist():
            grown[queue] = growth[:, pods.queue[there] == queue].sum(axis=1).tolist()
        booked, units = pods.booked(rows), self.units(rows)
        demands = [
            Demand(
                has=tuple(booked[:, at].tolist()),
                wanted=tuple(pods.wanted[:, row].tolist()),
                least=tuple(pods.least[:, row].tolist()),
                unit=tuple(units[:, at].tolist()),
                queue=int(pods.queue[row]),
                is_bundle=bool(pods.is_bundle[row]),
            )
            for at, row in enumerate(rows.tolist())
        ]
        total = self._nodes.allocatable[self.columns, node].tolist()
        free = self.left()[:, node]
        room = np.maximum(free, 0).tolist()
        given = share_room(room, demands, total=total, growth=grown, weights=weights)
        permits = np.minimum(np.array(given, np.int64).T, pods.wanted[:, rows])
        permits[free < 0] = 0
        pods.permit[:, rows] = np.maximum(pods.permit[:, rows], permits)
        self.rebook(rows)

    def _move_amounts(self, at: Int32s, change: Int64s) -> None:
        """Take (resource of SCALED, n) amounts of nodes, or give back what is below 0."""
        amounts = np.zeros((len(self._nodes.axis), len(at)), np.int64)
        for move, part in ((self._nodes.take, np.maximum(change, 0)), (self._nodes.give, np.maximum(-change, 0))):
            moved = part.any(axis=0)
            if moved.any():
                amounts[self.columns] = part
                move(at[moved], amounts[:, moved])

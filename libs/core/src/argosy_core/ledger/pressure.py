"""Pods that are to be moved because their node is too full: to move a pod is to end its run, so that it waits again.

Per node and resource of SCALED, *pressure* is what is reserved above the watermark, as far as pods that are scaled have
it, and what they were denied. Pods are named until those named account for it: what they are booked at and were denied
goes with them. A watermark of 1, the default, names nobody.

Named are pods that are marked movable and whose run would find room on another node by its amounts; the one that loses
least work comes first, then the one that relieves most. A job whose pod was named rests, so it is not sent to and fro.
The leader preempts what is named; a pod that is still there after a while was not moved, and counts again.

Source: seed 001 "Pressure and watermarks"; docs/autoscale.md "Pressure".
"""

from __future__ import annotations

from typing import Final

import numpy as np

from argosy_core.arrays import Bools, Int32s, Int64s
from argosy_core.framework import ClassTable
from argosy_core.job.reading.scaling import SCALED
from argosy_core.job.tables.members import Members
from argosy_core.ledger.permits import PermitLedger
from argosy_core.ledger.placements import PlacementTable
from argosy_core.nodes import NodeFlag, NodeTable

__all__ = ["MoveLedger"]

_MOST_RESTING: Final = 10_000
"""Jobs that are remembered to rest; beyond them the oldest is forgotten."""


class MoveLedger:
    """Moves of one cluster.

    Args:
        permits: The permits, whose clock and settings count.
        placements: Who takes how much.
        nodes: What is free.
        classes: What runs ask for.
    """

    def __init__(
        self, permits: PermitLedger, placements: PlacementTable, nodes: NodeTable, *, classes: ClassTable
    ) -> None:
        """Have named nobody."""
        self._permits = permits
        self._placements = placements
        self._nodes = nodes
        self.classes = classes
        """What runs ask for."""
        self._columns = np.array([nodes.axis.index(name) for name in SCALED])
        self._named_s: dict[int, float] = {}
        """By job handle: when a pod of it was named; oldest first."""

    def name_moves(self) -> Int32s:
        """Name pods to be moved, as far as pressure is not accounted for, and give up moves that failed.

        Returns:
            Rows of scaled pods that were named now.

        Complexity: O(scaled pods + nodes) in NumPy; Python work for pods of nodes under pressure. Next to nothing
            where no watermark is set and nothing is moved.
        """
        permits, pods = self._permits, self._permits.pods
        settings = permits.settings
        if settings.watermark_ratio >= 1 and not settings.node_watermarks and not pods.is_moving.any():
            return np.zeros(0, np.int32)
        rows = pods.live()
        failed = rows[pods.is_moving[rows] & (pods.moving_s[rows] + settings.move_timeout_s <= permits.now_s)]
        if len(failed):
            permits.move(failed, is_moving=False)
        accounts = permits.room.node_accounts()
        is_open = accounts.watermark < accounts.total - accounts.system
        if not is_open.any():
            return np.zeros(0, np.int32)
        at = self._placements.node[pods.slot[rows]]
        ours = np.zeros_like(accounts.reserved)
        np.add.at(ours.T, at, pods.booked(rows).T)
        above = np.minimum(np.maximum(accounts.reserved - accounts.watermark, 0), ours)
        unaccounted = np.where(is_open.any(axis=0), above + accounts.pressure - accounts.accounted, 0)
        named: list[int] = []
        for node in np.flatnonzero((unaccounted > 0).any(axis=0)).tolist():
            named += self._choose(rows[(at == node) & self._may_move(rows)], node, unaccounted[:, node].copy())
        chosen = np.array(named, np.int32)
        if named:
            permits.move(chosen, is_moving=True)
        return chosen

    def take_moves(self, pool: int) -> Members:
        """Return the members of a pool's runs that were named and of which its leader was not told, each once."""
        pods, table = self._permits.pods, self._placements
        rows = np.flatnonzero(pods.is_moving & ~pods.is_move_told & (pods.slot >= 0)).astype(np.int32)
        rows = rows[table.pool[pods.slot[rows]] == pool]
        pods.is_move_told[rows] = True
        return table.keys(pods.slot[rows])

    def forget_told(self, pool: int) -> None:
        """Let a pool's leader be told anew which pods are to be moved."""
        pods = self._permits.pods
        rows = pods.live()
        pods.is_move_told[rows[self._placements.pool[pods.slot[rows]] == pool]] = False

    def _may_move(self, rows: Int32s) -> Bools:
        """Return which pods may be named: a leader holds them, their users let them go, and their jobs do not rest."""
        pods, table = self._permits.pods, self._placements
        handles = table.handle[pods.slot[rows]]
        may: Bools = pods.is_movable[rows] & ~pods.is_moving[rows] & ~pods.is_off[rows] & (handles >= 0)
        since_s = self._permits.now_s - self._permits.settings.move_rest_s
        resting = [handle for handle, named_s in self._named_s.items() if named_s > since_s]
        return may & ~np.isin(handles, np.array(resting, np.int64)) & (table.class_slot[pods.slot[rows]] >= 0)

    def _choose(self, rows: Int32s, node: int, unaccounted: Int64s) -> list[int]:
        """Return pods of one node to be moved, until nothing is left that is not accounted for."""
        pods, table = self._permits.pods, self._placements
        relief = pods.booked(rows) + pods.deferred(rows)
        lost = (self._permits.now_s - pods.since_s[rows]) * pods.booked(rows)[0]
        total = np.maximum(self._nodes.allocatable[self._columns, node], 1)
        share = (np.minimum(relief, np.maximum(unaccounted, 0)[:, np.newaxis]) / total[:, np.newaxis]).max(axis=0)
        left = self._nodes.free.copy()
        left[:, (self._nodes.flags != NodeFlag.READY) | (np.arange(left.shape[1]) == node)] = -1
        chosen: list[int] = []
        for place in np.lexsort((-share, lost)).tolist():
            if not (unaccounted > 0).any():
                break
            slot = int(pods.slot[rows[place]])
            needed = self.classes.requests[table.class_slot[slot]]
            fits = (left >= needed[:, np.newaxis]).all(axis=0)
            if not fits.any() or not (relief[unaccounted > 0, place] > 0).any():
                continue
            left[:, int(np.argmax(fits))] -= needed
            unaccounted -= relief[:, place]
            chosen.append(int(rows[place]))
            self._rest(int(table.handle[slot]))
        return chosen

    def _rest(self, handle: int) -> None:
        self._named_s.pop(handle, None)
        self._named_s[handle] = self._permits.now_s
        while len(self._named_s) > _MOST_RESTING:
            del self._named_s[next(iter(self._named_s))]

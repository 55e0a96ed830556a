"""Placements as columns: who takes how much of which node, and on whose word.

A placement stands for one member of a run, or for one unmanaged pod. A member's key is its own; an unmanaged pod's is
made of its uid and has a negative handle. A placement is held by the leader (who committed or listed it), by its pod
(which was observed), or by both, and ends when nobody holds it.

Source: design section 5, "Sampler session"; seed 001.
"""

from __future__ import annotations

from enum import IntFlag
from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import Objects, true_places
from argosy_core.job.tables.key_index import LOWEST_KEY, KeyIndex
from argosy_core.job.tables.members import Members

__all__ = ["Hold", "PlacementTable", "unmanaged_keys"]

Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]

_FIRST_CAPACITY: Final = 256


class Hold(IntFlag):
    """Who keeps a placement alive."""

    LEADER = 1
    """The leader committed or listed it, and did not release it."""
    POD = 2
    """Its pod was observed, and not its end."""


class PlacementTable:
    """Placements by slot; a slot is used again once its placement ended.

    Args:
        resource_count: Columns of the amounts.
    """

    def __init__(self, resource_count: int) -> None:
        """Start empty."""
        self.handle = np.zeros(_FIRST_CAPACITY, np.int64)
        """(slot,): first column of the key, negative for unmanaged pods."""
        self.ordinal = np.zeros(_FIRST_CAPACITY, np.int64)
        """(slot,): second column of the key."""
        self.node = np.zeros(_FIRST_CAPACITY, np.int32)
        """(slot,): row of the node table."""
        self.class_slot = np.zeros(_FIRST_CAPACITY, np.int32)
        """(slot,): slot of the scheduling class, -1 if only the pod is known."""
        self.port = np.zeros(_FIRST_CAPACITY, np.int32)
        """(slot,): number of the host ports in the class table, 0 for none."""
        self.hold = np.zeros(_FIRST_CAPACITY, np.uint8)
        """(slot,): bits of Hold."""
        self.pool = np.zeros(_FIRST_CAPACITY, np.int16)
        """(slot,): number of the pool whose leader holds it, or held it last."""
        self.uid = np.zeros((_FIRST_CAPACITY, 2), np.int64)
        """(slot, 2): uid of the observed pod, the first of several, zeros if none was."""
        self.asks: Objects = np.full(_FIRST_CAPACITY, None, np.object_)
        """(slot,): what the observed pod asks for by itself, None if that is not known."""
        self.has_several = np.zeros(_FIRST_CAPACITY, np.bool_)
        """(slot,): whether it stands in `several`."""
        self.several: dict[int, dict[bytes, Int64s]] = {}
        """Slot -> what its live pods ask for by uid, of members that had a second one."""
        self.scaled = np.zeros(_FIRST_CAPACITY, np.int32)
        """(slot,): row of its pod in the table of scaled pods, 0 for none."""
        self.amounts = np.zeros((resource_count, _FIRST_CAPACITY), np.int64)
        """(resource, slot): base units taken of the node."""
        self._index = KeyIndex(2)
        self._spare = np.arange(_FIRST_CAPACITY - 1, -1, -1, dtype=np.int32)
        self._spare_count = _FIRST_CAPACITY

    def __len__(self) -> int:
        """Return how many placements there are."""
        return len(self._index)

    def slots(self, keys: Members) -> Int32s:
        """Return the slot of each key, -1 where there is no placement."""
        return self._index.lookup(*keys.columns)

    def live(self) -> Int32s:
        """Return all slots in use, ascending. Complexity: O(capacity) in NumPy."""
        return true_places(self.hold).astype(np.int32)

    def unmanaged(self) -> Int32s:
        """Return the slots of unmanaged pods. Complexity: O(capacity) in NumPy."""
        return true_places(self.handle < 0).astype(np.int32)

    def members_of_run(self, handle: int, attempt: int) -> tuple[Members, Int32s]:
        """Return the members of a run and their nodes. Complexity: O(capacity) in NumPy."""
        slots = true_places((self.hold > 0) & (self.handle == handle)).astype(np.int32)
        slots = slots[self.keys(slots).attempt == attempt]
        return self.keys(slots), self.node[slots]

    def of_runs(self, members: Members | None = None) -> Int32s:
        """Return the slots of all members of runs, or of those of some that have a placement."""
        slots = self.live() if members is None else np.unique(self.slots(members))
        found: Int32s = slots[(slots >= 0) & (self.handle[slots] >= 0)]
        return found

    def occupied(self, node_count: int, gone: Members | None = None) -> npt.NDArray[np.bool_]:
        """Return, per node, whether some member of a run is placed there, but for some that count as gone.

        Complexity: O(capacity) in NumPy.
        """
        occupied, there = np.zeros(node_count, np.bool_), (self.hold > 0) & (self.handle >= 0)
        if gone is not None:
            there[self.of_runs(gone)] = False
        occupied[self.node[there]] = True
        return occupied

    def keys(self, slots: Int32s) -> Members:
        """Return the keys of placements."""
        return Members(self.handle[slots], self.ordinal[slots])

    def add(self, keys: Members, hold: np.uint8) -> Int32s:
        """Return a slot for each of n distinct keys that have none; the caller fills in the columns."""
        count = len(keys)
        if count > self._spare_count:
            self._grow(count - self._spare_count)
        slots = self._spare[self._spare_count - count : self._spare_count].copy()
        self._spare_count -= count
        self.handle[slots], self.ordinal[slots], self.hold[slots] = *keys.columns, hold
        self._index.insert(*keys.columns, slots=slots)
        return slots

    def drop(self, slots: Int32s) -> None:
        """Forget n distinct placements."""
        count = len(slots)
        self._index.remove(*self.keys(slots).columns)
        self.handle[slots] = 0
        self.hold[slots] = 0
        self.uid[slots] = 0
        self.port[slots] = 0
        self.pool[slots] = 0
        self.asks[slots] = None
        if self.several:
            self.has_several[slots] = False
            for slot in slots.tolist():
                self.several.pop(slot, None)
        self._spare[self._spare_count : self._spare_count + count] = slots
        self._spare_count += count

    def keep_several(self, slot: int, pods: dict[bytes, Int64s]) -> None:
        """Remember the live pods of a member that has a second one."""
        self.several[slot] = pods
        self.has_several[slot] = True

    def forget_several(self) -> None:
        """Forget which members have several pods."""
        self.several.clear()
        self.has_several[:] = False

    def extend_axis(self, resource_count: int) -> None:
        """Make columns for new resources, 0 everywhere."""
        self.amounts = np.pad(self.amounts, ((0, resource_count - len(self.amounts)), (0, 0)))

    def _grow(self, missing: int) -> None:
        """At least double the capacity."""
        old = len(self.handle)
        added = max(old, missing)
        narrow = (0, added)
        self.handle = np.pad(self.handle, narrow)
        self.ordinal = np.pad(self.ordinal, narrow)
        self.node = np.pad(self.node, narrow)
        self.class_slot = np.pad(self.class_slot, narrow)
        self.port = np.pad(self.port, narrow)
        self.hold = np.pad(self.hold, narrow)
        self.pool = np.pad(self.pool, narrow)
        self.scaled = np.pad(self.scaled, narrow)
        self.uid = np.pad(self.uid, (narrow, (0, 0)))
        self.asks = np.concatenate([self.asks, np.full(added, None, np.object_)])
        self.has_several = np.pad(self.has_several, narrow)
        self.amounts = np.pad(self.amounts, ((0, 0), narrow))
        spare = np.zeros(old + added, np.int32)
        spare[: self._spare_count] = self._spare[: self._spare_count]
        spare[self._spare_count : self._spare_count + added] = np.arange(old + added - 1, old - 1, -1, dtype=np.int32)
        self._spare = spare
        self._spare_count += added


def unmanaged_keys(uids: npt.NDArray[np.uint8]) -> Members:
    """Return the keys of unmanaged pods: their uids, but for one bit that tells them from members of runs.

    Args:
        uids: (n, 16).
    """
    halves = np.ascontiguousarray(uids).view(np.int64)
    return Members(np.maximum(~(halves[:, 0] & np.iinfo(np.int64).max), LOWEST_KEY), halves[:, 1])

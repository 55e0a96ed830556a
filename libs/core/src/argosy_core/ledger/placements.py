"""Placements as columns: who takes how much of which node, and on whose word.

A placement stands for one pod. Its key is the run's key, or a negative number for an unmanaged pod. It is held by the
leader (who committed or listed it), by its pod (which was observed), or by both, and ends when nobody holds it.

Source: design section 5, "Sampler session"; seed 001.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntFlag
from itertools import repeat
from typing import Final

import numpy as np
import numpy.typing as npt

__all__ = ["Hold", "PlacementTable"]

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
        self.key = np.zeros(_FIRST_CAPACITY, np.int64)
        """(slot,): run key, negative for unmanaged pods, 0 for a free slot."""
        self.node = np.zeros(_FIRST_CAPACITY, np.int32)
        """(slot,): row of the node table."""
        self.class_slot = np.zeros(_FIRST_CAPACITY, np.int32)
        """(slot,): slot of the scheduling class, -1 if only the pod is known."""
        self.port = np.zeros(_FIRST_CAPACITY, np.int32)
        """(slot,): number of the host ports in the class table, 0 for none."""
        self.hold = np.zeros(_FIRST_CAPACITY, np.uint8)
        """(slot,): bits of Hold."""
        self.uid = np.zeros((_FIRST_CAPACITY, 2), np.int64)
        """(slot, 2): uid of the observed pod, zeros if none was."""
        self.amounts = np.zeros((resource_count, _FIRST_CAPACITY), np.int64)
        """(resource, slot): base units taken of the node."""
        self._slot_of: dict[int, int] = {}
        self._spare = np.arange(_FIRST_CAPACITY - 1, -1, -1, dtype=np.int32)
        self._spare_count = _FIRST_CAPACITY

    def __len__(self) -> int:
        """Return how many placements there are."""
        return len(self._slot_of)

    def __contains__(self, key: int) -> bool:
        """Return whether a key has a placement."""
        return key in self._slot_of

    def slots(self, keys: Int64s) -> Int32s:
        """Return the slot of each key, -1 where there is no placement."""
        wanted = keys.tolist()
        return np.fromiter(map(self._slot_of.get, wanted, repeat(-1)), np.int32, len(wanted))

    def live(self) -> Int32s:
        """Return all slots in use."""
        return np.fromiter(self._slot_of.values(), np.int32, len(self._slot_of))

    def __iter__(self) -> Iterator[int]:
        """Iterate over all keys that have a placement."""
        return iter(self._slot_of)

    def add(self, keys: Int64s) -> Int32s:
        """Return a slot for each of n distinct keys that have none; the caller fills in the columns."""
        count = len(keys)
        if count > self._spare_count:
            self._grow(count - self._spare_count)
        slots = self._spare[self._spare_count - count : self._spare_count].copy()
        self._spare_count -= count
        self.key[slots] = keys
        self._slot_of.update(zip(keys.tolist(), slots.tolist(), strict=True))
        return slots

    def drop(self, slots: Int32s) -> None:
        """Forget n distinct placements."""
        count = len(slots)
        for key in self.key[slots].tolist():
            del self._slot_of[key]
        self.key[slots] = 0
        self.hold[slots] = 0
        self.uid[slots] = 0
        self.port[slots] = 0
        self._spare[self._spare_count : self._spare_count + count] = slots
        self._spare_count += count

    def extend_axis(self, resource_count: int) -> None:
        """Make columns for new resources, 0 everywhere."""
        self.amounts = np.pad(self.amounts, ((0, resource_count - len(self.amounts)), (0, 0)))

    def _grow(self, missing: int) -> None:
        """At least double the capacity."""
        old = len(self.key)
        added = max(old, missing)
        narrow = (0, added)
        self.key = np.pad(self.key, narrow)
        self.node = np.pad(self.node, narrow)
        self.class_slot = np.pad(self.class_slot, narrow)
        self.port = np.pad(self.port, narrow)
        self.hold = np.pad(self.hold, narrow)
        self.uid = np.pad(self.uid, (narrow, (0, 0)))
        self.amounts = np.pad(self.amounts, ((0, 0), narrow))
        spare = np.zeros(old + added, np.int32)
        spare[: self._spare_count] = self._spare[: self._spare_count]
        spare[self._spare_count : self._spare_count + added] = np.arange(old + added - 1, old - 1, -1, dtype=np.int32)
        self._spare = spare
        self._spare_count += added

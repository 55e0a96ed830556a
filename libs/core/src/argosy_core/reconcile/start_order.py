"""The order in which the groups of a distributed job start: pods of one may wait until those of another are ready.

What waits has its node and its other objects, and no pod yet. The start order is read from the bags whenever a pod
could be made, so a successor keeps to it without being told.

A member that replaces another has that one's address, so its service waits until the other's is gone.

Source: 003 "Distributed jobs".
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import has_true, true_places
from argosy_core.job.reading.pod_groups import read_sheet
from argosy_core.job.states import ObjectState
from argosy_core.job.tables.members import (
    MAX_ATTEMPT,
    MAX_PLACE_COUNT,
    MAX_REPLACEMENT,
    Members,
    attempt_of,
    member_key,
    member_of,
    number_of,
    ordinal_of,
    place_of,
    replacement_of,
)
from argosy_core.reconcile.machine import Phase
from argosy_core.reconcile.object_table import ObjectTable

__all__ = ["StartOrder"]

Int64Array = npt.NDArray[np.int64]

_READY: Final = (int(ObjectState.RUNNING), int(ObjectState.SUCCEEDED))
_POD: Final = 0
_NOWHERE: Final = (int(Phase.ABSENT), int(Phase.GONE))
_LAST_FIRST: Final = np.array(ordinal_of(MAX_ATTEMPT, MAX_PLACE_COUNT - 1))
"""Highest ordinal of a member that replaces none."""


class StartOrder:
    """Holds pods back whose turn has not come.

    Args:
        table: Where the objects are.
    """

    def __init__(self, table: ObjectTable) -> None:
        """Hold nothing back."""
        self._table = table
        self._held: dict[int, list[int]] = {}

    def with_held(self, slots: Int64Array) -> Int64Array:
        """Return objects that were touched, and the pods that are held back of the same jobs; each once."""
        if not self._held:
            return slots
        table = self._table
        found = [
            slot
            for handle in set(table.handle[slots].tolist()) & self._held.keys()
            for slot in self._held.pop(handle)
            if table.handle[slot] == handle and table.phase[slot] == Phase.ABSENT
        ]
        return np.union1d(slots, np.array(found, dtype=np.int64)) if found else slots

    def predecessors(self, members: Members) -> Members:
        """Return who of the same runs was in the places of members before them, and has objects here still."""
        found: list[tuple[int, int]] = []
        for place in true_places(members.ordinal > _LAST_FIRST).tolist():
            handle, ordinal = int(members.handle[place]), int(members.ordinal[place])
            found += [key for key in _before(handle, ordinal) if self._table.slots_of(key)]
        return Members.from_pairs(found)

    def take_turns(self, slots: Int64Array) -> Int64Array:
        """Return those of the objects to be made whose turn has come, in order; the others are held back."""
        return self._take_pod_turns(self._take_names(slots)) if slots.size else slots

    def _take_names(self, slots: Int64Array) -> Int64Array:
        """Return objects to be made without the services whose names others of their places have still."""
        table = self._table
        replacing = true_places((table.ordinal[slots] > _LAST_FIRST) & (table.kind[slots] != _POD))
        if not replacing.size:
            return slots
        is_free = np.ones(slots.size, dtype=np.bool_)
        for place in replacing.tolist():
            slot = int(slots[place])
            handle = int(table.handle[slot])
            if any(self._has_objects(key) for key in _before(handle, int(table.ordinal[slot]))):
                is_free[place] = False
                self._held.setdefault(handle, []).append(slot)
        return slots[is_free]

    def _has_objects(self, key: tuple[int, int]) -> bool:
        """Return whether something beside the pod of a member may be there."""
        table = self._table
        return any(table.kind[slot] != _POD and table.phase[slot] not in _NOWHERE for slot in table.slots_of(key))

    def _take_pod_turns(self, slots: Int64Array) -> Int64Array:
        """Return those of the objects to be made whose start order allows it; the others are held back."""
        table = self._table
        is_bag = table.is_bag[slots]
        if not has_true(is_bag):
            return slots
        places = true_places(is_bag & (table.kind[slots] == _POD))
        if not places.size:
            return slots
        is_turn = np.ones(slots.size, dtype=np.bool_)
        known: dict[tuple[int, int, tuple[int, int]], bool] = {}
        for place, slot in zip(places.tolist(), slots[places].tolist(), strict=True):
            sheet = read_sheet(table.recipe[slot][1])
            if sheet is None or sheet.after[0] == sheet.after[1]:
                continue
            handle = int(table.handle[slot])
            key = handle, attempt_of(int(table.ordinal[slot])), sheet.after
            if key not in known:
                known[key] = all(
                    any(
                        self._is_ready(member_key(*key[:2], number_of(number, replacement)))
                        for replacement in range(MAX_REPLACEMENT + 1)
                    )
                    for number in range(*sheet.after)
                )
            if not known[key]:
                is_turn[place] = False
                self._held.setdefault(handle, []).append(slot)
        return slots[is_turn]

    def _is_ready(self, key: tuple[int, int]) -> bool:
        """Return whether a pod of a member is ready, or has done its work."""
        table = self._table
        return any(table.kind[slot] == _POD and table.state[slot] in _READY for slot in table.slots_of(key))


def _before(handle: int, ordinal: int) -> list[tuple[int, int]]:
    """Return the keys of those who were in the place of a member before it."""
    attempt, number = attempt_of(ordinal), member_of(ordinal)
    place = place_of(number)
    return [member_key(handle, attempt, number_of(place, earlier)) for earlier in range(replacement_of(number))]

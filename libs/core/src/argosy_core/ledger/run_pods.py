"""Members with several pods: their pods' events become those of one pod, which is what the ledger books.

A member holds one placement for all pods of its bag. It takes what its live pods ask for together, and ends when the
last of them ended. Almost every member has one pod; those pass through at the price of one look-up.

Source: design section 5, "Sampler session": an observed pod replaces its placement, never adds to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import Bools, are_among, has_true, true_places
from argosy_core.job.tables.key_index import KeyIndex
from argosy_core.job.tables.members import Members
from argosy_core.ledger.records import PodEvents

__all__ = ["RunPods"]

Int64s = npt.NDArray[np.int64]
_FIRST_CAPACITY: Final = 256
_MAX_SHARED: Final = 10_000


class RunPods:
    """Live pods by member, at about 100 bytes a pod."""

    def __init__(self) -> None:
        """Start without pods."""
        self._shared: dict[bytes, Int64s] = {}
        self._shapes: Int64s = np.zeros((0, 0), dtype=np.int64)
        self._own = np.zeros(0, dtype=np.object_)
        """By row of `_shapes`: a copy of it, where some pod asked for it."""
        self._is_copied: Bools = np.zeros(0, dtype=np.bool_)
        self.clear()

    def clear(self) -> None:
        """Forget everything; a full list follows."""
        self._index = KeyIndex(2)
        self._uid = np.zeros((_FIRST_CAPACITY, 2), dtype=np.int64)
        """(slot, 2): uid of the member's first pod."""
        self._asked = np.full(_FIRST_CAPACITY, None, dtype=np.object_)
        """(slot,): what its first pod asks for."""
        self._spare = np.arange(_FIRST_CAPACITY, dtype=np.int32)[::-1].copy()
        """The first `_spare_count` are free slots."""
        self._spare_count = _FIRST_CAPACITY
        self._several: dict[int, dict[bytes, Int64s]] = {}
        """Slot -> live pods by uid, of members that had a second one."""

    def fold(
        self,
        events: PodEvents,
        shapes: Int64s,
        shape_column: npt.NDArray[np.int32],
        *,
        are_distinct: bool = False,
    ) -> PodEvents:
        """Return events with those of members of several pods as one pod's: one uid, summed requests, one end.

        Args:
            events: n events.
            shapes: (m, resource) distinct requests; what is kept of them is copied, once for all pods alike. Give the
                same array as long as it is the same table.
            shape_column: (n,) row of `shapes`.
            are_distinct: No member is known to stand twice.

        Complexity: a few passes over n; Python work only for pods beside which their member has, or had, others.
        """
        asked = self._own_shapes(shapes, shape_column)
        uids = np.ascontiguousarray(events.uids).view(np.int64)
        of_runs = events.members.ordinal > 0
        changed: list[tuple[int, bytes, Int64s, bool]] = []
        if are_distinct and of_runs.all():
            changed.extend(self._fold_distinct(events.members, uids, asked, events.ended))
        elif has_true(of_runs):
            rows = true_places(of_runs)
            for wave in [slice(None)] if are_distinct else events.members[rows].waves():
                part = rows[wave]
                folded = self._fold_distinct(events.members[part], uids[part], asked[part], events.ended[part])
                changed.extend((int(part[row]), uid, amounts, is_ended) for row, uid, amounts, is_ended in folded)
        return _rewrite(events, changed) if changed else events

    def _fold_distinct(
        self, members: Members, uids: Int64s, asked: npt.NDArray[np.object_], ended: Bools
    ) -> Iterator[tuple[int, bytes, Int64s, bool]]:
        """Take in events of distinct members; yield place, uid, requests and end of those that had another pod."""
        slots = self._index.lookup(*members.columns)
        known = slots >= 0
        is_first = self._uid[slots] == uids
        single = is_first[:, 0] & is_first[:, 1] & known
        if self._several:
            single &= ~are_among(slots, np.fromiter(self._several, np.int32, len(self._several)))
        fresh = true_places(~(known | ended))
        if fresh.size:
            self._index.insert(*members[fresh].columns, slots=(taken := self._take_slots(fresh.size)))
            self._uid[taken], self._asked[taken] = uids[fresh], asked[fresh]
        for place in true_places(known & ~single).tolist():
            slot = int(slots[place])
            if slot in self._several or not ended[place]:
                yield place, *self._fold_several(slot, uids[place].tobytes(), asked[place], ended=bool(ended[place]))
        over = single & ended
        if self._several:
            gone = [slot in self._several and not self._several[slot] for slot in slots.tolist()]
            over |= np.array(gone, dtype=np.bool_)
        if has_true(over):
            self._drop(members[over], slots[over])

    def _drop(self, members: Members, slots: npt.NDArray[np.int32]) -> None:
        """Forget members whose pods are all over."""
        self._index.remove(*members.columns)
        self._asked[slots] = None
        self._spare[self._spare_count : self._spare_count + slots.size] = slots
        self._spare_count += slots.size
        if self._several:
            for slot in slots.tolist():
                self._several.pop(slot, None)

    def _take_slots(self, count: int) -> npt.NDArray[np.int32]:
        """Return free slots, made if there are too few."""
        if count > self._spare_count:
            old = len(self._uid)
            added = max(old, count)
            self._uid = np.pad(self._uid, ((0, added), (0, 0)))
            self._asked = np.concatenate([self._asked, np.full(added, None, dtype=np.object_)])
            spare = np.zeros(old + added, np.int32)
            spare[:added] = np.arange(old + added - 1, old - 1, -1, dtype=np.int32)
            spare[added : added + self._spare_count] = self._spare[: self._spare_count]
            self._spare, self._spare_count = spare, self._spare_count + added
        self._spare_count -= count
        return self._spare[self._spare_count : self._spare_count + count].copy()

    def _own_shapes(self, shapes: Int64s, column: npt.NDArray[np.int32]) -> npt.NDArray[np.object_]:
        """Return copies of requests: a view would keep the whole table alive in which it came, once for each pod.

        Complexity: O(n); a table that grew is not looked through.
        """
        if shapes is not self._shapes:
            if len(self._shared) > _MAX_SHARED:
                self._shared.clear()
            self._shapes = shapes
            self._own = np.full(len(shapes), None, dtype=np.object_)
            self._is_copied = np.zeros(len(shapes), dtype=np.bool_)
        is_missing = ~self._is_copied[column]
        if has_true(is_missing):
            missing = column[is_missing]
            for place in set(missing.tolist()):
                shape = shapes[place]
                self._own[place] = self._shared.setdefault(shape.tobytes(), shape.copy())
            self._is_copied[missing] = True
        return self._own[column]

    def _fold_several(self, slot: int, uid: bytes, requests: Int64s, *, ended: bool) -> tuple[bytes, Int64s, bool]:
        """Take in one event of a member with several pods; return the uid, requests and end that stand for it."""
        first = self._uid[slot].tobytes()
        pods = self._several.setdefault(slot, {first: self._asked[slot]})
        if ended:
            pods.pop(uid, None)
        else:
            pods[uid] = requests
        if not pods:
            return first, requests, True
        width = max(len(amounts) for amounts in pods.values())
        total = np.zeros(width, dtype=np.int64)
        for amounts in pods.values():
            total[: len(amounts)] += amounts
        return first, total, False


def _rewrite(events: PodEvents, changed: list[tuple[int, bytes, Int64s, bool]]) -> PodEvents:
    uids, requests, ended = events.uids.copy(), events.requests.copy(), events.ended.copy()
    several = {row for row, _, _, _ in changed}
    for row, uid, amounts, is_ended in changed:
        uids[row] = np.frombuffer(uid, dtype=np.uint8)
        requests[row, : len(amounts)] = amounts
        ended[row] = is_ended
    return PodEvents(
        members=events.members,
        uids=uids,
        nodes=events.nodes,
        ended=ended,
        requests=requests,
        host_ports=events.host_ports,
        # Which of several pods a permit would be about is not known: such runs keep their size.
        scalings={place: scaling for place, scaling in events.scalings.items() if place not in several},
    )

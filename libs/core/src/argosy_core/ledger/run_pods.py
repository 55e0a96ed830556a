"""Members with several pods: their pods' events become those of one pod, which is what the ledger books.

A member holds one placement for all pods of its bag. It takes what its live pods ask for together, and ends when the
last of them ended. Almost every member has one pod; those pass through at the price of one look-up.

Source: design section 5, "Sampler session": an observed pod replaces its placement, never adds to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.job.tables.key_index import KeyIndex
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
        self._shapes: Sequence[Int64s] = ()
        self._own = np.zeros(0, dtype=np.object_)
        self.clear()

    def clear(self) -> None:
        """Forget everything; a full list follows."""
        self._index = KeyIndex(2)
        self._uid = np.zeros((_FIRST_CAPACITY, 2), dtype=np.int64)
        """(slot, 2): uid of the member's first pod."""
        self._asked = np.full(_FIRST_CAPACITY, None, dtype=np.object_)
        """(slot,): what its first pod asks for."""
        self._free = np.arange(_FIRST_CAPACITY, dtype=np.int32)[::-1]
        """Free slots."""
        self._several: dict[int, dict[bytes, Int64s]] = {}
        """Slot -> live pods by uid, of members that had a second one."""

    def fold(self, events: PodEvents, shapes: Sequence[Int64s], shape_column: npt.NDArray[np.int32]) -> PodEvents:
        """Return events with those of members of several pods as one pod's: one uid, summed requests, one end.

        Args:
            events: n events.
            shapes: Distinct requests, each a vector; what is kept of them is copied, once for all pods alike.
            shape_column: (n,) index into `shapes`.

        Complexity: a few passes over n; Python work only for pods beside which their member has, or had, others.
        """
        asked = self._own_shapes(shapes)[shape_column]
        uids = np.ascontiguousarray(events.uids).view(np.int64)
        rows = np.flatnonzero(events.members.ordinal > 0)
        changed: list[tuple[int, bytes, Int64s, bool]] = []
        for wave in events.members[rows].waves():
            changed.extend(self._fold_distinct(events, uids, asked, rows[wave]))
        return _rewrite(events, changed) if changed else events

    def _fold_distinct(
        self, events: PodEvents, uids: Int64s, asked: npt.NDArray[np.object_], rows: npt.NDArray[np.intp]
    ) -> Iterator[tuple[int, bytes, Int64s, bool]]:
        """Take in events of distinct members; yield row, uid, requests and end of those that had another pod."""
        slots = self._index.lookup(*events.members[rows].columns)
        known, ended = slots >= 0, events.ended[rows]
        single = known & (self._uid[slots] == uids[rows]).all(axis=1)
        if self._several:
            single &= ~np.isin(slots, list(self._several))
        fresh = rows[~known & ~ended]
        if fresh.size:
            taken = self._take_slots(fresh.size)
            self._index.insert(*events.members[fresh].columns, slots=taken)
            self._uid[taken], self._asked[taken] = uids[fresh], asked[fresh]
        for place in np.flatnonzero(known & ~single).tolist():
            slot, row = int(slots[place]), int(rows[place])
            if slot in self._several or not ended[place]:
                yield row, *self._fold_several(slot, uids[row].tobytes(), asked[row], ended=bool(ended[place]))
        over = single & ended
        if self._several:
            gone = [slot in self._several and not self._several[slot] for slot in slots.tolist()]
            over |= np.array(gone, dtype=np.bool_)
        if over.any():
            self._index.remove(*events.members[rows[over]].columns)
            self._asked[slots[over]] = None
            self._free = np.concatenate([self._free, slots[over]])
            for slot in slots[over].tolist():
                self._several.pop(slot, None)

    def _take_slots(self, count: int) -> npt.NDArray[np.int32]:
        """Return free slots, made if there are too few."""
        if count > self._free.size:
            old = len(self._uid)
            added = max(old, count)
            self._uid = np.pad(self._uid, ((0, added), (0, 0)))
            self._asked = np.concatenate([self._asked, np.full(added, None, dtype=np.object_)])
            self._free = np.concatenate([np.arange(old + added - 1, old - 1, -1, dtype=np.int32), self._free])
        taken, self._free = self._free[self._free.size - count :], self._free[: self._free.size - count]
        return taken

    def _own_shapes(self, shapes: Sequence[Int64s]) -> npt.NDArray[np.object_]:
        """Return copies of requests: a view would keep the whole table alive in which it came, once for each pod."""
        if shapes is not self._shapes:
            if len(self._shared) > _MAX_SHARED:
                self._shared.clear()
            self._shapes = shapes
            self._own = np.full(len(shapes), None, dtype=np.object_)
            for place, shape in enumerate(shapes):
                self._own[place] = self._shared.setdefault(shape.tobytes(), shape.copy())
        return self._own

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

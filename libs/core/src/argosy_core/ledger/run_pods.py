"""Members with several pods: their pods' events become those of one pod, which is what the ledger books.

A member holds one placement for all pods of its bag. It takes what its live pods ask for together, and ends when the
last of them ended. Almost every member has one pod: its uid and what it asks for stand in the placement, so that such
pods cost no look-up of their own.

Source: design section 5, "Sampler session": an observed pod replaces its placement, never adds to it.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from argosy_core.arrays import Bools, Int32s, Int64s, Objects, has_true, true_places
from argosy_core.ledger.placements import PlacementTable
from argosy_core.ledger.records import PodEvents

__all__ = ["FoldedPod", "RunPods", "rewrite"]

FoldedPod = tuple[int, bytes, Int64s, bool]
"""Position of an event, and the uid, requests and end that count in it, since its member has other pods."""
_MAX_SHARED: Final = 10_000


class RunPods:
    """What the pods of members ask for.

    Args:
        placements: Where the one pod of a member stands, and all of those that had a second one.
    """

    def __init__(self, placements: PlacementTable) -> None:
        """Start without pods."""
        self._placements = placements
        self._shared: dict[bytes, Int64s] = {}
        self._shapes: Int64s = np.zeros((0, 0), dtype=np.int64)
        self._own: Objects = np.zeros(0, dtype=np.object_)
        """By row of `_shapes`: a copy of it, where some pod asked for it."""
        self._is_copied: Bools = np.zeros(0, dtype=np.bool_)

    def own_requests(self, shapes: Int64s, column: Int32s) -> Objects:
        """Return copies of requests: a view would keep the whole table alive in which it came, once for each pod.

        Args:
            shapes: (m, resource) distinct requests; give the same array as long as it is the same table.
            column: (n,) row of `shapes`.

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

    def fold(self, events: PodEvents, asked: Objects, slots: Int32s, is_same: Bools) -> list[FoldedPod]:
        """Take in events of distinct members; return what counts for those of members that have, or had, other pods.

        Args:
            events: n events of pods, each of another member.
            asked: (n,) what each asks for.
            slots: (n,) placement of each member, -1 for none.
            is_same: (n,) there is a placement, and no pod of it was seen yet but this one.

        Complexity: O(n) in NumPy; Python work only for what is returned.
        """
        table = self._placements
        is_other = is_same ^ (slots >= 0)
        if table.several:
            is_other |= table.has_several[slots] & is_same
        if not has_true(is_other):
            return []
        folded: list[FoldedPod] = []
        for place in true_places(is_other).tolist():
            slot, ended = int(slots[place]), bool(events.ended[place])
            if slot in table.several or not ended:
                folded.append((place, *self._fold_one(slot, events.uids[place].tobytes(), asked[place], ended=ended)))
        return folded

    def _fold_one(self, slot: int, uid: bytes, requests: Int64s, *, ended: bool) -> tuple[bytes, Int64s, bool]:
        """Take in one event of a member with several pods; return the uid, requests and end that stand for it."""
        table = self._placements
        first = table.uid[slot].tobytes()
        if slot not in table.several:
            asks = table.asks[slot]
            table.keep_several(slot, {first: table.amounts[:, slot].copy() if asks is None else asks})
        pods = table.several[slot]
        if ended:
            pods.pop(uid, None)
        else:
            pods[uid] = requests
        return (first, requests, True) if not pods else (first, _total(pods), False)

    def fold_list(self, events: PodEvents, asked: Objects) -> list[FoldedPod]:
        """Return what counts for the events of a full list, of which nothing is known from before.

        Complexity: O(n log n) in NumPy; Python work only for members several pods of which are alive.
        """
        live = true_places((events.members.ordinal > 0) & ~events.ended)
        members = events.members[live]
        if members.are_distinct():
            return []
        folded: list[FoldedPod] = []
        pods: dict[tuple[int, int], dict[bytes, Int64s]] = {}
        for place, key in zip(live.tolist(), members.pairs(), strict=True):
            of_member = pods.setdefault(key, {})
            of_member[events.uids[place].tobytes()] = asked[place]
            if len(of_member) > 1:
                folded.append((place, next(iter(of_member)), _total(of_member), False))
        return folded

    def note_list(self, events: PodEvents, asked: Objects) -> None:
        """Remember the pods of a full list once their placements stand, and nothing that was known before.

        Complexity: as `fold_list`.
        """
        table = self._placements
        table.forget_several()
        live = true_places((events.members.ordinal > 0) & ~events.ended)
        slots = table.slots(events.members[live])
        live, slots = live[slots >= 0], slots[slots >= 0]
        uids = np.ascontiguousarray(events.uids[live]).view(np.int64)
        # Backwards, so that of several pods of a member the first stands for it.
        table.uid[slots[::-1]], table.asks[slots[::-1]] = uids[::-1], asked[live[::-1]]
        if len(np.unique(slots)) == len(slots):
            return
        pods: dict[int, dict[bytes, Int64s]] = {}
        for place, slot in zip(live.tolist(), slots.tolist(), strict=True):
            pods.setdefault(slot, {})[events.uids[place].tobytes()] = asked[place]
        for slot, of_member in pods.items():
            if len(of_member) > 1:
                table.keep_several(slot, of_member)


def rewrite(events: PodEvents, folded: list[FoldedPod]) -> PodEvents:
    """Return events with what counts in place of what some members' single pods say."""
    if not folded:
        return events
    uids, requests, ended = events.uids.copy(), events.requests.copy(), events.ended.copy()
    several = {row for row, _, _, _ in folded}
    for row, uid, amounts, is_ended in folded:
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


def _total(pods: dict[bytes, Int64s]) -> Int64s:
    """Return what pods ask for together; one that was seen before a resource was known has fewer columns."""
    total = np.zeros(max(len(amounts) for amounts in pods.values()), dtype=np.int64)
    for amounts in pods.values():
        total[: len(amounts)] += amounts
    return total

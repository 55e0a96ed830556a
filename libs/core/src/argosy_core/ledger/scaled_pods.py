"""Pods that are resized while they run, as columns: their bounds, what they have, and what they may have.

Amounts are (resource, row) in base units over `SCALED`, the resources that Kubernetes resizes in place. What a pod is
booked at is the most of three:

- *observed*: what the cluster says that it asks for, was given or has, whichever is most; a fact.
- *permit*: what its agent may give it without asking again.
- *floor*: what somebody may still give it whom the ledger cannot ask. It is the maximum after a start, until the agent
  has reported, and the last permit after an agent was cut off; either ends when no lease can last any more.

Source: seed 001 "Startup uncertainty: buffer"; design section 5, "Resize".
"""

from __future__ import annotations

from typing import Final

import numpy as np

from argosy_core.arrays import Bools, Float64s, Int32s, Int64s
from argosy_core.job.reading.scaling import SCALED
from argosy_core.job.tables.key_index import LOWEST_KEY, KeyIndex

__all__ = ["UNBOUNDED", "ScaledPodTable"]

UNBOUNDED: Final = np.iinfo(np.int64).max
"""More than any pod can have."""
_FIRST_CAPACITY: Final = 256


class ScaledPodTable:
    """Scaled pods by row; a row is used again once its pod went. Row 0 stands for no pod."""

    def __init__(self) -> None:
        """Start empty."""
        wide, narrow = (len(SCALED), _FIRST_CAPACITY), _FIRST_CAPACITY
        self.uid = np.zeros((narrow, 2), np.int64)
        """(row, 2): uid of the pod."""
        self.slot = np.full(narrow, -1, np.int32)
        """(row,): slot of its placement, -1 where the row is free."""
        self.least = np.zeros(wide, np.int64)
        """(resource, row): minimum."""
        self.most = np.zeros(wide, np.int64)
        """(resource, row): maximum."""
        self.observed = np.zeros(wide, np.int64)
        """(resource, row): what the cluster shows."""
        self.permit = np.zeros(wide, np.int64)
        """(resource, row): permit, 0 where nobody holds the pod."""
        self.floor = np.zeros(wide, np.int64)
        """(resource, row): what is booked at least until `floor_until_s`; 0 where an agent holds the pod."""
        self.floor_until_s = np.zeros(narrow, np.float64)
        """(row,): when the floor ends, seconds of the ledger's clock."""
        self.wanted = np.zeros(wide, np.int64)
        """(resource, row): what was asked for; above the permit it is deferred demand."""
        self.unit = np.ones(wide, np.int64)
        """(resource, row): compute unit that the agent was last told."""
        self.own_unit = np.zeros(wide, np.int64)
        """(resource, row): compute unit of the pod's own, 0 where its node's counts."""
        self.is_bundle = np.zeros(narrow, np.bool_)
        """(row,): deferred demand is granted in whole units of all resources."""
        self.session = np.zeros(narrow, np.int64)
        """(row,): session that holds the pod, 0 for none."""
        self.process = np.zeros(narrow, np.int64)
        """(row,): number of the agent's process that holds the pod or held it last, 0 for an unknown one."""
        self.number = np.zeros(narrow, np.int64)
        """(row,): number of the latest that the agent said of the pod."""
        self.queue = np.zeros(narrow, np.int32)
        """(row,): index of its queue."""
        self.is_movable = np.zeros(narrow, np.bool_)
        """(row,): its run may be ended to make room for others."""
        self.is_moving = np.zeros(narrow, np.bool_)
        """(row,): it was named to be moved."""
        self.moving_s = np.zeros(narrow, np.float64)
        """(row,): when that was said last, or taken back."""
        self.is_move_told = np.zeros(narrow, np.bool_)
        """(row,): its leader was told so."""
        self.is_draining = np.zeros(narrow, np.bool_)
        """(row,): its agent was told that the node is to be emptied."""
        self.asked = np.zeros(narrow, np.float64)
        """(row,): how often it asked for more of late, falling by the permitted rate."""
        self.asked_s = np.zeros(narrow, np.float64)
        """(row,): when it asked for more last."""
        self.is_off = np.zeros(narrow, np.bool_)
        """(row,): it is not scaled any more, and forgotten once no lease can last."""
        self.told = np.zeros(wide, np.int64)
        """(resource, row): what the leader was told that it holds: -1 for what its class says, -2 for nothing."""
        self.since_s = np.zeros(narrow, np.float64)
        """(row,): when it was first seen, seconds of the ledger's clock."""
        self.noted = np.full(wide, UNBOUNDED, np.int64)
        """(resource, row): what its note lets permits be told up to; UNBOUNDED without a note (see `permit_notes`)."""
        self.has_own_note = np.zeros(narrow, np.bool_)
        """(row,): its note is of this process."""
        self.needs_note = np.zeros(narrow, np.bool_)
        """(row,): nothing above `kept` is told of it before its note is of this process."""
        self.kept = np.zeros(wide, np.int64)
        """(resource, row): permit of before that its agent announced it with; 0 for none."""
        self.is_noting = np.zeros(narrow, np.bool_)
        """(row,): a note is being written."""
        self.note_again_s = np.zeros(narrow, np.float64)
        """(row,): when a note may be written again."""
        self.note: dict[int, str] = {}
        """By row: the note that the pod has, left out where it has none."""
        self.added_count = 0
        """How many were ever added: tells whether some are new."""
        self._index = KeyIndex(2)
        self._spare = list(range(narrow - 1, 0, -1))

    def __len__(self) -> int:
        """Return how many scaled pods there are."""
        return len(self._index)

    def rows(self, uids: Int64s) -> Int32s:
        """Return the row of each uid, (n, 2), 0 where it is no scaled pod's."""
        rows: Int32s = np.maximum(self._index.lookup(*_keys(uids)), 0)
        return rows

    def live(self) -> Int32s:
        """Return all rows in use, ascending. Complexity: O(capacity) in NumPy."""
        return np.flatnonzero(self.slot >= 0).astype(np.int32)

    def booked(self, rows: Int32s) -> Int64s:
        """Return (resource, n) what pods are booked at."""
        booked: Int64s = np.maximum(np.maximum(self.permit[:, rows], self.observed[:, rows]), self.floor[:, rows])
        return booked

    def buffer(self, rows: Int32s) -> Int64s:
        """Return (resource, n) what is booked only because it is not known who may still give it."""
        known: Int64s = np.maximum(self.permit[:, rows], self.observed[:, rows])
        return self.booked(rows) - known

    def deferred(self, rows: Int32s) -> Int64s:
        """Return (resource, n) what was asked for beyond the permit."""
        deferred: Int64s = np.maximum(self.wanted[:, rows] - self.permit[:, rows], 0)
        return deferred

    def add(self, uid: Int64s, slot: int) -> int:
        """Return a row, all zeros but for units of 1 and no note, for a pod that has none."""
        if not self._spare:
            self._grow()
        row = self._spare.pop()
        for column in self._columns():
            column[..., row] = 0
        self.note.pop(row, None)
        self.noted[:, row] = UNBOUNDED
        self.unit[:, row] = 1
        self.told[:, row] = -1
        self.uid[row], self.slot[row] = uid, slot
        self.added_count += 1
        self._index.insert(*_keys(uid[np.newaxis]), slots=np.array([row], np.int32))
        return row

    def drop(self, rows: Int32s) -> None:
        """Forget n distinct pods."""
        self._index.remove(*_keys(self.uid[rows]))
        self.slot[rows] = -1
        self.wanted[:, rows] = 0
        self.session[rows] = 0
        self._spare.extend(rows.tolist())

    def _columns(self) -> list[Int64s | Float64s | Bools | Int32s]:
        """Return every column whose last dimension is the row."""
        wide: list[Int64s | Float64s | Bools | Int32s] = [
            self.least, self.most, self.observed, self.permit, self.floor, self.wanted, self.unit, self.told,
            self.own_unit, self.noted, self.kept,
        ]  # fmt: skip
        return [
            *wide, self.floor_until_s, self.is_bundle, self.session, self.process, self.number, self.queue,
            self.is_movable, self.is_moving, self.is_draining, self.is_off, self.since_s, self.asked, self.asked_s,
            self.moving_s, self.is_move_told, self.has_own_note, self.needs_note, self.is_noting, self.note_again_s,
        ]  # fmt: skip

    def _grow(self) -> None:
        """Double the capacity."""
        old = len(self.slot)
        for name, column in vars(self).items():
            if isinstance(column, np.ndarray) and name not in {"uid", "slot"}:
                setattr(self, name, np.pad(column, ((0, 0), (0, old)) if column.ndim > 1 else (0, old)))
        self.uid = np.pad(self.uid, ((0, old), (0, 0)))
        self.slot = np.pad(self.slot, (0, old), constant_values=-1)
        self._spare = list(range(2 * old - 1, old - 1, -1))


def _keys(uids: Int64s) -> tuple[Int64s, Int64s]:
    return np.maximum(uids[:, 0], LOWEST_KEY), np.ascontiguousarray(uids[:, 1])

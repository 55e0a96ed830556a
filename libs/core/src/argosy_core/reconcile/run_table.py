"""The executor's rows as structure of arrays: one slot per Kubernetes object.

Most bags are one pod, so a run is mostly one slot; `index` leads from the run to the slot of its object 0. The objects
of larger bags, and of bags of which only a later object was seen, are listed in `bags`.

Source: design section 6, "Data layout".
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.job.states import IS_RUN_TERMINAL, ObjectState

__all__ = ["POD_KIND", "Phase", "RunTable", "distinct", "run_keys"]

POD_KIND: Final = "Pod"
_FIRST_CAPACITY: Final = 256
_ATTEMPT_BITS: Final = 8
_MANY_KINDS: Final = 1024
_MOST_KINDS: Final = 30_000
_OTHER_KIND: Final = "other"
"""Kind of objects that come when there are too many to name; nothing that a cluster has is called so."""

Int64Array = npt.NDArray[np.int64]
ObjectArray = npt.NDArray[np.object_]


class Phase(IntEnum):
    """Where an object stands between wish and cluster; the state that is reported is another matter."""

    ABSENT = 0
    """It was not made yet, as far as is known."""
    CREATING = 1
    """Its creation was sent, the answer is not here."""
    PRESENT = 2
    """It is there."""
    DELETING = 3
    """Its deletion was accepted or sent."""
    GONE = 4
    """It was there and is gone, or it will never be made."""
    VANISHED = 5
    """It was there and is gone, or should be there and is not; a call under way could still make it again."""


def run_keys(handles: Int64Array, attempts: npt.NDArray[np.integer]) -> Int64Array:
    """Return one int64 per run: the handle with the attempt in the lower 8 bits."""
    keys: Int64Array = (handles.astype(np.int64) << _ATTEMPT_BITS) | attempts.astype(np.int64)
    return keys


def distinct(values: Int64Array) -> Int64Array:
    """Return the distinct values, sorted; cheaper than `np.unique` for the few hundred values of a batch."""
    ordered = np.sort(values)
    if ordered.size < 2:
        return ordered
    is_first = np.empty(ordered.size, dtype=np.bool_)
    is_first[0] = True
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    return ordered[is_first]


class RunTable:
    """Columns by slot, with a free list, and the ways from runs to slots. Only the reconciler writes to it.

    ::

        key object kind            which object it is; kinds are indices into `kinds`, 0 is Pod
        is_used is_wanted is_bag   taken; the leader gave its row; its run is in `bags`
        phase                      between wish and cluster, see Phase
        state stored_state         as reported, and as the leader is known to have stored it
        stop stop_sent end_state   the leader wants it gone; we have sent its deletion; how it ends then (0: cancelled)
        calling_until_s            until then the creation under way may come through; 0 if none is
        open_until_s               until then creations of ours that nobody has answered may come through; 0 if none
        was_seen                   the leader says that a pod of its run was reported before
        looked_s is_looking        when the last look for its name was asked for, 0 if none was; one is under way
        tries not_before_s         failed calls in a row; no call before this moment (monotonic seconds)
        seen_s                     when it was last known to exist (monotonic seconds)
        present_s                  since when it is there
        stuck_s stuck_kind         since when it waits for what cannot be had, 0 if it does not; FailureKind if too long
        uid time_us exit_code failure message     what was observed
        id_high body node metadata owner          what it is created from; None once it exists
    """

    def __init__(self) -> None:
        """Start empty."""
        size = _FIRST_CAPACITY
        self.key: Int64Array = np.zeros(size, dtype=np.int64)
        self.object = np.zeros(size, dtype=np.int16)
        self.kind = np.zeros(size, dtype=np.int16)
        self.is_used = np.zeros(size, dtype=np.bool_)
        self.is_wanted = np.zeros(size, dtype=np.bool_)
        self.is_bag = np.zeros(size, dtype=np.bool_)
        self.phase = np.zeros(size, dtype=np.int8)
        self.state = np.zeros(size, dtype=np.int8)
        self.stored_state = np.zeros(size, dtype=np.int8)
        self.stop = np.zeros(size, dtype=np.bool_)
        self.stop_sent = np.zeros(size, dtype=np.bool_)
        self.end_state = np.zeros(size, dtype=np.int8)
        self.calling_until_s = np.zeros(size, dtype=np.float64)
        self.open_until_s = np.zeros(size, dtype=np.float64)
        self.was_seen = np.zeros(size, dtype=np.bool_)
        self.looked_s = np.zeros(size, dtype=np.float64)
        self.is_looking = np.zeros(size, dtype=np.bool_)
        self.tries = np.zeros(size, dtype=np.int16)
        self.not_before_s = np.zeros(size, dtype=np.float64)
        self.seen_s = np.zeros(size, dtype=np.float64)
        self.present_s = np.zeros(size, dtype=np.float64)
        self.stuck_s = np.zeros(size, dtype=np.float64)
        self.stuck_kind = np.zeros(size, dtype=np.int8)
        self.uid: Int64Array = np.zeros((size, 2), dtype=np.int64)
        self.time_us: Int64Array = np.zeros(size, dtype=np.int64)
        self.exit_code = np.zeros(size, dtype=np.int32)
        self.failure = np.zeros(size, dtype=np.int8)
        self.id_high: Int64Array = np.zeros(size, dtype=np.int64)
        self.message: ObjectArray = np.full(size, None, dtype=np.object_)
        self.body: ObjectArray = np.full(size, None, dtype=np.object_)
        self.node: ObjectArray = np.full(size, None, dtype=np.object_)
        self.metadata: ObjectArray = np.full(size, None, dtype=np.object_)
        self.owner: ObjectArray = np.full(size, None, dtype=np.object_)
        self.index: dict[int, int] = {}
        self.bags: dict[int, list[int]] = {}
        self.kinds: list[str] = [POD_KIND]
        self.hidden_kinds: tuple[str, ...] = ()
        self._kind_indices: dict[str, int] = {POD_KIND: 0}
        self._kind_limit = _MANY_KINDS
        self._free: list[int] = list(range(size - 1, -1, -1))

    def __len__(self) -> int:
        """Return the number of objects known."""
        return len(self.key) - len(self._free)

    def closed_at_s(self, slots: Int64Array | list[int], settled_at_s: float) -> npt.NDArray[np.float64]:
        """Return the moments from which no call, ours or a predecessor's, can make objects any more."""
        own = np.maximum(self.calling_until_s[slots], self.open_until_s[slots])
        return np.maximum(own, settled_at_s)

    def is_hearsay(self, slots: Int64Array | list[int]) -> npt.NDArray[np.bool_]:
        """Return which objects are known from the leader's row alone: they were never seen here."""
        has_body = np.array([body is not None for body in self.body[slots].tolist()], dtype=np.bool_)
        is_unseen: npt.NDArray[np.bool_] = ~(self.uid[slots] != 0).any(axis=1)
        return has_body & is_unseen

    def needs_look(self, slots: Int64Array | list[int], settled_at_s: float) -> npt.NDArray[np.bool_]:
        """Return which objects may be there without our labels, and unknown: somebody else saw them, or may have.

        What was never seen here, is not said to have been seen, and that no call can have made without our knowing, is
        not there.
        """
        suspected = self.was_seen[slots] | (self.closed_at_s(slots, settled_at_s) > 0)
        return suspected & self.is_hearsay(slots)

    def is_settled(
        self, slots: Int64Array | list[int], *, settled_at_s: float, listed_s: float
    ) -> npt.NDArray[np.bool_]:
        """Return which objects are absent for good if they are not known to be there.

        Args:
            slots: Which.
            settled_at_s: Moment from which a predecessor can no longer act.
            listed_s: When the last listing that was taken was asked for, monotonic seconds.
        """
        closed_s = self.closed_at_s(slots, settled_at_s)
        looked_s = self.looked_s[slots]
        looked: npt.NDArray[np.bool_] = ~self.needs_look(slots, settled_at_s) | (
            (looked_s >= closed_s) & (looked_s > 0)
        )
        return (closed_s <= listed_s) & looked

    def mark_present(self, slots: Int64Array, now_s: float) -> None:
        """Note that objects exist; what they were made from is not needed any more."""
        self.phase[slots] = Phase.PRESENT
        self.present_s[slots] = now_s
        self.stuck_s[slots] = self.not_before_s[slots] = 0.0
        self.tries[slots] = 0
        self.body[slots] = self.metadata[slots] = self.owner[slots] = None

    def undecided(self) -> Int64Array:
        """Return the objects that are not there, if their end waits for that to be certain."""
        vanished = (self.phase == Phase.VANISHED) & ~IS_RUN_TERMINAL[self.state]
        absent = self.is_used & (self.stop | self.is_bag) & (self.phase == Phase.ABSENT)
        return np.flatnonzero(vanished | absent)

    def are_hidden(self, slots: Int64Array) -> npt.NDArray[np.bool_]:
        """Return which objects are of kinds that cannot be looked at now; see Observations."""
        if not self.hidden_kinds:
            return np.zeros(slots.size, dtype=np.bool_)
        hidden = frozenset(self.hidden_kinds)
        flags = [kind in hidden or f"*.{kind.partition('.')[2]}" in hidden for kind in self.kinds]
        found: npt.NDArray[np.bool_] = np.array(flags, dtype=np.bool_)[self.kind[slots]]
        return found

    def hidden_count(self) -> int:
        """Return how many objects count as there and are of kinds that cannot be looked at now."""
        if not self.hidden_kinds:
            return 0
        there = np.flatnonzero(self.is_used & ((self.phase == Phase.PRESENT) | (self.phase == Phase.DELETING)))
        return int(self.are_hidden(there).sum())

    def known_runs(self) -> tuple[Int64Array, npt.NDArray[np.int32]]:
        """Return (handles, attempts) of the runs that need no row, see `Reconciler.known_runs`."""
        known = self.is_used & (self.is_wanted | self.stop | ((self.kind == 0) & ~self.is_bag))
        keys = np.unique(self.key[known])
        return keys >> _ATTEMPT_BITS, (keys & 255).astype(np.int32)

    def kind_index(self, kind: str) -> int:
        """Return the index of a kind, adding it if it is new.

        Whoever submits may name kinds that no cluster has, so those that no object has any more are forgotten; indices
        change then, and are to be had from `kind` again.
        """
        found = self._kind_indices.get(kind)
        if found is None:
            if len(self.kinds) >= self._kind_limit:
                self._forget_kinds()
            if len(self.kinds) >= _MOST_KINDS:
                kind = _OTHER_KIND
            found = self._kind_indices.setdefault(kind, len(self.kinds))
            if found == len(self.kinds):
                self.kinds.append(kind)
        return found

    def _forget_kinds(self) -> None:
        """Keep pods and the kinds that objects have."""
        used = np.unique(np.append(self.kind[self.is_used], 0))
        renumbered = np.zeros(len(self.kinds), dtype=np.int16)
        renumbered[used] = np.arange(used.size)
        self.kind[self.is_used] = renumbered[self.kind[self.is_used]]
        self.kinds = [self.kinds[index] for index in used.tolist()]
        self._kind_indices = {kind: index for index, kind in enumerate(self.kinds)}
        self._kind_limit = max(_MANY_KINDS, 2 * len(self.kinds))

    def allocate(self, count: int) -> Int64Array:
        """Return `count` slots whose columns are all zero or None, marked used."""
        while len(self._free) < count:
            self._grow()
        cut = len(self._free) - count
        # Low slots first, so that what came first is also looked at first.
        slots = np.array(self._free[cut:], dtype=np.int64)[::-1]
        del self._free[cut:]
        self.is_used[slots] = True
        self.state[slots] = ObjectState.LEASED
        return slots

    def _grow(self) -> None:
        """Double every column."""
        size = len(self.key)
        for name, column in vars(self).items():
            if isinstance(column, np.ndarray):
                fill = np.full_like(column, None) if column.dtype == np.object_ else np.zeros_like(column)
                setattr(self, name, np.concatenate([column, fill]))
        self._free[:0] = range(2 * size - 1, size - 1, -1)

    def release(self, slots: Int64Array) -> None:
        """Forget objects. Their runs must be taken out of `index` and `bags` before."""
        for column in vars(self).values():
            if isinstance(column, np.ndarray):
                column[slots] = None if column.dtype == np.object_ else 0
        self._free.extend(slots.tolist())

    def slots_of_run(self, key: int) -> list[int]:
        """Return the slots of a run's known objects in order of their positions; none if the run is not known."""
        bag = self.bags.get(key)
        if bag is not None:
            return [slot for slot in bag if slot >= 0]
        slot = self.index.get(key)
        return [] if slot is None else [slot]

    def find(self, keys: list[int], objects: npt.NDArray[np.int16]) -> Int64Array:
        """Return the slot of each (run, object), -1 where it is not known."""
        slots = np.fromiter(map(self.index.get, keys, [-1] * len(keys)), dtype=np.int64, count=len(keys))
        for place in np.flatnonzero(objects > 0).tolist():
            bag = self.bags.get(keys[place])
            position = int(objects[place])
            slots[place] = bag[position] if bag is not None and position < len(bag) else -1
        return slots

    def open_bag(self, key: int, size: int) -> list[int]:
        """Return the slots of a run as a bag of at least `size` objects, made from what is known of the run."""
        bag = self.bags.get(key)
        if bag is None:
            head = self.index.get(key)
            bag = self.bags[key] = [] if head is None else [head]
            if head is not None:
                self.is_bag[head] = True
        bag.extend([-1] * (size - len(bag)))
        return bag

    def put_in_bag(self, key: int, position: int, slot: int) -> None:
        """Make a slot the object at a position of a run's bag."""
        self.open_bag(key, position + 1)[position] = slot
        self.is_bag[slot] = True
        if position == 0:
            self.index[key] = slot

    def pods(self, slots: list[int]) -> list[int]:
        """Return those of the slots that are pods."""
        return [slot for slot in slots if self.kind[slot] == 0]

"""The executor's objects: columns for what every object has, a record for each that is in trouble.

One slot per Kubernetes object. Most bags are one pod, so a member of a run is mostly one slot; `index` leads from the
member to the slot of its object 0. The objects of larger bags, and of bags of which only a later object was seen, are
in `bags`.

Source: design section 6, "Data layout"; decision 0013.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import has_true, true_places
from argosy_core.job.states import IS_RUN_TERMINAL, InvalidTransition, ObjectState
from argosy_core.job.tables.key_index import KeyIndex
from argosy_core.job.tables.members import Members
from argosy_core.reconcile.kind_table import KindTable
from argosy_core.reconcile.machine import Event, Phase, look_up

__all__ = ["MAX_HISTORY", "ObjectTable", "Recipe", "Stop", "Trouble", "are_distinct", "distinct"]

MAX_HISTORY: Final = 16
"""Events that are kept of an object in trouble, the latest."""
_FIRST_CAPACITY: Final = 256
_YES: Final = np.ones(1, dtype=np.bool_)

BoolArray = npt.NDArray[np.bool_]
Int8Array = npt.NDArray[np.int8]
Int64Array = npt.NDArray[np.int64]
Float64Array = npt.NDArray[np.float64]
Recipe = tuple[int, bytes, str | None, bytes | None, tuple[str, str] | None]
"""What an object is created from: upper 64 bits of the job's id, body, node, metadata, (queue, job set)."""


class Stop(IntEnum):
    """Whether an object shall go."""

    NONE = 0
    """It is wanted."""
    WANTED = 1
    """The leader wants it gone, or it was given up."""
    SENT = 2
    """We have sent its deletion, be it that nobody answered."""


@dataclass(slots=True)
class Trouble:
    """What is kept of an object only once something about it is not as it should be."""

    tries: int = 0
    """Failed calls in a row."""
    end_state: int = 0
    """ObjectState that it ends in when it is gone, 0 if that follows from `stop`."""
    open_until_s: float = 0.0
    """Until then creations of ours that nobody has answered may come through, monotonic seconds."""
    was_reported: bool = False
    """The leader says that a pod of its run was reported, and it is not there."""
    looked_s: float = 0.0
    """When the last look for its name was asked for, monotonic seconds; 0 if none was."""
    is_looking: bool = False
    """A look for its name is under way."""
    stuck_since_s: float = 0.0
    """Since when it waits for what cannot be had, monotonic seconds; 0 if it does not."""
    stuck_failure: int = 0
    """FailureKind that it has failed of if it waits for too long."""
    exit_code: int = 0
    """Of the first failed container."""
    failure: int = 0
    """FailureKind."""
    message: str | None = None
    """Why it ended, or what it waits for."""
    history: bytes = b""
    """(phase before, event) pairs, oldest first, at most `MAX_HISTORY`."""

    def note(self, phase: int, event: int) -> None:
        """Keep an event; one that repeats the last changes nothing."""
        pair = bytes((phase, event))
        if self.history[-2:] != pair:
            self.history = (self.history + pair)[-2 * MAX_HISTORY :]

    def story(self) -> tuple[str, ...]:
        """Return the history for people, oldest first."""
        pairs = zip(self.history[::2], self.history[1::2], strict=True)
        return tuple(f"{Phase(phase).name.lower()}: {Event(event).name.lower()}" for phase, event in pairs)


def distinct(values: Int64Array) -> Int64Array:
    """Return the distinct values, sorted; cheaper than `np.unique` for the few hundred values of a batch."""
    ordered = values.copy()
    ordered.sort()
    if ordered.size < 2:
        return ordered
    is_other = ordered[1:] != ordered[:-1]
    if np.count_nonzero(is_other) == is_other.size:
        return ordered
    found: Int64Array = ordered[np.concatenate([_YES, is_other])]
    return found


def are_distinct(values: Int64Array) -> bool:
    """Return whether no value stands twice."""
    ordered = values.copy()
    ordered.sort()
    return not has_true(ordered[1:] == ordered[:-1])


class ObjectTable:
    """Objects by slot, with a free list, and the ways from runs to slots. Only the reconciler writes to it."""

    handle: Int64Array
    """Job handle."""
    ordinal: Int64Array
    """Attempt and member, see `Members`."""
    object: npt.NDArray[np.int16]
    """Position in the bag."""
    kind: npt.NDArray[np.int16]
    """Number in `kinds`; 0 is Pod."""
    phase: Int8Array
    """Between row and cluster, see Phase; only `transit` changes it."""
    state: Int8Array
    """ObjectState, as reported."""
    stored_state: Int8Array
    """ObjectState that the leader is known to have stored."""
    stop: Int8Array
    """Whether it shall go, see Stop."""
    has_row: BoolArray
    """The leader gave its row."""
    is_bag: BoolArray
    """Its run is in `bags`."""
    in_trouble: BoolArray
    """It has a record in `troubles`."""
    calls_until_s: Float64Array
    """Until then creations of ours may come through, monotonic seconds; 0 if none is open."""
    not_before_s: Float64Array
    """No call before this moment, monotonic seconds."""
    seen_s: Float64Array
    """When it was last known to exist, monotonic seconds."""
    present_s: Float64Array
    """Since when it is there, monotonic seconds."""
    time_us: Int64Array
    """When it came into its state, microseconds since the Unix epoch."""
    home: Int64Array
    """Number of the namespace that its row names, see `homes`; NO_HOME while no row names it."""
    recipe: npt.NDArray[np.object_]
    """What it is created from, see Recipe; None once it exists."""
    uid: Int64Array
    """int64[n, 2]: its uid, zeros while that is not known."""

    _DTYPES: Final = {
        "handle": np.int64, "ordinal": np.int64, "object": np.int16, "kind": np.int16, "phase": np.int8,
        "state": np.int8, "stored_state": np.int8, "stop": np.int8, "has_row": np.bool_, "is_bag": np.bool_,
        "in_trouble": np.bool_, "calls_until_s": np.float64, "not_before_s": np.float64, "seen_s": np.float64,
        "present_s": np.float64, "time_us": np.int64, "home": np.int64,
    }  # fmt: skip

    def __init__(self) -> None:
        """Start empty."""
        for name, dtype in self._DTYPES.items():
            setattr(self, name, np.zeros(_FIRST_CAPACITY, dtype=dtype))
        self.uid = np.zeros((_FIRST_CAPACITY, 2), dtype=np.int64)
        self.recipe = np.full(_FIRST_CAPACITY, None, dtype=np.object_)
        self.troubles: dict[int, Trouble] = {}
        """Records by slot."""
        self.index = KeyIndex(2)
        """Slot of object 0, by member."""
        self.bags: dict[tuple[int, int], list[int]] = {}
        """Slots by position, -1 where none is known, by key of a member."""
        self.kinds = KindTable()
        """Kinds by number."""
        self._free: list[int] = list(range(_FIRST_CAPACITY - 1, -1, -1))

    def __len__(self) -> int:
        """Return the number of objects known."""
        return len(self.handle) - len(self._free)

    # --- the life of objects -----------------------------------------------------------------------------------------

    def transit(self, slots: Int64Array, events: Int8Array | int) -> Int8Array:
        """Let something happen to objects; return the Action that follows for each.

        Args:
            slots: Which, each once.
            events: Event for each, or one for all.

        Raises:
            InvalidTransition: An event cannot happen in its object's phase; nothing has changed.
        """
        before = self.phase[slots]
        if not before.size:
            return before
        after, actions = look_up(before, events)
        if has_true(after < 0):
            place = int(np.argmax(after < 0))
            event = Event(int(np.broadcast_to(events, slots.shape)[place]))
            raise self._invalid(int(slots[place]), event)
        troubled = self.troubled(slots)
        if troubled:
            told = np.broadcast_to(events, slots.shape)
            for place, _, record in troubled:
                record.note(int(before[place]), int(told[place]))
        self.phase[slots] = after
        return actions

    def _invalid(self, slot: int, event: Event) -> InvalidTransition:
        """Return the error that an event cannot happen to an object."""
        record = self.troubles.get(slot)
        of = self.members(np.array([slot]))
        subject = f"object {int(self.object[slot])} of run {of.handle[0]}/{of.attempt[0]}"
        story = record.story() if record is not None else ()
        return InvalidTransition(subject, Phase(int(self.phase[slot])), event, history=story)

    def trouble(self, slot: int) -> Trouble:
        """Return the record of an object, which is in trouble from now on."""
        record = self.troubles.get(slot)
        if record is None:
            record = self.troubles[slot] = Trouble()
            self.in_trouble[slot] = True
        return record

    def troubled(self, slots: Int64Array) -> list[tuple[int, int, Trouble]]:
        """Return (place in `slots`, slot, record) of those objects that are in trouble."""
        if not self.troubles:
            return []
        places = true_places(self.in_trouble[slots])
        return [
            (place, slot, self.troubles[slot])
            for place, slot in zip(places.tolist(), slots[places].tolist(), strict=True)
        ]

    def end_states(self, slots: Int64Array, default: Int8Array | int) -> Int8Array:
        """Return the states that objects end in when they are gone."""
        ends = np.array(np.broadcast_to(np.asarray(default, dtype=np.int8), slots.shape))
        for place, _, record in self.troubled(slots):
            if record.end_state:
                ends[place] = record.end_state
        return ends

    def mark_present(self, slots: Int64Array, now_s: float) -> None:
        """Note that objects exist; what they were made from is not needed any more."""
        if not slots.size:
            return
        self.present_s[slots] = now_s
        self.not_before_s[slots] = 0.0
        self.recipe[slots] = None
        for _, _, record in self.troubled(slots):
            record.tries, record.end_state, record.stuck_since_s = 0, 0, 0.0

    # --- what is certain ---------------------------------------------------------------------------------------------

    def closed_at_s(self, slots: Int64Array, settled_at_s: float) -> Float64Array:
        """Return the moments from which no call, ours or a predecessor's, can make objects any more."""
        return np.maximum(self.calls_until_s[slots], settled_at_s)

    def is_hearsay(self, slots: Int64Array) -> BoolArray:
        """Return which objects are known from the leader's row alone: they were never seen here."""
        uids = self.uid.take(slots, axis=0)
        found: BoolArray = (uids[:, 0] | uids[:, 1]) == 0
        if has_true(found):
            found[found] = [recipe is not None for recipe in self.recipe[slots[found]].tolist()]
        return found

    def needs_look(self, slots: Int64Array, settled_at_s: float) -> BoolArray:
        """Return which objects may be there without our labels, and unknown: somebody else saw them, or may have.

        What was never seen here, is not said to have been seen, and that no call can have made without our knowing, is
        not there.
        """
        suspected: BoolArray = self.closed_at_s(slots, settled_at_s) > 0
        for place, _, record in self.troubled(slots):
            suspected[place] |= record.was_reported
        if has_true(suspected):
            suspected[suspected] = self.is_hearsay(slots[suspected])
        return suspected

    def looked_s(self, slots: Int64Array) -> Float64Array:
        """Return when the last look for each object's name was asked for, monotonic seconds; 0 if none was."""
        looked_s = np.zeros(slots.size)
        for place, _, record in self.troubled(slots):
            looked_s[place] = record.looked_s
        return looked_s

    def is_settled(self, slots: Int64Array, *, settled_at_s: float, listed_s: float) -> BoolArray:
        """Return which objects are absent for good if they are not known to be there.

        Args:
            slots: Which.
            settled_at_s: Moment from which a predecessor can no longer act.
            listed_s: When the last listing that was taken was asked for, monotonic seconds.
        """
        closed_s = self.closed_at_s(slots, settled_at_s)
        settled: BoolArray = closed_s <= listed_s
        needs_look = self.needs_look(slots, settled_at_s)
        if has_true(needs_look):
            looked_s = self.looked_s(slots)
            settled &= ~needs_look | ((looked_s >= closed_s) & (looked_s > 0))
        return settled

    def undecided(self) -> Int64Array:
        """Return the objects that are not there, if their end waits for that to be certain."""
        vanished = (self.phase == Phase.VANISHED) & ~IS_RUN_TERMINAL[self.state]
        absent = ((self.stop > 0) | self.is_bag) & (self.phase == Phase.ABSENT)
        return true_places(vanished | absent)

    def there(self) -> BoolArray:
        """Return which objects are known to exist."""
        found: BoolArray = (self.phase == Phase.PRESENT) | (self.phase == Phase.DELETING)
        return found

    def unlistable_count(self) -> int:
        """Return how many objects count as there and are of kinds that cannot be listed now."""
        if not self.kinds.unlistable:
            return 0
        return int(self.are_unlistable(true_places(self.there())).sum())

    def are_unlistable(self, slots: Int64Array) -> BoolArray:
        """Return which objects are of kinds that cannot be listed now; see Observations."""
        return self.kinds.are_unlistable(self.kind[slots])

    def known_runs(self) -> Members:
        """Return the members of runs that need no row, see `Reconciler.known_runs`."""
        is_known = self.has_row | (self.stop > 0) | ((self.kind == 0) & ~self.is_bag)
        return self.members(true_places((self.phase != Phase.FREE) & is_known)).distinct()

    def have_rows(self, members: Members) -> BoolArray:
        """Return of which members of runs the rows are here. O(n), and Python work for those not known by object 0."""
        slots = self.index.lookup(*members.columns)
        found: BoolArray = (slots >= 0) & self.has_row[slots]
        if self.bags:
            others = true_places(slots < 0)
            for place, key in zip(others.tolist(), members[others].pairs(), strict=True):
                found[place] = has_true(self.has_row[self.slots_of(key)])
        return found

    def are_foreign(self, members: Members, slots: Int64Array, homes: Int64Array) -> BoolArray:
        """Return which objects that were seen are not what the rows of their runs name; without a row none is.

        Args:
            members: Of which member of a run each claims to be.
            slots: Where the object of that member is that each claims to be, -1 where there is none.
            homes: Number of the namespace that each is in.
        """
        is_named: BoolArray = (slots >= 0) & self.has_row[slots]
        foreign: BoolArray = is_named & (self.home[slots] != homes)
        unnamed = true_places(~is_named)
        if unnamed.size:
            foreign[unnamed] = self.have_rows(members[unnamed])
        return foreign

    def members(self, slots: Int64Array) -> Members:
        """Return of which member of a run each object is."""
        return Members(self.handle[slots], self.ordinal[slots])

    # --- slots -------------------------------------------------------------------------------------------------------

    def add(self, members: Members, *, positions: Int64Array | int = 0, kinds: Int64Array | int = 0) -> Int64Array:
        """Return the slots of n new objects, absent and leased; everything else about them is zero.

        Args:
            members: Of which member of a run each is.
            positions: In the bag.
            kinds: Number of the kind.
        """
        count = len(members)
        while len(self._free) < count:
            self._grow()
        cut = len(self._free) - count
        # Low slots first, so that what came first is also looked at first.
        slots = np.array(self._free[cut:], dtype=np.int64)[::-1]
        del self._free[cut:]
        self.transit(slots, Event.ADD)
        self.state[slots] = ObjectState.LEASED
        self.handle[slots], self.ordinal[slots] = members.columns
        self.object[slots], self.kind[slots] = positions, kinds
        return slots

    def kind_numbers(self, kinds: list[str]) -> Int64Array:
        """Return the numbers of kinds; others may change by it, and are to be had from `kind` again."""
        if self.kinds.is_full(kinds):
            in_use = self.phase != Phase.FREE
            self.kind[in_use] = self.kinds.shrink(self.kind[in_use])
        return np.array([self.kinds.number(kind) for kind in kinds], dtype=np.int64)

    def _grow(self) -> None:
        """Double every column."""
        size = len(self.handle)
        for name in self._DTYPES:
            column = getattr(self, name)
            setattr(self, name, np.concatenate([column, np.zeros_like(column)]))
        self.uid = np.concatenate([self.uid, np.zeros_like(self.uid)])
        self.recipe = np.concatenate([self.recipe, np.full(size, None, dtype=np.object_)])
        self._free[:0] = range(2 * size - 1, size - 1, -1)

    def forget(self, slots: Int64Array) -> None:
        """Forget objects that are gone, whole runs of them."""
        self.transit(slots, Event.FORGET)
        self.index.remove(*self.members(slots[self.object[slots] == 0]).columns)
        in_bags = slots[self.is_bag[slots]]
        if in_bags.size:
            for key in self.members(in_bags).pairs():
                self.bags.pop(key, None)
        for _, slot, _ in self.troubled(slots):
            del self.troubles[slot]
        for name in self._DTYPES:
            getattr(self, name)[slots] = 0
        self.uid[slots], self.recipe[slots] = 0, None
        self._free.extend(slots.tolist())

    def slots_of(self, key: tuple[int, int]) -> list[int]:
        """Return the slots of a member's known objects in order of their positions; none if it is not known."""
        bag = self.bags.get(key)
        if bag is not None:
            return [slot for slot in bag if slot >= 0]
        slot = self.head_of(key)
        return [] if slot < 0 else [slot]

    def head_of(self, key: tuple[int, int]) -> int:
        """Return the slot of a member's object 0, -1 where it is not known."""
        return int(self.index.lookup(*Members.of_key(key).columns)[0])

    def find(self, members: Members, objects: npt.NDArray[np.int16]) -> Int64Array:
        """Return the slot of each (member, object), -1 where it is not known."""
        slots = self.index.lookup(*members.columns).astype(np.int64)
        later = true_places(objects > 0)
        if not later.size:
            return slots
        for place, key in zip(later.tolist(), members[later].pairs(), strict=True):
            bag = self.bags.get(key)
            position = int(objects[place])
            slots[place] = bag[position] if bag is not None and position < len(bag) else -1
        return slots

    def open_bag(self, key: tuple[int, int], size: int) -> list[int]:
        """Return the slots of a member as a bag of at least `size` objects, made from what is known of it."""
        bag = self.bags.get(key)
        if bag is None:
            bag = self.bags[key] = self.slots_of(key)
            self.is_bag[bag] = True
        bag.extend([-1] * (size - len(bag)))
        return bag

    def put_in_bag(self, key: tuple[int, int], position: int, slot: int) -> None:
        """Make a slot the object at a position of a member's bag."""
        self.open_bag(key, position + 1)[position] = slot
        self.is_bag[slot] = True
        if position == 0:
            self.index.insert(*self.members(np.array([slot])).columns, slots=np.array([slot], dtype=np.int32))

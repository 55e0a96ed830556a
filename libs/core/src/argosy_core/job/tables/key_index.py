"""Key to slot: an open-addressing hash table in NumPy, looked up and changed in bulk.

A key is one int64 column, the handle of a job, or two, a member (see `job.tables.members`). Handles come from
one sequence, so their low bits are almost a perfect hash and probes are short. A million handles cost 26 MiB and a
million members 42 MiB, against 140 MiB for a dict of Python integers. A batch of a few keys is worked off key by key,
and so are the last of a larger one: an array call costs as much as a whole look-up does that way.

A place that no key was led past is empty again once its key is removed, so that what was removed, which is asked for
soon after as likely as not, is known not to be held at the first look.

Source: design section 6, "Data layout", and section 8.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from typing import Final

import numpy as np
import numpy.typing as npt

__all__ = ["LOWEST_KEY", "KeyIndex"]

_EMPTY: Final = np.iinfo(np.int64).min
_REMOVED: Final = _EMPTY + 1
LOWEST_KEY: Final = _EMPTY + 2
"""Smallest value that the first column of a key may have."""
_MIN_CAPACITY: Final = 256
_FEW: Final = 16
"""Up to so many keys Python is faster than array calls."""
_SPREAD: Final = 0x1E3779B97F4A7C15
_DAY_SPREAD: Final = 0x9E3779B1
# Arrays, since NumPy makes one of every Python integer that it meets, which takes as long as working off ten keys.
_SPREAD_0D: Final = np.array(_SPREAD)
_SPREAD_BITS: Final = np.array(29)
_DAY_SPREAD_0D: Final = np.array(_DAY_SPREAD)
_DAY_BITS: Final = np.array(40)
_JUMP_BITS: Final = np.array(20)
_JUMP_MASK: Final = np.array(0xFFFFFFFF)
_EMPTY_0D: Final = np.array(_EMPTY)
_REMOVED_0D: Final = np.array(_REMOVED)
_LOWEST_KEY_0D: Final = np.array(LOWEST_KEY)
_NONE: Final = np.array(-1, dtype=np.int32)

Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]


class KeyIndex:
    """Maps keys, each once, to int32 slots.

    Args:
        width: Columns of a key, 1 or 2.
    """

    def __init__(self, width: int = 1) -> None:
        """Start empty."""
        self._width = width
        self.clear()

    def __len__(self) -> int:
        """Return the number of keys."""
        return self._count

    @property
    def nbytes(self) -> int:
        """Return the memory held, bytes."""
        return sum(column.nbytes for column in self._keys) + self._slots.nbytes + self._passed.nbytes

    def clear(self, capacity: int = _MIN_CAPACITY) -> None:
        """Forget all keys; room for `capacity`, a power of two."""
        self._keys = [np.full(capacity, _EMPTY, dtype=np.int64) for _ in range(self._width)]
        self._slots = np.zeros(capacity, dtype=np.int32)
        self._passed = np.zeros(capacity, dtype=np.bool_)
        """Places that some key found taken and went on from; whoever looks for such a key must do the same."""
        self._mask = np.array(capacity - 1)
        self._used_count = 0  # live and removed entries
        self._count = 0

    def _start(self, columns: tuple[Int64s, ...]) -> Int64s:
        """Return where probing begins: the number of the handle, with its day and what else there is mixed in."""
        first = columns[0]
        mixed: Int64s = first >> _DAY_BITS
        mixed *= _DAY_SPREAD_0D
        mixed ^= first
        for column in columns[1:]:
            spread = column * _SPREAD_0D
            spread >>= _SPREAD_BITS
            mixed ^= spread
        mixed &= self._mask
        return mixed

    def _equal(self, positions: Int64s, columns: tuple[Int64s, ...]) -> Bools:
        """Return where the table has each key at its position."""
        equal: Bools = self._keys[0].take(positions) == columns[0]
        for held, wanted in zip(self._keys[1:], columns[1:], strict=True):
            equal &= held.take(positions) == wanted
        return equal

    def _positions(self, columns: tuple[Int64s, ...]) -> tuple[Int64s, Bools | None]:
        """Return the table position of each key, and which keys are held, None if all are."""
        positions = self._start(columns)
        found = self._equal(positions, columns)
        if np.count_nonzero(found) == found.size:
            return positions, None
        go_on = self._keys[0].take(positions) != _EMPTY_0D
        go_on ^= found
        if not np.count_nonzero(go_on):
            return positions, found
        rest = go_on.nonzero()[0]
        probes, jumps = positions[rest], _jumps(columns[0][rest])
        while rest.size > _FEW:
            probes = (probes * 5 + jumps + 1) & self._mask
            keys = tuple(column[rest] for column in columns)
            hit = self._equal(probes, keys)
            positions[rest[hit]], found[rest[hit]] = probes[hit], True
            going = (~hit & (self._keys[0].take(probes) != _EMPTY_0D)).nonzero()[0]
            rest, probes, jumps = rest[going], probes[going], jumps[going] >> 5
        few = np.fromiter(self._few_positions(tuple(column[rest] for column in columns)), np.int64, rest.size)
        positions[rest], found[rest] = few, few >= 0
        return positions, found

    def _few_positions(self, columns: tuple[Int64s, ...], *, free: bool = False) -> Iterator[int]:
        """Yield the table position of each of a few keys, -1 where it is not held, probing as `_positions` does.

        Args:
            columns: The keys.
            free: Look for the place that each key is to have instead; the caller fills it before it goes on.
        """
        # An element of a view costs half of an array's. Views are not kept: an index must be copied by `deepcopy`.
        mask, (held_first, *others) = self._slots.size - 1, [column.data for column in self._keys]
        firsts = columns[0].tolist()
        held_second = others[0] if others else held_first
        seconds = columns[1].tolist() if others else firsts
        end, passed = _REMOVED if free else _EMPTY, self._passed.data
        for first, second, mixed_in in zip(firsts, seconds, seconds if others else repeat(0), strict=False):
            place = (first ^ (first >> 40) * _DAY_SPREAD ^ mixed_in * _SPREAD >> 29) & mask
            jump = -1
            while (held := held_first[place]) != first or held_second[place] != second:
                if held <= end:
                    place = place if free else -1
                    break
                if free:
                    passed[place] = True
                jump = (first * _SPREAD >> 20) & 0xFFFFFFFF if jump < 0 else jump >> 5
                place = (place * 5 + jump + 1) & mask
            yield place

    def lookup(self, *columns: Int64s) -> Int32s:
        """Return the slot of each key as int32[n], -1 where it is not held. Complexity: a few passes over n."""
        if not columns[0].size:
            return np.zeros(0, dtype=np.int32)
        if columns[0].size <= _FEW:
            view = self._slots.data
            if self._width == 1:
                held, mask = self._keys[0].data, self._slots.size - 1
                keys = columns[0].tolist()
                places = [(key ^ (key >> 40) * _DAY_SPREAD) & mask for key in keys]
                if [held[place] for place in places] == keys:  # mostly all stand where probing begins
                    return np.array([view[place] for place in places], dtype=np.int32)
            return np.array([view[p] if p >= 0 else -1 for p in self._few_positions(columns)], dtype=np.int32)
        positions, found = self._positions(columns)
        slots = self._slots[positions]
        if found is not None:
            np.putmask(slots, ~found, _NONE)
        return slots

    def insert(self, *columns: Int64s, slots: Int32s) -> None:
        """Add keys that are not held yet, each once. Complexity: amortised a few passes over n."""
        self._reserve(slots.size)
        self._count += slots.size
        if slots.size <= _FEW:
            self._insert_few(columns, slots)
            return
        probes, jumps = self._start(columns), None
        while slots.size > _FEW:
            before = self._keys[0].take(probes)
            is_free = before < _LOWEST_KEY_0D
            free = slice(None) if np.count_nonzero(is_free) == is_free.size else is_free
            places = probes[free]
            # Two keys may want one place: the last writer has it, the others go on probing.
            for held, column in zip(self._keys, columns, strict=True):
                held[places] = column[free]
            won = self._equal(probes, columns)
            if np.count_nonzero(won) == won.size:
                self._slots[probes] = slots
                self._used_count += int(np.count_nonzero(before == _EMPTY_0D))
                return
            self._slots[probes[won]] = slots[won]
            self._used_count += int(np.count_nonzero(before[won] == _EMPTY_0D))
            rest = (~won).nonzero()[0]
            jumps = _jumps(columns[0][rest]) if jumps is None else jumps[rest] >> 5
            columns, slots, taken = tuple(column[rest] for column in columns), slots[rest], probes[rest]
            self._passed[taken] = True
            probes = (taken * 5 + jumps + 1) & self._mask
        self._insert_few(columns, slots)

    def _insert_few(self, columns: tuple[Int64s, ...], slots: Int32s) -> None:
        """Add a few keys one by one; there is room."""
        (held_first, *others), slot_view = [column.data for column in self._keys], self._slots.data
        held_second = others[0] if others else held_first
        firsts = columns[0].tolist()
        seconds = columns[1].tolist() if others else firsts
        places = self._few_positions(columns, free=True)
        for first, second, slot, place in zip(firsts, seconds, slots.tolist(), places, strict=True):
            self._used_count += held_first[place] == _EMPTY
            held_first[place], held_second[place], slot_view[place] = first, second, slot

    def remove(self, *columns: Int64s) -> None:
        """Take out those keys that are held; each stands once. Complexity: a few passes over n."""
        if columns[0].size <= _FEW:
            held_first, passed = self._keys[0].data, self._passed.data
            for place in self._few_positions(columns):
                if place >= 0:
                    held_first[place] = _REMOVED if passed[place] else _EMPTY
                    self._used_count -= not passed[place]
                    self._count -= 1
            return
        positions, found = self._positions(columns)
        held = positions if found is None else positions[found]
        stays_used = self._passed.take(held)
        self._keys[0][held] = np.where(stays_used, _REMOVED_0D, _EMPTY_0D)
        self._used_count -= held.size - int(np.count_nonzero(stays_used))
        self._count -= held.size

    def _reserve(self, count: int) -> None:
        """Make room so that at most half of the table is in use; sweeps out removed entries."""
        if (self._used_count + count) * 2 <= self._slots.size:
            return
        held = self._keys[0] >= LOWEST_KEY
        keys, slots = [column[held] for column in self._keys], self._slots[held]
        capacity = _MIN_CAPACITY
        while capacity < (self._count + count) * 3:
            capacity *= 2
        self.clear(capacity)
        self.insert(*keys, slots=slots)


def _jumps(first: Int64s) -> Int64s:
    """Return how far each key goes from its first place, before what is left of it is used up 5 bits at a time.

    Keys that came one after the other stand, and are removed, one after the other: probing the next place, or one of
    the same distance each time, would walk over all of them for a key that is not held.
    """
    jumps: Int64s = first * _SPREAD_0D
    jumps >>= _JUMP_BITS
    jumps &= _JUMP_MASK
    return jumps

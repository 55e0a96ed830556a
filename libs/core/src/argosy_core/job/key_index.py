"""Key to slot: an open-addressing hash table in NumPy, looked up and changed in bulk.

A key is one int64 column, the handle of a job, or two, a member (see `argosy_core.job.members`). Handles come from one
sequence, so their low bits are almost a perfect hash and probes are short. A million handles cost 24 MiB and a million
members 40 MiB, against 140 MiB for a dict of Python integers. A batch of a few keys is worked off key by key: an array
call costs as much as a whole look-up does that way.

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

Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]


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
        return sum(column.nbytes for column in self._keys) + self._slots.nbytes

    def clear(self, capacity: int = _MIN_CAPACITY) -> None:
        """Forget all keys; room for `capacity`, a power of two."""
        self._keys = [np.full(capacity, _EMPTY, dtype=np.int64) for _ in range(self._width)]
        self._slots = np.zeros(capacity, dtype=np.int32)
        self._used_count = 0  # live and removed entries
        self._count = 0

    def _start(self, columns: tuple[Int64s, ...]) -> Int64s:
        """Return where probing begins: the number of the handle, with its day and what else there is mixed in."""
        first = columns[0]
        mixed = first ^ (first >> 40) * _DAY_SPREAD
        for column in columns[1:]:
            mixed ^= column * _SPREAD >> 29
        return mixed & (self._slots.size - 1)

    def _equal(self, positions: Int64s, columns: tuple[Int64s, ...]) -> npt.NDArray[np.bool_]:
        """Return where the table has each key at its position."""
        equal: npt.NDArray[np.bool_] = self._keys[0][positions] == columns[0]
        for held, wanted in zip(self._keys[1:], columns[1:], strict=True):
            equal &= held[positions] == wanted
        return equal

    def _positions(self, columns: tuple[Int64s, ...]) -> Int64s:
        """Return the table position of each key, -1 where it is not held."""
        mask = self._slots.size - 1
        positions = self._start(columns)
        hit = self._equal(positions, columns)
        if hit.all():
            return positions
        open_rows = np.flatnonzero(~hit & (self._keys[0][positions] != _EMPTY))
        result = np.where(hit, positions, -1)
        probes, jumps = positions[open_rows], _jumps(columns[0][open_rows])
        while open_rows.size:
            probes, jumps = (probes * 5 + jumps + 1) & mask, jumps >> 5
            hit = self._equal(probes, tuple(column[open_rows] for column in columns))
            result[open_rows[hit]] = probes[hit]
            go_on = ~hit & (self._keys[0][probes] != _EMPTY)
            open_rows, probes, jumps = open_rows[go_on], probes[go_on], jumps[go_on]
        return result

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
        end = _REMOVED if free else _EMPTY
        for first, second, mixed_in in zip(firsts, seconds, seconds if others else repeat(0), strict=False):
            place = (first ^ (first >> 40) * _DAY_SPREAD ^ mixed_in * _SPREAD >> 29) & mask
            jump = -1
            while (held := held_first[place]) != first or held_second[place] != second:
                if held <= end:
                    place = place if free else -1
                    break
                jump = (first * _SPREAD >> 20) & 0xFFFFFFFF if jump < 0 else jump >> 5
                place = (place * 5 + jump + 1) & mask
            yield place

    def lookup(self, *columns: Int64s) -> Int32s:
        """Return the slot of each key as int32[n], -1 where it is not held. Complexity: a few passes over n."""
        if columns[0].size <= _FEW:
            slots = self._slots.data
            return np.array([slots[p] if p >= 0 else -1 for p in self._few_positions(columns)], dtype=np.int32)
        positions = self._positions(columns)
        return np.where(positions >= 0, self._slots[positions], np.int32(-1))

    def insert(self, *columns: Int64s, slots: Int32s) -> None:
        """Add keys that are not held yet, each once. Complexity: amortised a few passes over n."""
        self._reserve(slots.size)
        self._count += slots.size
        if slots.size <= _FEW:
            rows = zip(*(column.tolist() for column in columns), strict=True)
            views, slot_view = [column.data for column in self._keys], self._slots.data
            for key, slot, place in zip(rows, slots.tolist(), self._few_positions(columns, free=True), strict=True):
                self._used_count += views[0][place] == _EMPTY
                slot_view[place] = slot
                for view, part in zip(views, key, strict=True):
                    view[place] = part
            return
        mask = self._slots.size - 1
        open_rows = np.arange(slots.size)
        probes, jumps = self._start(columns), _jumps(columns[0])
        while open_rows.size:
            before = self._keys[0][probes]
            free = before < LOWEST_KEY
            takers = open_rows[free]
            # Two keys may want one place: the last writer has it, the others go on probing.
            for held, column in zip(self._keys, columns, strict=True):
                held[probes[free]] = column[takers]
            won = self._equal(probes, tuple(column[open_rows] for column in columns))
            self._slots[probes[won]] = slots[open_rows[won]]
            self._used_count += int(np.count_nonzero(before[won] == _EMPTY))
            open_rows, probes = open_rows[~won], (probes[~won] * 5 + jumps[~won] + 1) & mask
            jumps = jumps[~won] >> 5

    def remove(self, *columns: Int64s) -> None:
        """Take out those keys that are held; each stands once. Complexity: a few passes over n."""
        if columns[0].size <= _FEW:
            held_first = self._keys[0].data
            for place in self._few_positions(columns):
                if place >= 0:
                    held_first[place] = _REMOVED
                    self._count -= 1
            return
        positions = self._positions(columns)
        self._keys[0][positions[positions >= 0]] = _REMOVED
        self._count -= int((positions >= 0).sum())

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
    return (first * _SPREAD >> 20) & 0xFFFFFFFF

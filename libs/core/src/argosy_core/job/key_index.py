"""Key to slot: an open-addressing hash table in NumPy, looked up and changed in bulk.

A key is one int64 column, the handle of a job, or two, a member (see `argosy_core.job.members`). Handles come from one
sequence, so their low bits are almost a perfect hash and probes are short. A million handles cost 24 MiB and a million
members 40 MiB, against 140 MiB for a dict of Python integers.

Source: design section 6, "Data layout", and section 8.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

__all__ = ["LOWEST_KEY", "KeyIndex"]

_EMPTY: Final = np.iinfo(np.int64).min
_REMOVED: Final = _EMPTY + 1
LOWEST_KEY: Final = _EMPTY + 2
"""Smallest value that the first column of a key may have."""
_MIN_CAPACITY: Final = 256

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
        mixed = first ^ (first >> 40) * 0x9E3779B1
        for column in columns[1:]:
            mixed ^= column * 0x1E3779B97F4A7C15 >> 29
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

    def lookup(self, *columns: Int64s) -> Int32s:
        """Return the slot of each key as int32[n], -1 where it is not held. Complexity: a few passes over n."""
        if columns[0].size == 0:
            return np.zeros(0, dtype=np.int32)
        positions = self._positions(columns)
        return np.where(positions >= 0, self._slots[positions], np.int32(-1))

    def insert(self, *columns: Int64s, slots: Int32s) -> None:
        """Add keys that are not held yet, each once. Complexity: amortised a few passes over n."""
        self._reserve(slots.size)
        mask = self._slots.size - 1
        rows = np.arange(slots.size)
        probes, jumps = self._start(columns), _jumps(columns[0])
        while rows.size:
            free = self._keys[0][probes] == _EMPTY
            takers = rows[free]
            # Two keys may want one place: the last writer has it, the others go on probing.
            for held, column in zip(self._keys, columns, strict=True):
                held[probes[free]] = column[takers]
            won = self._equal(probes, tuple(column[rows] for column in columns))
            self._slots[probes[won]] = slots[rows[won]]
            rows, probes, jumps = rows[~won], (probes[~won] * 5 + jumps[~won] + 1) & mask, jumps[~won] >> 5
        self._used_count += slots.size
        self._count += slots.size

    def remove(self, *columns: Int64s) -> None:
        """Take out those keys that are held; each stands once. Complexity: a few passes over n."""
        if columns[0].size == 0:
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
    return (first * 0x1E3779B97F4A7C15 >> 20) & 0xFFFFFFFF

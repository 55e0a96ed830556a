"""Handle to slot: an open-addressing hash table in NumPy, looked up and changed in bulk.

Handles come from one sequence, so their low bits are almost a perfect hash and probes are short. A million handles cost
24 MiB, against 140 MiB for a dict of Python integers.

Source: design section 6, "Data layout", and section 8.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

__all__ = ["HandleIndex"]

_EMPTY: Final = -1
_REMOVED: Final = -2
_MIN_CAPACITY: Final = 1024


class HandleIndex:
    """Maps int64 handles, 0 or more and each once, to int32 slots."""

    def __init__(self) -> None:
        """Start empty."""
        self._keys = np.full(_MIN_CAPACITY, _EMPTY, dtype=np.int64)
        self._slots = np.zeros(_MIN_CAPACITY, dtype=np.int32)
        self._used_count = 0  # live and removed entries
        self._count = 0

    def __len__(self) -> int:
        """Return the number of handles."""
        return self._count

    @property
    def nbytes(self) -> int:
        """Return the memory held, bytes."""
        return self._keys.nbytes + self._slots.nbytes

    def _start(self, handles: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return where probing begins: the number of the handle, with its day mixed in."""
        return (handles ^ (handles >> 40) * 0x9E3779B1) & (self._keys.size - 1)

    def _positions(self, handles: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the table position of each handle, -1 where it is not held."""
        mask = self._keys.size - 1
        positions = self._start(handles)
        found = self._keys[positions]
        hit = found == handles
        if hit.all():
            return positions
        open_rows = np.flatnonzero(~hit & (found != _EMPTY))
        result = np.where(hit, positions, -1)
        probes = positions[open_rows]
        while open_rows.size:
            probes = (probes + 1) & mask
            found = self._keys[probes]
            hit = found == handles[open_rows]
            result[open_rows[hit]] = probes[hit]
            go_on = ~hit & (found != _EMPTY)
            open_rows, probes = open_rows[go_on], probes[go_on]
        return result

    def lookup(self, handles: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        """Return the slot of each handle as int32[n], -1 where it is not held. Complexity: a few passes over n."""
        if handles.size == 0:
            return np.zeros(0, dtype=np.int32)
        positions = self._positions(handles)
        return np.where(positions >= 0, self._slots[positions], np.int32(-1))

    def insert(self, handles: npt.NDArray[np.int64], slots: npt.NDArray[np.int32]) -> None:
        """Add handles that are not held yet, each once. Complexity: amortised a few passes over n."""
        self._reserve(handles.size)
        mask = self._keys.size - 1
        rows = np.arange(handles.size)
        probes = self._start(handles)
        while rows.size:
            free = self._keys[probes] == _EMPTY
            takers = rows[free]
            # Two handles may want one place: the last writer has it, the others go on probing.
            self._keys[probes[free]] = handles[takers]
            won = self._keys[probes] == handles[rows]
            self._slots[probes[won]] = slots[rows[won]]
            rows, probes = rows[~won], (probes[~won] + 1) & mask
        self._used_count += handles.size
        self._count += handles.size

    def remove(self, handles: npt.NDArray[np.int64]) -> None:
        """Take out handles that are held, each once. Complexity: a few passes over n."""
        if handles.size == 0:
            return
        positions = self._positions(handles)
        self._keys[positions[positions >= 0]] = _REMOVED
        self._count -= int((positions >= 0).sum())

    def _reserve(self, count: int) -> None:
        """Make room so that at most half of the table is in use; sweeps out removed entries."""
        if (self._used_count + count) * 2 <= self._keys.size:
            return
        held = self._keys >= 0
        keys, slots = self._keys[held], self._slots[held]
        capacity = _MIN_CAPACITY
        while capacity < (self._count + count) * 3:
            capacity *= 2
        self._keys = np.full(capacity, _EMPTY, dtype=np.int64)
        self._slots = np.zeros(capacity, dtype=np.int32)
        self._used_count = self._count = 0
        self.insert(keys, slots)

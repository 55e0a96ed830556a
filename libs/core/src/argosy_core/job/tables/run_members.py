"""Where the members of live runs are, and how far each has got, for runs that have other members than one of number 0.

Nearly all runs have one member, about which everything stands in the table of live jobs; those have no rows here, so
that this costs nothing while there are none. Rows are kept in the order of slot and number, so the members of a run
follow each other.

Source: design section 6, "Data layout".
"""

from __future__ import annotations

from typing import Final

import numpy as np

from argosy_core.arrays import Bools, Int8s, Int16s, Int32s, Int64s

__all__ = ["RunMembers"]

_NUMBER_BITS: Final = 16
_DTYPES: Final = {"node": np.int32, "bag": np.int32, "demand": np.int32, "state": np.int8, "start_time_us": np.int64}


class RunMembers:
    """Members of runs; changed by the functions of `argosy_core.scheduler` alone."""

    node: Int32s
    """(row,) node name index in the cluster of the run."""
    bag: Int32s
    """(row,) row of the states of its objects if it has several, or -1."""
    demand: Int32s
    """(row,) row of the pool's demands, -1 for what the class says."""
    state: Int8s
    """(row,) RunState of the member, 0 while its run is in flight."""
    start_time_us: Int64s
    """(row,) when its first pod ran, microseconds since the Unix epoch; 0 if not yet."""

    def __init__(self) -> None:
        """Start empty."""
        self._key = np.zeros(0, dtype=np.int64)
        for name, dtype in _DTYPES.items():
            setattr(self, name, np.zeros(0, dtype=dtype))

    def __len__(self) -> int:
        """Return the number of rows."""
        return self._key.size

    @property
    def slot(self) -> Int32s:
        """Return the job of each row."""
        return (self._key >> _NUMBER_BITS).astype(np.int32)

    @property
    def number(self) -> Int16s:
        """Return the number of each row's member in its run."""
        return (self._key & ((1 << _NUMBER_BITS) - 1)).astype(np.int16)

    def add(self, slots: Int32s, numbers: Int16s, nodes: Int32s) -> None:
        """Put in members in flight, each once, that have no rows. Complexity: O(n log n) in rows, in NumPy."""
        none = np.full(slots.size, -1, np.int32)
        added = {"node": nodes, "bag": none, "demand": none}
        key = np.concatenate([self._key, _key(slots, numbers)])
        order = np.argsort(key, kind="stable")
        self._key = key[order]
        for name, dtype in _DTYPES.items():
            values = added.get(name, np.zeros(slots.size, dtype=dtype))
            setattr(self, name, np.concatenate([getattr(self, name), values])[order])

    def drop(self, slots: Int32s) -> None:
        """Take out the members of some jobs' runs, if they have rows. Complexity: O(rows) if any has."""
        self.drop_rows(self.rows(slots)[1])

    def drop_rows(self, rows: Int64s) -> None:
        """Take out single members by their rows; those behind them have other rows then. Complexity: O(rows)."""
        if rows.size:
            kept = np.ones(len(self), dtype=np.bool_)
            kept[rows] = False
            self._keep(kept)

    def _keep(self, kept: Bools) -> None:
        self._key = self._key[kept]
        for name in _DTYPES:
            setattr(self, name, getattr(self, name)[kept])

    def has(self, slots: Int32s) -> Bools:
        """Return which jobs have a run with rows."""
        first, end = self._bounds(slots)
        return np.asarray(end > first)

    def find(self, slots: Int32s, numbers: Int16s | None) -> Int64s:
        """Return the row of each member, -1 where there is none; numbers are 0 if left out."""
        key = _key(slots, np.zeros(slots.size, np.int16) if numbers is None else numbers)
        place = np.searchsorted(self._key, key)
        place[place == len(self)] = 0
        return np.where(self._key[place] == key, place, -1) if len(self) else np.full(slots.size, -1, np.int64)

    def rows(self, slots: Int32s) -> tuple[Int64s, Int64s]:
        """Return the rows of some jobs, as (place in `slots`, row), one after the other."""
        first, end = self._bounds(slots)
        counts = end - first
        places = np.repeat(np.arange(slots.size), counts)
        return places, np.arange(places.size) + np.repeat(first - (np.cumsum(counts) - counts), counts)

    def _bounds(self, slots: Int32s) -> tuple[Int64s, Int64s]:
        """Return the first row of each job and the one behind its last."""
        first = slots.astype(np.int64) << _NUMBER_BITS
        return np.searchsorted(self._key, first), np.searchsorted(self._key, first + (1 << _NUMBER_BITS))


def _key(slots: Int32s, numbers: Int16s) -> Int64s:
    """Return what rows are sorted by."""
    return slots.astype(np.int64) << _NUMBER_BITS | numbers.astype(np.int64)

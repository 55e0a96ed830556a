"""Demands of single jobs: what a job asks for and what it may hold, where that is not what its class says.

Almost every job is as its class; only those that differ own a row, so the table costs nothing while there are none. Of
a run of several members each that differs has a row of its own, of which only what it may hold counts; their job's row
has the sums.

Source: 003 "Resource usage"; design section 6, "Data layout".
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import Int32s, Int64s
from argosy_core.job.tables.ids import grow

__all__ = ["DemandTable"]


class DemandTable:
    """Rows of amounts; a row is used again once its job let go of it.

    Args:
        width: Resources of the pool.
    """

    def __init__(self, width: int) -> None:
        """Start empty."""
        self.requested: Int64s = np.zeros((0, width), dtype=np.int64)
        """(row, resource): what the job asks for, base units."""
        self.permitted: Int64s = np.zeros((0, width), dtype=np.int64)
        """(row, resource): what it may hold now, base units; more than it asks for once its run has grown."""
        self.usage: Int64s = np.zeros(0, dtype=np.int64)
        """(row,): usage of what is permitted, micro-cores."""
        self._free: list[int] = []

    def __len__(self) -> int:
        """Return how many jobs own a row."""
        return len(self.usage) - len(self._free)

    def take_rows(self, count: int) -> Int32s:
        """Return free rows, made if there are too few; the caller fills them in."""
        missing = count - len(self._free)
        if missing > 0:
            start = len(self.usage)
            for name in ("requested", "permitted", "usage"):
                setattr(self, name, grow(getattr(self, name), start + missing))
            self._free.extend(range(len(self.usage) - 1, start - 1, -1))
        return np.array([self._free.pop() for _ in range(count)], dtype=np.int32)

    def drop(self, rows: npt.NDArray[np.integer]) -> None:
        """Let go of distinct rows; -1 stands for none."""
        rows = rows[rows >= 0]
        self.requested[rows] = self.permitted[rows] = 0
        self.usage[rows] = 0
        self._free.extend(rows.tolist())

    def add_columns(self, count: int) -> None:
        """Make columns for new resources, 0 everywhere."""
        self.requested = np.pad(self.requested, ((0, 0), (0, count)))
        self.permitted = np.pad(self.permitted, ((0, 0), (0, count)))

    def keep_columns(self, used: npt.NDArray[np.bool_]) -> None:
        """Take away the other resources."""
        self.requested, self.permitted = self.requested[:, used], self.permitted[:, used]

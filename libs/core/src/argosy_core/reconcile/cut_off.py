"""Runs whose jobs want them stopped when no leader is heard for a while.

The leader gives such a run's job to another cluster once its executor was not heard of for that time and a margin. So
the executor must have deleted it by then, whether or not anybody lets it act: a deletion of what would be deleted at
its return anyway, by uid, does no harm when it comes too early.

Source: design section 5, "Executor lost"; section 7, invariant 1.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import true_places
from argosy_core.job.reading.stop_note import read_stop_note
from argosy_core.job.tables.members import Members
from argosy_core.reconcile.columns import Observations, RunRows
from argosy_core.reconcile.object_table import ObjectTable

__all__ = ["CutOff"]

_LEAST_SWEEP: Final = 1024
_NOBODY: Final = Members.of([], []), np.zeros(0, dtype=np.int64)
"""What each step finds where no job has such a time."""


class CutOff:
    """How long each run may be there without a leader, of those whose jobs say so.

    Args:
        table: Where the objects are; not changed.
    """

    def __init__(self, table: ObjectTable) -> None:
        """Start with none."""
        self._table = table
        self._stop_after_s: dict[tuple[int, int], float] = {}
        self._sweep_at = _LEAST_SWEEP

    def __len__(self) -> int:
        """Return the number of members that are known to have such a time, some that are gone included."""
        return len(self._stop_after_s)

    def note_rows(self, rows: RunRows) -> None:
        """Take what rows say. O(distinct metadata), and Python work per run that has such a time."""
        times_s = np.array([*map(read_stop_note, rows.metadata), 0.0])
        chosen = true_places(times_s[rows.metadata_column])
        if chosen.size:
            members = Members(rows.handle_column, rows.ordinal_column)[chosen]
            self._note(members, times_s[rows.metadata_column[chosen]].tolist())

    def note_seen(self, observed: Observations) -> None:
        """Take what objects say that are seen: of a predecessor's runs no row may have come yet."""
        if observed.stop_after_s:
            places = np.array(list(observed.stop_after_s), dtype=np.int64)
            members = Members(observed.handle_column, observed.ordinal_column)[places]
            self._note(members, list(observed.stop_after_s.values()))

    def _note(self, members: Members, times_s: list[float]) -> None:
        self._stop_after_s.update(zip(members.pairs(), times_s, strict=True))
        if len(self) > self._sweep_at:
            self._forget_gone()
            self._sweep_at = max(2 * len(self), _LEAST_SWEEP)

    def _forget_gone(self) -> None:
        known = self._table.slots_of
        self._stop_after_s = {key: time_s for key, time_s in self._stop_after_s.items() if known(key)}

    def overdue(self, silent_s: float) -> tuple[Members, npt.NDArray[np.int64]]:
        """Return the members that are to be stopped, and the slots of their objects.

        Args:
            silent_s: For how long no leader was heard, seconds.

        Complexity: O(members with such a time) once anything is due.
        """
        if not self._stop_after_s or silent_s < min(self._stop_after_s.values()):
            return _NOBODY
        self._forget_gone()
        keys = [key for key, time_s in self._stop_after_s.items() if time_s <= silent_s]
        slots = [slot for key in keys for slot in self._table.slots_of(key)]
        pairs = np.array(keys, dtype=np.int64).reshape(-1, 2)
        return Members(pairs[:, 0], pairs[:, 1]), np.array(slots, dtype=np.int64)

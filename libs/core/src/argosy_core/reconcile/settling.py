"""Whether something that is not there is absent for good.

It is once no call of a predecessor's and none of our own can make it any more, a listing that was asked for after that
does not show it, and, if only a predecessor can have seen it, a look for its name has found nothing either.

Source: design section 7, invariants 1 and 9.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import has_true
from argosy_core.reconcile.object_table import ObjectTable
from argosy_core.reconcile.search import Search
from argosy_core.reconcile.timers import Timers

__all__ = ["Settling"]

Int64Array = npt.NDArray[np.int64]


class Settling:
    """What is known of the calls that could still make objects.

    Args:
        table: Where the objects are.
        search: Looks for objects by name.
        timers: Where to wait.
        settled_at_s: See the attribute.
    """

    def __init__(self, table: ObjectTable, search: Search, timers: Timers, settled_at_s: float) -> None:
        """Start before the first listing."""
        self._table = table
        self._search = search
        self._timers = timers
        self.settled_at_s = settled_at_s
        """Moment from which a predecessor can no longer act, monotonic seconds."""
        self.listed_s = 0.0
        """When the last listing that was taken was asked for, monotonic seconds."""
        self.wants_listing = False
        """Something can be concluded only from a full listing."""

    def take_listing(self, started_s: float) -> None:
        """Note a listing that was asked for at a moment, monotonic seconds."""
        self.listed_s = max(self.listed_s, started_s)
        self.wants_listing = False

    def is_settled(self, slots: Int64Array) -> npt.NDArray[np.bool_]:
        """Return which objects are absent for good if they are not known to be there."""
        return self._table.is_settled(slots, settled_at_s=self.settled_at_s, listed_s=self.listed_s)

    def is_refusal_final(self, slots: Int64Array) -> npt.NDArray[np.bool_]:
        """Return for which objects it is final that they are refused: a predecessor can have been granted none."""
        is_searched = (self.settled_at_s <= 0) | (self._table.looked_s(slots) > self.settled_at_s)
        return is_searched & (self.settled_at_s <= self.listed_s)

    def wait_for(self, slots: Int64Array, now_s: float) -> None:
        """Look at undecided objects again when no call can make them; then a listing decides, and a look by name."""
        if not slots.size:
            return
        due_s = self._table.closed_at_s(slots, self.settled_at_s)
        is_listed = due_s <= self.listed_s
        self._search.ask(slots[is_listed | self._search.may_be_early(slots)], self.settled_at_s)
        if has_true((due_s <= now_s) & ~is_listed):
            self.wants_listing = True
        is_ahead = (due_s > now_s) & np.isfinite(due_s)
        self._timers.add_each(slots[is_ahead], due_s[is_ahead])

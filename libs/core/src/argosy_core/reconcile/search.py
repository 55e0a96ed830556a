"""Objects that must be looked for by name before they are called absent.

A listing shows what carries our labels, and anybody who may patch an object can take them away. An executor knows the
objects that it has seen, whatever becomes of their labels; of those that only a predecessor saw or made it knows no
more than what the leader says. So nothing is concluded about such an object before a look for its name, asked for after
every call that could make it has run out, has found nothing. What the listing shows is not looked for.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from argosy_core.job.states import IS_RUN_TERMINAL
from argosy_core.reconcile.action_columns import build_creates, is_same_object
from argosy_core.reconcile.columns import Creates
from argosy_core.reconcile.run_table import Phase, RunTable, distinct

__all__ = ["Search"]

Int64Array = npt.NDArray[np.int64]
_ABSENT, _VANISHED = int(Phase.ABSENT), int(Phase.VANISHED)


class Search:
    """What is to be looked for, and what was.

    Args:
        table: Where the objects are.
    """

    def __init__(self, table: RunTable) -> None:
        """Look for nothing yet."""
        self._table = table
        self._asked: list[Int64Array] = []

    @property
    def is_empty(self) -> bool:
        """Whether nothing is to be looked for."""
        return not self._asked

    def ask(self, slots: Int64Array, settled_at_s: float) -> None:
        """Look for those of some objects that a look can decide."""
        wanted = slots[self._table.needs_look(slots, settled_at_s) & ~self._table.is_looking[slots]]
        if wanted.size:
            self._asked.append(wanted)

    def may_be_early(self, slots: Int64Array) -> npt.NDArray[np.bool_]:
        """Return which objects are worth a look at once: they were reported, and until found nothing is heard of them.

        If that look finds nothing it proves nothing, for a call under way could still make them.
        """
        return self._table.was_seen[slots] & (self._table.looked_s[slots] <= 0)

    def take(self, most: int) -> Creates | None:
        """Return what is to be looked for now, as it would be made, or None; each is given out once.

        Args:
            most: How many at once; the others wait.
        """
        if not self._asked:
            return None
        table, slots = self._table, distinct(np.concatenate(self._asked))
        self._asked.clear()
        is_open = table.is_used[slots] & ~table.is_looking[slots] & ~IS_RUN_TERMINAL[table.state[slots]]
        is_missing = (table.phase[slots] == _ABSENT) | (table.phase[slots] == _VANISHED)
        slots = slots[is_open & is_missing & table.is_hearsay(slots)]
        if slots.size > most:
            self._asked.append(slots[most:])
            slots = slots[:most]
        table.is_looking[slots] = True
        return build_creates(table, slots) if slots.size else None

    def finish(self, lookups: Creates) -> Int64Array:
        """Note that a look has ended; return the slots of what was still missing when it did."""
        table, slots = self._table, lookups.slot_column
        slots = slots[is_same_object(table, lookups)]
        table.is_looking[slots] = False
        missing: Int64Array = slots[(table.phase[slots] == _ABSENT) | (table.phase[slots] == _VANISHED)]
        return missing

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
from argosy_core.reconcile.machine import Phase
from argosy_core.reconcile.object_table import ObjectTable, distinct

__all__ = ["Search"]

Int64Array = npt.NDArray[np.int64]
_ABSENT, _VANISHED = int(Phase.ABSENT), int(Phase.VANISHED)


class Search:
    """What is to be looked for, and what was.

    Args:
        table: Where the objects are.
    """

    def __init__(self, table: ObjectTable) -> None:
        """Look for nothing yet."""
        self._table = table
        self._asked: list[Int64Array] = []

    @property
    def is_empty(self) -> bool:
        """Whether nothing is to be looked for."""
        return not self._asked

    def ask(self, slots: Int64Array, settled_at_s: float) -> None:
        """Look for those of some objects that a look can decide."""
        wanted = slots[self._table.needs_look(slots, settled_at_s)]
        wanted = wanted[~self._is_looking(wanted)]
        if wanted.size:
            self._asked.append(wanted)

    def _is_looking(self, slots: Int64Array) -> npt.NDArray[np.bool_]:
        """Return which objects are being looked for."""
        found = np.zeros(slots.size, dtype=np.bool_)
        for place, _, record in self._table.troubled(slots):
            found[place] = record.is_looking
        return found

    def may_be_early(self, slots: Int64Array) -> npt.NDArray[np.bool_]:
        """Return which objects are worth a look at once: they were reported, and until found nothing is heard of them.

        If that look finds nothing it proves nothing, for a call under way could still make them.
        """
        early = np.zeros(slots.size, dtype=np.bool_)
        for place, _, record in self._table.troubled(slots):
            early[place] = record.was_reported and not record.looked_s
        return early

    def take(self, most: int) -> Creates | None:
        """Return what is to be looked for now, as it would be made, or None; each is given out once.

        Args:
            most: How many at once; the others wait.
        """
        if not self._asked:
            return None
        table, slots = self._table, distinct(np.concatenate(self._asked))
        self._asked.clear()
        slots = slots[self._are_missing(slots) & ~IS_RUN_TERMINAL[table.state[slots]] & ~self._is_looking(slots)]
        slots = slots[table.is_hearsay(slots)]
        if slots.size > most:
            self._asked.append(slots[most:])
            slots = slots[:most]
        for slot in slots.tolist():
            table.trouble(slot).is_looking = True
        return build_creates(table, slots) if slots.size else None

    def finish(self, lookups: Creates) -> Int64Array:
        """Note that a look has ended; return the slots of what was still missing when it did."""
        slots = lookups.slot_column
        slots = slots[is_same_object(self._table, lookups)]
        for slot in slots.tolist():
            self._table.trouble(slot).is_looking = False
        missing: Int64Array = slots[self._are_missing(slots)]
        return missing

    def _are_missing(self, slots: Int64Array) -> npt.NDArray[np.bool_]:
        """Return which objects are not there, and not known to be gone for good."""
        phases = self._table.phase[slots]
        missing: npt.NDArray[np.bool_] = (phases == _ABSENT) | (phases == _VANISHED)
        return missing

"""Which scheduling classes somebody needs, so that a cluster's table of them does not grow for ever.

Each leader says which classes it has told and which it has dropped since, so a table holds what leaders know and what
stands behind placements. Those that nobody needs leave together, by a new table, once they are as many as half of the
others: so it costs a constant amount of work per class.

Source: design section 6, "Data layout".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import has_true, true_places
from argosy_core.framework import ClassTable
from argosy_core.ledger.placements import PlacementTable

__all__ = ["ClassMemory", "with_overheads"]

_LEAST_SPARE: Final = 1000
"""Classes that nobody needs and that are never worth a new table: about a megabyte."""


class ClassMemory:
    """Who knows which classes.

    Args:
        pool_count: How many pools place on the cluster.
    """

    def __init__(self, pool_count: int) -> None:
        """Start with no class told."""
        self._told: tuple[set[int], ...] = tuple(set() for _ in range(pool_count))
        self._spare = _LEAST_SPARE

    def tell(self, class_id: int, pool: int) -> None:
        """Note that a pool's leader has told a class, and may name it from now on."""
        self._told[pool].add(class_id)

    def forget(self, class_ids: Iterable[int], pool: int) -> None:
        """Note that a pool's leader names some classes no more before it has told them again."""
        self._told[pool].difference_update(class_ids)

    def keep(self, class_ids: Iterable[int], pool: int) -> None:
        """Note that a pool's leader has told these classes and no others."""
        self._told[pool].intersection_update(class_ids)

    def without_unneeded(self, classes: ClassTable, placements: PlacementTable) -> ClassTable:
        """Return the table to use from now on: the same, or one without the classes that nobody needs.

        Placements mean the slots and ports of the table that is returned.

        Complexity: O(classes), and O(placements) in NumPy, amortised over the classes that were told.
        """
        told = set().union(*self._told)
        if len(classes) - len(told) <= self._spare:
            return classes
        used = np.zeros(classes.ids.end, np.bool_)
        slots = placements.class_slot[placements.hold > 0]
        used[slots[slots >= 0]] = True
        for slot, gang in classes.gangs.items():
            used[slot] |= has_true(used[gang.pods])
        kept = [slot for key, slot in classes.ids.items() if key >= 0 and (key in told or used[slot])]
        table, moved = classes.only(kept)
        rename_classes(placements, classes, table, moved)
        self._spare = len(table) - len(told) + max(_LEAST_SPARE, len(table) // 2)
        return table


def with_overheads(
    classes: ClassTable, placements: PlacementTable, overheads: Mapping[str, Mapping[str, int]]
) -> ClassTable:
    """Return the table of the same classes with other overheads of RuntimeClasses; placements mean its slots."""
    table, moved = classes.only([slot for key, slot in classes.ids.items() if key >= 0], overheads)
    rename_classes(placements, classes, table, moved)
    return table


def rename_classes(
    placements: PlacementTable, before: ClassTable, after: ClassTable, moved: npt.NDArray[np.int32]
) -> None:
    """Let placements mean the slots and the host ports of another table.

    Args:
        placements: The placements.
        before: The table that they mean.
        after: The one that they are to mean; it has all classes that they have.
        moved: Slot there by slot here.
    """
    held = placements.hold > 0
    known = true_places(held & (placements.class_slot >= 0))
    placements.class_slot[known] = moved[placements.class_slot[known]]
    placements.class_slot[~held] = -1
    taking = true_places(placements.port)
    numbers, which = np.unique(placements.port[taking], return_inverse=True)
    ports = np.array([after.ports.intern(before.ports[number]) for number in numbers.tolist()], np.int32)
    placements.port[taking] = ports[which]

"""Actions in columns, made from slots of the table.

Source: design section 8, "packed arrays".
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from argosy_core.job.tables.members import Members
from argosy_core.reconcile.columns import Creates, Deletes
from argosy_core.reconcile.object_table import ObjectTable, Recipe

__all__ = ["build_creates", "build_deletes", "is_same_object"]

Int64Array = npt.NDArray[np.int64]


def _intern(recipes: list[Recipe], field: int) -> tuple[npt.NDArray[np.int32], tuple[Any, ...]]:
    """Return for a field of each recipe its index among the distinct values (-1 for None), and these in order."""
    table: dict[Any, int] = {}
    column = [-1 if (value := recipe[field]) is None else table.setdefault(value, len(table)) for recipe in recipes]
    return np.array(column, dtype=np.int32), tuple(table)


def build_creates(table: ObjectTable, slots: Int64Array) -> Creates:
    """Return what is needed to create the objects in some slots, at least one."""
    members = table.members(slots)
    recipes: list[Recipe] = table.recipe[slots].tolist()
    body_column, bodies = _intern(recipes, 1)
    node_column, nodes = _intern(recipes, 2)
    metadata_column, metadata = _intern(recipes, 3)
    owner_column, owners = _intern(recipes, 4)
    return Creates(
        slot_column=slots,
        body_column=body_column,
        object_column=table.object[slots],
        handle_column=members.handle,
        ordinal_column=members.ordinal,
        id_high_column=np.array([recipe[0] for recipe in recipes], dtype=np.int64),
        node_column=node_column,
        metadata_column=metadata_column,
        owner_column=owner_column,
        bodies=bodies,
        nodes=nodes,
        metadata=metadata,
        owners=owners,
    )


def build_deletes(table: ObjectTable, slots: Int64Array) -> Deletes:
    """Return what is needed to delete the objects in some slots, at least one."""
    members = table.members(slots)
    return Deletes(
        slot_column=slots,
        uid_column=table.uid[slots].view(np.uint8).reshape(-1, 16),
        kind_column=table.kind[slots],
        handle_column=members.handle,
        ordinal_column=members.ordinal,
        object_column=table.object[slots],
        kinds=tuple(table.kinds.names),
    )


def is_same_object(table: ObjectTable, calls: Creates | Deletes) -> npt.NDArray[np.bool_]:
    """Return which slots still hold what a call was about: an answer may come so late that another has its slot."""
    slots = calls.slot_column
    members = Members(calls.handle_column, calls.ordinal_column)
    same: npt.NDArray[np.bool_] = table.object[slots] == calls.object_column
    return same & table.members(slots).equal(members)

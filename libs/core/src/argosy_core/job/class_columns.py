"""Scheduling classes by small indices: what the leader's table and the sampler's have in common.

Source: design section 6, "Data layout".
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from argosy_core.job.classes import SchedulingClass
from argosy_core.job.ids import IdTable, grow
from argosy_core.resources import PODS, ResourceAxis

__all__ = ["ClassColumns"]

Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]


class ClassColumns:
    """Id and requests of each class, as columns that may be longer than there are classes.

    An index means one class until that is dropped, and is given to another after that.

    Args:
        axis: Resource columns to begin with.
    """

    def __init__(self, axis: ResourceAxis) -> None:
        """Start without classes."""
        self.ids = IdTable()
        self.axis = axis
        self.class_id: Int32s = np.zeros(0, np.int32)
        """(index,): id."""
        self.requests: Int64s = np.zeros((0, len(axis)), np.int64)
        """(index, resource): base units that one pod asks for, `pods` included."""

    def __len__(self) -> int:
        """Return how many classes there are."""
        return len(self.ids)

    def slots(self, class_ids: npt.NDArray[np.integer]) -> Int32s:
        """Return the index of each class id, -1 where it is not defined."""
        return self.ids.find_all(class_ids)

    def extend_axis(self, names: Iterable[str]) -> bool:
        """Give new resources a column; return whether there were any."""
        axis = self.axis.extend(names)
        added = len(axis) - len(self.axis)
        if added:
            self.axis = axis
            self.requests = np.pad(self.requests, ((0, 0), (0, added)))
        return added > 0

    def _enter(self, class_id: int, definition: SchedulingClass) -> int:
        """Return the index of a class that is new, with its columns filled in; its resources have columns."""
        index = self.ids.add(class_id)
        self.class_id = grow(self.class_id, self.ids.end)
        self.requests = grow(self.requests, self.ids.end)
        self.class_id[index] = class_id
        self.requests[index] = self.axis.vector({PODS: 1, **dict(definition.requests)})
        return index

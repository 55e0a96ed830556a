"""Scheduling classes by small indices: what the leader's table and the sampler's have in common.

Source: design section 6, "Data layout".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from argosy_core.job.reading.classes import GangGroup, SchedulingClass
from argosy_core.job.tables.ids import IdTable, grow
from argosy_core.job.tables.members import MAX_PLACE_COUNT
from argosy_core.resources import PODS, ResourceAxis

__all__ = ["ClassColumns", "GangClasses"]

Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class GangClasses:
    """The classes of a gang's pods, which have indices of their own."""

    groups: tuple[GangGroup, ...]
    """Its sub-groups."""
    pods: Int32s
    """(sub-group,): index of the class of its pods."""
    members: Int32s
    """(member number,): index of the class of its pod, for as many as the gang can have."""

    def group_of(self, place: int) -> int:
        """Return the sub-group of a place, the last one for a place that the gang has not."""
        first = 0
        for counts in ([group.minimum for group in self.groups], [g.maximum - g.minimum for g in self.groups]):
            for number, count in enumerate(counts):
                first += count
                if place < first:
                    return number
        return len(self.groups) - 1

    @property
    def least_count(self) -> int:
        """Return how many members it has at least."""
        return sum(group.minimum for group in self.groups)


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
        """(index, resource): base units that one pod asks for, `pods` included; of a gang all its minima together."""
        self.gangs: dict[int, GangClasses] = {}
        """Index -> classes of its pods, for gangs. Those have ids below 0, which nobody else knows."""
        self.elastic: set[int] = set()
        """Indices of the gangs that may have more members than they begin with."""
        self._pod_count = 0

    def __len__(self) -> int:
        """Return how many classes there are."""
        return len(self.ids)

    def slots(self, class_ids: npt.NDArray[np.integer]) -> Int32s:
        """Return the index of each class id, -1 where it is not defined."""
        return self.ids.find_all(class_ids)

    def member_indices(self, indices: npt.NDArray[np.integer], numbers: npt.NDArray[np.integer] | None) -> Int32s:
        """Return the index of what one member asks for: of a gang that of its pod, otherwise its class itself.

        Args:
            indices: Index of the class of each member's job, -1 for none.
            numbers: Number of each member in its run; None if all are 0.

        Returns:
            The indices; -1 for a number that the gang has not.
        """
        chosen: Int32s = indices.astype(np.int32)
        for index in self.gangs.keys() & set(indices.tolist()) if self.gangs else ():
            members = np.append(self.gangs[index].members, np.int32(-1))
            at = indices == index
            places = 0 if numbers is None else np.minimum(numbers[at] & (MAX_PLACE_COUNT - 1), members.size - 1)
            chosen[at] = members[places]
        return chosen

    def are_gangs(self, indices: npt.NDArray[np.integer]) -> npt.NDArray[np.bool_]:
        """Return which classes are those of gangs. Complexity: nothing while there are none."""
        return np.isin(indices, list(self.gangs)) if self.gangs else np.zeros(indices.shape, np.bool_)

    def _pod_ids(self, definition: SchedulingClass) -> list[int]:
        """Return ids for the classes of a gang's pods."""
        first, self._pod_count = self._pod_count, self._pod_count + len(definition.gang)
        return [-1 - number for number in range(first, self._pod_count)]

    def _note_gang(self, index: int, definition: SchedulingClass, pods: list[int]) -> None:
        """Note the classes of a gang's pods, given by their indices."""
        if pods:
            if any(group.maximum > group.minimum for group in definition.gang):
                self.elastic.add(index)
            rows = np.array(pods, dtype=np.int32)
            self.gangs[index] = GangClasses(definition.gang, rows, rows[definition.member_groups])

    def _drop_gang(self, index: int) -> list[int]:
        """Forget what is known of a gang, and return the indices of the classes of its pods; none for other classes."""
        self.elastic.discard(index)
        gang = self.gangs.pop(index, None)
        return [] if gang is None else gang.pods.tolist()

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

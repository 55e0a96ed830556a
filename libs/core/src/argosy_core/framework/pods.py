"""Scheduling classes in columns: what plugins read of the pods they judge.

A class is defined once and then addressed by its slot. Parts of a class that many classes share (selectors,
tolerations, platforms, host ports) are numbered, 0 being "none", so that a filter evaluates each distinct part once.

Source: design section 6, "Data layout"; seed 004 "Batching".
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from itertools import repeat
from typing import Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from argosy_core.job.classes import HostPort, MatchExpression, SchedulingClass, Toleration
from argosy_core.resources import PODS, ResourceAxis

__all__ = ["ClassTable", "PartTable", "PodBatch", "Selector"]

Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
Part = TypeVar("Part", bound=Hashable)

_NO_DEMAND: Final = np.iinfo(np.int64).min
_FIRST_CAPACITY: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """The part of a class that chooses nodes by label or name."""

    node_selector: tuple[tuple[str, str], ...] = ()
    """Labels the node must have."""
    affinity: tuple[tuple[MatchExpression, ...], ...] = ()
    """Terms, one of which must hold; empty for none."""
    node_name: str = ""
    """The one node allowed, or empty."""


class PartTable(Generic[Part]):
    """Distinct parts of classes by number; number 0 is the empty part."""

    def __init__(self, empty: Part) -> None:
        """Start with the empty part alone."""
        self._parts: list[Part] = [empty]
        self._numbers: dict[Part, int] = {empty: 0}

    def __len__(self) -> int:
        """Return how many parts there are, the empty one included."""
        return len(self._parts)

    def __getitem__(self, number: int) -> Part:
        """Return the part of a number."""
        return self._parts[number]

    def intern(self, part: Part) -> int:
        """Return the number of a part, adding it if it is new."""
        number = self._numbers.setdefault(part, len(self._parts))
        if number == len(self._parts):
            self._parts.append(part)
        return number


class ClassTable:
    """Scheduling classes by slot, as columns.

    Args:
        axis: Resource columns to begin with.
    """

    def __init__(self, axis: ResourceAxis) -> None:
        """Start without classes."""
        self.axis = axis
        self.selectors: PartTable[Selector] = PartTable(Selector())
        self.tolerations: PartTable[tuple[Toleration, ...]] = PartTable(())
        self.platforms: PartTable[tuple[tuple[str, str], ...]] = PartTable(())
        self.ports: PartTable[tuple[HostPort, ...]] = PartTable(())
        self._classes: list[SchedulingClass] = []
        self._slots: dict[int, int] = {}
        self._class_ids: list[int] = []
        self._requests = np.zeros((_FIRST_CAPACITY, len(axis)), np.int64)
        self._parts = np.zeros((4, _FIRST_CAPACITY), np.int32)

    def __len__(self) -> int:
        """Return how many classes are defined."""
        return len(self._classes)

    def __getitem__(self, slot: int) -> SchedulingClass:
        """Return the class of a slot."""
        return self._classes[slot]

    @property
    def requests(self) -> Int64s:
        """(slot, resource): base units that one pod asks for, `pods` included."""
        return self._requests[: len(self._classes)]

    @property
    def selector(self) -> Int32s:
        """(slot,): number in `selectors`."""
        return self._parts[0, : len(self._classes)]

    @property
    def toleration(self) -> Int32s:
        """(slot,): number in `tolerations`."""
        return self._parts[1, : len(self._classes)]

    @property
    def platform(self) -> Int32s:
        """(slot,): number in `platforms`."""
        return self._parts[2, : len(self._classes)]

    @property
    def port(self) -> Int32s:
        """(slot,): number in `ports`."""
        return self._parts[3, : len(self._classes)]

    def define(self, class_id: int, definition: SchedulingClass) -> int:
        """Return the slot of a class id, adding the class if the id is new; a class never changes under its id."""
        slot = self._slots.get(class_id)
        if slot is not None:
            return slot
        slot = len(self._classes)
        self.extend_axis(name for name, _ in definition.requests)
        if slot == len(self._requests):
            self._requests = np.pad(self._requests, ((0, slot), (0, 0)))
            self._parts = np.pad(self._parts, ((0, 0), (0, slot)))
        self._requests[slot] = self.axis.vector({PODS: 1, **dict(definition.requests)})
        selector = Selector(
            node_selector=definition.node_selector, affinity=definition.affinity, node_name=definition.node_name
        )
        self._parts[:, slot] = (
            self.selectors.intern(selector),
            self.tolerations.intern(definition.tolerations),
            self.platforms.intern(definition.platforms),
            self.ports.intern(definition.host_ports),
        )
        self._classes.append(definition)
        self._slots[class_id] = slot
        self._class_ids.append(class_id)
        return slot

    def slots(self, class_ids: npt.NDArray[np.integer]) -> Int32s:
        """Return the slot of each class id, -1 where it is not defined."""
        ids = class_ids.tolist()
        return np.fromiter(map(self._slots.get, ids, repeat(-1)), np.int32, len(ids))

    def class_ids(self, slots: npt.NDArray[np.integer]) -> Int32s:
        """Return the class id of each slot."""
        return np.array([self._class_ids[slot] for slot in slots.tolist()], np.int32)

    def extend_axis(self, names: Iterable[str]) -> None:
        """Make sure that each resource has a column."""
        axis = self.axis.extend(names)
        added = len(axis) - len(self.axis)
        if added:
            self.axis = axis
            self._requests = np.pad(self._requests, ((0, 0), (0, added)))

    def batch(self, slots: npt.NDArray[np.integer]) -> PodBatch:
        """Return the pods of some classes, one pod each, for plugins to judge."""
        return PodBatch(self, slots)


class PodBatch:
    """Pods that are judged together; k pods, one per slot given.

    Args:
        table: Where the classes are defined.
        slots: k slots.
    """

    __slots__ = ("demands", "needed", "platform", "port", "requests", "selector", "slots", "table", "toleration")

    def __init__(self, table: ClassTable, slots: npt.NDArray[np.integer]) -> None:
        """Gather the columns of the classes."""
        self.table = table
        self.slots = slots
        self.requests: Int64s = table.requests[slots]
        """(k, resource): base units."""
        self.demands: Int64s = np.where(self.requests > 0, self.requests, _NO_DEMAND)
        """(k, resource): base units that must be free; the smallest integer where nothing is asked for, since a node
        that is short of a resource still holds pods that do not need it."""
        self.needed: npt.NDArray[np.bool_] = (self.requests > 0).any(axis=0)
        """(resource,): whether any of the pods asks for it."""
        self.selector: Int32s = table.selector[slots]
        """(k,): number in `table.selectors`."""
        self.toleration: Int32s = table.toleration[slots]
        """(k,): number in `table.tolerations`."""
        self.platform: Int32s = table.platform[slots]
        """(k,): number in `table.platforms`."""
        self.port: Int32s = table.port[slots]
        """(k,): number in `table.ports`."""

    def __len__(self) -> int:
        """Return the number of pods."""
        return len(self.slots)

    def definition(self, pod: int) -> SchedulingClass:
        """Return the class of a pod of the batch."""
        return self.table[int(self.slots[pod])]

"""Scheduling classes in columns: what plugins read of the pods they judge.

A class is defined once and then addressed by its slot. Parts of a class that many classes share (selectors,
tolerations, platforms, host ports) are numbered, 0 being "none", so that a filter evaluates each distinct part once.

Source: design section 6, "Data layout"; seed 004 "Batching".
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from argosy_core.job.reading.classes import HostPort, MatchExpression, SchedulingClass, Toleration
from argosy_core.job.tables.class_columns import ClassColumns
from argosy_core.job.tables.ids import grow
from argosy_core.resources import MAX_AMOUNT, ResourceAxis

__all__ = ["ClassTable", "PartTable", "PodBatch", "Selector"]

Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
Part = TypeVar("Part", bound=Hashable)

_NO_DEMAND: Final = np.iinfo(np.int64).min


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


class ClassTable(ClassColumns):
    """Scheduling classes by slot, with the numbers of their parts.

    A slot and a number mean the same for as long as the table lives. Classes leave by a new table (`only`), so whoever
    remembers something by slot or number keeps it as long as it meets the same table.

    Args:
        axis: Resource columns to begin with.
        overheads: What a pod of each RuntimeClass takes beside its containers, base units; it is among `requests`.
    """

    def __init__(self, axis: ResourceAxis, overheads: Mapping[str, Mapping[str, int]] | None = None) -> None:
        """Start without classes."""
        super().__init__(axis)
        self.overheads = {name: dict(amounts) for name, amounts in (overheads or {}).items()}
        """RuntimeClass -> what its pods take beside their containers, base units."""
        self.selectors: PartTable[Selector] = PartTable(Selector())
        self.tolerations: PartTable[tuple[Toleration, ...]] = PartTable(())
        self.platforms: PartTable[tuple[tuple[str, str], ...]] = PartTable(())
        self.ports: PartTable[tuple[HostPort, ...]] = PartTable(())
        self.selector: Int32s = np.zeros(0, np.int32)
        """(slot,): number in `selectors`."""
        self.toleration: Int32s = np.zeros(0, np.int32)
        """(slot,): number in `tolerations`."""
        self.platform: Int32s = np.zeros(0, np.int32)
        """(slot,): number in `platforms`."""
        self.port: Int32s = np.zeros(0, np.int32)
        """(slot,): number in `ports`."""
        self.whole: npt.NDArray[np.bool_] = np.zeros(0, np.bool_)
        """(slot,): whether its pods share their nodes with pods of their own job alone."""
        self._classes: list[SchedulingClass] = []

    def __getitem__(self, slot: int) -> SchedulingClass:
        """Return the class of a slot."""
        return self._classes[slot]

    def define(self, class_id: int, definition: SchedulingClass) -> int:
        """Return the slot of a class id, adding the class if the id is new; a class never changes under its id."""
        known = self.ids.find(class_id)
        if known is not None:
            return known
        ids = self._pod_ids(definition)
        pods = [self.define(pod_id, group.pod) for pod_id, group in zip(ids, definition.gang, strict=True)]
        self.extend_axis(name for name, _ in definition.requests)
        slot, end = self._enter(class_id, definition), self.ids.end
        self._add_overhead(slot, definition)
        self.selector, self.toleration = grow(self.selector, end), grow(self.toleration, end)
        self.platform, self.port = grow(self.platform, end), grow(self.port, end)
        selector = Selector(
            node_selector=definition.node_selector, affinity=definition.affinity, node_name=definition.node_name
        )
        self.selector[slot] = self.selectors.intern(selector)
        self.toleration[slot] = self.tolerations.intern(definition.tolerations)
        self.platform[slot] = self.platforms.intern(definition.platforms)
        self.port[slot] = self.ports.intern(definition.host_ports)
        self._classes.append(definition)
        self.whole = grow(self.whole, end)
        self.whole[pods] = [group.whole_nodes for group in definition.gang]
        self._note_gang(slot, definition, pods)
        return slot

    def _add_overhead(self, slot: int, definition: SchedulingClass) -> None:
        """Count what the pods of a class take that have RuntimeClasses, in whatever that is."""
        for name, count in definition.runtime_classes:
            overhead = {
                resource: min(amount, MAX_AMOUNT // count) for resource, amount in self.overheads.get(name, {}).items()
            }
            self.extend_axis(overhead)
            room = MAX_AMOUNT - self.requests[slot]
            self.requests[slot] += np.minimum(self.axis.vector(overhead) * count, room)

    def only(
        self, slots: Iterable[int], overheads: Mapping[str, Mapping[str, int]] | None = None
    ) -> tuple[ClassTable, Int32s]:
        """Return a table of some of the classes, and the slot there by slot here, -1 for the others.

        Args:
            slots: Slots of classes with ids; those of a gang's pods come with their gang.
            overheads: What pods of RuntimeClasses take there; None for the same.

        Complexity: Python work per class.
        """
        table = ClassTable(self.axis, self.overheads if overheads is None else overheads)
        moved = np.full(self.ids.end, -1, np.int32)
        for slot in slots:
            moved[slot] = table.define(int(self.class_id[slot]), self._classes[slot])
            if slot in self.gangs:
                moved[self.gangs[slot].pods] = table.gangs[int(moved[slot])].pods
        return table, moved

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

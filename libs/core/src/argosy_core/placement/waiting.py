"""The classes that a sampler has no node for, so that it can say when one of them fits.

A class that was answered with *no room* or *mismatch* is remembered. Whenever capacity rises, the remembered classes
are tried on the nodes that rose, and those that fit some node are told to the leader, who asks for exactly these
again. Nothing else wakes a class, but a plugin that turned it away and wants to be asked again. So a full cluster costs
its leader one request per class that can really use what came free.

Source: design section 5, "Round" 2; seed 000 "Sampling Phase".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import has_true, true_places
from argosy_core.framework import Cycle, Framework
from argosy_core.ledger import NodeLedger
from argosy_core.nodes.groups import NodeGroup
from argosy_core.placement.needs import count_room

__all__ = ["ANY_KIND", "KIND_BITS", "WaitingClasses"]

Bools = npt.NDArray[np.bool_]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]

KIND_BITS: Final = np.left_shift(np.int64(1), np.arange(63))
"""Bits for kinds of nodes."""
ANY_KIND: Final = -1
"""All bits: which kinds is not known."""
_MAX_CLASSES: Final = 10_000
"""Classes remembered; of those forgotten the leader asks again when their reason expires."""
_UNKNOWN_ROOM: Final = np.iinfo(np.int32).max
_MOST_FOR_PROMISE: Final = 32
"""Nodes answered for a promise: the earliest start is sought among those that lack least."""
_BLOCK: Final = 1 << 16
"""(class, node) pairs that are evaluated in one go."""


class WaitingClasses:
    """Classes that wait for capacity to rise, by slot; at most 10,000, the oldest are forgotten first.

    Args:
        ledger: The cluster's ledger.
        framework: Filters of the sampling profile.
    """

    def __init__(self, ledger: NodeLedger, framework: Framework) -> None:
        """Start with none."""
        self._ledger = ledger
        self._framework = framework
        self._waiting: dict[int, None] = {}
        self._turned_away: dict[int, str] = {}
        """Slot -> plugin."""
        self._tried = 0
        """Generation of the node table up to which what rose was tried."""
        self._fits_empty: dict[int, int] = {}
        """Slot -> kinds of nodes that a pod fits if nothing else runs there, as of `_described`."""
        self._kinds: dict[tuple[NodeGroup, tuple[int, ...]], int] = {}
        """Group of nodes, and their amounts by powers of two -> number of the kind."""
        self._described = -1

    def __len__(self) -> int:
        """Return how many classes wait for capacity."""
        return len(self._waiting)

    def note_turned_away(self, by_plugin: Mapping[int, str]) -> None:
        """Take note of classes, by slot, that plugins did not judge: they may want them to be asked for again."""
        self._turned_away.update(by_plugin)
        while len(self._turned_away) > _MAX_CLASSES:
            del self._turned_away[next(iter(self._turned_away))]

    def note(self, slots: Int32s, waits: Bools) -> None:
        """Take note of an answer that was given just now.

        Args:
            slots: k slots of the class table.
            waits: (k,) which of them wait from now on; the others do not.
        """
        if not self._waiting:
            self._tried = self._ledger.nodes.generation
        for slot, is_waiting in zip(slots.tolist(), waits.tolist(), strict=True):
            self._waiting.pop(slot, None)
            if is_waiting:
                self._waiting[slot] = None
        while len(self._waiting) > _MAX_CLASSES:
            del self._waiting[next(iter(self._waiting))]

    def clear(self) -> None:
        """Forget all: a new leader asks for everything."""
        self._waiting.clear()
        self._turned_away.clear()

    def rename(self, moved: Int32s) -> None:
        """Take over another table of classes.

        Args:
            moved: Slot there by slot in the table before, -1 for a class that left.
        """
        self._waiting = {slot: None for slot in moved[list(self._waiting)].tolist() if slot >= 0}
        turned_away = zip(moved[list(self._turned_away)].tolist(), self._turned_away.values(), strict=True)
        self._turned_away = {slot: plugin for slot, plugin in turned_away if slot >= 0}
        self._fits_empty.clear()

    def kinds_when_empty(self, slots: Int32s) -> Int64s:
        """Return which kinds of nodes a pod of each class fits if nothing else runs there, a bit each.

        No bit says that it fits no node at all, all bits (-1) that a filter failed. Nodes are of one kind if selectors
        cannot tell them apart and their amounts are of one size. Kinds share bits only where there are many; so two
        classes without a common bit have no node in common.

        Complexity: O(classes x nodes) once, then O(nodes) until a node comes, goes or is otherwise.
        """
        table, framework = self._ledger.nodes, self._framework
        if table.described_since(self._described).size or not framework.filters_read_nodes_only:
            self._fits_empty.clear()
            self._described = table.generation
        todo = np.array([slot for slot in slots.tolist() if slot not in self._fits_empty], np.int32)
        rows, empty = true_places(table.usable())[None, :], table.emptied()
        bits = self._kind_bits(rows[0]) if todo.size else np.zeros(0, np.int64)
        step = max(1, _BLOCK // max(1, rows.size))
        for begin in range(0, todo.size, step):
            part = todo[begin : begin + step]
            cycle = Cycle(empty, self._ledger.classes.batch(part), rows)
            framework.pre_filter(cycle)
            kinds = np.bitwise_or.reduce(np.where(framework.filter(cycle), bits, 0), axis=1)
            # What is not known waits for room, as any other class without a node does.
            kinds[np.fromiter((slot in cycle.faults for slot in part.tolist()), np.bool_, part.size)] = ANY_KIND
            self._fits_empty.update(zip(part.tolist(), kinds.tolist(), strict=True))
        answer = np.fromiter((self._fits_empty[slot] for slot in slots.tolist()), np.int64, slots.size)
        if len(self._fits_empty) > _MAX_CLASSES:
            self._fits_empty.clear()
        return answer

    def could_hold(self, slots: Int32s) -> list[Int32s]:
        """Return the nodes that could hold a pod of each class if nothing else ran there, those that lack least first.

        Of each class at most 32. What a node lacks is the largest share of it that must come free.

        Complexity: O(classes x nodes).
        """
        table, framework = self._ledger.nodes, self._framework
        rows, empty = true_places(table.usable()), table.emptied()
        found: list[Int32s] = []
        for slot in slots.tolist():
            one = np.array([slot], np.int32)
            batch = self._ledger.classes.batch(one)
            cycle = Cycle(empty, batch, rows[None, :])
            framework.pre_filter(cycle)
            fitting = rows[framework.filter(cycle)[0]] if slot not in cycle.faults else rows[:0]
            demand = batch.demands[0]
            asked = true_places(demand)
            missing = np.maximum(demand[asked, None] - table.free[np.ix_(asked, fitting)], 0)
            share = (missing / np.maximum(table.allocatable[np.ix_(asked, fitting)], 1)).max(axis=0, initial=0.0)
            found.append(fitting[np.argsort(share, kind="stable")[:_MOST_FOR_PROMISE]].astype(np.int32))
        return found

    def _kind_bits(self, rows: npt.NDArray[np.intp]) -> Int64s:
        """Return the kind of each node as a bit, which stays its own as long as the sampler lives."""
        table = self._ledger.nodes
        sizes = np.frexp(table.allocatable[:, rows].astype(np.float64))[1]
        found, which = np.unique(np.vstack([table.group[rows], sizes]), axis=1, return_inverse=True)
        bits = np.zeros(found.shape[1], np.int64)
        for place, (group, *size) in enumerate(found.T.tolist()):
            while size and not size[-1]:
                size.pop()  # resources that have come since
            number = self._kinds.setdefault((table.groups[group], tuple(size)), len(self._kinds))
            bits[place] = KIND_BITS[number % KIND_BITS.size]
        return np.asarray(bits[which.ravel()])

    def take_fitting(self) -> tuple[Int32s, Int64s]:
        """Return the classes that are to be asked for again since the last call; they wait no more.

        Returns:
            k slots, and how many pods of each fit where capacity rose; a large number for those that a plugin wants to
            be asked about again.
        """
        slots, room = self._fit_risen()
        woken = self._framework.take_woken()
        again = [slot for slot, plugin in self._turned_away.items() if plugin in woken] if woken else []
        if not again:
            return slots, room
        for slot in again:
            del self._turned_away[slot]
        return np.append(slots, np.array(again, np.int32)), np.append(room, np.full(len(again), _UNKNOWN_ROOM))

    def _fit_risen(self) -> tuple[Int32s, Int64s]:
        """Return the classes that fit on nodes which rose since the last call, and how many pods of each fit there.

        Complexity: O(waiting classes x resources), and of classes that may fit, O(classes x nodes that rose).
        """
        table, classes = self._ledger.nodes, self._ledger.classes
        nothing = np.zeros(0, np.int32), np.zeros(0, np.int64)
        if not self._waiting or table.last_rise <= self._tried:
            return nothing
        rows = table.risen_since(self._tried)
        if table.any_row >= 0 and has_true(rows == table.any_row):
            # What was leased to the cluster and is placed nowhere any more leaves room on every node.
            rows = table.live()
        rows = rows[table.usable()[rows]]
        self._tried = table.generation
        if not rows.size:
            return nothing
        slots = np.fromiter(self._waiting, np.int32, len(self._waiting))
        demands = classes.batch(slots).demands
        most = table.free[: demands.shape[1], rows].max(axis=1)
        slots = slots[(demands <= most).all(axis=1)]
        step = max(1, _BLOCK // rows.size)
        rooms = [self._count(slots[begin : begin + step], rows) for begin in range(0, slots.size, step)]
        room = np.concatenate([np.zeros(0, np.int64), *rooms])
        fitting = room > 0
        for slot in slots[fitting].tolist():
            del self._waiting[slot]
        return slots[fitting], room[fitting]

    def _count(self, slots: Int32s, rows: Int32s) -> Int64s:
        """Return how many pods of each class fit on some nodes now; 0 where a filter fails."""
        cycle = Cycle(self._ledger.nodes, self._ledger.classes.batch(slots), rows[None, :])
        self._framework.pre_filter(cycle)
        alive = self._framework.filter(cycle)
        ranks = np.where(alive, rows.astype(np.int64)[None, :], -1)
        return np.asarray(count_room(self._ledger.nodes, self._ledger.classes, slots, ranks).sum(axis=1))

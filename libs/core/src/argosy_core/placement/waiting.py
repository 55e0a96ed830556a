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

from argosy_core.framework import Cycle, Framework
from argosy_core.ledger import NodeLedger
from argosy_core.placement.needs import count_room

__all__ = ["WaitingClasses"]

Bools = npt.NDArray[np.bool_]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]

_MAX_CLASSES: Final = 10_000
"""Classes remembered; of those forgotten the leader asks again when their reason expires."""
_UNKNOWN_ROOM: Final = np.iinfo(np.int32).max
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
        self._fits_empty: dict[int, bool] = {}
        """Slot -> whether a pod fits some node on which nothing runs, as of `_described`."""
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

    def fit_when_empty(self, slots: Int32s) -> Bools:
        """Return of which classes a pod fits some node on which nothing runs; true where a filter fails.

        Complexity: O(classes x nodes) once, then O(nodes) until a node comes, goes or is otherwise.
        """
        table, framework = self._ledger.nodes, self._framework
        if table.described_since(self._described).size or not framework.filters_read_nodes_only:
            self._fits_empty.clear()
            self._described = table.generation
        todo = np.array([slot for slot in slots.tolist() if slot not in self._fits_empty], np.int32)
        rows, empty = np.flatnonzero(table.usable())[None, :], table.emptied()
        step = max(1, _BLOCK // max(1, rows.size))
        for begin in range(0, todo.size, step):
            part = todo[begin : begin + step]
            cycle = Cycle(empty, self._ledger.classes.batch(part), rows)
            framework.pre_filter(cycle)
            fits = framework.filter(cycle).any(axis=1)
            # What is not known waits for room, as any other class without a node does.
            fits |= np.fromiter((slot in cycle.faults for slot in part.tolist()), np.bool_, part.size)
            self._fits_empty.update(zip(part.tolist(), fits.tolist(), strict=True))
        answer = np.fromiter((self._fits_empty[slot] for slot in slots.tolist()), np.bool_, slots.size)
        if len(self._fits_empty) > _MAX_CLASSES:
            self._fits_empty.clear()
        return answer

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

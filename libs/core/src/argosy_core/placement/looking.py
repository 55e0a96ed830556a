"""Where one request looks for nodes: first where its classes are remembered to fit, then in windows.

Every class looks through the cluster's nodes in windows until it has found enough eligible ones and room for the pods
that wait (see `needs`), or has seen all. The windows of all classes are evaluated together, as (class, node) arrays.

Owns the order in which nodes are looked at and when that is enough. May import the ranker, needs, strategies and the
memory of scarcity; knows nothing of what is answered.

Source: seed 000 "Sampling Phase" (2-Smart Sampling); design section 5, "Round" 2.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, cast

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import has_true
from argosy_core.placement.circle import Circle
from argosy_core.placement.findings import Findings
from argosy_core.placement.needs import Needs, nodes_of
from argosy_core.placement.ranking import Ranker
from argosy_core.placement.scarcity import ScarcityMemory
from argosy_core.placement.strategies import Strategy

__all__ = ["Looks"]

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]

_BLOCK: Final = 1 << 16
"""(class, node) pairs that are evaluated in one go; small enough that the arrays stay in the cache."""
_MAX_SCARCE: Final = 256
_MIN_WINDOW: Final = 8
_NO_NODES: Final = np.zeros(0, np.int32)


class Looks:
    """What one request looks at: where its classes are known to fit, then windows of the nodes."""

    def __init__(
        self,
        ranker: Ranker,
        memory: ScarcityMemory,
        slots: Int32s,
        needs: Needs,
        *,
        findings: Findings,
        rng: np.random.Generator,
        should_stop: Callable[[], bool],
    ) -> None:
        """Prepare to look.

        Args:
            ranker: Ranks nodes; it has begun with the request.
            memory: Where classes fit that fit on few nodes.
            slots: Slots of all classes of the request.
            needs: How much is enough for each.
            findings: Where to write what is found.
            rng: Draws samples and breaks ties.
            should_stop: Asked between windows.
        """
        self._ranker = ranker
        self._memory = memory
        self._table = ranker.ledger.nodes
        self._slots = slots
        self._needs = needs
        self._findings = findings
        self._rng = rng
        self._should_stop = should_stop

    def where_scarce(self, todo: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
        """Answer the classes that are remembered to fit on few nodes; return the classes still to look for."""
        memory, table, slots = self._memory, self._table, self._slots
        findings, needs, ranker = self._findings, self._needs, self._ranker
        known = [p for p, slot in zip(todo.tolist(), slots[todo].tolist(), strict=True) if slot in memory]
        if not known:
            return todo
        generation, live_count = table.generation, len(table.live())
        for members, nodes in memory.possible(table, slots[known].tolist()):
            positions = np.array(known, np.intp)[members]
            step = max(1, _BLOCK // max(1, nodes.shape[1]))
            for begin in range(0, len(positions), step):
                part = positions[begin : begin + step]
                looked = nodes if len(nodes) == 1 else nodes[begin : begin + step]
                ranks, eligible = ranker.rank(slots[part], looked, self._rng)
                findings.eligible[part] = eligible
                findings.examined[part] = live_count
                findings.complete[part] = 1
                findings.lacking[part] = needs.are_lacking(part, ranks, eligible)
                self._note_scarce(part, ranks, generation=generation)
                crowded = needs.node_count > ranks.shape[1] and not ranker.packs
                limits = needs.limit_nodes(part, ranks)
                ranker.keep_best(findings, part, ranks, limits, rng=self._rng, crowded=crowded)
        return np.asarray(todo[findings.examined[todo] == 0])

    def run(self, positions: npt.NDArray[np.intp], strategy: Strategy, *, required: int) -> None:
        """Look until each class has `required` eligible nodes and room for what waits, or has seen all."""
        if not len(positions):
            return
        circle = strategy.circle(self._table, self._rng)
        window = min(len(circle), max(required, _MIN_WINDOW))
        step = max(1, _BLOCK // window)
        around = Circle(circle)
        for begin in range(0, len(positions), step):
            if self._should_stop():
                return
            part = positions[begin : begin + step]
            begins = strategy.begin(len(part), window, self._rng)
            strategy.looked(self._run_block(part, around, begins, window=window, required=required))

    def _run_block(
        self, positions: npt.NDArray[np.intp], circle: Circle, begins: Int64s, *, window: int, required: int
    ) -> int:
        """Look for as many classes as are evaluated in one go; return how many nodes were looked at."""
        ranker, findings, slots = self._ranker, self._findings, self._slots
        size, seen, looks = len(circle), 0, 0
        best: Int64s | None = None
        generation = self._table.generation
        while len(positions):
            windows = partial(circle.windows, begins + seen, window)
            nodes = cast("npt.NDArray[np.intp]", windows("", circle.nodes))
            gather = windows if nodes.size >= size else None
            ranks, eligible = ranker.rank(slots[positions], nodes, self._rng, gather=gather)
            looks += nodes.size
            seen += window
            findings.examined[positions] = seen
            findings.eligible[positions] += eligible
            best = ranks if best is None else np.concatenate((best, ranks), axis=1)
            found = findings.eligible[positions]
            lacking = self._needs.are_lacking(positions, best, found)
            findings.lacking[positions] = lacking
            going = (found < required) | lacking
            ended = going & (seen >= size)
            if has_true(ended):
                findings.complete[positions[ended]] = 1
                self._note_scarce(positions[ended], best[ended], generation=generation)
            done = ~going | ended if seen < size and not self._should_stop() else np.ones(len(positions), np.bool_)
            if seen >= size:
                findings.complete[positions] = 1
            self._keep(positions[done], best[done], seen / size)
            positions, begins, best = positions[~done], begins[~done], best[~done]
            window = min(2 * window, size - seen)
        return looks

    def _keep(self, positions: npt.NDArray[np.intp], ranks: Int64s, seen_ratio: float) -> None:
        """Keep the best of what classes found when they had seen a share of the nodes."""
        if len(positions):
            eligible_count = float(self._findings.eligible[positions].mean()) / seen_ratio
            crowded = self._needs.node_count > eligible_count and not self._ranker.packs
            limits = self._needs.limit_nodes(positions, ranks)
            self._ranker.keep_best(self._findings, positions, ranks, limits, rng=self._rng, crowded=crowded)

    def _note_scarce(self, positions: npt.NDArray[np.intp], ranks: Int64s, *, generation: int) -> None:
        """Remember where classes that looked at every node fitted, if that is on few nodes.

        Args:
            positions: Positions of k classes in the request.
            ranks: (k, n) ranks over every node on which the classes can fit.
            generation: Generation of the node table that was looked at.
        """
        if not self._ranker.framework.filters_read_nodes_only:
            return
        fits = ranks >= 0
        counts = np.count_nonzero(fits, axis=1)
        # With more nodes than a few, looking again from anew is as cheap.
        few = max(self._needs.enough, min(4 * self._needs.enough, _MAX_SCARCE))
        nodes = nodes_of(ranks[fits])
        ends = np.cumsum(counts).tolist()
        for slot, count, end in zip(self._slots[positions].tolist(), counts.tolist(), ends, strict=True):
            if count > few or slot in self._ranker.faults:
                self._memory.forget(slot)
            else:
                self._memory.remember(slot, generation, nodes[end - count : end] if count else _NO_NODES)

"""Why classes fit on no node: what was found last, brought up to date a few classes at a time.

Source: design section 9, "counts and the nearest miss".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import Bools, Int32s
from argosy_core.framework import Framework
from argosy_core.ledger import NodeLedger
from argosy_core.plugins import count_and_compare

__all__ = ["ExplainedClasses"]

_BLOCK: Final = 1 << 16
"""(class, node) pairs that are evaluated in one go; small enough that the arrays stay in the cache."""
_MAX_EXPLAINED: Final = 10_000


class ExplainedClasses:
    """Remembers counts per filter and nearest misses of the classes of one cluster that fit nowhere.

    Args:
        ledger: The cluster's ledger.
        framework: Has the filters.
    """

    def __init__(self, ledger: NodeLedger, framework: Framework) -> None:
        """Start with nothing known."""
        self._ledger = ledger
        self._framework = framework
        self._known: dict[int, tuple[int, Int32s, str]] = {}
        """Slot -> generation of the node table that was looked at, counts per filter, nearest miss."""

    def explain(
        self, positions: npt.NDArray[np.intp], slots: Int32s, asked: Bools, should_stop: Callable[[], bool]
    ) -> tuple[Int32s, tuple[str, ...]]:
        """Say of classes that fit nowhere how many nodes each filter turned away, and which came closest.

        Classes for which this was asked are told as it is now. Others are told what was found last and brought up to
        date a few at a time, the oldest first, since on a full pool most classes fit nowhere in every round.
        """
        rejection = np.zeros((len(slots), len(self._framework.filter_names)), np.int32)
        misses = [""] * len(slots)
        if not positions.size:  # as on a pool that has room
            return rejection, tuple(misses)
        if len(self._known) > _MAX_EXPLAINED:
            self._known.clear()
        wanted = [(int(slots[position]), bool(asked[position])) for position in positions.tolist()]
        self._bring_up_to_date(wanted, should_stop)
        for position, (slot, _) in zip(positions.tolist(), wanted, strict=True):
            if slot in self._known:
                _, rejection[position], misses[position] = self._known[slot]
        return rejection, tuple(misses)

    def _bring_up_to_date(self, wanted: list[tuple[int, bool]], should_stop: Callable[[], bool]) -> None:
        """Find out again why classes, given with whether that was asked, fit nowhere."""
        table, generation = self._ledger.nodes, self._ledger.nodes.generation
        ages = {slot: self._known[slot][0] if slot in self._known else -1 for slot, _ in wanted}
        now = [slot for slot, asked in wanted if ages[slot] < 0 or (asked and ages[slot] < generation)]
        later = sorted((slot for slot, _ in wanted if 0 <= ages[slot] < generation), key=ages.__getitem__)
        step = max(1, _BLOCK // max(1, len(table.live())))
        todo = list(dict.fromkeys(now + later[:step]))
        for begin in range(0, len(todo), step):
            if should_stop():
                return
            part = np.array(todo[begin : begin + step], np.int32)
            counts, nearest = count_and_compare(self._framework, table, self._ledger.classes, part)
            for slot, count, miss in zip(part.tolist(), counts, nearest, strict=True):
                self._known[slot] = (generation, count, miss.text() if miss else "")

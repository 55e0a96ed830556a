"""Filters and scores of one request: how good nodes are for classes, as one number each, and the best of them.

A rank is an int64: the score in thousandths, then a random number that orders ties, then the node; -1 where there is
none.

Owns what holds for the present request alone: by what nodes are ranked, how ties are broken, which classes could not be
judged. May import the framework and its plugins, and findings; knows neither windows nor answers.

Source: seed 000 "Sampling Phase"; design section 5, "Round" 2.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.framework import Cycle, Fault, Framework, Point
from argosy_core.framework.cycle import Gather
from argosy_core.ledger import NodeLedger
from argosy_core.placement.devices import DeviceClasses
from argosy_core.placement.findings import Findings
from argosy_core.placement.messages import SampleRequest
from argosy_core.placement.needs import NODE_BITS
from argosy_core.plugins import PACKING_SCORES, SCORES

__all__ = ["Ranker"]

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]

_TIE_BITS: Final = 12
_SCORE_STEPS: Final = 1000
"""Scores closer than one thousandth of a point are ties."""
_MAX_SCORE: Final = 2 ** (62 - NODE_BITS - _TIE_BITS)
_ZERO_SCORE: Final = _MAX_SCORE // 2
"""What a score of 0 is in a rank, which is never negative; so scores may be."""
_NO_RANKS: Final = np.zeros(0, np.int64)


class Ranker:
    """Ranks nodes for the classes of one request after another.

    Args:
        ledger: The cluster's ledger.
        framework: Filters and scores.
    """

    def __init__(self, ledger: NodeLedger, framework: Framework) -> None:
        """Start without a request."""
        self.ledger = ledger
        self.framework = framework
        self._keeps_devices = any(one.name == "keep-devices" for one in framework.registered(Point.SCORE))
        self._node_score = ""
        """Score by which the present request wants nodes to be ranked."""
        self._devices: DeviceClasses | None = None
        """Which classes of the present request ask for devices; None unless these are to be kept together."""
        self._ties = _NO_RANKS
        """By node, for the present request: orders nodes of equal score, the same for all classes."""
        self.faults: dict[int, Fault] = {}
        """Slot -> what kept the class from being judged in this request."""

    def begin(self, slots: Int32s, request: SampleRequest, rng: np.random.Generator) -> None:
        """Prepare for a request, about classes with these slots."""
        self._node_score = request.node_score
        self.faults.clear()
        self._devices = self._device_classes(slots, request)
        if self._devices is not None:  # classes that open another node open the same one
            self._ties = rng.integers(0, 1 << _TIE_BITS, len(self.ledger.nodes), dtype=np.int64)

    @property
    def packs(self) -> bool:
        """Whether the present request wants all classes on the same nodes, as long as these have room."""
        return self._node_score in PACKING_SCORES

    @property
    def keeps_devices(self) -> bool:
        """Whether some class of the present request asks for devices, which are to be kept together."""
        return self._devices is not None

    def rank(
        self, slots: Int32s, nodes: npt.NDArray[np.integer], rng: np.random.Generator, *, gather: Gather | None = None
    ) -> tuple[Int64s, Int32s]:
        """Filter and score.

        Args:
            slots: k slots of the class table.
            nodes: (k, n) or (1, n) rows of the node table, -1 for none.
            rng: Breaks ties.
            gather: A faster way to look columns up for `nodes` (see `Cycle`).

        Returns:
            (k, w) ranks of the nodes that passed, in no order, greater is better: the score in thousandths, then a
            random number, then the node; -1 where there is none. (k,) how many passed.
        """
        cycle = Cycle(self.ledger.nodes, self.ledger.classes.batch(slots), nodes, gather)
        cycle.faults = self.faults
        self.framework.pre_filter(cycle)
        self.framework.filter(cycle)
        self.framework.post_filter(cycle)
        alive = cycle.alive
        eligible = np.count_nonzero(alive, axis=1).astype(np.int32)
        most = int(eligible.max(initial=0))
        if not most:
            return np.full((len(slots), 0), -1, np.int64), eligible
        if 2 * most < cycle.shape[1]:
            cycle = cycle.narrowed(most)
            alive = cycle.alive
        scores = SCORES[self._node_score](cycle) if self._node_score else self.framework.score(cycle)
        scores *= _SCORE_STEPS
        scores += _ZERO_SCORE
        np.clip(scores, 0, _MAX_SCORE, out=scores)
        ranks = scores.astype(np.int64)
        ranks <<= _TIE_BITS
        if self._devices is None:
            ranks |= rng.integers(0, 1 << _TIE_BITS, cycle.shape, dtype=np.uint16)
        else:
            ranks |= self._ties[cycle.nodes]
        ranks <<= NODE_BITS
        ranks |= cycle.nodes
        if not alive.all():
            ranks[~alive] = -1
        return ranks, eligible

    def keep_best(
        self,
        findings: Findings,
        positions: npt.NDArray[np.intp],
        ranks: Int64s,
        limits: Int64s,
        *,
        rng: np.random.Generator,
        crowded: bool,
    ) -> None:
        """Write the best ranks of k classes into the findings, at most `limits` of each.

        Args:
            findings: Where to write.
            positions: Positions of the classes in the request.
            ranks: (k, n) ranks.
            limits: (k,) how many to keep of each.
            rng: Draws where stretches begin.
            crowded: Whether the classes of the request want more nodes than there are eligible ones.
        """
        devices = self._devices
        asking = None if devices is None else devices.asking[positions]
        if devices is None or asking is None or not asking.any():
            findings.keep(positions, ranks, limits, rng=rng if crowded else None)
            return
        if not asking.all():
            others = ~asking
            findings.keep(positions[others], ranks[others], limits[others], rng=rng if crowded else None)
        findings.keep(positions[asking], ranks[asking], limits[asking], rng=rng, reach=devices.reach)

    @staticmethod
    def scores(ranks: Int64s) -> npt.NDArray[np.float32]:
        """Return the scores that ranks were made of, in points."""
        points = ((ranks >> (_TIE_BITS + NODE_BITS)) - _ZERO_SCORE) / _SCORE_STEPS
        scores: npt.NDArray[np.float32] = points.astype(np.float32)
        return scores

    def _device_classes(self, slots: Int32s, request: SampleRequest) -> DeviceClasses | None:
        """Return which classes ask for devices; None if no node has any, or nodes are not ranked by that."""
        if self._node_score or not self._keeps_devices:
            return None
        table = self.ledger.nodes
        if not any(table.allocatable[column].any() for column in table.axis.devices):
            return None
        return DeviceClasses(table, self.ledger.classes, slots, request.wanted)

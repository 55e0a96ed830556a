"""Room of one node, shared out among pods that want to grow: weighted max-min between their queues, unit by unit.

The next unit goes to the queue whose growth on the node, its dearest resource as a share of the node's, would then be
least for its weight; within the queue to the pod that has grown least. What queues have grown already counts, so room
that comes unit by unit is shared as if it had come at once. Nobody's growth is taken back.

Source: 003 "Global prioritisation" (progressive filling); seed 001 "Pressure and watermarks" (demand that was denied).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush, heapreplace

__all__ = ["Demand", "share_room"]

Amounts = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What one pod has and wants, by resource, base units."""

    has: Amounts
    """What it is booked at."""
    wanted: Amounts
    """What it wants to be booked at."""
    least: Amounts
    """Its minimum: what it has beyond that is growth."""
    unit: Amounts
    """Its compute unit."""
    queue: int
    """Index of its queue."""
    is_bundle: bool = False
    """It takes a step of all resources that it wants, or none."""


def share_room(
    room: Sequence[int],
    demands: Sequence[Demand],
    *,
    total: Sequence[int],
    growth: Mapping[int, Sequence[int]],
    weights: Mapping[int, float],
) -> list[Amounts]:
    """Return what each pod is booked at once the room is shared out; never less than it has, nor more than it wants.

    Args:
        room: By resource, what the node has left, base units.
        demands: Pods that want more than they have.
        total: By resource, all that the node has, base units: what growth is a share of.
        growth: By queue, what its pods on the node have beyond their minima; none where it is left out.
        weights: By queue, above 0; 1 where it is left out.

    Complexity: O(log n) for each unit given.
    """
    sharing = _Sharing(
        room, demands, total=total, grown={queue: list(own) for queue, own in growth.items()}, weights=weights
    )
    sharing.run()
    return [tuple(amounts) for amounts in sharing.has]


class _Sharing:
    """One sharing out: what is left, and what each pod and queue have by now."""

    def __init__(
        self,
        room: Sequence[int],
        demands: Sequence[Demand],
        *,
        total: Sequence[int],
        grown: dict[int, list[int]],
        weights: Mapping[int, float],
    ) -> None:
        self.has = [list(demand.has) for demand in demands]
        self._left = list(room)
        self._demands = demands
        self._total = total
        self._grown = grown
        self._weights = weights
        self._lines: dict[int, list[tuple[float, int]]] = {}
        """By queue: a heap of (growth, position) of its pods that may still take something."""
        self._turns: list[tuple[float, int]] = []
        """A heap of (what the queue's next step would make of it, queue)."""

    def run(self) -> None:
        """Give step by step until nothing fits or nothing is wanted."""
        for position, demand in enumerate(self._demands):
            self._lines.setdefault(demand.queue, []).append((self._growth(position), position))
        for queue, line in self._lines.items():
            heapify(line)
            self._grown.setdefault(queue, [0] * len(self._left))
            self._enter(queue)
        while self._turns:
            _, queue = heappop(self._turns)
            line = self._lines[queue]
            position = line[0][1]
            step = self._step(position)
            if any(step):
                for resource, amount in enumerate(step):
                    self._left[resource] -= amount
                    self.has[position][resource] += amount
                    self._grown[queue][resource] += amount
                heapreplace(line, (self._growth(position), position))
            self._enter(queue)

    def _enter(self, queue: int) -> None:
        """Give a queue its next turn; pods that can have no step leave its line."""
        line = self._lines[queue]
        while line:
            step = self._step(line[0][1])
            if any(step):
                after = [amount + more for amount, more in zip(self._grown[queue], step, strict=True)]
                heappush(self._turns, (self._dearest(after) / self._weights.get(queue, 1.0), queue))
                return
            heappop(line)

    def _step(self, position: int) -> list[int]:
        """Return what a pod would take next: up to the next whole unit of each resource that is there."""
        demand = self._demands[position]
        step = [
            min(wanted, (amount // unit + 1) * unit) - amount if wanted > amount else 0
            for amount, wanted, unit in zip(self.has[position], demand.wanted, demand.unit, strict=True)
        ]
        fits = [amount <= room for amount, room in zip(step, self._left, strict=True)]
        if demand.is_bundle:
            return step if all(fits) else [0] * len(step)
        return [amount if fit else 0 for amount, fit in zip(step, fits, strict=True)]

    def _growth(self, position: int) -> float:
        pairs = zip(self.has[position], self._demands[position].least, strict=True)
        return self._dearest([max(amount - least, 0) for amount, least in pairs])

    def _dearest(self, amounts: Sequence[int]) -> float:
        return max(amount / whole if whole > 0 else 0.0 for amount, whole in zip(amounts, self._total, strict=True))

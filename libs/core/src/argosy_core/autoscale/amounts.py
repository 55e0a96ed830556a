"""Amounts of what a pod is resized in: processor and memory, exact, in base units.

Source: 001 "Deep dive into resource management"; design section 5, "Resize".
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["NOTHING", "Amounts"]


class Amounts(NamedTuple):
    """What a pod has or may have of each resource. Resources are compared one by one: two amounts may have no order."""

    cpu_millicores: int
    """Processor, millicores."""
    memory_bytes: int
    """Memory, bytes."""

    def join(self, other: Amounts) -> Amounts:
        """Return the larger amount of each resource."""
        return Amounts(max(self[0], other[0]), max(self[1], other[1]))

    def meet(self, other: Amounts) -> Amounts:
        """Return the smaller amount of each resource."""
        return Amounts(min(self[0], other[0]), min(self[1], other[1]))

    def times(self, units: int) -> Amounts:
        """Return so many of this unit."""
        return Amounts(self[0] * units, self[1] * units)

    def fits(self, other: Amounts) -> bool:
        """Return whether no resource exceeds the other's."""
        return self[0] <= other[0] and self[1] <= other[1]

    def units(self, unit: Amounts) -> int:
        """Return how many units hold this: those of the dearest resource, rounded up."""
        return max(-(-self[0] // unit[0]), -(-self[1] // unit[1]))


NOTHING = Amounts(0, 0)
"""None of any resource."""

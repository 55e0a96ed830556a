"""Promised starts, and what they leave to others.

A promise names a moment and nodes. Until that moment everything free on them may be used; of what is still held then,
only as much is left to others as the promised job does not need. So a job may start beside a promise if it is gone by
then, or needs no more than is spare: neither delays the promised one.

Source: design section 5, "Round" 5; section 7, invariant 13.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from argosy_core.arrays import Bools, Float64s, Int32s, Int64s

__all__ = ["Promise", "PromiseKind", "Reservations"]


class PromiseKind(IntEnum):
    """How much a promise is worth."""

    FIRM = 1
    """From time limits, and lifetimes of work that may be preempted when they are over: it is never broken but by lost
    capacity or a higher priority class."""
    EXPECTED = 2
    """From estimates: it may turn out to be wrong; then it is counted as broken and given anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """What one waiting job was promised; k nodes, r resources."""

    job: int
    """Handle of the job."""
    kind: PromiseKind
    """Firm or expected."""
    moment_s: float
    """The job starts no later, seconds since the Unix epoch."""
    nodes: Int32s
    """(k,) rows of the nodes that it starts on."""
    demand: Int64s
    """(r,) what it needs on each, base units."""


class Reservations:
    """What promises leave to others, as jobs start beside them; p reserved places, r resources."""

    def __init__(self, places: Sequence[tuple[Promise, int, Int64s]], width: int) -> None:
        """Start with what is spare.

        Args:
            places: Promise, node, and (r,) what is spare there from the promised moment on, base units.
            width: r, the number of resources.
        """
        self.node: Int32s = np.array([node for _, node, _ in places], dtype=np.int32)
        self.moment_s: Float64s = np.array([promise.moment_s for promise, _, _ in places], dtype=np.float64)
        self.kind: Int32s = np.array([promise.kind for promise, _, _ in places], dtype=np.int32)
        self.spare: Int64s = np.array([spare for _, _, spare in places], dtype=np.int64).reshape(len(places), width)

    def may_pass(self, demand: Int64s, firm_end_s: Float64s, expected_end_s: Float64s, *, node: int) -> Bools:
        """Return which of n jobs may start on a node now without delaying what is promised there.

        Whether they have room there now is not looked at. To work that may be preempted, its end is when that may
        happen.

        Args:
            demand: (n, r) what each needs, base units.
            firm_end_s: (n,) when each ends at the latest if it starts now; infinite if that is not known.
            expected_end_s: (n,) when each is expected to end if it starts now.
            node: Row of the node.

        Complexity: O(n x promises on the node) in NumPy.
        """
        allowed = np.ones(len(demand), dtype=np.bool_)
        for place in np.flatnonzero(self.node == node).tolist():
            end_s = firm_end_s if self.kind[place] == PromiseKind.FIRM else expected_end_s
            allowed &= (end_s <= self.moment_s[place]) | (demand <= self.spare[place]).all(axis=1)
        return allowed

    def take(self, demand: Int64s, firm_end_s: float, expected_end_s: float, *, node: int) -> None:
        """Take note that a job starts on a node.

        Args:
            demand: (r,) what it needs, base units.
            firm_end_s: When it ends at the latest.
            expected_end_s: When it is expected to end.
            node: Row of the node.
        """
        for place in np.flatnonzero(self.node == node).tolist():
            end_s = firm_end_s if self.kind[place] == PromiseKind.FIRM else expected_end_s
            if end_s > self.moment_s[place]:
                self.spare[place] -= demand

"""The earliest moment at which nodes have room: what is free on each now, and what comes free there and when.

Source: design section 5, "Round" 5; 003 "Scheduler architecture".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from argosy_core.arrays import Float64s, Int32s, Int64s, run_sizes
from argosy_core.errors import InvalidRequest

__all__ = ["Earliest", "Releases", "find_earliest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Releases:
    """What comes free; n pieces of work, r resources."""

    node: Int32s
    """(n,) row of the node that each piece is on."""
    amount: Int64s
    """(n, r) what it holds there, base units."""
    end_s: Float64s
    """(n,) when it ends at the latest, seconds since the Unix epoch; infinite if that is not known."""

    def free_at(self, node: int, moment_s: float) -> Int64s:
        """Return (r,) what has come free on a node by a moment."""
        amount: Int64s = self.amount[(self.node == node) & (self.end_s <= moment_s)].sum(axis=0)
        return amount


@dataclass(frozen=True, slots=True, kw_only=True)
class Earliest:
    """Where and when a demand has room first; k nodes, r resources."""

    moment_s: float
    """From then on every node has room, seconds since the Unix epoch."""
    nodes: Int32s
    """(k,) rows of the nodes, those that have room first first."""
    spare: Int64s
    """(k, r) what is left on each at that moment beside the demand, base units; not below 0."""


def find_earliest(free: Int64s, releases: Releases, demand: Int64s, *, now_s: float, count: int = 1) -> Earliest | None:
    """Return the earliest moment at which `count` nodes each have room for a demand; None if there is none.

    The moment is the smallest one there is; among nodes that have room at one time, those of lower rows are taken.

    Args:
        free: (m, r) what is free on each node now, base units; below 0 where more is held than there is.
        releases: What comes free.
        demand: (r,) what is asked for on each node, base units.
        now_s: Now; no moment is before it.
        count: How many nodes are asked for.

    Raises:
        InvalidRequest: No node is asked for.

    Complexity: O(n log n + m) in NumPy for n releases and m nodes.
    """
    if count < 1:
        raise InvalidRequest(f"a demand asks for {count} nodes, but must ask for 1 or more")
    moments = np.where((free >= demand).all(axis=1), now_s, np.inf)
    coming = np.flatnonzero(np.isfinite(releases.end_s) & np.isinf(moments[releases.node]))
    if coming.size:
        coming = coming[np.lexsort((releases.end_s[coming], releases.node[coming]))]
        node, end_s = releases.node[coming], releases.end_s[coming]
        running = np.cumsum(releases.amount[coming], axis=0)
        begins = np.flatnonzero(np.diff(node, prepend=-1))
        before = running[begins] - releases.amount[coming[begins]]
        sizes = run_sizes(begins, node.size)
        holds = (free[node] + running - np.repeat(before, sizes, axis=0) >= demand).all(axis=1)
        np.minimum.at(moments, node[holds], np.maximum(end_s[holds], now_s))
    chosen = np.argsort(moments, kind="stable")[:count].astype(np.int32)
    if chosen.size < count or np.isinf(moments[chosen[-1]]):
        return None
    moment_s = float(moments[chosen[-1]])
    spare = [free[node] + releases.free_at(node, moment_s) - demand for node in chosen.tolist()]
    return Earliest(moment_s=moment_s, nodes=chosen, spare=np.array(spare, dtype=np.int64))

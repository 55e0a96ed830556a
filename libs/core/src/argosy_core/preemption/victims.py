"""Victims for one job: on one node, or for a gang on some, of queues that stay at or over their shares without them.

A job may have others preempted only if the flow of its queue is at or under its fair share with it, and only from
queues that hold their fair shares even without the victims; usage is no larger than flow, so these are over their
shares by flow, too. So whoever has gained by preemption is no victim, and whoever has lost by it may not strike back:
two queues never evict each other in turn, however often this is asked.

Source: 003 "Preemption", "Fair share"; design section 5, "Round" 7.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from argosy_core.arrays import Bools, Float64s, Int32s, Int64s

__all__ = ["Candidates", "Excess", "Victims", "choose_victims", "choose_victims_of_nodes"]

_ROUNDING_CORES: Final = 1e-4
"""What sums of usages may be off; less than the smallest job has."""
_MOST_NODES: Final = 64
"""Nodes that are looked at closely, those with the least lost work first."""


class Excess:
    """How far queues are over or under their fair shares, in cores.

    Args:
        flow: (q,) flow of each queue, cores.
        usage: (q,) usage of each, cores; at most its flow.
        weight: (q,) weights.
        has_work: (q,) whether a queue has jobs that run or want to; others have no share.
        capacity_cores: What there is to share.
    """

    def __init__(
        self, flow: Float64s, usage: Float64s, *, weight: Float64s, has_work: Bools, capacity_cores: float
    ) -> None:
        """Compute the shares."""
        counted = np.where(has_work, weight, 0.0)
        total = float(counted.sum())
        share = counted / total * capacity_cores if total else np.zeros(flow.size)
        self._flow_over, self._usage_over = flow - share, usage - share

    def may_gain(self, queue: int, cores: float) -> bool:
        """Return whether a queue's flow stays at or under its share with so much more."""
        return bool(self._flow_over[queue] + cores <= _ROUNDING_CORES)

    def over(self) -> Float64s:
        """Return how much each queue may lose and still hold its share, cores."""
        return np.maximum(self._usage_over, 0.0) + _ROUNDING_CORES

    def note(self, queue: int, cores: float) -> None:
        """Take note that a queue will have so much more, or less if it is below 0; its flow remembers what it had."""
        self._usage_over[queue] += cores
        self._flow_over[queue] += max(cores, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """Members of runs that may be preempted, one element each; those of a run are on different nodes."""

    run: Int32s
    """Which run."""
    queue: Int32s
    """Its queue."""
    node: Int64s
    """Where the member is."""
    amounts: Int64s
    """(n, resource) what it holds, base units."""
    cores: Float64s
    """Weighted usage of the whole run, cores."""
    elapsed_s: Float64s
    """How long the run has run: what is lost with it per core that is freed."""

    def only(self, chosen: Bools) -> Candidates:
        """Return some of them."""
        return Candidates(
            run=self.run[chosen],
            queue=self.queue[chosen],
            node=self.node[chosen],
            amounts=self.amounts[chosen],
            cores=self.cores[chosen],
            elapsed_s=self.elapsed_s[chosen],
        )


@dataclass(frozen=True, slots=True)
class Victims:
    """Whom to preempt."""

    node: int
    """Node on which that makes room."""
    runs: tuple[int, ...]
    """Runs, which end as a whole."""
    lost_core_s: float
    """Work that is lost, core-seconds."""


def choose_victims(demand: Int64s, queue: int, candidates: Candidates, excess: Excess) -> Victims | None:
    """Return the runs with the least lost work that make room for a job on one node; None if none may.

    What they hold on the node is enough alone: what else is free there may be taken by pods that nobody here knows of.
    They are taken in order of the work that is lost per core freed, and none is among them that is not needed.

    Args:
        demand: (resource,) what the job asks for, base units.
        queue: Its queue, whose own runs are no victims.
        candidates: Runs that may be preempted now, on nodes that may hold the job.
        excess: How far queues are over their shares; it is not changed.

    Complexity: O(candidates) in NumPy, and O(victims) for each of at most 64 nodes.
    """
    over = excess.over()
    left = candidates.only((candidates.queue != queue) & (candidates.cores <= over[candidates.queue]))
    if not left.run.size:
        return None
    nodes, at = np.unique(left.node, return_inverse=True)
    held = np.zeros((nodes.size, demand.size), dtype=np.int64)
    np.add.at(held, at, left.amounts)
    least = np.full(nodes.size, np.inf)
    np.minimum.at(least, at, left.elapsed_s)
    fitting = np.flatnonzero((held >= demand).all(axis=1))
    order = fitting[np.argsort(least[fitting], kind="stable")][:_MOST_NODES]
    found: list[tuple[float, int, Victims]] = []
    for place in order.tolist():
        victims = _on_node(demand, left.only(at == place), over, int(nodes[place]))
        if victims is not None:
            found.append((victims.lost_core_s, len(victims.runs), victims))
    return min(found, key=lambda one: one[:2])[2] if found else None


def _on_node(demand: Int64s, left: Candidates, over: Float64s, node: int) -> Victims | None:
    """Return the victims on one node: the least lost work first, or the largest where many small ones may not go."""
    cheap, large = (left.run, left.cores, left.elapsed_s), (left.run, left.elapsed_s, -left.cores)
    for order in (np.lexsort(cheap), np.lexsort(large)):
        rows = _cover(demand, left, over.copy(), order)
        if rows:
            lost = float((left.elapsed_s[rows] * left.cores[rows]).sum())
            return Victims(node, tuple(left.run[rows].tolist()), lost)
    return None


def _cover(demand: Int64s, left: Candidates, over: Float64s, order: Int64s) -> list[int]:
    """Return rows, taken in an order, that hold what is asked for, and none that is not needed; empty if none do."""
    missing = demand.astype(np.int64)
    taken: list[int] = []
    for row in order.tolist():
        if not (missing > 0).any():
            break
        queue, cores = left.queue[row], left.cores[row]
        # What frees nothing that is missing would end for nothing.
        if cores <= over[queue] and ((left.amounts[row] > 0) & (missing > 0)).any():
            over[queue] -= cores
            missing = missing - left.amounts[row]
            taken.append(row)
    if (missing > 0).any():
        return []
    for row in sorted(taken, key=lambda row: -float(left.elapsed_s[row] * left.cores[row])):
        if ((missing + left.amounts[row]) <= 0).all():
            missing = missing + left.amounts[row]
            taken.remove(row)
    return taken


def choose_victims_of_nodes(
    missing: Int64s, queue: int, candidates: Candidates, excess: Excess
) -> tuple[tuple[int, ...], float] | None:
    """Return the runs with the least lost work that give back what is missing on several nodes, and the work lost.

    Runs are taken whole, in the order of the work that is lost per core freed, and none that is not needed. None if
    those that may go do not give back all of it.

    Args:
        missing: (n, resource) what must come free on each of n nodes, base units; 0 or less where enough is.
        queue: Queue of the job, whose own runs are no victims.
        candidates: Runs that may be preempted now; nodes are 0 to n - 1.
        excess: How far queues are over their shares; it is not changed.

    Complexity: O(candidates log candidates) in NumPy, and O(members) for each run that is taken.
    """
    over, missing = excess.over(), missing.copy()
    left = candidates.only((candidates.queue != queue) & (candidates.cores <= over[candidates.queue]))
    order = np.lexsort((left.run, left.cores, left.elapsed_s))
    runs = dict.fromkeys(left.run[order].tolist())
    rows_of: dict[int, list[int]] = {}
    for row in order.tolist():
        rows_of.setdefault(int(left.run[row]), []).append(row)
    taken: list[int] = []
    for run in runs:
        rows = rows_of[run]
        node, amounts, first = left.node[rows], left.amounts[rows], rows[0]
        if left.cores[first] > over[left.queue[first]] or not ((amounts > 0) & (missing[node] > 0)).any():
            continue
        over[left.queue[first]] -= left.cores[first]
        np.subtract.at(missing, node, amounts)
        taken.append(run)
        if not (missing > 0).any():
            break
    if (missing > 0).any():
        return None

    def lost_core_s(run: int) -> float:
        return float(left.elapsed_s[rows_of[run][0]] * left.cores[rows_of[run][0]])

    for run in sorted(taken, key=lost_core_s, reverse=True):
        without = missing.copy()
        np.add.at(without, left.node[rows_of[run]], left.amounts[rows_of[run]])
        if not (without > 0).any():
            missing = without
            taken.remove(run)
    return tuple(taken), sum(lost_core_s(run) for run in taken)

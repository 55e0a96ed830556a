"""Who has what share: what each queue asks for, holds and is entitled to, of every resource.

Source: 003 "Resource usage", "Fair share"; design section 9.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import Bools, Int32s, Int64s, has_true, true_places
from argosy_core.job.tables.live import ON_HOLD
from argosy_core.placement import WaitReason
from argosy_core.queueing import MICRO, fill_water, fill_water_of, to_cores
from argosy_core.resources import base_units_per_unit
from argosy_core.scheduler.memory.flows import advance_flows, counted_usage, non_preemptible_flow
from argosy_core.scheduler.memory.state import PoolState
from argosy_core.scheduler.memory.weighing import advance_weights
from argosy_core.scheduler.turns.fair_caps import fair_ratios, find_caps
from argosy_core.scheduler.turns.limits import held_back
from argosy_core.scheduler.turns.turns import turn_usage

Floats = npt.NDArray[np.float64]
_NOBODY: Final = np.zeros(0, dtype=np.int32)

__all__ = [
    "PoolShares",
    "QueueShares",
    "ResourceCapacity",
    "ResourceShares",
    "fair_shares",
    "fair_weights",
    "is_capacity_known",
    "room_below_share",
    "shares",
    "weightless_resources",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceShares:
    """What one queue has and could have of one resource, base units."""

    resource: str
    """Name."""
    requested: int
    """What all its jobs ask for, those that wait and those that run; those on hold ask for nothing."""
    running: int
    """What its in-flight, leased and running jobs hold."""
    entitled: int
    """What weighted max-min fairness over the demands gives it, of jobs that some node could hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueShares:
    """What one queue has and could have; of a queue with others below it, all amounts are those of its whole branch."""

    queue: str
    """Name."""
    parent: str = ""
    """Queue above it; empty for none."""
    weight: float
    """Weight."""
    fair_share_ratio: float
    """Weight divided by the sum of weights of the queues beside it, times the share of the queue above."""
    usage_cores: float
    """Usage of in-flight, leased and running jobs, cores."""
    flow_cores: float
    """Flow, cores."""
    demand_cores: float
    """Usage if all its jobs ran, cores."""
    entitled_cores: float
    """What weighted max-min fairness over the demands gives it, of jobs that some node could hold, cores."""
    queued_count: int
    """Jobs queued, pending ones apart."""
    pending_count: int
    """Waiting heads of the queue."""
    leased_count: int
    """Jobs in flight, leased or running."""
    resources: tuple[ResourceShares, ...] = ()
    """By resource, in the pool's order; those that it asks for."""
    non_preemptible_flow_cores: float = 0.0
    """Flow of its own jobs without a lifetime, cores; those of queues below it have caps of their own."""
    non_preemptible_cap_cores: float = 0.0
    """What that may be at most, cores."""
    charged_core_min: float = 0.0
    """What its own jobs that began beyond its fair share take of its excess flow budget, core-minutes."""
    budget_core_min: float = 0.0
    """That budget, core-minutes."""
    limited_count: int = 0
    """Own jobs that wait since as many run of the queue, or of their job set, as may."""
    rate_limited_count: int = 0
    """Own jobs that wait since the queue has begun as many lately as its lease rate lets it."""
    max_running_count: int = 0
    """Most own jobs that are leased or run at once; 0 for no limit."""
    lease_rate_per_s: float = 0.0
    """Most own jobs that begin in a second; 0 for no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceCapacity:
    """What a pool has of one resource, and what that counts."""

    resource: str
    """Name."""
    capacity: int
    """Sum over the clusters that may be given work, base units."""
    unit_cores: float
    """What one unit (core, byte, whole unit) counts, cores; 0 is a resource that weighs nothing: whoever holds it is
    not seen as using anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolShares:
    """Shares of all queues."""

    queues: tuple[QueueShares, ...]
    """By name."""
    capacity_cores: float
    """Weighted capacity of the clusters that may be given work, cores."""
    resources: tuple[ResourceCapacity, ...] = ()
    """Every resource that the pool counts."""
    is_known: bool = True
    """Whether any cluster is connected: until then, as in a term's first moment, capacity is 0 and what follows from
    it, entitlements, caps and budgets, says nothing."""


def is_capacity_known(state: PoolState) -> bool:
    """Return whether it is known what the pool has: some cluster is connected, be it cordoned."""
    return has_true(state.clusters.connected)


def weightless_resources(state: PoolState) -> tuple[str, ...]:
    """Return the resources that the pool has and that weigh nothing: whoever holds them is not seen as using anything.

    Numbers of pods are a limit of nodes, not a resource that anybody means.
    """
    names, weights = state.classes.axis.names, state.weights.values
    total = state.clusters.total[state.clusters.usable()].sum(axis=0)
    there = zip(names, total.tolist(), strict=True)
    return tuple([name for name, amount in there if amount > 0 and not weights.get(name) and name != "pods"])


def shares(state: PoolState, now_s: float) -> PoolShares:
    """Return usage, flow, demand and entitlement of every queue.

    All defined queues count for the fair share; the entitlement is weighted max-min over the demands and over all
    resources at once: nobody is entitled to accelerators that it does not ask for, nor to cores that are not there.
    Usages are those that count (`counted_usage`), so together they are never above the capacity of the pool.

    Args:
        state: The pool.
        now_s: Now.

    Complexity: O(n log n) in NumPy for n live jobs.
    """
    advance_flows(state, now_s)
    if state.round is None:
        advance_weights(state, now_s)
    queues, names, usage = state.queues, state.classes.axis.names, counted_usage(state)
    capacity = state.clusters.total[state.clusters.usable()].sum(axis=0)
    requested, entitled = _amounts(state, capacity)
    requested, held, entitled = (queues.branches.sum_below(one) for one in (requested, queues.held, entitled))
    usage, demand, flow, ratio = fair_shares(state, usage)
    counts = (queues.queued_count, np.bincount(state.live.queue[state.pending_slots()], minlength=usage.size))
    queued, pending, leased = (queues.branches.sum_below(count) for count in (*counts, queues.leased_count))
    weights, caps, lasting = state.weights.values, find_caps(state), non_preemptible_flow(state)
    back = held_back(state)
    limited, late = (
        np.bincount(state.live.queue[back.get(reason, _NOBODY)], minlength=usage.size)
        for reason in (WaitReason.LIMIT, WaitReason.RATE)
    )
    prices = np.array([weights.get(name, 0.0) for name in names])
    rows = [
        QueueShares(
            queue=queues.names[index],
            weight=float(queues.weight[index]),
            parent=queues.branches.parents.get(index, ""),
            fair_share_ratio=float(ratio[index]),
            usage_cores=float(usage[index]) / MICRO,
            flow_cores=float(flow[index]),
            demand_cores=float(demand[index]) / MICRO,
            entitled_cores=float(entitled[index] @ prices),
            queued_count=int(queued[index] - pending[index]),
            pending_count=int(pending[index]),
            leased_count=int(leased[index]),
            resources=tuple(
                ResourceShares(
                    resource=names[column],
                    requested=int(requested[index, column]),
                    running=int(held[index, column]),
                    entitled=round(float(entitled[index, column])),
                )
                for column in true_places(requested[index]).tolist()
            ),
            non_preemptible_flow_cores=float(lasting[index]),
            non_preemptible_cap_cores=float(caps.most_non_preemptible[index]) / MICRO,
            charged_core_min=float(queues.charged_core_s[index]) / 60.0,
            budget_core_min=float(caps.budget_core_s[index]) / 60.0,
            limited_count=int(limited[index]),
            rate_limited_count=int(late[index]),
            **_limits_of(state, index),
        )
        for _, index in queues.ids.items()
    ]
    return PoolShares(
        queues=tuple(sorted(rows, key=lambda row: row.queue)),
        capacity_cores=state.capacity_usage() / MICRO,
        is_known=is_capacity_known(state),
        resources=tuple(
            ResourceCapacity(
                resource=name,
                capacity=int(amount),
                unit_cores=weights.get(name, 0.0) * base_units_per_unit(name),
            )
            for name, amount in zip(names, capacity.tolist(), strict=True)
        ),
    )


def _limits_of(state: PoolState, row: int) -> dict[str, Any]:
    """Return how many own jobs of a queue run at once and begin in a second, by name, if that is limited."""
    limits = state.queues.limits.get(row)
    if limits is None:
        return {}
    return {"max_running_count": limits.max_running_count, "lease_rate_per_s": limits.lease_rate_per_s}


def _amounts(state: PoolState, capacity: Int64s) -> tuple[Int64s, Floats]:
    """Return (queue, resource) what queues ask for and are entitled to, base units."""
    live, queues = state.live, state.queues
    slots = live.live_slots()
    slots = slots[~state.stage_is_queued(slots) | ((live.flags[slots] & ON_HOLD) == 0)]
    first, counts = _kinds(state, slots)
    of_kind = state.requested_vectors(slots[first])
    owner = live.queue[slots[first]].astype(np.int64)
    shape = (queues.usage.size, capacity.size)
    requested = np.zeros(shape, dtype=np.int64)
    np.add.at(requested, owner, of_kind * counts[:, None])
    able = _fits_somewhere(state, of_kind)
    asked = _resources_asked(of_kind[able])
    _, first_of, part = np.unique(owner[able] * (asked.size + 1) + asked, return_index=True, return_inverse=True)
    parts = np.column_stack([owner[able][first_of], asked[first_of]])
    demands = np.zeros((len(parts), capacity.size))
    np.add.at(demands, part, (of_kind[able] * counts[able, None]).astype(np.float64))
    usage = np.bincount(part, state.job_usage(slots[first])[able] * counts[able], len(parts)) / MICRO
    given = _fill_level(state, demands, parts, np.maximum(usage, 1 / MICRO), capacity=capacity.astype(np.float64))
    entitled = np.zeros(shape)
    np.add.at(entitled, parts[:, 0], demands * given[:, None])
    return requested, entitled


def _resources_asked(vectors: Int64s) -> Int64s:
    """Return numbers from 0 on, equal for vectors that ask for the same resources: several times as quick as rows."""
    number = np.zeros(len(vectors), dtype=np.int64)
    for marks in np.packbits(vectors > 0, axis=1).T:
        _, number = np.unique(number << 8 | marks, return_inverse=True)
    return number


def fair_shares(state: PoolState, usage: Int64s) -> tuple[Int64s, Int64s, Floats, Floats]:
    """Return usage, demand, flow and fair share of each queue's branch."""
    queues, branches = state.queues, state.queues.branches
    demand = usage + queues.queued_usage
    ratio = fair_ratios(state)
    if not branches:
        return usage, demand, queues.flow, ratio
    flow = np.where(branches.is_parent(), branches.flow, queues.flow)
    return branches.sum_below(usage), branches.sum_below(demand), flow, ratio


def _fill_level(
    state: PoolState, demands: Floats, parts: Int64s, sizes: Floats, *, capacity: Floats, above: int = -1
) -> Floats:
    """Return how much of each part its queue is entitled to: among all below a queue, then within each of these.

    Args:
        state: The pool.
        demands: (part, resource) amounts.
        parts: (part, 1 + ...) queue of each, and what tells parts of one queue apart.
        sizes: (part,) what each counts, above 0.
        capacity: (resource,) what there is for all of them.
        above: Queue that all of them stand below or belong to; -1 for none.
    """
    queues, branches = state.queues, state.queues.branches
    weights = np.where(queues.queue_id > 0, queues.weight, 0.0)
    if not branches:
        return fill_water_of(demands, parts[:, 0], sizes, weights=weights, capacity=capacity)
    child = branches.child_of(parts[:, 0], above)
    if above >= 0:
        weights[above] = 1.0  # its own jobs
    kinds, kind = np.unique(np.column_stack([child, parts[:, 1:]]), axis=0, return_inverse=True)
    kind = kind.reshape(-1)
    amounts, sums = np.zeros((len(kinds), capacity.size)), np.zeros(len(kinds))
    np.add.at(amounts, kind, demands)
    np.add.at(sums, kind, sizes)
    given = fill_water_of(amounts, kinds[:, 0], sums, weights=weights, capacity=capacity)
    result = given[kind]
    for node in np.unique(child[(child != parts[:, 0]) & (child != above)]).tolist():
        rows, own = child == node, kinds[:, 0] == node
        result[rows] = _fill_level(
            state, demands[rows], parts[rows], sizes[rows], capacity=given[own] @ amounts[own], above=node
        )
    return result


def _kinds(state: PoolState, slots: Int32s) -> tuple[Int64s, Int64s]:
    """Return the kinds of jobs, of which each has one queue, class and row of demands, and what there is of each.

    Returns:
        Where the first job of each kind stands, and how many jobs are of it.
    """
    live = state.live
    key = live.queue[slots].astype(np.int64) * (state.classes.ids.end + 1) + live.class_index[slots]
    if len(state.demands):
        own = true_places(live.demand[slots] >= 0)
        key[own] = -1 - live.demand[slots[own]].astype(np.int64)
    _, first, counts = np.unique(key, return_index=True, return_counts=True)
    return first, counts


def _fits_somewhere(state: PoolState, vectors: Int64s) -> Bools:
    """Return which jobs are not larger than every node of the clusters that may be given work."""
    largest = state.clusters.largest[state.clusters.usable()]
    fits = np.zeros(len(vectors), dtype=np.bool_)
    for cluster in largest:
        fits |= (vectors <= cluster).all(axis=1)
    return fits


def room_below_share(state: PoolState, turns: Int64s | None = None) -> Floats:
    """Return how far each queue is below its part of all that is held and promised, cores; 0 or less from there on.

    What a cap keeps a queue from taking is there for the others: while one has reached its cap, what is free and not
    promised counts, too. Else it may be what nodes have left over, and promising that would only empty them.

    Args:
        state: The pool.
        turns: The usage as turns go by it (`turn_usage`), if it was found already.

    Complexity: O(queues log queues) in NumPy.
    """
    queues, counted = state.queues, counted_usage(state)
    usage = to_cores(turn_usage(state, counted) if turns is None else turns)
    demand = to_cores(counted + queues.queued_usage)
    has_work = queues.queued_count - queues.on_hold_count + queues.leased_count > 0
    total = float(usage.sum())
    if has_true(_has_reached_cap(state)):
        promised = float(total - to_cores(counted).sum())
        total += max(float(to_cores(np.array([state.free_usage()]))[0]) - promised, 0.0)
    shares = fill_water(np.where(has_work, demand, 0.0), fair_weights(state, has_work), total)
    return np.asarray(shares - usage)


def _has_reached_cap(state: PoolState) -> Bools:
    """Return which queues can begin nothing more of what waits without a lifetime, for their caps."""
    queues, caps = state.queues, state.caps
    end = caps.binds.size
    lasting = (queues.usage - queues.preemptible_usage)[:end]
    return np.asarray(caps.binds & (lasting > 0) & (caps.most_non_preemptible - lasting < max(caps.least_usage, 1)))


def fair_weights(state: PoolState, has_work: Bools) -> Floats:
    """Return the weights of queues against each other; below others, by what these have of the whole."""
    queues, rows = state.queues, true_places(has_work)
    tree = queues.branches.tree(
        rows, queue_id=queues.queue_id, weight=queues.weight, flow=queues.flow, usage=queues.usage
    )
    if tree is None:
        return queues.weight
    sums = np.zeros(tree.weight.size + 1)  # the last for those with none above
    np.add.at(sums, tree.parent, tree.weight)
    ratio = np.ones(tree.weight.size + 1)
    for entity in np.argsort(tree.depth, kind="stable").tolist():
        above = int(tree.parent[entity])
        ratio[entity] = ratio[above] * tree.weight[entity] / sums[above] if sums[above] else 0.0
    weights = np.zeros(queues.weight.size)
    weights[rows] = ratio[: rows.size]
    return weights

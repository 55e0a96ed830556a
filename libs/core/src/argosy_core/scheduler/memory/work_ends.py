"""When work ends: at the latest by its time limit, and as far as its like has taken until now.

A run may hold its room for `run_allowance_s` more than its time limit: until its first pod runs, and until its pods are
gone. What is expected is a quantile of the run times of its class in its job set, of its job set, of its submitter's
runs of its class, of its class in its queue, of its class, of its submitter, of its queue and of the pool, in this
order. Where its submitter says how long it takes, it is the part of that which these took. A new leader begins to learn
anew.

Source: design section 5, "Round" 5; decision 0017.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from argosy_core.arrays import Bools, Float64s, Int32s, Int64s, are_among, has_true, true_places
from argosy_core.backfill import PromiseKind
from argosy_core.job.identity import NOBODY, SUBMITTER_BITS
from argosy_core.job.states import IS_RUN_TERMINAL
from argosy_core.scheduler.memory.promised import GatheredNodes, PromisedStart
from argosy_core.scheduler.memory.run_history import LIKE_PROMISES
from argosy_core.scheduler.memory.run_members import member_vectors
from argosy_core.scheduler.memory.state import PoolState

__all__ = [
    "WorkEnds",
    "allocatable_of",
    "are_over",
    "expected_run_time_s",
    "find_held",
    "find_work",
    "free_beside",
    "latest_run_time_s",
    "note_ended",
]

_MOST_LEARNED: Final = 32
"""Runs learned of those that end together."""
_KEY_SHIFT: Final = 60
"""Where the kind of a key stands, above ids of 28 and 32 bits."""
_SUBMITTER_KINDS: Final = (2, 5)
"""Kinds of keys that jobs of unknown submitters do not have."""
_SET: Final = 1
"""Column of the key that is the job set's alone."""


def run_keys(state: PoolState, slots: Int32s) -> Int64s:
    """Return (n, 8) keys of jobs in the history of runs, most telling first, -1 for none."""
    class_id = state.classes.class_id[state.live.class_index[slots]].astype(np.int64)
    queue_id = state.queues.queue_id[state.live.queue[slots]].astype(np.int64) & ((1 << 28) - 1)
    set_id = state.job_sets.job_set_id[state.live.job_set[slots]].astype(np.int64) & ((1 << 32) - 1)
    submitter = state.live.submitter[slots].astype(np.int64)
    known = submitter & ((1 << SUBMITTER_BITS) - 1)
    kinds = (
        (set_id << 28) | (class_id & ((1 << 28) - 1)),
        set_id,
        (known << 32) | class_id,
        (queue_id << 32) | class_id,
        class_id,
        known,
        queue_id,
        np.zeros_like(class_id),
    )
    keys = np.stack([key | (kind << _KEY_SHIFT) for kind, key in enumerate(kinds)], axis=1)
    unknown = submitter == NOBODY
    if has_true(unknown):
        keys[np.ix_(unknown, _SUBMITTER_KINDS)] = -1
    return keys


def note_ended(state: PoolState, slots: Int32s, end_time_us: Int64s) -> None:
    """Learn from runs that ended with success, as far as their pods were seen running."""
    begun = state.live.start_time_us[slots]
    chosen = true_places(begun > 0)[-_MOST_LEARNED:]
    if chosen.size and state.settings.promised_nodes_ratio > 0:
        run_time_s = (end_time_us[chosen] - begun[chosen]) / 1e6
        said_s = state.live.estimate_s[slots[chosen]].astype(np.float64)
        state.run_history.note_ended(run_keys(state, slots[chosen]), np.maximum(run_time_s, 0.0), said_s)


def latest_run_time_s(state: PoolState, slots: Int32s) -> Float64s:
    """Return after how long runs of jobs have given back what they hold at the latest; infinite without a limit."""
    limit_s = state.live.time_limit_s[slots]
    return np.where(limit_s >= 0, limit_s + state.settings.run_allowance_s, np.inf)


def expected_run_time_s(
    state: PoolState, slots: Int32s, elapsed_s: Float64s | None = None, *, quantile: float = LIKE_PROMISES
) -> Float64s:
    """Return how long runs of jobs are expected to take.

    Args:
        state: The pool.
        slots: Jobs.
        elapsed_s: How long each has run already; by default none has.
        quantile: The share of runs that take no longer, as far as is learned; by default that of promises.

    Complexity: O(n); if none has run yet, Python work per job set, and per class and job set of which runs have ended,
    else per job.
    """
    said_s = state.live.estimate_s[slots].astype(np.float64)
    if elapsed_s is not None:
        return _expected_s(state, run_keys(state, slots), said_s, elapsed_s=elapsed_s, quantile=quantile)
    first, which = _alike(state, slots)
    keys = run_keys(state, slots[first])
    # What is said differs between jobs that are alike in all else; the part of it that they take does not.
    whole_s = np.ones(first.size)
    learned_s = np.zeros(slots.size)
    said = said_s > 0
    if has_true(said):
        learned_s[said] = said_s[said] * state.run_history.correct_s(keys, whole_s, quantile=quantile)[which[said]]
    if not said.all():
        learned_s[~said] = state.run_history.estimate_s(keys, quantile=quantile)[which[~said]]
    return learned_s


def are_over(state: PoolState, slots: Int32s, promises: Sequence[PromisedStart | GatheredNodes], now_s: float) -> Bools:
    """Return (job, promise): which jobs, if they start now, are over by the moment of a promise, or have it.

    Args:
        state: The pool.
        slots: Jobs that wait.
        promises: Promises of nodes, those kept for gangs included.
        now_s: Now.

    Complexity: O(jobs x promises) in NumPy, beside `expected_run_time_s` where a promise is only expected.
    """
    # A gang has many nodes to lose: what is only expected of others does not put them there.
    firm = [one.kind == PromiseKind.FIRM or isinstance(one, GatheredNodes) for one in promises]
    firm_s = expected_s = now_s + latest_run_time_s(state, slots)
    if not all(firm):
        expected_s = np.minimum(firm_s, now_s + expected_run_time_s(state, slots))
    handles = state.live.handle[slots]
    columns = [
        ((firm_s if is_firm else expected_s) <= promise.moment_s) | (handles == promise.handle)
        for promise, is_firm in zip(promises, firm, strict=True)
    ]
    return np.column_stack([np.zeros((slots.size, 0), dtype=np.bool_), *columns])


def _alike(state: PoolState, slots: Int32s) -> tuple[Int64s, Int64s]:
    """Return where the first of each kind of jobs stands that has one estimate, and the kind of each job.

    Job sets of which nothing is remembered tell nothing apart.
    """
    live = state.live
    sets, of = np.unique(live.job_set[slots], return_inverse=True)
    first_of = np.zeros(sets.size, dtype=np.int64)
    first_of[of] = np.arange(slots.size)
    known = state.run_history.knows(run_keys(state, slots[first_of])[:, _SET]) if slots.size else []
    told = np.where(known, sets, -1)[of] if slots.size else of
    owner, submitter = live.queue[slots].astype(np.int64), live.submitter[slots]
    if has_true(submitter != NOBODY):
        _, who = np.unique(submitter, return_inverse=True)
        owner = owner * (int(who.max()) + 1) + who.reshape(-1)
    _, place = np.unique(owner << 32 | live.class_index[slots], return_inverse=True)
    kinds = (told.astype(np.int64) + 1) * (place.max(initial=0) + 1) + place.reshape(-1)
    _, first, which = np.unique(kinds, return_index=True, return_inverse=True)
    return first, which.reshape(-1)


def _expected_s(state: PoolState, keys: Int64s, said_s: Float64s, *, elapsed_s: Float64s, quantile: float) -> Float64s:
    """Return how long runs are expected to take that have run already."""
    expected_s = np.zeros(said_s.size)
    within = said_s > elapsed_s
    if has_true(within):
        parts = state.run_history.correct_s(keys[within], said_s[within], elapsed_s[within], quantile=quantile)
        expected_s[within] = parts
    if not within.all():
        rest = state.run_history.estimate_s(keys[~within], elapsed_s[~within], quantile=quantile)
        expected_s[~within] = rest
    return expected_s


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkEnds:
    """The pool's work on some nodes; n runs, r resources."""

    slots: Int32s
    """(n,) jobs."""
    node: Int32s
    """(n,) position of the node of each among those asked for."""
    amount: Int64s
    """(n, r) what each holds, base units."""
    firm_s: Float64s
    """(n,) when it has ended at the latest, seconds since the Unix epoch; infinite if that is not known."""
    expected_s: Float64s
    """(n,) when it is expected to have ended."""

    def only(self, chosen: Bools) -> WorkEnds:
        """Return some of the runs."""
        return WorkEnds(
            slots=self.slots[chosen],
            node=self.node[chosen],
            amount=self.amount[chosen],
            firm_s=self.firm_s[chosen],
            expected_s=self.expected_s[chosen],
        )

    def on(self, node: int) -> WorkEnds:
        """Return the runs on one of the nodes, as if it alone had been asked for."""
        there = self.only(self.node == node)
        return replace(there, node=np.zeros_like(there.node))

    def ends_s(self, kind: PromiseKind) -> Float64s:
        """Return when each has ended, for promises of a kind."""
        return self.firm_s if kind == PromiseKind.FIRM else self.expected_s


def find_held(state: PoolState, cluster: int, nodes: Int32s) -> tuple[Int32s, Int32s, Int64s]:
    """Return what of the pool's runs is on some nodes of a cluster, those in flight included.

    Of a run of several members each counts where it is.

    Args:
        state: The pool.
        cluster: Cluster index.
        nodes: Node name indices, each once.

    Returns:
        (n,) jobs, (n,) the position of the node of each among those asked for, (n, resource) what each holds.

    Complexity: O(jobs) in NumPy.
    """
    live = state.live
    position = np.full(len(state.clusters.nodes[cluster].names) + 1, -1, dtype=np.int32)  # the last is of no node
    position[nodes] = np.arange(nodes.size, dtype=np.int32)
    slots = true_places(live.cluster == cluster).astype(np.int32)
    gangs = slots[live.members.has(slots)] if len(live.members) else slots[:0]
    slots = slots[(live.handle[slots] >= 0) & (position[live.node[slots]] >= 0)]
    slots = slots[~state.stage_is_queued(slots) & ~IS_RUN_TERMINAL[live.run_state[slots]]]
    slots = slots[~are_among(slots, gangs)] if gangs.size else slots
    node, amount = position[live.node[slots]], state.job_vectors(slots)
    if gangs.size:
        places, rows = live.members.rows(gangs)
        there = (position[live.members.node[rows]] >= 0) & ~IS_RUN_TERMINAL[live.members.state[rows]]
        places, rows = places[there], rows[there]
        node = np.concatenate([node, position[live.members.node[rows]]])
        amount = np.concatenate([amount, member_vectors(state, gangs[places], rows)])
        slots = np.concatenate([slots, gangs[places]])
    return slots, node, amount


def find_work(state: PoolState, cluster: int, nodes: Int32s, now_s: float) -> WorkEnds:
    """Return what of the pool's runs is on some nodes of a cluster, see `find_held`, and when it ends: with its run.

    Args:
        state: The pool.
        cluster: Cluster index.
        nodes: Node name indices, each once.
        now_s: Now.

    Complexity: O(jobs) in NumPy.
    """
    live, (slots, node, amount) = state.live, find_held(state, cluster, nodes)
    start_s = live.start_time_us[slots] / 1e6
    start_s[start_s <= 0] = now_s
    firm_s = start_s + latest_run_time_s(state, slots)
    expected_s = start_s + expected_run_time_s(state, slots, np.maximum(now_s - start_s, 0.0))
    # What should have ended and has not is of no known end.
    firm_s[firm_s < now_s] = np.inf
    return WorkEnds(
        slots=slots,
        node=node,
        amount=amount,
        firm_s=firm_s,
        expected_s=np.minimum(expected_s, firm_s),
    )


def allocatable_of(state: PoolState, cluster: int, nodes: Int32s) -> Int64s:
    """Return (node, resource) what nodes of a cluster have, in axis order; nothing of those that it has not told of.

    Args:
        state: The pool.
        cluster: Cluster index.
        nodes: Node name indices.
    """
    clusters = state.clusters
    by_sampler = clusters.nodes[cluster].by_sampler[: len(clusters.allocatable[cluster])]
    rows = np.full(len(clusters.nodes[cluster].names) + 1, -1, dtype=np.int64)  # the last is of no node
    rows[by_sampler] = np.arange(by_sampler.size)
    rows[-1] = -1
    amounts = np.zeros((nodes.size, len(clusters.resources[cluster])), dtype=np.int64)
    known = rows[nodes] >= 0
    amounts[known] = clusters.allocatable[cluster][rows[nodes[known]]]
    return state.in_axis_order(amounts, clusters.resources[cluster])


def free_beside(state: PoolState, cluster: int, nodes: Int32s, *, free: Int64s, work: WorkEnds) -> Int64s:
    """Return what is free on nodes beside work that counts as being there.

    A sampler sees a pod end before its executor has told. What such a run has left must not count twice, as free and as
    what it will give back.

    Args:
        state: The pool.
        cluster: Cluster index.
        nodes: n node name indices.
        free: (n, r) what its sampler says is free on each.
        work: The work on these nodes.
    """
    left = allocatable_of(state, cluster, nodes)[:, : free.shape[1]]
    np.subtract.at(left, work.node, work.amount[:, : free.shape[1]])
    return np.minimum(free, left)

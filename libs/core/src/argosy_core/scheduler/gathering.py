"""Nodes that are kept together for a gang that waits: otherwise small jobs would take whatever comes free.

The first waiting head that is a gang and has found no room for `promise_after_s` has nodes of one cluster gathered:
those of which the least must come free, as its sampler says. No other job of the pool is placed on them until the gang
has started, wherever that is, or has waited so for an hour; then they are chosen anew. One gang of a pool gathers at a
time, since what is kept stands partly idle. The next leader gathers anew.

It is no promise: no moment is told at which so many nodes are free together.

Source: 003 "Distributed jobs"; design section 5, "Round" 5; decision 0018.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from argosy_core.arrays import Int32s, Int64s
from argosy_core.job.live import BACKING_OFF, HELD
from argosy_core.placement import CandidatePool, WaitReason
from argosy_core.scheduler.promised import GatheredNodes
from argosy_core.scheduler.promises import CouldHold
from argosy_core.scheduler.state import PoolState

__all__ = ["find_gathering", "gather", "gathered_entries", "review_gathered"]

_KEPT_S: Final = 3600.0
"""How long nodes are kept for one gang: what runs there may never end."""
_ANY_COUNT: Final = -2
"""No count of what samplers told: it is asked again whether they told anything or not."""
_NOBODY: Final = np.zeros(0, dtype=np.int32)


def review_gathered(state: PoolState, now_s: float) -> None:
    """Let go of what was kept for a gang that has started, has left, may not start, or has had it for long."""
    gathered = state.promises.gathered
    if gathered is None:
        return
    slot = int(state.live.slots(np.array([gathered.handle], dtype=np.int64))[0])
    one = np.array([slot], dtype=np.int32)
    waits = slot >= 0 and bool(state.stage_is_queued(one)[0]) and not state.live.flags[slot] & HELD
    if not waits or state.queues.cordoned[state.live.queue[slot]] or now_s >= gathered.until_s:
        state.promises.gathered = None
        state.waits.end(WaitReason.PROMISED, np.array([gathered.cluster]))
        state.change_count += 1


def find_gathering(state: PoolState, now_s: float) -> Int32s:
    """Return the slot of the gang for which it is to be asked now which nodes could be kept; none if nobody is due."""
    if state.promises.gathered is not None or not state.classes.gangs or state.settings.promised_nodes_ratio == 0:
        return _NOBODY
    slots = state.live.slots(state.heads)
    slots = slots[(slots >= 0) & state.classes.are_gangs(state.live.class_index[slots])]
    for slot in slots.tolist():
        is_due = state.promises.is_due(
            int(state.live.handle[slot]),
            now_s,
            after_s=state.settings.promise_after_s,
            again_s=state.settings.promise_after_s,
            told_count=_ANY_COUNT,
        )
        if is_due and not state.queues.cordoned[state.live.queue[slot]] and not state.live.flags[slot] & BACKING_OFF:
            return np.array([slot], dtype=np.int32)
    return _NOBODY


def gather(state: PoolState, slots: Int32s, told: Sequence[CouldHold], now_s: float) -> None:
    """Keep nodes for a gang, those of the cluster with the fewest runs on them; none that are promised to others.

    Args:
        state: The pool.
        slots: The gang, if it was asked for one.
        told: What samplers said.
        now_s: Now.

    Complexity: O(live jobs) in NumPy for each cluster.
    """
    live, best = state.live, math.inf
    slots = slots[state.stage_is_queued(slots)]
    for slot in slots.tolist():
        for one in told:
            nodes = _told_nodes(state, one, int(live.class_index[slot]))
            if not nodes.size or np.isin(nodes, state.promises.nodes_of(one.cluster)).any():
                continue
            held = live.live_members(
                np.flatnonzero((live.cluster == one.cluster) & (live.handle >= 0)).astype(np.int32)
            )
            count = int(np.isin(held.node, nodes).sum())
            if count < best:
                best = count
                names = state.clusters.nodes[one.cluster].names
                state.promises.gathered = GatheredNodes(
                    handle=int(live.handle[slot]),
                    cluster=one.cluster,
                    nodes=tuple(names[node] for node in nodes.tolist()),
                    until_s=now_s + _KEPT_S,
                )
                state.change_count += 1


def _told_nodes(state: PoolState, told: CouldHold, class_index: int) -> Int32s:
    """Return the nodes that a sampler names for a gang; none if one of them is not known."""
    rows, offset = np.flatnonzero(told.classes == class_index), told.reply.could_hold_offset
    if not rows.size or not offset.size:
        return _NOBODY
    at = told.reply.could_hold[offset[rows[0]] : offset[rows[0] + 1]]
    nodes = state.clusters.nodes[told.cluster].translate(told.reply.node[at])
    return nodes if (nodes >= 0).all() else _NOBODY


def gathered_entries(state: PoolState, pool: CandidatePool) -> frozenset[int]:
    """Return the entries of the candidates of a round, merged, that are kept for a gang."""
    gathered = state.promises.gathered
    if gathered is None:
        return frozenset()
    names = state.clusters.nodes[gathered.cluster]
    at: Int64s = np.flatnonzero((pool.cluster == gathered.cluster) & (pool.node >= 0))
    kept = names.intern(gathered.nodes)
    return frozenset(at[np.isin(names.translate(pool.node[at]), kept)].tolist())

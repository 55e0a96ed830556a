"""Nodes that are kept together for a gang that waits: otherwise small jobs would take whatever comes free.

The first waiting head that is a gang and has found no room for `promise_after_s` has nodes of one cluster gathered:
those of which the least must come free, as its sampler says. No other job of the pool is placed on them until the gang
has started, wherever that is; then they are chosen anew. One gang of a pool gathers at a time, since what is kept
stands partly idle.

Where it is known when all that runs on these nodes has ended, the gang is promised a start then: firm if that follows
from time limits, else expected. Until then others may start there if their time limits end them by that moment. The
next leader keeps such a promise. Where it is not known, no moment is told, and the nodes are kept for an hour.

Source: 003 "Distributed jobs"; design section 5, "Round" 5; decision 0018.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from argosy_core.arrays import Int32s, Int64s
from argosy_core.backfill import PromiseKind
from argosy_core.job.tables.live import BACKING_OFF, HELD, PENDING
from argosy_core.placement import CandidatePool, WaitReason
from argosy_core.scheduler.backfill.promises import KEPT_S, CouldHold, count_broken
from argosy_core.scheduler.memory.promised import BrokenBy, GatheredNodes
from argosy_core.scheduler.memory.state import PoolState
from argosy_core.scheduler.memory.work_ends import WorkEnds, find_work
from argosy_core.scheduler.turns.prioritise import look_again

__all__ = ["find_gathering", "gather", "gathered_entries", "review_gathered"]

_ANY_COUNT: Final = -2
"""No count of what samplers told: it is asked again whether they told anything or not."""
_NOT_TOLD: Final = -1
"""A count of what samplers told that is never theirs: what comes next is news."""
_NOBODY: Final = np.zeros(0, dtype=np.int32)


def review_gathered(state: PoolState, now_s: float) -> None:
    """Let go of what was kept for a gang that has started, has left or may not start, and of what cannot be kept."""
    gathered = state.promises.gathered
    if gathered is None:
        return
    slot = int(state.live.slots(np.array([gathered.handle], dtype=np.int64))[0])
    one = np.array([slot], dtype=np.int32)
    if slot < 0 or state.live.flags[slot] & HELD or state.queues.cordoned[state.live.queue[slot]]:
        pass
    elif not state.stage_is_queued(one)[0]:
        state.totals["promises_kept"] += gathered.kind is not None
    elif not _has_nodes(state, gathered):
        _break(state, gathered, BrokenBy.CAPACITY)
    elif now_s < gathered.due_s:
        return
    else:
        _break(state, gathered, BrokenBy.LATE if state.clusters.connected[gathered.cluster] else BrokenBy.CAPACITY)
        if now_s < gathered.until_s:
            _renew(state, gathered, now_s)
            return
    state.promises.gathered = None
    state.promises.is_changed |= gathered.kind is not None
    state.promises.note_asked([gathered.handle], now_s, _NOT_TOLD)  # if it waits still, it is asked again soon
    state.live.flags[one[one >= 0]] &= np.uint8(0xFF ^ PENDING)  # until the next heads are elected
    state.waits.end(WaitReason.PROMISED, np.array([gathered.cluster]))
    state.change_count += 1


def _has_nodes(state: PoolState, gathered: GatheredNodes) -> bool:
    """Return whether the nodes that are kept may be given work, as far as their cluster is heard of."""
    clusters, index = state.clusters, gathered.cluster
    if index in clusters.forgotten:
        return False
    names = clusters.nodes[index]
    rows = np.flatnonzero(np.isin(names.by_sampler, names.intern(gathered.nodes)))
    return not clusters.connected[index] or (
        rows.size == len(gathered.nodes) and bool(clusters.ready[index][rows].all())
    )


def _renew(state: PoolState, gathered: GatheredNodes, now_s: float) -> None:
    """Keep the same nodes, which are nearly empty by now, with the moment that is expected next, if there is one."""
    nodes = state.clusters.nodes[gathered.cluster].intern(gathered.nodes)
    moment_s = float(find_work(state, gathered.cluster, nodes, now_s).expected_s.max(initial=-math.inf))
    kind = PromiseKind.EXPECTED if now_s < moment_s < math.inf else None
    state.promises.gathered = replace(gathered, kind=kind, moment_s=-math.inf if kind is None else moment_s)
    state.promises.is_changed |= gathered.kind is not None
    state.totals["promises_expected"] += kind is not None
    state.waits.end(WaitReason.PROMISED, np.array([gathered.cluster]))
    state.change_count += 1


def _break(state: PoolState, gathered: GatheredNodes, reason: BrokenBy) -> None:
    if gathered.kind is not None:
        count_broken(state, gathered.handle, gathered.kind, reason)


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
    """Keep nodes for a gang, those of the cluster that are free first; none that are promised to others.

    Args:
        state: The pool.
        slots: The gang, if it was asked for one.
        told: What samplers said.
        now_s: Now.

    Complexity: O(live jobs) in NumPy for each cluster.
    """
    live, best = state.live, (math.inf, math.inf)
    slots = slots[state.stage_is_queued(slots)]
    for slot in slots.tolist():
        for one in told:
            nodes = _told_nodes(state, one, int(live.class_index[slot]))
            if not nodes.size or np.isin(nodes, state.promises.nodes_of(one.cluster)).any():
                continue
            work = find_work(state, one.cluster, nodes, now_s)
            kind, moment_s = _all_ended(work, now_s)
            rank = (math.inf if kind is None else moment_s, work.slots.size)
            if rank < best:
                best = rank
                names = state.clusters.nodes[one.cluster].names
                state.promises.gathered = GatheredNodes(
                    handle=int(live.handle[slot]),
                    cluster=one.cluster,
                    nodes=tuple(names[node] for node in nodes.tolist()),
                    until_s=max(now_s, moment_s) + KEPT_S,
                    kind=kind,
                    moment_s=moment_s,
                )
                state.change_count += 1
        _note_given(state, slot)


def _all_ended(work: WorkEnds, now_s: float) -> tuple[PromiseKind | None, float]:
    """Return how it is known when all of some work has ended, and when; None if it is not known, or there is none."""
    for kind in PromiseKind:
        moment_s = float(work.ends_s(kind).max(initial=-math.inf))
        if now_s < moment_s < math.inf:
            return kind, moment_s
    return None, -math.inf


def _note_given(state: PoolState, slot: int) -> None:
    """Have a gang for which nodes are kept by now tried in every round, and count its promise if it has one."""
    gathered = state.promises.gathered
    if gathered is None:
        return
    state.live.flags[slot] |= PENDING
    look_again(state, int(state.live.queue[slot]))
    if gathered.kind is not None:
        state.totals[f"promises_{gathered.kind.name.lower()}"] += 1
        state.promises.is_changed = True


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

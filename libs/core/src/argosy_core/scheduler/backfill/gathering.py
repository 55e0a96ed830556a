"""Nodes that are kept together for gangs that wait: otherwise small jobs would take whatever comes free.

A waiting head that is a gang and has found no room for `promise_after_s` has nodes of one cluster gathered: those of
which the least must come free, as its sampler says, of those that are kept for nobody else. No other job of the pool is
placed on them until the gang has started, wherever that is. Several gangs gather at a time, each nodes of its own, so
that one which waits long holds up nobody who may start elsewhere. What is kept stands partly idle; so those that came
after the first get no more than half of what it leaves, and 16 gangs at most gather at once.

Where it is known when all that runs on these nodes has ended, the gang is promised a start then: firm if that follows
from time limits, else expected. Until then others may start there if their time limits end them by that moment. The
next leader keeps such a promise. Where it is not known, no moment is told, and the nodes are kept for an hour.

Source: 003 "Distributed jobs"; design section 5, "Round" 5; decision 0018.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from argosy_core.arrays import Int32s, Int64s
from argosy_core.backfill import PromiseKind
from argosy_core.job.tables.live import BACKING_OFF, HELD, PENDING
from argosy_core.placement import CandidatePool, WaitReason
from argosy_core.scheduler.backfill.clearing import CLEARED_S, Clearing, find_clearing
from argosy_core.scheduler.backfill.promises import KEPT_S, CouldHold, count_broken
from argosy_core.scheduler.memory.promised import BrokenBy, GatheredNodes
from argosy_core.scheduler.memory.state import PoolState
from argosy_core.scheduler.memory.work_ends import WorkEnds, find_work
from argosy_core.scheduler.turns.prioritise import look_again

__all__ = ["find_gathering", "gather", "gathered_entries", "review_gathered"]

MOST_GATHERED: Final = 16
"""Gangs for which nodes are kept at once, at most."""
_FURTHER_RATIO: Final = 0.5
"""Part of the nodes that the first gang leaves over which others may have gathered; the rest is for small jobs."""
_ANY_COUNT: Final = -2
"""No count of what samplers told: it is asked again whether they told anything or not."""
_NOT_TOLD: Final = -1
"""A count of what samplers told that is never theirs: what comes next is news."""
_NOBODY: Final = np.zeros(0, dtype=np.int32)


def review_gathered(state: PoolState, now_s: float) -> None:
    """Let go of what was kept for gangs that have started, have left or may not start, and of what cannot be kept."""
    for gathered in tuple(state.promises.gathered.values()):
        _review(state, gathered, now_s)


def _review(state: PoolState, gathered: GatheredNodes, now_s: float) -> None:
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
    _let_go(state, gathered, now_s)


def _let_go(state: PoolState, gathered: GatheredNodes, now_s: float) -> None:
    """Keep no nodes for a gang any more; if it waits still, it is asked for again soon."""
    slot = state.live.slots(np.array([gathered.handle], dtype=np.int64))
    del state.promises.gathered[gathered.handle]
    if gathered.is_cleared:
        state.room.nominated.pop(gathered.handle, None)
    state.promises.is_changed |= gathered.kind is not None or gathered.is_cleared
    state.promises.note_asked([gathered.handle], now_s, _NOT_TOLD)
    state.live.flags[slot[slot >= 0]] &= np.uint8(0xFF ^ PENDING)  # until the next heads are elected
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
    moment_s = -math.inf if kind is None else moment_s
    state.promises.gathered[gathered.handle] = replace(gathered, kind=kind, moment_s=moment_s)
    state.promises.is_changed |= gathered.kind is not None
    state.totals["promises_expected"] += kind is not None
    state.waits.end(WaitReason.PROMISED, np.array([gathered.cluster]))
    state.change_count += 1


def _break(state: PoolState, gathered: GatheredNodes, reason: BrokenBy) -> None:
    if gathered.kind is not None:
        count_broken(state, gathered.handle, gathered.kind, reason)


def find_gathering(state: PoolState, now_s: float) -> Int32s:
    """Return the slot of the gang for which it is to be asked now which nodes could be kept; none if nobody is due.

    One that has nodes already is asked for again while runs may be stopped for it.
    """
    if not state.classes.gangs or state.settings.promised_nodes_ratio == 0:
        return _NOBODY
    new = set(state.heads.tolist()) if _left_count(state) >= 1 else set()
    slots = state.live.slots(np.append(state.heads, np.array([*state.promises.gathered], dtype=np.int64)))
    slots = slots[(slots >= 0) & state.classes.are_gangs(state.live.class_index[slots])]
    for slot in slots.tolist():
        handle = int(state.live.handle[slot])
        is_due = state.promises.is_due(
            handle,
            now_s,
            after_s=state.settings.promise_after_s,
            again_s=state.settings.promise_after_s,
            told_count=_ANY_COUNT,
        )
        is_due &= not state.queues.cordoned[state.live.queue[slot]] and not state.live.flags[slot] & BACKING_OFF
        if is_due and (handle in new or find_clearing(state, slot, now_s) is not None):
            return np.array([slot], dtype=np.int32)
    return _NOBODY


def _left_count(state: PoolState, handle: int | None = None) -> float:
    """Return how many more nodes may be gathered, beside those of one gang; any number for the first gang."""
    kept = [len(one.nodes) for one in state.promises.gathered.values() if one.handle != handle]
    if not kept:
        return math.inf
    count = int(state.clusters.node_count[state.clusters.usable()].sum())
    return 0.0 if len(kept) >= MOST_GATHERED else _FURTHER_RATIO * (count - kept[0]) - sum(kept[1:])


def gather(
    state: PoolState, slots: Int32s, told: Sequence[CouldHold], now_s: float, *, clearing: Clearing | None = None
) -> None:
    """Keep nodes for a gang, none that others have been given: where runs may be stopped for it, else those free first.

    Args:
        state: The pool.
        slots: The gang, if it was asked for one.
        told: What samplers said.
        now_s: Now.
        clearing: What may be stopped for it; without it a gang keeps the nodes that it has.

    Complexity: O(live jobs) in NumPy for each cluster.
    """
    for slot in slots[state.stage_is_queued(slots)].tolist():
        before = state.promises.gathered.get(int(state.live.handle[slot]))
        offers = [found for one in told if (found := _offer(state, slot, one, now_s, clearing=clearing)) is not None]
        if before is not None:
            offers = [one for one in offers if one.gathered.is_cleared]
        if not offers:
            continue
        best = min(offers, key=lambda one: one.rank)
        if clearing is not None:
            _take_from(state, clearing.givers - {best.gathered.handle}, best.gathered)
        state.promises.gathered[best.gathered.handle] = best.gathered
        state.promises.is_changed |= best.gathered.is_cleared or (before is not None and before.kind is not None)
        state.change_count += 1
        if clearing is not None and best.gathered.is_cleared:
            clearing.stop(state, best.victims, now_s)
        _note_given(state, slot, best.gathered)


def _take_from(state: PoolState, givers: frozenset[int], taken: GatheredNodes) -> None:
    """Let go of what is kept for gangs of which another one gets a node."""
    for gathered in [state.promises.gathered[handle] for handle in givers if handle in state.promises.gathered]:
        if gathered.cluster == taken.cluster and not set(taken.nodes).isdisjoint(gathered.nodes):
            _break(state, gathered, BrokenBy.SHARE)
            _let_go(state, gathered, state.flow_time_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Offer:
    """Nodes of one cluster that could be kept for a gang."""

    gathered: GatheredNodes
    """The nodes."""
    victims: Int32s
    """Jobs whose runs are to be stopped there."""
    rank: tuple[float, float, float]
    """The least is best: what can be cleared with the least lost work, then what is free first, then the emptiest."""


def _offer(state: PoolState, slot: int, told: CouldHold, now_s: float, *, clearing: Clearing | None) -> _Offer | None:
    """Return what could be kept for a gang of what a sampler said; None if nothing."""
    handle, names = int(state.live.handle[slot]), state.clusters.nodes[told.cluster]
    pods = _told_nodes(state, told, int(state.live.class_index[slot]))
    nodes = np.unique(pods)
    others = {one.handle: names.intern(one.nodes) for one in _others(state, handle, told.cluster)}
    promised = np.array(state.promises.nodes_of(told.cluster), dtype=np.int32)
    if not nodes.size or np.isin(nodes, promised).any():
        return None
    overlapping = {owner for owner, kept in others.items() if np.isin(nodes, kept).any()}
    cleared = None
    if clearing is not None and overlapping <= clearing.givers:
        cleared = clearing.choose(state, told, pods, now_s)
    if cleared is None and (overlapping or nodes.size > _left_count(state, handle)):
        return None
    gathered = GatheredNodes(
        handle=handle,
        cluster=told.cluster,
        nodes=tuple(names.names[node] for node in nodes.tolist()),
        until_s=now_s + CLEARED_S,
        is_cleared=True,
    )
    if cleared is not None:
        return _Offer(gathered=gathered, victims=cleared[0], rank=(0.0, cleared[1], 0.0))
    work = find_work(state, told.cluster, nodes, now_s)
    kind, moment_s = _all_ended(work, now_s)
    until_s = max(now_s, moment_s) + KEPT_S
    gathered = replace(gathered, until_s=until_s, kind=kind, moment_s=moment_s, is_cleared=False)
    rank = (1.0, math.inf if kind is None else moment_s, float(work.slots.size))
    return _Offer(gathered=gathered, victims=_NOBODY, rank=rank)


def _others(state: PoolState, handle: int, cluster: int) -> list[GatheredNodes]:
    return [one for one in state.promises.gathered.values() if one.handle != handle and one.cluster == cluster]


def _all_ended(work: WorkEnds, now_s: float) -> tuple[PromiseKind | None, float]:
    """Return how it is known when all of some work has ended, and when; None if it is not known, or there is none."""
    for kind in PromiseKind:
        moment_s = float(work.ends_s(kind).max(initial=-math.inf))
        if now_s < moment_s < math.inf:
            return kind, moment_s
    return None, -math.inf


def _note_given(state: PoolState, slot: int, gathered: GatheredNodes) -> None:
    """Have a gang for which nodes are kept by now tried in every round, and count its promise if it has one."""
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


def gathered_entries(state: PoolState, pool: CandidatePool) -> dict[int, frozenset[int]]:
    """Return by handle of gangs the entries of the candidates of a round, merged, that are kept for them, if any."""
    found: dict[int, frozenset[int]] = {}
    for handle, gathered in state.promises.gathered.items():
        names = state.clusters.nodes[gathered.cluster]
        at: Int64s = np.flatnonzero((pool.cluster == gathered.cluster) & (pool.node >= 0))
        kept = names.intern(gathered.nodes)
        entries = at[np.isin(names.translate(pool.node[at]), kept)].tolist()
        if entries:
            found[handle] = frozenset(entries)
    return found

"""Promised starts: who has one, when it ends, and who is given the next.

A waiting head that no room was found for within `promise_after_s` is promised the earliest moment at which a node has
room for it, and that node, if more than one run has to end there for that. Samplers say which nodes could hold it if
nothing else ran there and what is free on each; when the pool's own runs give back what they hold there is known here
(`work_ends`). The promise stands until its job starts or leaves, or until it cannot be kept: the node is gone or
smaller, or the moment has passed. Then it is told as broken, and given anew.

Of a hundred nodes five are promised at once (`promised_nodes_ratio`), of a pool of any size one at least and 32 at
most, each to one job: emptying a node costs what stands idle meanwhile. Queues below their shares are promised what
they are short of (`growing`).

Source: design section 5, "Round" 5; section 7, invariant 13; decision 0017.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from argosy_core.arrays import Bools, Float64s, Int32s, Int64s
from argosy_core.backfill import PromiseKind, Releases, find_earliest
from argosy_core.job.tables.live import BACKING_OFF, HELD, PENDING
from argosy_core.placement import SampleReply, WaitReason
from argosy_core.queueing import to_cores
from argosy_core.scheduler.backfill.growing import find_growth
from argosy_core.scheduler.columns.messages import PromiseColumns
from argosy_core.scheduler.memory.promised import BrokenBy, GatheredNodes, PromisedStart
from argosy_core.scheduler.memory.state import PoolState
from argosy_core.scheduler.memory.work_ends import WorkEnds, expected_run_time_s, find_work, free_beside
from argosy_core.scheduler.turns.making_room import NOMINATED_S
from argosy_core.scheduler.turns.prioritise import look_again, waiting_of
from argosy_core.scheduler.turns.shares import room_below_share

__all__ = [
    "CouldHold",
    "count_broken",
    "find_due",
    "give_promises",
    "note_heads",
    "plan_asking",
    "recover_promises",
    "review_promises",
    "stored_promises",
]

_MOST_LOOKED_AT: Final = 64
"""Runs of a class that are looked at, the oldest ones."""
_SOON_S: Final = 10.0
"""A head of whose class a run ends within this needs no promise: as long as a reason to wait holds by default."""
KEPT_S: Final = 3600.0
"""How long nodes are kept for one gang without a moment that is known: what runs there may never end."""
CLEARED: Final = 3
"""Stored beside kinds of promises: the node is kept for a gang for which runs were stopped there, until a moment."""
_NEVER_FREE: Final = np.iinfo(np.int64).min // 2
MOST_PROMISES: Final = 32
"""Promises that stand at once, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CouldHold:
    """A sampler's word on which nodes could hold classes if nothing else ran there."""

    cluster: int
    """Cluster index."""
    classes: Int64s
    """Class indices in the order of the answer, -1 for those that were forgotten."""
    reply: SampleReply
    """The answer."""


def _quota(state: PoolState) -> int:
    """Return how many promises may stand at once."""
    ratio = state.settings.promised_nodes_ratio
    count = int(state.clusters.node_count[state.clusters.usable()].sum())
    return min(MOST_PROMISES, max(1, math.ceil(ratio * count))) if ratio > 0 and count else 0


def find_due(state: PoolState, now_s: float) -> Int32s:
    """Return the jobs for which it is to be asked now where they could start.

    These are waiting heads, and behind those of queues below their shares the jobs that it takes to reach these.
    """
    table, settings = state.promises, state.settings
    told_count = _told_count(state)
    due = [
        handle
        for handle in _single_heads(state)
        if handle not in table.standing
        and table.is_due(
            handle,
            now_s,
            after_s=settings.promise_after_s,
            again_s=settings.promise_after_s,
            told_count=told_count,
        )
    ]
    slots = state.live.slots(np.array(due, dtype=np.int64))
    slots = slots[slots >= 0]
    slots = slots[state.stage_is_queued(slots) & ~state.queues.cordoned[state.live.queue[slots]]]
    if not slots.size or settings.promised_nodes_ratio == 0 or table.is_choice_old:
        return slots[:0]
    room = room_below_share(state)
    is_below = room[state.live.queue[slots]] >= to_cores(state.job_usage(slots))
    growing, others = slots[is_below], slots[~is_below]
    soon = np.array([_has_room_soon(state, slot, now_s) for slot in others.tolist()], dtype=np.bool_)
    table.note_asked(state.live.handle[others[soon]].tolist(), now_s, told_count)
    others = others[~soon][: max(_quota(state) - len(table.standing), 0)]
    left = max(MOST_PROMISES - len(table.standing) - growing.size - others.size, 0)
    return np.concatenate([growing, others, find_growth(state, growing, room, left)])


def note_heads(state: PoolState, now_s: float) -> None:
    """Take note of who is a waiting head now, and of when it is next to be asked where one of them could start."""
    settings = state.settings
    live, slots = state.live, state.live.slots(state.heads)
    slots = slots[slots >= 0]
    kinds = zip(live.queue[slots].tolist(), live.class_index[slots].tolist(), strict=True)
    state.promises.note_heads(dict(zip(live.handle[slots].tolist(), kinds, strict=True)), now_s)
    state.promises.find_heads_due(
        state.heads.tolist() if settings.promised_nodes_ratio > 0 else [],
        now_s,
        after_s=settings.promise_after_s,
        again_s=settings.promise_after_s,
        told_count=_told_count(state),
    )


def _single_heads(state: PoolState) -> list[int]:
    """Return the waiting heads that are no gangs: those need room on several nodes, and a promise is kept by one."""
    slots = state.live.slots(state.heads)
    heads: list[int] = state.heads[~state.classes.are_gangs(state.live.class_index[slots])].tolist()
    return heads


def _has_room_soon(state: PoolState, slot: int, now_s: float) -> bool:
    """Return whether a run of a head's own class is expected to end soon: its room is the head's without a promise."""
    live = state.live
    like = np.flatnonzero((live.class_index == live.class_index[slot]) & (live.cluster >= 0)).astype(np.int32)
    like = like[(live.handle[like] >= 0) & (live.start_time_us[like] > 0)]
    like = like[np.argsort(live.start_time_us[like], kind="stable")[:_MOST_LOOKED_AT]]
    start_s = live.start_time_us[like] / 1e6
    end_s = start_s + expected_run_time_s(state, like, np.maximum(now_s - start_s, 0.0))
    return bool((end_s <= now_s + _SOON_S).any())


def _told_count(state: PoolState) -> int:
    """Return how often samplers have told what they have, sessions that began and ended included."""
    return int(state.clusters.told_count.sum() + state.clusters.session.sum())


def plan_asking(state: PoolState, slots: Int32s, now_s: float) -> tuple[Int32s, Bools]:
    """Return n class indices of heads, each once, and (n, cluster) whom to ask where these could start."""
    clusters = state.clusters
    classes = np.unique(state.live.class_index[slots])
    if not slots.size:
        return classes, np.zeros((0, len(clusters)), dtype=np.bool_)
    state.promises.note_asked(state.live.handle[slots].tolist(), now_s, _told_count(state))
    state.ensure_class_grid()
    reason = state.waits.reason[classes, : len(clusters)]
    where = ((reason == WaitReason.NO_ROOM) | (reason == WaitReason.NONE)) & clusters.usable()
    where &= (state.classes.node_needs(classes)[:, None] <= clusters.largest).all(axis=2)
    where &= ~clusters.delegated  # nobody but its sampler says who gets which of its nodes
    return classes, where


def review_promises(state: PoolState, now_s: float) -> None:
    """End the promises whose jobs have started or left, or that cannot be kept, and say when to look again."""
    table, live = state.promises, state.live
    for promise in tuple(table.standing.values()):
        slot = int(live.slots(np.array([promise.handle], dtype=np.int64))[0])
        one = np.array([slot], dtype=np.int32)
        if slot < 0 or state.queues.cordoned[live.queue[slot]] or live.flags[slot] & HELD:
            del table.standing[promise.handle]
        elif not state.stage_is_queued(one)[0]:
            state.totals["promises_kept"] += 1
            del table.standing[promise.handle]
            _hand_on(state, promise, slot)
        elif not _has_node(state, promise, state.requested_vectors(one)[0]):
            _break(state, promise, BrokenBy.CAPACITY)
        elif promise.moment_s < now_s:
            is_heard = bool(state.clusters.connected[promise.cluster])
            _break(state, promise, BrokenBy.LATE if is_heard else BrokenBy.CAPACITY)
            if is_heard and _renew(state, promise, now_s):
                _let_pass(state, promise)
                continue
        else:
            continue
        live.flags[one[one >= 0]] &= np.uint8(0xFF ^ PENDING)  # until the next heads are elected
        table.is_changed = True
        _let_pass(state, promise)
    ends = [math.nextafter(promise.moment_s, math.inf) for promise in table.standing.values()]
    table.due_s = min([math.inf, *(gathered.due_s for gathered in table.gathered.values()), *ends])


def _let_pass(state: PoolState, promise: PromisedStart) -> None:
    """Have the jobs asked for again that a promise kept from its node: it ended, or has a later moment."""
    state.waits.end(WaitReason.PROMISED, np.array([promise.cluster]))
    state.change_count += 1
    state.promises.is_choice_old = state.settings.promise_choice > 1


def _hand_on(state: PoolState, promise: PromisedStart, slot: int) -> None:
    """Give the node of a job that has started elsewhere to the next one like it, if its queue is short of that, too.

    Otherwise a queue that grows would lose a node that is nearly empty whenever one of its own jobs ends. What has been
    emptied there stands idle by now, so the queue is short of it if it is not above its share with it.
    """
    live, row, class_index = state.live, int(state.live.queue[slot]), int(state.live.class_index[slot])
    is_elsewhere = live.cluster[slot] != promise.cluster or live.node[slot] != promise.node
    if not is_elsewhere or promise.moment_s <= state.flow_time_s:
        return
    if following := waiting_of(state, row, class_index, 1, with_heads=True):
        handed = replace(promise, handle=int(live.handle[following[0]]))
        state.promises.standing[handed.handle] = handed
        if room_below_share(state)[row] >= 0:
            _give(state, handed, following[0])
        else:
            del state.promises.standing[handed.handle]


def _give(state: PoolState, promise: PromisedStart, slot: int) -> None:
    """Have a promise stand; its job is tried in every round from now on."""
    row = int(state.live.queue[slot])
    state.promises.note_given(promise, row, int(state.live.class_index[slot]))
    # Who is promised a start is no head or follower beside that.
    stay = state.heads != promise.handle
    state.heads, state.head_kinds = state.heads[stay], state.head_kinds[stay]
    state.promises.followers = [handle for handle in state.promises.followers if handle != promise.handle]
    state.live.flags[slot] |= PENDING
    state.totals[f"promises_{promise.kind.name.lower()}"] += 1
    look_again(state, row)


def _break(state: PoolState, promise: PromisedStart, reason: BrokenBy) -> None:
    """End a promise that cannot be kept; its job is looked after at once."""
    del state.promises.standing[promise.handle]
    count_broken(state, promise.handle, promise.kind, reason)


def count_broken(state: PoolState, handle: int, kind: PromiseKind, reason: BrokenBy) -> None:
    """Take note that a promise to a job could not be kept."""
    state.promises.broken[handle] = reason
    state.totals[f"promises_broken_{reason}"] += 1
    state.totals["firm_promises_broken"] += kind == PromiseKind.FIRM


def _renew(state: PoolState, promise: PromisedStart, now_s: float) -> bool:
    """Promise the same node anew while runs are left there; return whether there are any.

    Without it the node would be given away in the moment in which it is almost empty.
    """
    table, node = state.promises, np.array([promise.node], dtype=np.int32)
    expected_s = find_work(state, promise.cluster, node, now_s).expected_s
    expected_s = expected_s[np.isfinite(expected_s)]
    if expected_s.size:
        moment_s = max(float(expected_s.max()), now_s)
        table.standing[promise.handle] = replace(promise, kind=PromiseKind.EXPECTED, moment_s=moment_s)
        table.is_changed = True
        state.totals["promises_expected"] += 1
    return bool(expected_s.size)


def _has_node(state: PoolState, promise: PromisedStart, demand: Int64s) -> bool:
    """Return whether the promised node may be given work and is large enough, as far as its cluster is heard of."""
    clusters, index = state.clusters, promise.cluster
    if index in clusters.forgotten:
        return False
    if not clusters.connected[index]:
        return True
    rows = np.flatnonzero(clusters.nodes[index].by_sampler == promise.node)
    if not rows.size or not clusters.ready[index][rows[0]]:
        return False
    amounts = dict(zip(clusters.resources[index], clusters.allocatable[index][rows[0]].tolist(), strict=True))
    names = state.classes.axis.names
    return all(amounts.get(name, 0) >= needed for name, needed in zip(names, demand.tolist(), strict=True) if needed)


# --- the round state --------------------------------------------------------------------------------------------------


def stored_promises(state: PoolState) -> PromiseColumns:
    """Return the promises that stand, as the next leader takes them up; those of gangs have a row for each node."""
    clusters, names = state.clusters, state.clusters.nodes
    rows = [
        (one.handle, int(one.kind), one.moment_s, one.cluster, names[one.cluster].names[one.node])
        for one in state.promises.standing.values()
    ]
    for gathered in state.promises.gathered.values():
        kind, time_s = gathered.kind, gathered.moment_s
        if gathered.is_cleared or kind is not None:
            told = (CLEARED, gathered.until_s) if gathered.is_cleared or kind is None else (int(kind), time_s)
            rows += [(gathered.handle, *told, gathered.cluster, node) for node in gathered.nodes]
    return PromiseColumns(
        handle=np.array([row[0] for row in rows], dtype=np.int64),
        kind=np.array([row[1] for row in rows], dtype=np.int8),
        time_us=np.array([round(row[2] * 1e6) for row in rows], dtype=np.int64),
        clusters=tuple(clusters.names[row[3]] for row in rows),
        nodes=tuple(row[4] for row in rows),
    )


def recover_promises(state: PoolState, stored: PromiseColumns) -> None:
    """Take up what the last leader promised to jobs that wait still; `review_promises` ends what is not to be kept.

    A promise of a kind that is not known, or on a node of a cluster that is not, is left out.
    """
    slots, kinds = state.live.slots(stored.handle), set(PromiseKind)
    columns = (slots.tolist(), stored.kind.tolist(), stored.time_us.tolist(), stored.clusters, stored.nodes)
    for slot, kind, time_us, cluster, node in zip(*columns, strict=True):
        index, one = state.clusters.find(cluster), np.array([slot], dtype=np.int32)
        if index is None or slot < 0 or not state.stage_is_queued(one)[0]:
            continue
        handle, is_gang = int(state.live.handle[slot]), bool(state.classes.are_gangs(state.live.class_index[one])[0])
        if is_gang and (kind in kinds or kind == CLEARED):
            _recover_gathered(state, (handle, kind, time_us / 1e6, index, node))
        elif not is_gang and kind in kinds and len(state.promises.standing) < MOST_PROMISES:
            state.promises.standing[handle] = PromisedStart(
                handle=handle,
                kind=PromiseKind(kind),
                moment_s=time_us / 1e6,
                cluster=index,
                node=int(state.clusters.nodes[index].intern([node])[0]),
            )
        else:
            continue
        state.live.flags[slot] |= PENDING
    state.promises.due_s = -math.inf if state.promises.keep_nodes else math.inf


def _recover_gathered(state: PoolState, stored: tuple[int, int, float, int, str]) -> None:
    """Keep a node for a gang, with those that came before: (handle, kind, moment or until when, cluster, node)."""
    handle, kind, time_s, cluster, node = stored
    known = state.promises.gathered.get(handle)
    is_cleared = kind == CLEARED
    state.promises.gathered[handle] = GatheredNodes(
        handle=handle,
        cluster=cluster,
        nodes=(*(() if known is None else known.nodes), node),
        until_s=time_s if is_cleared else time_s + KEPT_S,
        kind=None if is_cleared else PromiseKind(kind),
        moment_s=-math.inf if is_cleared else time_s,
        is_cleared=is_cleared,
    )
    if is_cleared:
        # Stops of which no executor heard are sent again after that: those who ended or are ending make room first.
        state.room.nominated[handle] = min(time_s, state.flow_time_s + NOMINATED_S)


# --- giving -----------------------------------------------------------------------------------------------------------


def give_promises(state: PoolState, slots: Int32s, told: Sequence[CouldHold], *, leased: Int32s, now_s: float) -> None:
    """Promise starts to waiting heads, in their order, as far as samplers said where.

    Args:
        state: The pool.
        slots: Heads for which it was asked in this round.
        told: What samplers said.
        leased: What this round placed after that was said: it takes of what they told to be free.
        now_s: Now.

    Complexity: O(slots x jobs) in NumPy.
    """
    places: dict[int, _Places] = {}
    room = room_below_share(state) if slots.size else np.zeros(0)
    finds_room: set[tuple[int, int]] = set()
    for slot in slots[_still_wait(state, slots)].tolist():
        if len(state.promises.standing) >= MOST_PROMISES:
            return
        class_index, queue = int(state.live.class_index[slot]), int(state.live.queue[slot])
        if (queue, class_index) in finds_room:
            continue  # as the one before it
        if class_index not in places:
            places[class_index] = _Places(state, class_index, told, leased=leased, now_s=now_s)
        promise = places[class_index].promise(state, slot, room)
        if promise is None:
            finds_room.add((queue, class_index))
        else:
            _give(state, promise, slot)
            room[queue] -= float(to_cores(state.job_usage(np.array([slot], dtype=np.int32)))[0])
            for others in places.values():
                others.take(promise.cluster, promise.node)


def _still_wait(state: PoolState, slots: Int32s) -> Bools:
    """Return which of the jobs that it was asked for wait still, and for want of room."""
    return np.asarray(state.stage_is_queued(slots) & (state.live.flags[slots] & (HELD | BACKING_OFF) == 0))


class _Places:
    """Where jobs of a class could start: nodes that nobody was promised, what is free there, and what runs."""

    def __init__(
        self, state: PoolState, class_index: int, told: Sequence[CouldHold], *, leased: Int32s, now_s: float
    ) -> None:
        """Join what samplers said to what is known of the pool's runs."""
        width = len(state.classes.axis)
        self._now_s = now_s
        self._row_of: dict[tuple[int, int], int] = {}
        frees, works, begins = [np.zeros((0, width), dtype=np.int64)], [], []
        for one in told:
            nodes, free = _could_hold(state, one, class_index)
            nodes, free = nodes[nodes >= 0], free[nodes >= 0]
            work = find_work(state, one.cluster, nodes, now_s)
            new = np.isin(work.slots, leased)
            np.subtract.at(free, work.node[new], work.amount[new])
            free = free_beside(state, one.cluster, nodes, free=free, work=work)
            begins.append(len(self._row_of))
            self._row_of.update({(one.cluster, node): begins[-1] + at for at, node in enumerate(nodes.tolist())})
            frees.append(free)
            works.append(work)
        self._places = list(self._row_of)
        self._free = np.concatenate(frees)
        self._owner = np.concatenate([np.zeros(0, dtype=np.int32), *(state.live.queue[work.slots] for work in works)])
        self._releases = [_releases(works, begins, kind, width) for kind in PromiseKind]
        for promise in state.promises.standing.values():
            self.take(promise.cluster, promise.node)
        for kept in state.promises.gathered.values():
            for node in state.clusters.nodes[kept.cluster].intern(kept.nodes).tolist():
                self.take(kept.cluster, node)

    def take(self, cluster: int, node: int) -> None:
        """Leave a node to somebody."""
        row = self._row_of.get((cluster, node))
        if row is not None:
            self._free[row] = _NEVER_FREE

    def promise(self, state: PoolState, slot: int, room: Float64s) -> PromisedStart | None:
        """Return the earliest start of a job: firm if it can be, else expected; None if it needs no promise.

        Unless `promise_one_run` says otherwise, it needs none where it has room as soon as a single run has ended: as a
        waiting head it gets that by itself, unless smaller jobs take it piece by piece. Others are not promised that
        place either.

        Args:
            state: The pool.
            slot: The job.
            room: How far each queue is below its share, cores. What a run of such a queue gives back is for its next
                job: who waits for that would wait for ever.
        """
        demand = state.requested_vectors(np.array([slot], dtype=np.int32))[0]
        free = self._free
        for kind, releases in zip(PromiseKind, self._releases, strict=True):
            if room[state.live.queue[slot]] > 0:
                free = self._free.copy()
                alone = (free[releases.node] + releases.amount >= demand).all(axis=1) & (room[self._owner] >= 0)
                free[releases.node[alone]] = _NEVER_FREE
            found = find_earliest(free, releases, demand, now_s=self._now_s)
            if found is None:
                continue
            row = int(found.nodes[0])
            cluster, node = self._places[row]
            if found.moment_s <= self._now_s or (
                not state.settings.promise_one_run
                and _has_room_by_one(free[row], releases, demand, node=row, moment_s=found.moment_s)
            ):
                self.take(cluster, node)
                return None
            moment_s = found.moment_s
            if kind == PromiseKind.FIRM:
                moment_s += state.settings.promise_slack_ratio * (moment_s - self._now_s)
            handle = int(state.live.handle[slot])
            return PromisedStart(handle=handle, kind=kind, moment_s=moment_s, cluster=cluster, node=node)
        return None


def _has_room_by_one(free: Int64s, releases: Releases, demand: Int64s, *, node: int, moment_s: float) -> bool:
    """Return whether a job has room on a node as soon as a single run has ended there."""
    ends = (releases.node == node) & (releases.end_s <= moment_s)
    return bool((free + releases.amount[ends] >= demand).all(axis=1).any())


def _could_hold(state: PoolState, told: CouldHold, class_index: int) -> tuple[Int32s, Int64s]:
    """Return the nodes that could hold a class, and what is free on each in the order of the axis."""
    rows = np.flatnonzero(told.classes == class_index)
    offset, reply = told.reply.could_hold_offset, told.reply
    if not rows.size or not offset.size:
        return np.zeros(0, dtype=np.int32), np.zeros((0, len(state.classes.axis)), dtype=np.int64)
    at = reply.could_hold[offset[rows[0]] : offset[rows[0] + 1]]
    free = np.zeros((at.size, len(state.classes.axis)), dtype=np.int64)
    free[:, : reply.free.shape[1]] = reply.free[at]
    return state.clusters.nodes[told.cluster].translate(reply.node[at]), free


def _releases(works: Sequence[WorkEnds], begins: Sequence[int], kind: PromiseKind, width: int) -> Releases:
    """Return what comes free on all nodes together."""
    node = [work.node + begin for work, begin in zip(works, begins, strict=True)]
    return Releases(
        node=np.concatenate([np.zeros(0, dtype=np.int32), *node]).astype(np.int32),
        amount=np.concatenate([np.zeros((0, width), dtype=np.int64), *(work.amount for work in works)]),
        end_s=np.concatenate([np.zeros(0), *(work.ends_s(kind) for work in works)]),
    )

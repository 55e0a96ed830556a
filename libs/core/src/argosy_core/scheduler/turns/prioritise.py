"""Whose turn it is: the jobs that a round asks for, and the waiting heads.

Source: 003 "Global prioritisation", "Scheduler architecture"; design section 7, invariant 4.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from argosy_core.arrays import Bools, Int32s, Int64s, are_among, has_true, true_places
from argosy_core.job.tables.live import PENDING
from argosy_core.placement import KIND_BITS
from argosy_core.queueing import Filled, FillingLimits, FillingQueues, QueueTree, fill, flow_keys, most_usage, next_turn
from argosy_core.scheduler.columns.codes import REASON_NO_ROOM
from argosy_core.scheduler.memory.promised import GatheredNodes, PromisedStart
from argosy_core.scheduler.memory.state import PoolState
from argosy_core.scheduler.memory.work_ends import are_over
from argosy_core.scheduler.turns.asking import count_room, find_placeable, reasons_at
from argosy_core.scheduler.turns.head_choice import choose_of
from argosy_core.scheduler.turns.limits import Beyond, heads_of_each, heads_within
from argosy_core.scheduler.turns.shares import room_below_share
from argosy_core.scheduler.turns.turns import promised_slots, turn_size, turn_usage

__all__ = [
    "LEAST_JOBS",
    "choose_jobs",
    "elect_heads",
    "look_again",
    "next_in_queue",
    "queues_of",
    "queues_with_work",
    "waiting_of",
]

_SLACK: Final = 1.25
"""Jobs are asked for beyond what is free by so much, for what has come free by the time that they are committed."""
LEAST_JOBS: Final = 256
"""Jobs that are asked for however little is free: what is free is a sum, and not where the first jobs can use it."""
_MOST_CLAIMS: Final = 32
"""Jobs of a kind that a cap holds back and that are tried in every round, at most."""
_ROUND_VIEW: Final = 0
_HEAD_VIEW: Final = 1


def choose_jobs(state: PoolState) -> tuple[Int64s, Filled]:
    """Return the jobs to ask for, in the order in which they would be placed if every one fitted.

    Jobs are passed over that no cluster can be asked for, that back off, whose queue is cordoned, or that the limits of
    their queue hold back; waiting heads are always among the chosen, and count for no limit of the round. Nothing that
    others see is changed.

    Returns:
        Queue indices, and the jobs with positions among them.

    Complexity: as `queueing.fill`, and O(classes x clusters) in NumPy.
    """
    queues, live = state.queues, state.live
    classes, where = find_placeable(state)
    heads = state.pending_slots()
    nobody, nothing = np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int64)
    if not classes.size:
        return nothing, Filled(slots=nobody, rows=nothing, usage=nothing, classes=nobody)
    # A waiting head counts as of a class of its own, behind all others, so that it alone is taken of its class.
    head_class = state.classes.ids.end
    # Mostly whatever waits is wanted, and the class of each job need not be looked up.
    is_all_wanted = not has_true(state.classes.waiting_count[:head_class][~state.placeable])
    wanted = None if is_all_wanted else np.append(state.placeable, True)
    usage_limit = int(_SLACK * _free_usage(state, classes))
    limits = FillingLimits(
        usage_limit=usage_limit,
        min_count=LEAST_JOBS,
        max_count=state.settings.max_round_leases,
        room=np.zeros(head_class + 1, dtype=np.int64),
        waiting=np.append(state.classes.waiting_count[:head_class], heads.size),
        counted=np.append(state.placeable, False),
        expected_count=_expected_count(state, classes, usage_limit),
        kind_count=1 + len(state.promises.handles),
    )
    limits.room[classes] = count_room(state, classes, where)
    limits.room[head_class] = heads.size
    rows = queues_with_work(state, wanted=True)
    usages = np.append(state.classes.usage[classes], turn_size(state, heads))
    indices, usage = rows.tolist(), turn_usage(state)

    def look(positions: list[int], count: int) -> list[tuple[Int32s, bool]]:
        looked_at = [indices[position] for position in positions]
        found = heads_of_each(state, looked_at, count, wanted, view=_ROUND_VIEW, beyond_cap=Beyond.FOLLOWERS)
        for row, (slots, all_of_them) in zip(looked_at, found, strict=True):
            if not slots.size and all_of_them:
                queues.idle_at[row] = state.wake_count
        return found

    chosen = fill(
        FillingQueues(
            queue_id=queues.queue_id[rows],
            weight=queues.weight[rows],
            flow=queues.flow[rows],
            usage=usage[rows],
            least_usage=int(usages.min()),
            heads=look,
            job_usage=lambda slots: turn_size(state, slots),
            job_class=lambda slots: _job_kind(state, slots),
            tree=_tree(state, rows, usage),
            turn=state.round_number,
        ),
        limits,
    )
    return rows, Filled(
        slots=chosen.slots, rows=chosen.rows, usage=chosen.usage, classes=live.class_index[chosen.slots]
    )


def _job_kind(state: PoolState, slots: Int32s) -> Int32s:
    """Return the kind of jobs, as `FillingLimits` tells it: their class, and for how many promises they are over.

    What is free on a promised node may be closed to some jobs of a class and open to others. If all counted alike,
    those that stand first would be asked for alone, be kept from the node, and hide the others for ever.
    """
    classes, table = state.job_class(slots), state.promises
    if not table.keep_nodes:
        return classes
    promises: list[PromisedStart | GatheredNodes] = [*table.standing.values(), *table.gathered.values()]
    over_count = are_over(state, slots, promises, state.flow_time_s).sum(axis=1)
    head_class = state.classes.ids.end
    return np.where(classes < head_class, classes + over_count * (head_class + 1), classes).astype(np.int32)


def _free_usage(state: PoolState, classes: Int32s) -> float:
    """Return a bound for the usage of jobs of some classes that what is free can hold, micro-cores."""
    free = state.free_usage()
    if sum(cores > 0 for cores in state.weights.values.values()) < 2:
        return free  # the one resource that weighs is the bound
    return min(free, most_usage(state.usable_free(), state.classes.requests[classes], state.classes.usage[classes]))


def _expected_count(state: PoolState, classes: Int32s, usage_limit: int) -> int:
    """Return about how many jobs of some classes filling will choose: what is free by what one asks for on average."""
    waiting = state.classes.waiting_count[classes]
    mean = float(waiting @ state.classes.usage[classes]) / max(1, int(waiting.sum()))
    count = max(LEAST_JOBS, min(usage_limit / max(mean, 1.0), state.settings.max_round_leases))
    return int(min(count, waiting.sum()))


def queues_with_work(state: PoolState, *, wanted: bool = False) -> Int64s:
    """Return the indices of queues that are not cordoned and have queued jobs that are not on hold.

    Args:
        state: The pool.
        wanted: Leave out those of which nothing may be placed, as far as is known.
    """
    queues, end = state.queues, state.queues.ids.end
    chosen = (queues.queued_count[:end] > queues.on_hold_count[:end]) & ~queues.cordoned[:end]
    if wanted:
        chosen &= queues.idle_at[:end] != state.wake_count
    return true_places(chosen)


def _tree(state: PoolState, rows: Int64s, usage: Int64s) -> QueueTree | None:
    """Return what stands above some queues, whose usages may count more than is held."""
    queues = state.queues
    if not queues.branches:
        return None
    return queues.branches.tree(rows, queue_id=queues.queue_id, weight=queues.weight, flow=queues.flow, usage=usage)


def queues_of(state: PoolState, rows: Int64s, usage: Int64s | None = None) -> FillingQueues:
    """Return queues as they are now, for `queueing.walk`; with other usages if they are given."""
    queues = state.queues
    usage = turn_usage(state) if usage is None else usage
    return FillingQueues(
        queue_id=queues.queue_id[rows],
        weight=queues.weight[rows],
        flow=queues.flow[rows],
        usage=usage[rows],
        least_usage=0,
        heads=lambda _positions, _count: [],
        job_usage=lambda slots: turn_size(state, slots),
        job_class=state.job_class,
        tree=_tree(state, rows, usage),
        turn=state.round_number,
    )


def next_in_queue(state: PoolState, row: int, count: int, wanted: Bools | None) -> Int32s:
    """Return the next jobs of a queue, of some classes or of all, as far as its limits let them be tried."""
    return heads_within(state, row, count, wanted, view=_HEAD_VIEW)[0]


def waiting_of(
    state: PoolState,
    row: int,
    class_index: int,
    count: int,
    *,
    beyond_cap: Beyond = Beyond.NOBODY,
    with_heads: bool = False,
) -> list[int]:
    """Return the next jobs of a class in a queue that are promised nothing, `count` at least if there are so many.

    Args:
        state: The pool.
        row: Index of the queue.
        class_index: The class.
        count: How many are wanted.
        beyond_cap: Who is returned though a cap holds it back.
        with_heads: Whether waiting heads are among them.
    """
    head_class = state.classes.ids.end
    wanted = np.zeros(head_class + 1, dtype=np.bool_)
    wanted[[class_index, head_class]] = True
    taken = promised_slots(state)
    taken = taken if with_heads else np.append(taken, state.live.slots(state.heads))
    count += state.pending_slots().size
    slots, _ = heads_within(state, row, count, wanted, view=_HEAD_VIEW, beyond_cap=beyond_cap)
    return [int(slot) for slot in slots[~are_among(slots, taken)].tolist()]


def elect_heads(state: PoolState) -> None:
    """Choose anew which jobs are waiting heads: the next ones in fairness order over the pool that have no room.

    Two heads count for each other if nodes of one kind in some cluster may hold both as far as it has said; of any
    kind of nodes, at most `waiting_heads` heads are.

    Complexity: O(classes with queued jobs x clusters) in NumPy per head, and one call per queue whose turn may come
    first.
    """
    live, promises = state.live, state.promises
    end = state.classes.ids.end
    waiting = true_places((state.classes.waiting_count[:end] > 0) & ~state.placeable[:end])
    if not (waiting.size or state.heads.size or promises.handles or promises.followers or promises.kinds):
        return  # nobody was a head, and nobody becomes one
    before = state.pending_slots()
    live.flags[before] &= np.uint8(0xFF ^ PENDING)
    chosen: list[int] = []
    limit = state.settings.waiting_heads
    turns: Int64s | None = None
    promised = promised_slots(state)
    heads_at = np.zeros((len(state.clusters), KIND_BITS.size), dtype=np.int64)
    head_kinds = [np.zeros((0, len(state.clusters)), dtype=np.int64)]
    if limit and waiting.size:
        kinds = np.zeros((end, len(state.clusters)), dtype=np.int64)
        has_no_room = reasons_at(state, waiting) == REASON_NO_ROOM
        kinds[waiting] = np.where(has_no_room, state.waits.node_kinds[waiting, : len(state.clusters)], 0)
        turns = turn_usage(state)
        usage = turns.copy()
        while True:
            full = (heads_at >= limit) @ KIND_BITS
            wanted = np.asarray(kinds.any(axis=1) & ~(kinds & full).any(axis=1))
            slot = -1
            if has_true(wanted):
                slot = _first(state, wanted, usage, [*chosen, *promised.tolist()], turns=turns)
            if slot < 0:
                break
            chosen.append(slot)
            head_kinds.append(kinds[live.class_index[slot : slot + 1]])
            heads_at += (head_kinds[-1].T & KIND_BITS) != 0
            usage[live.queue[slot]] += state.classes.usage[live.class_index[slot]]
    slots = np.array(chosen, dtype=np.int32)
    live.flags[slots] |= PENDING
    live.flags[promised] |= PENDING
    state.heads, state.head_kinds = live.handle[slots], np.concatenate(head_kinds)
    followers = _followers(state, turns)
    live.flags[followers] |= PENDING
    promises.followers = live.handle[followers].tolist()
    if slots.size and (state.room.has_lifetimes or state.queues.preempts_endless or state.classes.elastic):
        state.room.due_s = 0.0  # the next round looks whether runs are to be stopped for them
    known = {*before.tolist(), *promised.tolist()}
    for slot in (slot for slot in (*chosen, *followers) if slot not in known):
        look_again(state, int(live.queue[slot]))


def look_again(state: PoolState, row: int) -> None:
    """Have the next round look at all jobs of a queue: one of them is to be tried in every round from now on."""
    state.queues.orders[row].look_again(_ROUND_VIEW)
    state.queues.idle_at[row] = -1


def _followers(state: PoolState, turns: Int64s | None) -> list[int]:
    """Return the next job of each kind that was promised starts of late, of queues at or below their shares.

    It is tried in every round, too, so that what a job of its kind leaves is offered to both it and others at once, and
    order decides: if others could be asked for alone, they would take a node piece by piece whoever's turn it is. That
    a cap holds it back is looked at when it is known what its queue's own runs have left (`limits.claims_within`).
    """
    if not state.promises.kinds:
        return []
    waiting = state.classes.waiting_count
    kinds = [kind for kind in state.promises.kinds if waiting[kind[1]] and not state.queues.cordoned[kind[0]]]
    if not kinds:
        return []
    room = room_below_share(state, turns)
    kinds = [kind for kind in kinds if room[kind[0]] >= 0]
    found: list[int] = []
    for row, class_index in kinds:
        count = _count_claims(state, row, class_index)
        found += waiting_of(state, row, class_index, count, beyond_cap=Beyond.EVERYBODY)[:count]
    return found


def _count_claims(state: PoolState, row: int, class_index: int) -> int:
    """Return how many jobs of a kind are tried in every round: one, and as many as it runs where a cap binds it.

    Where none does, others of the kind are among those that the round asks for in any case.
    """
    live, binds = state.live, state.caps.binds
    if row >= binds.size or not binds[row]:
        return 1
    count = int(np.count_nonzero((live.queue == row) & (live.class_index == class_index) & (live.cluster >= 0)))
    return min(max(count, 1), _MOST_CLAIMS)


def _first(state: PoolState, wanted: Bools, usage: Int64s, chosen: list[int], *, turns: Int64s) -> int:
    """Return the slot of the next job in fairness order of wanted classes, but those chosen; -1 if there is none.

    `turns` is `turn_usage`, and `usage` that with what was chosen.
    """
    queues, live = state.queues, state.live
    rows = queues_with_work(state)
    if queues.branches:
        return _first_below(state, wanted, usage, chosen)
    least = int(state.classes.usage[true_places(wanted)].min())
    weight, zero = queues.weight[rows], queues.weight[rows] <= 0
    earliest = flow_keys(queues.flow[rows], usage[rows] + least, weight)
    share = flow_keys(queues.flow[rows], turns[rows], weight)
    order = np.lexsort((queues.queue_id[rows], share, earliest, zero))
    best: tuple[tuple[bool, float, float, int], int] | None = None
    for position in order.tolist():
        row = int(rows[position])
        rank = float(share[position]), int(queues.queue_id[row])
        if best is not None and best[0] <= (bool(zero[position]), float(earliest[position]), *rank):
            break
        left = choose_of(state, row, wanted, [slot for slot in chosen if live.queue[slot] == row])
        if left.size:
            after = usage[row : row + 1] + state.job_usage(left)
            key = flow_keys(queues.flow[row : row + 1], after, weight[position : position + 1])
            turn = (bool(zero[position]), float(key[0]), *rank)
            if best is None or turn < best[0]:
                best = (turn, int(left[0]))
    return -1 if best is None else best[1]


def _first_below(state: PoolState, wanted: Bools, usage: Int64s, chosen: list[int]) -> int:
    """As `_first`, where queues stand below others: a turn depends on whole branches, so all queues are looked at."""
    live, rows = state.live, queues_with_work(state)
    heads: list[int] = []
    for row in rows.tolist():
        left = choose_of(state, row, wanted, [slot for slot in chosen if live.queue[slot] == row])
        heads.append(int(left[0]) if left.size else -1)
    slots = np.array(heads, dtype=np.int32)
    positions = true_places(slots >= 0)
    if not positions.size:
        return -1
    slots = slots[positions]
    jobs = Filled(slots=slots, rows=positions, usage=state.job_usage(slots), classes=live.class_index[slots])
    # Ties go by id in every round: of queues with equal flow another head each time would never be promised a start.
    return int(slots[next_turn(replace(queues_of(state, rows, usage), turn=0), jobs)])

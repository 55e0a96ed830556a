"""Preemption for the sake of fair shares: waiting heads of queues under their shares get room from queues over theirs.

Before a round, the waiting heads are looked at in fairness order. For one whose queue stays at or under its share with
it, the runs with the least lost work are stopped that make room for it on one node (`preemption.choose_victims`). They
are runs past their lifetimes, on nodes where a run of equal constraints is, so that the nodes surely match. The head is
*nominated* from then on: it counts as if it had what it waits for, and nothing else is stopped for it for a while. It
gets its node by a round, as any job, when the pods of the victims are gone. For gangs see `backfill.clearing`.

A queue may have the right that runs make room for its jobs which are not past their lifetimes yet, or have none. They
do so only if no others are enough, under the same rules of shares, and never those of queues that have the same right.

What is nominated is not stored: if the leader ends, the next one stops nobody for what is under way, since the victims'
ends make room for the same heads; it chooses anew if they still wait.

Source: 003 "Preemption"; design section 5, "Round" 7.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from argosy_core.arrays import Bools, Int32s, Int64s
from argosy_core.job.tables.live import CANCEL_REQUESTED, IN_FLIGHT, STOP_SENT, TIMED_OUT
from argosy_core.preemption import Candidates, Excess, choose_victims
from argosy_core.queueing import to_cores
from argosy_core.scheduler.memory.flows import counted_usage
from argosy_core.scheduler.memory.state import PoolState
from argosy_core.scheduler.runs.preempting import are_preempted, preempt
from argosy_core.scheduler.turns.growing import live_extras, take_back
from argosy_core.scheduler.turns.shares import fair_weights

__all__ = ["NOMINATED_S", "find_excess", "find_preemptible", "kinds_of_victims", "make_room", "nominate"]

NOMINATED_S: Final = 60.0
"""How long nothing else is stopped for a head: longer than the grace that most pods take."""
_NODE_BITS: Final = 32


def make_room(state: PoolState, now_s: float) -> None:
    """Stop runs for waiting heads; the round's plan carries the stops. Flows must be of now.

    Args:
        state: The pool, before a round.
        now_s: Now.

    Complexity: nothing while no run may be preempted or nothing waits for room; else O(jobs) in NumPy, and Python work
    per head.
    """
    state.room.due_s = math.inf
    may_preempt = state.room.has_lifetimes or state.queues.preempts_endless or state.classes.elastic
    heads = state.pending_slots() if may_preempt else np.zeros(0, dtype=np.int32)
    waiting = state.live.handle[heads].tolist()
    ends = {handle: state.room.nominated[handle] for handle in waiting if state.room.nominated.get(handle, 0.0) > now_s}
    state.room.nominated = ends
    if not heads.size:
        return
    state.room.due_s = min(ends.values(), default=math.inf)
    if state.classes.elastic and state.extras.settled_s <= now_s:
        _take_back_extras(state, heads, now_s)
    expired, others = find_preemptible(state, now_s, heads)
    if not expired.size and not others.size:
        return
    excess = find_excess(state, heads)
    candidates, classes = _candidates(state, np.concatenate([expired, others]), now_s)
    constraints = _constraints(state, np.append(classes, state.live.class_index[heads]))
    for slot, handle in zip(heads.tolist(), waiting, strict=True):
        if state.classes.are_gangs(state.live.class_index[slot : slot + 1])[0]:
            continue  # room on one node is none for a gang: its nodes are chosen by a sampler
        queue, one = int(state.live.queue[slot]), np.array([slot], dtype=np.int32)
        cores = float(to_cores(state.job_usage(one))[0])
        if handle in state.room.nominated or not excess.may_gain(queue, cores):
            continue
        wanted = constraints[int(state.live.class_index[slot])]
        equal = np.array([constraints[index] == wanted for index in classes.tolist()], dtype=np.bool_)
        fitting = np.isin(candidates.node, candidates.node[equal])
        victims = None
        for allowed in kinds_of_victims(state, queue, candidates.run, expired):
            left = candidates.only(fitting & allowed)
            victims = victims or choose_victims(state.requested_vectors(one)[0], queue, left, excess)
        if victims is None:
            continue
        runs = np.array(victims.runs, dtype=np.int32)
        nominate(state, slot, runs, until_s=now_s + NOMINATED_S, is_early=not np.isin(runs, expired).all())
        excess.note(queue, cores)
        for row, lost in zip(state.live.queue[runs].tolist(), to_cores(state.job_usage(runs)).tolist(), strict=True):
            excess.note(row, -lost)
        stay: Bools = ~np.isin(candidates.run, runs)
        candidates, classes = candidates.only(stay), classes[stay]


def _take_back_extras(state: PoolState, heads: Int32s, now_s: float) -> None:
    """Have extras of gangs stopped for heads that wait; whoever they make room for is nominated."""
    extras = live_extras(state)
    for slot in heads.tolist():
        handle = int(state.live.handle[slot])
        chosen = None if handle in state.room.nominated else take_back(state, slot, extras, now_s)
        if chosen is not None:
            extras = extras.take(~chosen)
            state.room.nominated[handle] = now_s + NOMINATED_S
            state.room.due_s = min(state.room.due_s, now_s + NOMINATED_S)


def nominate(state: PoolState, slot: int, runs: Int32s, *, until_s: float, is_early: bool) -> None:
    """Have runs stopped for a waiting job, and nothing else until a moment.

    Args:
        state: The pool.
        slot: The job.
        runs: Jobs whose runs are stopped.
        until_s: The moment, seconds since the Unix epoch.
        is_early: Whether some of them are not past their lifetimes.
    """
    handle, name = int(state.live.handle[slot]), state.queues.names[int(state.live.queue[slot])]
    why = " and may stop what is not past its lifetime" if is_early else ""
    preempt(state, runs, f"makes room for a job of queue {name}, which is under its share{why}")
    cleared_for = {run: head for run, head in state.room.cleared_for.items() if head in state.room.nominated}
    state.room.cleared_for = cleared_for | dict.fromkeys(state.live.handle[runs].tolist(), handle)
    state.room.nominated[handle] = until_s
    state.room.due_s = min(state.room.due_s, until_s)


def kinds_of_victims(state: PoolState, queue: int, runs: Int32s, expired: Int32s) -> Iterator[Bools]:
    """Return which runs may make room for jobs of a queue: those past their lifetimes, then all that may."""
    allowed: Bools = np.isin(runs, expired)
    yield allowed
    rights, live = state.queues, state.live
    if queue in rights.preempts_unexpired:
        peers = np.isin(live.queue[runs], [*rights.preempts_unexpired])
        allowed = allowed | ((live.lifetime_s[runs] >= 0) & ~peers)
    if queue in rights.preempts_endless:
        peers = np.isin(live.queue[runs], [*rights.preempts_endless])
        allowed = allowed | ((live.lifetime_s[runs] < 0) & ~peers)
    if queue in rights.preempts_unexpired or queue in rights.preempts_endless:
        yield allowed


def find_preemptible(state: PoolState, now_s: float, heads: Int32s) -> tuple[Int32s, Int32s]:
    """Return the runs that are past their lifetimes, and others if they may make room for some head.

    It is noted when the next run is past its lifetime.
    """
    live = state.live
    slots = live.live_slots()
    ends_anyway = CANCEL_REQUESTED | STOP_SENT | TIMED_OUT | IN_FLIGHT
    slots = slots[live.run_state[slots] > 0]
    slots = slots[(live.flags[slots] & ends_anyway) == 0]
    slots = slots[~are_preempted(state, slots)]
    rights = state.queues.preempts_unexpired | state.queues.preempts_endless
    is_limited = live.lifetime_s[slots] >= 0
    endless, slots = slots[~is_limited], slots[is_limited]
    least_s = np.maximum(live.lifetime_s[slots], state.settings.minimum_run_s)
    began_s = live.start_time_us[slots] / 1e6
    over_s = np.where(least_s == 0, 0.0, np.where(began_s > 0, began_s + least_s, math.inf))
    later = over_s[over_s > now_s]
    state.room.due_s = min(state.room.due_s, float(later.min(initial=math.inf)))
    ready = over_s <= now_s
    if rights.isdisjoint(live.queue[heads].tolist()):
        return slots[ready], endless[:0]
    return slots[ready], np.concatenate([slots[~ready], endless])


def _candidates(state: PoolState, slots: Int32s, now_s: float) -> tuple[Candidates, Int32s]:
    """Return the members of runs on nodes that may be given work, and the class of each."""
    live, clusters = state.live, state.clusters
    members = live.live_members(slots)
    of, cluster = members.slot, live.cluster[members.slot].astype(np.int64)
    usable = clusters.usable()[cluster]
    for index, names in state.room.cordoned_nodes.items():
        known = clusters.nodes[index].names
        cordoned = [node for node in np.unique(members.node[cluster == index]).tolist() if known[node] in names]
        usable &= ~((cluster == index) & np.isin(members.node, cordoned))
    for gathered in state.promises.gathered.values():  # what comes free there is for a gang
        kept = clusters.nodes[gathered.cluster].intern(gathered.nodes)
        usable &= ~((cluster == gathered.cluster) & np.isin(members.node, kept))
    began_s = live.start_time_us[of] / 1e6
    # A member that was shrunk holds less than its class asks for.
    of_class = state.classes.member_indices(live.class_index[of], members.keys.numbers())
    amounts = np.minimum(state.classes.requests[of_class], state.job_vectors(of))
    candidates = Candidates(
        run=of,
        queue=live.queue[of],
        node=cluster << _NODE_BITS | members.node,
        amounts=amounts,
        cores=to_cores(state.job_usage(of)),
        elapsed_s=np.where(began_s > 0, np.maximum(now_s - began_s, 0.0), 0.0),
    )
    return candidates.only(usable), live.class_index[of][usable]


def _constraints(state: PoolState, classes: Int64s) -> dict[int, object]:
    """Return by class index all that decides where its pods may run, but for how much they ask for."""
    return {
        index: replace(state.classes.definition(int(state.classes.class_id[index])), requests=())
        for index in np.unique(classes).tolist()
    }


def find_excess(state: PoolState, heads: Int32s) -> Excess:
    """Return how far queues are over their shares, as if what is under way had been done."""
    queues, live = state.queues, state.live
    usage = to_cores(counted_usage(state))
    has_work = queues.queued_count - queues.on_hold_count + queues.leased_count > 0
    excess = Excess(
        queues.flow,
        usage,
        weight=fair_weights(state, has_work),
        has_work=has_work,
        # Where something waits for room that is all that can be shared: a pool may be full of one resource alone.
        capacity_cores=float(usage.sum()),
    )
    going = live.slots(np.array([*state.room.preempted], dtype=np.int64))
    going = going[going >= 0]
    coming = heads[np.isin(live.handle[heads], np.array([*state.room.nominated], dtype=np.int64))]
    for slots, sign in ((going, -1.0), (coming, 1.0)):
        for queue, cores in zip(live.queue[slots].tolist(), to_cores(state.job_usage(slots)).tolist(), strict=True):
            excess.note(queue, sign * cores)
    return excess

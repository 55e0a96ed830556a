"""Preemption for gangs: runs are stopped on several nodes, so that a gang whose queue is under its share fits there.

Which runs may go follows the rules of `making_room`: those past their lifetimes, of queues that stay at their shares
without them, and only as long as the flow of the gang's queue stays at or under its share with it. Extras of other
gangs are taken back before. The leader names such runs to the sampler, those with the least lost work per core first,
behind what ends already; the sampler chooses nodes that hold the gang without the first few. Of the runs there those
are stopped whole whose room is needed. The gang is *nominated*, the nodes are kept for it and for nobody else until it
starts, and it is placed by a round when the pods are gone.

The next leader keeps the same nodes, as it keeps promises, and stops nothing else for a minute. It does not know which
runs end by now; if the gang waits still, it chooses anew, and what has come free counts first.

Source: 003 "Preemption", "Distributed jobs"; design section 5, "Round" 7; decision 0018.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from argosy_core.arrays import Int32s, Int64s
from argosy_core.backfill import PromiseKind
from argosy_core.job.tables.live import CANCEL_REQUESTED, IN_FLIGHT, STOP_SENT, TIMED_OUT
from argosy_core.job.tables.members import Members
from argosy_core.preemption import Candidates, Excess, choose_victims_of_nodes
from argosy_core.queueing import to_cores
from argosy_core.scheduler.backfill.promises import CouldHold
from argosy_core.scheduler.memory.state import PoolState
from argosy_core.scheduler.memory.work_ends import WorkEnds, find_work
from argosy_core.scheduler.runs.preempting import are_preempted
from argosy_core.scheduler.turns.making_room import find_excess, find_preemptible, kinds_of_victims, nominate

__all__ = ["CLEARED_S", "Clearing", "find_clearing"]

CLEARED_S: Final = 600.0
"""How long nothing else is stopped for a gang, and nodes are kept for it: many pods take longer to go than one."""
_MOST_NAMED: Final = 10_000
"""Members named to a sampler, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clearing:
    """What may be stopped for one gang."""

    handle: int
    """The gang's job."""
    runs: Int32s
    """Jobs whose runs may be stopped, those with the least lost work per core first."""
    early: Int32s
    """Those of them that are not past their lifetimes."""
    ending: Int32s
    """Jobs whose runs end already, and not for somebody else."""
    givers: frozenset[int]
    """Gangs whose nodes it may have: of queues that would be over their shares with them, without a firm promise."""
    excess: Excess
    """How far queues are over their shares."""

    def members(self, state: PoolState) -> Mapping[int, Members]:
        """Return by cluster the members of all these runs, in order. Complexity: O(members) in NumPy."""
        held = state.live.live_members(np.concatenate([self.ending, self.runs]))
        clusters = state.live.cluster[held.slot]
        return {
            cluster: held.keys[np.flatnonzero(clusters == cluster)[:_MOST_NAMED]]
            for cluster in np.unique(clusters).tolist()
        }

    def choose(self, state: PoolState, told: CouldHold, pods: Int32s, now_s: float) -> tuple[Int32s, float] | None:
        """Return whom to stop so that a gang fits where a sampler said, and the work lost; None if that may not be.

        Args:
            state: The pool.
            told: What the sampler said.
            pods: (n,) node name index for each pod of the gang's minimum, in the order of their numbers.
            now_s: Now.
        """
        slot = int(state.live.slots(np.array([self.handle], dtype=np.int64))[0])
        if pods.size != state.classes.gangs[int(state.live.class_index[slot])].least_count:
            return None
        nodes, at = np.unique(pods, return_inverse=True)
        work = find_work(state, told.cluster, nodes.astype(np.int32), now_s)
        ends = np.isin(work.slots, self.ending)
        missing = _missing(state, slot, told, pods=pods, at=at.reshape(-1), work=work.only(~ends))
        np.subtract.at(missing[:, :-1], work.node[ends], work.amount[ends])
        may_go = work.only(np.isin(work.slots, self.runs))
        found = choose_victims_of_nodes(
            missing, int(state.live.queue[slot]), _candidates(state, may_go, now_s), self.excess
        )
        return None if found is None else (np.array(found[0], dtype=np.int32), found[1])

    def stop(self, state: PoolState, runs: Int32s, now_s: float) -> None:
        """Stop runs for the gang."""
        slot = int(state.live.slots(np.array([self.handle], dtype=np.int64))[0])
        is_early = bool(np.isin(runs, self.early).any())
        nominate(state, slot, runs, until_s=now_s + CLEARED_S, is_early=is_early)


def _missing(state: PoolState, slot: int, told: CouldHold, *, pods: Int32s, at: Int64s, work: WorkEnds) -> Int64s:
    """Return (node, resource and one more) what a gang lacks on its nodes; the last counts runs that may not stay.

    Args:
        state: The pool.
        slot: The gang.
        told: What the sampler said, with what is free.
        pods: The node of each pod.
        at: Its position among the nodes, each once and ascending.
        work: What stays on these nodes if nothing is stopped, by the same positions.
    """
    gang, width = state.classes.gangs[int(state.live.class_index[slot])], len(state.classes.axis)
    missing = np.zeros((int(at.max()) + 1, width + 1), dtype=np.int64)
    np.add.at(missing[:, :-1], at, state.classes.requests[gang.members[: pods.size]])
    names = np.unique(pods)
    reply = told.reply
    rows = np.unique(reply.could_hold)
    known = state.clusters.nodes[told.cluster].translate(reply.node[rows])
    free_of = dict(zip(known.tolist(), reply.free[rows], strict=True))
    for row, name in enumerate(names.tolist()):
        missing[row, : reply.free.shape[1]] -= free_of[name]
    whole = np.array([gang.groups[gang.group_of(place)].whole_nodes for place in range(pods.size)], dtype=np.bool_)
    is_whole = np.zeros(names.size, dtype=np.bool_)
    is_whole[at[whole]] = True
    np.add.at(missing[:, -1], work.node[is_whole[work.node]], 1)
    return missing


def _candidates(state: PoolState, work: WorkEnds, now_s: float) -> Candidates:
    """Return runs on nodes as those that may be preempted, each with one more resource that counts it."""
    began_s = state.live.start_time_us[work.slots] / 1e6
    return Candidates(
        run=work.slots,
        queue=state.live.queue[work.slots],
        node=work.node.astype(np.int64),
        amounts=np.column_stack([work.amount, np.ones(work.slots.size, dtype=np.int64)]),
        cores=to_cores(state.job_usage(work.slots)),
        elapsed_s=np.where(began_s > 0, np.maximum(now_s - began_s, 0.0), 0.0),
    )


def find_clearing(state: PoolState, slot: int, now_s: float) -> Clearing | None:
    """Return what may be stopped for a gang now; None if nothing may, or something was stopped for it lately.

    Args:
        state: The pool; flows must be of now.
        slot: A gang that waits.
        now_s: Now.

    Complexity: nothing while no run may be preempted; else O(jobs) in NumPy.
    """
    live, handle, queue = state.live, int(state.live.handle[slot]), int(state.live.queue[slot])
    may_be = state.room.has_lifetimes or state.queues.preempts_endless
    if not may_be or state.room.nominated.get(handle, 0.0) > now_s:
        return None
    heads = np.unique(np.append(state.pending_slots(), np.int32(slot)))
    excess = find_excess(state, heads)
    if not excess.may_gain(queue, float(to_cores(state.job_usage(heads[heads == slot]))[0])):
        return None
    expired, others = find_preemptible(state, now_s, heads[heads == slot])
    may_stop = np.concatenate([expired, others])
    *_, allowed = kinds_of_victims(state, queue, may_stop, expired)
    may_stop = may_stop[allowed & (live.queue[may_stop] != queue)]
    ending = _ending(state, handle)
    if not may_stop.size and not ending.size:
        return None
    elapsed_s = now_s - live.start_time_us[may_stop] / 1e6
    elapsed_s[live.start_time_us[may_stop] <= 0] = 0.0
    is_early = ~np.isin(may_stop, expired)
    order = np.lexsort((live.handle[may_stop], elapsed_s, is_early))
    return Clearing(
        handle=handle,
        runs=may_stop[order],
        early=may_stop[is_early],
        ending=ending,
        givers=_givers(state, excess),
        excess=excess,
    )


def _givers(state: PoolState, excess: Excess) -> frozenset[int]:
    """Return the gangs whose nodes others may have that get room by preemption."""
    loose = [
        handle
        for handle, one in state.promises.gathered.items()
        if not one.is_cleared and one.kind is not PromiseKind.FIRM
    ]
    slots = state.live.slots(np.array(loose, dtype=np.int64))
    cores, queues = to_cores(state.job_usage(slots)), state.live.queue[slots].tolist()
    lines = zip(loose, queues, cores.tolist(), strict=True)
    return frozenset(handle for handle, queue, size in lines if not excess.may_gain(queue, size))


def _ending(state: PoolState, handle: int) -> Int32s:
    """Return the jobs whose runs are to end anyway, but for those that were stopped for another head."""
    live, slots = state.live, state.live.live_slots()
    slots = slots[live.run_state[slots] > 0]
    ends = ((live.flags[slots] & (CANCEL_REQUESTED | STOP_SENT | TIMED_OUT)) != 0) | are_preempted(state, slots)
    slots = slots[ends & ((live.flags[slots] & IN_FLIGHT) == 0)]
    room = state.room
    others = [run for run, head in room.cleared_for.items() if head != handle and head in room.nominated]
    mine: Int32s = slots[~np.isin(live.handle[slots], others)]
    return mine

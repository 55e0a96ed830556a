"""What runs hold now where that is not what their class says: pods that were resized in place.

Source: 003 "Resource usage"; design section 5; design section 6, "Data layout".
"""

from __future__ import annotations

import numpy as np

from argosy_core.arrays import Int32s, Int64s, has_true, true_places
from argosy_core.errors import InvalidRequest
from argosy_core.job.states import IS_RUN_TERMINAL
from argosy_core.job.tables.live import IN_FLIGHT
from argosy_core.job.tables.rows import HeldAmounts
from argosy_core.scheduler.memory.capacity_bounds import MAX_TOTAL
from argosy_core.scheduler.memory.flows import advance_flows, set_demands
from argosy_core.scheduler.memory.resource_columns import ensure_columns
from argosy_core.scheduler.memory.run_members import follow_members, member_vectors
from argosy_core.scheduler.memory.state import PoolState

__all__ = ["take_held_amounts"]


def take_held_amounts(state: PoolState, held: HeldAmounts, now_s: float, cluster: str | None = None) -> HeldAmounts:
    """Count runs with what they hold from now on, and return what of it is news.

    It lasts for the run: a job that waits again is counted as it asks. Members that are not live, or not in the cluster
    that speaks, are left out, since what is said of them is late; so is what is more than the whole cluster has, of one
    member or of all beyond what they ask for: else a cluster that lies would use up the shares of its jobs' queues.

    Args:
        state: The pool.
        held: Members that hold something else than before, or their class's amounts again.
        now_s: Now.
        cluster: Who says so; None where it is known that it is theirs.

    Raises:
        InvalidRequest: A member stands twice, an amount cannot be counted, or there would be too many resources; no
            usage has changed.

    Complexity: O(n log n) in NumPy.
    """
    if not held.members.are_distinct():
        raise InvalidRequest("what a member of a run holds stands twice")
    if ((held.amounts < -1) | (held.amounts > MAX_TOTAL)).any():
        raise InvalidRequest(f"what a member of a run holds is not between 0 and {MAX_TOTAL}")
    ensure_columns(state, held.names)
    slots, row = _find(state, held, cluster)
    told, slots, row = np.flatnonzero(slots >= 0), slots[slots >= 0], row[slots >= 0]
    of_class = _of_class(state, slots, row)
    columns = [state.classes.axis.index(name) for name in held.names]
    given, vectors = held.amounts[told], of_class.copy()
    vectors[:, columns] = np.where(given < 0, of_class[:, columns], given)
    alone, is_true = row < 0, np.ones(slots.size, dtype=np.bool_)
    if cluster is not None:
        most = np.maximum(of_class, state.clusters.total[state.clusters.index(cluster)])
        is_true = (vectors <= most).all(axis=1)
    before = state.job_vectors(slots)
    before[~alone] = member_vectors(state, slots[~alone], row[~alone])
    news = is_true & (vectors != before).any(axis=1)
    grows = news & (vectors > before).any(axis=1)
    if cluster is not None and has_true(grows):
        more = np.maximum(vectors, of_class) - np.maximum(before, of_class)
        if not _fits(state, cluster, more[news].sum(axis=0)):
            news &= ~grows
    advance_flows(state, now_s)
    single = news & alone
    set_demands(state, slots[single], state.requested_vectors(slots[single]), vectors[single])
    _set_members(state, slots[news & ~alone], row[news & ~alone], vectors[news & ~alone])
    amounts = np.where(vectors == of_class, -1, vectors)[news][:, columns]
    return HeldAmounts(members=held.members[told[news]], names=held.names, amounts=amounts)


def _fits(state: PoolState, cluster: str, more: Int64s) -> bool:
    """Return whether a cluster has all that its runs hold beyond what they ask for, and so much more of each resource.

    Complexity: O(jobs) in NumPy, for one comparison; the rest is for those that hold something else.
    """
    live, index = state.live, state.clusters.index(cluster)
    slots = true_places((live.demand >= 0) & (live.run_state > 0) & (live.handle >= 0))  # slots of no job say nothing
    slots = slots[live.cluster[slots] == index]
    beyond = np.maximum(state.job_vectors(slots) - state.requested_vectors(slots), 0).sum(axis=0) + more
    return not has_true((more > 0) & (beyond > state.clusters.total[index]))


def _find(state: PoolState, held: HeldAmounts, cluster: str | None) -> tuple[Int32s, Int64s]:
    """Return the job of each member, -1 where it is not live, and its row in the table of members, -1 for none."""
    live, numbers = state.live, held.members.member
    slots = live.slots(held.members.handle)
    there = (slots >= 0) & (live.attempt[slots] == held.members.attempt) & (live.run_state[slots] > 0)
    there &= (live.flags[slots] & IN_FLIGHT) == 0
    if cluster is not None:
        there &= live.cluster[slots] == state.clusters.index(cluster)
    row = live.members.find(slots, numbers)
    there &= np.where(row < 0, ~live.members.has(slots) & (numbers == 0), True)
    if len(live.members):
        there &= (row < 0) | ~IS_RUN_TERMINAL[live.members.state[row]]
    return np.where(there, slots, np.int32(-1)), row


def _of_class(state: PoolState, slots: Int32s, rows: Int64s) -> Int64s:
    """Return (n, resource) what members hold by the class of their job; a row of -1 stands for a job's only one."""
    number = state.live.members.number[rows] if len(state.live.members) else np.zeros(slots.size, dtype=np.int16)
    number[rows < 0] = 0
    return state.classes.requests[state.classes.member_indices(state.live.class_index[slots], number)]


def _set_members(state: PoolState, slots: Int32s, rows: Int64s, vectors: Int64s) -> None:
    """Have members of runs of several hold amounts each, and their jobs the sums."""
    if not slots.size:
        return
    table, demands = state.live.members, state.demands
    demands.drop(table.demand[rows])
    table.demand[rows] = -1
    own = (vectors != _of_class(state, slots, rows)).any(axis=1)
    table.demand[rows[own]] = taken = demands.take_rows(int(own.sum()))
    demands.permitted[taken] = vectors[own]
    follow_members(state, np.unique(slots))

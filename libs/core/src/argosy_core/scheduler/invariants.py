"""What must hold of the memory between any two calls; tests check it after every step.

Source: design section 7.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import Int32s
from argosy_core.errors import InvariantViolation
from argosy_core.framework import Point
from argosy_core.job.tables.live import AWAITING, CANCEL_REQUESTED, IN_FLIGHT, ON_HOLD, PENDING, STOP_SENT, TIMED_OUT
from argosy_core.placement import KIND_BITS
from argosy_core.scheduler.columns.codes import (
    JOB_QUEUED,
    JOB_RUNNING,
)
from argosy_core.scheduler.memory.extras import preemptible_part
from argosy_core.scheduler.memory.run_members import run_states
from argosy_core.scheduler.memory.state import PoolState
from argosy_core.scheduler.runs.preempting import are_preempted

__all__ = ["check_invariants"]


def check_invariants(state: PoolState) -> None:
    """Check counts, usages, orders and flags against the table of live jobs.

    Raises:
        InvariantViolation: Something does not hold; the message says what.

    Complexity: O(live jobs log live jobs).
    """
    live = state.live
    slots = live.live_slots()
    _require(slots.size == len(live), "as many slots in use as handles in the index")
    _require(bool((live.slots(live.handle[slots]) == slots).all()), "every handle leads to its slot")
    _check_stages(state, slots)
    _check_counts(state, slots)
    _check_dependencies(state, slots)
    _check_orders(state, slots)
    _check_pending(state, slots)
    _require(bool((np.isfinite(state.queues.flow) & (state.queues.flow >= 0)).all()), "flows are numbers of 0 or more")
    stops = live.slots(np.fromiter(state.unsent_stops, dtype=np.int64))
    _require(bool(((live.flags[stops[stops >= 0]] & STOP_SENT) == 0).all()), "a stop is sent once")


def _check_stages(state: PoolState, slots: Int32s) -> None:
    """Every job is in one stage, with the columns of that stage."""
    live = state.live
    flags, job_state = live.flags[slots], live.state[slots]
    pending, flying = (flags & PENDING) != 0, (flags & IN_FLIGHT) != 0
    queued_state = job_state == JOB_QUEUED
    _require(not (pending & flying).any(), "no job pending and in flight")
    _require(bool(queued_state[pending | flying].all()), "pending and in-flight jobs are queued by state")
    _require(bool((job_state <= JOB_RUNNING).all()), "no terminal job is live")
    held = ~queued_state
    _require(bool((live.run_state[slots][held] > 0).all()), "leased and running jobs have a run")
    _require(bool((live.run_state[slots][~held] == 0).all()), "jobs without a run have no run state")
    _require(bool((live.cluster[slots][held] >= 0).all()), "runs have a cluster")
    waiting = queued_state & ~flying
    _require(bool((live.cluster[slots][waiting] == -1).all()), "waiting jobs have no cluster")
    shall_end = (flags & (CANCEL_REQUESTED | TIMED_OUT)) != 0
    shall_end |= are_preempted(state, slots)
    _require(not ((flags & STOP_SENT != 0) & ~shall_end).any(), "only jobs that shall end are stopped")
    counts = live.specs.object_counts(live.spec[slots])
    alone = ~live.members.has(slots)
    has_bag = (live.bag[slots] >= 0) == (held & (counts > 1) & alone)
    _require(bool(has_bag.all()), "runs of several objects and one member have a bag row")
    _check_members(state, slots[held & ~alone])
    _require(bool(np.isin(live.members.slot, slots[held | flying]).all()), "members are of runs that are held")


def _check_members(state: PoolState, slots: Int32s) -> None:
    """A run of several members is what they have come to."""
    live, table = state.live, state.live.members
    reached, _ = run_states(state, slots)
    _require(bool((live.run_state[slots] == reached).all()), "a run has got as far as its members")
    places, rows = table.rows(slots)
    counts = live.specs.object_counts(live.spec[slots])[places]
    is_ingested = table.state[rows] > 0  # a member may be in flight to a run under way
    has_bag = (table.bag[rows] >= 0) == ((counts > 1) & is_ingested)
    _require(bool(has_bag.all()), "members of several objects have a bag row")


def _check_counts(state: PoolState, slots: Int32s) -> None:
    """Counts and usages per queue, class and job set are what the table says."""
    live, queues = state.live, state.queues
    queued = state.stage_is_queued(slots)
    usage = state.job_usage(slots)
    _check_demands(state, slots)

    def count(rows: npt.NDArray[np.integer], size: int) -> npt.NDArray[np.int64]:
        return np.bincount(rows, minlength=size).astype(np.int64)

    def total(chosen: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
        sums = np.zeros(queues.usage.size, dtype=np.int64)
        np.add.at(sums, live.queue[slots[chosen]], usage[chosen])
        return sums

    size = queues.usage.size
    ends, charges = live.lifetime_s[slots] >= 0, np.zeros(size, dtype=np.int64)
    np.add.at(charges, live.queue[slots], live.charge_core_s[slots])
    _require(bool((queues.charged_core_s == charges).all()), "what is charged to a queue is charged for its jobs")
    _require(bool((live.charge_core_s[slots] >= 0).all()), "no charge is below 0")
    _require(not live.charge_core_s[slots[queued | ~ends]].any(), "charged is what runs and has a lifetime")
    part, preemptible = preemptible_part(live, state.classes, slots, usage), np.zeros(size, dtype=np.int64)
    np.add.at(preemptible, live.queue[slots[~queued]], part[~queued])
    held, on_hold = ~queued, (live.flags[slots] & ON_HOLD) != 0
    expected = (
        ("queued_count", count(live.queue[slots[queued]], size)),
        ("leased_count", count(live.queue[slots[held]], size)),
        ("usage", total(held)),
        ("preemptible_count", count(live.queue[slots[held & ends]], size)),
        ("preemptible_usage", preemptible),
        ("on_hold_count", count(live.queue[slots[queued & on_hold]], size)),
        ("queued_usage", total(queued & ~on_hold)),
    )
    vectors = np.zeros_like(queues.held)
    np.add.at(vectors, live.queue[slots[held]], state.job_vectors(slots[held]))
    _require(bool((queues.held == vectors).all()), "what is held per queue is the sum over its jobs")
    for name, values in expected:
        _require(bool((getattr(queues, name) == values).all()), f"{name} per queue is the sum over its jobs")
    classes = count(live.class_index[slots], state.classes.job_count.size)
    _require(bool((state.classes.job_count == classes).all()), "job count per class is right")
    waiting = count(live.class_index[slots[queued & ~on_hold]], state.classes.waiting_count.size)
    _require(bool((state.classes.waiting_count == waiting).all()), "waiting count per class is right")
    job_sets = count(live.job_set[slots], state.job_sets.job_count.size)
    _require(bool((state.job_sets.job_count == job_sets).all()), "job count per job set is right")
    if state.job_set_limits.queues:
        running = count(live.job_set[slots[held]], state.job_set_limits.leased_count.size)
        _require(bool((state.job_set_limits.leased_count == running).all()), "what runs of each job set is counted")
    limited = Counter(live.queue[slots[live.job_set_limit[slots] >= 0]].tolist())
    _require(state.job_set_limits.queues == limited, "queues are known whose jobs limit their job sets")


def _check_dependencies(state: PoolState, slots: Int32s) -> None:
    """Exactly the jobs are marked that wait for others, or have waited in vain and are about to fail."""
    live = state.live
    marked = set(live.handle[slots[(live.flags[slots] & AWAITING) != 0]].tolist())
    waiting = {handle for handle in marked if state.dependencies.progress(handle) is not None}
    _require(len(waiting) == len(state.dependencies), "jobs that wait for others are marked")
    _require(marked - waiting <= set(state.unfit), "marked jobs wait for others, or fail")


def _check_demands(state: PoolState, slots: Int32s) -> None:
    """Each row of demands is one job's or member's that differs from its class; usage is that of what is permitted."""
    demands, rows = state.demands, state.live.demand[slots]
    own, rows = slots[rows >= 0], rows[rows >= 0]
    of_members = state.live.members.demand[state.live.members.demand >= 0]
    every = np.concatenate([rows, of_members])
    _require(np.unique(every).size == every.size == len(demands), "each row of demands has one job or member")
    requested, permitted = demands.requested[rows], demands.permitted[rows]
    of_class = state.classes.requests[state.live.class_index[own]]
    differs = (requested != of_class).any(axis=1) | (permitted != requested).any(axis=1)
    _require(bool(differs.all()), "only jobs that differ from their class own a row of demands")
    _require(bool((permitted >= 0).all() and (requested >= 0).all()), "no job holds or asks for less than nothing")
    weighed = state.classes.weigh(permitted)
    _require(bool((demands.usage[rows] == weighed).all()), "usage of a job is that of what it is permitted")


def _check_orders(state: PoolState, slots: Int32s) -> None:
    """Every queued job that is not in back-off or on hold stands in its queue's order once."""
    live = state.live
    waiting = slots[state.stage_is_queued(slots) & ((live.flags[slots] & ON_HOLD) == 0)]
    backing_off = {handle for _, handle in state.back_off}
    for index in [index for _, index in state.queues.ids.items()]:
        mine = waiting[live.queue[waiting] == index]
        # A job whose priority went back and forth has an entry for each time.
        order = state.queues.orders[index]
        heads, all_of_them = order.heads(max(order.entry_count, 1))
        _require(all_of_them, "an order ends")
        away = [handle for handle in live.handle[mine].tolist() if handle in backing_off]
        missing = set(live.handle[mine].tolist()) - set(live.handle[heads].tolist()) - set(away)
        _require(not missing, "every queued job stands in its order")
        _require(np.unique(heads).size == heads.size, "no job stands twice in its order")
        if state.queues.job_keys is None and not state.decision_profile.framework.has(Point.QUEUE_SORT):
            keys = np.lexsort((live.handle[heads], live.submit_time_us[heads], ~live.priority[heads]))
            _require(bool((keys == np.arange(heads.size)).all()), "orders are by priority, then submit order")


def _check_pending(state: PoolState, slots: Int32s) -> None:
    """Waiting heads are queued jobs, marked as such, and no kind of nodes has more of them than are allowed."""
    flagged = slots[(state.live.flags[slots] & PENDING) != 0]
    heads = state.pending_slots()
    _require(np.unique(heads).size == heads.size, "no job is pending twice")
    _require(flagged.size == heads.size and bool(np.isin(flagged, heads).all()), "exactly the waiting heads are marked")
    _require(len(state.head_kinds) == state.heads.size, "waiting heads were elected")
    _require(bool(state.head_kinds.any(axis=1).all()), "waiting heads wait for some kind of nodes")
    counts = ((state.head_kinds[:, :, None] & KIND_BITS) != 0).sum(axis=0)
    most = state.settings.waiting_heads
    _require(bool((counts <= most).all()), "no kind of nodes has more waiting heads than allowed")


def _require(holds: bool, what: str) -> None:  # noqa: FBT001 - a condition and its name
    """Raise if something does not hold."""
    if not holds:
        raise InvariantViolation(f"does not hold: {what}")

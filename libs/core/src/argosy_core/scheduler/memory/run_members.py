"""Runs of several members: how they are taken up, what each comes to, and what its job may hold meanwhile.

A run has got as far as the member that is furthest behind, of those that have not ended. It succeeds when its last
member has; it is *broken* once a member failed, was lost or cancelled, and the others are then stopped. All members of
a run are in one cluster, and each holds what the job's class asks for unless its cluster said otherwise
(`held_amounts`); what has ended is given back at once.

Source: design section 4, "States and rows"; section 5, "Sync".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from argosy_core.arrays import Bools, Int8s, Int16s, Int32s, Int64s, has_true, true_places
from argosy_core.job.states import IS_RUN_TERMINAL
from argosy_core.job.tables.members import place_of
from argosy_core.scheduler.columns.codes import (
    OBJECT_CANCELLED,
    OBJECT_FAILED,
    OBJECT_LOST,
    RUN_CANCELLED,
    RUN_CREATED,
    RUN_FAILED,
    RUN_LEASED,
    RUN_LOST,
    RUN_RUNNING,
    RUN_SUCCEEDED,
    RUN_UNKNOWN,
)
from argosy_core.scheduler.memory.flows import set_demands
from argosy_core.scheduler.memory.replacing import are_extras, find_superseded, forgive
from argosy_core.scheduler.memory.state import PoolState

__all__ = [
    "add_members",
    "are_broken_bags",
    "follow_members",
    "member_vectors",
    "object_places",
    "run_states",
]

_BY_PROGRESS: Final = np.array([RUN_LEASED, RUN_CREATED, RUN_UNKNOWN, RUN_RUNNING], dtype=np.int8)
"""States of live members, the one furthest behind first: unknown shows where the others run."""
_PROGRESS: Final = np.zeros(len(IS_RUN_TERMINAL), dtype=np.int64)
_PROGRESS[_BY_PROGRESS] = np.arange(len(_BY_PROGRESS))
_UNKNOWN_PROGRESS: Final = int(_PROGRESS[RUN_UNKNOWN])
_IS_BAD: Final = np.zeros(len(IS_RUN_TERMINAL), dtype=np.bool_)
_IS_BAD[[RUN_FAILED, RUN_LOST, RUN_CANCELLED]] = True
_PLACES: Final = np.arange(32)


def add_members(state: PoolState, slots: Int32s, numbers: Int16s, nodes: Int32s) -> None:
    """Note the members of runs of held jobs; each job holds from now on what its members do.

    Args:
        state: The pool.
        slots: Job of each member.
        numbers: Number of each in its run.
        nodes: Node name index of each in the cluster of its run.
    """
    _, where, count = np.unique(slots, return_inverse=True, return_counts=True)
    several = ((count > 1) | (np.bincount(where, weights=numbers) > 0))[where]
    if state.classes.elastic:  # a run that may grow has a row for its first member, too
        several |= np.isin(state.live.class_index[slots], list(state.classes.elastic))
    if has_true(several):
        state.live.members.add(slots[several], numbers[several], nodes[several])
        follow_members(state, np.unique(slots[several]))


def follow_members(state: PoolState, slots: Int32s) -> None:
    """Let jobs whose runs have rows of members hold what their members hold that have not ended.

    Call `advance_flows` before, since usage changes.
    """
    live = state.live
    places, rows = live.members.rows(slots)
    counts = np.bincount(places, minlength=slots.size)
    of_class = state.classes.requests[live.class_index[slots]]
    counts[state.classes.are_gangs(live.class_index[slots])] = 1  # what its class asks for is all members' together
    requested = np.maximum(state.requested_vectors(slots), of_class * counts[:, None])
    is_open = ~IS_RUN_TERMINAL[live.members.state[rows]]
    held = np.zeros_like(of_class)
    np.add.at(held, places[is_open], member_vectors(state, slots[places[is_open]], rows[is_open]))
    set_demands(state, slots, requested, held)


def member_vectors(state: PoolState, slots: Int32s, rows: Int64s) -> Int64s:
    """Return what members of runs hold, ended or not, as (n, resource) in axis order, base units.

    Args:
        state: The pool.
        slots: Job of each.
        rows: Row of each in the table of members.
    """
    table = state.live.members
    demand = table.demand[rows]
    held = state.classes.requests[state.classes.member_indices(state.live.class_index[slots], table.number[rows])]
    held[demand >= 0] = state.demands.permitted[demand[demand >= 0]]
    return held


def run_states(state: PoolState, slots: Int32s) -> tuple[Int8s, Bools]:
    """Return what the runs of jobs that have rows of members have come to, and which of them are broken.

    A run whose places were all taken by members that ran goes on running while one of them is taken anew; with the last
    live member it ends, whatever is vacant then.

    Complexity: O(members) in NumPy; Python work for jobs with rules.
    """
    table = state.live.members
    places, rows = table.rows(slots)
    states, numbers = table.state[rows], table.number[rows]
    ended = IS_RUN_TERMINAL[states]
    of_members = slots[places]
    counts = ~find_superseded(of_members, numbers)

    def has(chosen: Bools) -> Bools:
        found = np.zeros(slots.size, dtype=np.bool_)
        found[places[chosen]] = True
        return found

    bags = true_places(table.bag[rows] >= 0)
    ends = np.where(ended, states, 0).astype(np.int8)
    ends[bags] = np.maximum(ends[bags], _bag_ends(state, of_members[bags], table.bag[rows[bags]]))
    forgiven = forgive(state, of_members, numbers, ends)
    broken = has(_IS_BAD[ends] & ~forgiven)
    extras = are_extras(state, of_members, numbers)
    counts &= ~(extras & forgiven)
    failed, lost, cancelled = (has(counts & (states == end)) for end in (RUN_FAILED, RUN_LOST, RUN_CANCELLED))
    end = np.select([failed, lost, cancelled], [RUN_FAILED, RUN_LOST, RUN_CANCELLED], RUN_SUCCEEDED)
    behind = np.full(slots.size, len(_BY_PROGRESS) - 1, dtype=np.int64)
    vacant = ended & _IS_BAD[states] & counts & forgiven & ~extras
    is_least = ~ended & ~extras
    np.minimum.at(behind, places[is_least], _PROGRESS[states[is_least]])
    np.minimum.at(behind, places[vacant], 0)
    behind = np.where(
        (behind < _UNKNOWN_PROGRESS) & _have_begun(state, slots, places, rows), _shown(has, states), behind
    )
    # One in flight is not stored yet, so it keeps no run alive.
    return np.where(has(~ended & (states > 0)), _BY_PROGRESS[behind], end).astype(np.int8), broken


def _shown(has: Callable[[Bools], Bools], states: Int8s) -> Int64s:
    """Return how far runs have got that run, whatever a further member has come to."""
    return np.where(has(states == RUN_UNKNOWN), _UNKNOWN_PROGRESS, len(_BY_PROGRESS) - 1)


def _have_begun(state: PoolState, slots: Int32s, places: Int64s, rows: Int64s) -> Bools:
    """Return which runs had a member that ran in each of the places that their gang has at least."""
    table = state.live.members
    begun = np.zeros(slots.size, dtype=np.bool_)
    if not state.classes.gangs:
        return begun
    numbers, has_run = place_of(table.number[rows]).astype(np.int64), table.start_time_us[rows] > 0
    for place, index in enumerate(state.live.class_index[slots].tolist()):
        gang = state.classes.gangs.get(index)
        if gang is not None:
            ran = np.unique(numbers[(places == place) & has_run])
            begun[place] = np.count_nonzero(ran < gang.least_count) == gang.least_count
    return begun


def _bag_ends(state: PoolState, slots: Int32s, bags: Int32s) -> Int8s:
    """Return how members will end whose bags are broken, 0 for the others."""
    is_object, is_pod = object_places(state, slots)
    states = state.live.bag_states[bags]
    failed = ((states == OBJECT_FAILED) & is_object).any(axis=1)
    lost, cancelled = (((states == end) & is_pod).any(axis=1) for end in (OBJECT_LOST, OBJECT_CANCELLED))
    return np.select([failed, lost, cancelled], [RUN_FAILED, RUN_LOST, RUN_CANCELLED], 0).astype(np.int8)


def object_places(state: PoolState, slots: Int32s) -> tuple[Bools, Bools]:
    """Return which places in the rows of some jobs' bags are objects, and which are pods: bool[n, 32] each."""
    specs, spec = state.live.specs, state.live.spec[slots]
    object_count, pod_count = specs.object_counts(spec)[:, None], specs.pod_counts(spec)[:, None]
    is_object = object_count > _PLACES
    return is_object, is_object & (object_count - pod_count <= _PLACES)


def are_broken_bags(state: PoolState, slots: Int32s, bags: Int32s) -> Bools:
    """Return which bags of some jobs have a failed object or a pod that is gone."""
    is_object, is_pod = object_places(state, slots)
    states = state.live.bag_states[bags]
    gone = (states == OBJECT_LOST) | (states == OBJECT_CANCELLED)
    return np.asarray(((states == OBJECT_FAILED) & is_object | gone & is_pod).any(axis=1))

"""Runs of several members: how they are taken up, what each comes to, and what its job may hold meanwhile.

A run has got as far as the member that is furthest behind, of those that have not ended. It succeeds when its last
member has; it is *broken* once a member failed, was lost or cancelled, and the others are then stopped. All members of
a run are in one cluster, and each holds what the job's class asks for unless its cluster said otherwise
(`held_amounts`); what has ended is given back at once.

Source: design section 4, "States and rows"; section 5, "Sync".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import Bools, Int8s, Int16s, Int32s, Int64s
from argosy_core.errors import InvalidRequest, NotAllowedNow
from argosy_core.job.live import IN_FLIGHT, PENDING
from argosy_core.job.members import Members
from argosy_core.job.states import IS_RUN_TERMINAL
from argosy_core.scheduler.codes import (
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
from argosy_core.scheduler.state import PoolState

__all__ = [
    "RunPlaces",
    "add_members",
    "are_broken_bags",
    "follow_members",
    "hold_runs",
    "member_vectors",
    "object_places",
    "run_states",
]

_BY_PROGRESS: Final = np.array([RUN_LEASED, RUN_CREATED, RUN_UNKNOWN, RUN_RUNNING], dtype=np.int8)
"""States of live members, the one furthest behind first: unknown shows where the others run."""
_PROGRESS: Final = np.zeros(len(IS_RUN_TERMINAL), dtype=np.int64)
_PROGRESS[_BY_PROGRESS] = np.arange(len(_BY_PROGRESS))
_PLACES: Final = np.arange(32)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlaces:
    """Where the next runs of jobs are placed, all in one cluster; n members, those of a run one after the other."""

    cluster: str
    """The cluster."""
    handle: Int64s
    """(n,) jobs."""
    number: Int16s
    """(n,) number of the member in its run."""
    node: npt.NDArray[np.int32]
    """(n,) node name index in the cluster."""


def hold_runs(state: PoolState, places: RunPlaces) -> Int32s:
    """Count jobs that wait as in flight, with the members of their next runs placed; return the jobs.

    This is the way in for runs of several members: whoever has had their places reserved as one hands them in here, or
    to the round under way (`Round.hold_runs`), and the plan leases them.

    Args:
        state: The pool.
        places: What was reserved.

    Raises:
        NotFound: The cluster is not known.
        NotAllowedNow: A job does not wait; nothing has changed.
        InvalidRequest: A member stands twice, or a run in two places; nothing has changed.
    """
    live, index = state.live, state.clusters.index(places.cluster)
    members = Members.of(places.handle, np.ones(places.handle.size), places.number)
    firsts = np.flatnonzero(np.append(True, places.handle[1:] != places.handle[:-1])[: places.handle.size])
    slots = live.slots(places.handle)
    held = slots[firsts]
    if not members.are_distinct() or np.unique(held).size != held.size:
        raise InvalidRequest("the members of a run stand one after the other, each once")
    if (held < 0).any() or not state.stage_is_queued(held).all():
        raise NotAllowedNow("only jobs that wait can be placed")
    state.count_queued(held, -1)
    live.flags[held] = (live.flags[held] & np.uint8(0xFF ^ PENDING)) | np.uint8(IN_FLIGHT)
    live.cluster[held], live.node[held] = index, places.node[firsts]
    live.attempt[held] += 1
    live.failed_attempts[held] = 0
    for handle in live.handle[held].tolist():
        state.attempted.pop(handle, None)
    state.count_held(held, 1)
    state.clusters.free[index] -= state.job_vectors(held).sum(axis=0)
    add_members(state, slots, places.number, places.node)
    state.raise_flow()
    return held


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
    if several.any():
        state.live.members.add(slots[several], numbers[several], nodes[several])
        follow_members(state, np.unique(slots[several]))


def follow_members(state: PoolState, slots: Int32s) -> None:
    """Let jobs whose runs have rows of members hold what their members hold that have not ended.

    Call `advance_flow` before, since usage changes.
    """
    live = state.live
    places, rows = live.members.rows(slots)
    counts = np.bincount(places, minlength=slots.size)
    of_class = state.classes.requests[live.class_index[slots]]
    requested = np.maximum(state.requested_vectors(slots), of_class * counts[:, None])
    is_open = ~IS_RUN_TERMINAL[live.members.state[rows]]
    held = np.zeros_like(of_class)
    np.add.at(held, places[is_open], member_vectors(state, slots[places[is_open]], rows[is_open]))
    state.set_demands(slots, requested, held)


def member_vectors(state: PoolState, slots: Int32s, rows: Int64s) -> Int64s:
    """Return what members of runs hold, ended or not, as (n, resource) in axis order, base units.

    Args:
        state: The pool.
        slots: Job of each.
        rows: Row of each in the table of members.
    """
    demand = state.live.members.demand[rows]
    held = state.classes.requests[state.live.class_index[slots]]
    held[demand >= 0] = state.demands.permitted[demand[demand >= 0]]
    return held


def run_states(state: PoolState, slots: Int32s) -> tuple[Int8s, Bools]:
    """Return what the runs of jobs that have rows of members have come to, and which of them are broken.

    Complexity: O(members) in NumPy.
    """
    table = state.live.members
    places, rows = table.rows(slots)
    states = table.state[rows]
    ended = IS_RUN_TERMINAL[states]

    def has(chosen: Bools) -> Bools:
        found = np.zeros(slots.size, dtype=np.bool_)
        found[places[chosen]] = True
        return found

    failed, lost, cancelled = (has(states == end) for end in (RUN_FAILED, RUN_LOST, RUN_CANCELLED))
    end = np.select([failed, lost, cancelled], [RUN_FAILED, RUN_LOST, RUN_CANCELLED], RUN_SUCCEEDED)
    behind = np.full(slots.size, len(_BY_PROGRESS) - 1, dtype=np.int64)
    np.minimum.at(behind, places[~ended], _PROGRESS[states[~ended]])
    bags = table.bag[rows] >= 0
    broken = failed | lost | cancelled
    broken[places[bags]] |= are_broken_bags(state, slots[places[bags]], table.bag[rows[bags]])
    return np.where(has(~ended), _BY_PROGRESS[behind], end).astype(np.int8), broken


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

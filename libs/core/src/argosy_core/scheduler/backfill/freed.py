"""Runs whose nodes are free already, while their ends are still being reported.

A sampler sees a pod end before its executor has told. For that moment a queue seems to hold what another may be given
just then. With jobs of whole nodes that turns the order round: whoever has the next turn for the node that its own job
has left would count as holding two, and lose it to jobs that take it piece by piece, until it is emptied once more.

Source: 003 "Global prioritisation"; design section 5, "Round" 5; decision 0017.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from argosy_core.arrays import Bools, Int64s, are_among, true_places
from argosy_core.placement import CandidatePool
from argosy_core.scheduler.memory.state import PoolState
from argosy_core.scheduler.memory.work_ends import allocatable_of, find_held

__all__ = ["note_left"]

_TOLD_WITHIN_S: Final = 10.0
"""After how long a run whose end was not reported counts again: a cluster may be cut off."""


def note_left(state: PoolState, pool: CandidatePool, now_s: float) -> None:
    """Take note of the runs that have left nodes among the candidates: until they are reported they count as ended.

    Only kinds of jobs are looked at that were promised starts of late: others get their room as well elsewhere. A run
    has left its node if more is free there than all runs together would leave.

    Args:
        state: The pool.
        pool: Candidates of the round, merged; nothing of them is taken yet.
        now_s: Now.

    Complexity: O(jobs) in NumPy per cluster with such runs.
    """
    live, left = state.live, state.promises.left
    if left:
        noted = live.slots(np.array([*left], dtype=np.int64))
        is_held = (noted >= 0) & ~state.stage_is_queued(noted)
        for (handle, until_s), held in zip([*left.items()], is_held.tolist(), strict=True):
            if not held or until_s < now_s:
                del left[handle]
    kinds = np.array([(row << 32) | class_index for row, class_index in state.promises.kinds], dtype=np.int64)
    slots = true_places(live.cluster >= 0).astype(np.int32)
    slots = slots[are_among((live.queue[slots].astype(np.int64) << 32) | live.class_index[slots], kinds)]
    slots = slots[(live.handle[slots] >= 0) & ~_are_left(live.handle[slots], left)]
    if not slots.size:
        return
    width = pool.room.width
    free = np.array(pool.room.free, dtype=np.int64).reshape(-1, width)
    for cluster in np.unique(live.cluster[slots]).tolist():
        entries = true_places(pool.cluster == cluster)
        names = state.clusters.nodes[cluster].translate(pool.node[entries])
        nodes, first = np.unique(names, return_index=True)
        known = are_among(nodes, live.node[slots[live.cluster[slots] == cluster]]) & (nodes >= 0)
        nodes, entries = nodes[known], entries[first[known]]
        runs, places, amounts = find_held(state, cluster, nodes.astype(np.int32))
        stays = ~_are_left(live.handle[runs], left)
        runs, places, amounts = runs[stays], places[stays], amounts[stays, :width]
        beyond = free[entries] - allocatable_of(state, cluster, nodes.astype(np.int32))[:, :width]
        np.add.at(beyond, places, amounts)
        own = are_among(runs, slots)
        for slot, node, amount in zip(runs[own].tolist(), places[own].tolist(), amounts[own], strict=True):
            if (amount <= beyond[node]).all():
                beyond[node] -= amount
                left[int(live.handle[slot])] = now_s + _TOLD_WITHIN_S


def _are_left(handles: Int64s, left: Mapping[int, float]) -> Bools:
    """Return which jobs are noted already."""
    return are_among(handles, np.array([*left], dtype=np.int64))

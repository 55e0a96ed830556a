"""What turns go by: the usage that counts for shares, and what is promised.

A queue that is promised a start has had its turn. Otherwise it would have another one for what is free meanwhile, and
with both more than its share.

Source: 003 "Scheduler architecture" (what is pending counts as used); design section 5, "Round" 5; decision 0017.
"""

from __future__ import annotations

import numpy as np

from argosy_core.arrays import Int32s, Int64s, are_among
from argosy_core.scheduler.memory.flows import counted_usage
from argosy_core.scheduler.memory.state import PoolState

__all__ = ["promised_slots", "turn_size", "turn_usage"]


def promised_slots(state: PoolState) -> Int32s:
    """Return the waiting jobs that are promised a start, or for which nodes are kept."""
    slots = state.live.slots(np.array(state.promises.handles, dtype=np.int64))
    slots = slots[slots >= 0]
    promised: Int32s = slots[state.stage_is_queued(slots)]
    return promised


def turn_usage(state: PoolState, counted: Int64s | None = None) -> Int64s:
    """Return the usage of each queue as turns go by it, micro-cores.

    Args:
        state: The pool.
        counted: What counts for shares (`counted_usage`), if it was found already; it is not changed.
    """
    usage = counted_usage(state) if counted is None else counted
    if not state.promises.keep_nodes:
        return usage
    slots, usage = promised_slots(state), usage.copy()
    np.add.at(usage, state.live.queue[slots], state.job_usage(slots))
    return usage


def turn_size(state: PoolState, slots: Int32s) -> Int64s:
    """Return by how much each job would raise that if it started, micro-cores: by nothing if it was promised."""
    usage = state.job_usage(slots)
    if not state.promises.keep_nodes:
        return usage
    return np.where(are_among(slots, promised_slots(state)), 0, usage)

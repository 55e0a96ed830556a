"""Runs that are stopped so that others have room; their jobs keep their places and wait again.

A preempted run is stopped as a cancelled one is, with its grace. If it succeeds before it is gone, it has succeeded;
however else it ends after its stop was sent, it was preempted, which counts for no retry and for no back-off. A cancel
request wins over it, and so does the job's time limit if it is reached before the stop is sent.

Source: 003 "Preemption"; design section 5, "Round" 7.
"""

from __future__ import annotations

import numpy as np

from argosy_core.arrays import Bools, Int32s
from argosy_core.job.tables.live import CANCEL_REQUESTED, IN_FLIGHT, STOP_SENT, TIMED_OUT
from argosy_core.scheduler.memory.state import PoolState

__all__ = ["are_preempted", "preempt", "recover_preempted"]

_ASKED: str = "somebody asked for it"


def preempt(state: PoolState, slots: Int32s, reason: str) -> Int32s:
    """Have the next round stop the runs of jobs; return those whose runs it does stop. Complexity: O(n).

    Args:
        state: The pool.
        slots: Live jobs; those without a run that is stored, and those that shall end anyway, are left alone.
        reason: Shown with the run and its job's events.
    """
    live = state.live
    ends_anyway = CANCEL_REQUESTED | STOP_SENT | TIMED_OUT | IN_FLIGHT
    slots = slots[(live.run_state[slots] > 0) & ((live.flags[slots] & ends_anyway) == 0)]
    slots = slots[~are_preempted(state, slots)]
    handles = live.handle[slots].tolist()
    state.room.preempted.update(dict.fromkeys(handles, reason or _ASKED))
    state.unsent_stops.update(dict.fromkeys(handles))
    return slots


def are_preempted(state: PoolState, slots: Int32s) -> Bools:
    """Return which jobs' runs are preempted."""
    if not state.room.preempted:
        return np.zeros(slots.size, dtype=np.bool_)
    return np.isin(
        state.live.handle[slots], np.fromiter(state.room.preempted, dtype=np.int64, count=len(state.room.preempted))
    )


def recover_preempted(state: PoolState, slots: Int32s, attempts: Int32s) -> None:
    """Preempt runs anew that somebody asked to preempt, under the next leader.

    Args:
        state: The pool, with its runs.
        slots: Jobs.
        attempts: Attempt of each whose run was asked for, 0 for none.
    """
    preempt(state, slots[(attempts > 0) & (attempts == state.live.attempt[slots])], _ASKED)

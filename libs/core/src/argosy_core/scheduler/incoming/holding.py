"""Holding jobs back and letting them go, on somebody's word.

A held job keeps its place in its queue and is passed over. One that has a run, or is about to get one, goes on; it is
held if it ever waits again. Cancelling, and changing its priority, work as for any other.

Source: design section 5, "Change requests".
"""

from __future__ import annotations

import numpy as np

from argosy_core.arrays import Int32s
from argosy_core.job.tables.live import HELD, PENDING
from argosy_core.scheduler.columns.codes import EVENT_HELD, EVENT_RELEASED
from argosy_core.scheduler.memory.state import PoolState
from argosy_core.scheduler.outgoing.events import EventBuffer

__all__ = ["hold", "release"]


def hold(state: PoolState, slots: Int32s, events: EventBuffer, reason: int) -> None:
    """Hold live jobs, each once; those that are held already are left alone. Complexity: O(n) in NumPy.

    Args:
        state: The pool, between two rounds.
        slots: The jobs.
        events: Where HELD goes.
        reason: Index of the reason in `events`.
    """
    live = state.live
    slots = slots[(live.flags[slots] & HELD) == 0]
    events.add(slots, EVENT_HELD, to_state=live.state[slots], reason=reason)
    queued = slots[state.stage_is_queued(slots)]
    state.count_queued(queued, -1)
    live.flags[slots] |= HELD
    state.count_queued(queued, 1)
    followers = state.promises.followers
    heads = queued[np.isin(live.handle[queued], [*state.heads.tolist(), *followers])]  # a promise is taken back later
    if heads.size:
        live.flags[heads] &= np.uint8(0xFF ^ PENDING)
        stay = ~np.isin(state.heads, live.handle[heads])
        state.heads, state.head_kinds = state.heads[stay], state.head_kinds[stay]
        state.promises.followers = [handle for handle in followers if handle not in live.handle[heads]]
    state.change_count += 1


def release(state: PoolState, slots: Int32s, events: EventBuffer, reason: int) -> None:
    """Let held jobs go, each once; others are left alone. Complexity: O(n log n) in NumPy.

    Args:
        state: The pool, between two rounds.
        slots: The jobs.
        events: Where RELEASED goes.
        reason: Index of the reason in `events`.
    """
    live = state.live
    slots = slots[(live.flags[slots] & HELD) != 0]
    events.add(slots, EVENT_RELEASED, to_state=live.state[slots], reason=reason)
    queued = slots[state.stage_is_queued(slots)]
    state.count_queued(queued, -1)
    live.flags[slots] &= np.uint8(0xFF ^ HELD)
    state.count_queued(queued, 1)
    # The order passed over their entries meanwhile and may have dropped them.
    state.push_queued(queued)

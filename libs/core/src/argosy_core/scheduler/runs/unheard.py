"""Runs on nodes that are not heard of, whose specs say that they are to be replaced after a while.

Such a run may go on where nobody sees it, so without that word it is waited for. With it, the run counts as lost once
the time is over, its job waits for the next one, and what of the old one is ever seen again is told to stop.

Source: design section 5, "Node lost".
"""

from __future__ import annotations

import heapq
import math

import numpy as np

from argosy_core.arrays import Int32s
from argosy_core.scheduler.columns.codes import RUN_UNKNOWN
from argosy_core.scheduler.memory.replacing import rules_of
from argosy_core.scheduler.memory.state import PoolState

__all__ = ["next_replacement_s", "note_unheard", "take_unheard"]


def note_unheard(state: PoolState, slots: Int32s, now_s: float) -> None:
    """Take note which of some jobs' runs are not heard of, and which are again.

    Complexity: nothing in pools whose specs have no rules, Python work per job whose spec has.
    """
    live, unheard = state.live, state.unheard
    for place, rules in rules_of(state, slots):
        handle, slot = int(live.handle[slots[place]]), int(slots[place])
        if not rules.replace_after_s or live.run_state[slot] != RUN_UNKNOWN:
            unheard.since.pop(handle, None)
        elif unheard.since.get(handle, (0, 0.0))[0] != live.attempt[slot]:
            due_s = now_s + rules.replace_after_s
            unheard.since[handle] = int(live.attempt[slot]), due_s
            heapq.heappush(unheard.due, (due_s, handle))


def next_replacement_s(state: PoolState) -> float:
    """Return when to look next, seconds since the Unix epoch; infinite if never."""
    return state.unheard.due[0][0] if state.unheard.due else math.inf


def take_unheard(state: PoolState, now_s: float) -> Int32s:
    """Return the jobs whose runs have not been heard of for too long, each once, and forget them."""
    live, unheard, found = state.live, state.unheard, []
    while unheard.due and unheard.due[0][0] <= now_s:
        due_s, handle = heapq.heappop(unheard.due)
        attempt, noted_s = unheard.since.get(handle, (0, 0.0))
        if noted_s == due_s:
            del unheard.since[handle]
            found.append((handle, attempt))
    slots = live.slots(np.array([handle for handle, _ in found], dtype=np.int64))
    attempts = np.array([attempt for _, attempt in found], dtype=np.int64)
    there = (slots >= 0) & (live.attempt[slots] == attempts) & (live.run_state[slots] == RUN_UNKNOWN)
    due: Int32s = slots[there]
    return due

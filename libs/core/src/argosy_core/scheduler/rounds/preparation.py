"""What comes before a round: when one is due, and the pool brought to the present.

What has ended by its time ends here: back-offs, reasons to wait, time limits, promises. A round then begins with the
heads for which samplers are to be asked where they could start.

Source: design section 5, "Round"; 003 "Global prioritisation".
"""

from __future__ import annotations

from typing import Final

import numpy as np

from argosy_core.arrays import Int32s, has_true
from argosy_core.scheduler.backfill.gathering import find_gathering, review_gathered
from argosy_core.scheduler.backfill.promises import find_due, review_promises
from argosy_core.scheduler.memory.flows import advance_flows
from argosy_core.scheduler.memory.state import PoolState
from argosy_core.scheduler.memory.weighing import advance_weights
from argosy_core.scheduler.rounds.additions import give_up_waiting
from argosy_core.scheduler.rounds.plan import time_out_runs
from argosy_core.scheduler.runs.unheard import next_replacement_s
from argosy_core.scheduler.turns.fair_caps import find_caps
from argosy_core.scheduler.turns.job_order import keep_order
from argosy_core.scheduler.turns.making_room import make_room

__all__ = ["next_due_s", "prepare"]

_NOBODY: Final = np.zeros(0, dtype=np.int32)


def next_due_s(state: PoolState, now_s: float) -> float:
    """Return when a round could next do something without further news, seconds since the Unix epoch.

    That is now if something changed since a round found nothing to ask, or a stop or an explanation is due; else when
    the next back-off, reason to wait or lifetime that matters ends, the next head is due for a promise, or the next run
    reaches its time limit; infinite if none does.

    Args:
        state: The pool.
        now_s: Now.

    Complexity: O(queues) in NumPy.
    """
    lost_s = min(next_replacement_s(state), state.silence.next_s())
    due_s = min(lost_s, state.vacancies.next_s(), state.extras.due_s)
    limit_s = min(state.time_limits.next_s(state.live), state.promises.due_s, state.caps.due_s, due_s)
    if (
        state.unsent_stops
        or state.explained
        or state.dependencies.has_doomed
        or state.children.orphans
        or min(limit_s, state.room.due_s) <= now_s
    ):
        return now_s
    if not has_true(state.queues.queued_count > state.queues.on_hold_count):
        return limit_s
    if state.idle_at != state.change_count:
        return now_s
    moments = [state.room.due_s, state.waits.due_s(now_s), state.promises.heads_due_s]
    return min([limit_s, *moments, *(moment_s for moment_s, _ in state.back_off[:1])])


def prepare(state: PoolState, now_s: float) -> Int32s:
    """Begin a round's number, bring the pool to the present, and return the heads to ask samplers for.

    Args:
        state: The pool.
        now_s: Now.

    Complexity: O(queues) in NumPy where nothing has come due.
    """
    state.round_number += 1
    state.totals["rounds"] += 1
    state.end_back_offs(now_s)
    time_out_runs(state, now_s)
    state.node_failures.expire(now_s)
    advance_flows(state, now_s)
    advance_weights(state, now_s)
    keep_order(state, now_s)
    make_room(state, now_s)
    give_up_waiting(state, now_s)
    review_promises(state, now_s)
    _review_caps(state, now_s)
    review_gathered(state, now_s)
    due_heads = find_due(state, now_s) if state.heads.size else _NOBODY
    if state.heads.size or state.promises.gathered:
        due_heads = np.append(due_heads, find_gathering(state, now_s))
    if state.waits.expire(now_s) or due_heads.size:
        state.change_count += 1
    return due_heads


def _review_caps(state: PoolState, now_s: float) -> None:
    """Find the caps of this round; where they let others start than in the last one, look at all queues again."""
    before, state.caps = state.caps, find_caps(state)
    state.job_set_limits.reserve(state.live, state.caps.reserved, state.queues.orders)
    if before.due_s <= now_s or not before.equals(state.caps):
        state.queues.idle_at[:] = -1
        state.change_count += 1

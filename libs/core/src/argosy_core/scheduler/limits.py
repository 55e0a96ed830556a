"""What the limits of queues hold back: which jobs may be tried, and why others wait.

Source: 003 "Scheduling constraints"; design section 5, "Round" 5: a constraint is a reason to wait.
"""

from __future__ import annotations

import numpy as np

from argosy_core.arrays import Bools, Int32s, Int64s
from argosy_core.queueing import keep_within
from argosy_core.resources import format_amount
from argosy_core.scheduler.state import PoolState

__all__ = ["heads_within", "limit_text"]

_MOST_LOOKED_AT = 1 << 14
"""Jobs of a limited queue that are looked at, in its order, for some that fit below its limits."""


def heads_within(state: PoolState, row: int, count: int, wanted: Bools | None, *, view: int) -> tuple[Int32s, bool]:
    """Return the first jobs of a queue that may be tried, at most `count`, and whether these are all.

    As `Backlog.heads`, less the jobs that the limits of the queue hold back; what fits below them passes those.

    Args:
        state: The pool.
        row: Index of the queue.
        count: At least 1.
        wanted: Classes asked for.
        view: As of `Backlog.heads`.
    """
    order = state.queues.orders[row]
    if row not in state.queues.limits:
        return order.heads(count, wanted, view)
    columns, left, left_count = _left(state, row)
    look = count
    while left_count > 0:
        slots, all_of_them = order.heads(look, wanted, view)
        kept = slots[keep_within(state.job_vectors(slots)[:, columns], left, left_count)]
        is_all = all_of_them or kept.size >= left_count or look >= _MOST_LOOKED_AT
        if is_all or kept.size > count:
            return kept[:count], is_all and kept.size <= count
        look *= 2
    return np.zeros(0, dtype=np.int32), True


def limit_text(state: PoolState, slot: int) -> str:
    """Return which limit of its queue holds a waiting job back, with the numbers; empty if none does."""
    queues, row = state.queues, int(state.live.queue[slot])
    limits = queues.limits.get(row)
    if limits is None:
        return ""
    leased, most = int(queues.leased_count[row]), limits.max_running_count
    if most and leased >= most:
        return f"its queue runs {leased:,} of at most {most:,} jobs"
    columns, left, _ = _left(state, row)
    asked = state.job_vectors(np.array([slot], dtype=np.int32))[0, columns]
    over = np.flatnonzero(asked > np.maximum(left, 0))
    if not over.size:
        return ""
    at = int(over[0])
    name, held = state.classes.axis.names[columns[at]], int(queues.held[row, columns[at]])
    texts = [format_amount(name, amount) for amount in (int(asked[at]), held, held + int(left[at]))]
    return f"it asks for {texts[0]} of {name}, and its queue holds {texts[1]} of at most {texts[2]}"


def _left(state: PoolState, row: int) -> tuple[list[int], Int64s, int]:
    """Return the columns of resources that are limited, how much more of each may be held, and how many more jobs."""
    queues, limits, names = state.queues, state.queues.limits[row], state.classes.axis.names
    most = {names.index(name): amount for name, amount in limits.max_running_amounts if name in names}
    columns = list(most)
    left: Int64s = np.array(list(most.values()), dtype=np.int64) - queues.held[row, columns]
    most_count = limits.max_running_count or np.iinfo(np.int64).max
    return columns, left, int(most_count - queues.leased_count[row])

"""How many starts a queue below its share is promised at once: as many as it takes to reach it.

A queue of jobs that need more than one run gives back never grows by what ends by itself: smaller jobs take that piece
by piece. One promise after the other would let it grow by one job for each time that a node takes to empty, which may
be as long as its jobs run; so it would stay where it is, however small its part of the pool. Therefore a waiting head
whose queue is below its share has as many of those behind it promised starts with it as that queue is short of, in the
order in which they would be placed if there were room.

Source: 003 "Global prioritisation"; design section 5, "Round" 5; decision 0017.
"""

from __future__ import annotations

import numpy as np

from argosy_core.arrays import Float64s, Int32s
from argosy_core.queueing import MICRO, Filled, next_turn, to_cores
from argosy_core.scheduler.memory.state import PoolState
from argosy_core.scheduler.turns.prioritise import next_in_queue, queues_of, queues_with_work, waiting_of
from argosy_core.scheduler.turns.turns import turn_usage

__all__ = ["find_growth"]


def find_growth(state: PoolState, heads: Int32s, room: Float64s, count: int) -> Int32s:
    """Return jobs behind some heads and like them, to be promised starts with them.

    Args:
        state: The pool.
        heads: Heads that are to be promised a start.
        room: How far each queue is below its share without them, cores.
        count: How many at most.

    Returns:
        Jobs of the kinds of the heads, and of those that were promised starts before, as long as their queues are next
        in fairness order with all that is promised, and stay at or below their shares.

    Complexity: O(queues) in Python, and O(queues log queues) in NumPy per job returned.
    """
    if not heads.size:
        return np.zeros(0, dtype=np.int32)
    live, usage, room = state.live, turn_usage(state).copy(), room.copy()
    sizes = state.job_usage(heads)
    np.add.at(usage, live.queue[heads], sizes)
    np.subtract.at(room, live.queue[heads], to_cores(sizes))
    kinds = dict.fromkeys(zip(live.queue[heads].tolist(), live.class_index[heads].tolist(), strict=True))
    kinds.update(dict.fromkeys(state.promises.kinds))
    likes = {row: waiting_of(state, row, class_index, count) for row, class_index in kinds if room[row] > 0}
    likes = {row: slots for row, slots in likes.items() if slots}
    found: list[int] = []
    if not likes:
        return np.array(found, dtype=np.int32)
    rows = queues_with_work(state)
    following = [next_in_queue(state, row, 1, None)[:1] for row in rows.tolist()]
    rows = rows[[slots.size > 0 for slots in following]]
    slots = np.concatenate([np.zeros(0, dtype=np.int32), *following])
    nexts = Filled(
        slots=slots, rows=np.arange(rows.size), usage=state.job_usage(slots), classes=live.class_index[slots]
    )
    while len(found) < count:
        row = int(rows[next_turn(queues_of(state, rows, usage), nexts)])
        size = int(state.job_usage(np.array(likes[row][:1], dtype=np.int32))[0]) if likes.get(row) else 0
        if not size or size / MICRO > room[row]:
            break
        found.append(likes[row].pop(0))
        usage[row] += size
        room[row] -= size / MICRO
    return np.array(found, dtype=np.int32)

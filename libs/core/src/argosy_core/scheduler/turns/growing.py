"""Which runs of gangs grow with spare room, and which extras are taken back.

Runs grow while nobody waits for room and the last round has started nothing, those of the queues that have least by
weight first. Extras are taken back as soon as a waiting head finds no room: the newest first, on one node if those
there are enough, else as many as have what the head asks for. A run that was shrunk does not grow for a while, each
time for longer, so that it does not grow and shrink for ever beside a stream of others.

Source: 003 "Distributed jobs", "Preemption"; decision 0018.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from argosy_core.arrays import Bools, Int16s, Int32s, has_true, true_places
from argosy_core.job.states import IS_RUN_TERMINAL
from argosy_core.job.tables.live import LiveMembers
from argosy_core.job.tables.members import MAX_REPLACEMENT, number_of, place_of, replacement_of
from argosy_core.scheduler.memory.replacing import are_extras, may_be_added_to
from argosy_core.scheduler.memory.state import PoolState

__all__ = ["choose_growth", "live_extras", "note_growth", "take_back"]

_PERIOD_S: Final = 10.0
"""How often it is looked whether runs may grow: seldom beside rounds, often beside what runs take."""
_MOST_AT_ONCE: Final = 16
"""Members that a run gets in a round, so that several share what is spare."""
_NODE_BITS: Final = 32


def _elastic_runs(state: PoolState) -> Int32s:
    """Return the jobs whose runs may have more members than they begin with. Complexity: nothing without any."""
    elastic = state.classes.elastic
    if not elastic or not len(state.live.members):
        return np.zeros(0, dtype=np.int32)
    slots = np.unique(state.live.members.slot)
    return slots[np.isin(state.live.class_index[slots], list(elastic))]


def note_growth(state: PoolState, now_s: float) -> None:
    """Say when it is to be looked again whether runs may grow."""
    state.extras.due_s = now_s + _PERIOD_S if _elastic_runs(state).size else np.inf


def choose_growth(state: PoolState, now_s: float, most: int) -> list[tuple[int, Int16s]]:
    """Return (job, numbers of members) to be added to runs now; nothing while others wait for room.

    Args:
        state: The pool, before a round.
        now_s: Now.
        most: Most members of all.
    """
    if state.extras.due_s > now_s:
        return []
    note_growth(state, now_s)
    live, queues = state.live, state.queues
    is_busy = state.statistics.decided_count and has_true(queues.queued_count > queues.on_hold_count)
    if is_busy or state.heads.size or state.promises.standing or state.promises.gathered:
        return []
    slots = _elastic_runs(state)
    slots = slots[may_be_added_to(state, slots) & (live.start_time_us[slots] > 0)]
    slots = slots[state.clusters.usable()[live.cluster[slots]] & ~queues.cordoned[live.queue[slots]]]
    by_weight = queues.usage / np.where(queues.weight > 0, queues.weight, 1.0)
    chosen: list[tuple[int, Int16s]] = []
    for slot in slots[np.lexsort((live.handle[slots], by_weight[live.queue[slots]]))].tolist():
        handle = int(live.handle[slot])
        if state.extras.quiet_until_s(handle) > now_s or state.vacancies.get(handle) is not None:
            continue
        numbers = _open_places(state, slot)[: min(most, _MOST_AT_ONCE)]
        most -= numbers.size
        if numbers.size:
            chosen.append((slot, numbers))
    return chosen


def _open_places(state: PoolState, slot: int) -> Int16s:
    """Return the numbers of the members that a run could get beyond those that it has, lowest places first."""
    gang, table = state.classes.gangs[int(state.live.class_index[slot])], state.live.members
    rows = table.rows(np.array([slot], dtype=np.int32))[1]
    numbers, is_open = table.number[rows], ~IS_RUN_TERMINAL[table.state[rows]]
    following = np.zeros(gang.members.size, dtype=np.int16)
    np.maximum.at(following, place_of(numbers), (replacement_of(numbers) + 1).astype(np.int16))
    free = np.ones(gang.members.size, dtype=np.bool_)
    free[: gang.least_count] = False
    free[place_of(numbers[is_open])] = False
    free &= following <= MAX_REPLACEMENT
    places = true_places(free).astype(np.int16)
    wanted: Int16s = number_of(places, following[places]).astype(np.int16)
    return wanted


def live_extras(state: PoolState) -> LiveMembers:
    """Return the extras that run and are not being stopped, by job and number."""
    slots = _elastic_runs(state)
    held = state.live.live_members(slots[may_be_added_to(state, slots)])
    held = held.take((held.state > 0) & are_extras(state, held.slot, held.keys.member))
    if state.extras.stopping and held.slot.size:
        held = held.take(np.array([key not in state.extras.stopping for key in held.keys.pairs()], dtype=np.bool_))
    return held


def take_back(state: PoolState, slot: int, extras: LiveMembers, now_s: float) -> Bools | None:
    """Have extras stopped for a waiting head; return which, None if none could be of use to it.

    Args:
        state: The pool.
        slot: The head.
        extras: What may be taken back.
        now_s: Now.
    """
    at = true_places(state.heads == state.live.handle[slot])
    if not extras.slot.size or not at.size:
        return None
    live, cluster = state.live, state.live.cluster[extras.slot].astype(np.int64)
    is_of_use = state.head_kinds[int(at[0])][cluster] != 0
    wanted = state.requested_vectors(np.array([slot], dtype=np.int32))[0]
    of_class = state.classes.member_indices(live.class_index[extras.slot], extras.keys.numbers())
    amounts = state.classes.requests[of_class]
    is_of_use &= ((amounts > 0) & (wanted > 0)).any(axis=1)
    if not has_true(is_of_use):
        return None
    places = cluster << _NODE_BITS | extras.node
    newest_first = np.argsort(-extras.keys.member, kind="stable")
    for place in dict.fromkeys(places[newest_first][is_of_use[newest_first]].tolist()):
        there = is_of_use & (places == place)
        if (amounts[there].sum(axis=0) >= wanted).all():
            is_of_use = there
            break
    chosen = np.zeros(extras.slot.size, dtype=np.bool_)
    held = np.zeros_like(wanted)
    # Of each run those go first that came last.
    for line in newest_first[is_of_use[newest_first]].tolist():
        if (held >= wanted).all():
            break
        chosen[line], held = True, held + amounts[line]
    state.extras.stop(extras.keys[chosen], now_s)
    return chosen

"""Members that are lost and replaced while the others of their run go on.

What a place of a run has come to is what its last member has: whoever was there before is *superseded*. A place whose
member is lost stands *vacant* until another is there, if the job's rules allow that: they say whether lost ones are
placed anew, or those that failed, too. They bound it: a run whose members have failed or were lost as often as the
job's runs may fail is broken, and so is one of which nobody is left. Members beyond the least number of their gang
never break a run by being taken away.

All of it follows from rows that are stored, so the next leader finds the same places vacant.

Source: 003 "Distributed jobs"; decision 0023.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from argosy_core.arrays import Bools, Int8s, Int16s, Int32s
from argosy_core.job.reading.retry_rules import ReplacedMembers, RetryRules
from argosy_core.job.states import IS_RUN_TERMINAL
from argosy_core.job.tables.live import CANCEL_REQUESTED, IN_FLIGHT, STOP_SENT, TIMED_OUT
from argosy_core.job.tables.members import MAX_REPLACEMENT, number_of, place_of, replacement_of
from argosy_core.scheduler.columns.codes import RUN_CANCELLED, RUN_FAILED, RUN_LOST
from argosy_core.scheduler.memory.state import PoolState

__all__ = [
    "VacantMembers",
    "are_extras",
    "find_superseded",
    "forgive",
    "may_be_added_to",
    "note_vacancies",
    "rules_of",
    "vacant_members",
]

_ENDING: Final = CANCEL_REQUESTED | STOP_SENT | TIMED_OUT | IN_FLIGHT
_PLACE_LIMIT: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class VacantMembers:
    """Members to be placed, of one run."""

    slot: int
    """Its job."""
    numbers: Int16s
    """(n,) their numbers in the run: those of the lost ones, and one replacement further."""
    last_nodes: Int32s
    """(n,) node name index of each one's predecessor, -1 if that is not known."""


def rules_of(state: PoolState, slots: Int32s) -> list[tuple[int, RetryRules]]:
    """Return (place, rules) of the jobs among some whose specs have rules."""
    specs = state.live.specs
    if not specs.has_rules:
        return []
    layouts = specs.layout_ids(state.live.spec[slots]).tolist()
    found = ((place, specs.layout(layout).rules) for place, layout in enumerate(layouts))
    return [(place, rules) for place, rules in found if rules is not None]


def find_superseded(slots: Int32s, numbers: Int16s) -> Bools:
    """Return which members have a later one in their places.

    Args:
        slots: Job of each.
        numbers: Number of each in its run.
    """
    later = replacement_of(numbers)
    if not later.any():
        return np.zeros(numbers.size, dtype=np.bool_)
    _, where = np.unique(slots.astype(np.int64) * _PLACE_LIMIT + place_of(numbers), return_inverse=True)
    last = np.zeros(int(where.max()) + 1, dtype=np.int64)
    np.maximum.at(last, where, later)
    superseded: Bools = later < last[where]
    return superseded


def are_extras(state: PoolState, slots: Int32s, numbers: Int16s) -> Bools:
    """Return which members are beyond the least number of their gang."""
    extras = np.zeros(numbers.size, dtype=np.bool_)
    classes = state.live.class_index[slots]
    for index in state.classes.gangs.keys() & set(classes.tolist()) if state.classes.gangs else ():
        at = classes == index
        extras[at] = place_of(numbers[at]) >= state.classes.gangs[index].least_count
    return extras


def forgive(state: PoolState, slots: Int32s, numbers: Int16s, ends: Int8s) -> Bools:
    """Return which bad ends of members leave their runs whole.

    Args:
        state: The pool.
        slots: Job of each member; those of a run stand together, all of them.
        numbers: Number of each in its run.
        ends: RunState that each ended in or is about to; 0 for those that go on.
    """
    forgiven: Bools = are_extras(state, slots, numbers) & ((ends == RUN_LOST) | (ends == RUN_CANCELLED))
    is_bad = (ends == RUN_FAILED) | (ends == RUN_LOST)
    if not (is_bad & ~forgiven).any() or not state.live.specs.has_rules:
        return forgiven
    jobs, where = np.unique(slots, return_inverse=True)
    for place, rules in rules_of(state, jobs):
        if rules.replaced_members is ReplacedMembers.NONE:
            continue
        mine = (where == place) & is_bad & ~forgiven
        limit = rules.max_failed_runs or state.settings.max_runs
        is_allowed = int(mine.sum()) + int(state.live.failures[jobs[place]]) < limit
        if is_allowed and rules.replaced_members is not ReplacedMembers.ALL:
            forgiven |= mine & (ends == RUN_LOST)
        elif is_allowed:
            forgiven |= mine
    # No number is left for another one.
    forgiven[is_bad & (replacement_of(numbers) >= MAX_REPLACEMENT)] = False
    return forgiven


def may_be_added_to(state: PoolState, slots: Int32s) -> Bools:
    """Return which jobs have a run that goes on and is not to end, so that it may get further members."""
    live = state.live
    open_run: Bools = (live.run_state[slots] > 0) & ~IS_RUN_TERMINAL[live.run_state[slots]]
    open_run &= (live.flags[slots] & _ENDING) == 0
    if state.room.preempted:
        open_run &= ~np.isin(live.handle[slots], list(state.room.preempted))
    return open_run


def vacant_members(state: PoolState, slot: int) -> VacantMembers:
    """Return who is to be placed anew of a run."""
    table, of_run = state.live.members, np.array([slot], dtype=np.int32)
    rows = table.rows(of_run)[1]
    numbers, ends = table.number[rows], table.state[rows]
    slots = np.full(rows.size, slot, dtype=np.int32)
    is_bad = (ends == RUN_FAILED) | (ends == RUN_LOST)
    vacant = is_bad & ~find_superseded(slots, numbers) & ~are_extras(state, slots, numbers)
    vacant &= forgive(state, slots, numbers, np.where(IS_RUN_TERMINAL[ends], ends, 0).astype(np.int8))
    lost = numbers[vacant]
    following = number_of(place_of(lost), replacement_of(lost) + np.int16(1)).astype(np.int16)
    return VacantMembers(slot, following, table.node[rows[vacant]])


def note_vacancies(state: PoolState, slots: Int32s, now_s: float) -> None:
    """Have places filled of runs that have lost members; call for runs that are not broken.

    Args:
        state: The pool.
        slots: Jobs whose runs have rows of members.
        now_s: Now.
    """
    if not state.live.specs.has_rules:
        return
    for slot in slots.tolist():
        handle = int(state.live.handle[slot])
        if not vacant_members(state, slot).numbers.size:
            state.vacancies.drop(handle)
            continue
        table = state.live.members
        rows = table.rows(np.array([slot], dtype=np.int32))[1]
        lost_count = int(np.isin(table.state[rows], (RUN_FAILED, RUN_LOST)).sum())
        state.vacancies.begin(handle, lost_count, now_s + _back_off_s(state, lost_count), now_s)


def _back_off_s(state: PoolState, lost_count: int) -> float:
    settings = state.settings
    return float(min(settings.back_off_initial_s * 2.0 ** min(lost_count - 1, 40), settings.back_off_max_s))

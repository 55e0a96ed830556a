"""How reports of objects move runs on, before anything ends.

A run of one object has its object's state. A run of several keeps a state per object: it has got as far as its farthest
pod; it is *broken* once an object failed or a pod is gone, and is then deleted; it ends when all its pods have ended.
Where a run has several members, so it is with each of them; what the run has come to says `run_members`.

A pod of a broken bag that was never reported has not ended: its creation may be under way, and beside it no other run
may begin. The executor tells of it once nobody can make it any more.

Source: design section 4; section 5, "Sync"; 003 "Jobs" (a bag of objects with a shared life cycle).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import Bools, Int8s, Int16s, Int32s, Int64s, has_true
from argosy_core.job.states import (
    IS_RUN_TERMINAL,
    RUN_MAY_FOLLOW,
    FailureKind,
)
from argosy_core.job.tables.members import replacement_of
from argosy_core.scheduler.columns.codes import (
    EVENT_CREATED,
    EVENT_MEMBER_RUNNING,
    EVENT_RUNNING,
    EVENT_UNKNOWN,
    JOB_LEASED,
    JOB_RUNNING,
    OBJECT_CANCELLED,
    OBJECT_CREATED,
    OBJECT_FAILED,
    OBJECT_LOST,
    OBJECT_RUNNING,
    OBJECT_SUCCEEDED,
    OBJECT_UNKNOWN,
    RUN_CANCELLED,
    RUN_CREATED,
    RUN_FAILED,
    RUN_LEASED,
    RUN_LOST,
    RUN_RUNNING,
    RUN_SUCCEEDED,
    RUN_UNKNOWN,
)
from argosy_core.scheduler.columns.messages import StateColumns
from argosy_core.scheduler.memory.replacing import are_extras, note_vacancies
from argosy_core.scheduler.memory.results import BagFailure
from argosy_core.scheduler.memory.run_members import are_broken_bags, object_places, run_states
from argosy_core.scheduler.memory.state import PoolState
from argosy_core.scheduler.outgoing.events import Detail, EventBuffer

__all__ = ["Ended", "EndedMembers", "Progress", "broken_runs"]

_RAN: Final = np.array(
    [kind in {FailureKind.EXIT_CODE, FailureKind.OUT_OF_MEMORY, FailureKind.TIME_LIMIT} for kind in FailureKind]
)
"""By FailureKind: a pod that failed so has run."""


@dataclass(frozen=True, slots=True)
class Ended:
    """Runs that ended, one element each."""

    slots: Int32s
    """Jobs."""
    rows: npt.NDArray[np.int64]
    """The elements of the reports that ended them."""
    end: Int8s
    """SUCCEEDED, FAILED, CANCELLED or LOST, as the pods did."""


@dataclass(frozen=True, slots=True)
class EndedMembers:
    """Members that ended, of runs that have others; one element each."""

    slots: Int32s
    """Jobs."""
    numbers: Int16s
    """Their numbers in their runs."""
    nodes: Int32s
    """Node name indices in the clusters of their runs."""
    start_time_us: Int64s
    """When the first pod of each ran; 0 if none did."""
    rows: npt.NDArray[np.int64]
    """The elements of the reports that ended them."""
    end: Int8s
    """SUCCEEDED, FAILED, CANCELLED or LOST, as the pods did."""


class Progress:
    """Applies reports to the table of live jobs and collects what follows."""

    def __init__(self, state: PoolState, columns: StateColumns, events: EventBuffer) -> None:
        """Start with nothing applied."""
        self._state = state
        self._columns = columns
        self._events = events
        self.applied: list[npt.NDArray[np.int64]] = []
        """Elements that moved an object on, in order."""
        self.ended: list[Ended] = []
        """Runs that ended."""
        self.ended_members: list[EndedMembers] = []
        """Members that ended, those of the runs that ended among them."""
        self.broken: list[Int32s] = []
        """Jobs whose run broke and whose other objects shall be deleted."""

    def apply(self, rows: npt.NDArray[np.int64], slots: Int32s, held: Int64s | None) -> None:
        """Apply one report for each of some members of current runs.

        Args:
            rows: Elements of the columns.
            slots: Their jobs, each once but for different members.
            held: Row in the table of members of each, -1 for runs that have none there; None if none has.
        """
        if held is not None and has_true(held >= 0):
            of_members = held >= 0
            self._apply_members(rows[of_members], slots[of_members], held[of_members])
            rows, slots = rows[~of_members], slots[~of_members]
        live = self._state.live
        reported, index = self._columns.state[rows], self._columns.object_index[rows]
        bag = live.bag[slots]
        before = np.where(bag < 0, live.run_state[slots], 0).astype(np.int8)
        several = bag >= 0
        if has_true(several):
            before[several] = live.bag_states[bag[several], index[several]]
        moves = RUN_MAY_FOLLOW[before, reported] & ~IS_RUN_TERMINAL[live.run_state[slots]]
        if not moves.all():
            rows, slots, reported, several = rows[moves], slots[moves], reported[moves], several[moves]
        if rows.size == 0:
            return
        self.applied.append(rows)
        after = reported.copy()
        if has_true(several):
            bags, jobs = bag[moves][several], slots[several]
            was_broken = are_broken_bags(self._state, jobs, bags)
            after[several] = self._apply_bags(rows[several], jobs, bags, reached=live.run_state[jobs])
            self._note_failures(rows[several], jobs)
            broken = are_broken_bags(self._state, jobs, bags)
            self.broken.append(jobs[broken & ~was_broken & ~IS_RUN_TERMINAL[after[several]]])
        self._move(rows, slots, after)

    def _apply_members(self, rows: npt.NDArray[np.int64], slots: Int32s, held: Int64s) -> None:
        """Apply reports about members of runs that have rows for them, and let the runs follow."""
        live, table = self._state.live, self._state.live.members
        index, bag = self._columns.object_index[rows], table.bag[held]
        several = bag >= 0
        before = table.state[held].copy()
        before[several] = live.bag_states[bag[several], index[several]]
        moves = RUN_MAY_FOLLOW[before, self._columns.state[rows]] & ~IS_RUN_TERMINAL[table.state[held]]
        rows, slots, held, several = rows[moves], slots[moves], held[moves], several[moves]
        if not rows.size:
            return
        self.applied.append(rows)
        jobs, which = np.unique(slots, return_inverse=True)
        was_broken = run_states(self._state, jobs)[1]
        after = self._columns.state[rows]
        if has_true(several):
            of_bags = held[several]
            after[several] = self._apply_bags(
                rows[several], slots[several], table.bag[of_bags], reached=table.state[of_bags]
            )
        self._note_failures(rows, slots)
        table.state[held] = after
        starts = (after == RUN_RUNNING) & (table.start_time_us[held] == 0)
        table.start_time_us[held[starts]] = self._columns.time_us[rows[starts]]
        self._say_begun(rows[starts], slots[starts], held[starts])
        ended = IS_RUN_TERMINAL[after]
        if has_true(ended):
            gone = held[ended]
            self.ended_members.append(
                EndedMembers(
                    slots[ended], table.number[gone], table.node[gone], table.start_time_us[gone], rows[ended],
                    after[ended],
                )
            )  # fmt: skip
        reached, broken = run_states(self._state, jobs)
        note_vacancies(self._state, jobs[~broken & ~IS_RUN_TERMINAL[reached]], self._state.flow_time_s)
        self.broken.append(jobs[broken & ~was_broken & ~IS_RUN_TERMINAL[reached]])
        last = np.zeros(jobs.size, dtype=np.int64)
        last[which] = rows
        self._move(last, jobs, reached)

    def _say_begun(self, rows: npt.NDArray[np.int64], slots: Int32s, held: Int64s) -> None:
        """Write an event for each further member that runs; the first ones of a run are told by the job's own."""
        table = self._state.live.members
        further = (replacement_of(table.number[held]) > 0) | are_extras(self._state, slots, table.number[held])
        if has_true(further):
            rows, slots, held = rows[further], slots[further], held[further]
            self._events.add_members(
                slots,
                EVENT_MEMBER_RUNNING,
                numbers=table.number[held],
                nodes=table.node[held],
                time_us=self._columns.time_us[rows],
            )

    def _apply_bags(self, rows: npt.NDArray[np.int64], slots: Int32s, bag: Int32s, *, reached: Int8s) -> Int8s:
        """Set the states of objects of bags, and return the state that follows for whoever has the bag.

        Args:
            rows: Elements of the columns.
            slots: Their jobs.
            bag: Their bags, each once.
            reached: How far the run, or the member, that has the bag has got.
        """
        live = self._state.live
        index = self._columns.object_index[rows]
        is_object, is_pod = object_places(self._state, slots)
        live.bag_states[bag, index] = self._columns.state[rows]
        states = live.bag_states[bag]
        ended = (IS_RUN_TERMINAL[states] | ~is_pod).all(axis=1)
        failed = ((states == OBJECT_FAILED) & is_object).any(axis=1)
        pods = np.where(is_pod, states, 0)
        lost, cancelled = (pods == OBJECT_LOST).any(axis=1), (pods == OBJECT_CANCELLED).any(axis=1)
        end = np.select([failed, lost, cancelled], [RUN_FAILED, RUN_LOST, RUN_CANCELLED], RUN_SUCCEEDED)
        unknown = (pods == OBJECT_UNKNOWN).any(axis=1)
        ran = ((pods == OBJECT_RUNNING) | (pods == OBJECT_SUCCEEDED)).any(axis=1)
        ran |= self._failed_by_itself(rows) & is_pod[np.arange(rows.size), index]
        created = (pods == OBJECT_CREATED).any(axis=1)
        # A run does not go back to created because the pod that ran is the one that ended.
        open_state = np.select(
            [unknown, ran | (reached == RUN_RUNNING) | (reached == RUN_UNKNOWN), created],
            [RUN_UNKNOWN, RUN_RUNNING, RUN_CREATED],
            reached,
        )
        return np.where(ended, end, open_state).astype(np.int8)

    def _failed_by_itself(self, rows: npt.NDArray[np.int64]) -> Bools:
        """Return which elements tell of pods that failed after they had run."""
        failure = np.clip(self._columns.failure[rows], 0, len(FailureKind) - 1)
        own: Bools = (self._columns.state[rows] == OBJECT_FAILED) & _RAN[failure]
        return own

    def _note_failures(self, rows: npt.NDArray[np.int64], slots: Int32s) -> None:
        """Keep the first failure of each bag until its run ends."""
        columns = self._columns
        failures = self._state.bag_failures
        for row, slot in zip(rows.tolist(), slots.tolist(), strict=True):
            if columns.state[row] == OBJECT_FAILED:
                handle = int(self._state.live.handle[slot])
                text = columns.texts[columns.message[row]] if columns.message[row] >= 0 else ""
                failure = BagFailure(
                    failure=int(columns.failure[row]), exit_code=int(columns.exit_code[row]), reason=text
                )
                failures.setdefault(handle, failure)

    def _move(self, rows: npt.NDArray[np.int64], slots: Int32s, after: Int8s) -> None:
        """Set the states of runs and jobs, and write the events of every state reached on the way."""
        live = self._state.live
        before = live.run_state[slots]
        time_us = self._columns.time_us[rows]
        ended = IS_RUN_TERMINAL[after]
        own_failure = (after == RUN_FAILED) & self._failed_by_itself(rows)
        ran = (after == RUN_RUNNING) | (after == RUN_SUCCEEDED) | own_failure
        created = ran | (after == RUN_CREATED) | (after == RUN_UNKNOWN)
        is_new = before == RUN_LEASED
        self._say(slots, time_us, is_new & created, EVENT_CREATED)
        starts = ran & (is_new | (before == RUN_CREATED))
        back = (before == RUN_UNKNOWN) & (after == RUN_RUNNING)
        seen = (starts | back) & (after == RUN_RUNNING) & (live.start_time_us[slots] == 0)
        live.start_time_us[slots[seen]] = time_us[seen]
        self._state.time_limits.note_started(live, slots[seen])
        self._say(slots, time_us, starts | back, EVENT_RUNNING)
        self._say(slots, time_us, (after == RUN_UNKNOWN) & (before != after), EVENT_UNKNOWN)
        live.run_state[slots] = after
        if has_true(ended):
            self.ended.append(Ended(slots[ended], rows[ended], after[ended]))

    def _say(self, slots: Int32s, time_us: Int64s, chosen: Bools, kind: int) -> None:
        """Write one event for the chosen jobs and set their state."""
        if not has_true(chosen):
            return
        target = JOB_LEASED if kind == EVENT_CREATED else JOB_RUNNING
        jobs = slots[chosen]
        place = kind == EVENT_UNKNOWN
        self._events.add(
            jobs,
            int(kind),
            to_state=int(target),
            time_us=time_us[chosen],
            with_run=Detail.PLACE if place else Detail.ATTEMPT,
        )
        self._state.live.state[jobs] = target


def broken_runs(state: PoolState, slots: Int32s) -> Int32s:
    """Return those of some jobs whose run has a failed object, or a pod or member that is gone."""
    live = state.live
    bags, several = slots[live.bag[slots] >= 0], slots[live.members.has(slots)]
    return np.concatenate([bags[are_broken_bags(state, bags, live.bag[bags])], several[run_states(state, several)[1]]])

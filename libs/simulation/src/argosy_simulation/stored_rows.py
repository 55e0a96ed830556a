"""Rows of the model of the database, and records of that of the log."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from argosy_core.job.states import ObjectState, RunState
from argosy_core.job.tables.members import Members, attempt_of
from argosy_core.job.tables.rows import HeldAmounts
from argosy_core.scheduler import LeasePlan

__all__ = ["JobRow", "LogRecord", "RunRow", "held_of", "keys_of"]

_LEASED = int(ObjectState.LEASED)
_FAILURES = (int(RunState.FAILED), int(RunState.LOST))


@dataclass(slots=True)
class RunRow:
    """A row of `runs`, a member of a run, with those of its objects."""

    cluster: str
    node: str
    objects: list[int]
    """State of each object by position."""
    start_time_us: int = 0
    """When its first pod ran, as stored with its objects; 0 not yet."""
    state: int = _LEASED
    ended: bool = False
    failure: int = 0
    """FailureKind that it ended with."""
    exit_code: int = 0
    """Exit code that it ended with."""
    reason: str = ""
    """Why it ended."""
    held: dict[str, int] = field(default_factory=dict)
    """What it holds, of what is not as its class says."""
    charge_core_s: int = 0
    """What its run takes of its queue's excess flow budget, core-seconds."""
    lease_time_us: int = 0
    """When it was leased."""
    end_time_us: int = 0
    """When it ended."""


@dataclass(slots=True)
class JobRow:
    """A row of `jobs` with its runs."""

    index: int
    submit_time_us: int
    priority: int
    state: int = 0
    """0 while open, else the terminal JobState."""
    change_request: bool = False
    """A cancel request is set."""
    held: bool = False
    """It is held."""
    preempt_attempt: int = 0
    """Attempt that somebody asked to preempt, 0 for none."""
    may_run: bool = True
    """It has not been held ever since it was submitted."""
    live_attempt: int = 0
    """Attempt of the live run, 0 if none."""
    runs: dict[int, RunRow] = field(default_factory=dict)
    """Members of runs by attempt and member, see `ordinal_of`."""
    failed_time_us: int = 0
    """When the last of its runs that failed ended; 0 if none has."""
    event_state: int = 0
    """State that its events have led to; 0 before the first."""

    def note_request(self, *, priority: int | None, held: bool | None, preempt: bool) -> bool:
        """Note what somebody asks of the job, which is to cancel it if it is nothing else; return whether it is new."""
        before = self.priority, self.held, self.preempt_attempt, self.change_request
        if preempt:
            self.preempt_attempt = self.live_attempt or self.preempt_attempt
        elif priority is not None:
            self.priority = priority
        elif held is not None:
            self.held, self.may_run = held, self.may_run or not held
        else:
            self.change_request = True
        return before != (self.priority, self.held, self.preempt_attempt, self.change_request)

    def members(self) -> dict[int, RunRow]:
        """Return the members of the live run, those that ended among them."""
        return {ordinal: run for ordinal, run in self.runs.items() if attempt_of(ordinal) == self.live_attempt}

    def failure_count(self) -> int:
        """Return how many runs that are over have failed or were lost."""
        failed = {attempt_of(ordinal) for ordinal, run in self.runs.items() if run.state in _FAILURES}
        return len(failed - {self.live_attempt})


@dataclass(frozen=True, slots=True)
class LogRecord:
    """What a leader published in one go, as the simulated log keeps it."""

    position: int
    epoch: int
    plan: LeasePlan | None
    """None for a marker."""


def keys_of(rows: list[tuple[int, int, RunRow]]) -> Members:
    """Return the keys of members."""
    return Members(np.array([row[0] for row in rows], np.int64), np.array([row[1] for row in rows], np.int64))


def held_of(rows: list[tuple[int, int, RunRow]]) -> HeldAmounts | None:
    """Return what members hold that is not as their classes say."""
    if not rows:
        return None
    names = tuple(sorted({name for _, _, run in rows for name in run.held}))
    amounts = [[run.held.get(name, -1) for name in names] for _, _, run in rows]
    return HeldAmounts(members=keys_of(rows), names=names, amounts=np.array(amounts, dtype=np.int64))

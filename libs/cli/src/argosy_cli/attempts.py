"""What stands for the newest attempt at a job, which has several members where the job is distributed.

The last of a job's runs is only one of them: an extra that came late, a replacement, one that was stopped with others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from datetime import datetime

    from argosy_client import Job, Run

__all__ = ["current_members", "end_time", "start_time", "told_run"]

_FAULTY: Final = frozenset({"failed", "lost", "returned"})
"""States in which a run ends that nobody asked to end."""


def current_members(job: Job) -> tuple[Run, ...]:
    """Return the members of a job's newest attempt by number, those left out that were replaced."""
    newest = {run.member: run for run in sorted(_newest(job), key=lambda run: run.replacement)}
    return tuple(newest[member] for member in sorted(newest))


def told_run(job: Job) -> Run | None:
    """Return the member that a job is told by: the first that lives, else the one whose fault ended all.

    The first where all ended well, None of a job that was never leased.
    """
    members = current_members(job)
    living = (run for run in members if run.end_time is None)
    faulty = sorted((run for run in members if run.end_time and run.state in _FAULTY), key=_ended)
    return next(living, None) or next(iter((*faulty, *members)), None)


def start_time(job: Job) -> datetime | None:
    """Return when the first member of a job's newest attempt began, None if none has."""
    return min((run.start_time for run in _newest(job) if run.start_time is not None), default=None)


def end_time(job: Job) -> datetime | None:
    """Return when the last member of a job's newest attempt ended, None while one lives."""
    ends = [run.end_time for run in _newest(job)]
    return max((time for time in ends if time is not None), default=None) if None not in ends else None


def _newest(job: Job) -> list[Run]:
    return [run for run in job.runs if run.attempt == job.runs[-1].attempt]


def _ended(run: Run) -> float:
    return run.end_time.timestamp() if run.end_time is not None else 0.0

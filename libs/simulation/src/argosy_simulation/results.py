"""What a world says at its end: when each job got where, and what was counted.

Source: design section 7; the report's figures in argosy_workload.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from argosy_core.job.states import JobEventKind
from argosy_core.scheduler import EventDraft

__all__ = ["JobTimes", "WorldResult"]

Int64s = npt.NDArray[np.int64]


class JobTimes:
    """Moments of n jobs, microseconds since the Unix epoch; 0 for what has not happened.

    Args:
        count: Number of jobs.
    """

    def __init__(self, count: int) -> None:
        """Start with nothing happened."""
        self.submit_us: Int64s = np.zeros(count, dtype=np.int64)
        """(n,) accepted."""
        self.considered_us: Int64s = np.zeros(count, dtype=np.int64)
        """(n,) taken by a leader."""
        self.leased_us: Int64s = np.zeros(count, dtype=np.int64)
        """(n,) last run leased."""
        self.running_us: Int64s = np.zeros(count, dtype=np.int64)
        """(n,) last run seen running."""
        self.finished_us: Int64s = np.zeros(count, dtype=np.int64)
        """(n,) reached a terminal state."""
        self.state = np.zeros(count, dtype=np.int8)
        """(n,) JobState that the events led to; 0 before the first."""
        self.requeued_count = 0
        """Runs that were lost or returned."""

    def take(self, draft: EventDraft, offset: int) -> None:
        """Take events, in order.

        Args:
            draft: The events.
            offset: To be added to a handle to make it a row.
        """
        kinds = draft.kind
        if not len(draft):
            return
        if (kinds == kinds[0]).all():
            self._take_kind(int(kinds[0]), draft, slice(None), offset)
            return
        # Events of one job stand in order, so runs of one kind may be taken at once, one after another.
        bounds = [0, *(np.flatnonzero(np.diff(kinds)) + 1).tolist(), len(draft)]
        for first, last in pairwise(bounds):
            self._take_kind(int(kinds[first]), draft, slice(first, last), offset)

    def _take_kind(self, kind: int, draft: EventDraft, part: slice, offset: int) -> None:
        rows = draft.handle[part] + offset
        times_us = draft.time_us[part]
        self.state[rows] = draft.to_state[part]
        if kind == JobEventKind.SUBMITTED:
            self.considered_us[rows] = draft.create_time_us
        elif kind == JobEventKind.LEASED:
            self.leased_us[rows] = times_us
        elif kind == JobEventKind.RUNNING:
            self.running_us[rows] = times_us
        elif kind == JobEventKind.REQUEUED:
            self.leased_us[rows] = self.running_us[rows] = 0
            self.requeued_count += rows.size
        elif kind in {JobEventKind.SUCCEEDED, JobEventKind.FAILED, JobEventKind.CANCELLED}:
            self.finished_us[rows] = times_us


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldResult:
    """The end of a world."""

    fingerprint: str
    """Hash over everything that happened."""
    elapsed_s: float
    """Virtual seconds that passed."""
    step_count: int
    """Events that happened."""
    times: JobTimes
    """What happened to each job."""
    counters: dict[str, int]
    """Counts by name: rounds, leases, conflicts, retries, requeued, refused, stale, epochs, one per kind of fault."""

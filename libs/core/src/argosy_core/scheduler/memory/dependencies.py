"""Jobs that wait for the ends of others.

What a live job comes to is known here when it is taken out of the memory. What others have come to only the database
knows: they are asked for, again and again, until they have ended; that is so for a moment of those whose end is on its
way there, and of those whose submit has not been read, and for longer of other pools' jobs.

Source: design section 5, "Take changes".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from argosy_core.arrays import Int32s, Int64s
from argosy_core.job.identity import compose_id
from argosy_core.job.reading.after import FORGOTTEN, AfterJobs, AfterUntil
from argosy_core.job.states import JobState

__all__ = ["Dependencies", "Settled"]

_WORDS: Final = {
    JobState.FAILED: "failed",
    JobState.CANCELLED: "was cancelled",
    FORGOTTEN: "is not known any more",
}


@dataclass(slots=True)
class Settled:
    """What became of jobs that waited."""

    free: list[int] = field(default_factory=list)
    """Handles of those that wait for no other any more."""
    doomed: dict[int, str] = field(default_factory=dict)
    """Handle -> why it fails."""


@dataclass(slots=True)
class _Wait:
    """What one job waits for."""

    until: int
    count: int
    left: dict[int, int] = field(default_factory=dict)
    """Handle -> upper 64 bits of the id, of the others that have not ended."""


class Dependencies:
    """Which jobs wait for which."""

    def __init__(self) -> None:
        """Start with none."""
        self._waits: dict[int, _Wait] = {}
        self._waiters: dict[int, dict[int, None]] = {}
        """Handle of another -> those that wait for it."""
        self.has_doomed = False
        """Whether jobs that waited in vain are about to fail."""
        self.unsettled: dict[int, None] = {}
        """Handles of others that are not live here and of which no end is known."""

    def __len__(self) -> int:
        """Return how many jobs wait."""
        return len(self._waits)

    def progress(self, handle: int) -> tuple[int, int, AfterUntil] | None:
        """Return how many others have not ended, of how many, and what is waited for; None if it does not wait."""
        wait = self._waits.get(handle)
        return None if wait is None else (len(wait.left), wait.count, AfterUntil(wait.until))

    def add(self, pairs: AfterJobs, is_live: Iterable[bool]) -> Settled:
        """Take note of new jobs' pairs; what is free then never waited.

        Args:
            pairs: The pairs, with what the database says of the others.
            is_live: Whether each other is live here.
        """
        settled = Settled()
        columns = (getattr(pairs, name).tolist() for name in ("handle", "other_high", "other", "until", "state"))
        ends: dict[int, int] = {}
        for (handle, high, other, until, state), live in zip(zip(*columns, strict=True), is_live, strict=True):
            wait = self._waits.setdefault(handle, _Wait(until, 0))
            wait.count += 1
            wait.left[other] = high
            self._waiters.setdefault(other, {})[handle] = None
            if state:
                ends[other] = state
            elif not live:
                self.unsettled[other] = None
        self._end(ends, settled)
        return settled

    def note_live(self, handles: Int64s) -> None:
        """Take note that jobs are live here: their ends will be told."""
        if self.unsettled:
            for handle in handles.tolist():
                self.unsettled.pop(handle, None)

    def end(self, ends: Mapping[int, int]) -> Settled:
        """Take note of the ends of others, by handle: JobState, `FORGOTTEN`, or 0 for one that is still open."""
        settled = Settled()
        self._end(ends, settled)
        return settled

    def end_live(self, handles: Int64s, states: Int32s | int) -> Settled:
        """Take note of the ends of jobs that were live, and forget what they waited for themselves."""
        self.drop(handles)
        every = np.broadcast_to(states, handles.size).tolist()
        return self.end({h: s for h, s in zip(handles.tolist(), every, strict=True) if h in self._waiters})

    def drop(self, handles: Int64s) -> None:
        """Forget what some jobs wait for."""
        if self._waits:
            for handle in handles.tolist():
                self._forget(handle)

    def _end(self, ends: Mapping[int, int], settled: Settled) -> None:
        for other, state in ends.items():
            if not state:
                continue
            for handle in self._waiters.pop(other, {}):
                wait = self._waits[handle]
                high = wait.left.pop(other)
                if state != JobState.SUCCEEDED and wait.until == AfterUntil.SUCCEEDED:
                    name = compose_id(high, other)
                    settled.doomed[handle] = f"it was to run after the success of job {name}, which {_WORDS[state]}"
                    self._forget(handle)
                elif not wait.left:
                    settled.free.append(handle)
                    del self._waits[handle]
            self.unsettled.pop(other, None)

    def _forget(self, handle: int) -> None:
        """Forget what a job waits for, if it does."""
        wait = self._waits.pop(handle, None)
        for other in wait.left if wait is not None else ():
            waiters = self._waiters.get(other)
            if waiters is None:
                continue
            waiters.pop(handle, None)
            if not waiters:
                del self._waiters[other]
                self.unsettled.pop(other, None)

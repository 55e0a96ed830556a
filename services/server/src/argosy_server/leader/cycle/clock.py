"""The time that a leader goes by: the database's, carried on by the monotonic clock of the process.

Rows, time limits and flow are counted in times that leaders of several machines wrote. A machine whose clock is wrong,
or is set while it leads, must neither end runs early nor let them run on. So the wall clock of a leader's machine is
never read: each renewal of the lease brings the database's time, and between two renewals the monotonic clock goes on.

Source: design section 5, "Leader lost"; reliability facts on clocks.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, NamedTuple

import structlog

from argosy_core.leader.events import Moment

__all__ = ["DatabaseClock"]

_log = structlog.get_logger(__name__)

_SLEW_RATIO: Final = 0.1
"""How much faster or slower than the monotonic clock time may pass until it agrees with the database again."""
_TOLD_S: Final = 5.0
"""A step of the database's clock that is at least this long is told."""


class _Course(NamedTuple):
    """Where time stood at a moment of the monotonic clock, and what it has to catch up with."""

    mono_ns: int
    time_us: int
    behind_us: int


class DatabaseClock:
    """Tells the time of the database without asking it. Never goes back, and never jumps while it is followed.

    Args:
        time_us: The database's time, microseconds since the Unix epoch.
        mono_ns: The monotonic clock, nanoseconds.
    """

    def __init__(self, time_us: int, *, mono_ns: Callable[[], int] = time.monotonic_ns) -> None:
        """Begin with what the database said just now."""
        self._mono_ns = mono_ns
        self._course = _Course(mono_ns(), time_us, 0)

    def now(self) -> Moment:
        """Return this moment by both clocks."""
        mono_ns = self._mono_ns()
        return Moment(mono_ns / 1e9, self._at(mono_ns))

    def follow(self, time_us: int, *, asked_s: float) -> None:
        """Agree with what the database has said, in time: a step of an hour takes ten hours to follow.

        It was right at some moment between the question and the answer, and an answer may wait for a commit, or for a
        busy machine. So a time that lies between what was said and that much later is not corrected: late answers would
        put the clock back, and leases would be written as of before the ends of runs whose place they take.

        Args:
            time_us: The database's time, microseconds since the Unix epoch.
            asked_s: When it was asked, seconds of the monotonic clock.
        """
        mono_ns = self._mono_ns()
        told_us = self._at(mono_ns)
        least_us = time_us - told_us
        most_us = least_us + max(round(mono_ns / 1000 - asked_s * 1e6), 0)
        behind_us = max(least_us, min(most_us, 0))
        if abs(behind_us) >= _TOLD_S * 1e6 > abs(self._course.behind_us):
            _log.warning("the database's clock was set; it is followed slowly", by_s=round(behind_us / 1e6, 1))
        # One assignment: renewals come from another thread than readers.
        self._course = _Course(mono_ns, told_us, behind_us)

    def _at(self, mono_ns: int) -> int:
        """Return the time at a moment of the monotonic clock."""
        course = self._course
        passed_us = max(mono_ns - course.mono_ns, 0) // 1000
        most_us = int(passed_us * _SLEW_RATIO)
        return course.time_us + passed_us + min(max(course.behind_us, -most_us), most_us)

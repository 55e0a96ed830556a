"""How long jobs run by what their submitters say, as columns of whole seconds.

The *lifetime* is how long a run is not to be preempted: without one it never is, with one of 0 it may be at once. The
*time limit* ends a run that takes longer, and its job fails. The *estimate* is what the submitter expects, and binds
nobody.

Source: 003 "Jobs" (lifetime) and "Scheduling constraints"; design section 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import Int32s

__all__ = ["UNSET", "JobDurations", "join_durations"]

UNSET: Final = -1
"""Stands in a column for a job of which nothing is said."""

_Rows: TypeAlias = "npt.NDArray[np.integer] | npt.NDArray[np.bool_] | slice"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDurations:
    """Durations of jobs, one element each; `UNSET` where there is none."""

    lifetime_s: Int32s
    """Seconds of a run after which it may be preempted; `UNSET` never, 0 at once."""
    time_limit_s: Int32s
    """Seconds after which a run is stopped and its job fails."""
    estimate_s: Int32s
    """Seconds that a run is expected to take."""

    @classmethod
    def unset(cls, count: int) -> JobDurations:
        """Return the durations of so many jobs of which nothing is said."""
        return cls(**{one.name: np.full(count, UNSET, dtype=np.int32) for one in fields(cls)})

    def __getitem__(self, rows: _Rows) -> JobDurations:
        """Return the durations of some jobs."""
        return JobDurations(
            lifetime_s=self.lifetime_s[rows], time_limit_s=self.time_limit_s[rows], estimate_s=self.estimate_s[rows]
        )

    def columns(self) -> dict[str, Int32s]:
        """Return the columns by name."""
        return {one.name: getattr(self, one.name) for one in fields(self)}


def join_durations(parts: Sequence[tuple[JobDurations | None, int]]) -> JobDurations | None:
    """Return the durations of several groups of jobs one after the other; None if no group has any.

    Args:
        parts: (durations or None for none, number of jobs) of each group.
    """
    if all(part is None for part, _ in parts):
        return None
    columns = [(part or JobDurations.unset(count)).columns() for part, count in parts]
    return JobDurations(**{name: np.concatenate([part[name] for part in columns]) for name in columns[0]})

"""What submitters say of jobs beside their specs, as columns: how long they run, when, and how many at once.

The *lifetime* is how long a run is not to be preempted: without one it is only for queues with the right to it, with
one of 0 it may be at once. The *time limit* ends a run that takes longer, and its job fails. The *estimate* is what the
submitter expects, and binds nobody. A job that is *held* waits until it is released. The *job set limit* has a job wait
while so many others of its job set are leased or run.

Source: 003 "Jobs" (lifetime) and "Scheduling constraints"; design section 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import Int32s

__all__ = ["OPTION_NAMES", "UNSET", "JobOptions", "join_options"]

UNSET: Final = -1
"""Stands in a column for a job of which nothing is said."""

_Rows: TypeAlias = "npt.NDArray[np.integer] | npt.NDArray[np.bool_] | slice"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """Options of jobs, one element each; `UNSET` where nothing is said."""

    lifetime_s: Int32s
    """Seconds of a run after which it may be preempted; `UNSET` never, 0 at once."""
    time_limit_s: Int32s
    """Seconds after which a run is stopped and its job fails."""
    estimate_s: Int32s
    """Seconds that a run is expected to take."""
    held: Int32s
    """1 for a job that waits until it is released."""
    job_set_limit: Int32s
    """Most jobs of its job set that are leased or run at once, itself included."""

    @classmethod
    def unset(cls, count: int) -> JobOptions:
        """Return the options of so many jobs of which nothing is said."""
        return cls(**{name: np.full(count, UNSET, dtype=np.int32) for name in OPTION_NAMES})

    def __getitem__(self, rows: _Rows) -> JobOptions:
        """Return the options of some jobs."""
        return JobOptions(**{name: values[rows] for name, values in self.columns().items()})

    def columns(self) -> dict[str, Int32s]:
        """Return the columns by name."""
        return {name: getattr(self, name) for name in OPTION_NAMES}


OPTION_NAMES: Final = tuple(one.name for one in fields(JobOptions))
"""Names of the columns."""


def join_options(parts: Sequence[tuple[JobOptions | None, int]]) -> JobOptions | None:
    """Return the options of several groups of jobs one after the other; None if no group has any.

    Args:
        parts: (options or None for none, number of jobs) of each group.
    """
    if all(part is None for part, _ in parts):
        return None
    columns = [(part or JobOptions.unset(count)).columns() for part, count in parts]
    return JobOptions(**{name: np.concatenate([part[name] for part in columns]) for name in columns[0]})

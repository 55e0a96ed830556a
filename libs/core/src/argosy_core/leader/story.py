"""The stories of single jobs: what a leader did with them, for whoever looks for a fault. Off unless asked for.

Source: design section 9.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Final, NamedTuple

import numpy as np

from argosy_core.arrays import Int64s

__all__ = ["Step", "Stories"]

_JOB_LIMIT: Final = 1_000
_STEP_LIMIT: Final = 64


class Step(NamedTuple):
    """Something that a leader did with a job."""

    time_us: int
    """When, microseconds since the Unix epoch."""
    text: str
    """What."""


class Stories:
    """The last steps of the jobs that somebody follows."""

    def __init__(self) -> None:
        """Follow nobody."""
        self._stories: OrderedDict[int, deque[Step]] = OrderedDict()
        self._handles: Int64s = np.zeros(0, dtype=np.int64)

    def follow(self, handle: int) -> None:
        """Keep the steps of a job from now on; the one followed longest goes when there are too many."""
        if handle not in self._stories:
            self._stories[handle] = deque(maxlen=_STEP_LIMIT)
            while len(self._stories) > _JOB_LIMIT:
                self._stories.popitem(last=False)
            self._handles = np.fromiter(self._stories, dtype=np.int64, count=len(self._stories))

    def read(self, handle: int) -> list[Step]:
        """Return the steps of a job, oldest first; none if nobody follows it."""
        return list(self._stories.get(handle, ()))

    def note(self, time_us: int, text: str, handles: Int64s) -> None:
        """Note a step of the followed ones among jobs. Complexity: O(1) if nobody is followed."""
        if self._handles.size and handles.size:
            for handle in np.intersect1d(self._handles, handles).tolist():
                self._stories[handle].append(Step(time_us, text))

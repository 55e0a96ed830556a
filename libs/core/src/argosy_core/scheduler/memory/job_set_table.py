"""The job sets of a pool, each with a small dense index.

Owns how far the events of a job set are numbered and how many live jobs it has. Columns are public arrays; the
functions of `argosy_core.scheduler` alone change them. May import tables of ids only.

Source: design section 6, "Data layout".
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.job.tables.ids import IdTable, grow

__all__ = [
    "JobSetTable",
]

_MAX_IDLE_JOB_SETS: Final = 50_000
_IDLE_JOB_SET_S: Final = 60.0


class JobSetTable:
    """Job sets and how far their events are numbered."""

    def __init__(self) -> None:
        """Start empty."""
        self.ids = IdTable()
        self.names: dict[int, str] = {}
        """Index -> name."""
        self.job_set_id: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        """Id of each index."""
        self.queue_id: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        """Queue id of each job set."""
        self.last_number: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        """Number of the last event drafted."""
        self.job_count: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        """Live jobs."""
        self.touched_s: npt.NDArray[np.float64] = np.zeros(0, dtype=np.float64)
        """When events were last drafted."""

    def define(self, job_set_id: int, queue_id: int, name: str, last_number: int) -> int:
        """Add a job set and return its index; a known one keeps its own number, which is never behind."""
        known = self.ids.find(job_set_id)
        if known is not None:
            return known
        index = self.ids.add(job_set_id)
        end = self.ids.end
        self.job_set_id = grow(self.job_set_id, end)
        self.queue_id = grow(self.queue_id, end)
        self.last_number = grow(self.last_number, end)
        self.job_count = grow(self.job_count, end)
        self.touched_s = grow(self.touched_s, end)
        self.names[index] = name
        self.job_set_id[index] = job_set_id
        self.queue_id[index] = queue_id
        self.last_number[index] = last_number
        self.job_count[index] = 0
        self.touched_s[index] = np.inf
        return index

    def drop_idle(self, now_s: float) -> None:
        """Forget job sets without live jobs once there are many, if their last events are surely stored."""
        end = self.ids.end
        if len(self.ids) - int((self.job_count[:end] > 0).sum()) <= _MAX_IDLE_JOB_SETS:
            return
        idle = (self.job_count[:end] == 0) & (self.touched_s[:end] < now_s - _IDLE_JOB_SET_S)
        for job_set_id, index in self.ids.items():
            if idle[index]:
                self.ids.drop(job_set_id)
                del self.names[index]

    def drop_queue(self, queue_id: int) -> None:
        """Forget the job sets of a queue; none has live jobs."""
        for job_set_id, index in list(self.ids.items()):
            if self.queue_id[index] == queue_id:
                self.ids.drop(job_set_id)
                del self.names[index]

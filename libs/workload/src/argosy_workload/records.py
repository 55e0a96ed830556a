"""What happened to the jobs of a run: one row a job, filled in while it goes on.

A replay fills the columns with seconds of the real clock since its start; a simulation with seconds of its virtual
clock. `speed` leads from that clock to trace time.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_workload.model import Queue, Shape, Workload

__all__ = ["MOST_PLACED", "GivenPromise", "Placement", "RunRecords", "RunState"]

FloatArray = npt.NDArray[np.float64]
Int32Array = npt.NDArray[np.int32]


MOST_PLACED: Final = 20_000
"""Jobs of a run of which it is told what ran on which node; more are too many to look at."""


class RunState(IntEnum):
    """How a job stands at the end of the run; codes as in argosy.api.v1.JobState."""

    QUEUED = 1
    """Waits, or was never submitted."""
    LEASED = 2
    """Has a node."""
    RUNNING = 3
    """Runs."""
    SUCCEEDED = 4
    """Ended well."""
    FAILED = 5
    """Ended otherwise, or can never run."""
    CANCELLED = 6
    """Was cancelled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """A run of a job, or one member of it, on its node; seconds of the records' clock."""

    row: int
    """The job."""
    attempt: int
    """Which run, from 1."""
    cluster: str
    """Where."""
    node: str
    """On what."""
    lease_s: float
    """Since when the node was its."""
    end_s: float
    """Until when; NaN if it never ended."""
    state: str
    """How it ended, as in `argosy_client.Run.state`."""
    reason: str
    """Why, if not with success."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenPromise:
    """A start that a waiting job was promised; seconds of the records' clock."""

    row: int
    """The job."""
    given_s: float
    """When that was seen first."""
    moment_s: float
    """It starts no later."""
    is_firm: bool
    """It follows from time limits, not from estimates."""
    nodes: tuple[str, ...]
    """The nodes that it starts on."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunRecords:
    """Times of n jobs. The arrays are there to be written: NaN until something has happened."""

    source: str
    """What was run."""
    queues: tuple[Queue, ...]
    """Queues that `queue` points into."""
    shapes: tuple[Shape, ...]
    """Shapes that `shape` points into."""
    queue: Int32Array
    """(n,) index into `queues`."""
    shape: Int32Array
    """(n,) index into `shapes`."""
    run_s: FloatArray
    """(n,) how long the job was to run, trace seconds."""
    speed: float
    """Trace seconds per second of the clock of the columns below; 1 for a virtual clock in trace time."""
    virtual: bool
    """The clock is a simulation's: latencies in milliseconds have no meaning."""
    submit_s: FloatArray
    """(n,) the request that carries the job was sent."""
    acknowledged_s: FloatArray
    """(n,) it was answered."""
    considered_s: FloatArray
    """(n,) a round had the job in its state."""
    leased_s: FloatArray
    """(n,) the lease of its last run was stored."""
    running_s: FloatArray
    """(n,) the pod of its last run was seen running."""
    finished_s: FloatArray
    """(n,) it reached a terminal state."""
    state: npt.NDArray[np.int8]
    """(n,) values of RunState."""
    notes: tuple[str, ...] = ()
    """What a report must say."""
    placements: list[Placement] = field(default_factory=list)
    """Where runs were, in any order; empty where nobody asked."""
    promises: list[GivenPromise] = field(default_factory=list)
    """Promises that were seen, each once."""

    def __len__(self) -> int:
        """Return the number of jobs."""
        return len(self.queue)

    @staticmethod
    def start(workload: Workload, *, speed: float = 1.0, virtual: bool = False) -> RunRecords:
        """Return records of a workload in which nothing has happened yet; row i is job i of the workload.

        Args:
            workload: What will be run.
            speed: Trace seconds per second of the records' clock.
            virtual: The clock is a simulation's.
        """
        blank = RunRecords.empty(
            len(workload), source=workload.source, queues=workload.queues, shapes=workload.shapes, speed=speed
        )
        return replace(
            blank,
            queue=workload.queue,
            shape=workload.shape,
            run_s=workload.run_s,
            virtual=virtual,
            notes=workload.notes,
        )

    @staticmethod
    def empty(
        count: int, *, source: str, queues: tuple[Queue, ...], shapes: tuple[Shape, ...], speed: float = 1.0
    ) -> RunRecords:
        """Return records of jobs that are drawn while the run goes on, as by a benchmark.

        The columns `queue`, `shape` and `run_s` begin with zeros and are to be written, too.

        Args:
            count: Number of rows.
            source: What will be run.
            queues: Queues of the jobs.
            shapes: Shapes of the jobs.
            speed: Trace seconds per second of the records' clock.
        """
        return RunRecords(
            source=source,
            queues=queues,
            shapes=shapes,
            queue=np.zeros(count, dtype=np.int32),
            shape=np.zeros(count, dtype=np.int32),
            run_s=np.zeros(count),
            speed=speed,
            virtual=False,
            submit_s=np.full(count, np.nan),
            acknowledged_s=np.full(count, np.nan),
            considered_s=np.full(count, np.nan),
            leased_s=np.full(count, np.nan),
            running_s=np.full(count, np.nan),
            finished_s=np.full(count, np.nan),
            state=np.full(count, RunState.QUEUED, dtype=np.int8),
        )

    def first(self, count: int) -> RunRecords:
        """Return the first rows, as views."""
        return replace(
            self,
            queue=self.queue[:count],
            shape=self.shape[:count],
            run_s=self.run_s[:count],
            submit_s=self.submit_s[:count],
            acknowledged_s=self.acknowledged_s[:count],
            considered_s=self.considered_s[:count],
            leased_s=self.leased_s[:count],
            running_s=self.running_s[:count],
            finished_s=self.finished_s[:count],
            state=self.state[:count],
        )

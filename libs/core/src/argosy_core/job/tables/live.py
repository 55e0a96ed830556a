"""Live jobs: every job of a pool that has not ended, as structure of arrays.

A job is a *slot*: a row in all columns. Slots are reused, so what outlives a call holds handles, not slots. Columns are
public arrays; they may be replaced when the table grows, so read them from the table each time. A job costs 108 bytes
in columns and 24 in the handle index; shared values (specs, metadata) are interned. Where the members of runs are that
have several, and how far each has got, stands in `members`; what stands here of such a run is what it comes to.

Source: design section 6, "the leader keeps live jobs as structure of arrays too, at most 400 bytes a job".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from argosy_core.arrays import has_true, true_places
from argosy_core.job.identity import NOBODY
from argosy_core.job.reading.options import UNSET, JobOptions
from argosy_core.job.states import IS_RUN_TERMINAL, JobState
from argosy_core.job.tables.interning import ChargedTable, SpecTable
from argosy_core.job.tables.key_index import KeyIndex
from argosy_core.job.tables.members import Members
from argosy_core.job.tables.run_members import RunMembers

__all__ = [
    "AWAITING",
    "BACKING_OFF",
    "CANCEL_REQUESTED",
    "HELD",
    "IN_FLIGHT",
    "ON_HOLD",
    "PENDING",
    "STOP_SENT",
    "TIMED_OUT",
    "LiveJobs",
    "LiveMembers",
    "NewJobs",
]

CANCEL_REQUESTED: Final = 1
"""Flag: the job shall end."""
IN_FLIGHT: Final = 2
"""Flag: placed, lease not yet ingested."""
PENDING: Final = 4
"""Flag: a waiting head, one of the next jobs in fairness order that have no room; a label that changes nothing else."""
STOP_SENT: Final = 8
"""Flag: the stop of its run was decided."""
BACKING_OFF: Final = 16
"""Flag: waits at its place, but is passed over until its back-off is over."""
TIMED_OUT: Final = 32
"""Flag: its run took longer than its time limit, and is stopped for it."""
AWAITING: Final = 128
"""Flag: waits for the ends of other jobs."""
HELD: Final = 64
"""Flag: waits until somebody releases it. A job that has a run keeps that, and is held once it waits again."""
ON_HOLD: Final = HELD | AWAITING
"""Flags of jobs that want nothing now, whatever is free."""

_BAG_WIDTH: Final = 32
"""Most objects a bag may have."""
_COLUMNS: Final[tuple[tuple[str, type[np.generic]], ...]] = (
    ("handle", np.int64),
    ("id_high", np.int64),
    ("submit_time_us", np.int64),
    ("start_time_us", np.int64),
    ("charge_core_s", np.int64),
    ("queue", np.int32),
    ("job_set", np.int32),
    ("class_index", np.int32),
    ("priority", np.int32),
    ("spec", np.int32),
    ("metadata", np.int32),
    ("node", np.int32),
    ("bag", np.int32),
    ("cluster", np.int16),
    ("state", np.int8),
    ("run_state", np.int8),
    ("attempt", np.int32),
    ("demand", np.int32),
    ("lifetime_s", np.int32),
    ("time_limit_s", np.int32),
    ("estimate_s", np.int32),
    ("job_set_limit", np.int32),
    ("submitter", np.int32),
    ("failures", np.int16),
    ("failed_attempts", np.uint8),
    ("flags", np.uint8),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJobs:
    """Jobs to add, one element each; indices are those of the scheduler's own tables."""

    handle: npt.NDArray[np.int64]
    """Job handles, each once and none live."""
    id_high: npt.NDArray[np.int64]
    """Upper 64 bits of the job ids."""
    queue: npt.NDArray[np.int32]
    """Queue index."""
    job_set: npt.NDArray[np.int32]
    """Job set index."""
    class_index: npt.NDArray[np.int32]
    """Class index."""
    priority: npt.NDArray[np.int32]
    """Priority."""
    submit_time_us: npt.NDArray[np.int64]
    """Acceptance, microseconds since the Unix epoch."""
    spec: npt.NDArray[np.int32]
    """Index into `LiveJobs.specs`."""
    metadata: npt.NDArray[np.int32]
    """Index into `LiveJobs.metadata_texts`, or -1."""
    options: JobOptions | None = None
    """How long they run by what their submitters say; None if nothing is said of any."""
    submitter: npt.NDArray[np.int32] | None = None
    """Numbers of their submitters; None if none is known."""


@dataclass(frozen=True, slots=True)
class LiveMembers:
    """Members of runs that have not ended, run by run."""

    slot: npt.NDArray[np.int32]
    """(n,) their jobs."""
    keys: Members
    """(n,) who they are."""
    node: npt.NDArray[np.int32]
    """(n,) node name index in the cluster of the run."""
    state: npt.NDArray[np.int8]
    """(n,) RunState of each, 0 in flight."""

    def take(self, chosen: npt.NDArray[np.bool_]) -> LiveMembers:
        """Return some of them."""
        return LiveMembers(self.slot[chosen], self.keys[chosen], self.node[chosen], self.state[chosen])


class LiveJobs:
    """The table of live jobs."""

    handle: npt.NDArray[np.int64]
    """Job handle, -1 in a free slot."""
    id_high: npt.NDArray[np.int64]
    """Upper 64 bits of the job id."""
    submit_time_us: npt.NDArray[np.int64]
    """Acceptance, microseconds since the Unix epoch."""
    start_time_us: npt.NDArray[np.int64]
    """When the current run's first pod ran; 0 if not yet."""
    charge_core_s: npt.NDArray[np.int64]
    """What its run takes of its queue's excess flow budget, core-seconds; 0 while it waits."""
    queue: npt.NDArray[np.int32]
    """Queue index."""
    job_set: npt.NDArray[np.int32]
    """Job set index."""
    class_index: npt.NDArray[np.int32]
    """Class index."""
    priority: npt.NDArray[np.int32]
    """Priority."""
    spec: npt.NDArray[np.int32]
    """Index into `specs`."""
    metadata: npt.NDArray[np.int32]
    """Index into `metadata_texts`, or -1."""
    node: npt.NDArray[np.int32]
    """Node name index in its cluster, or -1; that of the first member of a run of several."""
    bag: npt.NDArray[np.int32]
    """Row of `bag_states` for a run of several objects and one member, or -1."""
    cluster: npt.NDArray[np.int16]
    """Cluster index, or -1."""
    state: npt.NDArray[np.int8]
    """JobState."""
    run_state: npt.NDArray[np.int8]
    """RunState of the current run, 0 if none."""
    attempt: npt.NDArray[np.int32]
    """Attempt of the current run, or of the newest one that ended; 0 if there was none."""
    demand: npt.NDArray[np.int32]
    """Row of the pool's demands, -1 for what the class says."""
    lifetime_s: npt.NDArray[np.int32]
    """Seconds of a run after which it may be preempted, -1 never."""
    time_limit_s: npt.NDArray[np.int32]
    """Seconds after which a run is stopped and the job fails, -1 never."""
    estimate_s: npt.NDArray[np.int32]
    """Seconds that a run is expected to take by its submitter, -1 not said."""
    job_set_limit: npt.NDArray[np.int32]
    """Most jobs of its job set that are leased or run at once, itself included; -1 for no limit."""
    submitter: npt.NDArray[np.int32]
    """Number of its submitter, `job.identity.NOBODY` if that is not known."""
    failures: npt.NDArray[np.int16]
    """Runs that failed or were lost; those that were preempted or given back do not count."""
    failed_attempts: npt.NDArray[np.uint8]
    """Rounds in which all commit candidates conflicted."""
    flags: npt.NDArray[np.uint8]
    """CANCEL_REQUESTED, IN_FLIGHT, PENDING, STOP_SENT, BACKING_OFF, TIMED_OUT, HELD, AWAITING."""

    def __init__(self, capacity: int = 1024) -> None:
        """Make an empty table with room for `capacity` jobs."""
        for name, dtype in _COLUMNS:
            setattr(self, name, np.zeros(capacity, dtype=dtype))
        self.handle.fill(-1)
        self.specs = SpecTable()
        self.metadata_texts = ChargedTable()
        """Labels and annotations, which count for the queue that brought them first."""
        self.bag_states = np.zeros((0, _BAG_WIDTH), dtype=np.int8)
        """(bag, object) ObjectState of members of several objects."""
        self.members = RunMembers()
        """Members of runs that have others than one of number 0."""
        self._free_bags: list[int] = []
        self._index = KeyIndex()
        self._free = np.zeros(0, dtype=np.int32)
        self._free_count = 0
        self._high_water = 0

    def __len__(self) -> int:
        """Return the number of live jobs."""
        return len(self._index)

    @property
    def capacity(self) -> int:
        """Return how many slots there are, free ones included."""
        return int(self.handle.size)

    @property
    def nbytes(self) -> int:
        """Return the memory of columns, index and bags, bytes; interned values apart."""
        columns = sum(getattr(self, name).nbytes for name, _ in _COLUMNS)
        return int(columns + self._index.nbytes + self._free.nbytes + self.bag_states.nbytes)

    def slots(self, handles: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        """Return the slot of each handle as int32[n], -1 for one that is not live. Complexity: O(n) in NumPy."""
        return self._index.lookup(handles)

    def live_slots(self) -> npt.NDArray[np.int32]:
        """Return the slots in use, ascending. Complexity: O(capacity)."""
        return true_places(self.handle[: self._high_water] >= 0).astype(np.int32)

    def add(self, jobs: NewJobs) -> npt.NDArray[np.int32]:
        """Add queued jobs and return their slots. Complexity: amortised O(n) in NumPy."""
        slots = self._take_slots(jobs.handle.size)
        self.handle[slots] = jobs.handle
        self.id_high[slots] = jobs.id_high
        self.submit_time_us[slots] = jobs.submit_time_us
        self.start_time_us[slots] = self.charge_core_s[slots] = 0
        self.queue[slots] = jobs.queue
        self.job_set[slots] = jobs.job_set
        self.class_index[slots] = jobs.class_index
        self.priority[slots] = jobs.priority
        self.spec[slots] = jobs.spec
        self.metadata[slots] = jobs.metadata
        self.node[slots] = -1
        self.bag[slots] = -1
        self.cluster[slots] = self.demand[slots] = -1
        self.state[slots] = int(JobState.QUEUED)
        for column in (self.run_state, self.attempt, self.failures, self.failed_attempts, self.flags):
            column[slots] = 0
        self._set_options(slots, jobs.options)
        self.submitter[slots] = NOBODY if jobs.submitter is None else jobs.submitter
        self._index.insert(jobs.handle, slots=slots)
        self.specs.acquire(jobs.spec)
        self.metadata_texts.acquire(jobs.metadata)
        return slots

    def _set_options(self, slots: npt.NDArray[np.int32], options: JobOptions | None) -> None:
        """Set what their submitters say of new jobs."""
        if options is None:
            for column in (self.lifetime_s, self.time_limit_s, self.estimate_s, self.job_set_limit):
                column[slots] = UNSET
        else:
            self.lifetime_s[slots] = options.lifetime_s
            self.time_limit_s[slots] = options.time_limit_s
            self.estimate_s[slots] = options.estimate_s
            self.job_set_limit[slots] = options.job_set_limit
            self.flags[slots[options.held == 1]] = HELD

    def remove(self, slots: npt.NDArray[np.int32]) -> None:
        """Remove live jobs, each once; their slots may be reused at once. Complexity: O(n) in NumPy."""
        if slots.size == 0:
            return
        self._index.remove(self.handle[slots])
        self.specs.release(self.spec[slots])
        self.metadata_texts.release(self.metadata[slots])
        self.leave_places(slots)
        self.handle[slots] = -1
        self.flags[slots] = 0
        end = self._free_count + slots.size
        if end > self._free.size:
            self._free = np.concatenate([self._free, np.zeros(max(end, 1024), dtype=np.int32)])
        self._free[self._free_count : end] = slots
        self._free_count = end

    def begin_runs(self, slots: npt.NDArray[np.int32], state: int) -> None:
        """Set the states of runs and all their members, and of the objects of bags that have several, to `state`."""
        self.run_state[slots] = state
        several = self.specs.object_counts(self.spec[slots]) > 1
        if len(self.members):
            places, rows = self.members.rows(slots)
            self.members.state[rows] = state
            bags = rows[several[places]]
            self.members.bag[bags] = self._open_bags(bags.size, state)
            several[places] = False
        self.bag[slots[several]] = self._open_bags(int(several.sum()), state)

    def begin_members(self, rows: npt.NDArray[np.int64], state: int) -> None:
        """Set the states of members that came to a run under way, and of the objects of their bags, to `state`."""
        self.members.state[rows] = state
        bags = rows[self.specs.object_counts(self.spec[self.members.slot[rows]]) > 1]
        self.members.bag[bags] = self._open_bags(bags.size, state)

    def end_runs(self, slots: npt.NDArray[np.int32]) -> None:
        """Take back the states of runs, their members and objects; where the members are is known on."""
        self.run_state[slots] = 0
        self._take_back_bags(self.bag, slots)
        if len(self.members):
            rows = self.members.rows(slots)[1]
            self.members.state[rows] = 0
            self._take_back_bags(self.members.bag, rows)

    def leave_places(self, slots: npt.NDArray[np.int32]) -> None:
        """Forget the runs of jobs, and where they are."""
        self.end_runs(slots)
        self.cluster[slots] = self.node[slots] = -1
        if len(self.members):
            self.members.drop(slots)

    def live_members(self, slots: npt.NDArray[np.int32]) -> LiveMembers:
        """Return the members of the runs of some jobs that have not ended, job by job. Complexity: O(n) in NumPy."""
        if not len(self.members):
            return self._live_members(slots, None, self.node[slots], self.run_state[slots])
        places, rows = self.members.rows(slots)
        single = np.ones(slots.size, dtype=np.bool_)
        single[places] = False
        open_rows = ~IS_RUN_TERMINAL[self.members.state[rows]]
        places, rows, alone = places[open_rows], rows[open_rows], slots[single]
        order = np.argsort(np.concatenate([true_places(single), places]), kind="stable")
        number = np.concatenate([np.zeros(alone.size, dtype=np.int16), self.members.number[rows]])[order]
        node = np.concatenate([self.node[alone], self.members.node[rows]])[order]
        state = np.concatenate([self.run_state[alone], self.members.state[rows]])[order]
        return self._live_members(np.concatenate([alone, slots[places]])[order], number, node, state)

    def _live_members(
        self,
        slots: npt.NDArray[np.int32],
        number: npt.NDArray[np.int16] | None,
        node: npt.NDArray[np.int32],
        state: npt.NDArray[np.int8],
    ) -> LiveMembers:
        return LiveMembers(slots, Members.of(self.handle[slots], self.attempt[slots], number), node, state)

    def _open_bags(self, count: int, state: int) -> npt.NDArray[np.int32]:
        """Return rows of `bag_states` that nothing has, all set to `state`."""
        while len(self._free_bags) < count:
            start = self.bag_states.shape[0]
            added = max(start, 64)
            self.bag_states = np.vstack([self.bag_states, np.zeros((added, _BAG_WIDTH), dtype=np.int8)])
            self._free_bags.extend(range(start + added - 1, start - 1, -1))
        bags = np.array([self._free_bags.pop() for _ in range(count)], dtype=np.int32)
        self.bag_states[bags] = state
        return bags

    def _take_back_bags(self, column: npt.NDArray[np.int32], rows: npt.NDArray[np.integer]) -> None:
        """Take back the rows of `bag_states` that some elements of a column name."""
        bags = column[rows]
        if has_true(bags >= 0):
            self._free_bags.extend(bags[bags >= 0].tolist())
            column[rows] = -1

    def _take_slots(self, count: int) -> npt.NDArray[np.int32]:
        """Return `count` free slots: freed ones first, then new ones."""
        reused = min(count, self._free_count)
        self._free_count -= reused
        freed = self._free[self._free_count : self._free_count + reused].copy()
        fresh = count - reused
        if fresh == 0:
            return freed
        start = self._high_water
        self._high_water += fresh
        if self._high_water > self.capacity:
            self._grow(self._high_water - self.capacity)
        return np.concatenate([freed, np.arange(start, self._high_water, dtype=np.int32)])

    def _grow(self, missing: int) -> None:
        """Enlarge every column by half, or by what is missing if that is more."""
        extra = max(self.capacity // 2, 1024, missing)
        for name, dtype in _COLUMNS:
            fill = -1 if name == "handle" else 0
            setattr(self, name, np.concatenate([getattr(self, name), np.full(extra, fill, dtype=dtype)]))

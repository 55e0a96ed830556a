"""What enters and leaves the scheduler: columns, one array element per record.

Nothing here knows protobuf, sockets or tables; the shell turns these values into wire messages and rows and back. Time
is seconds or microseconds since the Unix epoch, amounts are int64 base units, states are the integers of
`argosy_core.job.states`.

Source: design section 5 and the protos of argosy.lease.v1, argosy.executor.v1 and argosy.sampler.v1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from argosy_core.arrays import Bools, Float64s, Int8s, Int16s, Int32s, Int64s
from argosy_core.job.reading.after import AfterJobs
from argosy_core.job.reading.options import JobOptions
from argosy_core.job.tables.members import Members
from argosy_core.queueing import QueueLimits, StoredWeight

__all__ = [
    "CapacityColumns",
    "ChangeRequestColumns",
    "ClusterRuns",
    "ClusterView",
    "EndedJobs",
    "JobColumns",
    "JobSetView",
    "Missing",
    "PromiseColumns",
    "QueueView",
    "RoundStateColumns",
    "ShrinkColumns",
    "SpecReference",
    "StateColumns",
    "join_members",
    "join_states",
]


# --- what is defined beforehand ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueView:
    """A queue as the scheduler needs it."""

    queue_id: int
    """Id of the row, 1 or more."""
    name: str
    """Name."""
    weight: float
    """Weight, 0 or more; a queue of weight 0 gets only what all others leave."""
    cordoned: bool = False
    """True if none of its queued jobs may be placed."""
    parent: str = ""
    """Name of the queue that it stands below; empty for none."""
    preempts_unexpired: bool = False
    """Whether runs that are not past their lifetimes yet make room for its jobs, too."""
    preempts_endless: bool = False
    """Whether runs without a lifetime do."""
    limits: QueueLimits = field(default_factory=QueueLimits)
    """What its own jobs may hold at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """A cluster as the scheduler needs it, apart from its nodes."""

    name: str
    """Name."""
    connected: bool = False
    """True while a sampler session stands and has answered Ready."""
    cordoned: bool = False
    """True if nothing new may be placed there."""
    cordoned_nodes: tuple[str, ...] = ()
    """Nodes on which nothing new is placed."""
    max_capacity: tuple[tuple[str, int], ...] = ()
    """What it has at most, base units by resource; what its sampler tells beyond that does not count."""
    delegated: bool = False
    """True if leases name the cluster only, and its sampler places when its executor asks."""
    incarnation: int = 0
    """Incarnation of the sampler whose node indices are in use; 0 before the first session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSetView:
    """A job set: whom jobs belong to and how far its events are numbered."""

    job_set_id: int
    """Id of the row."""
    queue_id: int
    """Its queue."""
    name: str
    """Name."""
    last_event_number: int
    """Number of its last stored event, 0 if none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecReference:
    """Where a spec's bytes are, and what objects it makes."""

    hash: bytes
    """16 bytes: BLAKE2b-128 of the spec as received."""
    day: int
    """Day of the row in job_specs, days since the Unix epoch."""
    layout: bytes
    """Objects of the bag, pods last, as JSON [[kind, name], ...]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """What must be defined before columns can be taken; everything empty means nothing is missing."""

    class_ids: tuple[int, ...]
    """Scheduling classes to read and hand to `define_classes`."""
    queue_ids: tuple[int, ...]
    """Queues to read and hand to `set_queues`."""
    job_set_ids: tuple[int, ...]
    """Job sets to read and hand to `define_job_sets`."""


# --- what comes from `changes` ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class JobColumns:
    """Accepted jobs, one element per job (lease.v1.SubmittedJobs)."""

    handle: Int64s
    """Job handles."""
    id_high: Int64s
    """Upper 64 bits of the job ids."""
    queue: Int32s
    """Queue ids."""
    job_set: Int64s
    """Job set ids."""
    class_id: Int32s
    """Scheduling class ids."""
    priority: Int32s
    """Priorities, higher first."""
    submit_time_us: Int64s
    """Acceptance."""
    spec: Int32s
    """Index into `specs`."""
    metadata_index: Int32s
    """Index into `metadata`, or -1."""
    specs: tuple[SpecReference, ...]
    """Specs the jobs use."""
    metadata: tuple[bytes, ...] = ()
    """Distinct labels and annotations as JSON."""
    options: JobOptions | None = None
    """What their submitters say of them; None if nothing is said of any."""
    after: AfterJobs | None = None
    """Which jobs they wait for; None if they wait for none."""
    submitter: Int32s | None = None
    """Numbers of their submitters (`job.identity.submitter_number`); None if none is known."""

    def only(self, chosen: Bools) -> JobColumns:
        """Return some of the jobs."""
        columns = {name: getattr(self, name)[chosen] for name in _JOB_COLUMNS}
        options = None if self.options is None else self.options[chosen]
        return JobColumns(
            **columns,
            specs=self.specs,
            metadata=self.metadata,
            options=options,
            after=None if self.after is None else self.after.of(self.handle[chosen]),
            submitter=None if self.submitter is None else self.submitter[chosen],
        )


_JOB_COLUMNS: Final = (
    "handle", "id_high", "queue", "job_set", "class_id", "priority", "submit_time_us", "spec", "metadata_index"
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRequestColumns:
    """ChangeRequests, one element per job (lease.v1.ChangeRequests)."""

    handle: Int64s
    """Job handles."""
    kind: Int8s
    """1 cancel, 2 reprioritise."""
    priority: Int32s
    """New priority for kind 2."""
    ended: Int8s
    """1 where the job had no run and ended in the change request's transaction."""
    reason: str = ""
    """Who asked and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedJobs:
    """Jobs that a change request ended and that this leader never held (found by the shell in the database)."""

    handle: Int64s
    """Job handles."""
    id_high: Int64s
    """Upper 64 bits of the job ids."""
    job_set: Int64s
    """Job set ids."""


# --- what comes from samplers -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityColumns:
    """Changed nodes and totals of one cluster (sampler.v1.Capacity); n nodes, r resources."""

    incarnation: int
    """Incarnation of the sampler."""
    resources: tuple[str, ...]
    """Names of the r resources, in the order of all resource columns here."""
    node: Int32s
    """n sampler node indices."""
    names: tuple[str, ...]
    """Names of those nodes."""
    allocatable: Int64s
    """(n, r) total minus what the system keeps."""
    free: Int64s
    """(n, r) free now, may be negative."""
    flag: Int8s
    """n bits: 1 ready, 2 cordoned, 4 removed."""
    total: Int64s
    """r sums of allocatable over usable nodes."""
    total_free: Int64s
    """r sums of positive free over usable nodes."""
    node_count: int
    """Nodes of the cluster."""
    placement_count: int
    """Runs that have a placement."""
    fitting: Int32s
    """k ids of classes that were answered for want of room or of a matching node, and of which a pod now fits."""
    fitting_room: Int32s
    """k counts of their pods that fit where capacity rose, each by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRuns:
    """Members of runs in one cluster: placements to release, or what shall stop."""

    cluster: str
    """Cluster."""
    members: Members
    """Members, each once."""
    is_unknown: bool = False
    """To be stopped because the pool has no such runs."""


# --- what comes from executors ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class StateColumns:
    """States of objects in order of observation (executor.v1.StateBatch); one object may have several."""

    handle: Int64s
    """Job handles."""
    attempt: Int32s
    """Attempts."""
    object_index: Int16s
    """Positions of the objects in their bags."""
    state: Int8s
    """Object states."""
    time_us: Int64s
    """When observed."""
    exit_code: Int32s
    """Exit code of the first failed container."""
    failure: Int8s
    """Values of FailureKind."""
    message: Int32s
    """Index into `texts`, or -1."""
    uid: bytes
    """16 bytes per element, zeros if unknown."""
    texts: tuple[str, ...] = ()
    """Messages."""
    member: Int16s | None = None
    """Numbers of the members in their runs; None where all are 0."""


def join_states(parts: list[StateColumns]) -> StateColumns:
    """Return one or more reports as one, in order; a message stays with its element.

    Source: design section 5, "Sync": states go up in batches.
    """
    if len(parts) == 1:
        return parts[0]
    texts: list[str] = []
    messages = []
    for part in parts:
        messages.append(np.where(part.message >= 0, part.message + len(texts), -1).astype(np.int32))
        texts.extend(part.texts)
    return StateColumns(
        handle=np.concatenate([part.handle for part in parts]),
        attempt=np.concatenate([part.attempt for part in parts]),
        object_index=np.concatenate([part.object_index for part in parts]),
        state=np.concatenate([part.state for part in parts]),
        time_us=np.concatenate([part.time_us for part in parts]),
        exit_code=np.concatenate([part.exit_code for part in parts]),
        failure=np.concatenate([part.failure for part in parts]),
        message=np.concatenate(messages),
        uid=b"".join(part.uid for part in parts),
        texts=tuple(texts),
        member=join_members([(part.member, part.handle.size) for part in parts]),
    )


def join_members(parts: Sequence[tuple[Int16s | None, int]]) -> Int16s | None:
    """Return columns of numbers of members one after the other, each with its length; None where all are 0."""
    if all(numbers is None for numbers, _ in parts):
        return None
    return np.concatenate([np.zeros(size, np.int16) if numbers is None else numbers for numbers, size in parts])


# --- what the next leader needs ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PromiseColumns:
    """Promised starts that stand; p promises, oldest first."""

    handle: Int64s = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """(p,) jobs, each once."""
    kind: Int8s = field(default_factory=lambda: np.zeros(0, dtype=np.int8))
    """(p,) values of PromiseKind, or 3: no promise, but a node that is kept until then for a gang, cleared for it."""
    time_us: Int64s = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """(p,) promised moments, microseconds since the Unix epoch."""
    clusters: tuple[str, ...] = ()
    """p names of clusters."""
    nodes: tuple[str, ...] = ()
    """p names of nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShrinkColumns:
    """Runs that give back members beyond their least, or did lately; n members, q runs."""

    stopping: Members = field(default_factory=lambda: Members.of([], []))
    """(n,) members that are being stopped."""
    handle: Int64s = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """(q,) jobs whose runs do not grow for a while."""
    until_us: Int64s = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """(q,) until when, microseconds since the Unix epoch."""
    pause_us: Int64s = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """(q,) how long that is in all, microseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundStateColumns:
    """What the next leader needs to continue (lease.v1.RoundState)."""

    queue: Int64s
    """Queue ids that have flow."""
    flow: Float64s
    """Their flows, cores."""
    flow_time_us: int
    """Moment of the flows."""
    attempted_handle: Int64s
    """Jobs with failed attempts."""
    failed_attempt: Int32s
    """Their counts."""
    branch_flow: Float64s | None = None
    """Flows of the same queues with all that stand below them, cores; None if no queue stands below another."""
    non_preemptible_flow: Float64s | None = None
    """Flows of the same queues' jobs without a lifetime, cores; None if they are `flow`."""
    weights: tuple[StoredWeight, ...] = ()
    """Weights of resources, where they are found."""
    weight_time_us: int = 0
    """When these had moved last."""
    promises: PromiseColumns = field(default_factory=PromiseColumns)
    """Promised starts."""
    shrinks: ShrinkColumns = field(default_factory=ShrinkColumns)
    """Runs that give back members."""

"""What a pool's leader writes: columns of new rows and of changes, applied in one transaction.

All arrays of one value have the same length unless said otherwise. Indices point into the tables of texts beside them;
-1 means none (for updates: leave as it is).

Source: design section 1, "One writer per fact" and section 5, "Ingest".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

__all__ = [
    "AppliedEffects",
    "Effects",
    "EventRow",
    "JobPriorities",
    "JobUpdates",
    "NewObjects",
    "NewRuns",
    "ObjectUpdates",
    "QuarantinedRecord",
    "RunUpdates",
]

_Int64s = npt.NDArray[np.int64]
_Int32s = npt.NDArray[np.int32]
_Int16s = npt.NDArray[np.int16]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRuns:
    """Leases. Those whose job is not open or shall be cancelled are refused one by one."""

    handles: _Int64s
    """Jobs."""
    attempts: _Int16s
    """Attempts, from 1."""
    cluster_index: _Int32s
    """Index into clusters."""
    clusters: tuple[str, ...]
    """Names of clusters."""
    node_index: _Int32s
    """Index into nodes."""
    nodes: tuple[str, ...]
    """Names of nodes."""
    lease_time_us: _Int64s
    """When the leases were decided, microseconds since the Unix epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewObjects:
    """Objects of new runs; those of refused runs are left out."""

    handles: _Int64s
    """Jobs."""
    attempts: _Int16s
    """Attempts."""
    objects: _Int16s
    """Place in the bag."""
    kind_index: _Int32s
    """Index into kinds."""
    kinds: tuple[str, ...]
    """Kubernetes kinds."""
    names: Sequence[bytes]
    """Name of each object in Kubernetes, UTF-8."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectUpdates:
    """States reported of objects. They move forward by rank only; terminal ones absorb."""

    handles: _Int64s
    """Jobs."""
    attempts: _Int16s
    """Attempts."""
    objects: _Int16s
    """Place in the bag."""
    states: _Int16s
    """ObjectState."""
    uids: npt.NDArray[np.void] | None = None
    """void16 Kubernetes uids, zeros to leave as it is; None leaves all."""
    message_index: _Int32s | None = None
    """Index into messages, -1 to leave as it is; None leaves all."""
    messages: tuple[str, ...] = ()
    """Messages."""
    node_index: _Int32s | None = None
    """Index into nodes, -1 to leave as it is; None leaves all."""
    nodes: tuple[str, ...] = ()
    """Names of nodes."""
    start_time_us: _Int64s | None = None
    """When the run's first pod ran, microseconds since the Unix epoch, 0 for not yet; what is stored stays. None leaves
    all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunUpdates:
    """Ends of runs. A run ends once; later ends change nothing."""

    handles: _Int64s
    """Jobs."""
    attempts: _Int16s
    """Attempts."""
    states: _Int16s
    """Terminal RunState."""
    start_time_us: _Int64s
    """When its pod was first seen running, microseconds since the Unix epoch; 0 if it never was."""
    end_time_us: _Int64s
    """When it ended."""
    exit_codes: _Int32s
    """Exit code of the first failed container."""
    failures: _Int16s
    """FailureKind."""
    reason_index: _Int32s
    """Index into reasons, -1 for none."""
    reasons: tuple[str, ...] = ()
    """Reasons."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobUpdates:
    """Ends of jobs. Only open jobs end."""

    handles: _Int64s
    """Jobs."""
    states: _Int16s
    """Terminal JobState: 4, 5 or 6."""
    end_time_us: _Int64s
    """When they ended, microseconds since the Unix epoch."""
    reason_index: _Int32s
    """Index into reasons, -1 for none."""
    reasons: tuple[str, ...] = ()
    """Reasons."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPriorities:
    """New priorities of open jobs."""

    handles: _Int64s
    """Jobs."""
    priorities: _Int32s
    """Priorities."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRow:
    """A batch of numbered events of one job set."""

    job_set_id: int
    """Job set."""
    first_number: int
    """Number of its first event; one more than the last number stored before."""
    last_number: int
    """Number of its last event."""
    create_time_us: int
    """When it is written, microseconds since the Unix epoch."""
    payload: bytes
    """The events; opaque here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantinedRecord:
    """A record of the log that could not be applied."""

    position: int
    """Position in the log."""
    payload: bytes
    """The record."""
    error: str
    """Why it could not be applied."""
    create_time_us: int
    """When that was found, microseconds since the Unix epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedEffects:
    """What the database made of the effects."""

    refused_handles: _Int64s = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """Ascending handles of new runs that were refused: the job is not open or shall be cancelled."""
    absorbed_handles: _Int64s = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """Ascending handles of job updates that changed nothing: the job had ended before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """Everything of one transaction; each part may be left out."""

    log_position: tuple[int, int] | None = None
    """(expected, new) position of the log; StateConflict if the expected one is not the stored one."""
    round_state: bytes | None = None
    """State of the round, opaque here."""
    deleted_change_ids: _Int64s | None = None
    """Rows of `changes` that are taken."""
    new_runs: NewRuns | None = None
    """Leases."""
    new_objects: NewObjects | None = None
    """Their objects."""
    object_updates: ObjectUpdates | None = None
    """States of objects."""
    run_updates: RunUpdates | None = None
    """Ends of runs."""
    job_updates: JobUpdates | None = None
    """Ends of jobs."""
    job_priorities: JobPriorities | None = None
    """Priorities."""
    events: Sequence[EventRow] | Callable[[AppliedEffects], Sequence[EventRow]] = ()
    """Events, or a function that makes them once it is known what was refused; called inside the transaction."""
    quarantined: Sequence[QuarantinedRecord] = ()
    """Records that could not be applied."""
    clusters_contact: Mapping[str, int] = field(default_factory=dict)
    """Last contact by cluster, microseconds since the Unix epoch."""
    queued_counts: Mapping[int, int] = field(default_factory=dict)
    """Jobs that wait by queue id, where the leader wants them known; they bound submits."""
    queued_count_time_us: int = 0
    """When they were counted, microseconds since the Unix epoch."""

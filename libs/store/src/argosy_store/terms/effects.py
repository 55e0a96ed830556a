"""What a pool's leader writes: columns of new rows and of changes, applied in one transaction.

All arrays of one value have the same length unless said otherwise. Indices point into the tables of texts beside them;
-1 means none (for updates: leave as it is).

Source: design section 1, "One writer per fact" and section 5, "Ingest".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from argosy_core.arrays import Int64s
from argosy_core.job.tables.rows import (
    HeldAmounts,
    JobUpdates,
    NewObjects,
    NewRuns,
    ObjectUpdates,
    PlacedNodes,
    RunUpdates,
)
from argosy_eventlog import QuarantinedLogRecord

__all__ = [
    "AppliedEffects",
    "Effects",
    "EventRow",
]


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
class AppliedEffects:
    """What the database made of the effects."""

    refused_handles: Int64s = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """Ascending handles of new runs that were refused: the job is not open or shall be cancelled."""
    absorbed_handles: Int64s = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """Ascending handles of job updates that changed nothing: the job had ended before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """Everything of one transaction; each part may be left out."""

    log_position: tuple[int, int] | None = None
    """(expected, new) position of the log; StateConflict if the expected one is not the stored one."""
    round_state: bytes | None = None
    """State of the round, opaque here."""
    deleted_change_ids: Int64s | None = None
    """Rows of `changes` that are taken."""
    new_runs: NewRuns | None = None
    """Leases."""
    new_objects: NewObjects | None = None
    """Their objects."""
    added_runs: NewRuns | None = None
    """Members that runs under way get; none is refused."""
    added_objects: NewObjects | None = None
    """Their objects."""
    held: HeldAmounts | None = None
    """What live runs hold, of what is not as their class says."""
    placed: PlacedNodes | None = None
    """Nodes of live runs that were leased to their clusters as a whole."""
    object_updates: ObjectUpdates | None = None
    """States of objects."""
    ended_updates: Sequence[tuple[str, ObjectUpdates]] = ()
    """(cluster, states of objects that it reported): those of runs of other clusters are left as they are."""
    run_updates: RunUpdates | None = None
    """Ends of runs."""
    job_updates: JobUpdates | None = None
    """Ends of jobs."""
    events: Sequence[EventRow] | Callable[[AppliedEffects], Sequence[EventRow]] = ()
    """Events, or a function that makes them once it is known what was refused; called inside the transaction."""
    quarantined: Sequence[QuarantinedLogRecord] = ()
    """Records that could not be applied."""
    contacts: Mapping[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    """By (cluster, role): when its process was heard last, and until when it keeps its session, microseconds since the
    Unix epoch by the database's clock."""
    queued_counts: Mapping[int, int] = field(default_factory=dict)
    """Jobs that wait by queue id, where the leader wants them known; they bound submits."""
    queued_count_time_us: int = 0
    """When they were counted, microseconds since the Unix epoch."""

"""Rows as values: queues, clusters, jobs and runs.

Source: design section 4, the table of tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

__all__ = [
    "CLUSTER_COLUMNS",
    "OF_POOL",
    "QUEUE_COLUMNS",
    "ChangeRequestResult",
    "ClusterRow",
    "JobRecord",
    "JobSetRow",
    "QueueRow",
    "RunRecord",
    "read_amounts",
]

_QUEUE_SETTINGS: Final = (
    "namespaces, max_queued_count, parent, max_running_count, max_running_amounts,"
    " submit_rate_per_s, lease_rate_per_s, preempts_unexpired, preempts_endless, deleted"
)
QUEUE_COLUMNS: Final = (
    f"queue_id, name, weight, pool, cordoned, cordon_reason, version, create_time_us, {_QUEUE_SETTINGS}"
)
"""Columns of a queue in the order of `QueueRow`."""
CLUSTER_COLUMNS: Final = (
    "name, ARRAY(SELECT DISTINCT p.pool FROM cluster_pools p WHERE p.cluster = clusters.name ORDER BY p.pool), uid,"
    " (SELECT coalesce(max(p.heard_time_us), 0) FROM cluster_pools p WHERE p.cluster = clusters.name"
    " AND p.role = 'executor'), cordoned, cordon_reason, cordoned_nodes, forgotten, node_cordon_reasons,"
    " delegated,"
    " coalesce((SELECT b.max_capacity FROM cluster_bounds b WHERE b.cluster = clusters.name), '{}')"
)
"""Columns of a cluster in the order of `ClusterRow`."""
OF_POOL: Final = "EXISTS (SELECT FROM cluster_pools p WHERE p.cluster = clusters.name AND p.pool = %s)"
"""Condition on a row of `clusters`: it serves a pool."""


def read_amounts(texts: Sequence[str]) -> dict[str, int]:
    """Return stored amounts, `resource=amount` each, by resource."""
    return {name: int(amount) for name, _, amount in (text.rpartition("=") for text in texts)}


@dataclass(frozen=True, slots=True)
class QueueRow:
    """A queue as it is stored."""

    queue_id: int
    """Id."""
    name: str
    """Name, unique among queues that are not deleted."""
    weight: float
    """Weight of its fair share."""
    pool: str
    """Pool whose leader schedules its jobs."""
    cordoned: bool
    """Whether its jobs may not become pending."""
    cordon_reason: str
    """Why."""
    version: int
    """Grows with each change."""
    create_time_us: int
    """When it was made, microseconds since the Unix epoch."""
    namespaces: tuple[str, ...]
    """Namespaces its jobs may use."""
    max_queued_count: int
    """Most jobs that may wait; 0 for the installation's limit."""
    parent: str
    """Name of the queue that it stands below; empty for none."""
    max_running_count: int
    """Most jobs that are leased or run at once; 0 for no limit."""
    max_running_amounts: tuple[str, ...]
    """`resource=amount`, most that these hold together, base units; sorted."""
    submit_rate_per_s: float
    """Most jobs that may be submitted in a second; 0 for no limit."""
    lease_rate_per_s: float
    """Most jobs that begin in a second; 0 for no limit."""
    preempts_unexpired: bool
    """Whether runs that are not past their lifetimes yet make room for its jobs, too."""
    preempts_endless: bool
    """Whether runs without a lifetime do."""
    deleted: bool
    """Whether it takes no jobs any more."""

    @property
    def etag(self) -> str:
        """What stands for the row as it is; another queue of the name has another one."""
        return f"{self.queue_id:x}-{self.version:x}"

    @classmethod
    def of(cls, row: Sequence[Any]) -> QueueRow:
        """Return the value of a row in the order of `QUEUE_COLUMNS`."""
        values = [*row[:8], tuple(row[8]), *row[9:12], tuple(row[12]), *row[13:]]
        return cls(*values)


@dataclass(frozen=True, slots=True)
class ClusterRow:
    """A cluster as it is stored."""

    name: str
    """Name."""
    pools: tuple[str, ...]
    """Pools it serves, in order of their names."""
    uid: str
    """Uid the name is bound to."""
    contact_time_us: int
    """Last contact with its executor, microseconds since the Unix epoch; 0 for none."""
    cordoned: bool
    """Whether nothing is placed on it."""
    cordon_reason: str
    """Why."""
    cordoned_nodes: tuple[str, ...]
    """Nodes on which nothing is placed."""
    forgotten: bool
    """Whether it was declared gone for good."""
    node_cordon_reasons: Mapping[str, str]
    """Why nodes are cordoned, by name, for those where somebody said so."""
    delegated: bool
    """Whether it places by itself."""
    max_capacity: tuple[str, ...] = ()
    """`resource=amount`, most that it has by an administrator's word, base units; sorted."""

    @classmethod
    def of(cls, row: Sequence[Any]) -> ClusterRow:
        """Return the value of a row in the order of `CLUSTER_COLUMNS`."""
        values = [row[0], tuple(row[1]), *row[2:6], tuple(row[6]), *row[7:10], tuple(row[10])]
        return cls(*values)


@dataclass(frozen=True, slots=True)
class JobSetRow:
    """A job set as it is stored, counts apart."""

    job_set_id: int
    """Id."""
    name: str
    """Name, unique in its queue."""
    last_event_number: int
    """Number of its last event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """A member of a run, for people; nearly always the whole run."""

    attempt: int
    """Attempt, from 1."""
    cluster: str
    """Cluster."""
    node: str
    """Node."""
    state: int
    """RunState; of a live run, what its objects say."""
    lease_time_us: int
    """When it was leased, microseconds since the Unix epoch."""
    start_time_us: int | None
    """When its pod was first seen running."""
    end_time_us: int | None
    """When it ended; None while it is live."""
    exit_code: int | None
    """Exit code of the first failed container."""
    failure: int | None
    """FailureKind."""
    reason: str | None
    """Why it ended."""
    member: int = 0
    """Number in its run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """A job, for people."""

    handle: int
    """Handle."""
    job_id: str
    """Id, UUID text."""
    queue_id: int
    """Queue."""
    queue: str
    """Name of the queue."""
    job_set_id: int
    """Job set."""
    job_set: str
    """Name of the job set."""
    class_id: int
    """Scheduling class."""
    state: int
    """JobState: of an open job, what its live run says."""
    priority: int
    """Priority."""
    submit_time_us: int
    """When it was accepted, microseconds since the Unix epoch."""
    end_time_us: int | None
    """When it ended; None while it is open."""
    reason: str | None
    """Why it ended."""
    cancel_requested: bool
    """Whether somebody asked to cancel it."""
    client_id: str | None
    """Client id."""
    labels: Mapping[str, str]
    """Labels."""
    annotations: Mapping[str, str]
    """Annotations."""
    lifetime_s: int | None = None
    """Seconds of a run after which it may be preempted; None never."""
    time_limit_s: int | None = None
    """Seconds after which a run is stopped and the job fails; None never."""
    submitter: str | None = None
    """Name of whoever submitted it, None if that is not known."""
    estimate_s: int | None = None
    """Seconds that a run is expected to take; None not said."""
    held: bool = False
    """Whether it waits until somebody releases it."""
    job_set_limit: int | None = None
    """Most jobs of its job set that are leased or run at once; None for no limit."""
    run_after: bytes = b""
    """What it runs after (`argosy_core.job.reading.after`); empty for nothing."""
    runs: tuple[RunRecord, ...] = ()
    """Its runs by attempt."""
    spec_hash: bytes = b""
    """Names its spec; read with it."""
    spec_body: bytes | None = None
    """Its spec, JSON array of manifests; read for single jobs only."""
    spec_layout: bytes = b""
    """Layout of its spec, the API's own affair; where the spec was read."""
    class_definition: bytes = b""
    """Definition of its scheduling class (`argosy_core.job.reading.classes`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRequestResult:
    """What a change request did."""

    job_count: int
    """Open jobs it was set on."""

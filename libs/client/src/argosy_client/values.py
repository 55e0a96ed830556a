"""What the client library takes and answers: plain values, no wire types.

States are the lower-case names of the API (`queued`, `leased`, `running`, `succeeded`, `failed`, `cancelled`), event
kinds likewise (`submitted`, `cancel_requested`). Times are aware datetimes in UTC, None where the server has none.

Source: design section 3, "argosy.api.v1".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from argosy_client.places import Place
from argosy_core.job.pod_groups import PodGroup
from argosy_core.job.retry_rules import RetryRules
from argosy_core.job.scaling_rules import ScalingRules

__all__ = [
    "JOB_STATES",
    "OPEN_STATES",
    "ChangeResult",
    "Cluster",
    "EventBatch",
    "Job",
    "JobDraft",
    "JobEvent",
    "JobSelector",
    "JobSet",
    "LastRound",
    "Node",
    "PodGroup",
    "Queue",
    "QueueShare",
    "ResourceCapacity",
    "ResourceShare",
    "RetryRules",
    "Run",
    "ScaledPod",
    "ScalingRules",
    "ServerInfo",
    "Shares",
    "StageLatency",
]

JOB_STATES: Final = ("queued", "leased", "running", "succeeded", "failed", "cancelled")
"""States of a job, in the order of its life."""
OPEN_STATES: Final = frozenset({"queued", "leased", "running"})
"""States that are not terminal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A queue; the fields below `preempts_endless` are given by the server."""

    name: str
    """Name, unique in the installation."""
    weight: float = 1.0
    """Weight of the queue's fair share."""
    pool: str = ""
    """Pool whose leader schedules the queue's jobs; empty for the default."""
    max_queued_count: int = 0
    """Most jobs that may wait; 0 for the installation's limit."""
    namespaces: tuple[str, ...] = ()
    """Namespaces in which the queue's jobs may make objects."""
    parent: str = ""
    """Queue that this one stands below; empty for none."""
    max_running_count: int = 0
    """Most jobs that are leased or run at once; 0 for no limit."""
    max_running_amounts: Mapping[str, int] = field(default_factory=dict)
    """Most of each resource that these hold together, base units; a resource that is not named has no limit."""
    submit_rate_per_s: float = 0.0
    """Most jobs that may be submitted in a second, ten seconds' worth at once; 0 for no limit."""
    lease_rate_per_s: float = 0.0
    """Most jobs that begin in a second, ten seconds' worth at once; 0 for no limit."""
    preempts_unexpired: bool = False
    """Runs that are not past their lifetimes yet make room for its jobs, too, while it is under its share."""
    preempts_endless: bool = False
    """Runs without a lifetime do."""
    cordoned: bool = False
    """No job of the queue becomes pending."""
    cordon_reason: str = ""
    """Why."""
    etag: str = ""
    """Stands for the queue as it was read; an update needs it."""
    create_time: datetime | None = None
    """When it was made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDraft:
    """One kind of job to submit, `count` times."""

    queue: str
    """Queue."""
    job_set: str
    """Job set."""
    manifests: tuple[str, ...]
    """Kubernetes manifests as JSON or YAML text; equal tuples travel once."""
    groups: tuple[PodGroup, ...] = ()
    """Groups of pods, of a job on several nodes; then no manifest is a pod."""
    retry: RetryRules | None = None
    """Which failures of its runs are tried again; None for what the installation says."""
    priority: int = 0
    """Higher first."""
    count: int = 1
    """Number of equal jobs."""
    client_id: str = ""
    """Makes the submit idempotent; the library makes one if it is empty and retries are wanted."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of the job and its objects."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Annotations of the job and its objects."""
    lifetime_s: int | None = None
    """Seconds of a run after which it may be preempted; None never, 0 at once."""
    time_limit_s: int | None = None
    """Seconds after which a run is stopped and the job fails; None never."""
    estimate_s: int | None = None
    """Seconds that a run is expected to take; binds nobody."""
    hold: bool = False
    """It is held from the beginning."""
    job_set_limit: int = 0
    """Most jobs of its job set that are leased or run at once, itself included; 0 for no limit."""
    after: tuple[str, ...] = ()
    """Ids of other jobs that it begins after."""
    after_until: str = "succeeded"
    """Whether these must have `succeeded`, or `ended` in whatever way."""
    scaling: ScalingRules | None = None
    """Within what its pod is resized while it runs; None for what annotations say, if anything."""
    place: Place | None = field(default=None, compare=False)
    """Where it was written, for errors; None if nowhere."""

    @property
    def spec_key(self) -> tuple[object, ...]:
        """What is equal for drafts whose spec travels once."""
        return (self.manifests, self.groups, self.retry)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitWarning:
    """What is allowed in a submit, and probably not meant."""

    field: str
    """Path of the field, or where it was written."""
    description: str
    """What it means, and what may have been meant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """What a submit answered."""

    job_ids: tuple[str, ...]
    """Ids of jobs, one per draft and count, in order; none if it was only checked."""
    warnings: tuple[SubmitWarning, ...]
    """What is probably not meant."""
    existing: tuple[int, ...] = ()
    """Indices into `job_ids` of jobs that were not made now: their client ids stood for them before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSelector:
    """Which jobs are meant: all conditions hold."""

    queue: str = ""
    """Queue."""
    job_set: str = ""
    """Job set, whole name."""
    states: tuple[str, ...] = ()
    """States; none means all for lists and all open ones for change requests."""
    label_selector: str = ""
    """Kubernetes label selector over the jobs' labels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One attempt at a job; of one on several nodes, one of its members."""

    attempt: int
    """From 1."""
    member: int
    """Number of the member of the attempt, from 0; nearly every attempt has but one."""
    state: str
    """leased, created, running, succeeded, failed, cancelled, preempted, returned, lost or unknown."""
    cluster: str
    """Cluster."""
    node: str
    """Node."""
    lease_time: datetime | None
    """When the lease was stored."""
    start_time: datetime | None
    """When its pod was first seen running."""
    end_time: datetime | None
    """When it ended."""
    exit_code: int | None
    """Exit code of the first failed container, 0 after success; None if no container ended."""
    reason: str
    """Why it ended, if not with success."""
    failure: str
    """Kind of its failure: exit_code, out_of_memory, evicted, image, infrastructure, rejected or time_limit; empty if
    none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job."""

    id: str
    """A UUID, ordered by submit time."""
    queue: str
    """Queue."""
    job_set: str
    """Job set."""
    state: str
    """One of `JOB_STATES`."""
    priority: int
    """Higher first."""
    create_time: datetime | None
    """When it was accepted."""
    end_time: datetime | None
    """When it reached a terminal state."""
    reason: str
    """Why it ended, if not with success."""
    cancel_requested: bool
    """Somebody asked to cancel it."""
    client_id: str
    """Client id, if one was given."""
    labels: Mapping[str, str]
    """Labels."""
    annotations: Mapping[str, str]
    """Annotations."""
    runs: tuple[Run, ...]
    """Its runs by attempt."""
    manifests: tuple[str, ...]
    """Its spec as JSON manifests; empty in lists."""
    groups: tuple[PodGroup, ...] = ()
    """Groups of pods of its spec, of a job on several nodes."""
    retry: RetryRules | None = None
    """Which failures of its runs are tried again, if its spec says so."""
    lifetime_s: int | None = None
    """Seconds of a run after which it may be preempted; None never, 0 at once."""
    time_limit_s: int | None = None
    """Seconds after which a run is stopped and the job fails; None never."""
    submitter: str = ""
    """Name of whoever submitted it; empty where callers were not asked who they are."""
    estimate_s: int | None = None
    """Seconds that a run is expected to take, as its submitter said."""
    held: bool = False
    """Whether it waits until somebody releases it."""
    job_set_limit: int = 0
    """Most jobs of its job set that are leased or run at once; 0 for no limit."""
    after: tuple[str, ...] = ()
    """Ids of other jobs that it begins after."""
    after_until: str = ""
    """Whether these must have `succeeded` or `ended`; empty without any."""
    requests: Mapping[str, int] = field(default_factory=dict)
    """What its pods request together, base units by resource."""
    scaling: ScalingRules | None = None
    """Within what its pod is resized while it runs; None where its annotations say nothing of it."""
    stage: str = ""
    """Where it stands, as `Explanation.stage`; empty where that was not asked for."""
    wait_reason: str = ""
    """What it waits for, as `Explanation.wait_reason`; likewise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPage:
    """Some of the jobs that a list asked for."""

    jobs: tuple[Job, ...]
    """Jobs; maybe fewer than asked for, or none, before the end."""
    next_page_token: str
    """Where to go on; empty at the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStanding:
    """Where one of many jobs stands."""

    id: str
    """Id of the job."""
    stage: str
    """As `Explanation.stage`."""
    wait_reason: str
    """As `Explanation.wait_reason`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSet:
    """A job set."""

    queue: str
    """Queue."""
    name: str
    """Name, unique in the queue."""
    last_event_number: int
    """Number of its last event."""
    state_counts: Mapping[str, int]
    """Its jobs by state, if they were asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerInfo:
    """What a server is and takes."""

    version: str
    """Version."""
    default_pool: str
    """Pool of queues that name none."""
    limits: Mapping[str, int]
    """Bounds by the name of the field of `ServerLimits`, as `max_jobs_per_request`."""
    features: tuple[str, ...]
    """What it offers beyond what every server does, as `yaml_manifests`."""
    kubernetes_version: str = ""
    """Release of Kubernetes whose fields manifests are checked for; empty if the server does not check them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeResult:
    """What a change request does, or would do."""

    job_count: int
    """Open jobs concerned."""
    unknown_ids: tuple[str, ...]
    """Ids that name no job."""
    sample: tuple[Job, ...]
    """Up to 20 of the jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A cluster."""

    name: str
    """Name."""
    pools: tuple[str, ...]
    """Pools it serves."""
    sampler_connected: bool
    """Its sampler has a session with the leader."""
    executor_connected: bool
    """Its executor has a stream to the leader."""
    cordoned: bool
    """Nothing is placed on it."""
    cordon_reason: str
    """Why."""
    node_count: int
    """Nodes."""
    run_count: int
    """Runs placed."""
    total: Mapping[str, int]
    """Allocatable on usable nodes, base units by resource."""
    free: Mapping[str, int]
    """Free on usable nodes, base units by resource."""
    contact_time: datetime | None
    """Last contact with its executor."""
    cordoned_nodes: Mapping[str, str]
    """Cordoned nodes with the reasons given, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node of a cluster."""

    name: str
    """Name."""
    ready: bool
    """The node is ready."""
    cordoned: bool
    """Nothing is placed on it."""
    cordon_reason: str
    """Why."""
    allocatable: Mapping[str, int]
    """Base units by resource."""
    free: Mapping[str, int]
    """Base units by resource; may be negative for a moment."""
    labels: Mapping[str, str]
    """Labels."""
    last_choice_for: tuple[str, ...]
    """Job sets, as `queue/job set`, that failed on it so often that it is the last choice for some of their jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaledPod:
    """A pod that is resized while it runs, as it was from some time on; amounts in base units by resource."""

    cluster: str
    """Cluster it runs in."""
    job_id: str
    """Id of its job."""
    attempt: int
    """Attempt."""
    member: int
    """Number of the member in its run."""
    queue: str
    """Queue of its job."""
    requested: Mapping[str, int]
    """What its agent asked for."""
    approved: Mapping[str, int]
    """What it is permitted; nothing where no agent holds it."""
    actual: Mapping[str, int]
    """What the cluster shows: the most of desired, allocated and actual."""
    state: str
    """What keeps it there: as asked, waits for room, node drains, is moved, no agent, uncertain."""
    since: datetime | None
    """Since when it is so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceShare:
    """What one queue has of one resource, base units."""

    resource: str
    """Resource."""
    requested: int
    """What all its jobs ask for, waiting ones included."""
    running: int
    """What its leased and running jobs hold."""
    entitled: int
    """By weighted water-filling over the demands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueShare:
    """What one queue has and is entitled to; cores are weighted resources."""

    queue: str
    """Queue."""
    weight: float
    """Weight."""
    fair_share_ratio: float
    """Weight divided by the sum of weights of the queues beside it, times the share of the queue above."""
    usage_cores: float
    """Leased and running jobs."""
    flow_cores: float
    """Flow."""
    demand_cores: float
    """If all its jobs ran."""
    entitled_cores: float
    """By weighted water-filling over the demands; jobs that no node could hold demand nothing here."""
    queued_count: int
    """Jobs queued, not pending."""
    pending_count: int
    """Jobs pending."""
    leased_count: int
    """Jobs leased or running."""
    resources: tuple[ResourceShare, ...] = ()
    """The same of every resource that it asks for."""
    parent: str = ""
    """Queue above it; amounts of a queue with others below it are those of all of them together."""
    non_preemptible_flow_cores: float = 0.0
    """Flow of its own jobs without a lifetime."""
    non_preemptible_cap_cores: float = 0.0
    """What that may be at most."""
    charged_core_min: float = 0.0
    """What its own jobs that began beyond its fair share take of its excess flow budget, core-minutes."""
    budget_core_min: float = 0.0
    """That budget, core-minutes."""
    limited_count: int = 0
    """Own jobs that wait since as many run of the queue, or of their job set, as may."""
    rate_limited_count: int = 0
    """Own jobs that wait since the queue has begun as many lately as its lease rate lets it."""
    max_running_count: int = 0
    """Most own jobs that are leased or run at once; 0 for no limit."""
    lease_rate_per_s: float = 0.0
    """Most own jobs that begin in a second; 0 for no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceCapacity:
    """What a pool has of one resource."""

    resource: str
    """Resource."""
    capacity: int
    """Sum over the clusters that may be given work, base units."""
    unit_cores: float
    """What one unit (core, byte, whole unit) counts, cores; 0 is a resource that weighs nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """Shares of a pool's queues."""

    capacity_cores: float
    """Capacity of the pool."""
    shares: tuple[QueueShare, ...]
    """By queue name."""
    resources: tuple[ResourceCapacity, ...] = ()
    """Every resource that the pool counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageLatency:
    """Distribution of the time from submit to a stage, over all jobs since the leader started."""

    stage: str
    """considered, leased, running or finished."""
    job_count: int
    """Jobs counted."""
    p50_ms: float
    """Median."""
    p90_ms: float
    """90th percentile."""
    p99_ms: float
    """99th percentile."""
    bounds_ms: tuple[float, ...]
    """b upper bounds of the buckets, ascending."""
    bucket_counts: tuple[int, ...]
    """b or b + 1 jobs per bucket; a last one without bound holds the rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastRound:
    """What the leader's last round did."""

    round: int
    """Number since the leader started."""
    epoch: int
    """Epoch of the leader."""
    queued_count: int
    """Jobs that wait for their turn."""
    pending_count: int
    """Jobs that are pending."""
    leased_count: int
    """Runs leased in the round."""
    conflict_count: int
    """Commits that met a conflict."""
    class_count: int
    """Classes sampled."""
    phases_ms: Mapping[str, float]
    """Duration of each phase."""
    totals: Mapping[str, int]
    """Totals since the leader started."""
    latencies: Mapping[str, StageLatency]
    """By stage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEvent:
    """Something that happened to a job."""

    number: int
    """Number within the job set, from 1."""
    job_id: str
    """Job."""
    kind: str
    """submitted, leased, created, running, succeeded, failed, cancelled, cancel_requested, reprioritized, requeued or
    unknown."""
    time_s: float
    """When, seconds since the Unix epoch."""
    attempt: int
    """Attempt of the run, 0 if none."""
    cluster: str
    """Cluster, if it matters."""
    node: str
    """Node, if it matters."""
    reason: str
    """Reason, if there is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventBatch:
    """Events of a job set, in order, none twice and none left out."""

    events: tuple[JobEvent, ...]
    """The events."""
    cursor: str
    """Where to go on after this batch."""
    state_counts: Mapping[str, int]
    """Jobs of the set by state, as of this batch's end."""

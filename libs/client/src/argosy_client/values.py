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
from argosy_core.job.reading.families import Parent
from argosy_core.job.reading.pod_groups import PodGroup
from argosy_core.job.reading.retry_rules import RetryRules
from argosy_core.job.reading.scaling_rules import ScalingRules

__all__ = [
    "JOB_STATES",
    "OPEN_STATES",
    "ChangeResult",
    "EventBatch",
    "Job",
    "JobDraft",
    "JobEvent",
    "JobSelector",
    "JobSet",
    "Parent",
    "PodGroup",
    "RetryRules",
    "Run",
    "ScalingRules",
    "ServerInfo",
]

JOB_STATES: Final = ("queued", "leased", "running", "succeeded", "failed", "cancelled")
"""States of a job, in the order of its life."""
OPEN_STATES: Final = frozenset({"queued", "leased", "running"})
"""States that are not terminal."""


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
    operator: bool = False
    """It may submit others as its children, and its pods are told how."""
    parent: Parent | None = None
    """Whose child it is."""
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
    replacement: int = 0
    """How many were in this member's place before it, and were lost; 0 for the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job as the API answers it."""

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
    operator: bool = False
    """Whether it may submit others as its children."""
    parent: Parent | None = None
    """Whose child it is."""
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
    """A job set, with the number of its jobs by state if that was asked for."""

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
class JobEvent:
    """Something that happened to a job."""

    number: int
    """Number within the job set, from 1."""
    job_id: str
    """Job."""
    kind: str
    """submitted, leased, created, running, succeeded, failed, cancelled, cancel_requested, reprioritized, requeued,
    unknown, held, released, member_leased, member_running or member_ended."""
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
    member: int = 0
    """Member of the run, of events whose kind begins with member."""
    replacement: int = 0
    """How many members were in its place before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventBatch:
    """Events of a job set, in order, none twice and none left out."""

    events: tuple[JobEvent, ...]
    """The events."""
    cursor: str
    """Where to go on after this batch."""
    state_counts: Mapping[str, int]
    """Jobs of the set by state, as of this batch's end."""

"""What a pool's leader lets the API see of its memory, and what the leader role is to the process that runs it.

The servicers of this package use a `LeaderView` where they have one; elsewhere they forward the call, one hop.

Source: design section 3, "Replicas forward calls that need the leader's memory".
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from argosy_core.job.states import JobStage
from argosy_core.nodes import NodeColumns
from argosy_core.placement import WaitReason
from argosy_core.scheduler import Explanation, PoolShares, PoolState
from argosy_runtime.lifecycle import Lifecycle

if TYPE_CHECKING:
    from argosy_server.leader.hot import HotSettings

__all__ = [
    "ClusterGauges",
    "LeaderRoleLike",
    "LeaderView",
    "LogRequest",
    "NodeGauges",
    "RoundGauges",
    "Servicer",
    "StageLatencies",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class StageLatencies:
    """Time from submit to a stage, over all jobs since the leader started; units as in api.v1.StageLatency."""

    stage: str
    """`considered`, `leased`, `running` or `finished`."""
    job_count: int
    """Jobs counted."""
    p50_ms: float
    """Median."""
    p90_ms: float
    """90th percentile."""
    p99_ms: float
    """99th percentile."""
    bound_ms: tuple[float, ...]
    """Upper bounds of the buckets."""
    bucket_count: tuple[int, ...]
    """Jobs per bucket; one more than bounds, the last one open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundGauges:
    """What the last round did."""

    round: int
    """Number since the leader started."""
    epoch: int
    """Epoch of the leader."""
    queued_count: int
    """Jobs that wait for their turn."""
    pending_count: int
    """Jobs pending."""
    leased_count: int
    """Runs leased in the round."""
    conflict_count: int
    """Commits that met a conflict."""
    class_count: int
    """Classes sampled."""
    phases: tuple[tuple[str, float], ...] = ()
    """(phase, milliseconds)."""
    totals: Mapping[str, int] = field(default_factory=dict)
    """Totals since the leader started, by name."""
    latencies: tuple[StageLatencies, ...] = ()
    """Time from submit to each stage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterGauges:
    """Live gauges of one cluster."""

    name: str
    """Name."""
    sampler_connected: bool
    """Whether its sampler has a session."""
    executor_connected: bool
    """Whether its executor has a session."""
    node_count: int = 0
    """Nodes."""
    run_count: int = 0
    """Runs placed."""
    total: Mapping[str, int] = field(default_factory=dict)
    """Allocatable on usable nodes, base units by resource."""
    free: Mapping[str, int] = field(default_factory=dict)
    """Free on usable nodes."""
    told: Mapping[str, int] = field(default_factory=dict)
    """What its sampler tells of those resources of which less counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGauges:
    """Live gauges of one node."""

    name: str
    """Name."""
    allocatable: Mapping[str, int]
    """Total minus what the system keeps, base units by resource."""
    free: Mapping[str, int]
    """Free; may be negative for a moment."""
    ready: bool
    """Whether it is ready."""
    cordoned: bool
    """Whether it is cordoned."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels."""
    last_choice_for: tuple[str, ...] = ()
    """Job sets, as `queue/job set`, that failed on it so often that it is the last choice for some of their jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRequest:
    """Which log."""

    handle: int
    """Job handle."""
    attempt: int
    """Attempt."""
    object_index: int
    """Position of the pod in its bag."""
    member: int = 0
    """Number of the member of the run."""
    container: str = ""
    """Container; empty means the first."""
    follow: bool = False
    """Go on while the container writes."""
    tail_line_count: int | None = None
    """Last lines to begin with; None means all."""
    timestamps: bool = False
    """Each line begins with its time."""
    since_s: int = 0
    """Only lines of this time or later, seconds since the Unix epoch; 0 means all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaledPod:
    """A pod that is resized while it runs, as it was from some time on."""

    job_id: str
    """Id of its job."""
    attempt: int
    """Attempt."""
    member: int
    """Number of the member in its run."""
    queue: str
    """Queue of its job."""
    requested: Mapping[str, int]
    """Asked for, base units by resource."""
    approved: Mapping[str, int]
    """Permitted."""
    actual: Mapping[str, int]
    """What the cluster shows."""
    state: int
    """Value of ScaledPodState."""
    since_s: float
    """Since when, seconds since the Unix epoch."""


class LeaderView(Protocol):
    """A leading leader's memory, read only; called on the event loop, so each answer takes a few milliseconds."""

    def explain(self, handle: int) -> Explanation | None:
        """Return where a job stands, or None for a job that is not in memory (not taken in yet, or ended)."""

    def standings(self, handles: Sequence[int]) -> dict[int, tuple[JobStage, WaitReason]]:
        """Return where jobs stand and what they wait for, by handle, of those that are in memory."""

    def now_s(self) -> float:
        """Return the time by which the memory goes, seconds since the Unix epoch; no machine's own clock says it."""

    async def fork(self) -> PoolState:
        """Return a copy of the memory as it is between two rounds, to try rounds on.

        Raises:
            BackendUnavailable: One round follows the other.
        """

    def definitions(self, handles: Sequence[int]) -> list[bytes]:
        """Return the definitions of the classes of jobs; empty for those that are not in memory."""

    def pending(self) -> list[int]:
        """Return the pending jobs: few, however many wait."""

    def node_columns(self) -> Mapping[str, NodeColumns]:
        """Return the nodes of each cluster as its sampler has told them last."""

    def shares(self) -> PoolShares:
        """Return the shares of the pool's queues."""

    def settings(self) -> tuple[HotSettings, int]:
        """Return the settings of rounds, and the version by which the last round was decided."""

    def last_round(self) -> RoundGauges:
        """Return what the last round did."""

    def dump(self) -> Iterator[str]:
        """Yield the state as JSON text in chunks to be joined."""

    def clusters(self) -> Sequence[ClusterGauges]:
        """Return the clusters the leader knows, in order of their names."""

    def read_log(self, cluster: str, request: LogRequest) -> AsyncGenerator[bytes, None]:
        """Give a log of a cluster's pod in pieces; closing the iterator ends the reading.

        Raises:
            NotFound: There is no such log.
            QuotaExceeded: Too many logs of the cluster are read at once.
            BackendUnavailable: The cluster's executor is not connected, or cannot reach its cluster.
        """

    def scaled_pods(self, cluster: str, *, with_history: bool = False) -> Sequence[ScaledPod]:
        """Return a cluster's scaled pods by job, attempt and member; or, oldest first, what they were before."""

    def nodes(self, cluster: str) -> Sequence[NodeGauges]:
        """Return a cluster's nodes in order of their names; none if the leader does not know the cluster."""


Servicer = tuple[Callable[[Any, Any], object], object, str]
"""(generated `add_XServicer_to_server`, servicer, full name of the service)."""


class LeaderRoleLike(Protocol):
    """What `argosy_server.leader.role.LeaderRole(config)` offers the process that runs it."""

    def servicers(self) -> Sequence[Servicer]:
        """Return ExecutorService and SamplerService; asked before the server starts."""

    async def start(self, life: Lifecycle, *, address: str) -> None:
        """Begin to stand for election, with tasks spawned in `life`; others dial this process at `address`."""

    def view(self, pool: str) -> LeaderView | None:
        """Return the view of a pool that this process leads now, else None."""

    async def stop(self) -> None:
        """Resign and end all sessions."""

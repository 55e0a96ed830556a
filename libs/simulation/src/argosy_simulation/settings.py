"""Settings of a simulated world: delays, periods and faults. Every duration is virtual seconds.

Source: design section 5 for the periods; `WorldSettings` defaults are those of the services.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from argosy_core.errors import InvalidRequest
from argosy_core.leader import MachineSettings
from argosy_core.scheduler import RoundSettings

__all__ = ["FaultSettings", "Range", "WorldSettings"]

Range = tuple[float, float]
"""(least, most) of a duration that is drawn evenly, seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldSettings:
    """How long things take and how often they happen."""

    leader: MachineSettings = field(default_factory=MachineSettings)
    """When leaders' rounds begin, and how rounds order, sample, decide and retry; the defaults are the product's."""
    make_plugins: Callable[[], Mapping[str, object]] = dict
    """Makes the plugins of each leader anew, by name."""
    message_s: Range = (0.0002, 0.002)
    """Delay of a message."""
    call_s: Range = (0.001, 0.01)
    """Delay of a call to a cluster, and of its answer."""
    call_timeout_s: float = 30.0
    """When an executor gives up waiting for an answer of its cluster."""
    transaction_s: Range = (0.001, 0.005)
    """How long a transaction, or an append to the log, takes."""
    poll_s: Range = (0.0, 0.02)
    """How long after its commit a change is seen by the leader."""
    watch_s: Range = (0.001, 0.02)
    """Delay of what a cluster's watch shows."""
    pod_start_s: Range = (0.0, 0.0)
    """From a pod's creation to its start."""
    pod_stop_s: Range = (0.0, 0.05)
    """From a pod's deletion to its end."""
    collect_s: Range = (0.5, 2.0)
    """After how long a cluster removes a pod whose node does not exist."""
    gather_s: float = 0.02
    """How long an executor's news gathers before it acts."""
    report_wait_s: float = 0.05
    """How long an executor's states gather before they are reported; half of the interval between reports."""
    capacity_interval_s: float = 0.25
    """Least time between a sampler's messages about changed nodes."""
    rise_interval_s: float = 0.01
    """The same while a class waits for capacity to rise."""
    dial_s: Range = (0.05, 2.0)
    """Wait before a lost leader is dialled again."""
    election_s: Range = (1.0, 5.5)
    """From a leader's death to the next one's epoch."""
    renew_s: Range = (0.0, 5.0)
    """After how long a leader that was replaced finds out, if it writes nothing before."""
    restart_s: Range = (0.1, 10.0)
    """From a sampler's or executor's death to its successor."""
    heartbeat_s: float = 2.0
    """How often a session is heard; three missed ones end it."""
    fence_s: float = 15.0
    """How long an executor may act after its last confirmation."""
    keep_finished_s: float = 60.0
    """How long finished pods stay on their cluster."""
    resolution_s: float = 0.0
    """Pods end at the nearest multiple of it, so that many ends are heard of, and decided on, at once; 0 for as they
    come. Nobody's run is longer or shorter than that by more than half of it, and on average by nothing."""
    check_steps: int = 1
    """After how many events the memories are checked; 0 only at the end."""
    max_steps: int = 50_000_000
    """Events after which a world counts as never coming to rest."""

    @staticmethod
    def for_traces() -> WorldSettings:
        """Return settings for traces of days and months: waits below a second are gathered to save events.

        Streams lose nothing without faults, so nobody is asked again only because news might have been lost. Jobs of
        traces say nothing of lifetimes, so shares cap nothing.
        """
        return WorldSettings(
            leader=MachineSettings(
                window_idle_s=0.1,
                window_max_s=0.1,
                retry_s=0.1,
                busy_s=0.0,
                release_wait_s=0.0,
                contact_period_s=86_400.0,
                round=RoundSettings(wait_expiry_s=30 * 86_400.0, non_preemptible_excess_ratio=1e9),
            ),
            watch_s=(0.01, 0.03),  # what sampler and executor tell of one pod is within one window of the leader
            capacity_interval_s=2.0,
            keep_finished_s=0.0,
            check_steps=0,
        )

    def __post_init__(self) -> None:
        """Refuse delays with which nothing can work.

        Raises:
            InvalidRequest: A range is not ascending from 0, or the bounds of calls and fences contradict each other.
        """
        for name in type(self).__slots__:
            value = getattr(self, name)
            if isinstance(value, tuple) and not 0.0 <= value[0] <= value[1]:
                raise InvalidRequest(f"{name} is {value}; it must ascend from 0 or more")
        if not 0.0 <= self.resolution_s < float("inf"):
            raise InvalidRequest(f"resolution_s is {self.resolution_s}; it must be a number of seconds, 0 or more")
        if self.check_steps < 0 or self.max_steps < 1:
            raise InvalidRequest("check_steps must be 0 or more, max_steps 1 or more")
        if self.heartbeat_s <= 0 or self.fence_s < 3 * self.heartbeat_s:
            raise InvalidRequest("fence_s must be at least three times heartbeat_s, which must be above 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultSettings:
    """What goes wrong until `until_s`; from then on nothing does, and everything must come to rest."""

    until_s: float = 120.0
    """Length of the phase with faults, seconds from the start."""
    leader_crashes: int = 2
    """Leaders killed."""
    leader_depositions: int = 1
    """Leaders replaced while they are alive and go on, until they notice."""
    sampler_crashes: int = 2
    """Samplers killed."""
    executor_crashes: int = 2
    """Executors killed."""
    executor_overlaps: int = 1
    """Executors cut off from everybody but their cluster while a successor starts."""
    overlap_s: Range = (15.0, 30.0)
    """For how long."""
    stream_cuts: int = 4
    """Streams to a leader that break, with everything on its way."""
    stream_stalls: int = 3
    """Streams on which nothing arrives for a while."""
    stall_s: Range = (0.5, 20.0)
    """How long that lasts."""
    node_losses: int = 2
    """Nodes that disappear with their pods."""
    node_away_s: Range = (1.0, 30.0)
    """How long they are away."""
    unmanaged_pods: int = 0
    """How often a pod of somebody else comes to every node of a cluster that has room for it."""
    unmanaged_pod_s: Range = (0.5, 20.0)
    """How long they run."""
    watch_ends: int = 2
    """Watches that end and cannot be resumed."""
    watch_lags: int = 2
    """Watches that fall behind."""
    lag_s: Range = (0.5, 10.0)
    """By how much."""
    api_crashes: int = 0
    """Replicas of the API killed; callers repeat what was not answered."""
    forgotten_clusters: int = 0
    """Clusters that go dark for so long that somebody declares them gone, and that come back."""
    forget_after_s: Range = (60.0, 90.0)
    """How long a cluster is dark before it is declared gone: no call of its executor is under way by then."""
    return_after_s: Range = (0.5, 60.0)
    """When it comes back after that."""
    late_commits: int = 0
    """Commits of a leader that was replaced which something between it and a sampler held back, and hands over on the
    sampler's session with the next leader."""
    label_thefts: int = 0
    """Executors killed, and before their successors start, the labels taken from half of the pods that run."""
    executor_isolations: int = 0
    """Executors cut off from everybody but their clusters, without a successor."""
    isolation_s: Range = (10.0, 300.0)
    """For how long."""
    repeat_ratio: float = 0.05
    """Share of the repeatable messages, and of the calls to clusters, that arrive twice."""
    call_loss_ratio: float = 0.05
    """Share of the calls to clusters that are lost, and again as many whose answer is."""
    call_delay_s: float = 3.0
    """Longest delay of a call to a cluster; below `WorldSettings.call_timeout_s`, after which nothing of it is left."""

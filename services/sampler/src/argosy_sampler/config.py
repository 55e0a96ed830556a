"""Configuration of the sampler.

Source: design section 9, "Settings".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from argosy_core.framework import Framework
from argosy_core.job.reading.scaling import read_amounts
from argosy_core.ledger import NodeLedger, PermitSettings
from argosy_core.plugins.registry import DEFAULT_PROFILE, Profile, build_framework, commit_framework
from argosy_kube import KubernetesSettings
from argosy_runtime.access.guard import CallerSettings
from argosy_runtime.channel import ChannelCredentials
from argosy_runtime.config import require_names, require_pools
from argosy_runtime.grpc_server import GrpcSettings
from argosy_runtime.joining import JoinSettings
from argosy_runtime.logs import LogLevel
from argosy_runtime.plugins import load_plugins

__all__ = ["PermitConfig", "SamplerConfig"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PermitConfig:
    """How agents are permitted to resize pods."""

    lease_s: float = 6.0
    """How long an agent that is not heard may go on giving pods what it was permitted, seconds."""
    margin_s: float = 4.0
    """How much longer a change that it began may take to be seen, seconds. For both together pods count at their
    maximum after a start of the sampler, unless their agent reports before."""
    unit: str = "cpu=250m,memory=1Gi"
    """Compute unit: what pods are given in whole multiples of."""
    node_units: Mapping[str, str] = field(default_factory=dict)
    """Other compute units by name of a node."""
    rises_per_s: float = 10.0
    """How often an agent may ask for more for one pod, for ever; ten seconds' worth at once."""
    watermark: float = 1.0
    """Part of a node with scaled pods up to which others are placed there, and above which pods of it that are marked
    movable are preempted; 1 moves nothing."""
    node_watermarks: Mapping[str, float] = field(default_factory=dict)
    """Other watermarks by name of a node."""
    node_system: Mapping[str, str] = field(default_factory=dict)
    """What is kept for the system of single nodes beyond what is not allocatable, as `cpu=1,memory=2Gi`."""
    durable: bool = False
    """Whether it is noted on pods what they may have at most, so that the next sampler need not book them at their
    maximum. Needs a Kubernetes, and the right to patch pods; a pod that grows costs a call now and then."""
    queue_weights: Mapping[str, float] = field(default_factory=dict)
    """By queue: what room that is short on a node is shared by, instead of the weight that its leader tells."""

    def __post_init__(self) -> None:
        """Refuse units, times and weights that nothing can be measured by.

        Raises:
            InvalidRequest: A unit cannot be read, or a value is not above 0.
        """
        self.make_ledger()

    def make_ledger(self, pool_count: int = 1, *, topology: Sequence[str] = (), process_id: bytes = b"") -> NodeLedger:
        """Return an empty ledger that gives permits so.

        Args:
            pool_count: How many pools place there.
            topology: Node labels of the network's levels.
            process_id: What stands for this process, in notes on pods.
        """
        settings = PermitSettings(
            lease_s=self.lease_s,
            margin_s=self.margin_s,
            unit=read_amounts("permits.unit", self.unit),
            node_units={
                name: read_amounts(f"permits.node_units.{name}", unit) for name, unit in self.node_units.items()
            },
            rises_per_s=self.rises_per_s,
            noted_by=process_id.hex() if self.durable else "",
            watermark_ratio=self.watermark,
            node_watermarks=self.node_watermarks,
            node_system={
                name: read_amounts(f"permits.node_system.{name}", kept) for name, kept in self.node_system.items()
            },
        )
        ledger = NodeLedger(pool_count=pool_count, permits=settings, topology=topology)
        ledger.permits.queues.tell(self.queue_weights)
        return ledger


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplerConfig:
    """Configuration of argosy-sampler."""

    SERVICE: ClassVar[str] = "sampler"

    cluster: str
    """Name of the cluster; bound to the cluster's uid when first used."""
    cluster_address: str
    """Where the cluster is: `simulated:host:port` or `simulated:unix:/path` (`simulated:` may be left out), or
    `kubernetes`, `kubernetes:/path/to/kubeconfig`, `kubernetes:/path#context`, `kubernetes:in-cluster`."""
    server_addresses: tuple[str, ...]
    """host:port of server processes; each tells where the leader is, so one that lives is enough."""
    pools: tuple[str, ...] = ("default",)
    """Pools that place on the cluster; the sampler serves the leader of each."""
    installation: str = "argosy"
    """Installation whose labels make a pod ours; must be the executor's."""
    capacity_interval_ms: float = field(default=250.0, metadata={"may_be_zero": True})
    """Least time between two messages about the cluster's totals and nodes that came, went or are otherwise."""
    rise_interval_ms: float = 10.0
    """The same while some class waits and capacity has risen, so that a waiting job learns of it soon."""
    node_interval_ms: float = field(default=5000.0, metadata={"may_be_zero": True})
    """How often it is told what single nodes have left; people look at that, rounds need totals."""
    filters: tuple[str, ...] = DEFAULT_PROFILE.filters
    """Filters that a node must pass, in the order in which they are asked."""
    scores: Mapping[str, float] = field(default_factory=lambda: dict(DEFAULT_PROFILE.scores))
    """Weights of the scores by name: `least-allocated`, `keep-devices`, `most-allocated`, `lost-opportunity`,
    `fewest-nodes`, `alignment`. Pools may rank by another (`leader.round.node_score`). Plugins' scores count 1 unless
    named here."""
    topology: tuple[str, ...] = ("topology.kubernetes.io/zone",)
    """Node labels whose values say what is near in the network, the lowest level first: say rack, then zone. Pods of a
    gang on nodes with the same value of the first are two hops apart, of the next four, and so on; levels whose label
    no node has do not count."""
    plugins: tuple[str, ...] = ()
    """Installed plugins to call at every point that they have, in this order, behind the filters above; see
    docs/plugins.md."""
    plugin_settings: Mapping[str, str] = field(default_factory=dict)
    """What plugins are made with: values by `plugin.keyword`."""
    delegated: bool = False
    """Whether the cluster shall choose nodes by itself (docs/delegated-clusters.md), unless an operator has said
    otherwise."""
    commit_plugins: tuple[str, ...] = ()
    """Installed plugins that check placements for conflicts when they are committed, in this order; see
    docs/plugins.md."""
    commit_plugin_settings: Mapping[str, str] = field(default_factory=dict)
    """What they are made with: values by `plugin.keyword`."""
    retry_most_s: float = 2.0
    """Longest wait before the leader or the cluster is tried again, seconds; bounds how late a recovery is noticed."""
    connect_timeout_s: float = 5.0
    """How long a server may take to answer the hello, seconds."""
    metrics_listen: str = ""
    """host:port of the metrics page; empty opens none."""
    log_level: LogLevel = "info"
    """Least severe level that is logged."""
    not_ready_after_s: float = 15.0
    """After how long without its cluster health says NOT_SERVING; permits need no leader, so that counts not."""
    drain_s: float = field(default=1.0, metadata={"may_be_zero": True})
    """How long stopping may take, seconds; there is nothing to finish, because the ledger is rebuilt from facts."""
    kubernetes: KubernetesSettings = field(default_factory=KubernetesSettings)
    """How the API server is used, where the cluster is a Kubernetes."""
    access: CallerSettings = field(default_factory=CallerSettings)
    """How it is known which agents ask for permits; with nothing set here and no client certificates, all may."""
    credentials: ChannelCredentials = field(default_factory=ChannelCredentials)
    """How servers are known, and how this process proves to them for which cluster it speaks."""
    join: JoinSettings = field(default_factory=JoinSettings)
    """How this process fetches its own certificate with an invitation, instead of being given one."""
    permits: PermitConfig = field(default_factory=PermitConfig)
    """How agents are permitted to resize pods; see docs/autoscale.md."""
    grpc: GrpcSettings = field(default_factory=lambda: GrpcSettings(listen="127.0.0.1:0"))
    """Where permits, health and reflection are served; the sampler itself dials the leader."""

    def __post_init__(self) -> None:
        """Refuse plugins that do not exist, and names that are none.

        Raises:
            InvalidRequest: There is no filter, score or plugin by a name, a plugin cannot be made, a weight is not
                above 0, or a pool or `installation` is no name.
        """
        require_names({"installation": self.installation})
        require_pools(self.pools)
        self.make_framework()
        self.make_checks()

    def make_checks(self) -> Framework:
        """Return the framework of the commit profile, with plugins made anew."""
        return commit_framework(load_plugins(self.commit_plugins, self.commit_plugin_settings))

    def make_framework(self) -> Framework:
        """Return the framework of the sampling phase and the commit, with plugins made anew."""
        profile = Profile(name="sampler", filters=self.filters, scores=self.scores)
        return build_framework(profile, load_plugins(self.plugins, self.plugin_settings))

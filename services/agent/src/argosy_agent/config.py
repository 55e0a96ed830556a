"""Configuration of the agent.

Source: design section 9, "Settings"; docs/autoscale.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from argosy_core.autoscale import AgentSettings
from argosy_kube import KubernetesSettings
from argosy_runtime.channel import ChannelCredentials
from argosy_runtime.config import require_names
from argosy_runtime.grpc_server import GrpcSettings
from argosy_runtime.joining import JoinSettings
from argosy_runtime.logs import LogLevel

__all__ = ["AgentConfig"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig:
    """Configuration of argosy-agent."""

    SERVICE: ClassVar[str] = "agent"

    cluster: str
    """Name of the cluster."""
    cluster_address: str
    """Where the cluster is: `kubernetes`, `kubernetes:/path/to/kubeconfig`, `kubernetes:/path#context` or
    `kubernetes:in-cluster`; or `simulated:host:port`."""
    sampler_address: str
    """host:port of the cluster's sampler, or of its cluster agent, which permits what pods may have."""
    installation: str = "argosy"
    """Installation whose labels make a pod ours; must be the sampler's."""
    metrics: Literal["metrics-api", "kubelet-summary", "kubelet-page", "cgroup"] = "metrics-api"
    """Where it is read what pods of a Kubernetes use: the Kubernetes metrics API, each kubelet's `/stats/summary` or
    `/metrics/resource`, or the kernel of `node`, on which this agent must run."""
    node: str = ""
    """Node on which this agent runs, for `metrics: cgroup`: it resizes the pods of that node alone, and each node has
    one."""
    cgroup_root: str = "/sys/fs/cgroup"
    """Where the node's cgroups (v2) are mounted, for `metrics: cgroup`."""
    metrics_interval_s: float = 5.0
    """How often that is read, seconds."""
    scaling: AgentSettings = field(default_factory=AgentSettings)
    """How patient the agent is."""
    retry_most_s: float = 2.0
    """Longest wait before the sampler or the cluster is tried again, seconds."""
    connect_timeout_s: float = 5.0
    """How long the sampler may take to answer the hello, seconds."""
    metrics_listen: str = ""
    """host:port of the metrics page; empty opens none."""
    log_level: LogLevel = "info"
    """Least severe level that is logged; what happens to each pod's size is `info`."""
    not_ready_after_s: float = 15.0
    """After how long without a session with its sampler health says NOT_SERVING; its pods keep what they have then."""
    drain_s: float = field(default=1.0, metadata={"may_be_zero": True})
    """How long it may take to give permits back when stopping, seconds; resizes under way are left to the cluster."""
    kubernetes: KubernetesSettings = field(default_factory=KubernetesSettings)
    """How the API server is used."""
    credentials: ChannelCredentials = field(default_factory=ChannelCredentials)
    """How the sampler is known, and how this process proves who it is."""
    server_addresses: tuple[str, ...] = ()
    """host:port of server processes that renew a certificate of `join`; it calls them for nothing else."""
    join: JoinSettings = field(default_factory=JoinSettings)
    """How this process fetches its own certificate with an invitation, instead of being given one."""
    grpc: GrpcSettings = field(default_factory=lambda: GrpcSettings(listen="127.0.0.1:0"))
    """Where health and reflection are served."""

    def __post_init__(self) -> None:
        """Refuse a name that is none.

        Raises:
            InvalidRequest: `installation` is no name.
        """
        require_names({"installation": self.installation})

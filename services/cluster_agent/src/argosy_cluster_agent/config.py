"""Configuration of a cluster agent: an executor's and a sampler's, what both have said once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import ClassVar, Literal, TypeVar

from argosy_agent.config import AgentConfig
from argosy_core.autoscale import AgentSettings
from argosy_core.plugins.registry import DEFAULT_PROFILE
from argosy_executor.config import ExecutorConfig
from argosy_runtime.access.guard import CallerSettings
from argosy_sampler.config import PermitConfig, SamplerConfig

__all__ = ["AgentPart", "ClusterAgentConfig", "agent_config", "part_config"]

Part = TypeVar("Part", SamplerConfig, ExecutorConfig)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPart:
    """The agent within a cluster agent: what it has of its own."""

    enabled: bool = False
    """Resize running pods from within this process, and not by an `argosy-agent` of its own. Never run both: what one
    holds is refused the other."""
    metrics: Literal["metrics-api", "kubelet-summary", "kubelet-page"] = "metrics-api"
    """Where it is read what pods of a Kubernetes use: the Kubernetes metrics API, or each kubelet's `/stats/summary` or
    `/metrics/resource`."""
    metrics_interval_s: float = 5.0
    """How often that is read, seconds."""
    scaling: AgentSettings = field(default_factory=AgentSettings)
    """How patient the agent is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAgentConfig(ExecutorConfig):
    """Configuration of a cluster agent: every setting of an executor and of a sampler.

    What both have is said once and holds for both, with the executor's default; the sampler's own settings are below.
    """

    SERVICE: ClassVar[str] = "cluster-agent"

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
    """Node labels whose values say what is near in the network, the lowest level first; see the sampler's setting."""
    plugins: tuple[str, ...] = ()
    """Installed plugins that the sampler calls at every point that they have, in this order; see docs/plugins.md."""
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
    access: CallerSettings = field(default_factory=CallerSettings)
    """How it is known which agents ask for permits; with nothing set here and no client certificates, all may."""
    retry_most_s: float = 2.0
    """Longest wait before the leader, or by the sampler the cluster, is tried again, seconds."""
    permits: PermitConfig = field(default_factory=PermitConfig)
    """How agents are permitted to resize pods; see docs/autoscale.md."""
    agent: AgentPart = field(default_factory=AgentPart)
    """The agent within this process, if it has one."""

    def __post_init__(self) -> None:
        """Refuse what either part would.

        Raises:
            InvalidRequest: A name or a plugin is none, or a weight is not above 0.
        """
        part_config(self, ExecutorConfig)
        part_config(self, SamplerConfig)


def part_config(config: ClusterAgentConfig, part: type[Part]) -> Part:
    """Return the configuration of a part: the whole's values where both have a field, else the part's default."""
    own = {one.name for one in fields(config)} - {"grpc", "metrics_listen"}
    return part(**{one.name: getattr(config, one.name) for one in fields(part) if one.name in own})


def agent_config(config: ClusterAgentConfig, sampler_address: str) -> AgentConfig:
    """Return the configuration of the agent within a cluster agent.

    Args:
        config: The whole.
        sampler_address: Where the sampler of this process serves permits to this process alone.
    """
    return AgentConfig(
        cluster=config.cluster,
        cluster_address=config.cluster_address,
        sampler_address=sampler_address,
        installation=config.installation,
        metrics=config.agent.metrics,
        metrics_interval_s=config.agent.metrics_interval_s,
        scaling=config.agent.scaling,
        retry_most_s=config.retry_most_s,
        connect_timeout_s=config.connect_timeout_s,
        not_ready_after_s=config.not_ready_after_s,
        kubernetes=config.kubernetes,
    )

"""Configuration of the executor.

Source: design section 2; section 5, "Sync".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from argosy_core.framework import Framework
from argosy_core.plugins import binding_framework
from argosy_kube import KubernetesSettings
from argosy_runtime.channel import ChannelCredentials
from argosy_runtime.config import require_names, require_pools
from argosy_runtime.grpc_server import GrpcSettings
from argosy_runtime.joining import JoinSettings
from argosy_runtime.log_archives.archive import LogArchiveSettings
from argosy_runtime.logs import LogLevel
from argosy_runtime.plugins import load_plugins

__all__ = ["ExecutorConfig", "HealthSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthSettings(GrpcSettings):
    """How health and reflection are served."""

    listen: str = "127.0.0.1:0"
    """host:port to listen on; port 0 takes a free one, so that many executors share a machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorConfig:
    """Configuration of argosy-executor; one process serves one cluster."""

    SERVICE: ClassVar[str] = "executor"

    cluster: str
    """Name of the cluster, and so of the executor; it is bound to the cluster's uid at first contact."""
    cluster_address: str
    """Where the cluster is: `simulated:host:port` or `simulated:unix:/path` (`simulated:` may be left out), or
    `kubernetes`, `kubernetes:/path/to/kubeconfig`, `kubernetes:/path#context`, `kubernetes:in-cluster`."""
    server_addresses: tuple[str, ...]
    """host:port of server processes; each tells where the leader is, so one that lives is enough."""
    sampler_address: str = ""
    """host:port of the cluster's sampler, which is asked for nodes where the cluster is delegated; a cluster agent asks
    its own. Without one such a cluster returns all that is leased to it."""
    sampler_credentials: ChannelCredentials = field(default_factory=ChannelCredentials)
    """How that sampler is known, and what proves to it who asks; where nothing of it is set, as servers are."""
    pools: tuple[str, ...] = ("default",)
    """Pools that place on the cluster; the executor serves the leader of each."""
    installation: str = "argosy"
    """Installation whose objects this executor looks after; must be the leader's."""
    gather_ms: float = field(default=100.0, metadata={"may_be_zero": True})
    """How long news gathers before the next step, and so how much later a pod may be made; a step costs 1 to 2 ms of
    CPU however little is new (measured: 60 us a job at 50 ms and 1,200 jobs/s, 50 us at 100 ms)."""
    call_count: int = 4
    """Create calls, and delete calls, under way at once."""
    call_timeout_s: float = 30.0
    """How long a call to the cluster may take; whether it was applied is then asked again."""
    max_log_count: int = 32
    """Logs that are read at once, for all readers together."""
    image_timeout_s: float = field(default=300.0, metadata={"may_be_zero": True})
    """How long a pod may wait for an image that cannot be had, or a container that cannot be made; 0 is for ever."""
    pending_timeout_s: float = field(default=1800.0, metadata={"may_be_zero": True})
    """How long a pod may wait for anything else (a volume, a node that does nothing) before its run is given up and
    its job waits again; slow pulls of large images count, too; 0 is for ever."""
    quota_timeout_s: float = field(default=600.0, metadata={"may_be_zero": True})
    """How long a quota, or a right that the executor has not, may stand against a run before it is given up and its job
    waits again; 0 is for ever."""
    relist_s: float = 300.0
    """How often everything is listed and compared, in case an event was missed."""
    retry_most_s: float = 2.0
    """Longest wait before a leader is tried again, seconds; bounds how late its recovery is noticed."""
    connect_timeout_s: float = 10.0
    """How long a leader may take to answer a hello."""
    not_ready_after_s: float = 15.0
    """After how long without its cluster, or without the leader of a pool, health says NOT_SERVING; a change of leaders
    takes less as a rule. For a cluster agent the same holds of its sampler's cluster."""
    drain_s: float = field(default=10.0, metadata={"may_be_zero": True})
    """How long the last states may take to be stored after SIGTERM; pods go on."""
    bind_plugins: tuple[str, ...] = ()
    """Installed plugins that may make objects instead of the executor, asked in this order; see docs/plugins.md."""
    bind_plugin_settings: Mapping[str, str] = field(default_factory=dict)
    """What they are made with: values by `plugin.keyword`."""
    metrics_listen: str = ""
    """host:port of the metrics page; empty opens none."""
    log_level: LogLevel = "info"
    """Least severe level that is logged."""
    log_archive: LogArchiveSettings = field(default_factory=LogArchiveSettings)
    """Where the ends of logs are kept when pods go; `argosy logs` finds them there."""
    kubernetes: KubernetesSettings = field(default_factory=KubernetesSettings)
    """How the API server is used, where the cluster is a Kubernetes."""
    credentials: ChannelCredentials = field(default_factory=ChannelCredentials)
    """How servers are known, and how this process proves to them for which cluster it speaks."""
    join: JoinSettings = field(default_factory=JoinSettings)
    """How this process fetches its own certificate with an invitation, instead of being given one."""
    grpc: HealthSettings = field(default_factory=HealthSettings)
    """How health and reflection are served; nothing else is: executors dial, nobody dials them."""

    def __post_init__(self) -> None:
        """Refuse names that are none.

        Raises:
            InvalidRequest: A pool or `installation` is none, or there is no plugin by a name, or it cannot be made.
        """
        require_names({"installation": self.installation})
        require_pools(self.pools)
        self.make_framework()

    def make_framework(self) -> Framework:
        """Return the framework of binding, with plugins made anew."""
        return binding_framework(load_plugins(self.bind_plugins, self.bind_plugin_settings))

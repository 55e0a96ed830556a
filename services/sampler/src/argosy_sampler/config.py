"""Configuration of the sampler.

Source: design section 2; `reference/style.md` section 4, "Config".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from argosy_kube import KubernetesSettings
from argosy_runtime.grpc_server import GrpcSettings
from argosy_runtime.logs import LogLevel

__all__ = ["SamplerConfig"]


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
    pool: str = "default"
    """Pool whose leader the sampler serves."""
    installation: str = "argosy"
    """Installation whose labels make a pod ours; must be the executor's."""
    capacity_interval_ms: float = 250.0
    """Least time between two messages about changed nodes; the leader needs them for totals only."""
    node_interval_ms: float = 5000.0
    """How often single nodes are told of; people look at them, rounds need totals."""
    retry_most_s: float = 2.0
    """Longest wait before the leader or the cluster is tried again, seconds; bounds how late a recovery is noticed."""
    connect_timeout_s: float = 5.0
    """How long a server may take to answer the hello, seconds."""
    metrics_listen: str = ""
    """host:port of the metrics page; empty opens none."""
    log_level: LogLevel = "info"
    """Least severe level that is logged."""
    drain_s: float = 1.0
    """How long stopping may take, seconds; there is nothing to finish, because the ledger is rebuilt from facts."""
    kubernetes: KubernetesSettings = field(default_factory=KubernetesSettings)
    """How the API server is used, where the cluster is a Kubernetes."""
    grpc: GrpcSettings = field(default_factory=lambda: GrpcSettings(listen="127.0.0.1:0"))
    """Where health and reflection are served; the sampler dials the leader and serves nothing else."""

"""Configuration of the executor.

Source: design section 2; section 5, "Sync".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from argosy_runtime.grpc_server import GrpcSettings
from argosy_runtime.logs import LogLevel

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
    """Where the cluster is: `simulated:host:port` or `simulated:unix:/path`; `simulated:` may be left out."""
    server_addresses: tuple[str, ...]
    """host:port of server processes; each tells where the leader is, so one that lives is enough."""
    pool: str = "default"
    """Pool the executor serves."""
    installation: str = "argosy"
    """Installation whose objects this executor looks after; must be the leader's."""
    gather_ms: float = 100.0
    """How long news gathers before the next step, and so how much later a pod may be made; a step costs 1 to 2 ms of
    CPU however little is new (measured: 60 us a job at 50 ms and 1,200 jobs/s, 50 us at 100 ms)."""
    call_count: int = 4
    """Create calls, and delete calls, under way at once."""
    call_timeout_s: float = 30.0
    """How long a call to the cluster may take; whether it was applied is then asked again."""
    relist_s: float = 300.0
    """How often everything is listed and compared, in case an event was missed."""
    connect_timeout_s: float = 10.0
    """How long a leader may take to answer a hello."""
    max_refused_count: int = 10
    """Hellos refused in a row, because a newer executor of the same name was seen, before this one gives up."""
    drain_s: float = 10.0
    """How long the last states may take to be stored after SIGTERM; pods go on."""
    metrics_listen: str = ""
    """host:port of the metrics page; empty opens none."""
    log_level: LogLevel = "info"
    """Least severe level that is logged."""
    grpc: HealthSettings = field(default_factory=HealthSettings)
    """How health and reflection are served; nothing else is: executors dial, nobody dials them."""

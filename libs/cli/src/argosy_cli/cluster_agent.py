"""`python -m argosy_cli.cluster_agent`: sampler and executor of one cluster as one process.

They keep what they are: two sessions with the leader, two views of the cluster. They share a process, an event loop, a
connection to the cluster, one port for health, one page of metrics, and one watch of every pod and our other objects;
so what happens in the cluster is received and decoded once.

Source: design section 2; `argosy_kube.shared`, `argosy_kube.numbered`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import ClassVar, TypeVar

from argosy_core.errors import InvalidRequest
from argosy_executor.app import start as start_executor
from argosy_executor.config import ExecutorConfig
from argosy_kube import KubernetesSettings, open_cluster
from argosy_kube.numbered import NumberedCluster
from argosy_kube.port import Cluster
from argosy_kube.shared import SharedCluster
from argosy_kube.simulated.client import SimulatedCluster
from argosy_runtime.config import load_config, print_config
from argosy_runtime.grpc_server import GrpcServer, GrpcSettings
from argosy_runtime.lifecycle import Lifecycle, run_service
from argosy_runtime.logs import LogLevel, set_up_logs
from argosy_runtime.metrics import MetricsServer
from argosy_sampler.app import start as start_sampler
from argosy_sampler.config import SamplerConfig

__all__ = ["ClusterAgentConfig", "main", "part_config", "share_watches", "start"]

Part = TypeVar("Part", SamplerConfig, ExecutorConfig)

_GRACE_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAgentConfig:
    """Configuration of a cluster agent; what a part does not find here keeps its own default."""

    SERVICE: ClassVar[str] = "cluster-agent"

    cluster: str
    """Name of the cluster; it is bound to the cluster's uid at first contact."""
    cluster_address: str
    """Where the cluster is: `simulated:host:port` or `simulated:unix:/path` (`simulated:` may be left out), or
    `kubernetes`, `kubernetes:/path/to/kubeconfig`, `kubernetes:/path#context`, `kubernetes:in-cluster`."""
    server_addresses: tuple[str, ...]
    """host:port of server processes; each tells where the leader is, so one that lives is enough."""
    pool: str = "default"
    """Pool the cluster belongs to."""
    installation: str = "argosy"
    """Installation whose objects are ours; must be the leader's."""
    gather_ms: float = 100.0
    """How long the executor's news gathers before its next step."""
    call_timeout_s: float = 30.0
    """How long a call to the cluster may take."""
    image_patience_s: float = 300.0
    """How long a pod may wait for an image that cannot be had; 0 is for ever."""
    pending_patience_s: float = 1800.0
    """How long a pod may wait for anything else; 0 is for ever."""
    quota_patience_s: float = 600.0
    """How long a quota may stand against a run; 0 is for ever."""
    relist_s: float = 300.0
    """How often the executor lists and compares everything."""
    connect_timeout_s: float = 10.0
    """How long a leader may take to answer a hello."""
    capacity_interval_ms: float = 250.0
    """Least time between two of the sampler's messages about changed nodes."""
    drain_s: float = 10.0
    """How long the last states may take to be stored after SIGTERM; pods go on."""
    metrics_listen: str = ""
    """host:port of the metrics page; empty opens none."""
    log_level: LogLevel = "info"
    """Least severe level that is logged."""
    kubernetes: KubernetesSettings = field(default_factory=KubernetesSettings)
    """How the API server is used, where the cluster is a Kubernetes."""
    grpc: GrpcSettings = field(default_factory=lambda: GrpcSettings(listen="127.0.0.1:0"))
    """Where health and reflection are served; nothing else is."""


def part_config(config: ClusterAgentConfig, part: type[Part]) -> Part:
    """Return the configuration of a part: the whole's values where both have a field, else the part's default."""
    own = {one.name for one in fields(config)} - {"grpc", "metrics_listen"}
    return part(**{one.name: getattr(config, one.name) for one in fields(part) if one.name in own})


def share_watches(cluster: Cluster) -> Cluster:
    """Return the cluster with one watch for all readers; an API server has no version of all kinds, so we count one."""
    return SharedCluster(cluster if isinstance(cluster, SimulatedCluster) else NumberedCluster(cluster))


async def start(life: Lifecycle, config: ClusterAgentConfig, *, cluster: Cluster | None = None) -> None:
    """Start sampler and executor within one life; health says SERVING once both would.

    Args:
        life: What all tasks and closings are registered with.
        config: The configuration.
        cluster: The cluster, if the process has it open already.

    Raises:
        InvalidRequest: The configuration names no server, or an address cannot be listened on.
    """
    server = GrpcServer(config.grpc)
    await server.start(serving=False)
    life.on_close(partial(server.stop, _GRACE_S))
    life.on_stop_intake(server.stop_intake)
    if config.metrics_listen:
        metrics = MetricsServer(config.metrics_listen)
        life.on_close(partial(asyncio.to_thread, metrics.close))
    if cluster is None:
        cluster = share_watches(
            open_cluster(
                config.cluster_address,
                installation=config.installation,
                call_timeout_s=config.call_timeout_s,
                settings=config.kubernetes,
            )
        )
        life.on_close(cluster.close)
    waiting = {"sampler", "executor"}

    async def take_ready(part: str) -> None:
        waiting.discard(part)
        if not waiting:
            await server.set_serving(True)

    sampler, executor = part_config(config, SamplerConfig), part_config(config, ExecutorConfig)
    await start_sampler(life, sampler, cluster=cluster, on_ready=partial(take_ready, "sampler"))
    await start_executor(life, executor, cluster=cluster, on_ready=partial(take_ready, "executor"))


def main(argv: Sequence[str] | None = None) -> int:
    """Run until SIGTERM; return the exit code: 0 stopped, 1 fault, 2 cannot run as configured.

    Args:
        argv: Flags; those of the process if not given.
    """
    try:
        config = load_config(ClusterAgentConfig, argv)
    except InvalidRequest as error:
        sys.stderr.write(f"argosy cluster agent: {error.message}\n")
        return 2
    set_up_logs(ClusterAgentConfig.SERVICE, level=config.log_level)
    print_config(config)

    async def begin(life: Lifecycle) -> None:
        await start(life, config)

    return run_service(f"{config.SERVICE} {config.cluster}", begin, drain_s=config.drain_s)


if __name__ == "__main__":
    sys.exit(main())

"""`python -m argosy_cli.cluster_agent`: sampler and executor of one cluster as one process.

They keep what they are: two sessions with the leader, two views of the cluster. They share a process, an event loop, a
connection to the cluster, one port for health, one page of metrics, and one watch of every node, every pod and our
other objects; so what happens in the cluster is received and decoded once.

Source: design section 2; `argosy_kube.shared`, `argosy_kube.numbered`, `argosy_kube.kubernetes.node_feed`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import ClassVar, TypeVar

from argosy_core.errors import InvalidRequest
from argosy_core.plugins.profiles import DEFAULT_PROFILE
from argosy_executor.app import start as start_executor
from argosy_executor.config import ExecutorConfig
from argosy_kube import open_cluster
from argosy_kube.numbered import NumberedCluster
from argosy_kube.port import Cluster
from argosy_kube.shared import SharedCluster
from argosy_kube.simulated.client import SimulatedCluster
from argosy_runtime.config import load_config, print_config
from argosy_runtime.grpc_server import GrpcServer
from argosy_runtime.lifecycle import Lifecycle, run_service
from argosy_runtime.logs import set_up_logs
from argosy_runtime.metrics import MetricsServer
from argosy_sampler.app import start as start_sampler
from argosy_sampler.config import SamplerConfig

__all__ = ["ClusterAgentConfig", "main", "part_config", "share_watches", "start"]

Part = TypeVar("Part", SamplerConfig, ExecutorConfig)

_GRACE_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAgentConfig(ExecutorConfig):
    """Configuration of a cluster agent: every setting of an executor and of a sampler.

    What both have is said once and holds for both, with the executor's default; the sampler's own settings are below.
    """

    SERVICE: ClassVar[str] = "cluster-agent"

    capacity_interval_ms: float = field(default=250.0, metadata={"may_be_zero": True})
    """Least time between two messages about the cluster's totals and nodes that came, went or are otherwise."""
    rise_interval_ms: float = 50.0
    """The same while some class waits and capacity has risen, so that a waiting job learns of it soon."""
    node_interval_ms: float = field(default=5000.0, metadata={"may_be_zero": True})
    """How often it is told what single nodes have left; people look at that, rounds need totals."""
    filters: tuple[str, ...] = DEFAULT_PROFILE.filters
    """Filters that a node must pass, in the order in which they are asked."""
    scores: Mapping[str, float] = field(default_factory=lambda: dict(DEFAULT_PROFILE.scores))
    """Weights of the scores by name: `least-allocated`, `most-allocated`, `lost-opportunity`; to pack, take one of the
    last two here and `leader.round.spread: false` at the server."""
    retry_most_s: float = 2.0
    """Longest wait before the sampler tries the leader or the cluster again, seconds."""

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

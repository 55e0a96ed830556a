"""Composition root: sampler and executor of one cluster within one life.

They keep what they are: two sessions with the leader, two views of the cluster. They share a process, an event loop, a
connection to the cluster, one port for health, one page of metrics, and one watch of every node, every pod and our
other objects; so what happens in the cluster is received and decoded once.

Source: design section 2; `argosy_kube.kubernetes.api.reflector`, `argosy_kube.simulated.shared`.
"""

from __future__ import annotations

import asyncio
from functools import partial

from argosy_cluster_agent.config import ClusterAgentConfig, part_config
from argosy_executor.app import start as start_executor
from argosy_executor.config import ExecutorConfig
from argosy_kube import open_cluster
from argosy_kube.port import Cluster
from argosy_runtime.kube_meter import KubeMeter
from argosy_runtime.lifecycle import Lifecycle
from argosy_runtime.metrics import MetricsServer
from argosy_sampler.app import make_server
from argosy_sampler.app import start as start_sampler
from argosy_sampler.config import SamplerConfig

__all__ = ["start"]

_GRACE_S = 1.0


async def start(life: Lifecycle, config: ClusterAgentConfig, *, cluster: Cluster | None = None) -> None:
    """Start sampler and executor within one life; health says SERVING once both would.

    Args:
        life: What all tasks and closings are registered with.
        config: The configuration.
        cluster: The cluster, if the process has it open already.

    Raises:
        InvalidRequest: The configuration names no server, or an address cannot be listened on.
    """
    server, permits = make_server(config.grpc, config.access, cluster=config.cluster)
    await server.start(serving=False)
    life.on_close(partial(server.stop, _GRACE_S))
    life.on_stop_intake(server.stop_intake)
    if config.metrics_listen:
        metrics = MetricsServer(config.metrics_listen)
        life.on_close(partial(asyncio.to_thread, metrics.close))
    if cluster is None:
        cluster = open_cluster(
            config.cluster_address,
            installation=config.installation,
            call_timeout_s=config.call_timeout_s,
            settings=config.kubernetes,
            is_shared=True,
            meter=KubeMeter(config.cluster),
        )
        life.on_close(cluster.close)
    waiting = {"sampler", "executor"}

    async def take_ready(part: str) -> None:
        waiting.discard(part)
        if not waiting:
            await server.set_serving(True)

    sampler, executor = part_config(config, SamplerConfig), part_config(config, ExecutorConfig)
    await start_sampler(life, sampler, cluster=cluster, on_ready=partial(take_ready, "sampler"), permits=permits)
    await start_executor(life, executor, cluster=cluster, on_ready=partial(take_ready, "executor"))

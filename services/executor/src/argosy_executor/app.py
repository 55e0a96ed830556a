"""Putting an executor together and running it.

Source: design section 2; section 5, "Sync".
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

import numpy as np

from argosy_core.access import ClusterPart
from argosy_core.errors import BackendUnavailable, InvalidRequest
from argosy_executor.config import ExecutorConfig
from argosy_executor.reconciling import Executor
from argosy_kube import open_cluster as open_cluster_at
from argosy_kube.port import Cluster
from argosy_runtime.channel import Backoff
from argosy_runtime.grpc_server import GrpcServer
from argosy_runtime.joining import join_cluster
from argosy_runtime.kube_meter import KubeMeter
from argosy_runtime.lifecycle import Lifecycle
from argosy_runtime.logs import get_logger
from argosy_runtime.metrics import MetricsServer

__all__ = ["open_cluster", "run", "start"]

_GRACE_S = 1.0


def open_cluster(config: ExecutorConfig) -> Cluster:
    """Return the cluster that the configuration names; connections are made when needed.

    Raises:
        InvalidRequest: `cluster_address` is none.
    """
    return open_cluster_at(
        config.cluster_address,
        installation=config.installation,
        call_timeout_s=config.call_timeout_s,
        settings=config.kubernetes,
        meter=KubeMeter(config.cluster),
    )


async def start(
    life: Lifecycle,
    config: ExecutorConfig,
    *,
    cluster: Cluster | None = None,
    on_ready: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Start an executor within a service's life; returns once its tasks run.

    Health says SERVING from the moment the cluster was listed.

    Args:
        life: What the executor's tasks and closings are registered with.
        config: Its configuration.
        cluster: The cluster, if the process has it open already.
        on_ready: Called when health would say SERVING, by a process that serves health and metrics for several parts;
            no port is opened here then.

    Raises:
        InvalidRequest: The configuration names no server, or an address cannot be listened on.
    """
    if not config.server_addresses:
        raise InvalidRequest("server_addresses is empty; name at least one server as host:port")
    if on_ready is None:
        on_ready = await _open_ports(life, config)
    if cluster is None:
        cluster = open_cluster(config)
        life.on_close(cluster.close)
    # The cluster may come later than its executor, and stopping must not wait for it.
    life.spawn(_serve(life, config, cluster, on_ready=on_ready), name="serve")


async def _open_ports(life: Lifecycle, config: ExecutorConfig) -> Callable[[], Awaitable[None]]:
    """Serve health and metrics; return what makes health say SERVING."""
    server = GrpcServer(config.grpc)
    await server.start(serving=False)
    life.on_close(partial(server.stop, _GRACE_S))
    life.on_stop_intake(server.stop_intake)
    if config.metrics_listen:
        metrics = MetricsServer(config.metrics_listen)
        life.on_close(partial(asyncio.to_thread, metrics.close))
    get_logger(cluster=config.cluster).info("health is served", address=server.address)
    return partial(server.set_serving, True)


async def _serve(
    life: Lifecycle, config: ExecutorConfig, cluster: Cluster, *, on_ready: Callable[[], Awaitable[None]]
) -> None:
    """Find the cluster, list it, then begin to act and to talk to the leader; health says SERVING from then on."""
    log = get_logger(cluster=config.cluster)
    backoff = Backoff(rng=np.random.default_rng())
    uid = ""
    while not uid:
        try:
            async with asyncio.timeout(config.call_timeout_s):
                uid = await cluster.cluster_uid()
        except (BackendUnavailable, TimeoutError) as error:
            log.warning("the cluster cannot be reached", reason=str(error) or "no answer in time")
            await asyncio.sleep(backoff.next_wait_s())
    credentials = await join_cluster(life, config, ClusterPart.EXECUTOR, uid)
    executor = Executor(replace(config, credentials=credentials), cluster, cluster_uid=uid)
    life.spawn(executor.watch(), name="watch")
    await executor.wait_until_listed()
    life.spawn(executor.act(), name="act")
    life.on_drain(executor.drain)
    life.on_close(executor.close)
    await on_ready()
    log.info("executor is up")


async def run(config: ExecutorConfig, *, life: Lifecycle | None = None) -> None:
    """Run an executor until its life is asked to stop or this call is cancelled."""
    life = life or Lifecycle(f"executor {config.cluster}", drain_s=config.drain_s)
    await life.run(partial(_start, config))


async def _start(config: ExecutorConfig, life: Lifecycle) -> None:
    await start(life, config)

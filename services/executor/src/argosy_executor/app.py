"""Putting an executor together and running it.

Source: design section 2; section 5, "Sync".
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np

from argosy_core.access import ClusterPart
from argosy_core.errors import BackendUnavailable, InvalidRequest
from argosy_executor.config import ExecutorConfig
from argosy_executor.placing import Placer
from argosy_executor.reconciling import Executor
from argosy_kube import open_cluster as open_cluster_at
from argosy_kube.port import Cluster
from argosy_runtime.channel import Backoff
from argosy_runtime.grpc_server import GrpcServer
from argosy_runtime.joining import join_cluster
from argosy_runtime.kube_meter import KubeMeter
from argosy_runtime.lifecycle import Lifecycle
from argosy_runtime.logs import get_logger
from argosy_runtime.readiness import SetServing, begin_serving, open_ports

__all__ = ["open_cluster", "start"]

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
    set_serving: SetServing | None = None,
    placer: Placer | None = None,
) -> None:
    """Start an executor within a service's life; returns once its tasks run.

    Health says SERVING from the moment the cluster was listed, and not while cluster or leader are away for long.

    Args:
        life: What the executor's tasks and closings are registered with.
        config: Its configuration.
        cluster: The cluster, if the process has it open already.
        set_serving: Told what health would say, by a process that serves health and metrics for several parts; no port
            is opened here then.
        placer: Asks the cluster's sampler for nodes, in a process that has it; else that of `sampler_address` is asked.

    Raises:
        InvalidRequest: The configuration names no server, or an address cannot be listened on.
    """
    if not config.server_addresses:
        raise InvalidRequest("server_addresses is empty; name at least one server as host:port")
    if set_serving is None:
        server = GrpcServer(config.grpc)
        await open_ports(life, server, metrics_listen=config.metrics_listen, grace_s=_GRACE_S)
        get_logger(cluster=config.cluster).info("health is served", address=server.address)
        set_serving = server.set_serving
    if cluster is None:
        cluster = open_cluster(config)
        life.on_close(cluster.close)
    # The cluster may come later than its executor, and stopping must not wait for it.
    life.spawn(_serve(life, config, cluster, set_serving=set_serving, placer=placer), name="serve")


async def _serve(
    life: Lifecycle, config: ExecutorConfig, cluster: Cluster, *, set_serving: SetServing, placer: Placer | None
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
    executor = Executor(replace(config, credentials=credentials), cluster, cluster_uid=uid, placer=placer)
    life.spawn(executor.watch(), name="watch")
    await executor.wait_until_listed()
    life.spawn(executor.act(), name="act")
    life.on_drain(executor.drain)
    life.on_close(executor.close)
    await begin_serving(life, set_serving, executor.check, not_ready_after_s=config.not_ready_after_s)
    log.info("executor is up")

"""Putting an executor together and running it.

Source: design section 2; section 5, "Sync".
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import numpy as np

from argosy_core.errors import BackendUnavailable, InvalidRequest
from argosy_executor.config import ExecutorConfig
from argosy_executor.reconciling import Executor
from argosy_kube.port import Cluster
from argosy_kube.simulated.client import SimulatedCluster
from argosy_runtime.channel import Backoff
from argosy_runtime.config import describe_config
from argosy_runtime.grpc_server import GrpcServer
from argosy_runtime.lifecycle import Lifecycle
from argosy_runtime.logs import get_logger
from argosy_runtime.metrics import MetricsServer

__all__ = ["make_start", "open_cluster", "run"]

_SIMULATED = "simulated:"
_GRACE_S = 1.0


def open_cluster(config: ExecutorConfig) -> Cluster:
    """Return the cluster that the configuration names; connections are made when needed.

    Raises:
        InvalidRequest: The address is of no kind that is known.
    """
    if config.cluster_address.startswith(_SIMULATED):
        address = config.cluster_address.removeprefix(_SIMULATED)
        return SimulatedCluster(address, installation=config.installation, timeout_s=config.call_timeout_s)
    raise InvalidRequest(
        f"cluster_address {config.cluster_address!r} is not known; write simulated:host:port or simulated:unix:/path"
    )


def make_start(config: ExecutorConfig, *, cluster: Cluster | None = None) -> Callable[[Lifecycle], Awaitable[None]]:
    """Return what starts an executor within a life.

    Args:
        config: Its configuration.
        cluster: The cluster; opened from the configuration if not given.
    """

    async def start(life: Lifecycle) -> None:
        """Open ports, list the cluster, spawn the loops."""
        log = get_logger(cluster=config.cluster)
        log.info("configured", config=describe_config(config))
        if not config.leaders:
            raise InvalidRequest("leaders is empty; name at least one host:port of a server")
        server = GrpcServer(config.grpc)
        await server.start(serving=False)
        life.on_close(lambda: server.stop(_GRACE_S))
        if config.metrics_listen:
            metrics = MetricsServer(config.metrics_listen)
            life.on_close(lambda: asyncio.to_thread(metrics.close))
        target = cluster or open_cluster(config)
        life.on_close(target.close)
        life.on_stop_intake(server.stop_intake)
        # The cluster may come later than its executor, and stopping must not wait for it.
        life.spawn(_serve(life, config, target, server=server), name="serve")

    return start


async def _serve(life: Lifecycle, config: ExecutorConfig, cluster: Cluster, *, server: GrpcServer) -> None:
    """Find the cluster, list it, then begin to act and to talk to the leader; health says SERVING from then on."""
    log = get_logger(cluster=config.cluster)
    # Starts are seconds apart, so the clock's microseconds grow from one to the next; were it set back, the leader
    # would refuse the executor until it is mended, and refusing is safe.
    incarnation = time.time_ns() // 1000
    backoff = Backoff(rng=np.random.default_rng(incarnation))
    uid = ""
    while not uid:
        try:
            async with asyncio.timeout(config.call_timeout_s):
                uid = await cluster.cluster_uid()
        except (BackendUnavailable, TimeoutError) as error:
            log.warning("the cluster cannot be reached", reason=str(error) or "no answer in time")
            await asyncio.sleep(backoff.next_wait_s())
    executor = Executor(config, cluster, cluster_uid=uid, incarnation=incarnation)
    life.spawn(executor.watch(), name="watch")
    await executor.wait_until_listed()
    life.spawn(executor.act(), name="act")
    life.spawn(executor.session.run(), name="session")
    life.on_drain(executor.drain)
    await server.set_serving(True)
    log.info("executor is up", cluster_uid=uid, incarnation=incarnation, health=server.address)


async def run(config: ExecutorConfig) -> None:
    """Run an executor until cancelled, as a part of another process.

    Raises:
        ExceptionGroup: What one of its tasks failed with.
    """
    life = Lifecycle(f"executor-{config.cluster}", drain_s=config.drain_s)
    await life.run(make_start(config))

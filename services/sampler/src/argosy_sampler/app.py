"""Composition of the sampler: cluster, informer, ledger, session handler and session, and their life."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from argosy.autoscale.v1 import permit_pb2, permit_pb2_grpc
from argosy_core.access import ClusterPart, Rule
from argosy_core.errors import InvalidRequest
from argosy_core.permits import PermitService
from argosy_kube import open_cluster
from argosy_kube.opening import open_pod_notes
from argosy_kube.port import Cluster
from argosy_runtime.access.guard import CallerSettings, cluster_guard
from argosy_runtime.channel import Backoff, Caller
from argosy_runtime.grpc_server import GrpcServer, GrpcSettings
from argosy_runtime.joining import join_cluster
from argosy_runtime.kube_meter import KubeMeter
from argosy_runtime.lifecycle import Lifecycle
from argosy_runtime.logs import Logger, get_logger
from argosy_runtime.metrics import MetricsServer
from argosy_sampler.config import SamplerConfig
from argosy_sampler.handler import SessionHandler
from argosy_sampler.informer import Informer
from argosy_sampler.permit_notes import NoteWriter
from argosy_sampler.permits import PermitServicer
from argosy_sampler.session import SessionClient

__all__ = ["RULES", "make_server", "run", "start"]

RULES: Final = {"/argosy.autoscale.v1.PermitService/Session": Rule(part=ClusterPart.AGENT)}
"""What it takes to call each method of a sampler, by the method's path."""


async def start(
    life: Lifecycle,
    config: SamplerConfig,
    *,
    cluster: Cluster | None = None,
    on_ready: Callable[[], Awaitable[None]] | None = None,
    permits: PermitServicer | None = None,
) -> None:
    """Start a sampler within a service's life; returns once its tasks run.

    Health says SERVING from the first time that the leader may ask.

    Args:
        life: What the sampler's tasks and closings are registered with.
        config: Its configuration.
        cluster: The cluster, if the process has it open already.
        on_ready: Called when health would say SERVING, by a process that serves health and metrics for several parts;
            no port is opened here then.
        permits: What serves agents there; see `make_server`.

    Raises:
        InvalidRequest: The configuration names no server, or an address cannot be listened on.
    """
    if not config.server_addresses:
        raise InvalidRequest("server_addresses is empty; name at least one server as host:port")
    log = get_logger(cluster=config.cluster)
    rng = np.random.default_rng()
    new_backoff = partial(Backoff, rng=rng, most_s=config.retry_most_s)
    cluster = cluster or _open_cluster(life, config)
    ledger = config.permits.make_ledger(len(config.pools), topology=config.topology, process_id=Caller().process_id)
    ledger.permits.start(time.monotonic())
    framework = config.make_framework()
    notes = _open_notes(life, config, log)
    see_pods = None if notes is None else notes.see
    informer = Informer(cluster, ledger, framework=framework, backoff=new_backoff, log=log, see_pods=see_pods)
    ready = on_ready
    if ready is None:
        ready, permits = await _open_ports(life, config)

    async def serve() -> None:
        cluster_uid, caller = await informer.cluster_uid(), Caller()
        proved = replace(config, credentials=await join_cluster(life, config, ClusterPart.SAMPLER, cluster_uid))
        await informer.wait_listed()
        if permits is not None:
            permits.open(PermitService(ledger, cluster=config.cluster, cluster_uid=cluster_uid), notes)
        await ready()
        async with asyncio.TaskGroup() as sessions:
            for number, pool in enumerate(config.pools):
                # All on one event loop and one ledger: what one leader places the others can no longer have.
                handler = SessionHandler(
                    (config.cluster, pool),
                    ledger,
                    framework=framework,
                    rng=rng,
                    monotonic=time.monotonic,
                    log=log.bind(pool=pool),
                    pool=number,
                )
                session = SessionClient(
                    proved,
                    cluster_uid,
                    pool=pool,
                    caller=caller,
                    handler=handler,
                    backoff=new_backoff(),
                    log=log.bind(pool=pool),
                )
                sessions.create_task(session.run(), name=f"session: {pool}")

    life.spawn(informer.follow_nodes(), name="nodes")
    life.spawn(informer.follow_pods(), name="pods")
    life.spawn(serve(), name="sessions")
    if permits is not None:
        life.spawn(permits.run(), name="permits")


def make_server(grpc: GrpcSettings, access: CallerSettings, *, cluster: str) -> tuple[GrpcServer, PermitServicer]:
    """Return a server that has not started, and the permits that it serves once their sampler is ready.

    Where callers are asked who they are, permits are for the agents of the cluster.

    Raises:
        InvalidRequest: The server cannot be as configured.
    """
    asks = bool(access.tokens_file or grpc.client_authority_file)
    server = GrpcServer(grpc, guard=cluster_guard(access, cluster=cluster, rules=RULES) if asks else None)
    permits = PermitServicer(cluster, Caller().process_id, log=get_logger(cluster=cluster))
    name = permit_pb2.DESCRIPTOR.services_by_name["PermitService"].full_name
    server.add(permit_pb2_grpc.add_PermitServiceServicer_to_server, permits, name)
    return server, permits


def _open_cluster(life: Lifecycle, config: SamplerConfig) -> Cluster:
    """Return the configured cluster.

    Raises:
        InvalidRequest: Its address is none.
    """
    meter = KubeMeter(config.cluster)
    settings, installation = config.kubernetes, config.installation
    cluster = open_cluster(config.cluster_address, installation=installation, settings=settings, meter=meter)
    life.on_close(cluster.close)
    return cluster


def _open_notes(life: Lifecycle, config: SamplerConfig, log: Logger) -> NoteWriter | None:
    """Return what notes permits on pods, None if nothing does.

    Raises:
        InvalidRequest: The cluster is none whose pods can be noted on.
    """
    if not config.permits.durable:
        return None
    notes = open_pod_notes(config.cluster_address, settings=config.kubernetes, meter=KubeMeter(config.cluster))
    life.on_close(notes.close)
    return NoteWriter(notes, log=log)


async def _open_ports(life: Lifecycle, config: SamplerConfig) -> tuple[Callable[[], Awaitable[None]], PermitServicer]:
    """Serve permits, health and metrics; return what makes health say SERVING, and the servicer of permits."""
    server, permits = make_server(config.grpc, config.access, cluster=config.cluster)
    await server.start(serving=False)
    life.on_close(partial(server.stop, 0.0))
    life.on_stop_intake(server.stop_intake)
    if config.metrics_listen:
        metrics = MetricsServer(config.metrics_listen)

        async def close_metrics() -> None:
            metrics.close()

        life.on_close(close_metrics)
    return partial(server.set_serving, True), permits


async def run(config: SamplerConfig, *, life: Lifecycle | None = None) -> None:
    """Run a sampler until its life is asked to stop or this call is cancelled."""
    life = life or Lifecycle("sampler", drain_s=config.drain_s)
    await life.run(partial(_start, config))


async def _start(config: SamplerConfig, life: Lifecycle) -> None:
    await start(life, config)

"""Composition of the sampler: cluster, informer, ledger, session handler and session, and their life."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np

from argosy.autoscale.v1 import permit_pb2, permit_pb2_grpc
from argosy.sampler.v1 import sampler_pb2, sampler_pb2_grpc
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
from argosy_runtime.readiness import SetServing, begin_serving, open_ports
from argosy_sampler.config import SamplerConfig
from argosy_sampler.handler import SessionHandler
from argosy_sampler.informer import Informer
from argosy_sampler.permit_notes import NoteWriter
from argosy_sampler.permits import PermitServicer
from argosy_sampler.placements import PlacementServicer
from argosy_sampler.session import SessionClient

__all__ = ["RULES", "Servicers", "make_server", "serve_permits_here", "start"]

RULES: Final = {
    "/argosy.autoscale.v1.PermitService/Session": Rule(part=ClusterPart.AGENT),
    "/argosy.sampler.v1.PlacementService/PlaceRuns": Rule(part=ClusterPart.EXECUTOR),
}
"""What it takes to call each method of a sampler, by the method's path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Servicers:
    """What a sampler's port serves."""

    permits: PermitServicer
    """Agents that resize pods."""
    placements: PlacementServicer
    """The cluster's executor, where the cluster places by itself."""


async def start(
    life: Lifecycle,
    config: SamplerConfig,
    *,
    cluster: Cluster | None = None,
    set_serving: SetServing | None = None,
    servicers: Servicers | None = None,
) -> None:
    """Start a sampler within a service's life; returns once its tasks run.

    Health says SERVING from the first time that the leader may ask, and not while the cluster is away for long.

    Args:
        life: What the sampler's tasks and closings are registered with.
        config: Its configuration.
        cluster: The cluster, if the process has it open already.
        set_serving: Told what health would say, by a process that serves health and metrics for several parts; no port
            is opened here then.
        servicers: What its port serves; see `make_server`.

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
    framework, checks = config.make_framework(), config.make_checks()
    notes = _open_notes(life, config, log)
    see_pods = None if notes is None else notes.see
    informer = Informer(cluster, ledger, framework=framework, backoff=new_backoff, log=log, see_pods=see_pods)
    if set_serving is None:
        server, servicers = make_server(config.grpc, config.access, cluster=config.cluster)
        await open_ports(life, server, metrics_listen=config.metrics_listen, grace_s=0.0)
        set_serving = server.set_serving
    begin = partial(begin_serving, life, set_serving, cluster.cluster_uid, not_ready_after_s=config.not_ready_after_s)

    async def serve() -> None:
        cluster_uid, caller = await informer.cluster_uid(), Caller()
        proved = replace(config, credentials=await join_cluster(life, config, ClusterPart.SAMPLER, cluster_uid))
        await informer.wait_listed()
        if servicers is not None:
            servicers.permits.open(PermitService(ledger, cluster=config.cluster, cluster_uid=cluster_uid), notes)
        await begin()
        async with asyncio.TaskGroup() as sessions:
            for number, pool in enumerate(config.pools):
                # All on one event loop and one ledger: what one leader places the others can no longer have.
                handler = SessionHandler(
                    (config.cluster, pool),
                    ledger,
                    framework=framework,
                    checks=checks,
                    rng=rng,
                    monotonic=time.monotonic,
                    log=log.bind(pool=pool),
                    pool=number,
                )
                if servicers is not None:
                    servicers.placements.open(pool, handler)
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
    life.spawn(informer.follow_runtime_classes(), name="runtime classes")
    life.spawn(serve(), name="sessions")
    if servicers is not None:
        life.spawn(servicers.permits.run(), name="permits")


async def serve_permits_here(life: Lifecycle, permits: PermitServicer) -> str:
    """Serve permits to this process, on a socket in a folder that only its user can enter; return the address.

    Args:
        life: What closes it and removes the folder.
        permits: The sampler's.
    """
    folder = await asyncio.to_thread(tempfile.mkdtemp, prefix="argosy-permits-")
    life.on_close(partial(asyncio.to_thread, shutil.rmtree, folder, ignore_errors=True))
    server = GrpcServer(GrpcSettings(listen=f"unix:{folder}/socket"))
    server.add(permit_pb2_grpc.add_PermitServiceServicer_to_server, permits, "permits")
    await server.start()
    life.on_close(partial(server.stop, 0.0))
    return server.address


def make_server(grpc: GrpcSettings, access: CallerSettings, *, cluster: str) -> tuple[GrpcServer, Servicers]:
    """Return a server that has not started, and what it serves once the sampler is ready.

    Where callers are asked who they are, permits are for the agents of the cluster, and placements for its executor.

    Raises:
        InvalidRequest: The server cannot be as configured.
    """
    asks = bool(access.tokens_file or grpc.client_authority_file)
    server = GrpcServer(grpc, guard=cluster_guard(access, cluster=cluster, rules=RULES) if asks else None)
    permits = PermitServicer(cluster, Caller().process_id, log=get_logger(cluster=cluster))
    name = permit_pb2.DESCRIPTOR.services_by_name["PermitService"].full_name
    server.add(permit_pb2_grpc.add_PermitServiceServicer_to_server, permits, name)
    placements = PlacementServicer()
    name = sampler_pb2.DESCRIPTOR.services_by_name["PlacementService"].full_name
    server.add(sampler_pb2_grpc.add_PlacementServiceServicer_to_server, placements, name)
    return server, Servicers(permits=permits, placements=placements)


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

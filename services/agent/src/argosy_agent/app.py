"""Composition of the agent: cluster, loop and session, and their life."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial

import numpy as np

from argosy_agent.config import AgentConfig
from argosy_agent.loop import AgentLoop
from argosy_agent.session import PermitSession
from argosy_core.access import ClusterPart
from argosy_core.autoscale import Agent
from argosy_kube.opening import open_scaler
from argosy_runtime.channel import Backoff
from argosy_runtime.grpc_server import GrpcServer
from argosy_runtime.joining import join_cluster
from argosy_runtime.kube_meter import KubeMeter
from argosy_runtime.lifecycle import Lifecycle
from argosy_runtime.logs import get_logger
from argosy_runtime.readiness import SetServing, begin_serving, open_ports

__all__ = ["start"]


async def start(life: Lifecycle, config: AgentConfig, *, set_serving: SetServing | None = None) -> None:
    """Start an agent within a service's life; returns once its tasks run.

    Health says SERVING once the pods are known, and not while its sampler is away for long.

    Args:
        life: What the agent's tasks and closings are registered with.
        config: Its configuration.
        set_serving: Told what health would say, by a process that serves health and metrics for several parts; no port
            is opened here then.

    Raises:
        InvalidRequest: The cluster's address is none, or an address cannot be listened on.
    """
    log = get_logger(cluster=config.cluster)
    new_backoff = partial(Backoff, rng=np.random.default_rng(), most_s=config.retry_most_s)
    scaler = open_scaler(
        config.cluster_address,
        installation=config.installation,
        metrics=config.metrics,
        settings=config.kubernetes,
        meter=KubeMeter(config.cluster),
        cgroups=(config.node, config.cgroup_root),
    )
    if set_serving is None:
        server = GrpcServer(config.grpc)
        await open_ports(life, server, metrics_listen=config.metrics_listen, grace_s=0.0)
        set_serving = server.set_serving
    begin = partial(begin_serving, life, set_serving, not_ready_after_s=config.not_ready_after_s)
    life.on_close(scaler.close)
    loop = AgentLoop(Agent(config.scaling), scaler, cluster=config.cluster, settings=config.scaling, log=log)

    async def serve() -> None:
        await loop.listed.wait()
        uid = await scaler.cluster_uid() if config.join.folder else ""
        proved = replace(config, credentials=await join_cluster(life, config, ClusterPart.AGENT, uid))
        session = PermitSession(proved, scaler.cluster_uid, tell=loop.tell, backoff=new_backoff(), log=log)
        await begin(session.check)
        async with asyncio.TaskGroup() as parts:
            acting = parts.create_task(loop.run(session), name="actions")
            parts.create_task(session.run(), name="session")

            async def leave() -> None:
                acting.cancel()
                await asyncio.wait({acting})
                await session.leave()

            life.on_drain(leave)

    life.spawn(loop.follow_pods(new_backoff()), name="pods")
    life.spawn(loop.read_metrics(config.metrics_interval_s), name="metrics")
    life.spawn(serve(), name="permits")

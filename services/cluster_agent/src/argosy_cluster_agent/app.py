"""Composition root: sampler and executor of one cluster within one life, and its agent if it is to be there.

They keep what they are: two sessions with the leader, two views of the cluster. They share a process, an event loop, a
connection to the cluster, one port for health, one page of metrics, and one watch of every node, every pod and our
other objects; so what happens in the cluster is received and decoded once. An agent watches the scaled pods for itself,
and speaks to the sampler by a socket that this process alone can open.

Source: design section 2; `argosy_kube.kubernetes.api.reflector`, `argosy_kube.simulated.shared`.
"""

from __future__ import annotations

from functools import partial

from argosy_agent.app import start as start_agent
from argosy_cluster_agent.config import ClusterAgentConfig, agent_config, part_config
from argosy_executor.app import start as start_executor
from argosy_executor.config import ExecutorConfig
from argosy_kube import open_cluster
from argosy_kube.port import Cluster
from argosy_runtime.kube_meter import KubeMeter
from argosy_runtime.lifecycle import Lifecycle
from argosy_runtime.readiness import open_ports
from argosy_sampler.app import make_server, serve_permits_here
from argosy_sampler.app import start as start_sampler
from argosy_sampler.config import SamplerConfig

__all__ = ["start"]

_GRACE_S = 1.0


async def start(life: Lifecycle, config: ClusterAgentConfig, *, cluster: Cluster | None = None) -> None:
    """Start the parts within one life; health says SERVING while all of them would.

    Args:
        life: What all tasks and closings are registered with.
        config: The configuration.
        cluster: The cluster, if the process has it open already.

    Raises:
        InvalidRequest: The configuration names no server, or an address cannot be listened on.
    """
    server, servicers = make_server(config.grpc, config.access, cluster=config.cluster)
    await open_ports(life, server, metrics_listen=config.metrics_listen, grace_s=_GRACE_S)
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
    serves = dict.fromkeys(("sampler", "executor", "agent") if config.agent.enabled else ("sampler", "executor"), False)

    async def set_part(part: str, serving: bool) -> None:  # noqa: FBT001 - a setter
        serves[part] = serving
        await server.set_serving(all(serves.values()))

    sampler, executor = part_config(config, SamplerConfig), part_config(config, ExecutorConfig)
    await start_sampler(life, sampler, cluster=cluster, set_serving=partial(set_part, "sampler"), servicers=servicers)
    await start_executor(
        life, executor, cluster=cluster, set_serving=partial(set_part, "executor"), placer=servicers.placements.place
    )
    if config.agent.enabled:
        address = await serve_permits_here(life, servicers.permits)
        await start_agent(life, agent_config(config, address), set_serving=partial(set_part, "agent"))

"""The part of the fake API server that knows clusters, their nodes and the pods that are resized there."""

# ruff: noqa: N802, ANN401, D102 - methods are the protocol's, and generated servicers are not typed

from __future__ import annotations

from typing import Any

from argosy.api.v1 import cluster_pb2, cluster_pb2_grpc, queue_pb2

__all__ = ["SCALED_JOB", "FakeClusters"]

SCALED_JOB = "01900000-0000-7000-8000-0000000000aa"
"""Job whose pod is resized."""


class FakeClusters(cluster_pb2_grpc.ClusterServiceServicer):
    """One cluster of three nodes."""

    def __init__(self, api: Any) -> None:
        """Keep the state of the whole server."""
        self.api = api
        amounts = cluster_pb2.ResourceAmounts(amounts={"cpu": 32_000, "memory": 64 << 30})
        self.cluster = cluster_pb2.Cluster(
            name="c1",
            pools=["default"],
            sampler_connected=True,
            executor_connected=True,
            node_count=3,
            total=amounts,
            free=amounts,
        )

    async def ListClusters(self, request: Any, context: Any) -> Any:
        await self.api.enter("ListClusters", request, context)
        return cluster_pb2.ListClustersResponse(clusters=[self.cluster])

    async def GetCluster(self, request: Any, context: Any) -> Any:
        await self.api.enter("GetCluster", request, context)
        return cluster_pb2.GetClusterResponse(cluster=self.cluster)

    async def ListNodes(self, request: Any, context: Any) -> Any:
        await self.api.enter("ListNodes", request, context)
        amounts = cluster_pb2.ResourceAmounts(amounts={"cpu": 16_000, "memory": 8 << 30})
        nodes = [cluster_pb2.Node(name=f"n{n}", ready=True, allocatable=amounts, free=amounts) for n in range(3)]
        nodes[2].last_choice_for.append("science/night")
        return cluster_pb2.ListNodesResponse(nodes=[node for node in nodes if request.node in {"", node.name}])

    async def ListScaledPods(self, request: Any, context: Any) -> Any:
        await self.api.enter("ListScaledPods", request, context)

        def pod(state: int, **cores: int) -> cluster_pb2.ScaledPod:
            sizes: Any = {name: cluster_pb2.ResourceAmounts(amounts={"cpu": amount}) for name, amount in cores.items()}
            number = cluster_pb2.ScaledPodState.Name(state)
            return cluster_pb2.ScaledPod(job_id=SCALED_JOB, attempt=1, queue="science", state=number, **sizes)

        if request.job_id not in {"", SCALED_JOB}:
            return cluster_pb2.ListScaledPodsResponse()
        return cluster_pb2.ListScaledPodsResponse(
            pods=[pod(2, requested=4000, approved=2000, actual=2000)],
            history=[pod(1, requested=1000, approved=1000, actual=1000)] if request.with_history else [],
        )

    async def CordonCluster(self, request: Any, context: Any) -> Any:
        await self.api.enter("CordonCluster", request, context)
        self.cluster.cordon.CopyFrom(queue_pb2.Cordon(reason=request.reason))
        return cluster_pb2.CordonClusterResponse(cluster=self.cluster)

    async def UncordonCluster(self, request: Any, context: Any) -> Any:
        await self.api.enter("UncordonCluster", request, context)
        self.cluster.ClearField("cordon")
        return cluster_pb2.UncordonClusterResponse(cluster=self.cluster)

    async def DelegateCluster(self, request: Any, context: Any) -> Any:
        await self.api.enter("DelegateCluster", request, context)
        if not request.as_installed:
            self.cluster.delegated = request.delegated
        return cluster_pb2.DelegateClusterResponse(cluster=self.cluster)

    async def CordonNode(self, request: Any, context: Any) -> Any:
        await self.api.enter("CordonNode", request, context)
        cordon = queue_pb2.Cordon(reason=request.reason)
        self.cluster.cordoned_nodes.add(name=request.node, cordon=cordon)
        return cluster_pb2.CordonNodeResponse(cluster=self.cluster)

    async def UncordonNode(self, request: Any, context: Any) -> Any:
        await self.api.enter("UncordonNode", request, context)
        del self.cluster.cordoned_nodes[:]
        return cluster_pb2.UncordonNodeResponse(cluster=self.cluster)

    async def SetMaxCapacity(self, request: Any, context: Any) -> Any:
        await self.api.enter("SetMaxCapacity", request, context)
        self.cluster.max_capacity.CopyFrom(cluster_pb2.ResourceAmounts(amounts=request.amounts))
        return cluster_pb2.SetMaxCapacityResponse(cluster=self.cluster)

    async def ForgetCluster(self, request: Any, context: Any) -> Any:
        await self.api.enter("ForgetCluster", request, context)
        return cluster_pb2.ForgetClusterResponse(lost_run_count=7)

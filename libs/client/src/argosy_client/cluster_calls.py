"""Calls about clusters, their nodes, and pods that are resized there.

Source: `proto/argosy/api/v1/cluster.proto`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from argosy_client.deferred import DeferredModule
from argosy_client.repeated_calls import RepeatedCalls

if TYPE_CHECKING:
    from argosy.api.v1 import cluster_pb2, cluster_pb2_grpc
    from argosy_client import cluster_codec
    from argosy_client.cluster_values import Cluster, Node, ScaledPod
else:
    cluster_pb2 = DeferredModule("argosy.api.v1.cluster_pb2")
    cluster_pb2_grpc = DeferredModule("argosy.api.v1.cluster_pb2_grpc")
    cluster_codec = DeferredModule("argosy_client.cluster_codec")

__all__ = ["ClusterCalls"]


class ClusterCalls(RepeatedCalls):
    """The calls about clusters; see `argosy_client.client.ArgosyClient`."""

    @cached_property
    def _clusters(self) -> cluster_pb2_grpc.ClusterServiceAsyncStub:
        return cluster_pb2_grpc.ClusterServiceStub(self._channel)

    async def list_clusters(self, *, page_size: int = 1000) -> AsyncIterator[Cluster]:
        """Give all clusters in order of their names, page by page."""
        token = ""
        while True:
            request = cluster_pb2.ListClustersRequest(page_size=page_size, page_token=token)
            response = await self.call(self._clusters.ListClusters, request)
            for cluster in response.clusters:
                yield cluster_codec.cluster_of(cluster)
            token = response.next_page_token
            if not token:
                return

    async def get_cluster(self, name: str) -> Cluster:
        """Return a cluster by its name, with what its pool's leader knows of it.

        Raises:
            NotFound: There is none.
        """
        request = cluster_pb2.GetClusterRequest(name=name)
        return cluster_codec.cluster_of((await self.call(self._clusters.GetCluster, request)).cluster)

    async def list_scaled_pods(
        self, cluster: str, *, job_id: str = "", page_size: int = 1000
    ) -> AsyncIterator[ScaledPod]:
        """Give a cluster's pods that are resized while they run, by job, attempt and member; of one job if given."""
        token = ""
        while True:
            request = cluster_pb2.ListScaledPodsRequest(
                cluster=cluster, job_id=job_id, page_size=page_size, page_token=token
            )
            response = await self.call(self._clusters.ListScaledPods, request)
            for pod in response.pods:
                yield cluster_codec.scaled_pod_of(cluster, pod)
            token = response.next_page_token
            if not token:
                return

    async def get_scaling_history(self, cluster: str, job_id: str) -> list[ScaledPod]:
        """Return what a job's scaled pods were, oldest first, as far as the leader remembers, and are."""
        request = cluster_pb2.ListScaledPodsRequest(cluster=cluster, job_id=job_id, with_history=True, page_size=1000)
        response = await self.call(self._clusters.ListScaledPods, request)
        return [cluster_codec.scaled_pod_of(cluster, pod) for pod in (*response.history, *response.pods)]

    async def list_nodes(
        self, cluster: str, *, label_selector: str = "", node: str = "", page_size: int = 1000
    ) -> AsyncIterator[Node]:
        """Give a cluster's nodes in order of their names, page by page; only the one of a name if that is given."""
        token = ""
        while True:
            request = cluster_pb2.ListNodesRequest(
                cluster=cluster, page_size=page_size, page_token=token, label_selector=label_selector, node=node
            )
            response = await self.call(self._clusters.ListNodes, request)
            for found in response.nodes:
                yield cluster_codec.node_of(found)
            token = response.next_page_token
            if not token:
                return

    async def cordon_cluster(self, name: str, reason: str = "") -> Cluster:
        """Stop placing on a cluster."""
        request = cluster_pb2.CordonClusterRequest(name=name, reason=reason)
        return cluster_codec.cluster_of((await self.call(self._clusters.CordonCluster, request)).cluster)

    async def uncordon_cluster(self, name: str) -> Cluster:
        """Let a cluster be placed on again."""
        request = cluster_pb2.UncordonClusterRequest(name=name)
        return cluster_codec.cluster_of((await self.call(self._clusters.UncordonCluster, request)).cluster)

    async def delegate_cluster(self, name: str, *, delegated: bool | None = True) -> Cluster:
        """Have a cluster place by itself from now on, or not; None leaves it to the cluster again."""
        request = cluster_pb2.DelegateClusterRequest(
            name=name, delegated=bool(delegated), as_installed=delegated is None
        )
        return cluster_codec.cluster_of((await self.call(self._clusters.DelegateCluster, request)).cluster)

    async def cordon_node(self, cluster: str, node: str, reason: str = "", *, allow_missing: bool = False) -> Cluster:
        """Stop placing on a node.

        Raises:
            NotFound: The cluster is connected and has no such node, and none is allowed to be missing.
        """
        request = cluster_pb2.CordonNodeRequest(cluster=cluster, node=node, reason=reason, allow_missing=allow_missing)
        return cluster_codec.cluster_of((await self.call(self._clusters.CordonNode, request)).cluster)

    async def uncordon_node(self, cluster: str, node: str) -> Cluster:
        """Let a node be placed on again."""
        request = cluster_pb2.UncordonNodeRequest(cluster=cluster, node=node)
        return cluster_codec.cluster_of((await self.call(self._clusters.UncordonNode, request)).cluster)

    async def set_max_capacity(self, name: str, amounts: Mapping[str, int]) -> Cluster:
        """Say what a cluster has at most, base units by resource; nothing to set no bound.

        Raises:
            NotFound: There is no such cluster.
            NotPermitted: The caller is no administrator.
        """
        request = cluster_pb2.SetMaxCapacityRequest(name=name, amounts=amounts)
        return cluster_codec.cluster_of((await self.call(self._clusters.SetMaxCapacity, request)).cluster)

    async def forget_cluster(self, name: str) -> int:
        """Declare a cluster gone for good; return how many runs were lost with it.

        Raises:
            NotAllowedNow: It is connected.
        """
        request = cluster_pb2.ForgetClusterRequest(name=name)
        return (await self.call(self._clusters.ForgetCluster, request)).lost_run_count

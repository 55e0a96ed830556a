"""ClusterService: clusters' rows from the database, with live gauges from the leader's memory where it can be asked.

Source: design section 3; `proto/argosy/api/v1/cluster.proto`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Final

import grpc

from argosy.api.v1 import cluster_pb2, cluster_pb2_grpc, queue_pb2
from argosy_core.errors import BackendUnavailable, FieldViolation, InvalidRequest, NotFound, Resource
from argosy_core.job.reading.findings import is_dns_name, printable
from argosy_runtime.validation import check_request
from argosy_server.api.calls import Context
from argosy_server.api.codecs.changes_codec import encode_cluster_changes
from argosy_server.api.codecs.cursors import read_name_token, write_name_token
from argosy_server.api.codecs.job_codec import timestamp
from argosy_server.api.codecs.names import amount_texts
from argosy_server.api.codecs.selectors import has_labels, parse_label_selector
from argosy_server.api.leadership.leader_view import ClusterGauges, NodeGauges, ScaledPod
from argosy_server.api.leadership.routing import LeaderRouter
from argosy_server.api.store_threads import StoreThreads
from argosy_store.replicas.api import ApiStore
from argosy_store.rows import ClusterRow, read_amounts

__all__ = ["ClusterService"]

_PAGE_SIZE: Final = 100


class ClusterService(cluster_pb2_grpc.ClusterServiceServicer):
    """Serves clusters.

    Args:
        store: Where clusters are.
        threads: Where blocking calls run.
        router: Finds the leader.
    """

    def __init__(self, store: ApiStore, threads: StoreThreads, router: LeaderRouter) -> None:
        """Keep what it needs."""
        self._store = store
        self._threads = threads
        self._router = router

    async def ListClusters(  # noqa: N802 - the protocol's name
        self, request: cluster_pb2.ListClustersRequest, context: Context
    ) -> cluster_pb2.ListClustersResponse:
        """Answer the clusters; without live gauges where the leader cannot be asked."""
        check_request(request)
        after = read_name_token(request.page_token)
        size = request.page_size or _PAGE_SIZE
        rows = await self._threads.run(self._store.list_clusters, after, size + 1)
        messages = await self._with_gauges(rows[:size], context)
        return cluster_pb2.ListClustersResponse(
            clusters=messages, next_page_token=write_name_token(rows[size - 1].name) if len(rows) > size else ""
        )

    async def GetCluster(  # noqa: N802 - the protocol's name
        self, request: cluster_pb2.GetClusterRequest, context: Context
    ) -> cluster_pb2.GetClusterResponse:
        """Answer one cluster."""
        check_request(request)
        row = await self._threads.run(self._store.get_cluster, request.name)
        return cluster_pb2.GetClusterResponse(cluster=(await self._with_gauges([row], context))[0])

    async def ListNodes(  # noqa: N802 - the protocol's name
        self, request: cluster_pb2.ListNodesRequest, context: Context
    ) -> cluster_pb2.ListNodesResponse:
        """Answer the nodes of one cluster, from the leader's memory."""
        check_request(request)
        after = read_name_token(request.page_token)
        requirements = parse_label_selector(request.label_selector, field="label_selector")
        row = await self._threads.run(self._store.get_cluster, request.cluster)
        view = next(filter(None, map(self._router.view, row.pools)), None)
        if view is None:
            return await self._forward_list_nodes(row, request, context)
        size = request.page_size or _PAGE_SIZE
        found = [
            node
            for node in view.nodes(request.cluster)
            if node.name > after and request.node in {"", node.name} and has_labels(requirements, node.labels)
        ]
        return cluster_pb2.ListNodesResponse(
            nodes=[_node_message(row, node) for node in found[:size]],
            next_page_token=write_name_token(found[size - 1].name) if len(found) > size else "",
        )

    async def ListScaledPods(  # noqa: N802 - the protocol's name
        self, request: cluster_pb2.ListScaledPodsRequest, context: Context
    ) -> cluster_pb2.ListScaledPodsResponse:
        """Answer the scaled pods of one cluster, from the leaders' memory."""
        check_request(request)
        row = await self._threads.run(self._store.get_cluster, request.cluster)
        size, after = request.page_size or _PAGE_SIZE, read_name_token(request.page_token)
        view = next(filter(None, map(self._router.view, row.pools)), None)
        if view is not None:
            known = view.scaled_pods(row.name)
            found = [_scaled_message(pod) for pod in known if request.job_id in {"", pod.job_id}]
            past = view.scaled_pods(row.name, with_history=True) if request.with_history else ()
            answer = cluster_pb2.ListScaledPodsResponse(
                pods=[pod for pod in found if _pod_key(pod) > after], history=map(_scaled_message, past)
            )
            return _merged([answer], size)
        stub = cluster_pb2_grpc.ClusterServiceStub
        answers = [
            await self._router.forward(pool, lambda channel: stub(channel).ListScaledPods, request, context=context)
            for pool in row.pools
        ]
        return _merged(answers, size)

    async def CordonCluster(  # noqa: N802 - the protocol's name
        self, request: cluster_pb2.CordonClusterRequest, context: Context
    ) -> cluster_pb2.CordonClusterResponse:
        """Stop placing on a cluster."""
        check_request(request)
        cluster = await self._cordon_cluster(request.name, context, cordoned=True, reason=request.reason)
        return cluster_pb2.CordonClusterResponse(cluster=cluster)

    async def UncordonCluster(  # noqa: N802 - the protocol's name
        self, request: cluster_pb2.UncordonClusterRequest, context: Context
    ) -> cluster_pb2.UncordonClusterResponse:
        """Let a cluster be placed on again."""
        check_request(request)
        return cluster_pb2.UncordonClusterResponse(
            cluster=await self._cordon_cluster(request.name, context, cordoned=False)
        )

    async def DelegateCluster(  # noqa: N802 - the protocol's name
        self, request: cluster_pb2.DelegateClusterRequest, context: Context
    ) -> cluster_pb2.DelegateClusterResponse:
        """Have a cluster place by itself from now on, or not, or leave it to the cluster."""
        check_request(request)
        delegated = None if request.as_installed else request.delegated
        row = await self._threads.run(
            self._store.set_delegated, request.name, delegated=delegated, encode=encode_cluster_changes
        )
        return cluster_pb2.DelegateClusterResponse(cluster=(await self._with_gauges([row], context))[0])

    async def CordonNode(  # noqa: N802 - the protocol's name
        self, request: cluster_pb2.CordonNodeRequest, context: Context
    ) -> cluster_pb2.CordonNodeResponse:
        """Stop placing on a node; the cordon outlives the node's absence, but a name that is not there is refused."""
        check_request(request)
        _check_node(request.node)
        if not request.allow_missing and await self._is_missing(request.cluster, request.node, context):
            raise NotFound(
                f"cluster {request.cluster!r} has no node {request.node!r};"
                " allow_missing (--allow-missing) cordons one that may come",
                resource=Resource(kind="Node", name=request.node),
            )
        cluster = await self._cordon_node(request.cluster, request.node, context, cordoned=True, reason=request.reason)
        return cluster_pb2.CordonNodeResponse(cluster=cluster)

    async def UncordonNode(  # noqa: N802 - the protocol's name
        self, request: cluster_pb2.UncordonNodeRequest, context: Context
    ) -> cluster_pb2.UncordonNodeResponse:
        """Let a node be placed on again."""
        check_request(request)
        _check_node(request.node)
        return cluster_pb2.UncordonNodeResponse(
            cluster=await self._cordon_node(request.cluster, request.node, context, cordoned=False)
        )

    async def SetMaxCapacity(  # noqa: N802 - the protocol's name
        self, request: cluster_pb2.SetMaxCapacityRequest, context: Context
    ) -> cluster_pb2.SetMaxCapacityResponse:
        """Say what a cluster has at most."""
        check_request(request)
        row = await self._threads.run(
            self._store.set_max_capacity,
            request.name,
            amount_texts(request.amounts, field="amounts"),
            encode=encode_cluster_changes,
        )
        return cluster_pb2.SetMaxCapacityResponse(cluster=(await self._with_gauges([row], context))[0])

    async def _cordon_cluster(
        self, name: str, context: Context, *, cordoned: bool, reason: str = ""
    ) -> cluster_pb2.Cluster:
        row = await self._threads.run(
            self._store.set_cluster_cordon,
            name,
            cordoned=cordoned,
            reason=printable(reason),
            encode=encode_cluster_changes,
        )
        return (await self._with_gauges([row], context))[0]

    async def _cordon_node(
        self, cluster: str, node: str, context: Context, *, cordoned: bool, reason: str = ""
    ) -> cluster_pb2.Cluster:
        row = await self._threads.run(
            self._store.set_node_cordon,
            cluster,
            node,
            cordoned=cordoned,
            reason=printable(reason),
            encode=encode_cluster_changes,
        )
        return (await self._with_gauges([row], context))[0]

    async def _is_missing(self, cluster: str, node: str, context: Context) -> bool:
        """Return whether a cluster is connected and does not know a node; False where nobody can be asked."""
        row = await self._threads.run(self._store.get_cluster, cluster)
        if node in row.cordoned_nodes:
            return False
        if not (await self._with_gauges([row], context))[0].sampler_connected:
            return False
        with contextlib.suppress(grpc.aio.AioRpcError, BackendUnavailable):
            return not (await self.ListNodes(cluster_pb2.ListNodesRequest(cluster=cluster, node=node), context)).nodes
        return False

    async def ForgetCluster(  # noqa: N802 - the protocol's name
        self, request: cluster_pb2.ForgetClusterRequest, context: Context
    ) -> cluster_pb2.ForgetClusterResponse:
        """Declare a cluster gone for good, which it must not be heard for; its leaders are asked what is lost."""
        check_request(request)
        row = await self._threads.run(self._store.get_cluster, request.name)
        known = (await self._with_gauges([row], context))[0]
        await self._threads.run(self._store.forget_cluster, row.name, encode=encode_cluster_changes)
        return cluster_pb2.ForgetClusterResponse(lost_run_count=known.run_count)

    async def _forward_list_nodes(
        self, row: ClusterRow, request: cluster_pb2.ListNodesRequest, context: Context
    ) -> cluster_pb2.ListNodesResponse:
        """Return the answer of the first leader of a cluster's pools that can be asked."""

        async def ask(pool: str) -> cluster_pb2.ListNodesResponse:
            stub = cluster_pb2_grpc.ClusterServiceStub
            return await self._router.forward(pool, lambda channel: stub(channel).ListNodes, request, context=context)

        for pool in row.pools[:-1]:
            with contextlib.suppress(grpc.aio.AioRpcError, BackendUnavailable):
                return await ask(pool)
        return await ask(row.pools[-1])

    async def _with_gauges(self, rows: Sequence[ClusterRow], context: Context) -> list[cluster_pb2.Cluster]:
        """Return rows as messages, with live gauges as far as the leaders of their pools can be asked."""
        live: dict[str, list[cluster_pb2.Cluster]] = {row.name: [] for row in rows}
        for pool in sorted({pool for row in rows for pool in row.pools}):
            with contextlib.suppress(grpc.aio.AioRpcError, BackendUnavailable):
                for name, one in (await self._ask_leader(pool, rows, context)).items():
                    live.get(name, []).append(one)
        return [_cluster_message(row, live[row.name]) for row in rows]

    async def _ask_leader(
        self, pool: str, rows: Sequence[ClusterRow], context: Context
    ) -> dict[str, cluster_pb2.Cluster]:
        """Return what a pool's leader knows of clusters, by name.

        Raises:
            BackendUnavailable: It cannot be asked.
            grpc.aio.AioRpcError: It answered with an error.
        """
        view = self._router.view(pool)
        if view is not None:
            return {one.name: _gauges_message(one) for one in view.clusters()}
        names = [row.name for row in rows if pool in row.pools]
        stub = cluster_pb2_grpc.ClusterServiceStub
        if len(names) == 1:
            one = await self._router.forward(
                pool,
                lambda channel: stub(channel).GetCluster,
                cluster_pb2.GetClusterRequest(name=names[0]),
                context=context,
            )
            return {one.cluster.name: one.cluster}
        answer = await self._router.forward(
            pool,
            lambda channel: stub(channel).ListClusters,
            cluster_pb2.ListClustersRequest(page_size=1000),
            context=context,
        )
        return {cluster.name: cluster for cluster in answer.clusters}


def _merged(answers: Sequence[cluster_pb2.ListScaledPodsResponse], size: int) -> cluster_pb2.ListScaledPodsResponse:
    """Return the first page of what leaders of a cluster's pools answer, with the history of what is on it."""
    found = sorted((pod for answer in answers for pod in answer.pods), key=_pod_key)
    page, is_last = found[:size], len(found) <= size and not any(answer.next_page_token for answer in answers)
    shown = {pod.job_id for pod in page}
    return cluster_pb2.ListScaledPodsResponse(
        pods=page,
        history=[pod for answer in answers for pod in answer.history if pod.job_id in shown],
        next_page_token="" if is_last or not page else write_name_token(_pod_key(page[-1])),
    )


def _pod_key(pod: cluster_pb2.ScaledPod) -> str:
    """Return where a pod stands among others."""
    return f"{pod.job_id}/{pod.attempt:05}/{pod.member:06}"


def _scaled_message(pod: ScaledPod) -> cluster_pb2.ScaledPod:
    return cluster_pb2.ScaledPod(
        job_id=pod.job_id,
        attempt=pod.attempt,
        member=pod.member,
        queue=pod.queue,
        requested=cluster_pb2.ResourceAmounts(amounts=pod.requested),
        approved=cluster_pb2.ResourceAmounts(amounts=pod.approved),
        actual=cluster_pb2.ResourceAmounts(amounts=pod.actual),
        state=cluster_pb2.ScaledPodState.Name(pod.state),
        since=timestamp(int(pod.since_s * 1e6)),
    )


def _check_node(name: str) -> None:
    """Refuse what is no node's name.

    Raises:
        InvalidRequest: It is none.
    """
    if not is_dns_name(name):
        violation = FieldViolation(field="node", description="must be a node's name: a lower-case DNS name")
        raise InvalidRequest("one field is wrong in the request", violations=(violation,))


def _gauges_message(gauges: ClusterGauges) -> cluster_pb2.Cluster:
    return cluster_pb2.Cluster(
        name=gauges.name,
        sampler_connected=gauges.sampler_connected,
        executor_connected=gauges.executor_connected,
        node_count=gauges.node_count,
        run_count=gauges.run_count,
        total=cluster_pb2.ResourceAmounts(amounts=gauges.total),
        free=cluster_pb2.ResourceAmounts(amounts=gauges.free),
        told=cluster_pb2.ResourceAmounts(amounts=gauges.told) if gauges.told else None,
    )


def _cluster_message(row: ClusterRow, live: Sequence[cluster_pb2.Cluster]) -> cluster_pb2.Cluster:
    """Return a row as a message; each leader tells of all nodes, and of its own pool's runs."""
    message = cluster_pb2.Cluster(
        name=row.name,
        pools=row.pools,
        delegated=row.delegated,
        cordon=queue_pb2.Cordon(reason=row.cordon_reason) if row.cordoned else None,
        contact_time=timestamp(row.contact_time_us),
        cordoned_nodes=[
            cluster_pb2.CordonedNode(name=name, cordon=_node_cordon(row, name)) for name in sorted(row.cordoned_nodes)
        ],
        sampler_connected=any(one.sampler_connected for one in live),
        executor_connected=any(one.executor_connected for one in live),
        run_count=sum(one.run_count for one in live),
    )
    if row.max_capacity:
        message.max_capacity.amounts.update(read_amounts(row.max_capacity))
    told = next((one for one in live if one.sampler_connected), next(iter(live), None))
    if told is not None:
        message.node_count = told.node_count
        message.total.CopyFrom(told.total)
        message.free.CopyFrom(told.free)
        if told.HasField("told"):
            message.told.CopyFrom(told.told)
    return message


def _node_cordon(row: ClusterRow, name: str) -> queue_pb2.Cordon:
    return queue_pb2.Cordon(reason=row.node_cordon_reasons.get(name, ""))


def _node_message(row: ClusterRow, node: NodeGauges) -> cluster_pb2.Node:
    return cluster_pb2.Node(
        name=node.name,
        allocatable=cluster_pb2.ResourceAmounts(amounts=node.allocatable),
        free=cluster_pb2.ResourceAmounts(amounts=node.free),
        ready=node.ready,
        cordon=_node_cordon(row, node.name) if node.cordoned else None,
        labels=node.labels,
        last_choice_for=node.last_choice_for,
    )

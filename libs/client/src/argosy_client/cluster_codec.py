"""Wire messages of clusters, nodes and scaled pods to values."""

from __future__ import annotations

from typing import Final

from argosy.api.v1 import cluster_pb2
from argosy_client.cluster_values import Cluster, Node, ScaledPod
from argosy_client.codec import enum_names, time_of

__all__ = ["cluster_of", "node_of", "scaled_pod_of"]

_SCALED_STATE_NAMES: Final = {
    number: name.replace("_", " ")
    for number, name in enum_names(cluster_pb2.ScaledPodState, "SCALED_POD_STATE_").items()
}


def cluster_of(message: cluster_pb2.Cluster) -> Cluster:
    """Return the cluster of a message."""
    return Cluster(
        name=message.name,
        pools=tuple(message.pools),
        sampler_connected=message.sampler_connected,
        executor_connected=message.executor_connected,
        cordoned=message.HasField("cordon"),
        cordon_reason=message.cordon.reason,
        node_count=message.node_count,
        run_count=message.run_count,
        total=dict(message.total.amounts),
        free=dict(message.free.amounts),
        contact_time=time_of(message, "contact_time"),
        cordoned_nodes={node.name: node.cordon.reason for node in message.cordoned_nodes},
        max_capacity=dict(message.max_capacity.amounts),
        told=dict(message.told.amounts),
        delegated=message.delegated,
    )


def node_of(message: cluster_pb2.Node) -> Node:
    """Return the node of a message."""
    return Node(
        name=message.name,
        ready=message.ready,
        cordoned=message.HasField("cordon"),
        cordon_reason=message.cordon.reason,
        allocatable=dict(message.allocatable.amounts),
        free=dict(message.free.amounts),
        labels=dict(message.labels),
        last_choice_for=tuple(message.last_choice_for),
    )


def scaled_pod_of(cluster: str, message: cluster_pb2.ScaledPod) -> ScaledPod:
    """Return the scaled pod of a message."""
    return ScaledPod(
        cluster=cluster,
        job_id=message.job_id,
        attempt=message.attempt,
        member=message.member,
        queue=message.queue,
        requested=dict(message.requested.amounts),
        approved=dict(message.approved.amounts),
        actual=dict(message.actual.amounts),
        state=_SCALED_STATE_NAMES.get(message.state, "unspecified"),
        since=time_of(message, "since"),
    )

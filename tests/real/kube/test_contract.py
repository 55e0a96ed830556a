"""The contract of the cluster port, held by the Kubernetes adapter on a real API server."""

from __future__ import annotations

from argosy_testkit.cluster_contract import ClusterContract


class TestKubernetesCluster(ClusterContract):
    """The adapter on a real API server, etcd and controllers; only the kubelet is fake."""

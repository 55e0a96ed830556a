"""The contract of the cluster port, held by the Kubernetes adapter on the fake API server."""

from __future__ import annotations

from argosy_testkit.cluster_contract import ClusterContract


class TestKubernetesClusterOnFake(ClusterContract):
    """What the fake API server lets pass here, a real one has to let pass in tests/real."""

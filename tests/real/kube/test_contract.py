"""The contract of the cluster port, held by the Kubernetes adapter on a real API server."""

from __future__ import annotations

from typing import Any

import pytest
from testbed.lab import RealLab

from argosy_kube.numbered import NumberedCluster
from argosy_kube.shared import SharedCluster
from argosy_testkit.cluster_contract import ClusterContract


class TestKubernetesCluster(ClusterContract):
    """The adapter on a real API server, etcd and controllers; only the kubelet is fake."""


class TestSharedKubernetesCluster(ClusterContract):
    """The same with one watch of all pods and of our other objects, as the cluster agent has it."""

    @pytest.fixture
    def lab(self, lab: RealLab, monkeypatch: pytest.MonkeyPatch) -> RealLab:
        """Share what each test opens."""
        opens = lab.open

        def shared(installation: str, *arguments: Any) -> SharedCluster:
            return SharedCluster(NumberedCluster(opens(installation, *arguments)))

        monkeypatch.setattr(lab, "open", shared)
        return lab

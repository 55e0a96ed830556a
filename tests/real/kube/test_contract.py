"""The contract of the cluster port, held by the Kubernetes adapter on a real API server."""

from __future__ import annotations

from functools import partial

import pytest
from testbed.lab import RealLab

from argosy_testkit.cluster_contract import ClusterContract


class TestKubernetesCluster(ClusterContract):
    """The adapter on a real API server, etcd and controllers; only the kubelet is fake."""


class TestSharedKubernetesCluster(ClusterContract):
    """The same with our pods picked from one watch of all pods, as the cluster agent has it."""

    @pytest.fixture
    def lab(self, lab: RealLab, monkeypatch: pytest.MonkeyPatch) -> RealLab:
        """Share what each test opens."""
        monkeypatch.setattr(lab, "open", partial(lab.open, is_shared=True))
        return lab

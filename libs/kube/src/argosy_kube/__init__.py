"""Cluster port of Argosy, its simulated cluster and its Kubernetes adapter."""

from argosy_kube.kubernetes.settings import KubernetesSettings
from argosy_kube.opening import open_cluster

__all__ = ["KubernetesSettings", "open_cluster"]

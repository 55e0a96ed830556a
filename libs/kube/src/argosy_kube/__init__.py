"""Clusters: the port that samplers and executors call, the simulated cluster, and the Kubernetes adapter.

Owns: what a cluster is asked and told, and all that is known of the Kubernetes API.
May import: argosy_core.
Start: `port`; `open_cluster` opens one by its address.
"""

from argosy_kube.kubernetes.settings import KubernetesSettings
from argosy_kube.opening import open_cluster

__all__ = ["KubernetesSettings", "open_cluster"]

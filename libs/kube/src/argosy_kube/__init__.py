"""Clusters: the port that samplers and executors call, the simulated cluster, and the Kubernetes adapter.

Owns: what a cluster is asked and told, and all that is known of the Kubernetes API.
May import: argosy_core.
Start: `port`; `open_cluster` opens one by its address.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from argosy_kube.kubernetes.settings import KubernetesSettings
    from argosy_kube.opening import open_cluster

__all__ = ["KubernetesSettings", "open_cluster"]

_HOMES = {"KubernetesSettings": "argosy_kube.kubernetes.settings", "open_cluster": "argosy_kube.opening"}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the package has
    """Import what is asked for: who reads kinds of simulated nodes needs no client of Kubernetes."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found = getattr(importlib.import_module(_HOMES[name]), name)
    return found

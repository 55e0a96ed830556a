"""The port of an agent: what it asks of a cluster to resize its pods.

Two adapters implement it, over the Kubernetes API server (`kubernetes/scaling`) and for the simulated cluster
(`simulated/scaler.py`).

Source: design section 5, "Resize"; docs/autoscale.md.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Protocol

from argosy_core.autoscale.events import MetricsSeen, OutOfMemory, PodGone, PodSeen, Resize, ResizeEnded

__all__ = ["PodEvent", "Scaler"]

PodEvent = PodSeen | PodGone | OutOfMemory
"""What the watch of pods tells an agent."""


class Scaler(Protocol):
    """The scaled pods of one installation in one cluster."""

    async def cluster_uid(self) -> str:
        """Return the uid that identifies the cluster.

        Raises:
            BackendUnavailable: The cluster did not tell.
        """
        ...

    def follow(self) -> AsyncGenerator[list[PodEvent], None]:
        """Give all pods, then what changes; for ever, until the watch fails or ends.

        Raises:
            BackendUnavailable: They cannot be listed or watched; begin again.
        """
        ...

    async def resize(self, resize: Resize, timeout_s: float) -> ResizeEnded:
        """Give a pod another size, and return what became of it; never raises for an answer.

        Args:
            resize: What to do.
            timeout_s: How long it may take, seconds.
        """
        ...

    def contract_host(self, uid: str) -> str:
        """Return the address at which a pod itself can be asked what it needs; empty if it has none of its own.

        Args:
            uid: Uid of the pod.
        """
        ...

    async def read_usage(self) -> MetricsSeen:
        """Return what the scaled pods use; not a number for those of which nothing is told.

        Raises:
            BackendUnavailable: There is no source of metrics, or none of it answers.
        """
        ...

    async def close(self) -> None:
        """Let go of connections; the pods stay."""
        ...

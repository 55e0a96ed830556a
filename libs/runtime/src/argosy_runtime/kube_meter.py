"""Metrics of what an API server is asked."""

from __future__ import annotations

from argosy_runtime.metrics import METRICS

__all__ = ["KubeMeter"]


class KubeMeter:
    """Makes metrics of what an API server is asked; see `argosy_kube.meter`.

    Args:
        cluster: Whose API server it is.
    """

    def __init__(self, cluster: str) -> None:
        """Have counted nothing."""
        self._cluster = cluster

    def call_answered(self, method: str, code: int) -> None:
        """See ApiMeter."""
        METRICS.kube_calls.labels(self._cluster, method, code).inc()

    def watch_heard(self, kind: str) -> None:
        """See ApiMeter."""
        METRICS.kube_watch_heard_timestamp_seconds.labels(self._cluster, kind).set_to_current_time()

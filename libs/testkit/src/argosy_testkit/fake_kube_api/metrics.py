"""What pods use, as metrics-server and kubelets tell it.

The forms are those of metrics-server 0.7 (`metrics.k8s.io/v1beta1`) and of a kubelet 1.33 (`/stats/summary`,
`/metrics/resource`).
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

__all__ = ["metrics_list", "page", "summary"]

Key = tuple[str, str]
"""(namespace, name) of a pod."""


def metrics_list(uses: Mapping[Key, tuple[str, str]]) -> bytes:
    """Return a list of the metrics API.

    Args:
        uses: Quantities of cpu and memory by pod.
    """
    items = [
        {
            "metadata": {"namespace": namespace, "name": name},
            "containers": [{"name": "main", "usage": {"cpu": cpu, "memory": memory}}],
        }
        for (namespace, name), (cpu, memory) in uses.items()
    ]
    return msgspec.json.encode({"kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "items": items})


def summary(node: str, used: Mapping[Key, tuple[int, int]]) -> bytes:
    """Return a kubelet's summary.

    Args:
        node: Name of its node.
        used: Millicores and bytes by pod.
    """
    pods = [
        {
            "podRef": {"namespace": key[0], "name": key[1]},
            "cpu": {"usageNanoCores": millicores * 1_000_000},
            "memory": {"workingSetBytes": held},
        }
        for key, (millicores, held) in used.items()
    ]
    return msgspec.json.encode({"node": {"nodeName": node}, "pods": pods})


def page(used: Mapping[Key, tuple[int, int]], at_s: float) -> bytes:
    """Return a kubelet's page in the Prometheus text format, on which processor time is a counter.

    Args:
        used: Millicores and bytes by pod, each from second 0 on.
        at_s: When it is asked, seconds.
    """
    lines = [
        "# HELP pod_cpu_usage_seconds_total [STABLE] Cumulative cpu time consumed by the pod in core-seconds",
        "# TYPE pod_cpu_usage_seconds_total counter",
    ]
    for (namespace, name), (millicores, held) in used.items():
        labels = f'{{namespace="{namespace}",pod="{name}"}}'
        lines.append(f"pod_cpu_usage_seconds_total{labels} {millicores / 1000 * at_s} {round(at_s * 1000)}")
        lines.append(f"pod_memory_working_set_bytes{labels} {held:.15e} {round(at_s * 1000)}")
    return "\n".join([*lines, "resource_scrape_error 0", ""]).encode()

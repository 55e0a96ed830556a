"""What pods use, as metrics-server and kubelets tell it.

The list has the form of metrics-server 0.7 (`metrics.k8s.io/v1beta1`). Summary and page are those of a kubelet 1.36.3
on cgroup v1, field by field and line by line, as recorded in `tests/contract/kube/recorded`. As there, pods are looked
at from time to time, whenever the kubelet is asked; containers are looked at when it is asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final
from zlib import crc32

import msgspec

from argosy_core.resources import CPU, MEMORY, parse_quantity

__all__ = ["SAMPLE_S", "Used", "metrics_list", "page", "read_used", "summary"]

SAMPLE_S: Final = 15
"""How often a kubelet looks at a pod, seconds; each pod at its own time."""
_EPOCH_S: Final = 1_767_225_600
"""Second 0, as kubelets write it."""
_CAPACITY: Final = 1 << 36
Key = tuple[str, str]
"""(namespace, name) of a pod."""


@dataclass(frozen=True, slots=True)
class Used:
    """What one pod uses, from second 0 on."""

    namespace: str
    name: str
    uid: str
    containers: Sequence[str]
    """Names of those that run; each uses an equal part."""
    millicores: int
    held_bytes: int
    limit_bytes: int = 0
    """Memory that its containers may have together; 0 if one may have any."""

    def looked_s(self, at_s: float) -> float:
        """Return when the kubelet looked at the pod last."""
        phase = crc32(self.uid.encode()) % SAMPLE_S
        return max((at_s - phase) // SAMPLE_S * SAMPLE_S + phase, 0.0)


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


def read_used(pods: Iterable[Mapping[str, Any]], uses: Mapping[Key, tuple[str, str]]) -> list[Used]:
    """Return what the pods that run use, of those of which it is told.

    Args:
        pods: Their documents.
        uses: Quantities of cpu and memory by pod.
    """
    found = []
    for pod in pods:
        about, spec = pod["metadata"], pod["spec"]
        amounts = uses.get((about["namespace"], about["name"]))
        if amounts is None or pod["status"].get("phase") != "Running":
            continue
        sidecars = [one for one in spec.get("initContainers", ()) if one.get("restartPolicy") == "Always"]
        containers = [*sidecars, *spec["containers"]]
        limits = [one.get("resources", {}).get("limits", {}).get("memory", "0") for one in containers]
        limit = 0 if "0" in limits else sum(parse_quantity(MEMORY, limit) for limit in limits)
        names = tuple(one["name"] for one in containers)
        cpu, memory = parse_quantity(CPU, amounts[0]), parse_quantity(MEMORY, amounts[1])
        found.append(Used(about["namespace"], about["name"], about["uid"], names, cpu, memory, limit))
    return found


def summary(node: str, used: Sequence[Used], at_s: float) -> bytes:
    """Return a kubelet's `/stats/summary`.

    Args:
        node: Name of its node.
        used: What its pods use.
        at_s: When it is asked, seconds.
    """
    millicores, held = sum(pod.millicores for pod in used), sum(pod.held_bytes for pod in used)
    time = {"time": _time(at_s)}
    whole = _system_part(at_s, millicores, held)
    disk = _disk(at_s)
    limits = {"rlimit": time | {"maxpid": 32768, "curproc": 1}}
    network = {"name": "eth0", **_NO_TRAFFIC, "interfaces": [{"name": "eth0", **_NO_TRAFFIC}]}
    pods_part = {"name": "pods", "startTime": _time(0)} | _system_part(at_s, millicores, held)
    document = {
        "node": {"nodeName": node, "systemContainers": [pods_part], "startTime": _time(0)}
        | {name: whole[name] for name in ("cpu", "memory", "io")}
        | {"network": time | network, "fs": disk, "runtime": {"imageFs": disk, "containerFs": disk}}
        | limits
        | {"swap": time | {"swapAvailableBytes": 0, "swapUsageBytes": 0}},
        "pods": [_pod_summary(pod, at_s) for pod in used],
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=1)


def page(used: Sequence[Used], at_s: float) -> bytes:
    """Return a kubelet's `/metrics/resource`, in the Prometheus text format: processor time is a counter.

    Args:
        used: What its pods use.
        at_s: When it is asked, seconds.
    """
    containers = [
        (f'{{container="{name}",namespace="{pod.namespace}",pod="{pod.name}"}}', pod, at_s)
        for name, pod in sorted(
            ((name, pod) for pod in used for name in pod.containers),
            key=lambda row: (row[0], row[1].namespace, row[1].name),
        )
    ]
    pods = [
        (f'{{namespace="{pod.namespace}",pod="{pod.name}"}}', pod, pod.looked_s(at_s))
        for pod in sorted(used, key=lambda pod: (pod.namespace, pod.name))
    ]
    whole = Used("", "", "", (), sum(pod.millicores for pod in used), sum(pod.held_bytes for pod in used))
    rows = {"container": containers, "pod": pods, "node": [("", whole, at_s)]}
    lines: list[str] = []
    for name, text in _PAGE:
        if of := rows.get(name.partition("_")[0]):
            kind = "counter" if name.endswith("_total") else "gauge"
            lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
            lines += [f"{name}{labels} {_value(name, pod, taken_s)}" for labels, pod, taken_s in of]
    lines += [
        "# HELP resource_scrape_error [STABLE] 1 if there was an error while getting container metrics, 0 otherwise",
        "# TYPE resource_scrape_error gauge",
        "resource_scrape_error 0",
    ]
    return "\n".join([*lines, ""]).encode()


_PAGE: Final = (
    ("container_cpu_usage_seconds_total", "[STABLE] Cumulative cpu time consumed by the container in core-seconds"),
    ("container_memory_working_set_bytes", "[STABLE] Current working set of the container in bytes"),
    ("container_start_time_seconds", "[STABLE] Start time of the container since unix epoch in seconds"),
    (
        "container_swap_limit_bytes",
        "[ALPHA] Current amount of the container swap limit in bytes. Reported only on non-windows systems",
    ),
    (
        "container_swap_usage_bytes",
        "[ALPHA] Current amount of the container swap usage in bytes. Reported only on non-windows systems",
    ),
    ("node_cpu_usage_seconds_total", "[STABLE] Cumulative cpu time consumed by the node in core-seconds"),
    ("node_memory_working_set_bytes", "[STABLE] Current working set of the node in bytes"),
    ("node_swap_usage_bytes", "[ALPHA] Current swap usage of the node in bytes. Reported only on non-windows systems"),
    ("pod_cpu_usage_seconds_total", "[STABLE] Cumulative cpu time consumed by the pod in core-seconds"),
    ("pod_memory_working_set_bytes", "[STABLE] Current working set of the pod in bytes"),
    (
        "pod_swap_usage_bytes",
        "[ALPHA] Current amount of the pod swap usage in bytes. Reported only on non-windows systems",
    ),
)
_NO_TRAFFIC: Final = {"rxBytes": 0, "rxErrors": 0, "txBytes": 0, "txErrors": 0}
_NO_STALL: Final = {"total": 0, "avg10": 0, "avg60": 0, "avg300": 0}
_PSI: Final = {"psi": {"full": _NO_STALL, "some": _NO_STALL}}


def _value(name: str, pod: Used, taken_s: float) -> str:
    """Return a sample's value and time; the start of a container has no time."""
    parts = max(len(pod.containers), 1) if name.startswith("container_") else 1
    stamp = f" {_EPOCH_S * 1000 + round(taken_s * 1000)}"
    if name.endswith("_cpu_usage_seconds_total"):
        return _number(pod.millicores / parts / 1000 * taken_s) + stamp
    if name.endswith("_memory_working_set_bytes"):
        return _number(pod.held_bytes // parts) + stamp
    return _number(_EPOCH_S) if name == "container_start_time_seconds" else f"0{stamp}"


def _number(value: float) -> str:
    """Return a number as Go writes it: from a million on by powers of ten."""
    short = repr(float(value)).removesuffix(".0")
    if value == 0 or 1e-4 <= abs(value) < 1e6:
        return short
    sign, digits, exponent = Decimal(short).normalize().as_tuple()
    head, tail = digits[0], "".join(map(str, digits[1:]))
    power = int(exponent) + len(digits) - 1
    return f"{'-' * sign}{head}{'.' if tail else ''}{tail}e{power:+03d}"


def _pod_summary(pod: Used, at_s: float) -> dict[str, Any]:
    taken_s = pod.looked_s(at_s)
    parts = max(len(pod.containers), 1)
    amounts = (amount // parts for amount in (pod.millicores, pod.held_bytes, pod.limit_bytes))
    part = Used("", "", "", (), *amounts)
    whole = _system_part(taken_s, pod.millicores, pod.held_bytes, pod.limit_bytes)
    return {
        "podRef": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
        "startTime": _time(0),
        "containers": [_container_summary(name, part, at_s) for name in pod.containers],
        **{name: whole[name] for name in ("cpu", "memory", "io")},
        "ephemeral-storage": _disk(at_s),
        "swap": whole["swap"],
    }


def _container_summary(name: str, used: Used, at_s: float) -> dict[str, Any]:
    time = {"time": _time(at_s)}
    return {
        "name": name,
        "startTime": _time(0),
        "cpu": time | _cpu(at_s, used.millicores),
        "memory": time | {"availableBytes": max(used.limit_bytes - used.held_bytes, 0)} | _memory(used.held_bytes),
        "io": time,
        "rootfs": _disk(at_s),
        "logs": _disk(at_s),
        "swap": time | {"swapAvailableBytes": 0, "swapUsageBytes": 0},
    }


def _system_part(at_s: float, millicores: int, held: int, limit: int = _CAPACITY) -> dict[str, Any]:
    """Return what a kubelet tells of a cgroup: a pod's, all pods', or the node's."""
    time = {"time": _time(at_s)}
    available = {"availableBytes": max(limit - held, 0)} if limit else {}
    return {
        "cpu": time | _cpu(at_s, millicores) | _PSI,
        "memory": time | available | _memory(held) | _PSI,
        "io": time | _PSI,
        "swap": time | {"swapUsageBytes": 0},
    }


def _cpu(at_s: float, millicores: int) -> dict[str, int]:
    return {
        "usageNanoCores": millicores * 1_000_000,
        "usageCoreNanoSeconds": round(millicores * 1_000_000 * at_s),
    }


def _memory(held: int) -> dict[str, int]:
    return {"usageBytes": held, "workingSetBytes": held, "rssBytes": held, "pageFaults": 0, "majorPageFaults": 0}


def _disk(at_s: float) -> dict[str, Any]:
    room = {"availableBytes": _CAPACITY, "capacityBytes": _CAPACITY, "usedBytes": 0}
    return {"time": _time(at_s)} | room | {"inodesFree": 1, "inodes": 1, "inodesUsed": 0}


def _time(at_s: float) -> str:
    return datetime.fromtimestamp(_EPOCH_S + int(at_s), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

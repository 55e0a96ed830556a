"""What pods use, from what clusters tell: the Kubernetes metrics API, kubelets' summaries and their Prometheus pages.

Each reader takes one answer and returns uses by pod. Processor time that comes as a counter is told as its rate since
the answer before; a counter that fell back tells nothing that time.

Source: docs/autoscale.md "Metrics".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

import msgspec

from argosy_core.errors import BackendUnavailable, InvalidRequest
from argosy_core.resources import CPU, MEMORY, parse_quantity

__all__ = ["KubeletPageReader", "KubeletSummaryReader", "MetricsApiReader", "PodUse", "UsageReader"]

_NANO: Final = 1e9
_SAMPLE: Final = re.compile(r"^(\w+)\{([^}]*)\}\s+(\S+)(?:\s+-?\d+)?\s*$", re.MULTILINE)
_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class PodUse:
    """What one pod uses; what is not known is not a number."""

    load_cores: float = float("nan")
    """Processors that it used of late."""
    memory_bytes: float = float("nan")
    """Memory that cannot be taken back."""


class UsageReader(Protocol):
    """Reads one kind of answer."""

    def read(self, answer: bytes, now_s: float) -> Mapping[tuple[str, str], PodUse]:
        """Return uses by (namespace, name) of pods.

        Args:
            answer: As the source gave it.
            now_s: When it came, by a clock that never goes back, seconds.

        Raises:
            BackendUnavailable: It cannot be read.
        """
        ...


T = TypeVar("T")


class _Usage(msgspec.Struct):
    usage: dict[str, str] = {}


class _Names(msgspec.Struct):
    name: str = ""
    namespace: str = ""


class _PodMetrics(msgspec.Struct):
    metadata: _Names = msgspec.field(default_factory=_Names)
    containers: list[_Usage] = []


class _PodMetricsList(msgspec.Struct):
    items: list[_PodMetrics] = []


class _Cpu(msgspec.Struct, rename="camel"):
    usage_nano_cores: float | None = None


class _Memory(msgspec.Struct, rename="camel"):
    working_set_bytes: float | None = None


class _PodSummary(msgspec.Struct, rename="camel"):
    pod_ref: _Names = msgspec.field(default_factory=_Names)
    cpu: _Cpu | None = None
    memory: _Memory | None = None


class _Summary(msgspec.Struct):
    pods: list[_PodSummary] = []


_METRICS: Final = msgspec.json.Decoder(_PodMetricsList)
_SUMMARIES: Final = msgspec.json.Decoder(_Summary)


class MetricsApiReader:
    """Reads lists of `metrics.k8s.io/v1beta1` pods."""

    def read(self, answer: bytes, now_s: float) -> Mapping[tuple[str, str], PodUse]:  # noqa: ARG002 - rates come as such
        """See UsageReader."""
        found: dict[tuple[str, str], PodUse] = {}
        for pod in _decoded(_METRICS, answer).items:
            cores = sum(_quantity(CPU, one.usage) for one in pod.containers) / 1000
            used = sum(_quantity(MEMORY, one.usage) for one in pod.containers)
            found[pod.metadata.namespace, pod.metadata.name] = PodUse(cores, used)
        return found


class KubeletSummaryReader:
    """Reads a kubelet's `/stats/summary`."""

    def read(self, answer: bytes, now_s: float) -> Mapping[tuple[str, str], PodUse]:  # noqa: ARG002 - rates come as such
        """See UsageReader."""
        found: dict[tuple[str, str], PodUse] = {}
        for pod in _decoded(_SUMMARIES, answer).pods:
            cores = None if pod.cpu is None else pod.cpu.usage_nano_cores
            used = None if pod.memory is None else pod.memory.working_set_bytes
            found[pod.pod_ref.namespace, pod.pod_ref.name] = PodUse(
                float("nan") if cores is None else cores / _NANO, float("nan") if used is None else used
            )
        return found


class KubeletPageReader:
    """Reads a kubelet's `/metrics/resource`, in the Prometheus text format."""

    def __init__(self) -> None:
        """Have read nothing."""
        self._before: dict[tuple[str, str], tuple[float, float]] = {}

    def read(self, answer: bytes, now_s: float) -> Mapping[tuple[str, str], PodUse]:
        """See UsageReader; the first answer tells no load."""
        seconds: dict[tuple[str, str], float] = {}
        used: dict[tuple[str, str], float] = {}
        columns = {"pod_cpu_usage_seconds_total": seconds, "pod_memory_working_set_bytes": used}
        try:
            text = answer.decode()
        except UnicodeDecodeError as cause:
            raise BackendUnavailable("metrics cannot be read: they are no text") from cause
        for name, labels, value in _SAMPLE.findall(text):
            column = columns.get(name)
            if column is not None:
                about = dict(_LABEL.findall(labels))
                column[about.get("namespace", ""), about.get("pod", "")] = _number(value)
        before, self._before = self._before, {key: (total, now_s) for key, total in seconds.items()}
        found: dict[tuple[str, str], PodUse] = {}
        for key in seconds.keys() | used.keys():
            total, (was, then_s) = seconds.get(key, float("nan")), before.get(key, (float("nan"), now_s))
            is_rate = now_s > then_s and total >= was
            cores = (total - was) / (now_s - then_s) if is_rate else float("nan")
            found[key] = PodUse(cores, used.get(key, float("nan")))
        return found


def _decoded(decoder: msgspec.json.Decoder[T], answer: bytes) -> T:
    try:
        return decoder.decode(answer)
    except (msgspec.MsgspecError, UnicodeDecodeError) as cause:
        raise BackendUnavailable(f"metrics cannot be read: {cause}") from cause


def _quantity(name: str, usage: Mapping[str, str]) -> float:
    """Return an amount in base units; not a number if it is missing or none."""
    if name not in usage:
        return float("nan")
    try:
        return float(parse_quantity(name, usage[name]))
    except InvalidRequest:
        return float("nan")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")

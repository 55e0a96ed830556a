"""What pods use, from what clusters tell: the Kubernetes metrics API, kubelets' summaries and their Prometheus pages.

Each reader takes one answer and returns uses by pod. Processor time that comes as a counter is told as its rate between
the last two samples. A kubelet looks at a pod every 10 to 30 seconds and may tell the same sample many times; its time
says which it is. A counter that fell back tells nothing that time, nor does a sample that is repeated for too long.

Source: docs/autoscale.md "Metrics".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Protocol, TypeVar

import msgspec

from argosy_core.errors import BackendUnavailable, InvalidRequest
from argosy_core.resources import CPU, MEMORY, parse_quantity

__all__ = ["KubeletPageReader", "KubeletSummaryReader", "MetricsApiReader", "PodUse", "UsageReader"]

_NANO: Final = 1e9
_STALE_S: Final = 90.0
"""How long a kubelet may tell the same sample of a pod; a recorded one on a busy machine took 31 s for the next."""
_SAMPLE: Final = re.compile(r"^(\w+)\{([^}]*)\}\s+(\S+)(?:\s+(-?\d+))?\s*$", re.MULTILINE)
_PAGE_CPU: Final = "pod_cpu_usage_seconds_total"
_PAGE_MEMORY: Final = "pod_memory_working_set_bytes"
_PAGE_NAMES: Final = frozenset({_PAGE_CPU, _PAGE_MEMORY})
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
    time: str = ""
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

    def __init__(self) -> None:
        """Have read nothing."""
        self._before: dict[tuple[str, str], tuple[str, float]] = {}

    def read(self, answer: bytes, now_s: float) -> Mapping[tuple[str, str], PodUse]:
        """See UsageReader; a sample that is told for too long tells nothing."""
        found: dict[tuple[str, str], PodUse] = {}
        before, self._before = self._before, {}
        for pod in _decoded(_SUMMARIES, answer).pods:
            key = pod.pod_ref.namespace, pod.pod_ref.name
            cpu, memory = pod.cpu or _Cpu(), pod.memory or _Memory()
            known = before.get(key)
            self._before[key] = known if known is not None and known[0] == cpu.time else (cpu.time, now_s)
            if cpu.time and now_s - self._before[key][1] > _STALE_S:
                found[key] = PodUse()
                continue
            cores, used = cpu.usage_nano_cores, memory.working_set_bytes
            found[key] = PodUse(
                float("nan") if cores is None else cores / _NANO, float("nan") if used is None else used
            )
        return found


@dataclass(frozen=True, slots=True)
class _Counted:
    """A sample of a pod's processor time."""

    seconds: float
    taken_s: float
    """When it was taken, by the clock of whoever took it."""
    heard_s: float
    """When it was told first, by the reader's clock."""
    cores: float = float("nan")
    """The rate since the sample before."""

    def after(self, before: _Counted) -> _Counted:
        """Return it with its rate since the one before; the one before, if that is told again."""
        passed_s = self.taken_s - before.taken_s
        if passed_s == 0 and self.seconds == before.seconds:
            return before
        if not 0 < passed_s <= self.heard_s - before.heard_s + _STALE_S or not self.seconds >= before.seconds:
            return self
        return replace(self, cores=(self.seconds - before.seconds) / passed_s)


class KubeletPageReader:
    """Reads a kubelet's `/metrics/resource`, in the Prometheus text format."""

    def __init__(self) -> None:
        """Have read nothing."""
        self._before: dict[tuple[str, str], _Counted] = {}

    def read(self, answer: bytes, now_s: float) -> Mapping[tuple[str, str], PodUse]:
        """See UsageReader; the first sample tells no load."""
        counted: dict[tuple[str, str], _Counted] = {}
        used: dict[tuple[str, str], float] = {}
        try:
            text = answer.decode()
        except UnicodeDecodeError as cause:
            raise BackendUnavailable("metrics cannot be read: they are no text") from cause
        for name, labels, value, taken_ms in _SAMPLE.findall(text):
            if name not in _PAGE_NAMES:
                continue
            about = dict(_LABEL.findall(labels))
            key = about.get("namespace", ""), about.get("pod", "")
            if name == _PAGE_MEMORY:
                used[key] = _number(value)
                continue
            now = _Counted(_number(value), int(taken_ms) / 1000 if taken_ms else now_s, now_s)
            counted[key] = now.after(self._before[key]) if key in self._before else now
        self._before = counted
        found: dict[tuple[str, str], PodUse] = {}
        for key in counted.keys() | used.keys():
            sample = counted.get(key)
            if sample is not None and now_s - sample.heard_s > _STALE_S:
                found[key] = PodUse()
            else:
                cores = float("nan") if sample is None else sample.cores
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

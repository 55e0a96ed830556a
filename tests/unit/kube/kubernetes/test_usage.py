"""Metrics of pods: one set of rules for all sources, each in the form in which a cluster gives it."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from argosy_core.errors import BackendUnavailable
from argosy_kube.kubernetes.scaling.cgroups import read_cgroups
from argosy_kube.kubernetes.scaling.usage import (
    KubeletPageReader,
    KubeletSummaryReader,
    MetricsApiReader,
    PodUse,
    UsageReader,
)

KEY = ("team-a", "train-0")
UID = "3b0c1f7e-5a52-4c1e-9d8a-0f2f6d1e7c11"
Answer = Callable[[float | None, float | None, float], bytes]
"""Makes an answer of cores and bytes that one pod uses (None: not told) after so many seconds."""


def metrics_api(cores: float | None, used: float | None, _: float) -> bytes:
    """Return an answer as metrics-server 0.7 gives it: processors in nanocores, memory in KiB."""
    usage = {} if cores is None else {"cpu": f"{round(cores * 1e9)}n"}
    usage |= {} if used is None else {"memory": f"{round(used / 1024)}Ki"}
    item = {
        "metadata": {"name": KEY[1], "namespace": KEY[0], "creationTimestamp": "2026-01-01T00:00:00Z"},
        "timestamp": "2026-01-01T00:00:00Z",
        "window": "15.2s",
        "containers": [{"name": "main", "usage": usage}],
    }
    return msgspec.json.encode({"kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "items": [item]})


def summary(cores: float | None, used: float | None, at_s: float) -> bytes:
    """Return an answer as a kubelet's /stats/summary gives it."""
    time = f"2026-01-01T00:{int(at_s) // 60:02}:{int(at_s) % 60:02}Z"
    pod = {
        "podRef": {"name": KEY[1], "namespace": KEY[0], "uid": "u"},
        "cpu": {"time": time, "usageCoreNanoSeconds": 1}
        | ({} if cores is None else {"usageNanoCores": round(cores * 1e9)}),
        "memory": {"time": time, "rssBytes": 1} | ({} if used is None else {"workingSetBytes": round(used)}),
        "containers": [],
    }
    return msgspec.json.encode({"node": {"nodeName": "n"}, "pods": [pod]})


def page(cores: float | None, used: float | None, at_s: float) -> bytes:
    """Return an answer as a kubelet's /metrics/resource gives it: processor time as a counter."""
    labels = f'{{namespace="{KEY[0]}",pod="{KEY[1]}"}}'
    stamp = 1767225600000 + round(at_s * 1000)
    lines = [
        "# HELP pod_cpu_usage_seconds_total [STABLE] Cumulative cpu time consumed by the pod in core-seconds",
        "# TYPE pod_cpu_usage_seconds_total counter",
        'container_cpu_usage_seconds_total{container="main",namespace="x",pod="y"} 1 1767225600000',
    ]
    lines += [] if cores is None else [f"pod_cpu_usage_seconds_total{labels} {cores * at_s} {stamp}"]
    lines += [] if used is None else [f"pod_memory_working_set_bytes{labels} {used:e} {stamp}"]
    return "\n".join([*lines, "resource_scrape_error 0"]).encode()


def cgroups(cores: float | None, used: float | None, at_s: float) -> bytes:
    """Return what the kernel has of a pod under a kubelet's systemd driver, with cached files of which half is idle."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        return read_cgroups(make_cgroup(root, cores, used, at_s), [(UID, *KEY), (UID[:-1] + "0", "x", "y")])


def make_cgroup(root: Path, cores: float | None, used: float | None, at_s: float, *, driver: str = "systemd") -> Path:
    """Make the folders of a node with one burstable pod; return their root."""
    within = {
        "systemd": f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UID.replace('-', '_')}.slice",
        "cgroupfs": f"kubepods/burstable/pod{UID}",
        "guaranteed": f"kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice",
    }[driver]
    (root / "cgroup.controllers").write_text("cpu memory\n")
    pod = root / within
    pod.mkdir(parents=True)
    if cores is not None:
        (pod / "cpu.stat").write_text(f"usage_usec {round(cores * at_s * 1e6)}\nuser_usec 1\nsystem_usec 1\n")
    if used is not None:
        (pod / "memory.current").write_text(f"{round(used) + 4096}\n")
        (pod / "memory.stat").write_text("anon 1\nfile 8192\ninactive_file 4096\nactive_file 4096\n")
    return root


SOURCES = pytest.mark.parametrize(
    ("make", "answer"),
    [
        (MetricsApiReader, metrics_api),
        (KubeletSummaryReader, summary),
        (KubeletPageReader, page),
        (KubeletPageReader, cgroups),
    ],
    ids=["metrics API", "kubelet summary", "kubelet page", "cgroups"],
)


def read(reader: UsageReader, answer: Answer, cores: float | None, used: float | None) -> PodUse:
    """Return what the second of two answers, ten seconds apart, tells of the pod."""
    reader.read(answer(cores, used, 10.0), 10.0)
    return reader.read(answer(cores, used, 20.0), 20.0)[KEY]


@SOURCES
def test_what_a_pod_uses_is_told_in_cores_and_bytes(make: type[UsageReader], answer: Answer) -> None:
    """Whatever the source counts in."""
    use = read(make(), answer, 1.25, 512 << 20)
    assert (use.load_cores, use.memory_bytes) == (pytest.approx(1.25), pytest.approx(512 << 20))


@SOURCES
def test_what_is_not_told_is_no_number(make: type[UsageReader], answer: Answer) -> None:
    """Missing metrics are not nothing used."""
    assert math.isnan(read(make(), answer, None, 1 << 20).load_cores)
    assert math.isnan(read(make(), answer, 0.5, None).memory_bytes)


@SOURCES
def test_a_pod_that_is_not_in_the_answer_is_not_told(make: type[UsageReader], answer: Answer) -> None:
    """Nor is it kept from the one before."""
    assert ("team-a", "other") not in make().read(answer(1.0, 1.0, 1.0), 1.0)


@pytest.mark.parametrize("make", [MetricsApiReader, KubeletSummaryReader, KubeletPageReader])
@pytest.mark.parametrize("answer", [b"\xff\xfe", b"<html>\xff"])
def test_an_answer_that_cannot_be_read_is_an_error_of_the_source(make: type[UsageReader], answer: bytes) -> None:
    """The agent goes on without metrics."""
    with pytest.raises(BackendUnavailable, match="metrics cannot be read"):
        make().read(answer, 1.0)


def test_a_counter_that_falls_back_or_a_clock_that_stands_tells_no_load() -> None:
    """The container was restarted."""
    reader = KubeletPageReader()
    reader.read(page(2.0, 1e6, 10.0), 10.0)
    assert math.isnan(reader.read(page(0.5, 1e6, 20.0), 20.0)[KEY].load_cores)
    assert math.isnan(reader.read(page(2.0, 1e6, 20.0), 20.0)[KEY].load_cores)


def test_a_clock_that_goes_back_or_far_forward_tells_no_load() -> None:
    """Processor time over an hour that did not pass would look like nothing used."""
    reader = KubeletPageReader()
    reader.read(page(2.0, 1e6, 100.0), 10.0)
    assert math.isnan(reader.read(page(4.0, 1e6, 60.0), 20.0)[KEY].load_cores)
    assert math.isnan(reader.read(page(2.0, 1e6, 3700.0), 30.0)[KEY].load_cores)
    assert reader.read(page(2.0, 1e6, 3710.0), 40.0)[KEY].load_cores == pytest.approx(2.0)


def test_a_sample_that_is_told_again_tells_the_same_load_as_before() -> None:
    """Kubelets look at a pod less often than they are asked; no time passed between the two."""
    reader = KubeletPageReader()
    reader.read(page(2.0, 1e6, 10.0), 10.0)
    for now_s in (20.0, 25.0, 30.0):
        assert reader.read(page(2.0, 1e6, 18.0), now_s)[KEY].load_cores == pytest.approx(2.0)


@pytest.mark.parametrize(("make", "answer"), [(KubeletPageReader, page), (KubeletSummaryReader, summary)])
def test_a_sample_that_is_told_for_too_long_tells_nothing(make: type[UsageReader], answer: Answer) -> None:
    """The kubelet still answers, and no longer looks: the pod may grow, and not shrink."""
    reader = make()
    reader.read(answer(2.0, 1e6, 10.0), 10.0)
    reader.read(answer(2.0, 1e6, 20.0), 20.0)
    assert reader.read(answer(2.0, 1e6, 20.0), 100.0)[KEY].load_cores == pytest.approx(2.0)
    late = reader.read(answer(2.0, 1e6, 20.0), 130.0)[KEY]
    assert math.isnan(late.load_cores)
    assert math.isnan(late.memory_bytes)
    assert reader.read(answer(2.0, 1e6, 140.0), 140.0)[KEY].memory_bytes == 1e6


def test_a_sample_that_is_no_number_is_none() -> None:
    """As Prometheus writes it, or worse."""
    text = b'pod_memory_working_set_bytes{namespace="team-a",pod="train-0"} NaN\npod_cpu_usage_seconds_total{} oops\n'
    assert math.isnan(KubeletPageReader().read(text, 1.0)[KEY].memory_bytes)


def test_quantities_that_are_none_are_no_numbers() -> None:
    """The other metric of the pod still counts."""
    text = metrics_api(1.0, 1024.0, 0.0).replace(b'"1Ki"', b'"lots"')
    use = MetricsApiReader().read(text, 1.0)[KEY]
    assert (use.load_cores, math.isnan(use.memory_bytes)) == (1.0, True)


@pytest.mark.parametrize("driver", ["systemd", "cgroupfs", "guaranteed"])
def test_cgroups_are_found_where_either_driver_of_kubelets_puts_them(tmp_path: Path, driver: str) -> None:
    """A guaranteed pod has no folder of its class above it."""
    page = read_cgroups(make_cgroup(tmp_path, 2.0, 1e6, 10.0, driver=driver), [(UID, *KEY)])
    assert KubeletPageReader().read(page, 1.0)[KEY].memory_bytes == 1e6


def test_cgroups_of_which_nothing_can_be_read_are_an_error_of_the_source_or_tell_nothing(tmp_path: Path) -> None:
    """What is not mounted says so; a pod that ends while it is read, or whose counts are none, is not told."""
    with pytest.raises(BackendUnavailable, match=r"is no cgroup v2"):
        read_cgroups(tmp_path, [])
    (tmp_path / "cgroup.controllers").touch()
    with pytest.raises(BackendUnavailable, match="no pods of a kubelet"):
        read_cgroups(tmp_path, [(UID, *KEY)])
    root = make_cgroup(tmp_path, None, None, 1.0)
    (pod,) = root.glob("kubepods.slice/*/*")
    (pod / "cpu.stat").write_text("usage_usec many")
    (pod / "memory.current").touch()
    assert read_cgroups(root, [(UID, *KEY)]) == b""

"""Answers of a real kubelet: what we read in them, and that the fake kubelet's are of the same shape.

`recorded/` holds answers of a kubelet 1.36.3 (containerd 1.6.20, cgroup v1) at the seconds below, as they came: of a
pod with a sidecar and an init container that has ended, of one that is idle, and of one whose container ends again and
again and is between two runs in four of the six.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from argosy_kube.kubernetes.scaling.usage import KubeletPageReader, KubeletSummaryReader, PodUse
from argosy_testkit.fake_kube_api.metrics import Used, page, summary

RECORDED: Final = Path(__file__).parent / "recorded"
ASKED_S: Final = (571.8, 586.2, 601.1, 617.7, 632.1, 646.4)
WORKER, RESTARTING, IDLE = ("team-a", "worker-node-1"), ("team-a", "restarting-node-1"), ("team-b", "idle-node-1")
USED: Final = [
    Used("team-a", "restarting-node-1", "a", ("main",), 90, 36233216, limit_bytes=64 << 20),
    Used("team-a", "worker-node-1", "b", ("proxy", "main"), 130, 88551424),
    Used("team-b", "idle-node-1", "c", ("main",), 2, 6434816),
]


def read_pages() -> list[Mapping[tuple[str, str], PodUse]]:
    """Return what each of the recorded pages tells, read one after the other."""
    reader = KubeletPageReader()
    return [
        reader.read((RECORDED / f"resource-{number}.txt").read_bytes(), at_s)
        for number, at_s in enumerate(ASKED_S, start=1)
    ]


def test_a_busy_pod_is_told_its_load_in_each_page_though_samples_are_older_than_answers() -> None:
    """It used 0.12 to 0.16 cores all the time; the last page repeats the sample of the one before."""
    told = [page[WORKER] for page in read_pages()]
    assert math.isnan(told[0].load_cores)
    assert [round(use.load_cores, 3) for use in told[1:]] == [0.135, 0.146, 0.133, 0.131, 0.131]
    assert {round(use.memory_bytes / 2**20) for use in told} == {84, 85}


def test_a_pod_whose_container_is_between_two_runs_is_not_told_and_then_begins_anew() -> None:
    """Nothing is made up for the time between."""
    told = [page.get(RESTARTING) for page in read_pages()]
    assert [use is None for use in told] == [False, True, True, False, True, True]
    assert told[3] is not None
    assert math.isnan(told[3].load_cores)
    assert told[3].memory_bytes == 36048896


def test_summaries_tell_the_same_of_pods_as_pages() -> None:
    """Load as the kubelet itself makes it, memory from the same sample."""
    reader = KubeletSummaryReader()
    pages = read_pages()
    for number in (1, 2):
        told = reader.read((RECORDED / f"summary-{number}.json").read_bytes(), ASKED_S[number - 1])
        assert told.keys() == pages[number - 1].keys()
        assert {key: use.memory_bytes for key, use in told.items()} == {
            key: use.memory_bytes for key, use in pages[number - 1].items()
        }
        assert told[WORKER].load_cores == pytest.approx(0.136, abs=0.002)
        assert told[IDLE].load_cores == pytest.approx(0.0026, abs=0.0001)


def test_the_fake_kubelets_page_is_line_for_line_of_the_recorded_shape() -> None:
    """The same names, comments, labels and their order; numbers and times as a kubelet writes them."""
    assert shape_of_page(page(USED, 571.0).decode()) == shape_of_page((RECORDED / "resource-1.txt").read_text())


def test_the_fake_kubelets_summary_is_field_for_field_of_the_recorded_shape() -> None:
    """The same fields in the same order, of the same kinds."""
    recorded = msgspec.json.decode((RECORDED / "summary-1.json").read_bytes())
    made = msgspec.json.decode(summary("node-1", USED, 571.0))
    for document in (recorded, made):
        document["pods"].sort(key=lambda pod: pod["podRef"]["name"])
        del document["node"]["network"]["interfaces"][1:]  # however many the machine has
    assert shape_of(made) == shape_of(recorded)


def test_the_fake_kubelet_looks_at_each_pod_at_its_own_times_and_tells_between_them_what_it_saw() -> None:
    """As the real one: so readers that take the time of an answer for that of a sample are caught."""
    seen = {stamp for at_s in range(100, 130) for stamp in stamps_of(page(USED[:1], float(at_s)).decode())}
    assert 2 <= len(seen) <= 3
    both = stamps_of(page(USED[:2], 100.0).decode())
    assert len(set(both)) == 2


def stamps_of(text: str) -> list[str]:
    """Return the times of the samples of pods' processor time."""
    return re.findall(r"^pod_cpu_usage_seconds_total\{.*\} \S+ (\d+)$", text, re.MULTILINE)


def shape_of_page(text: str) -> list[str]:
    """Return the lines with their numbers' forms: whole, with a point or by a power of ten."""
    forms = [(r"\d\.\d+e\+\d\d", "F"), (r"\d+\.\d+", "F"), (r"\d{13}", "T"), (r"\d+", "F")]
    lines = []
    for line in text.splitlines():
        name, _, numbers = line.rpartition("}") if "}" in line else line.partition(" ")
        if not line.startswith("#"):
            for form, word in forms:
                numbers = re.sub(rf"(?<![\w.]){form}(?![\w.])", word, numbers)
            line = f"{name} {numbers}"  # noqa: PLW2901 - only its numbers
        lines.append(line)
    return lines


def shape_of(value: Any) -> Any:
    """Return a document with kinds of values for values; lists of like things as their one shape each."""
    if isinstance(value, dict):
        return [(key, shape_of(inner)) for key, inner in value.items()]
    if isinstance(value, list):
        return [shape_of(inner) for inner in value]
    if isinstance(value, str) and re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", value):
        return "time"
    return type(value).__name__

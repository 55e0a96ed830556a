"""Reading pods that are nearly alike."""

from __future__ import annotations

import json
from typing import Any

import pytest

from argosy_core.job.reading.manifest_json import read_manifest, read_manifest_quickly
from argosy_core.job.reading.spec import SpecLimits, read_bag
from argosy_core.job.reading.spec_reader import SpecReader

LIMITS = SpecLimits()


def pod(*, metadata: dict[str, Any] | None = None, cpu: str = "1", **fields: Any) -> bytes:
    """Return a pod of one container with further fields."""
    container = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}, **fields}
    return json.dumps(
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata or {}, "spec": {"containers": [container]}}
    ).encode()


@pytest.mark.parametrize(
    ("manifest", "shared_count"),
    [
        pytest.param(pod(env=[{"name": "N", "value": "a:b"}]), 1, id="environment"),
        pytest.param(pod(args=["--id", "7"], command=["run"]), 1, id="arguments"),
        pytest.param(pod(image="app:2"), 1, id="image"),
        pytest.param(pod(metadata={"name": "train-7"}), 1, id="name"),
        pytest.param(pod(metadata={"name": ""}), 1, id="empty-name"),
        pytest.param(pod(cpu="2"), 0, id="request"),
        pytest.param(pod(securityContext={"privileged": True}), 0, id="policy"),
        pytest.param(pod(image=" "), 0, id="no-image"),
        pytest.param(pod(metadata={"name": "UPPER"}), 0, id="bad-name"),
        pytest.param(pod(metadata={"labels": {"a": "b"}}), 0, id="label"),
        pytest.param(pod(env=[{"name": "N", "value": "a"}])[:-1] + b"} ", 0, id="space-behind"),
        pytest.param(pod(args=["b"]).replace(b'"args"', b'"args": ["a"], "args"'), 0, id="key-twice"),
        pytest.param(pod(args=["b"]).replace(b'"b"', rb'"\u003a"'), 0, id="escaped-colon"),
        pytest.param(pod(args=["x" * 65_535]), 0, id="too-long"),
    ],
)
def test_read_judges_a_pod_anew_only_if_a_rule_looks_at_what_differs(manifest: bytes, shared_count: int) -> None:
    """Environment, arguments, image and name may differ; anything else, or any doubt, is read in full."""
    reader = SpecReader(LIMITS)
    first = reader.read([pod()])
    bag = reader.read([manifest])
    assert bag == read_bag([manifest], LIMITS)
    assert int(bag.scheduling_class is first.scheduling_class) == shared_count


def test_read_takes_values_of_annotations_as_alike_except_those_of_profiles() -> None:
    """An annotation's value is free; an AppArmor profile in one is judged each time."""
    reader = SpecReader(LIMITS)
    key = "container.apparmor.security.beta.kubernetes.io/main"
    for number in range(5):
        assert reader.read([pod(metadata={"annotations": {"x/y": f"{number}:s"}})]).violations == ()
    assert len(reader) == 1
    assert reader.read([pod(metadata={"annotations": {key: "runtime/default"}})]).violations == ()
    assert reader.read([pod(metadata={"annotations": {key: "unconfined"}})]).violations


def test_read_judges_declared_references_each_time() -> None:
    """Both the paths and what stands there differ within one outline."""
    reader = SpecReader(LIMITS)
    for path, value, fault_count in (("1", "me", 0), ("1", "you", 1), ("2", "me", 1), ("1", "me", 0)):
        notes = {"argosy.dev/references": f'["/spec/containers/0/args/{path}"]'}
        manifest = pod(metadata={"name": "me", "annotations": notes}, args=["--name", value])
        assert len(reader.read([manifest]).violations) == fault_count


def test_read_keeps_no_more_outlines_than_it_may_and_none_that_are_long_or_wrong() -> None:
    """What is kept is bounded in number and size, and only pods without a fault are kept."""
    reader = SpecReader(LIMITS, max_count=2)
    for cpu in range(1, 6):
        reader.read([pod(cpu=str(cpu))])
    assert len(reader) == 2
    reader = SpecReader(LIMITS)
    reader.read([pod(cpu="-1")])
    reader.read([pod(workingDir="x" * 5000)])
    reader.read([pod(), pod(metadata={"name": "b"})])
    assert len(reader) == 0


def test_read_manifest_quickly_answers_as_read_manifest_or_not_at_all() -> None:
    """Where the quick reading answers, it answers the same; keys that stand twice are its caller's affair."""
    for manifest in (pod(), b'{"a": [1.5, "\\u00e9", null]}'):
        assert read_manifest_quickly(manifest, 64) == read_manifest(manifest, 64)
    for odd in (b'{"a": NaN}', b'{"a": 1e999}', b"[]", b"{} ", b"\xff", b"{", b'{"a":' * 70 + b"1" + b"}" * 70):
        assert read_manifest_quickly(odd, 64) is None


def test_labels_of_pods_are_told_the_first_pod_s_first() -> None:
    """What pods are called by their submitters is what their job is found by; other objects' labels are their own."""
    manifests = [
        pod(metadata={"name": "a", "labels": {"app": "one", "tier": "x"}}),
        pod(metadata={"name": "b", "labels": {"app": "two", "zone": "z"}}),
    ]
    service = {"kind": "Service", "apiVersion": "v1", "metadata": {"name": "s", "labels": {"other": "o"}}, "spec": {}}
    bag = read_bag([json.dumps(service).encode(), *manifests], LIMITS)
    assert dict(bag.pod_labels) == {"app": "one", "tier": "x", "zone": "z"}
    reader = SpecReader(LIMITS)
    assert [reader.read(manifests[:1]).pod_labels for _ in range(2)] == [(("app", "one"), ("tier", "x"))] * 2

"""Strict reading of manifests."""

from __future__ import annotations

import json
from typing import Any

import pytest

from argosy_core.job.reading.findings import Findings
from argosy_core.job.reading.kinds import KINDS
from argosy_core.job.reading.manifest_schema import check_fields
from argosy_core.job.reading.spec import Bag, SpecLimits, read_bag
from argosy_core.job.reading.spec_reader import SpecReader

CONTAINER = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}


def read(*, metadata: Any = None, spec: Any = None, **container: Any) -> Bag:
    """Return what is read of a pod of one container."""
    containers = [{**CONTAINER, **container}]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata or {},
        "spec": {"containers": containers, **(spec or {})},
    }
    manifest = json.dumps(pod).encode()
    bag = read_bag([manifest], SpecLimits())
    reader = SpecReader(SpecLimits())
    assert reader.read([manifest]) == reader.read([manifest]) == bag  # however soon it is read
    return bag


@pytest.mark.parametrize(
    ("pod", "place", "text"),
    [
        pytest.param({"metadata": {"lables": {}}}, "metadata.lables", "did you mean labels?", id="lables"),
        pytest.param({"metadata": {"namespaced": "x"}}, "metadata.namespaced", "did you mean namespace?", id="longer"),
        pytest.param(
            {"spec": {"nodeSelecter": {}}}, "spec.nodeSelecter", "did you mean nodeSelector?", id="nodeSelecter"
        ),
        pytest.param({"enviroment": []}, "spec.containers[0].enviroment", "did you mean env?", id="enviroment"),
        pytest.param(
            {"resources": {"limit": {}, "requests": {"cpu": 1, "memory": "1Gi"}}},
            "spec.containers[0].resources.limit",
            "did you mean limits?",
            id="limit",
        ),
        pytest.param(
            {"command": "sleep 5"},
            "spec.containers[0].command",
            'must be a list, not a text; write ["sleep 5"]',
            id="command",
        ),
        pytest.param({"args": ["a", 1]}, "spec.containers[0].args[1]", "must be a text, not a number", id="args"),
        pytest.param({"env": {"A": "b"}}, "spec.containers[0].env", "must be a list, not an object", id="env"),
        pytest.param(
            {"env": [{"name": "A", "valu": "b"}]},
            "spec.containers[0].env[0].valu",
            "did you mean value?",
            id="env-entry",
        ),
        pytest.param({"env": [{"value": "b"}]}, "spec.containers[0].env[0].name", "is missing", id="env-name"),
        pytest.param({"env": [{"name": "A", "value": 1}]}, "spec.containers[0].env[0].value", "a text", id="env-value"),
        pytest.param(
            {"spec": {"containers": [CONTAINER, CONTAINER]}},
            "spec.containers[1].name",
            "is 'main', as that of",
            id="equal-names",
        ),
        pytest.param({"spec": {"dnsPolicy": "default"}}, "spec.dnsPolicy", "it may be ClusterFirst,", id="enum"),
        pytest.param(
            {"livenessProbe": {"periodSeconds": "5"}},
            "spec.containers[0].livenessProbe.periodSeconds",
            "must be a whole number, not a text",
            id="number",
        ),
        pytest.param({"tty": "yes"}, "spec.containers[0].tty", "must be true or false", id="truth"),
        pytest.param({"name": None}, "spec.containers[0].name", "", id="missing"),
    ],
)
def test_field_that_a_kind_does_not_have_is_a_fault(pod: dict[str, Any], place: str, text: str) -> None:
    """A misspelt field, or a value of another type, is told with its path and what may have been meant."""
    told = {fault.field: fault.description for fault in (*read(**pod).field_faults, *read(**pod).violations)}
    assert text in told[f"manifests[0].{place}"]


def test_effect_that_no_taint_has_is_refused() -> None:
    """A toleration of an effect that there is not would tolerate nothing."""
    told = read(spec={"tolerations": [{"key": "a", "operator": "Exists", "effect": "NoSched"}]}).violations
    assert [fault.field for fault in told] == ["manifests[0].spec.tolerations[0].effect"]


def test_what_kubernetes_takes_has_no_faults() -> None:
    """Null is not given; numbers are quantities; a status that was copied means nothing."""
    bag = read(
        resources={"requests": {"cpu": 1, "memory": "1Gi"}, "limits": None},
        env=[{"name": "A"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        ports=[{"containerPort": 80, "protocol": "TCP"}],
        livenessProbe={"httpGet": {"path": "/", "port": "web"}, "periodSeconds": 5},
        metadata={"creationTimestamp": None, "managedFields": [{"anything": 1}]},
        spec={"volumes": [{"name": "a", "emptyDir": {"sizeLimit": "1Gi"}}], "dnsPolicy": "", "priority": 7},
    )
    assert bag.field_faults == bag.warnings == ()


@pytest.mark.parametrize(
    ("memory", "text"),
    [
        pytest.param("512", "512 has no unit, so it is bytes; 512Mi are mebibytes", id="no-unit"),
        pytest.param(512, "512 has no unit", id="number"),
        pytest.param("512m", "512m is thousandths of a byte; 512Mi are mebibytes", id="milli"),
        pytest.param("134217728", "", id="bytes"),
        pytest.param("512M", "", id="unit"),
    ],
)
def test_memory_that_is_hardly_meant_is_warned_of(memory: object, text: str) -> None:
    """Half a kilobyte of memory is legal, and a slip of whoever wrote it."""
    bag = read(resources={"requests": {"cpu": 1, "memory": memory}})
    assert bag.violations == bag.field_faults == ()
    assert [told.description.startswith(text) for told in bag.warnings] == [True] * bool(text)


def test_every_kind_of_a_bag_has_its_fields() -> None:
    """What the tool wrote has each kind that a bag may hold, and no field of none of them passes."""
    for kind, api_version in KINDS.items():
        findings = Findings()
        check_fields({"apiVersion": api_version, "kind": kind, "metdata": {}}, kind, "m", findings)
        assert [fault.description for fault in findings.violations] == [
            "is no field of this object; did you mean metadata?"
        ]


def test_fields_of_custom_resources_are_their_owners() -> None:
    """Nothing is known of a custom resource's fields."""
    pod = json.dumps({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [CONTAINER]}}).encode()
    widget = b'{"apiVersion": "example.test/v1", "kind": "Widget", "anything": [1]}'
    assert read_bag([widget, pod], SpecLimits()).field_faults == ()

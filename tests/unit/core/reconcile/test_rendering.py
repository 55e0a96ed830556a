"""Names, labels and references of a run's objects."""

from __future__ import annotations

import json
import re

import pytest

from argosy_core.errors import InvalidRequest
from argosy_core.job.identity import compose_id
from argosy_core.job.reading.naming import object_name
from argosy_core.job.reading.spec import SpecLimits, read_bag
from argosy_core.job.tables.members import ordinal_of
from argosy_core.reconcile.rendering import (
    INSTALLATION_LABEL,
    JOB_LABEL,
    JOB_SET_LABEL,
    OBJECT_LABEL,
    QUEUE_LABEL,
    RUN_ANNOTATION,
    RUN_LABEL,
    BagTemplate,
    RunIdentity,
    label_value,
    parse_run_label,
    run_label,
)

HANDLE = (20_800 << 40) + 17
RUN = RunIdentity(
    installation="argosy",
    handle=HANDLE,
    ordinal=2,
    id_high=(1 << 60) + 0x7ABC,
    queue="team-a",
    job_set="nightly/2026 #1",
    node="node-7",
    labels={"app": "job", "stage": "train"},
    annotations={"note": "hello"},
)


def named(base: str) -> str:
    """Return the name of an object of RUN."""
    return object_name(base, HANDLE, 2)


def test_pod_gets_name_node_labels_and_defaults() -> None:
    """The pod has the run's name and node, our labels over the job's over its own, and ends when its work ends."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "train", "uid": "x", "creationTimestamp": None, "labels": {"app": "mine", "tier": "a"}},
        "spec": {"containers": [{"name": "main"}]},
        "status": {},
    }
    template = BagTemplate(json.dumps([pod]).encode(), default_namespace="batch")
    made = template.render(0, RUN)
    assert made["metadata"]["name"] == named("train")
    assert made["metadata"]["namespace"] == "batch"
    assert made["metadata"]["labels"] == {
        "app": "job",
        "tier": "a",
        "stage": "train",
        INSTALLATION_LABEL: "argosy",
        JOB_LABEL: compose_id(RUN.id_high, HANDLE),
        RUN_LABEL: f"{HANDLE}-2",
        OBJECT_LABEL: "0",
        QUEUE_LABEL: "team-a",
        JOB_SET_LABEL: label_value("nightly/2026 #1"),
    }
    assert made["metadata"]["annotations"] == {
        "note": "hello",
        QUEUE_LABEL: "team-a",
        JOB_SET_LABEL: "nightly/2026 #1",
        RUN_ANNOTATION: f"{RUN.installation}/{made['metadata']['labels'][RUN_LABEL]}/0",
    }
    assert made["spec"]["nodeName"] == "node-7"
    assert made["spec"]["restartPolicy"] == "Never"
    assert made["spec"]["automountServiceAccountToken"] is False
    assert "status" not in made
    assert not {"uid", "creationTimestamp"} & made["metadata"].keys()
    assert template.render(0, RUN) == made


def test_references_inside_the_bag_follow_and_others_stay() -> None:
    """One table rewrites volumes, environment, pull secrets, claims and back-ends; foreign names stay."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {
            "subdomain": "svc",
            "imagePullSecrets": [{"name": "pull"}, {"name": "foreign"}],
            "volumes": [
                {"name": "a", "configMap": {"name": "conf"}},
                {"name": "b", "secret": {"secretName": "pull"}},
                {"name": "c", "persistentVolumeClaim": {"claimName": "data"}},
                {"name": "d", "projected": {"sources": [{"configMap": {"name": "conf"}}, {"secret": {"name": "x"}}]}},
                {"name": "e", "configMap": {"name": "pull"}},
            ],
            "containers": [
                {
                    "name": "main",
                    "env": [
                        {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "conf", "key": "k"}}},
                        {"name": "B", "valueFrom": {"secretKeyRef": {"name": "pull", "key": "k"}}},
                        {"name": "C", "value": "conf"},
                    ],
                    "envFrom": [{"configMapRef": {"name": "conf"}}, {"secretRef": {"name": "foreign"}}],
                }
            ],
            "initContainers": [{"name": "i", "envFrom": [{"secretRef": {"name": "pull"}}]}],
        },
    }
    ingress = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {"name": "ing"},
        "spec": {
            "defaultBackend": {"service": {"name": "svc"}},
            "rules": [{"http": {"paths": [{"backend": {"service": {"name": "svc"}}}]}}],
            "tls": [{"secretName": "pull"}],
        },
    }
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "svc"}, "spec": {"selector": {"app": "x"}}}
    others = [
        {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}}
        for kind, name in (("ConfigMap", "conf"), ("Secret", "pull"), ("PersistentVolumeClaim", "data"))
    ]
    template = BagTemplate(json.dumps([service, ingress, *others, pod]).encode())
    spec = template.render(5, RUN)["spec"]
    assert spec["subdomain"] == named("svc")
    assert spec["imagePullSecrets"] == [{"name": named("pull")}, {"name": "foreign"}]
    assert spec["volumes"][0]["configMap"]["name"] == named("conf")
    assert spec["volumes"][1]["secret"]["secretName"] == named("pull")
    assert spec["volumes"][2]["persistentVolumeClaim"]["claimName"] == named("data")
    assert spec["volumes"][3]["projected"]["sources"] == [
        {"configMap": {"name": named("conf")}},
        {"secret": {"name": "x"}},
    ]
    assert spec["volumes"][4]["configMap"]["name"] == "pull", "a config map of that name is not in the bag"
    environment = spec["containers"][0]["env"]
    assert environment[0]["valueFrom"]["configMapKeyRef"]["name"] == named("conf")
    assert environment[1]["valueFrom"]["secretKeyRef"]["name"] == named("pull")
    assert environment[2]["value"] == "conf"
    assert spec["containers"][0]["envFrom"] == [
        {"configMapRef": {"name": named("conf")}},
        {"secretRef": {"name": "foreign"}},
    ]
    assert spec["initContainers"][0]["envFrom"] == [{"secretRef": {"name": named("pull")}}]
    routes = template.render(1, RUN)["spec"]
    assert routes["defaultBackend"]["service"]["name"] == named("svc")
    assert routes["rules"][0]["http"]["paths"][0]["backend"]["service"]["name"] == named("svc")
    assert routes["tls"][0]["secretName"] == named("pull")
    assert template.render(0, RUN)["spec"]["selector"] == {"app": "x", RUN_LABEL: run_label(HANDLE, 2)}


def test_reference_to_another_namespace_stays() -> None:
    """Kubernetes resolves names within a namespace, and so do we."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "a"},
        "spec": {"containers": [], "imagePullSecrets": [{"name": "pull"}]},
    }
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "pull", "namespace": "b"}}
    template = BagTemplate(json.dumps([secret, pod]).encode())
    assert template.render(1, RUN)["spec"]["imagePullSecrets"] == [{"name": "pull"}]


def test_objects_without_names_are_named_as_in_the_layout() -> None:
    """What submit wrote into the layout is what the cluster gets."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    pod = json.dumps({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [container]}}).encode()
    named_pod = json.dumps(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, "spec": {"containers": [container]}}
    ).encode()
    bag = read_bag([pod, named_pod, pod], SpecLimits())
    template = BagTemplate(bag.body)
    assert tuple(zip(template.kinds, template.names, strict=True)) == bag.layout
    assert len({template.render(index, RUN)["metadata"]["name"] for index in range(3)}) == 3


@pytest.mark.parametrize("body", [b"{}", b"[1]"])
def test_template_refuses_what_is_no_bag(body: bytes) -> None:
    """A body is an array of objects."""
    with pytest.raises(InvalidRequest):
        BagTemplate(body)


@pytest.mark.parametrize("text", ["plain", "a/b c", "x" * 100, "---", "", "ünï", "a" * 63])
def test_label_value_is_legal_and_stays_distinct(text: str) -> None:
    """Every text has a label value, its own if it can be, and another text has another."""
    value = label_value(text)
    assert re.fullmatch(r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?", value)
    assert (value == text) == (text in {"plain", "", "a" * 63})
    assert label_value(text + "!") != value


_NO_LABELS = ("", "7", "7-", "-1", "7-0", "7-32768", "07-1", "7-1-0", "7-1-01", "7-1-32768", "7-1-1-1", "x-1", "7--1")


@pytest.mark.parametrize("text", [*_NO_LABELS, "\u0667-1", f"{1 << 55}-1"])
def test_parse_run_label_refuses_what_we_never_write(text: str) -> None:
    """A label of somebody else's making names no run."""
    assert parse_run_label(text) is None


def test_parse_run_label_reads_what_run_label_writes() -> None:
    """The label leads back to the run."""
    for attempt in (1, 255, 256, 32_767):
        for ordinal in (attempt, ordinal_of(attempt, 1), ordinal_of(attempt, 32_767)):
            assert parse_run_label(run_label(HANDLE, ordinal)) == (HANDLE, ordinal)

"""Names that a run's objects get where the user declared references, and where other objects are named by kind."""

from __future__ import annotations

import json
from typing import Any

import pytest

from argosy_core.errors import InvalidRequest
from argosy_core.job.reading.naming import object_name
from argosy_core.job.reading.references import POD_TEMPLATES_ANNOTATION, REFERENCES_ANNOTATION
from argosy_core.reconcile.rendering import BagTemplate, RunIdentity

RUN = RunIdentity(
    installation="i", handle=77, ordinal=3, id_high=1, queue="conf", job_set="s", node="n", labels={"job": "conf"}
)
CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "conf"}}
SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key", "namespace": "other"}}


def named(base: str) -> str:
    """Return the name of an object of RUN."""
    return object_name(base, RUN.handle, RUN.ordinal)


def widget(references: list[str] | None = None, templates: list[str] | None = None, **fields: Any) -> dict[str, Any]:
    """Return a custom resource that declares something."""
    given = {REFERENCES_ANNOTATION: references, POD_TEMPLATES_ANNOTATION: templates}
    notes = {key: json.dumps(paths) for key, paths in given.items() if paths}
    return {
        "apiVersion": "example.test/v1",
        "kind": "Widget",
        "metadata": {"name": "wheel", "annotations": notes, "labels": {"for": "conf"}},
        **fields,
    }


def render(*manifests: dict[str, Any]) -> dict[str, Any]:
    """Return the first manifest of a bag as RUN gets it; `conf` and `key` are always in the bag."""
    return BagTemplate(json.dumps([*manifests, CONFIG, SECRET]).encode()).render(0, RUN)


def test_declared_references_get_the_names_of_the_run() -> None:
    """Objects of any kind and namespace, and the object itself; all else stays, equal texts too."""
    spec = {"config": "conf", "text": "conf", "disks": [{"claim": "key"}, {"name": "key"}], "self": {"me": "wheel"}}
    made = render(widget(["/spec/config", "/spec/disks/*/claim", "/spec/self/me"], spec=spec))
    assert made["spec"] == {
        "config": named("conf"),
        "text": "conf",
        "disks": [{"claim": named("key")}, {"name": "key"}],
        "self": {"me": named("wheel")},
    }
    assert made["metadata"]["labels"]["for"] == "conf"
    assert json.loads(made["metadata"]["annotations"][REFERENCES_ANNOTATION])[0] == "/spec/config", "it stays to read"


def test_place_that_two_paths_name_is_rewritten_once() -> None:
    """A second rewriting would cut the suffix of the first into a longer one."""
    made = render(widget(["/spec/a", "/spec/*"], ["/t"], spec={"a": "conf"}, t={"spec": {}}))
    assert made["spec"] == {"a": named("conf")}
    both = {"spec": {"imagePullSecrets": [{"name": "conf"}]}}
    secret = {**SECRET, "metadata": {"name": "conf"}}
    made = render(widget(["/t/spec/imagePullSecrets/0/name"], ["/t"], t=both), secret)
    assert made["t"]["spec"]["imagePullSecrets"] == [{"name": named("conf")}]
    env = [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "conf", "key": "k"}}}]
    path = "/spec/containers/0/env/0/valueFrom/configMapKeyRef/name"
    pod = {**widget([path], spec={"containers": [{"name": "c", "env": env}]}), "apiVersion": "v1", "kind": "Pod"}
    (container,) = render(pod)["spec"]["containers"]
    assert container["env"][0]["valueFrom"]["configMapKeyRef"]["name"] == named("conf"), "the table has it, too"


def test_labels_and_annotations_are_rewritten_and_ours_are_not() -> None:
    """The user's own; the queue is called as an object of the bag here."""
    made = render(widget(["/metadata/labels/*"]))
    assert made["metadata"]["labels"]["for"] == named("conf")
    assert made["metadata"]["labels"]["argosy.dev/queue"] == "conf"
    assert made["metadata"]["labels"]["job"] == "conf"


def test_pod_may_declare_names_in_variables_and_arguments() -> None:
    """A bag of one pod, too, which may ask for its own name."""
    env = [{"name": "ME", "value": "work"}, {"name": "WORD", "value": "work"}]
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "work", "annotations": {REFERENCES_ANNOTATION: '["/spec/containers/*/env/0/value"]'}},
        "spec": {"containers": [{"name": "work", "env": env}]},
    }
    (container,) = BagTemplate(json.dumps([manifest]).encode()).render(0, RUN)["spec"]["containers"]
    assert container == {"name": "work", "env": [{"name": "ME", "value": named("work")}, env[1]]}


@pytest.mark.parametrize(
    "wrap", [lambda spec: {"metadata": {}, "spec": spec}, lambda spec: spec], ids=["template", "spec"]
)
def test_table_of_pods_holds_in_declared_pod_templates(wrap: Any) -> None:
    """Objects of the bag by kind and namespace; what is outside the bag, and other templates, stay."""
    spec = {
        "containers": [{"name": "conf", "envFrom": [{"configMapRef": {"name": "conf"}}]}],
        "volumes": [{"name": "conf", "configMap": {"name": "conf"}}, {"secret": {"secretName": "conf"}}],
        "imagePullSecrets": [{"name": "key"}],
    }
    made = render(
        widget(None, ["/roles/*/template"], roles={"a": {"template": wrap(spec)}, "b": {"other": wrap(spec)}})
    )
    assert made["roles"]["a"]["template"] == wrap(
        {
            "containers": [{"name": "conf", "envFrom": [{"configMapRef": {"name": named("conf")}}]}],
            "volumes": [{"name": "conf", "configMap": {"name": named("conf")}}, {"secret": {"secretName": "conf"}}],
            "imagePullSecrets": [{"name": "key"}],
        }
    ), "the secret of that name is in another namespace"
    assert made["roles"]["b"]["other"] == wrap(spec)


@pytest.mark.parametrize(
    ("reference", "follows"),
    [
        pytest.param({"apiGroup": "example.test", "kind": "Widget"}, True, id="custom-resource"),
        pytest.param({"kind": "ConfigMap", "name": "conf"}, True, id="core"),
        pytest.param({"apiGroup": "networking.k8s.io", "kind": "Ingress", "name": "way"}, True, id="ingress"),
        pytest.param({"apiGroup": "other.test", "kind": "Widget"}, False, id="other-group"),
        pytest.param({"kind": "Widget"}, False, id="no-group"),
        pytest.param({"apiGroup": "example.test", "kind": "Gadget"}, False, id="other-kind"),
        pytest.param({"apiGroup": "example.test", "kind": "Widget", "namespace": "x"}, False, id="other-namespace"),
        pytest.param({"kind": "Secret", "name": "key", "namespace": "other"}, True, id="namespace-of-the-bag"),
        pytest.param({"kind": "Secret", "name": "key"}, False, id="secret-of-another-namespace"),
        pytest.param({"apiGroup": 5, "kind": []}, False, id="nonsense"),
    ],
)
def test_typed_references_of_known_kinds_follow_what_they_name(reference: dict[str, Any], *, follows: bool) -> None:
    """Claims and ingresses say kind and group beside the name, which may be those of a custom resource."""
    reference = {"name": "wheel", **reference}
    expected = {**reference, "name": named(reference["name"])} if follows else reference
    way = {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "way"}}
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "spec": {"dataSource": {}, "dataSourceRef": reference},
    }
    assert render(claim, widget(), way)["spec"]["dataSourceRef"] == expected
    rules = [{"http": {"paths": [{"backend": {"resource": reference}}]}}]
    ingress = {**way, "spec": {"defaultBackend": {"resource": reference}, "rules": rules}}
    spec = render(ingress, widget())["spec"]
    assert spec["defaultBackend"]["resource"] == expected
    assert spec["rules"][0]["http"]["paths"][0]["backend"]["resource"] == expected


def test_declaration_that_submit_never_accepts_is_refused_with_its_place() -> None:
    """The body may be anything; nothing is made with a wrong name."""
    with pytest.raises(InvalidRequest, match=r"manifests\[0\].*/spec holds 'nobody'"):
        render(widget(["/spec"], spec="nobody"))

"""What objects declare of their references: what is found, and everything that is refused at submit."""

from __future__ import annotations

import json
from typing import Any

import pytest

from argosy_core.job.reading.references import (
    MAX_PATH_COUNT,
    MAX_STEP_COUNT,
    POD_TEMPLATES_ANNOTATION,
    REFERENCES_ANNOTATION,
)
from argosy_core.job.reading.spec import Bag, SpecLimits, read_bag

LIMITS = SpecLimits()
CONTAINER = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "conf"}}
SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}}


def annotations(references: object = None, templates: object = None) -> dict[str, Any]:
    """Return annotations; lists become JSON."""
    given = {REFERENCES_ANNOTATION: references, POD_TEMPLATES_ANNOTATION: templates}
    return {key: json.dumps(value) if isinstance(value, list) else value for key, value in given.items() if value}


def widget(references: object = None, templates: object = None, **fields: Any) -> dict[str, Any]:
    """Return a custom resource that declares something."""
    return {
        "apiVersion": "example.test/v1",
        "kind": "Widget",
        "metadata": {"name": "wheel", "annotations": annotations(references, templates)},
        **fields,
    }


def config(references: object = None, templates: object = None, **fields: Any) -> dict[str, Any]:
    """Return a config map that declares something."""
    return {**CONFIG, "metadata": {"name": "other", "annotations": annotations(references, templates)}, **fields}


def pod(references: object = None, templates: object = None, **fields: Any) -> dict[str, Any]:
    """Return a pod that declares something; fields go to its container."""
    metadata = {"name": "work", "annotations": annotations(references, templates)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [{**CONTAINER, **fields}]}}


def read(*manifests: dict[str, Any]) -> Bag:
    """Read a bag of the manifests, a config map `conf`, a secret `key` and a pod `work` if none is given."""
    others = [CONFIG, SECRET] + ([] if any(one.get("kind") == "Pod" for one in manifests) else [pod()])
    return read_bag([json.dumps(manifest).encode() for manifest in [*manifests, *others]], LIMITS)


@pytest.mark.parametrize(
    "manifest",
    [
        pytest.param(widget(["/spec/name"], spec={"name": "conf"}), id="one"),
        pytest.param(widget(["/data/0", "/data/1"], data=["conf", "key"]), id="positions"),
        pytest.param(widget(["/spec/*/name"], spec=[{"name": "conf"}, {"other": 1}, {"name": "key"}]), id="array"),
        pytest.param(widget(["/spec/*"], spec={"a": "conf", "b": "key"}), id="map"),
        pytest.param(widget(["/spec/a~1b/c~0d"], spec={"a/b": {"c~d": "work"}}), id="escapes"),
        pytest.param(widget(["/spec/~01"], spec={"~1": "work"}), id="escaped-tilde-before-a-one"),
        pytest.param(widget(["/spec/7"], spec={"7": "work"}), id="number-as-key"),
        pytest.param(widget(["/spec/x", "/spec/*"], spec={"x": "wheel"}), id="one-place-by-two-paths"),
        pytest.param(widget(templates=["/spec/roles/*"], spec={"roles": {"a": {"spec": {}}}}), id="template"),
        pytest.param(widget(templates=["/pod"], pod={"containers": []}), id="pod-spec"),
        pytest.param(pod(["/spec/containers/0/env/0/value"], env=[{"name": "A", "value": "conf"}]), id="environment"),
        pytest.param(pod(["/spec/containers/*/args/1"], args=["-c", "key"]), id="argument"),
        pytest.param(
            {**CONFIG, "metadata": {"annotations": annotations(["/data/a"])}, "data": {"a": "key"}}, id="data"
        ),
    ],
)
def test_declared_references_are_taken(manifest: dict[str, Any]) -> None:
    """Pointers with `*` lead to names of objects of any kind of the bag; elements without the rest are passed over."""
    assert read(manifest).violations == ()


def test_name_that_the_layout_gives_can_be_referred_to() -> None:
    """An object without a name has the one of its kind."""
    bag = read(widget(["/name"], name="configmap"), {"apiVersion": "v1", "kind": "ConfigMap"})
    assert bag.violations == ()
    assert ("ConfigMap", "configmap") in bag.layout


FORM = "must be a JSON array of paths"
REFUSED = [
    pytest.param(widget("/spec/name", spec={"name": "conf"}), FORM, id="no-json"),
    pytest.param(widget('"/spec"'), FORM, id="string"),
    pytest.param(widget("[]"), FORM, id="empty"),
    pytest.param(widget('["/a", 5]'), FORM, id="number-among-paths"),
    pytest.param(widget("[" * 10_000), FORM, id="deep"),
    pytest.param(widget(["/" + "a" * 5000] * 4), "has 200", id="long-text"),
    pytest.param(widget(["/spec"] * (MAX_PATH_COUNT + 1)), f"at most {MAX_PATH_COUNT}", id="many-paths"),
    pytest.param(widget(["/" + "a" * 1024]), "too long", id="long-path"),
    pytest.param(widget(["/spec" * 65]), "64 steps", id="deep-path"),
    pytest.param(widget(["spec/name"], spec={"name": "conf"}), "begins with /", id="no-slash"),
    pytest.param(widget(["spec.name"], spec={"name": "conf"}), "begins with /", id="dots"),
    pytest.param(widget([""]), "begins with /", id="whole-object"),
    pytest.param(widget(["/a~2"]), "~ is written ~0", id="bad-escape"),
    pytest.param(widget(["/a~"]), "~ is written ~0", id="escape-at-the-end"),
    pytest.param(widget(["/*/name"], spec={"name": "conf"}), "must begin with a key", id="all-keys"),
    pytest.param(widget(["/kind"]), "must begin with a key", id="kind"),
    pytest.param(widget(["/apiVersion"]), "must begin with a key", id="api-version"),
    pytest.param(widget(["/status/x"], status={"x": "conf"}), "must begin with a key", id="status"),
    pytest.param(widget(["/metadata/name"]), "only single labels", id="own-name"),
    pytest.param(widget(["/metadata/namespace"]), "only single labels", id="namespace"),
    pytest.param(widget(["/metadata/labels"]), "only single labels", id="all-labels"),
    pytest.param(widget(["/metadata/annotations/argosy.dev~1references"]), "reserved", id="itself"),
    pytest.param(widget(["/spec/nam"], spec={"name": "conf"}), "leads to nothing; /spec has no 'nam'", id="misspelt"),
    pytest.param(widget(["/spec/name"]), "leads to nothing; the object has no 'spec'", id="no-spec"),
    pytest.param(widget(["/spec/*/x"], spec=[]), "leads to nothing; /spec has no '*'", id="empty-array"),
    pytest.param(widget(["/spec/*/x"], spec=[{}, {"y": "conf"}]), "/spec/0 has no 'x'", id="no-element-has-it"),
    pytest.param(widget(["/spec/name/x"], spec={"name": "conf"}), "/spec/name has no 'x'", id="below-a-string"),
    pytest.param(widget(["/spec/2"], spec=["conf", "key"]), "/spec has no '2'", id="position-behind-the-end"),
    pytest.param(widget(["/spec/01"], spec=["conf", "key"]), "/spec has no '01'", id="position-with-a-zero"),
    pytest.param(widget(["/spec/-1"], spec=["conf", "key"]), "/spec has no '-1'", id="position-from-the-end"),
    pytest.param(widget(["/spec/\u0661"], spec=["conf", "key"]), "has no '\u0661'", id="position-in-other-digits"),
    pytest.param(widget(["/spec/name"], spec={"name": None}), "/spec/name holds no string", id="null"),
    pytest.param(widget(["/spec"], spec={"name": "conf"}), "/spec holds no string", id="map-as-a-name"),
    pytest.param(widget(["/spec/name"], spec={"name": "cnf"}), "/spec/name holds 'cnf', which no object", id="nobody"),
    pytest.param(widget(["/spec/*"], spec=["conf", "x"]), "/spec/1 holds 'x', which no object", id="one-is-nobody"),
    pytest.param(widget(["/spec/x"], spec={"x": "conf "}), "which no object", id="not-quite-the-name"),
    pytest.param(pod(["/spec/nodeSelector/a"]), "of a pod, only env", id="pod-node-selector"),
    pytest.param(pod(["/spec/*/0/env"]), "of a pod, only env", id="pod-star"),
    pytest.param(pod(["/spec/containers/0/image"], image="conf"), "of a pod, only env", id="pod-image"),
]


@pytest.mark.parametrize(("manifest", "text"), REFUSED)
def test_bad_declarations_are_refused_with_manifest_path_and_reason(manifest: dict[str, Any], text: str) -> None:
    """Whatever would lead nowhere in the cluster is said at submit, under the annotation of its manifest."""
    violations = read(manifest).violations
    assert {violation.field for violation in violations} == {
        f"manifests[0].metadata.annotations.{REFERENCES_ANNOTATION}"
    }
    assert any(text in violation.description for violation in violations)
    assert all(len(violation.description) < 600 for violation in violations)


@pytest.mark.parametrize(
    ("manifest", "text"),
    [
        pytest.param(pod(templates=["/spec"]), "is for custom resources", id="pod"),
        pytest.param(
            {**CONFIG, "metadata": {"annotations": annotations(None, ["/data"])}}, "ConfigMap", id="known-kind"
        ),
        pytest.param(widget(None, "x"), FORM, id="no-json"),
        pytest.param(widget(None, ["/spec/x"], spec={}), "leads to nothing", id="nothing-there"),
        pytest.param(widget(None, ["/spec/*"], spec=[{"spec": {}}, 5]), "/spec/1 holds no pod template", id="number"),
        pytest.param(widget(None, ["/spec"], spec={"spec": 5}), "/spec holds no pod template", id="spec-is-a-number"),
    ],
)
def test_bad_pod_templates_are_refused(manifest: dict[str, Any], text: str) -> None:
    """A template is an object with a spec, or a pod's spec itself, within a custom resource."""
    (violation,) = read(manifest).violations
    assert violation.field == f"manifests[0].metadata.annotations.{POD_TEMPLATES_ANNOTATION}"
    assert text in violation.description


@pytest.mark.parametrize("value", [5, None, ["/spec"], {}], ids=str)
def test_declaration_that_is_no_string_is_refused_as_every_annotation(value: object) -> None:
    """Kubernetes' annotations are strings."""
    manifest = widget()
    manifest["metadata"]["annotations"][REFERENCES_ANNOTATION] = value
    (violation,) = read(manifest).violations
    assert "must be an annotation" in violation.description


def test_everything_wrong_with_declarations_is_listed_at_once() -> None:
    """Each path and each place has its own line."""
    faults = read(
        widget(["/spec/a", "/spec/b", "x", "/spec/c"], spec={"a": "nobody", "c": 5}), pod(["/kind"])
    ).violations
    assert len(faults) == 5
    assert {fault.field.partition(".")[0] for fault in faults} == {"manifests[0]", "manifests[1]"}


def test_names_are_not_judged_while_an_object_cannot_be_read() -> None:
    """The name may be that of the object which is refused for something else."""
    bad = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}}
    assert [fault.field for fault in read(widget(["/x"], x="web"), bad).violations] == ["manifests[1].kind"]


def test_reserved_prefix_stays_reserved_beside_declarations() -> None:
    """Only the two annotations are the user's, and not as labels."""
    manifest = widget(["/x"], x="conf")
    manifest["metadata"]["labels"] = {REFERENCES_ANNOTATION: "x"}
    manifest["metadata"]["annotations"]["argosy.dev/references2"] = "x"
    assert [fault.description for fault in read(manifest).violations] == ["this prefix is reserved"] * 2


def test_paths_that_lead_over_too_much_are_refused() -> None:
    """What is looked at is bounded over all paths of an object, however many elements they multiply."""
    manifest = widget(["/spec/*/*"] * MAX_PATH_COUNT, spec=[["conf"] * 100] * 99)
    (violation,) = read(manifest).violations
    assert f"more than {MAX_STEP_COUNT} places" in violation.description
    assert read(widget(["/spec/*/*"], spec=[["conf"] * 100] * 98)).violations == ()

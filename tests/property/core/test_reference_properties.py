"""Rewriting touches exactly the places that an object declares, whatever stands beside them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from hypothesis import given, settings
from hypothesis import strategies as st

from argosy_core.job.reading.findings import Findings
from argosy_core.job.reading.naming import object_name
from argosy_core.job.reading.references import POD_TEMPLATES_ANNOTATION, REFERENCES_ANNOTATION, read_declarations
from argosy_core.job.reading.spec import SpecLimits, read_bag
from argosy_core.reconcile.rendering import BagTemplate, RunIdentity

NAMES: Final = ("conf", "conf-a", "a.b", "pod", "n" * 60)
"""Names of the bag's objects."""
KEYS: Final = st.sampled_from(["a", "b", "a/b", "~", "~1", "0", "1", "*", "", "name", "é", "spec", "containers"])


def documents(leaf: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return documents of nested arrays and maps with such leaves."""
    return st.recursive(
        leaf,
        lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
        max_leaves=12,
    )


OF_NAMES: Final = documents(st.sampled_from(NAMES))
VALUES: Final = documents(
    st.one_of(st.sampled_from([*NAMES, "other", "conf ", ""]), st.none(), st.booleans(), st.integers(0, 9))
)
RUN: Final = RunIdentity(installation="i", handle=(1 << 50) + 12345, ordinal=7, id_high=1, queue="q", job_set="s")
CONTAINER: Final = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}

Place = tuple[str | int, ...]


def leaves(value: Any, place: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Yield every place of a document that holds no array and no map."""
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(item, (*place, key))
    else:
        yield place, value


def pointer(place: Place) -> str:
    """Return a JSON pointer."""
    return "".join("/" + str(key).replace("~", "~0").replace("/", "~1") for key in place)


def is_named(place: Place, path: str) -> bool:
    """Return whether a path of the annotation leads to a place; written anew, on texts."""
    wanted, found = path.split("/"), pointer(place).split("/")
    return len(wanted) == len(found) and all(one in ("*", other) for one, other in zip(wanted, found, strict=True))


def manifests(spec: Any, paths: list[str], templates: list[str] | None = None) -> list[dict[str, Any]]:
    """Return a bag of a custom resource and all that it may refer to."""
    notes = {REFERENCES_ANNOTATION: json.dumps(paths)} if paths else {}
    notes |= {POD_TEMPLATES_ANNOTATION: json.dumps(templates)} if templates else {}
    own = {"apiVersion": "x.test/v1", "kind": "Own", "metadata": {"name": "own", "annotations": notes}, "spec": spec}
    configs = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}} for name in NAMES]
    return [own, *configs, {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [CONTAINER]}}]


@settings(max_examples=200, deadline=None)
@given(data=st.data(), spec=st.one_of(OF_NAMES, OF_NAMES, VALUES))
def test_rewriting_touches_exactly_the_declared_places(data: st.DataObject, spec: Any) -> None:
    """Accepted: the named places have the run's names and all others are as they were. Refused: a reason is true."""
    everywhere = [place for place, _ in leaves(spec, ("spec",))] or [("spec",)]
    drawn = data.draw(st.lists(st.sampled_from(everywhere), min_size=1, max_size=3))
    paths = []
    for place in drawn:
        stars = data.draw(st.sets(st.integers(1, 4), max_size=2))
        steps = pointer(place).split("/")[1:]
        paths.append("".join("/" + ("*" if depth in stars else step) for depth, step in enumerate(steps)))
    named = {place: value for place, value in leaves(spec, ("spec",)) if any(is_named(place, path) for path in paths)}
    bag = read_bag([json.dumps(one).encode() for one in manifests(spec, paths)], SpecLimits())
    if not set(named.values()) <= set(NAMES):
        assert bag.violations
        return
    if bag.violations:
        # Paths with `*` may lead to arrays and maps beside the places; nothing else is wrong.
        assert all("holds no string" in violation.description for violation in bag.violations), bag.violations
        return
    made = BagTemplate(bag.body).render(0, RUN)
    expected = {
        place: object_name(value, RUN.handle, RUN.ordinal) if place in named else value
        for place, value in leaves(spec, ("spec",))
    }
    assert dict(leaves(made["spec"], ("spec",))) == expected


@settings(max_examples=100, deadline=None)
@given(spec=st.dictionaries(KEYS, VALUES, max_size=3), text=st.text('/*~01ab"[], spec', max_size=30))
def test_any_declaration_is_accepted_and_rendered_or_refused(spec: dict[str, Any], text: str) -> None:
    """No text and no document leads to a fault; what submit accepts, rendering does."""
    for key in (REFERENCES_ANNOTATION, POD_TEMPLATES_ANNOTATION):
        for value in (text, json.dumps([text]), json.dumps([f"/spec/{text}"])):
            bag_manifests = manifests(spec, [])
            bag_manifests[0]["metadata"]["annotations"] = {key: value}
            bag = read_bag([json.dumps(one).encode() for one in bag_manifests], SpecLimits())
            if not bag.violations:
                BagTemplate(bag.body).render(0, RUN)


@given(spec=VALUES, place=st.sampled_from(["/spec", "/spec/*", "/spec/a", "/spec/*/*"]))
def test_declared_templates_are_pods_specs_wherever_they_stand(spec: Any, place: str) -> None:
    """Either each place holds a template and its spec is found, or the annotation is refused."""
    findings = Findings()
    own = manifests(spec, [], [place])[0]
    declared = read_declarations(own, kind="Own.x.test", path="m", findings=findings)
    assert bool(declared.pod_specs) or bool(findings.violations)
    assert all(isinstance(found, dict) for found in declared.pod_specs)

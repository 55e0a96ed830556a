"""Places in a manifest that its author declares to hold names of objects of the same bag.

Where pods, ingresses and claims refer to other objects is known, and one table has it. Where a custom resource does,
only its controller knows; and names stand in arguments and variables of containers, too. So an object may say it, by
two annotations, each a JSON array of paths. A path is a JSON pointer (RFC 6901) in which `*` stands for every element
of an array or every value of a map:

    argosy.dev/references: '["/spec/settings/configMapName", "/spec/disks/*/claimName"]'
    argosy.dev/pod-templates: '["/spec/template"]'

The first names places that hold the name of an object of the bag. The second, for custom resources, names places with a
pod template, or a pod's spec, in which the table of references of pods holds.

What is declared is found or refused: a path that finds nothing, or a place that holds no name of the bag, is a mistake
that would show only in the cluster. The name of a run's object follows from its name in the manifest alone, whatever
kind and namespace it is of, so a name that several objects share leads to one answer.

Source: design section 3, "references inside the bag ... are rewritten by one table".
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from argosy_core.job.reading.findings import Findings
from argosy_core.job.reading.kinds import POD
from argosy_core.job.reading.policy import is_reserved_key

__all__ = [
    "DECLARATIONS",
    "POD_TEMPLATES_ANNOTATION",
    "REFERENCES",
    "REFERENCES_ANNOTATION",
    "REFERENCE_PATHS",
    "TYPED",
    "Declared",
    "Place",
    "check_names",
    "foreign_references",
    "has_declarations",
    "read_declarations",
]

REFERENCES_ANNOTATION: Final = "argosy.dev/references"
"""Annotation with the paths of names of other objects of the bag."""
POD_TEMPLATES_ANNOTATION: Final = "argosy.dev/pod-templates"
"""Annotation with the paths of pod templates and specs of pods."""
DECLARATIONS: Final = (REFERENCES_ANNOTATION, POD_TEMPLATES_ANNOTATION)
"""The annotations that only users write, though their prefix is ours."""

MAX_TEXT_LENGTH: Final = 16_384
"""Characters of one annotation."""
MAX_PATH_COUNT: Final = 64
"""Paths of one annotation."""
MAX_PATH_LENGTH: Final = 1024
"""Characters of one path."""
MAX_PATH_DEPTH: Final = 64
"""Steps of one path."""
MAX_STEP_COUNT: Final = 10_000
"""Places that the paths of one object may lead over, `*` counted for each element; each is looked at once."""

_OWNED: Final = frozenset({"ConfigMap", "Secret", "PersistentVolumeClaim", ""})
_EXAMPLE: Final = '\'["/spec/configMapName", "/spec/disks/*/claimName"]\''
_ESCAPE: Final = re.compile(r"~(?![01])")
_POSITION: Final = re.compile(r"0|[1-9][0-9]{0,5}")
_MAX_SHOWN: Final = 200
_NO_REFERENCES: Final = frozenset({"apiVersion", "kind", "status", "*"})
_POD_PLACES: Final = (
    (("spec",), ("containers", "initContainers"), None, ("env", "args", "command")),
    (("spec",), ("volumes",), None, ("csi",), ("volumeAttributes",)),
)
"""Below what a pod may declare references, None for any step: only where no rule and no scheduler looks."""


TYPED: Final = ""
"""Stands in the table where kind, apiGroup and namespace beside the name say what is referred to."""
REFERENCES: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "Pod": (
        ("spec.volumes.*.configMap.name", "ConfigMap"),
        ("spec.volumes.*.secret.secretName", "Secret"),
        ("spec.volumes.*.persistentVolumeClaim.claimName", "PersistentVolumeClaim"),
        ("spec.volumes.*.csi.nodePublishSecretRef.name", "Secret"),
        ("spec.volumes.*.projected.sources.*.configMap.name", "ConfigMap"),
        ("spec.volumes.*.projected.sources.*.secret.name", "Secret"),
        ("spec.containers.*.env.*.valueFrom.configMapKeyRef.name", "ConfigMap"),
        ("spec.containers.*.env.*.valueFrom.secretKeyRef.name", "Secret"),
        ("spec.containers.*.envFrom.*.configMapRef.name", "ConfigMap"),
        ("spec.containers.*.envFrom.*.secretRef.name", "Secret"),
        ("spec.initContainers.*.env.*.valueFrom.configMapKeyRef.name", "ConfigMap"),
        ("spec.initContainers.*.env.*.valueFrom.secretKeyRef.name", "Secret"),
        ("spec.initContainers.*.envFrom.*.configMapRef.name", "ConfigMap"),
        ("spec.initContainers.*.envFrom.*.secretRef.name", "Secret"),
        ("spec.imagePullSecrets.*.name", "Secret"),
        ("spec.subdomain", "Service"),
    ),
    "Ingress": (
        ("spec.defaultBackend.service.name", "Service"),
        ("spec.defaultBackend.resource.name", TYPED),
        ("spec.rules.*.http.paths.*.backend.service.name", "Service"),
        ("spec.rules.*.http.paths.*.backend.resource.name", TYPED),
        ("spec.tls.*.secretName", "Secret"),
    ),
    "PersistentVolumeClaim": (
        ("spec.dataSource.name", TYPED),
        ("spec.dataSourceRef.name", TYPED),
    ),
}
"""(kind of the object that refers, where, kind it refers to): the one table of references inside a bag. Where no kind
stands, kind, apiGroup and namespace beside the name say it, so these may mean custom resources."""

REFERENCE_PATHS: Final = {
    kind: tuple((tuple(path.split(".")), target) for path, target in rows) for kind, rows in REFERENCES.items()
}
"""The same with paths as steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One place in a manifest."""

    parent: Any
    """Array or map that holds it."""
    key: str | int
    """Position or key in `parent`."""
    pointer: str
    """JSON pointer to it, without `*`."""

    def value(self) -> object:
        """Return what stands there now."""
        return self.parent[self.key]


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """What one object declares."""

    references: tuple[Place, ...]
    """Places that must hold names of the bag's objects, each once."""
    pod_specs: tuple[dict[str, Any], ...]
    """Pods' specs, each once."""
    path: str
    """Path of the object's manifest, for messages."""


class _TooManySteps(Exception):
    """The paths of an object lead over too much."""


def has_declarations(document: dict[str, Any]) -> bool:
    """Return whether an object declares anything. Complexity: two lookups."""
    metadata = document.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    return isinstance(annotations, dict) and (
        REFERENCES_ANNOTATION in annotations or POD_TEMPLATES_ANNOTATION in annotations
    )


def read_declarations(document: dict[str, Any], *, kind: str, path: str, findings: Findings) -> Declared:
    """Return what an object declares, and note what is wrong with it; names are left to `check_names`.

    Args:
        document: The manifest, for which `has_declarations`; the answer points into it.
        kind: Its kind, as `kind_name` gives it.
        path: Its path, for messages.
        findings: Takes what is wrong.

    Complexity: linear in the places that the paths lead over, at most `MAX_STEP_COUNT`.
    """
    annotations = document["metadata"]["annotations"]
    walk = _Walk(document)
    found: dict[str, list[Place]] = {key: [] for key in DECLARATIONS}
    for key in DECLARATIONS:
        if key not in annotations:
            continue
        field = f"{path}.metadata.annotations.{key}"
        if key == POD_TEMPLATES_ANNOTATION and "." not in kind:
            findings.add(field, f"is for custom resources; where a {kind} refers to other objects is known")
            continue
        for pointer in _read_paths(annotations[key], field, findings):
            steps = [_unescape(step) for step in pointer.split("/")[1:]]
            fault = _refuse_place(steps, kind)
            if not fault:
                try:
                    places, fault = walk.find(steps)
                except _TooManySteps:
                    findings.add(field, f"leads over more than {MAX_STEP_COUNT} places; name fewer")
                    break
                found[key].extend(places)
            if fault:
                findings.add(field, f"{_short(pointer)}: {fault}")
    pod_specs = {}
    for place in found[POD_TEMPLATES_ANNOTATION]:
        spec = _pod_spec(place.value())
        if spec is None:
            findings.add(
                f"{path}.metadata.annotations.{POD_TEMPLATES_ANNOTATION}",
                f"{_short(place.pointer)} holds no pod template: an object with a spec, or with containers",
            )
        else:
            pod_specs[id(spec)] = spec
    return Declared(
        references=tuple(_distinct(found[REFERENCES_ANNOTATION])), pod_specs=tuple(pod_specs.values()), path=path
    )


def check_names(declared: Declared, names: Collection[str], findings: Findings) -> None:
    """Note every declared reference that is no name of the bag's objects.

    Args:
        declared: What one object declares.
        names: Base names of all objects of the bag.
        findings: Takes what is wrong.
    """
    field = f"{declared.path}.metadata.annotations.{REFERENCES_ANNOTATION}"
    for place in declared.references:
        value = place.value()
        if not isinstance(value, str):
            findings.add(field, f"{_short(place.pointer)} holds no string; a reference is the name of an object")
        elif value not in names:
            findings.add(
                field,
                f"{_short(place.pointer)} holds {value[:63]!r}, which no object of the job is called; correct the "
                "name, or let no path lead there if it means something outside the job",
            )


def foreign_references(document: dict[str, Any], kind: str, path: str) -> list[tuple[str, str, str]]:
    """Return (path, kind, name) of every secret, config map and claim that an object names by the table.

    Complexity: linear in what the table's paths lead over.
    """
    found = []
    for steps, target in REFERENCE_PATHS.get(kind, ()):
        if target not in _OWNED:
            continue
        level: list[tuple[str, Any]] = [(path, document)]
        for step in steps:
            level = [
                (f"{place}[{key}]" if isinstance(key, int) else f"{place}.{key}", node[key])
                for place, node in level
                for key in _keys(node, step)
            ]
        found += [(place, target or "object", name) for place, name in level if isinstance(name, str)]
    return found


class _Walk:
    """Ways into one document, bounded over all paths."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._document = document
        self._left = MAX_STEP_COUNT

    def find(self, steps: list[str]) -> tuple[list[Place], str]:
        """Return the places that a path leads to, and why there are none.

        Raises:
            _TooManySteps: The bound is reached.
        """
        level = [Place(parent=(self._document,), key=0, pointer="")]
        for step in steps:
            reached: list[Place] = []
            for place in level:
                node: Any = place.value()
                for key in _keys(node, step):
                    self._left -= 1
                    if self._left < 0:
                        raise _TooManySteps
                    reached.append(Place(parent=node, key=key, pointer=f"{place.pointer}/{_escape(str(key))}"))
            if not reached:
                return [], f"leads to nothing; {_short(level[0].pointer) or 'the object'} has no {_short(step)!r}"
            level = reached
        return level, ""


def _read_paths(value: object, field: str, findings: Findings) -> list[str]:
    """Return the paths of one annotation that have the form of one."""
    if not isinstance(value, str):
        return []  # noted with all annotations
    if len(value) > MAX_TEXT_LENGTH:
        findings.add(field, f"has {len(value)} characters, at most {MAX_TEXT_LENGTH} are allowed")
        return []
    try:
        paths = json.loads(value)
    except (ValueError, RecursionError):
        paths = None
    if not isinstance(paths, list) or not paths or not all(isinstance(path, str) for path in paths):
        findings.add(field, f"must be a JSON array of paths, as {_EXAMPLE}")
        return []
    if len(paths) > MAX_PATH_COUNT:
        findings.add(field, f"holds {len(paths)} paths, at most {MAX_PATH_COUNT} are allowed; * names many places")
        return []
    good = []
    for path in paths:
        if not path.startswith("/") or _ESCAPE.search(path):
            findings.add(
                field,
                f"{_short(path)!r} is no path: it begins with /, and in keys ~ is written ~0, and / is written ~1",
            )
        elif len(path) > MAX_PATH_LENGTH or path.count("/") > MAX_PATH_DEPTH:
            findings.add(
                field,
                f"{_short(path)!r} is too long: at most {MAX_PATH_LENGTH} characters and {MAX_PATH_DEPTH} steps are "
                "allowed",
            )
        else:
            good.append(path)
    return good


def _refuse_place(steps: list[str], kind: str) -> str:
    """Return why a path may not lead where it does, or nothing."""
    if steps[0] == "metadata":
        if len(steps) != 3 or steps[1] not in ("labels", "annotations"):
            return "of the metadata, only single labels and annotations hold references, as /metadata/labels/KEY"
        return "this prefix is reserved" if is_reserved_key(steps[2]) else ""
    if steps[0] in _NO_REFERENCES:
        return "must begin with a key of the object other than apiVersion, kind and status, as /spec"
    if kind == POD and not any(_is_below(steps, pattern) for pattern in _POD_PLACES):
        return (
            "of a pod, only env, args and command of containers, volumeAttributes of volumes, labels and annotations "
            "can be declared; its other references are known"
        )
    return ""


def _is_below(steps: list[str], pattern: tuple[tuple[str, ...] | None, ...]) -> bool:
    """Return whether a path leads to something at or below a pattern."""
    return len(steps) >= len(pattern) and all(
        allowed is None or step in allowed for step, allowed in zip(steps, pattern, strict=False)
    )


def _pod_spec(value: object) -> dict[str, Any] | None:
    """Return the pod's spec of a pod template, or the value itself if it is one."""
    if not isinstance(value, dict):
        return None
    spec = value.get("spec")
    if isinstance(spec, dict):
        return spec
    return value if isinstance(value.get("containers"), list) else None


def _distinct(places: Iterable[Place]) -> Iterable[Place]:
    """Return places without repeats: two paths may lead to one."""
    return {place.pointer: place for place in places}.values()


def _keys(node: object, step: str) -> Collection[str | int]:
    """Return the keys or positions of a node that a step leads to."""
    if isinstance(node, dict):
        return list(node) if step == "*" else (step,) if step in node else ()
    if isinstance(node, list):
        if step == "*":
            return range(len(node))
        return (int(step),) if _POSITION.fullmatch(step) and int(step) < len(node) else ()
    return ()


def _escape(key: str) -> str:
    """Return a key as a step of a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1")


def _unescape(step: str) -> str:
    """Return the key that a step of a JSON pointer names."""
    return step.replace("~1", "/").replace("~0", "~")


def _short(text: str) -> str:
    """Return a text as messages show it; keys may be as long as a manifest."""
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."

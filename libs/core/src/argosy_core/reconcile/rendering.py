"""Making the manifest of one object of one run from the bag that the user gave.

What is added: the run's own name, our labels and annotations, the job's labels and annotations, the node. What is taken
away: what only a cluster writes. References between objects of the bag follow the new names by one table, and where
objects declare them (`job.references`); references to objects outside the bag stay.

Source: design section 3, "Objects of a run get the user's name with a run suffix; references inside the bag ... are
rewritten by one table. Labels carry installation, job and run".
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final

from argosy_core.errors import InvalidRequest
from argosy_core.job.identity import compose_id
from argosy_core.job.reading.findings import Findings
from argosy_core.job.reading.kinds import POD, kind_name, kind_of_group
from argosy_core.job.reading.naming import naming_ordinal, object_name
from argosy_core.job.reading.pod_groups import AWAITED_LABEL, GROUP_LABEL, MEMBER_NAME, MEMBER_NOTE, MemberSheet
from argosy_core.job.reading.references import (
    REFERENCE_PATHS,
    TYPED,
    Declared,
    check_names,
    has_declarations,
    read_declarations,
)
from argosy_core.job.reading.spec import base_names
from argosy_core.job.tables.members import (
    MAX_MEMBER,
    MAX_STORED_ATTEMPT,
    attempt_of,
    member_key,
    member_of,
    ordinal_of,
    place_of,
)

__all__ = [
    "DEFAULT_NAMESPACE",
    "INSTALLATION_LABEL",
    "JOB_LABEL",
    "JOB_SET_LABEL",
    "OBJECT_LABEL",
    "QUEUE_LABEL",
    "RUN_ANNOTATION",
    "RUN_LABEL",
    "BagTemplate",
    "RunIdentity",
    "label_value",
    "parse_run_label",
    "parse_run_mark",
    "run_label",
    "run_mark",
]

INSTALLATION_LABEL: Final = "argosy.dev/installation"
"""Label of the installation an object belongs to; objects without it, or of another, are never touched."""
JOB_LABEL: Final = "argosy.dev/job-id"
"""Label of the job id."""
RUN_LABEL: Final = "argosy.dev/run"
"""Label of the run, as `handle-attempt`, and `-member` behind it for others than 0."""
OBJECT_LABEL: Final = "argosy.dev/object"
"""Label of the position of the object in its bag."""
QUEUE_LABEL: Final = "argosy.dev/queue"
"""Label of the queue; the annotation of the same key has the name as it is."""
JOB_SET_LABEL: Final = "argosy.dev/job-set"
"""Label of the job set; the annotation of the same key has the name as it is."""

RUN_ANNOTATION: Final = "argosy.dev/object-of"
"""Annotation that says what the labels of installation, run and object say, see `run_mark`: people change labels."""

DEFAULT_NAMESPACE: Final = "default"
"""Namespace of objects whose manifests name none."""

_Places = dict[tuple[int, str | int], tuple[Any, str]]
"""What holds a name, and the kind of what is named, by its identity and the name's key in it."""
_CLUSTER_WRITTEN: Final = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "selfLink")
_NOT_IN_LABELS: Final = re.compile(r"[^A-Za-z0-9_.-]+")
_MAX_LABEL_LENGTH: Final = 63
_DIGEST_LENGTH: Final = 9  # '-' and eight digits


@dataclass(frozen=True, slots=True, kw_only=True)
class RunIdentity:
    """For whom an object is rendered."""

    installation: str
    """Installation the object is labelled with."""
    handle: int
    """Job handle."""
    ordinal: int
    """Attempt, from 1, and member."""
    id_high: int
    """Upper 64 bits of the job id."""
    queue: str
    """Queue name."""
    job_set: str
    """Job set name."""
    node: str = ""
    """Node that pods get."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of the job."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Annotations of the job."""


def run_label(handle: int, ordinal: int) -> str:
    """Return the value of the run label."""
    member = member_of(ordinal)
    return f"{handle}-{attempt_of(ordinal)}-{member}" if member else f"{handle}-{ordinal}"


def run_mark(installation: str, handle: int, ordinal: int, position: int) -> str:
    """Return the value of the annotation that says of which run an object is, and where it stands in its bag."""
    return f"{installation}/{run_label(handle, ordinal)}/{position}"


def parse_run_mark(text: str, installation: str) -> tuple[int, int, int] | None:
    """Return (handle, attempt, position) of an annotation of an installation, or None if it is none that we write."""
    label, _, position = text.removeprefix(f"{installation}/").partition("/")
    run = parse_run_label(label)
    if run is None or not (position.isdecimal() and position.isascii()):
        return None
    return (*run, int(position)) if text == run_mark(installation, *run, int(position)) else None


def parse_run_label(text: str) -> tuple[int, int] | None:
    """Return (handle, ordinal) of a run label, or None if the text is none that we write."""
    parts = text.split("-")
    if not (2 <= len(parts) <= 3 and all(part.isdecimal() and part.isascii() for part in parts)):
        return None
    handle, attempt, member = (*map(int, parts), 0)[:3]
    is_ours = handle < 1 << 55 and 1 <= attempt <= MAX_STORED_ATTEMPT and member <= MAX_MEMBER
    key = member_key(handle, attempt, member)
    return key if is_ours and run_label(*key) == text else None


def label_value(text: str) -> str:
    """Return a text as a label value: itself if it can be one, else cut and with a digest that keeps it distinct."""
    plain = _NOT_IN_LABELS.sub("_", text).strip("_.-")
    if plain == text and len(text) <= _MAX_LABEL_LENGTH:
        return text
    digest = blake2b(text.encode(errors="surrogatepass"), digest_size=4).hexdigest()
    head = plain[: _MAX_LABEL_LENGTH - _DIGEST_LENGTH].rstrip("_.-")
    return f"{head}-{digest}" if head else digest


class BagTemplate:
    """A spec's body, read once, from which the objects of any run are rendered.

    Args:
        body: JSON array of manifests in the order of the object index, as in `job_specs`.
        default_namespace: Namespace of objects that name none.

    Raises:
        InvalidRequest: The body is no array of objects; submit never accepts one.
    """

    def __init__(self, body: bytes, *, default_namespace: str = DEFAULT_NAMESPACE) -> None:
        """Read the kinds and names."""
        manifests = json.loads(body)
        if not isinstance(manifests, list) or not all(isinstance(manifest, dict) for manifest in manifests):
            raise InvalidRequest("a spec's body is not a JSON array of objects")
        self._texts = [json.dumps(manifest) for manifest in manifests]
        self.kinds: tuple[str, ...] = tuple(
            kind_name(str(manifest.get("kind")), str(manifest.get("apiVersion") or "")) for manifest in manifests
        )
        """Kinds by object index, custom resources with their group."""
        self.namespaces: tuple[str, ...] = tuple(
            str((manifest.get("metadata") or {}).get("namespace") or default_namespace) for manifest in manifests
        )
        """Namespaces by object index."""
        self.names: tuple[str, ...] = base_names(
            self.kinds, self.namespaces, [(manifest.get("metadata") or {}).get("name") for manifest in manifests]
        )
        """Base names by object index."""
        self._targets = frozenset(zip(self.kinds, self.namespaces, self.names, strict=True))

    def __len__(self) -> int:
        """Return the number of objects."""
        return len(self.kinds)

    def render(self, index: int, run: RunIdentity) -> dict[str, Any]:
        """Return the manifest of one object of one run; the caller may keep and change it.

        Args:
            index: Position of the object in the bag.
            run: For whom.

        Complexity: linear in the manifest.
        """
        manifest: dict[str, Any] = json.loads(self._texts[index])
        kind = self.kinds[index]
        manifest.pop("status", None)
        metadata = manifest["metadata"] = dict(manifest.get("metadata") or {})
        for key in _CLUSTER_WRITTEN:
            metadata.pop(key, None)
        if len(self) > 1 or has_declarations(manifest):
            self._rewrite_references(manifest, index, run)
        named = naming_ordinal(kind, self.names[index], run.ordinal)
        metadata["name"] = object_name(self.names[index], run.handle, named)
        metadata["namespace"] = self.namespaces[index]
        metadata["labels"] = {**(metadata.get("labels") or {}), **run.labels, **_our_labels(index, run)}
        metadata["annotations"] = {
            **(metadata.get("annotations") or {}),
            **run.annotations,
            QUEUE_LABEL: run.queue,
            JOB_SET_LABEL: run.job_set,
            RUN_ANNOTATION: run_mark(run.installation, run.handle, run.ordinal, index),
        }
        if kind == POD:
            sheet = metadata["annotations"].pop(MEMBER_NOTE, None)
            if sheet is not None:
                _tell_member(manifest, MemberSheet.parse(sheet), run)
            spec = manifest["spec"]
            spec["nodeName"] = run.node
            spec.setdefault("restartPolicy", "Never")
            spec.setdefault("automountServiceAccountToken", False)
        elif kind == "Service" and (manifest.get("spec") or {}).get("selector"):
            # Runs of one spec have equal labels of the user's; a service must not serve another run's pods.
            manifest["spec"]["selector"][RUN_LABEL] = run_label(run.handle, run.ordinal)
        return manifest

    def _rewrite_references(self, manifest: dict[str, Any], index: int, run: RunIdentity) -> None:
        """Give every reference the new name: first all are found, so that none is rewritten twice."""
        namespace = self.namespaces[index]
        places: _Places = {}
        for path, target in REFERENCE_PATHS.get(self.kinds[index], ()):
            self._find(manifest, path, target, namespace=namespace, places=places)
        if has_declarations(manifest):
            declared = self._read_declared(manifest, index)
            for place in declared.references:
                places[id(place.parent), place.key] = place.parent, ""
            for spec in declared.pod_specs:
                for path, target in REFERENCE_PATHS[POD]:
                    self._find(spec, path[1:], target, namespace=namespace, places=places)
        for (_, key), (parent, kind) in places.items():
            parent[key] = object_name(parent[key], run.handle, naming_ordinal(kind, parent[key], run.ordinal))

    def _read_declared(self, manifest: dict[str, Any], index: int) -> Declared:
        """Return what an object declares.

        Raises:
            InvalidRequest: Something is wrong with it; submit never accepts it.
        """
        findings = Findings()
        declared = read_declarations(manifest, kind=self.kinds[index], path=f"manifests[{index}]", findings=findings)
        check_names(declared, frozenset(self.names), findings)
        for violation in findings.violations:
            raise InvalidRequest(f"{violation.field}: {violation.description}")
        return declared

    def _find(self, node: object, path: tuple[str, ...], target: str, *, namespace: str, places: _Places) -> None:
        """Find every reference at a path whose object is in the bag."""
        step, rest = path[0], path[1:]
        if step == "*":
            for item in node if isinstance(node, list) else ():
                self._find(item, rest, target, namespace=namespace, places=places)
        elif isinstance(node, dict) and step in node:
            if rest:
                self._find(node[step], rest, target, namespace=namespace, places=places)
            elif isinstance(node[step], str) and (*_meant(node, target, namespace), node[step]) in self._targets:
                places[id(node), step] = node, target


def _meant(reference: dict[str, Any], target: str, namespace: str) -> tuple[str, str]:
    """Return the kind and namespace that a reference means, given those of the table."""
    if target != TYPED:
        return target, namespace
    return (
        kind_of_group(str(reference.get("kind")), str(reference.get("apiGroup") or "")),
        str(reference.get("namespace") or namespace),
    )


def _tell_member(pod: dict[str, Any], sheet: MemberSheet, run: RunIdentity) -> None:
    """Tell a member of a distributed job who it is, and where its peers are.

    Its host name is that of its service, so it calls itself what its peers call it. Variables of the user's come later
    and may be made of ours.
    """
    attempt, place = attempt_of(run.ordinal), place_of(member_of(run.ordinal))
    peers = [object_name(MEMBER_NAME, run.handle, ordinal_of(attempt, number)) for number in range(sheet.count)]
    told = {
        "ARGOSY_GROUP": sheet.group,
        "ARGOSY_MEMBER": str(place),
        "ARGOSY_MEMBER_COUNT": str(sheet.count),
        "ARGOSY_PEERS": ",".join(peers),
    }
    variables = [{"name": name, "value": value} for name, value in told.items()]
    spec = pod["spec"]
    spec["hostname"] = object_name(MEMBER_NAME, run.handle, ordinal_of(attempt, place))
    for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
        container["env"] = [*variables, *(container.get("env") or ())]
    pod["metadata"]["labels"] |= {GROUP_LABEL: sheet.group, **({AWAITED_LABEL: "true"} if sheet.is_awaited else {})}


def _our_labels(index: int, run: RunIdentity) -> dict[str, str]:
    """Return the labels that only we write."""
    return {
        INSTALLATION_LABEL: run.installation,
        JOB_LABEL: compose_id(run.id_high, run.handle),
        RUN_LABEL: run_label(run.handle, run.ordinal),
        OBJECT_LABEL: str(index),
        QUEUE_LABEL: label_value(run.queue),
        JOB_SET_LABEL: label_value(run.job_set),
    }

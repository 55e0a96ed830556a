"""Reading a job's spec: a bag of Kubernetes manifests becomes a scheduling class, a layout and a body.

A bag is read once per distinct spec (callers cache by `spec_hash`); jobs then carry the hash and the class only. Where
many specs are nearly alike, `spec_reader` reads them sooner.

In this version all pods of a bag are placed together on ONE node: the class asks for the sum of the pods' requests, and
their constraints must agree. Bags whose pods shall stand on several nodes are pod groups, a later capability.

Source: design section 3 ("A spec is a bag of Kubernetes objects", "hashes are over the bytes as received") and section
5 ("Pods come last in a bag"); seed 003, "Jobs".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final

from argosy_core.errors import FieldViolation
from argosy_core.job.reading.classes import SchedulingClass
from argosy_core.job.reading.constraints import NodeConstraints, merge_constraints, read_constraints
from argosy_core.job.reading.findings import Findings, is_dns_label, is_dns_name, is_label_key, is_label_value
from argosy_core.job.reading.kinds import KINDS, POD, check_kind
from argosy_core.job.reading.manifest_json import MalformedManifest, read_manifest
from argosy_core.job.reading.manifest_schema import check_fields
from argosy_core.job.reading.naming import MEMBER_BASE_LENGTH, object_label
from argosy_core.job.reading.options import UNSET
from argosy_core.job.reading.pod_rights import PodLevel, PodRights
from argosy_core.job.reading.policy import (
    APPARMOR_PREFIX,
    check_container,
    check_pod_spec,
    check_template,
    is_reserved_key,
)
from argosy_core.job.reading.references import (
    DECLARATIONS,
    Declared,
    check_names,
    foreign_references,
    has_declarations,
    read_declarations,
)
from argosy_core.job.reading.requests import Amounts, read_pod_requests
from argosy_core.job.reading.scaling import SCALING_ANNOTATIONS, scaling_fault
from argosy_core.job.reading.security_context import check_restricted
from argosy_core.resources import PODS, format_amount, max_job_amount

__all__ = ["POD", "Bag", "SpecLimits", "base_names", "read_bag", "spec_hash"]

_WRITTEN_BY_USERS: Final = frozenset(DECLARATIONS) | SCALING_ANNOTATIONS
_MIRROR_PREFIX: Final = "kubernetes.io/config."
_TOKEN_SECRETS: Final = frozenset({"kubernetes.io/service-account-token", "bootstrap.kubernetes.io/token"})
_EMPTY_CLASS: Final = SchedulingClass(requests=())
_MAX_DEADLINE_S: Final = 315_360_000
"""Ten years, as of a time limit; what is longer bounds nothing."""
_MAX_RESOURCE_COUNT: Final = 32
"""Different resources of one bag: each becomes a column wherever resources are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecLimits:
    """Bounds of what is accepted as a spec."""

    max_manifest_count: int = 32
    """Objects in one bag."""
    max_manifest_bytes: int = 262_144
    """Bytes of one manifest."""
    max_pod_bytes: int = 65_535
    """Bytes of a pod's manifest."""
    max_depth: int = 64
    """Nesting of objects and arrays."""
    max_label_count: int = 64
    """Labels, and annotations, of one object."""
    max_container_count: int = 64
    """Containers of one pod, init containers apart."""
    default_namespace: str = "default"
    """Namespace of objects that name none."""
    rights: PodRights = field(default_factory=PodRights)
    """What pods may do beyond the baseline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bag:
    """What a spec's manifests say. If `violations` is not empty, nothing else may be used."""

    scheduling_class: SchedulingClass
    """What the pods together need of their node."""
    class_definition: bytes
    """Its definition."""
    layout: tuple[tuple[str, str], ...]
    """(kind, base name) of each object in the order of creation: pods last. Positions are object indices; kinds are
    called as `kinds.kind_name` says."""
    namespaces: tuple[str, ...]
    """Distinct namespaces of the objects, sorted."""
    body: bytes
    """JSON array of the manifests, each as received, in the order of `layout`."""
    hash: bytes
    """`spec_hash` of the manifests."""
    deadline_s: int
    """Seconds after which its pods end by their own `activeDeadlineSeconds`; `UNSET` if one has none."""
    pod_labels: tuple[tuple[str, str], ...]
    """Labels of its pods, sorted; of a key that two pods have, the value of the first."""
    violations: tuple[FieldViolation, ...]
    """Everything that is wrong, with paths as `manifests[0].spec.containers[1].resources`; at most 100."""
    field_faults: tuple[FieldViolation, ...] = ()
    """Fields that their objects do not have, or that are of another type; at most 100. Only strict reading refuses."""
    warnings: tuple[FieldViolation, ...] = ()
    """What is allowed and probably not meant; at most 100."""

    def layout_definition(self) -> bytes:
        """Return the layout as JSON [[kind, name], ...], as it travels and is stored."""
        return _layout_definition(self.layout)


@lru_cache(maxsize=1024)
def _layout_definition(layout: tuple[tuple[str, str], ...]) -> bytes:
    """Return a layout as JSON; most jobs have one of a few."""
    return json.dumps(layout, separators=(",", ":")).encode()


def spec_hash(manifests: Sequence[bytes]) -> bytes:
    """Return 16 bytes that name a spec: BLAKE2b-128 over the manifests as received, each behind its length."""
    if len(manifests) == 1:  # most specs; twice as fast
        return blake2b(len(manifests[0]).to_bytes(4, "little") + manifests[0], digest_size=16).digest()
    return blake2b(
        b"".join([part for manifest in manifests for part in (len(manifest).to_bytes(4, "little"), manifest)]),
        digest_size=16,
    ).digest()


@dataclass(slots=True)
class _Reading:
    """What has been read of a bag so far."""

    limits: SpecLimits
    findings: Findings
    field_findings: Findings
    requests: Amounts = field(default_factory=dict)
    runtime_classes: dict[str, int] = field(default_factory=dict)
    constraints: NodeConstraints | None = None
    names: set[tuple[str, str, str]] = field(default_factory=set)
    namespaces: set[str] = field(default_factory=set)
    declared: list[Declared] = field(default_factory=list)
    deadlines_s: list[int] = field(default_factory=list)
    pod_labels: dict[str, str] = field(default_factory=dict)
    references: list[tuple[str, str, str]] = field(default_factory=list)


def read_bag(manifests: Sequence[bytes], limits: SpecLimits) -> Bag:
    """Return what a spec's manifests say, and everything that is wrong with them.

    Args:
        manifests: UTF-8 JSON, one Kubernetes object each.
        limits: Bounds of what is accepted.

    Complexity: linear in the bytes; measured 50 us for one small pod.
    """
    reading = _Reading(limits=limits, findings=Findings(), field_findings=Findings())
    findings = reading.findings
    if len(manifests) > limits.max_manifest_count:
        findings.add("manifests", f"holds {len(manifests)} objects, at most {limits.max_manifest_count} are allowed")
        manifests = manifests[: limits.max_manifest_count]
    others: list[tuple[bytes, tuple[str, str, str]]] = []
    pods: list[tuple[bytes, tuple[str, str, str]]] = []
    for index, manifest in enumerate(manifests):
        entry = _read_object(manifest, f"manifests[{index}]", reading)
        if entry is not None:
            (pods if entry[0] == POD else others).append((manifest, entry))
    if not pods and not findings.violations:
        findings.add("manifests", "holds no Pod; a job needs at least one")
    ordered = others + pods
    kinds = [entry[0] for _, entry in ordered]
    names = base_names(kinds, [entry[1] for _, entry in ordered], [entry[2] for _, entry in ordered])
    if len(ordered) == len(manifests):  # else what is referred to may be what could not be read
        for declared in reading.declared:
            check_names(declared, frozenset(names), findings)
    _check_total(reading.requests, findings, limits.rights)
    if limits.rights.own_objects_only:
        _check_foreign(reading, frozenset(names), findings)
    scheduling_class = _build_class(reading, len(pods))
    return Bag(
        scheduling_class=scheduling_class,
        class_definition=scheduling_class.definition(),
        layout=tuple(zip(kinds, names, strict=True)),
        namespaces=tuple(sorted(reading.namespaces)),
        body=b"[" + b",".join([manifest for manifest, _ in ordered]) + b"]",
        hash=spec_hash(manifests),
        deadline_s=UNSET if UNSET in reading.deadlines_s else max(reading.deadlines_s, default=UNSET),
        pod_labels=tuple(sorted(reading.pod_labels.items())),
        violations=tuple(findings.violations),
        field_faults=_besides(findings.violations, reading.field_findings.violations),
        warnings=tuple(reading.field_findings.warnings),
    )


def _besides(told: Sequence[FieldViolation], found: Sequence[FieldViolation]) -> tuple[FieldViolation, ...]:
    """Return what was found of fields of which nothing is told yet."""
    fields = {violation.field for violation in told}
    return tuple([violation for violation in found if violation.field not in fields])


def _check_foreign(reading: _Reading, names: Collection[str], findings: Findings) -> None:
    """Refuse references to objects that are neither of the bag nor shared with the queue."""
    for path, kind, name in reading.references:
        if name not in names and name not in reading.limits.rights.shared_objects:
            findings.add(
                path, f"names the {kind} {name[:63]!r}, which is neither the job's own nor shared with its queue"
            )


def _check_total(requests: Amounts, findings: Findings, rights: PodRights) -> None:
    """Refuse a bag whose pods together ask for more than can be counted, than any machine has, or than is granted."""
    for name, most in rights.max_requests:
        if requests.get(name, 0) > most:
            asked, granted = format_amount(name, requests[name]), format_amount(name, most)
            findings.add("manifests", f"asks for {asked} of {name}; its queue grants a job {granted}")
    if len(requests) > _MAX_RESOURCE_COUNT:
        findings.add(
            "manifests", f"asks for {len(requests)} different resources, at most {_MAX_RESOURCE_COUNT} are allowed"
        )
    for name, amount in requests.items():
        most = max_job_amount(name)
        if amount > most:
            findings.add("manifests", f"asks for more than {format_amount(name, most)} of {name} in all its pods")


def _build_class(reading: _Reading, pod_count: int) -> SchedulingClass:
    """Return the class of the summed requests and merged constraints."""
    requests, constraints = reading.requests, reading.constraints
    if constraints is None:
        return _EMPTY_CLASS
    if pod_count > 1:
        requests = {**requests, PODS: pod_count}
    return SchedulingClass(
        requests=tuple(sorted([item for item in requests.items() if item[1]])),
        node_selector=tuple(sorted(constraints.node_selector.items())),
        affinity=tuple(sorted(constraints.affinity)),
        tolerations=tuple(sorted(constraints.tolerations)),
        platforms=(constraints.platform,) if any(constraints.platform) else (),
        host_ports=tuple(sorted(constraints.host_ports)),
        runtime_classes=tuple(sorted(reading.runtime_classes.items())),
    )


def _read_object(manifest: bytes, path: str, reading: _Reading) -> tuple[str, str, str] | None:
    """Read one manifest into `reading`; return (kind, namespace, name), or None if it is no object of a bag."""
    findings, limits = reading.findings, reading.limits
    if len(manifest) > limits.max_manifest_bytes:
        findings.add(path, f"has {len(manifest)} bytes, at most {limits.max_manifest_bytes} are allowed")
        return None
    try:
        document = read_manifest(manifest, limits.max_depth)
    except MalformedManifest as fault:
        findings.add(path, str(fault))
        return None
    kind = check_kind(document.get("kind"), document.get("apiVersion"), path, findings)
    if kind is None:
        return None
    if kind in KINDS:
        check_fields(document, kind, path, reading.field_findings)
    else:
        check_template(document, path, findings, limits.rights)
    _check_granted_kind(kind, path, findings, limits.rights)
    if limits.rights.own_objects_only:
        reading.references += foreign_references(document, kind, path)
    namespace, name = _read_metadata(document.get("metadata"), kind, f"{path}.metadata", reading)
    if kind == POD:
        if len(manifest) > limits.max_pod_bytes:
            findings.add(path, f"has {len(manifest)} bytes, a pod at most {limits.max_pod_bytes}")
        _read_pod(document.get("spec"), f"{path}.spec", reading)
    elif kind in _READERS:
        _READERS[kind](document, path, findings)
    if has_declarations(document):
        reading.declared.append(read_declarations(document, kind=kind, path=path, findings=findings))
    return kind, namespace, name


def _check_granted_kind(kind: str, path: str, findings: Findings, rights: PodRights) -> None:
    """Refuse kinds that were not granted, and custom resources where it matters what their controllers' pods use."""
    if kind == POD or kind in rights.kinds:
        return
    if rights.kinds:
        findings.add(
            f"{path}.kind", f"{kind[:60]!r} is none of the queue's kinds: Pod, {', '.join(sorted(rights.kinds))}"
        )
    elif rights.own_objects_only and kind not in KINDS:
        text = "may use objects that are not the job's own, so the queue must name it among its kinds"
        findings.add(f"{path}.kind", f"{kind[:60]!r} {text}")


def _read_metadata(value: object, kind: str, path: str, reading: _Reading) -> tuple[str, str]:
    """Check an object's metadata; return its namespace, and its name or nothing."""
    findings, limits = reading.findings, reading.limits
    metadata = findings.mapping(value, path)
    namespace = findings.text(metadata.get("namespace"), f"{path}.namespace") or limits.default_namespace
    if not is_dns_label(namespace):
        findings.add(f"{path}.namespace", "must be a DNS label")
    reading.namespaces.add(namespace)
    name = findings.text(metadata.get("name"), f"{path}.name")
    if name and (not is_dns_name(name) or (kind == "Service" and not is_dns_label(name))):
        findings.add(f"{path}.name", "must be a DNS name: a-z, 0-9, '-' and '.', beginning and ending with a-z or 0-9")
    # What is kept of a name when the suffix of any member is put on must tell objects apart.
    stem = object_label(name, is_of_member=True).decode()
    if name and (kind, namespace, stem) in reading.names:
        findings.add(
            f"{path}.name",
            f"another {kind} of the job has a name that begins so; the first {MEMBER_BASE_LENGTH} count, '.' as '-'",
        )
    reading.names.add((kind, namespace, stem))
    for key in ("generateName", "ownerReferences", "finalizers"):
        if metadata.get(key):
            findings.add(f"{path}.{key}", "must not be set: the executor owns the object and its life")
    if "labels" in metadata:
        labels = _read_labels(metadata["labels"], f"{path}.labels", findings, limits.max_label_count)
        if kind == POD:
            reading.pod_labels = {**labels, **reading.pod_labels}
    if "annotations" in metadata:
        _read_annotations(metadata["annotations"], f"{path}.annotations", findings, limits)
    return namespace, name


def _default_name(kind: str, namespace: str, taken: set[tuple[str, str, str]]) -> str:
    """Return the name of an object that has none: its kind, longer if that is taken."""
    name = kind.partition(".")[0].lower()
    while (kind, namespace, name) in taken:
        name += "x"
    return name


def base_names(kinds: Sequence[str], namespaces: Sequence[str], names: Sequence[str | None]) -> tuple[str, ...]:
    """Return the names of a bag's objects, those that have none named as `read_bag` names them in its layout.

    Args:
        kinds: Kinds in the order of the layout, as `kind_name` gives them.
        namespaces: Namespaces, one per kind.
        names: Names as given, None or empty for none.
    """
    taken: set[tuple[str, str, str]] = set()
    for kind, namespace, name in zip(kinds, namespaces, names, strict=True):
        taken.add((kind, namespace, name or ""))
    answers: list[str] = []
    for kind, namespace, name in zip(kinds, namespaces, names, strict=True):
        answers.append(name or _default_name(kind, namespace, taken))
        taken.add((kind, namespace, answers[-1]))
    return tuple(answers)


def _read_labels(value: object, path: str, findings: Findings, max_count: int) -> dict[str, str]:
    """Check labels; return those that there is nothing wrong with."""
    labels = findings.mapping(value, path)
    if len(labels) > max_count:
        findings.add(path, f"has {len(labels)} labels, at most {max_count} are allowed")
        return {}
    right: dict[str, str] = {}
    for key, text in labels.items():
        if is_reserved_key(key):
            findings.add(f"{path}.{key[:80]}", "this prefix is reserved")
        elif not is_label_key(key) or not isinstance(text, str) or not is_label_value(text):
            findings.add(f"{path}.{key[:80]}", "must be a label: a valid key and a string value of at most 63")
        else:
            right[key] = text
    return right


def _read_annotations(value: object, path: str, findings: Findings, limits: SpecLimits) -> None:
    """Check annotations."""
    annotations = findings.mapping(value, path)
    if len(annotations) > limits.max_label_count:
        findings.add(path, f"has {len(annotations)} annotations, at most {limits.max_label_count} are allowed")
        return
    is_free = limits.rights.level == PodLevel.PRIVILEGED
    for key, text in annotations.items():
        place = f"{path}.{key[:80]}"
        if (is_reserved_key(key) and key not in _WRITTEN_BY_USERS) or key.startswith(_MIRROR_PREFIX):
            findings.add(place, "this prefix is reserved")
        elif not is_label_key(key) or not isinstance(text, str):
            findings.add(place, "must be an annotation: a valid key and a string value")
        elif key.startswith(APPARMOR_PREFIX) and not (is_free or _is_profile(text)):
            findings.add(place, "must be runtime/default or localhost/*")
    if not annotations.keys().isdisjoint(SCALING_ANNOTATIONS) and (fault := scaling_fault(annotations)):
        findings.add(path, fault)


def _is_profile(text: str) -> bool:
    return text == "runtime/default" or text.startswith("localhost/")


def _read_pod(value: object, path: str, reading: _Reading) -> None:
    """Read a pod's spec into `reading`."""
    findings, limits = reading.findings, reading.limits
    spec = findings.mapping(value, path)
    containers = findings.mappings(spec.get("containers"), f"{path}.containers")
    if not containers:
        findings.add(f"{path}.containers", "must hold at least one container")
        return
    if len(containers) > limits.max_container_count:
        findings.add(f"{path}.containers", f"holds {len(containers)}, at most {limits.max_container_count} are allowed")
        return
    check_pod_spec(spec, path, findings, rights=limits.rights)
    deadline_s = spec.get("activeDeadlineSeconds")
    reading.deadlines_s.append(deadline_s if type(deadline_s) is int and 0 < deadline_s <= _MAX_DEADLINE_S else UNSET)
    for index, container in enumerate(containers):
        check_container(container, f"{path}.containers[{index}]", findings, rights=limits.rights)
    init_containers = findings.mappings(spec.get("initContainers"), f"{path}.initContainers")
    for index, container in enumerate(init_containers):
        check_container(container, f"{path}.initContainers[{index}]", findings, rights=limits.rights)
    if limits.rights.level == PodLevel.RESTRICTED:
        places = [(f"{path}.containers[{index}]", one) for index, one in enumerate(containers)]
        places += [(f"{path}.initContainers[{index}]", one) for index, one in enumerate(init_containers)]
        check_restricted(spec, places, findings)
    for name, amount in read_pod_requests(
        spec, path, findings, containers=containers, init_containers=init_containers
    ).items():
        reading.requests[name] = reading.requests.get(name, 0) + amount
    _read_runtime_class(spec, path, reading)
    constraints = read_constraints(
        spec, path, findings, containers=containers, init_containers=init_containers, rights=limits.rights
    )
    if reading.constraints is None:
        reading.constraints = constraints
    else:
        reading.constraints = merge_constraints(reading.constraints, constraints, path, findings)


def _read_runtime_class(spec: dict[str, Any], path: str, reading: _Reading) -> None:
    """Read which RuntimeClass a pod names; one that says its overhead itself has that among its requests."""
    name = reading.findings.text(spec.get("runtimeClassName"), f"{path}.runtimeClassName")
    if name and not is_dns_name(name):
        reading.findings.add(f"{path}.runtimeClassName", "must be the name of a RuntimeClass: a DNS name")
    elif name and "overhead" not in spec:
        reading.runtime_classes[name] = reading.runtime_classes.get(name, 0) + 1


def _read_service(document: dict[str, Any], path: str, findings: Findings) -> None:
    """Refuse services that take addresses which are not theirs."""
    spec = findings.mapping(document.get("spec"), f"{path}.spec")
    if spec.get("type") == "NodePort":
        findings.add(f"{path}.spec.type", "must not be NodePort: it would take a port of every node")
    if spec.get("externalIPs"):
        findings.add(f"{path}.spec.externalIPs", "must not be set: it would take traffic of other addresses")


def _read_secret(document: dict[str, Any], path: str, findings: Findings) -> None:
    """Refuse secrets that the cluster would fill with a token."""
    if findings.text(document.get("type"), f"{path}.type") in _TOKEN_SECRETS:
        findings.add(f"{path}.type", "jobs of this installation get no tokens of the API server")


def _read_claim(document: dict[str, Any], path: str, findings: Findings) -> None:
    """Refuse claims that pick a volume by name, which may be another tenant's."""
    spec = findings.mapping(document.get("spec"), f"{path}.spec")
    if spec.get("volumeName"):
        findings.add(f"{path}.spec.volumeName", "must not be set: claims are bound by the cluster")


def _read_ingress(document: dict[str, Any], path: str, findings: Findings) -> None:
    """Check that there is a spec."""
    findings.mapping(document.get("spec"), f"{path}.spec")


def _read_config_map(document: dict[str, Any], path: str, findings: Findings) -> None:
    """Check that the data is text by key."""
    for key, text in findings.mapping(document.get("data"), f"{path}.data").items():
        if not isinstance(text, str):
            findings.add(f"{path}.data.{key[:80]}", "must be a string")


_READERS: Final[dict[str, Callable[[dict[str, Any], str, Findings], None]]] = {
    "ConfigMap": _read_config_map,
    "Ingress": _read_ingress,
    "PersistentVolumeClaim": _read_claim,
    "Secret": _read_secret,
    "Service": _read_service,
}

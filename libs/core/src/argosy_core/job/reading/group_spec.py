"""Reading the spec of a distributed job: its pod groups, and the objects beside them.

Each group's pod is read as a job of its own with the same objects beside it, so the rules of pods and bags are those of
any job; here stands only what groups have beyond that.

Source: 003 "Distributed jobs"; decision 0018.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from argosy_core.errors import FieldViolation, InvalidRequest
from argosy_core.job.reading.classes import GangGroup, SchedulingClass
from argosy_core.job.reading.findings import MAX_FINDING_COUNT, Findings, is_dns_label
from argosy_core.job.reading.manifest_json import MalformedManifest, read_manifest
from argosy_core.job.reading.options import UNSET
from argosy_core.job.reading.pod_groups import (
    MAX_GROUP_COUNT,
    MAX_MEMBER_COUNT,
    MEMBER_NAME,
    PodGroup,
    build_body,
    service_manifest,
)
from argosy_core.job.reading.pod_rights import PodRights
from argosy_core.job.reading.spec import POD, Bag, SpecLimits, read_bag, spec_hash
from argosy_core.resources import format_amount

__all__ = ["group_hash", "read_group_bag"]

_EMPTY: Final = SchedulingClass(requests=())
_MAX_NAME_LENGTH: Final = 40
"""Longest name of a group."""
_OWN_FIELDS: Final = ("hostname", "subdomain", "setHostnameAsFQDN")
"""Fields of a pod's spec that say what it is called."""


def group_hash(manifests: Sequence[bytes], groups: Sequence[PodGroup]) -> bytes:
    """Return 16 bytes that name a spec with groups; no spec without groups has such a name."""
    notes = [
        json.dumps([one.name, one.minimum, one.maximum, one.max_hops, one.whole_nodes, one.after, one.template])
        for one in groups
    ]
    return spec_hash([*manifests, b"\x00groups", *(note.encode() for note in notes)])


def read_group_bag(manifests: Sequence[bytes], groups: Sequence[PodGroup], limits: SpecLimits) -> Bag:
    """Return what the spec of a distributed job says, and everything that is wrong with it.

    Args:
        manifests: What stands beside the pods, UTF-8 JSON; each member gets objects of its own from it.
        groups: Its groups, at least one.
        limits: Bounds of what is accepted.

    Complexity: linear in the bytes of the manifests times the number of groups.
    """
    findings = Findings()
    _check_groups(groups, findings)
    templates = [
        _read_template(group.template, f"groups[{at}].template", limits, findings) for at, group in enumerate(groups)
    ]
    namespaces = {namespace for _, namespace in templates}
    if len(namespaces) > 1:
        findings.add("groups", f"have pods in the namespaces {', '.join(sorted(namespaces))}; peers meet in one")
    namespace = min(namespaces)
    service = service_manifest(namespace)
    bags = [read_bag([*manifests, service, template], limits) for template, _ in templates]
    violations = (*findings.violations, *_told(bags, len(manifests), "violations"))
    pods = [bag.layout[at] for bag in bags[:1] for at in range(len(bag.layout)) if bag.layout[at][0] == POD]
    if len(pods) > 1:
        text = "hold a Pod beside the groups; give it a group of its own"
        violations = (*violations, FieldViolation(field="manifests", description=text))
    read = [replace(group, template=template.decode()) for group, (template, _) in zip(groups, templates, strict=True)]
    definition = _EMPTY
    if not violations:
        try:
            definition = _class_of(read, bags)
            _check_total(read, bags, limits.rights)
        except InvalidRequest as error:
            violations = (FieldViolation(field="groups", description=error.message),)
    deadlines_s = [bag.deadline_s for bag in bags]
    return replace(
        bags[0],
        scheduling_class=definition,
        class_definition=definition.definition(),
        namespaces=tuple(sorted({namespace for bag in bags for namespace in bag.namespaces})),
        body=b"[]" if violations else build_body(manifests, read, namespace=namespace),
        hash=group_hash(manifests, groups),
        deadline_s=UNSET if UNSET in deadlines_s else max(deadlines_s),
        violations=violations[:MAX_FINDING_COUNT],
        field_faults=_told(bags, len(manifests), "field_faults"),
        warnings=_told(bags, len(manifests), "warnings"),
    )


def _class_of(groups: Sequence[PodGroup], bags: Sequence[Bag]) -> SchedulingClass:
    """Return the class of a job with groups.

    Raises:
        InvalidRequest: The groups cannot stand together.
    """
    return SchedulingClass.of_gang(
        [
            GangGroup(
                name=group.name,
                pod=bag.scheduling_class,
                minimum=group.minimum,
                maximum=group.maximum,
                max_hops=group.max_hops,
                whole_nodes=group.whole_nodes,
            )
            for group, bag in zip(groups, bags, strict=True)
        ]
    )


def _check_total(groups: Sequence[PodGroup], bags: Sequence[Bag], rights: PodRights) -> None:
    """Refuse groups that at their largest ask for more than is granted.

    Raises:
        InvalidRequest: They do.
    """
    for name, most in rights.max_requests:
        asked = sum(
            dict(bag.scheduling_class.requests).get(name, 0) * group.maximum
            for group, bag in zip(groups, bags, strict=True)
        )
        if asked > most:
            amounts = f"{format_amount(name, asked)} of {name}; its queue grants a job {format_amount(name, most)}"
            raise InvalidRequest(f"ask at their largest for {amounts}")


def _check_groups(groups: Sequence[PodGroup], findings: Findings) -> None:
    """Check names, numbers and start order."""
    if len(groups) > MAX_GROUP_COUNT:
        findings.add("groups", f"are {len(groups)}, at most {MAX_GROUP_COUNT} are allowed")
    members = sum(group.maximum for group in groups)
    if members > MAX_MEMBER_COUNT:
        findings.add("groups", f"have {members} pods at their maxima, at most {MAX_MEMBER_COUNT} are allowed")
    before: list[str] = []
    for at, group in enumerate(groups):
        path = f"groups[{at}]"
        if not is_dns_label(group.name) or len(group.name) > _MAX_NAME_LENGTH:
            findings.add(f"{path}.name", f"must be a DNS label of at most {_MAX_NAME_LENGTH} characters")
        elif group.name in before:
            findings.add(f"{path}.name", f"another group is called {group.name!r}")
        if not 1 <= group.minimum <= group.maximum:
            findings.add(f"{path}.min", f"is {group.minimum} and max is {group.maximum}; give 1 <= min <= max")
        if group.after and group.after not in before:
            near = difflib.get_close_matches(group.after, before, n=1)
            hint = f"did you mean {near[0]}?" if near else "name a group that stands before it"
            findings.add(f"{path}.after", f"{group.after[:63]!r} is no group before this one; {hint}")
        before.append(group.name)


def _read_template(text: str, path: str, limits: SpecLimits, findings: Findings) -> tuple[bytes, str]:
    """Return a group's pod as it is read and stored, and its namespace; what is wrong beyond a pod's rules is noted."""
    try:
        document = read_manifest(text.encode(), limits.max_depth)
    except (MalformedManifest, UnicodeEncodeError):
        return text.encode(errors="replace"), limits.default_namespace
    if document.get("kind") != POD:
        findings.add(f"{path}.kind", "must be Pod; other objects stand in manifests, beside the groups")
    metadata, spec = document.get("metadata"), document.get("spec")
    if isinstance(spec, dict):
        for name in _OWN_FIELDS:
            if spec.get(name):
                findings.add(f"{path}.spec.{name}", "must not be set: peers find a member by the name that it is given")
    if metadata is not None and not isinstance(metadata, dict):
        return text.encode(), limits.default_namespace
    # Names of templates say nothing: members are called by their numbers.
    document["metadata"] = {**(metadata or {}), "name": MEMBER_NAME}
    namespace = (metadata or {}).get("namespace")
    manifest = json.dumps(document, separators=(",", ":")).encode()
    return manifest, namespace if isinstance(namespace, str) and namespace else limits.default_namespace


def _told(bags: Sequence[Bag], other_count: int, column: str) -> tuple[FieldViolation, ...]:
    """Return what was found in the bags of all groups, each once, with the paths of the job's spec."""
    found: dict[FieldViolation, None] = {}
    service, template = f"manifests[{other_count}]", f"manifests[{other_count + 1}]"
    for at, bag in enumerate(bags):
        for told in getattr(bag, column):
            field, text = told.field, told.description
            if field == f"{service}.kind":
                continue  # it is ours, and no policy of a queue is about it
            if field.startswith(service):
                field, text = "manifests", f"hold a Service called {MEMBER_NAME!r}, as those of members are; rename it"
            elif field.startswith(template):
                field = f"groups[{at}].template{field[len(template) :]}"
            found[FieldViolation(field=field, description=text)] = None
    return tuple(found)[:MAX_FINDING_COUNT]

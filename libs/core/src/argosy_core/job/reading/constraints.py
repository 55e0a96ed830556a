"""Where a pod may run: node selector, required node affinity, tolerations, platform and host ports.

Preferences (preferred affinity, PreferNoSchedule) are left to the scores of later profiles and do not refuse anything.
Required inter-pod affinity is refused rather than ignored: nobody would honour it, since pods are made with their node.

Source: seed 004, "Filters"; the meanings are those of Kubernetes.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Final, cast

from argosy_core.job.reading.classes import HostPort, MatchExpression, Operator, Toleration
from argosy_core.job.reading.findings import Findings, is_label_key, is_label_value
from argosy_core.job.reading.pod_rights import PodRights
from argosy_core.job.reading.policy import is_reserved_key

__all__ = ["NodeConstraints", "merge_constraints", "read_constraints"]

_OS_LABEL: Final = "kubernetes.io/os"
_ARCH_LABEL: Final = "kubernetes.io/arch"
_OPERATORS: Final = frozenset({"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"})
_CONTROL_PLANE: Final = frozenset({"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"})
_CONTROL_PLANE_EFFECTS: Final = frozenset({"", "NoSchedule"})
_EFFECTS: Final = frozenset({"", "NoSchedule", "PreferNoSchedule", "NoExecute"})
_PROTOCOLS: Final = frozenset({"TCP", "UDP", "SCTP"})
_MAX_TERM_COUNT: Final = 64
_NAME_FIELD: Final = "metadata.name"
_ALL_ADDRESSES: Final = "0.0.0.0"  # noqa: S104 - what manifests say; nothing listens here

Terms = tuple[tuple[MatchExpression, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConstraints:
    """What one pod, or a bag's pods together, demand of their node."""

    node_selector: dict[str, str]
    """Labels the node must have; operating system and architecture are in `platform` instead."""
    affinity: Terms
    """Required node affinity: any term must hold; empty for none."""
    tolerations: frozenset[Toleration]
    """Tolerated taints."""
    platform: tuple[str, str]
    """(operating system, architecture), empty text for any."""
    host_ports: tuple[HostPort, ...]
    """Ports taken, in the order of the manifest."""


_FREE: Final = NodeConstraints(node_selector={}, affinity=(), tolerations=frozenset(), platform=("", ""), host_ports=())


def read_constraints(
    spec: dict[str, Any],
    path: str,
    findings: Findings,
    *,
    containers: list[dict[str, Any]],
    init_containers: list[dict[str, Any]],
    rights: PodRights,
) -> NodeConstraints:
    """Return where a pod may run.

    Args:
        spec: The pod's `spec`.
        path: Its path, for violations.
        findings: Where violations are noted.
        containers: The pod's `spec.containers`, already read as objects.
        init_containers: Its `spec.initContainers`, likewise.
        rights: What is allowed beyond the baseline.
    """
    groups = {"containers": containers, "initContainers": init_containers}
    host_ports = _read_host_ports(groups, path, findings, rights, on_host=spec.get("hostNetwork") is True)
    if not spec.keys() & {"nodeSelector", "affinity", "tolerations", "os"} and not host_ports:
        return _FREE
    selector = _read_selector(spec.get("nodeSelector"), f"{path}.nodeSelector", findings)
    operating_system = findings.text(findings.mapping(spec.get("os"), f"{path}.os").get("name"), f"{path}.os.name")
    selected = selector.pop(_OS_LABEL, "")
    if operating_system and selected and operating_system != selected:
        findings.add(f"{path}.os.name", f"differs from the node selector {_OS_LABEL}={selected}")
    return NodeConstraints(
        node_selector=selector,
        affinity=_read_affinity(spec.get("affinity"), f"{path}.affinity", findings),
        tolerations=_read_tolerations(spec.get("tolerations"), f"{path}.tolerations", findings, rights),
        platform=(operating_system or selected, selector.pop(_ARCH_LABEL, "")),
        host_ports=host_ports,
    )


def _read_selector(value: object, path: str, findings: Findings) -> dict[str, str]:
    """Return a node selector."""
    selector: dict[str, str] = {}
    for key, text in findings.mapping(value, path).items():
        if not isinstance(text, str) or not is_label_value(text) or not is_label_key(key):
            findings.add(f"{path}.{key[:80]}", "must be a label: a valid key and a string value")
        elif is_reserved_key(key):
            findings.add(f"{path}.{key[:80]}", "this prefix is reserved")
        else:
            selector[key] = text
    return selector


def _read_affinity(value: object, path: str, findings: Findings) -> Terms:
    """Return the required node affinity."""
    affinity = findings.mapping(value, path)
    for kind in ("podAffinity", "podAntiAffinity"):
        required = findings.mapping(affinity.get(kind), f"{path}.{kind}").get(
            "requiredDuringSchedulingIgnoredDuringExecution"
        )
        if required:
            findings.add(
                f"{path}.{kind}", "required affinity between pods is not supported; use preferred, or node affinity"
            )
    place = f"{path}.nodeAffinity"
    node = findings.mapping(affinity.get("nodeAffinity"), place)
    required = node.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return ()
    place = f"{place}.requiredDuringSchedulingIgnoredDuringExecution"
    terms = findings.mappings(findings.mapping(required, place).get("nodeSelectorTerms"), f"{place}.nodeSelectorTerms")
    if len(terms) > _MAX_TERM_COUNT:
        findings.add(f"{place}.nodeSelectorTerms", f"has {len(terms)} terms, at most {_MAX_TERM_COUNT}")
        return ()
    read = [_read_term(term, f"{place}.nodeSelectorTerms[{index}]", findings) for index, term in enumerate(terms)]
    # To Kubernetes an empty term matches no node, so it adds nothing to the others.
    kept = tuple(dict.fromkeys(term for term in read if term))
    if not kept:
        findings.add(f"{place}.nodeSelectorTerms", "has no term that could match a node")
    return kept


def _read_term(term: dict[str, Any], path: str, findings: Findings) -> tuple[MatchExpression, ...]:
    """Return one term with its expressions sorted."""
    expressions: list[MatchExpression] = []
    for group in ("matchExpressions", "matchFields"):
        for index, item in enumerate(findings.mappings(term.get(group), f"{path}.{group}")):
            place = f"{path}.{group}[{index}]"
            key = findings.text(item.get("key"), f"{place}.key")
            if group == "matchFields" and key != _NAME_FIELD:
                findings.add(f"{place}.key", f"must be {_NAME_FIELD}")
            elif not is_label_key(key) or is_reserved_key(key):
                findings.add(f"{place}.key", f"{key[:80]!r} cannot be matched: not a label key, or reserved")
            else:
                expressions.extend(_read_expression(key, item, place, findings))
    return tuple(sorted(expressions))


def _read_expression(key: str, item: dict[str, Any], path: str, findings: Findings) -> list[MatchExpression]:
    """Return one requirement, or nothing if it is wrong."""
    operator = findings.text(item.get("operator"), f"{path}.operator")
    values = findings.items(item.get("values"), f"{path}.values")
    if operator not in _OPERATORS:
        findings.add(f"{path}.operator", f"must be one of {', '.join(sorted(_OPERATORS))}")
    elif not all(isinstance(value, str) and len(value) <= 253 for value in values):
        findings.add(f"{path}.values", "must be strings of at most 253 characters")
    elif (operator in ("In", "NotIn")) != bool(values) and operator not in ("Gt", "Lt"):
        findings.add(f"{path}.values", f"{operator} takes {'values' if operator in ('In', 'NotIn') else 'no values'}")
    elif operator in ("Gt", "Lt") and (len(values) != 1 or not values[0].lstrip("-").isdecimal()):
        findings.add(f"{path}.values", f"{operator} takes one whole number as a string")
    else:
        return [MatchExpression(key, cast("Operator", operator), tuple(sorted(set(values))))]
    return []


def _read_tolerations(value: object, path: str, findings: Findings, rights: PodRights) -> frozenset[Toleration]:
    """Return the tolerations; none of the control plane's taints, which whoever binds pods to nodes must keep."""
    tolerations: set[Toleration] = set()
    for index, item in enumerate(findings.mappings(value, path)):
        place = f"{path}[{index}]"
        key = findings.text(item.get("key"), f"{place}.key")
        text = findings.text(item.get("value"), f"{place}.value")
        effect = findings.text(item.get("effect"), f"{place}.effect")
        operator = item.get("operator") or "Equal"
        if operator not in ("Equal", "Exists"):
            findings.add(f"{place}.operator", "must be Equal or Exists")
        elif key and (not is_label_key(key) or is_reserved_key(key)):
            findings.add(f"{place}.key", f"{key[:80]!r} cannot be tolerated: not a taint key, or reserved")
        elif not key and operator == "Equal":
            findings.add(f"{place}.key", "must be set with the operator Equal")
        elif operator == "Exists" and text:
            findings.add(f"{place}.value", "must not be set with the operator Exists")
        elif effect not in _EFFECTS:
            findings.add(f"{place}.effect", "must be NoSchedule, PreferNoSchedule or NoExecute")
        elif not rights.control_plane_allowed and (
            key in _CONTROL_PLANE or (not key and effect in _CONTROL_PLANE_EFFECTS)
        ):
            findings.add(
                place, "tolerates the taint of control-plane nodes; name the keys of the taints that are meant"
            )
        else:
            tolerations.add(Toleration(key, "Exists" if operator == "Exists" else "Equal", text, effect))
    return frozenset(tolerations)


def _read_host_ports(
    groups: dict[str, list[dict[str, Any]]], path: str, findings: Findings, rights: PodRights, *, on_host: bool
) -> tuple[HostPort, ...]:
    """Return the ports of the node that the pod takes: those of containers and sidecars, which run side by side."""
    taken: list[HostPort] = []
    for field, group in groups.items():
        for index, container in enumerate(group):
            if "ports" not in container:
                continue
            place = f"{path}.{field}[{index}].ports"
            stays = field == "containers" or container.get("restartPolicy") == "Always"
            for number, port in enumerate(findings.mappings(container["ports"], place)):
                wanted = _read_host_port(port, f"{place}[{number}]", findings, rights, on_host=on_host)
                if wanted is None or not stays:
                    continue
                if any(wanted.clashes_with(other) for other in taken):
                    findings.add(f"{place}[{number}].hostPort", f"the node's port {wanted.port} is taken twice")
                else:
                    taken.append(wanted)
    return tuple(taken)


def _read_host_port(
    port: dict[str, Any], place: str, findings: Findings, rights: PodRights, *, on_host: bool
) -> HostPort | None:
    """Return the port of the node that one element of a container's ports takes, None if it takes none or is wrong.

    A pod in the node's own network takes every port that it names, as the API server fills in.
    """
    host_port = port.get("hostPort") or (port.get("containerPort") if on_host else None)
    protocol = findings.text(port.get("protocol"), f"{place}.protocol") or "TCP"
    host_ip = findings.text(port.get("hostIP"), f"{place}.hostIP")
    if protocol not in _PROTOCOLS:
        findings.add(f"{place}.protocol", "must be TCP, UDP or SCTP")
    elif host_port in (None, 0):
        return None
    elif type(host_port) is not int or not 1 <= host_port <= 65535:
        findings.add(f"{place}.hostPort", "must be a port, 1 to 65535")
    elif not rights.grants_port(host_port):
        findings.add(f"{place}.hostPort", f"the node's port {host_port} is not granted to jobs")
    elif not _is_address(host_ip):
        findings.add(f"{place}.hostIP", "must be an IP address")
    else:
        return HostPort(protocol, host_port, "" if host_ip == _ALL_ADDRESSES else host_ip)
    return None


def _is_address(text: str) -> bool:
    """Return whether a text is empty or an IP address."""
    try:
        return not text or bool(ip_address(text))
    except ValueError:
        return False


def _common_tolerations(first: frozenset[Toleration], second: frozenset[Toleration]) -> frozenset[Toleration]:
    """Return what tolerates the taints that both sets tolerate."""
    if first == second:
        return first
    met = (_meet(ours, theirs) for ours in first for theirs in second)
    return frozenset(one for one in met if one is not None)


def _meet(ours: Toleration, theirs: Toleration) -> Toleration | None:
    """Return what tolerates the taints that two tolerations do, None if there are none; an empty part means any."""
    if ours.key and theirs.key and ours.key != theirs.key:
        return None
    if ours.effect and theirs.effect and ours.effect != theirs.effect:
        return None
    if "Exists" not in {ours.operator, theirs.operator} and ours.value != theirs.value:
        return None
    narrow = theirs if ours.operator == "Exists" else ours
    return Toleration(ours.key or theirs.key, narrow.operator, narrow.value, ours.effect or theirs.effect)


def merge_constraints(
    first: NodeConstraints, second: NodeConstraints, path: str, findings: Findings
) -> NodeConstraints:
    """Return what two pods demand of a node that both run on.

    Selectors unite, affinities hold both, a taint must be tolerated by both, ports must differ.

    Args:
        first: Of the pods before.
        second: Of the pod at `path`.
        path: Path of the second pod's spec, for violations.
        findings: Where contradictions are noted.
    """
    for key in first.node_selector.keys() & second.node_selector.keys():
        if first.node_selector[key] != second.node_selector[key]:
            findings.add(f"{path}.nodeSelector.{key}", "contradicts another pod of the job; both run on one node")
    platform = [ours or theirs for ours, theirs in zip(first.platform, second.platform, strict=True)]
    if platform != [theirs or ours for ours, theirs in zip(first.platform, second.platform, strict=True)]:
        findings.add(path, "wants another platform than another pod of the job; both run on one node")
    if any(ours.clashes_with(theirs) for ours in first.host_ports for theirs in second.host_ports):
        findings.add(path, "takes a port of the node that another pod of the job takes; both run on one node")
    affinity = first.affinity or second.affinity
    if first.affinity and second.affinity and first.affinity != second.affinity:
        affinity = tuple(
            dict.fromkeys(tuple(sorted({*ours, *theirs})) for ours in first.affinity for theirs in second.affinity)
        )
        if len(affinity) > _MAX_TERM_COUNT:
            findings.add(
                f"{path}.affinity", f"together with other pods of the job makes more than {_MAX_TERM_COUNT} terms"
            )
            affinity = affinity[:_MAX_TERM_COUNT]
    return NodeConstraints(
        node_selector={**first.node_selector, **second.node_selector},
        affinity=affinity,
        tolerations=_common_tolerations(first.tolerations, second.tolerations),
        platform=(platform[0], platform[1]),
        host_ports=(*first.host_ports, *second.host_ports),
    )

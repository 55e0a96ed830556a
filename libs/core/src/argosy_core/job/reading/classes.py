"""Scheduling classes: all that decides where a pod may run, and nothing else.

Pods of one class are equal for every filter and score, so one evaluation serves all of them. The server gives each
distinct class an int32 id (table scheduling_classes); wires and arrays carry the id.

The class of a distributed job says its sub-groups, and as requests what all their minima take together: so whatever
counts jobs counts a gang as one job of that size.

Source: design section 6, "Data layout"; seed 004, "Batching"; 003 "Distributed jobs".
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from argosy_core.arrays import Int32s
from argosy_core.errors import InvalidRequest
from argosy_core.job.tables.members import MAX_PLACE_COUNT
from argosy_core.resources import MAX_AMOUNT, PODS

__all__ = ["GangGroup", "HostPort", "MatchExpression", "SchedulingClass", "Toleration"]

Operator = Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]


@dataclass(frozen=True, slots=True, order=True)
class MatchExpression:
    """One Kubernetes node selector requirement."""

    key: str
    """Label key; `metadata.name` for a match field."""
    operator: Operator
    """Kubernetes operator."""
    values: tuple[str, ...] = ()
    """Sorted values; one integer for Gt and Lt; none for Exists and DoesNotExist."""


@dataclass(frozen=True, slots=True, order=True)
class Toleration:
    """One Kubernetes toleration."""

    key: str = ""
    """Taint key; empty with Exists tolerates every key."""
    operator: Literal["Equal", "Exists"] = "Equal"
    """How the value is compared."""
    value: str = ""
    """Taint value for Equal."""
    effect: str = ""
    """Taint effect; empty tolerates every effect."""


@dataclass(frozen=True, slots=True, order=True)
class HostPort:
    """A port of the node that the pod takes."""

    protocol: str
    """TCP, UDP or SCTP."""
    port: int
    """1 to 65535."""
    host_ip: str = ""
    """Address of the node; empty for all of them, as is 0.0.0.0."""

    def clashes_with(self, other: HostPort) -> bool:
        """Return whether one node cannot give out both."""
        same = (self.protocol, self.port) == (other.protocol, other.port)
        return same and (self.host_ip == other.host_ip or not self.host_ip or not other.host_ip)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulingClass:
    """What a pod needs of a node. Equal classes have equal definitions (canonical JSON)."""

    requests: tuple[tuple[str, int], ...]
    """(resource name, amount in base units), sorted by name, zeros left out; `pods` is listed if a bag has several, and
    is 1 otherwise."""
    node_selector: tuple[tuple[str, str], ...] = ()
    """Labels the node must have, sorted."""
    affinity: tuple[tuple[MatchExpression, ...], ...] = ()
    """Required node affinity: any term must hold, each with all its expressions; empty for none."""
    tolerations: tuple[Toleration, ...] = ()
    """Tolerated taints, sorted."""
    platforms: tuple[tuple[str, str], ...] = ()
    """Acceptable (os, architecture) pairs, empty text for any; empty for every platform."""
    host_ports: tuple[HostPort, ...] = ()
    """Ports of the node that the pod takes, sorted."""
    node_name: str = field(default="")
    """The one node allowed, or empty."""
    runtime_classes: tuple[tuple[str, int], ...] = ()
    """(RuntimeClass, how many pods of the bag name it), sorted; what such a pod takes beside what it asks for, only its
    cluster knows."""
    gang: tuple[GangGroup, ...] = ()
    """Sub-groups of a distributed job, of which `requests` are the sum of the minima; empty for a job of one member."""

    @staticmethod
    def of_gang(groups: Sequence[GangGroup]) -> SchedulingClass:
        """Return the class of a distributed job.

        Raises:
            InvalidRequest: It has no sub-group, or more members than a run can have, or two sub-groups take one port of
                their nodes.
        """
        if not groups or sum(group.maximum for group in groups) > MAX_PLACE_COUNT:
            raise InvalidRequest(f"a gang has one sub-group or more, and at most {MAX_PLACE_COUNT} pods")
        ports = [port for group in groups for port in group.pod.host_ports]
        if any(port.clashes_with(other) for place, port in enumerate(ports) for other in ports[:place]):
            raise InvalidRequest("two sub-groups of a gang take one port of their nodes; give each its own")
        total: Counter[str] = Counter()
        for group in groups:
            for name, amount in {PODS: 1, **dict(group.pod.requests)}.items():
                total[name] += amount * group.minimum
        requests = tuple(sorted((name, min(amount, MAX_AMOUNT)) for name, amount in total.items()))
        return SchedulingClass(requests=requests, gang=tuple(groups))

    @property
    def member_groups(self) -> Int32s:
        """Return the sub-group of each member of a gang that has grown to its maximum, by the member's number.

        The minima come first, sub-group by sub-group, then what is beyond them: a number means the same pod whatever
        the gang has grown to.
        """
        numbers = np.arange(len(self.gang), dtype=np.int32)
        minima = [group.minimum for group in self.gang]
        extras = [group.maximum - group.minimum for group in self.gang]
        return np.concatenate([np.repeat(numbers, minima), np.repeat(numbers, extras)])

    def definition(self) -> bytes:
        """Return the class as canonical JSON; equal classes give equal bytes."""
        return json.dumps(_document(self), sort_keys=True, separators=(",", ":")).encode()

    @staticmethod
    def parse(definition: bytes) -> SchedulingClass:
        """Return the class of a definition made by `definition`.

        An amount above `MAX_AMOUNT` counts as that, so that whatever was stored once can be counted; it fits nowhere.

        Raises:
            ValueError: The bytes are no such definition.
        """
        try:
            return _class_of(json.loads(definition))
        except (KeyError, TypeError, AttributeError, OverflowError, RecursionError, InvalidRequest) as cause:
            msg = "not a scheduling class definition"
            raise ValueError(msg) from cause


@dataclass(frozen=True, slots=True, kw_only=True)
class GangGroup:
    """Pods of a distributed job that are alike."""

    name: str = ""
    """Its name among those of the job, for people."""
    pod: SchedulingClass
    """What one pod needs of a node; no gang itself."""
    minimum: int
    """Pods without which the job cannot begin, at least 1."""
    maximum: int
    """Pods that it can use."""
    max_hops: int = -1
    """Most hops between any two of its pods; negative for no limit."""
    whole_nodes: bool = False
    """Its pods share their nodes with pods of their own job alone."""

    def __post_init__(self) -> None:
        """Refuse numbers that contradict each other.

        Raises:
            InvalidRequest: The minimum is below 1 or above the maximum, or the pod is a gang.
        """
        if not 1 <= self.minimum <= self.maximum <= MAX_PLACE_COUNT:
            raise InvalidRequest(f"a sub-group of {self.minimum} to {self.maximum} pods: give 1 <= min <= max")
        if self.pod.gang:
            raise InvalidRequest("a pod of a sub-group is no gang")


def _document(definition: SchedulingClass) -> dict[str, Any]:
    document: dict[str, Any] = {"requests": dict(definition.requests)}
    if definition.node_selector:
        document["node_selector"] = dict(definition.node_selector)
    if definition.affinity:
        document["affinity"] = [[[e.key, e.operator, list(e.values)] for e in term] for term in definition.affinity]
    if definition.tolerations:
        document["tolerations"] = [[t.key, t.operator, t.value, t.effect] for t in definition.tolerations]
    if definition.platforms:
        document["platforms"] = [list(platform) for platform in definition.platforms]
    if definition.host_ports:
        document["host_ports"] = [[p.protocol, p.port, *filter(None, [p.host_ip])] for p in definition.host_ports]
    if definition.node_name:
        document["node_name"] = definition.node_name
    if definition.runtime_classes:
        document["runtime_classes"] = dict(definition.runtime_classes)
    if definition.gang:
        document["gang"] = [
            {
                "name": group.name,
                "min": group.minimum,
                "max": group.maximum,
                "hops": group.max_hops,
                "whole": group.whole_nodes,
                "pod": _document(group.pod),
            }
            for group in definition.gang
        ]
    return document


def _class_of(document: Mapping[str, Any]) -> SchedulingClass:
    if "gang" in document:
        return SchedulingClass.of_gang([_group_of(group) for group in document["gang"]])
    return SchedulingClass(
        requests=tuple(
            sorted((str(name), min(_counted(amount), MAX_AMOUNT)) for name, amount in document["requests"].items())
        ),
        node_selector=tuple(sorted(document.get("node_selector", {}).items())),
        affinity=tuple(
            tuple(MatchExpression(key, operator, tuple(values)) for key, operator, values in term)
            for term in document.get("affinity", [])
        ),
        tolerations=tuple(Toleration(*toleration) for toleration in document.get("tolerations", [])),
        platforms=tuple((os, arch) for os, arch in document.get("platforms", [])),
        host_ports=tuple(HostPort(*port) for port in document.get("host_ports", [])),
        node_name=document.get("node_name", ""),
        runtime_classes=tuple(
            sorted((str(name), _counted(count)) for name, count in document.get("runtime_classes", {}).items())
        ),
    )


def _counted(value: Any) -> int:  # noqa: ANN401 - what a document holds
    """Return an amount; one below 0 would take from what its queue uses."""
    amount = int(value)
    if amount < 0:
        raise InvalidRequest(f"{amount} is below 0")
    return amount


def _group_of(document: Mapping[str, Any]) -> GangGroup:
    return GangGroup(
        name=document["name"],
        pod=_class_of(document["pod"]),
        minimum=document["min"],
        maximum=document["max"],
        max_hops=document["hops"],
        whole_nodes=document["whole"],
    )

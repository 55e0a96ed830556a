"""Scheduling classes: all that decides where a pod may run, and nothing else.

Pods of one class are equal for every filter and score, so one evaluation serves all of them. The server gives each
distinct class an int32 id (table scheduling_classes); wires and arrays carry the id.

Source: design section 6, "Data layout"; seed 004, "Batching".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from argosy_core.resources import MAX_AMOUNT

__all__ = ["HostPort", "MatchExpression", "SchedulingClass", "Toleration"]

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

    def definition(self) -> bytes:
        """Return the class as canonical JSON; equal classes give equal bytes."""
        document: dict[str, Any] = {"requests": dict(self.requests)}
        if self.node_selector:
            document["node_selector"] = dict(self.node_selector)
        if self.affinity:
            document["affinity"] = [[[e.key, e.operator, list(e.values)] for e in term] for term in self.affinity]
        if self.tolerations:
            document["tolerations"] = [[t.key, t.operator, t.value, t.effect] for t in self.tolerations]
        if self.platforms:
            document["platforms"] = [list(platform) for platform in self.platforms]
        if self.host_ports:
            document["host_ports"] = [[p.protocol, p.port, *filter(None, [p.host_ip])] for p in self.host_ports]
        if self.node_name:
            document["node_name"] = self.node_name
        return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()

    @staticmethod
    def parse(definition: bytes) -> SchedulingClass:
        """Return the class of a definition made by `definition`.

        An amount above `MAX_AMOUNT` counts as that, so that whatever was stored once can be counted; it fits nowhere.

        Raises:
            ValueError: The bytes are no such definition.
        """
        try:
            document: Mapping[str, Any] = json.loads(definition)
            return SchedulingClass(
                requests=tuple(
                    sorted((str(name), min(int(amount), MAX_AMOUNT)) for name, amount in document["requests"].items())
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
            )
        except (KeyError, TypeError, AttributeError, OverflowError, RecursionError) as cause:
            msg = "not a scheduling class definition"
            raise ValueError(msg) from cause

"""What an installation or a queue lets pods do, and checks that depend on it.

Source: Pod Security Standards; design section 5, "Submit" ("then policy").
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from argosy_core.job.reading.findings import Findings

__all__ = ["Check", "PodLevel", "PodRights", "must_be_false", "unless_privileged"]


class PodLevel(StrEnum):
    """A level of the Pod Security Standards."""

    PRIVILEGED = "privileged"
    """Pods may be part of their node: its network, processes, files and devices."""
    BASELINE = "baseline"
    """Pods may not reach beyond themselves by known ways."""
    RESTRICTED = "restricted"
    """Besides, pods run without root and without rights that they do not need."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRights:
    """What an installation, or a queue, lets jobs do."""

    level: PodLevel = PodLevel.BASELINE
    """Level that pods must keep to."""
    image_prefixes: tuple[str, ...] = ()
    """Beginnings of images that pods may have, as `registry.example.org/team/`; none for any image."""
    priority_classes: frozenset[str] = frozenset()
    """Priority classes that pods may name; none for any but the system's."""
    kinds: frozenset[str] = frozenset()
    """Kinds that bags may hold, as `kinds.kind_name` says them; none for any. Pods always may be."""
    own_objects_only: bool = False
    """Whether pods may name only secrets, config maps and claims of their own bag, and those that are shared."""
    shared_objects: frozenset[str] = frozenset()
    """Names of others that they may use then, such as a secret for pulling images."""
    max_requests: tuple[tuple[str, int], ...] = ()
    """Most that a job's pods together may ask for, base units by resource; any amount of those that are not named."""

    service_accounts: frozenset[str] = frozenset()
    """Service accounts that pods may name besides `default`."""
    token_allowed: bool = False
    """Whether pods may mount a service account token."""
    control_plane_allowed: bool = False
    """Whether pods may tolerate the taints of control-plane nodes."""
    host_ports: tuple[tuple[int, int], ...] = ()
    """Ranges (first, last) of node ports that pods may take; none by default."""

    def grants_port(self, port: int) -> bool:
        """Return whether pods may take a port of their node."""
        return self.level == PodLevel.PRIVILEGED or any(first <= port <= last for first, last in self.host_ports)


Check = Callable[[Any, str, Findings, PodRights], None]
"""Notes what of a value, at a path, is beyond some rights."""


def must_be_false(description: str) -> Check:
    """Return a check that refuses anything but false, unless pods may be part of their node."""

    def check(value: object, path: str, findings: Findings, rights: PodRights) -> None:
        if value is not None and value is not False and (rights.level != PodLevel.PRIVILEGED or value is not True):
            findings.add(path, description)

    return check


def unless_privileged(check: Check) -> Check:
    """Return a check that asks nothing of pods that may be part of their node."""

    def check_others(value: object, path: str, findings: Findings, rights: PodRights) -> None:
        if rights.level != PodLevel.PRIVILEGED:
            check(value, path, findings, rights)

    return check_others

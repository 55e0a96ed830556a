"""Documents of bags for tests of reading them, and what was read of some."""

from __future__ import annotations

import json
from typing import Any

from argosy_core.job.reading.pod_rights import PodRights
from argosy_core.job.reading.spec import Bag, SpecLimits, read_bag

GIB = 1 << 30
LIMITS = SpecLimits()
PORT_RIGHTS = SpecLimits(rights=PodRights(host_ports=((80, 81),)))


def container(name: str = "main", **fields: Any) -> dict[str, Any]:
    """Return a container of one core and one gibibyte."""
    return {
        "name": name,
        "image": "registry.example/app:1",
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
        **fields,
    }


def pod(*containers: dict[str, Any], metadata: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """Return a pod."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "train", **(metadata or {})},
        "spec": {"containers": list(containers) or [container()], **spec},
    }


def read(*manifests: dict[str, Any], limits: SpecLimits = LIMITS) -> Bag:
    """Read manifests given as documents."""
    return read_bag([json.dumps(manifest).encode() for manifest in manifests], limits)


def requests(bag: Bag) -> dict[str, int]:
    """Return the class's requests; there must be no violations."""
    assert bag.violations == ()
    return dict(bag.scheduling_class.requests)


def faults(bag: Bag) -> dict[str, str]:
    """Return the violations by path."""
    return {violation.field: violation.description for violation in bag.violations}


def resources(**amounts: str) -> dict[str, Any]:
    """Return resources with requests."""
    return {"requests": dict(amounts)}


def custom(api_version: object = "example.test/v1", kind: object = "Widget", **fields: Any) -> dict[str, Any]:
    """Return a custom resource."""
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "wheel"}, **fields}

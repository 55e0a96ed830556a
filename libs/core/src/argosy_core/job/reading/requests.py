"""What a pod asks for: the effective request, as the Kubernetes scheduler counts it.

For each resource::

    max(sum of containers + restartable init containers,
        for each init container: its own + the restartable ones before it) + overhead

A limit stands in for a missing request. A request for the pod as a whole replaces the sum, and so does its limit where
no container asks for the resource. A container that gives neither request nor limit for cpu or memory is refused,
because it could not be counted.

Source: design section 6, "ledger transitions" (a container without a value is rejected at submit); seed 001.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from argosy_core.errors import InvalidRequest
from argosy_core.job.reading.findings import Findings, is_label_key
from argosy_core.resources import CPU, MAX_AMOUNT, MEMORY, PODS, is_whole, parse_quantity

__all__ = ["Amounts", "effective_request", "read_pod_requests"]

Amounts = dict[str, int]
"""Base units by resource name."""

_NEEDED: Final = (CPU, MEMORY)
_OVERCOMMITTED: Final = frozenset({CPU, MEMORY, "ephemeral-storage"})
_HUGE_PAGES: Final = re.compile(r"hugepages-[1-9][0-9]{0,5}(?:Ki|Mi|Gi)", re.ASCII)


def _read_amounts(value: object, path: str, findings: Findings) -> Amounts:
    """Return quantities by resource name in base units."""
    amounts: Amounts = {}
    for name, quantity in findings.mapping(value, path).items():
        # JSON numbers are quantities too, as in {"cpu": 2}.
        text = quantity if isinstance(quantity, str) else repr(quantity) if type(quantity) in (int, float) else None
        if text is None:
            findings.add(f"{path}.{name}", "must be a quantity, as 500m, 2 or 1.5Gi")
            continue
        if name not in _OVERCOMMITTED and not _is_resource(name, text, path, findings):
            continue
        try:
            amounts[name] = parse_quantity(name, text)
        except InvalidRequest as fault:
            findings.add(f"{path}.{name}", fault.message)
            amounts[name] = 0
    return amounts


def _is_resource(name: str, text: str, path: str, findings: Findings) -> bool:
    """Return whether a name can be a resource of a container and the amount is whole, as Kubernetes wants it."""
    if name == PODS or not (_HUGE_PAGES.fullmatch(name) or ("/" in name and is_label_key(name))):
        findings.add(
            f"{path}.{name}", "is not a resource of a container; use cpu, memory, ephemeral-storage or a domain/name"
        )
        return False
    if not is_whole(text):
        findings.add(f"{path}.{name}", f"{text[:40]!r} is not a whole number; {name} is counted in whole units")
        return False
    return True


def _read_resources(value: object, path: str, findings: Findings) -> Amounts:
    """Return the requests of one container or pod, limits standing in for missing requests."""
    if value is None:
        return {}
    resources = findings.mapping(value, path)
    if resources.get("claims"):
        findings.add(f"{path}.claims", "resource claims are not supported")
    requests = _read_amounts(resources.get("requests"), f"{path}.requests", findings)
    limits = resources.get("limits")
    if limits is None:
        strict = [name for name in requests if name not in _OVERCOMMITTED]
    else:
        strict = _apply_limits(requests, _read_amounts(limits, f"{path}.limits", findings), path, findings)
    for name in strict:
        findings.add(f"{path}.limits.{name}", "must equal the request: this resource cannot be overcommitted")
    return requests


def _apply_limits(requests: Amounts, limits: Amounts, path: str, findings: Findings) -> list[str]:
    """Add limits as missing requests; return the resources whose request and limit must be equal and are not."""
    unequal = [name for name in requests if name not in _OVERCOMMITTED and limits.get(name) != requests[name]]
    for name, limit in limits.items():
        if requests.setdefault(name, limit) > limit and name in _OVERCOMMITTED:
            findings.add(f"{path}.requests.{name}", "is more than the limit")
    return unequal


def _add(total: Amounts, amounts: Amounts) -> None:
    """Add amounts to a total in place."""
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + amount


def effective_request(
    containers: Iterable[Amounts],
    init_containers: Iterable[tuple[Amounts, bool]],
    *,
    whole: Amounts,
    whole_limit: Amounts,
    overhead: Amounts,
) -> Amounts:
    """Return what a pod asks for, from what its parts do; see the formula above.

    Args:
        containers: Requests of its containers.
        init_containers: Requests of its init containers, in order, and whether each is restartable: it then goes on
            beside the containers.
        whole: Requests of the pod as a whole.
        whole_limit: Its limits; each stands in for a request that neither the pod nor any container makes.
        overhead: Its overhead.
    """
    total: Amounts = {}
    sidecars: Amounts = {}
    peak: Amounts = {}
    for amounts in containers:
        _add(total, amounts)
    for amounts, is_restartable in init_containers:
        if is_restartable:
            _add(sidecars, amounts)
            continue
        for name, amount in amounts.items():
            peak[name] = max(peak.get(name, 0), amount + sidecars.get(name, 0))
    _add(total, sidecars)
    for name, amount in peak.items():
        total[name] = max(total.get(name, 0), amount)
    total = whole_limit | total | whole
    _add(total, overhead)
    return total


def _need_values(requests: Amounts, pod: Amounts, path: str, findings: Findings) -> None:
    """Note each needed resource that neither the container nor the pod as a whole has a value for."""
    for name in _NEEDED:
        if name not in requests and name not in pod:
            findings.add(
                f"{path}.resources",
                f"has no value for {name}: give a request or a limit, as 500m of cpu or 1Gi of memory",
            )


def read_pod_requests(
    spec: dict[str, Any],
    path: str,
    findings: Findings,
    *,
    containers: list[dict[str, Any]],
    init_containers: list[dict[str, Any]],
) -> Amounts:
    """Return the effective request of a pod in base units by resource name, zeros included.

    Args:
        spec: The pod's `spec`.
        path: Path of the spec, for violations.
        findings: Where violations are noted.
        containers: The pod's `spec.containers`, already read as objects.
        init_containers: Its `spec.initContainers`, likewise.
    """
    whole = _read_resources(spec.get("resources"), f"{path}.resources", findings)
    asked = (spec.get("resources") or {}).get("requests") if whole else None

    def read(place: str, container: dict[str, Any]) -> Amounts:
        requests = _read_resources(container.get("resources"), f"{path}.{place}.resources", findings)
        _need_values(requests, whole, f"{path}.{place}", findings)
        return requests

    total = effective_request(
        [read(f"containers[{index}]", container) for index, container in enumerate(containers)],
        [
            (read(f"initContainers[{index}]", container), container.get("restartPolicy") == "Always")
            for index, container in enumerate(init_containers)
        ],
        whole={name: amount for name, amount in whole.items() if name in (asked or ())},
        whole_limit=whole,
        overhead=_read_amounts(spec["overhead"], f"{path}.overhead", findings) if "overhead" in spec else {},
    )
    for name, amount in total.items():
        if amount > MAX_AMOUNT:
            findings.add(path, f"asks for more {name} than can be counted")
            total[name] = MAX_AMOUNT
    if not any(total.values()) and not findings.violations:
        findings.add(path, "asks for no resource at all; a pod needs some cpu or memory")
    return total

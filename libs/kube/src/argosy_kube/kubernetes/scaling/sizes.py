"""The size of a pod, as its document says it, and the patch that gives it another.

What is resized are the containers, each by its part of what all of them request. Sidecars and the pod's overhead keep
what they have. Limits keep their ratio to requests, so the class of quality of service stays: equal stays equal, above
stays above, and what has no limit gets none.

Source: design section 5, "Resize"; docs/autoscale.md "Resizes".
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address
from typing import Any, Final

import msgspec

from argosy_core.autoscale import Amounts
from argosy_core.autoscale.events import Pending, PodSeen, ScalingPolicy
from argosy_core.errors import InvalidRequest
from argosy_core.resources import CPU, MEMORY, parse_quantity
from argosy_kube.kubernetes.api.documents import (
    Condition,
    Container,
    ContainerStatus,
    FoundMetadata,
    ListDocument,
    PodDocument,
    PodSpec,
    PodStatus,
    Quantities,
    Resources,
    Terminated,
    WatchEvent,
)

__all__ = [
    "LIST_OF_SCALED_PODS",
    "SCALED_POD",
    "WATCH_OF_SCALED_PODS",
    "ScaledPod",
    "contract_host",
    "out_of_memory_count",
    "read_size",
    "resize_patch",
]

_NAMES: Final = (CPU, MEMORY)
_RESTARTS: Final = "RestartContainer"


class _Rule(msgspec.Struct, rename="camel", gc=False):
    """Element of resizePolicy[]."""

    resource_name: str = ""
    restart_policy: str = ""


class _ScaledContainer(Container):
    """A container with what a resize does to it."""

    resize_policy: list[_Rule] | None = None


class _ScaledSpec(PodSpec):
    """Spec with such containers."""

    containers: list[_ScaledContainer] | None = None  # type: ignore[assignment]  # lists of documents are only read
    host_network: bool | None = None


class _LastState(msgspec.Struct, rename="camel", gc=False):
    """How a container ended before it was restarted."""

    terminated: Terminated | None = None


class _ScaledContainerStatus(ContainerStatus):
    """State of a container with how it ended before."""

    restart_count: int = 0
    last_state: _LastState | None = None


class _ScaledStatus(PodStatus):
    """Status with such containers."""

    container_statuses: list[_ScaledContainerStatus] | None = None  # type: ignore[assignment]  # as above
    pod_ip: str | None = msgspec.field(default=None, name="podIP")


class ScaledPod(PodDocument):
    """A pod, as far as its size goes, with all annotations."""

    metadata: FoundMetadata = msgspec.field(default_factory=FoundMetadata)
    spec: _ScaledSpec = msgspec.field(default_factory=_ScaledSpec)
    status: _ScaledStatus = msgspec.field(default_factory=_ScaledStatus)


SCALED_POD: Final = msgspec.json.Decoder(ScaledPod)
LIST_OF_SCALED_PODS: Final = msgspec.json.Decoder(ListDocument[ScaledPod])
WATCH_OF_SCALED_PODS: Final = msgspec.json.Decoder(WatchEvent[ScaledPod])


def read_size(pod: ScaledPod, policy: ScalingPolicy) -> PodSeen:
    """Return a pod that runs as an agent sees it.

    Args:
        pod: The document.
        policy: Within what it is resized.
    """
    containers = pod.spec.containers or []
    statuses = {one.name: one for one in pod.status.container_statuses or ()}
    fixed = _fixed(pod)
    desired = [_requests(one.resources) for one in containers]
    allocated = [_given(statuses.get(one.name), asked) for one, asked in zip(containers, desired, strict=True)]
    actual = [_actual(statuses.get(one.name), given) for one, given in zip(containers, allocated, strict=True)]
    return PodSeen(
        uid=pod.metadata.uid,
        version=int(pod.metadata.resource_version or 0),
        policy=policy,
        desired=_total(fixed, desired),
        allocated=_total(fixed, allocated),
        actual=_total(fixed, actual),
        pending=_pending(pod.status.conditions or ()),
        refusal=_refusal(pod),
    )


def contract_host(pod: ScaledPod) -> str:
    """Return the address at which a pod, and nothing else, can be asked what it needs; empty if there is none.

    A pod in its node's network has the node's address, where other things listen; and addresses that are of this
    machine, of the link (as cloud metadata) or of many are no pod's.
    """
    if pod.spec.host_network:
        return ""
    try:
        address = ip_address(pod.status.pod_ip or "")
    except ValueError:
        return ""
    plain = getattr(address, "ipv4_mapped", None) or address
    is_other = plain.is_loopback or plain.is_link_local or plain.is_multicast or plain.is_unspecified
    return "" if is_other else str(address)


def out_of_memory_count(pod: ScaledPod) -> int:
    """Return how often containers of a pod were restarted, if the last time was for want of memory; else 0."""
    ends = [
        (one.restart_count, one.last_state.terminated.reason)
        for one in pod.status.container_statuses or ()
        if one.last_state is not None and one.last_state.terminated is not None
    ]
    return sum(count for count, reason in ends if reason == "OOMKilled")


def resize_patch(pod: ScaledPod, amounts: Amounts, version: int) -> bytes:
    """Return the patch of the pod's resize subresource that gives it a size, if it is still at a version.

    Args:
        pod: The pod, whose `read_size` has no refusal.
        amounts: What all containers are to request together, with sidecars and overhead.
        version: Version that the pod must be at.

    Raises:
        InvalidRequest: The size leaves nothing for some container.
    """
    containers, fixed = pod.spec.containers or [], _fixed(pod)
    shares: list[dict[str, dict[str, str]]] = [{"requests": {}, "limits": {}} for _ in containers]
    for place, name in enumerate(_NAMES):
        old = [_requests(one.resources)[place] for one in containers]
        for share, container, was, new in zip(
            shares, containers, old, _share(amounts[place] - fixed[place], old, name), strict=True
        ):
            share["requests"][name] = _text(name, new)
            limit = ((container.resources or Resources()).limits or {}).get(name)
            if limit is not None:
                share["limits"][name] = _text(name, -(-_quantity(name, limit) * new // was))
    patch: dict[str, Any] = {
        "metadata": {"uid": pod.metadata.uid, "resourceVersion": str(version)},
        "spec": {
            "containers": [
                {"name": container.name, "resources": {kind: held for kind, held in share.items() if held}}
                for container, share in zip(containers, shares, strict=True)
            ]
        },
    }
    return msgspec.json.encode(patch)


def _share(total: int, parts: Sequence[int], name: str) -> list[int]:
    """Return a total shared out by parts: exact, each at least 1, what is left to the largest remainders."""
    if total < len(parts):
        raise InvalidRequest(f"the size leaves {total} of {name} for {len(parts)} containers")
    whole = sum(parts)
    shares = [max(total * part // whole, 1) for part in parts]
    order = sorted(range(len(parts)), key=lambda place: (-(total * parts[place] % whole), place))
    missing = total - sum(shares)
    for place in order[: max(missing, 0)]:
        shares[place] += 1
    while sum(shares) > total:  # tiny parts were raised to 1
        shares[shares.index(max(shares))] -= 1
    return shares


def _text(name: str, amount: int) -> str:
    return f"{amount}m" if name == CPU else str(amount)


def _quantity(name: str, quantity: str | float) -> int:
    try:
        return parse_quantity(name, str(quantity))
    except InvalidRequest:
        return 0


def _amounts(quantities: Quantities | None) -> Amounts:
    held = quantities or {}
    return Amounts(_quantity(CPU, held.get(CPU, 0)), _quantity(MEMORY, held.get(MEMORY, 0)))


def _requests(resources: Resources | None) -> Amounts:
    """Return requests, limits standing in for missing ones, as the API server fills them in."""
    if resources is None:
        return Amounts(0, 0)
    return _amounts({**(resources.limits or {}), **(resources.requests or {})})


def _given(status: ContainerStatus | None, asked: Amounts) -> Amounts:
    return asked if status is None or status.allocated_resources is None else _amounts(status.allocated_resources)


def _actual(status: ContainerStatus | None, given: Amounts) -> Amounts:
    return given if status is None or status.resources is None else _requests(status.resources)


def _total(fixed: Amounts, parts: Sequence[Amounts]) -> Amounts:
    return Amounts(fixed[0] + sum(one[0] for one in parts), fixed[1] + sum(one[1] for one in parts))


def _fixed(pod: ScaledPod) -> Amounts:
    """Return what sidecars and overhead take."""
    sidecars = [one for one in pod.spec.init_containers or () if one.restart_policy == "Always"]
    return _total(_amounts(pod.spec.overhead), [_requests(one.resources) for one in sidecars])


def _pending(conditions: Sequence[Condition]) -> Pending:
    for one in conditions:
        if one.type == "PodResizePending" and one.status == "True":
            return Pending.INFEASIBLE if one.reason == Pending.INFEASIBLE.value else Pending.DEFERRED
    return Pending.NO


def _refusal(pod: ScaledPod) -> str:
    """Return why a pod can never be resized in place; empty if it can be."""
    if pod.spec.resources is not None:
        return "its resources are set for the pod as a whole"
    for container in pod.spec.containers or ():
        for rule in container.resize_policy or ():
            if rule.restart_policy == _RESTARTS and rule.resource_name in _NAMES:
                return f"container {container.name} is restarted when its {rule.resource_name} is resized"
        for name, amount in zip(_NAMES, _requests(container.resources), strict=True):
            if amount < 1:
                return f"container {container.name} requests no {name}"
    return "" if pod.spec.containers else "it has no containers"

"""What a pod's document says of its state and of what it asks for.

Source: design section 5, "Node lost"; `argosy_kube.port`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import Final

from argosy_core.errors import InvalidRequest
from argosy_core.job.reading.classes import HostPort
from argosy_core.job.reading.pod_groups import AWAITED_LABEL
from argosy_core.job.reading.requests import effective_request
from argosy_core.job.reading.scaling import (
    MAXIMUM_ANNOTATION,
    MINIMUM_ANNOTATION,
    MOVABLE_ANNOTATION,
    QUEUE_ANNOTATION,
    SWITCH_ANNOTATION,
    UNIT_ANNOTATION,
    PodNote,
    Scaling,
    read_scaling,
)
from argosy_core.resources import parse_quantity
from argosy_kube.failure_table import (
    DISRUPTIONS,
    ORDINARY_ENDS,
    ORDINARY_WAITS,
    OWN_LIMIT,
    POD_DELETED,
    UNSEEN_END,
)
from argosy_kube.kubernetes.api.documents import (
    Condition,
    Container,
    ContainerStatus,
    Metadata,
    PodDocument,
    PodSpec,
    PodStatus,
    Quantities,
    Resources,
    Terminated,
)
from argosy_kube.port import PodPhase

__all__ = [
    "ENDED",
    "RequestReader",
    "containers_of",
    "deletion_us",
    "disruption_of",
    "ended_us",
    "exit_and_reason",
    "first_failed",
    "host_ports",
    "is_awaited",
    "is_gone",
    "phase_of",
    "pod_request",
    "read_time_us",
    "scaling_of",
]

ENDED: Final = frozenset({PodPhase.SUCCEEDED, PodPhase.FAILED})
"""Phases after which nothing runs."""
_PHASES: Final = {
    "Pending": PodPhase.PENDING,
    "Running": PodPhase.RUNNING,
    "Succeeded": PodPhase.SUCCEEDED,
    "Failed": PodPhase.FAILED,
    "Unknown": PodPhase.UNKNOWN,
}
_STOPPED_BY_SIGNAL: Final = frozenset({137, 143})
"""Exit codes of containers that were killed or asked to stop."""
_MOST_REQUESTS: Final = 20_000
_NOTHING: Final = Resources()
_ALL_ADDRESSES: Final = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - compared, never listened at
_OWN_LIMIT: Final = re.compile(r"exceeded its local ephemeral storage limit|exceeds the (?:total )?limit\b")
"""What a kubelet writes of a container, pod or volume that took more storage than its limit."""


def phase_of(status: PodStatus) -> PodPhase:
    """Return the phase as the cluster states it."""
    return _PHASES.get(status.phase or "", PodPhase.PENDING)


def is_gone(pod: PodDocument) -> bool:
    """Return whether a pod was deleted, its grace is over, it has not told its end, and only finalizers keep it."""
    metadata = pod.metadata
    return (
        metadata.deletion_timestamp is not None
        and metadata.deletion_grace_period_seconds == 0
        and phase_of(pod.status) not in ENDED
    )


def is_awaited(pod: PodDocument) -> bool:
    """Return whether other members of a pod's run wait for it to be ready, and it is not."""
    if AWAITED_LABEL not in (pod.metadata.labels or ()):
        return False
    return not any(one.type == "Ready" and one.status == "True" for one in pod.status.conditions or ())


def containers_of(pod: PodDocument) -> Iterator[ContainerStatus]:
    """Give the containers of a pod in the order in which they count: sidecars after those that they serve."""
    inits = pod.status.init_container_statuses or ()
    sidecars = {one.name for one in pod.spec.init_containers or () if one.restart_policy == "Always"}
    yield from (one for one in inits if one.name not in sidecars) if sidecars else inits
    yield from pod.status.container_statuses or ()
    if sidecars:
        yield from (one for one in inits if one.name in sidecars)


def deletion_us(metadata: Metadata) -> int:
    """Return when somebody asked for a pod's deletion, microseconds since the Unix epoch; 0 if nobody has.

    The time that Kubernetes writes is that plus the grace, and shrinks with it; once the grace is 0 it may be later.
    """
    if metadata.deletion_timestamp is None:
        return 0
    return read_time_us(metadata.deletion_timestamp) - (metadata.deletion_grace_period_seconds or 0) * 1_000_000


def exit_and_reason(pod: PodDocument, phase: PodPhase) -> tuple[int, str]:
    """Return the exit code of the first failed container of a failed pod, else 0, and why the phase is what it is.

    A pod's own reason (Evicted, OutOfcpu) comes before that of a disruption, that before the container's (OOMKilled).
    A container that just failed after the deletion was asked for was killed by it. Sidecars end with the pod, by a
    signal as a rule, so they count only where no other container has failed.
    """
    status = pod.status
    if phase == PodPhase.PENDING:
        return 0, _waiting_reason(pod)
    if phase != PodPhase.FAILED:
        return 0, status.reason or ""
    failed = first_failed(pod)
    exit_code = failed[1].exit_code if failed else 0
    if status.reason:
        return exit_code, OWN_LIMIT if _is_own_limit(status) else status.reason
    disruption = disruption_of(pod)
    if disruption is not None and disruption.reason:
        return exit_code, DISRUPTIONS.get(disruption.reason, disruption.reason)
    is_deleted = pod.metadata.deletion_timestamp is not None
    if failed is None:  # deleted before its containers had begun, or its kubelet knows nothing of them any more
        return 0, POD_DELETED if is_deleted else UNSEEN_END
    return exit_code, POD_DELETED if is_deleted and _was_killed(pod, failed[1]) else failed[1].reason or ""


def first_failed(pod: PodDocument) -> tuple[str, Terminated] | None:
    """Return name and end of the first container of a pod that has failed, None if none has."""
    for container in containers_of(pod):
        ended = container.state.terminated if container.state else None
        if ended is not None and ended.exit_code:
            return container.name, ended
    return None


def disruption_of(pod: PodDocument) -> Condition | None:
    """Return the disruption that a failed pod says it has failed of, None if there is none.

    The taint manager also marks pods that have failed long before and are still there: what was not
    stopped from outside, and had ended before, keeps its own failure.
    """
    for condition in pod.status.conditions or ():
        if condition.type == "DisruptionTarget" and condition.status == "True" and condition.reason:
            failed = first_failed(pod)
            if failed is None or _may_be_killed(failed[1]):
                return condition
            finished_us = read_time_us(failed[1].finished_at)
            is_earlier = 0 < finished_us < read_time_us(condition.last_transition_time)
            return None if is_earlier else condition
    return None


def _may_be_killed(ended: Terminated) -> bool:
    """Return whether a container may have been stopped from outside: by a signal, or nobody knows how it ended."""
    if ended.reason == UNSEEN_END:
        return True
    return (ended.reason or "") in ORDINARY_ENDS and ended.exit_code in _STOPPED_BY_SIGNAL


def _was_killed(pod: PodDocument, ended: Terminated) -> bool:
    """Return whether a container of a deleted pod failed because of the deletion."""
    metadata, observed = pod.metadata, pod.status.observed_generation
    if ended.reason == UNSEEN_END:
        return True
    if (ended.reason or "") not in ORDINARY_ENDS:
        return False
    if metadata.deletion_grace_period_seconds == 0:
        # The time is not that of the request any more: a kubelet deletes once again when all containers have ended.
        if observed is not None and metadata.generation is not None:
            return observed >= metadata.generation  # the deletion made the last one
        if _may_be_killed(ended):
            return True
    # Times are whole seconds, so within the same one only the signal tells who was first.
    earliest_us = deletion_us(metadata) + (0 if _may_be_killed(ended) else 1)
    return read_time_us(ended.finished_at) >= earliest_us


def _is_own_limit(status: PodStatus) -> bool:
    """Return whether a kubelet evicted a pod for more storage than it may use itself, and not for want of the node."""
    return status.reason == "Evicted" and _OWN_LIMIT.search(status.message or "") is not None


def _waiting_reason(pod: PodDocument) -> str:
    """Return why a pending pod waits, if not just because it is new."""
    status = pod.status
    for container in containers_of(pod):
        waiting = container.state.waiting if container.state else None
        if waiting is not None and waiting.reason and waiting.reason not in ORDINARY_WAITS:
            return waiting.reason
    for condition in status.conditions or ():
        if condition.type == "PodScheduled" and condition.status == "False" and condition.reason:
            return condition.reason
    return status.reason or ""


def read_time_us(text: str | None) -> int:
    """Return a time of Kubernetes as microseconds since the Unix epoch, 0 if there is none."""
    if not text:
        return 0
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1e6)
    except (ValueError, OverflowError):
        return 0


def ended_us(pod: PodDocument, phase: PodPhase) -> int:
    """Return when a pod came into its phase, as well as its document says, in microseconds since the Unix epoch."""
    if phase in ENDED:
        finished = 0
        for container in containers_of(pod):
            ended = container.state.terminated if container.state else None
            if ended is not None:
                finished = max(finished, read_time_us(ended.finished_at))
        if finished:
            return finished
    if phase != PodPhase.PENDING and pod.status.start_time:
        return read_time_us(pod.status.start_time)
    return read_time_us(pod.metadata.creation_timestamp)


class RequestReader:
    """Works out what pods ask for, once per distinct set of resources.

    Args:
        intern: Gives the row of a request.
    """

    def __init__(self, intern: Callable[[dict[str, int]], int]) -> None:
        """Start empty."""
        self._intern = intern
        self._known: dict[object, int] = {}

    def row(self, pod: PodDocument) -> int:
        """Return the row of what a pod asks for."""
        key = _key(pod)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _MOST_REQUESTS:
                self._known.clear()
            found = self._known[key] = self._intern(pod_request(pod))
        return found


def _items(quantities: Quantities | None) -> tuple[tuple[str, str | int | float], ...]:
    return tuple(quantities.items()) if quantities else ()


def _resources_key(resources: Resources | None) -> object:
    return None if resources is None else (_items(resources.requests), _items(resources.limits))


def _key(pod: PodDocument) -> object:
    spec, containers, resized = pod.spec, pod.spec.containers or (), _resized(pod)
    is_plain = not spec.init_containers and spec.overhead is None and spec.resources is None
    if is_plain and not resized and len(containers) == 1:
        return _resources_key(containers[0].resources)
    return (
        tuple((name, *map(_resources_key, held)) for name, held in resized.items()),
        bool(resized) and _is_infeasible(pod.status),
        tuple(_resources_key(container.resources) for container in containers),
        tuple((_resources_key(item.resources), item.restart_policy) for item in spec.init_containers or ()),
        _items(spec.overhead),
        _resources_key(spec.resources),
    )


def _amounts(quantities: Quantities | None) -> dict[str, int]:
    amounts: dict[str, int] = {}
    for name, quantity in (quantities or {}).items():
        try:
            amounts[name] = parse_quantity(name, str(quantity))
        except InvalidRequest:
            amounts[name] = 0
    return amounts


def _requested(resources: Resources | None) -> dict[str, int]:
    """Return requests, limits standing in for missing ones."""
    return {} if resources is None else _amounts(resources.limits) | _amounts(resources.requests)


def _resized(pod: PodDocument) -> dict[str, tuple[Resources, ...]]:
    """Return by container what its kubelet gave it and what it has, where that is not just what is asked for."""
    asked = {one.name: one.resources for one in (*(pod.spec.init_containers or ()), *(pod.spec.containers or ()))}
    found: dict[str, tuple[Resources, ...]] = {}
    for status in containers_of(pod):
        if status.allocated_resources is None and status.resources is None:
            continue
        wanted = (asked.get(status.name) or _NOTHING).requests or {}
        given, actual = status.allocated_resources, (status.resources or _NOTHING).requests
        if (given is not None and given != wanted) or (actual is not None and actual != wanted):
            found[status.name] = Resources(requests=given), Resources(requests=actual)
    return found


def _is_infeasible(status: PodStatus) -> bool:
    """Return whether the kubelet will never do what a resize asks for."""
    return any(one.type == "PodResizePending" and one.reason == "Infeasible" for one in status.conditions or ())


def pod_request(pod: PodDocument) -> dict[str, int]:
    """Return the effective request of a pod in base units by resource name, as the Kubernetes scheduler counts it.

    A container that is being resized counts with the most of what is asked for, what its kubelet
    gave it and what it has, without the first where the kubelet said that it cannot be.
    """
    spec, resized = pod.spec, _resized(pod)
    is_infeasible = bool(resized) and _is_infeasible(pod.status)

    def requested(container: Container) -> dict[str, int]:
        amounts = _requested(container.resources)
        held = resized.get(container.name)
        if held is None:
            return amounts
        if is_infeasible:
            amounts = dict.fromkeys(amounts, 0)
        for resources in held:
            for name, amount in _requested(resources).items():
                amounts[name] = max(amounts.get(name, 0), amount)
        return amounts

    whole = spec.resources or _NOTHING
    return effective_request(
        [requested(one) for one in spec.containers or ()],
        [(requested(one), one.restart_policy == "Always") for one in spec.init_containers or ()],
        whole=_amounts(whole.requests),
        whole_limit=_amounts(whole.limits),
        overhead=_amounts(spec.overhead),
    )


def host_ports(spec: PodSpec) -> tuple[HostPort, ...]:
    """Return the ports of the node that a pod has, those of its sidecars included; others end before they matter."""
    found: list[HostPort] = []
    inits = (one for one in spec.init_containers or () if one.restart_policy == "Always")
    for container in (*(spec.containers or ()), *inits):
        for port in container.ports or ():
            if port.host_port:
                address = port.host_ip or ""
                address = "" if address in _ALL_ADDRESSES else address
                found.append(HostPort(port.protocol or "TCP", port.host_port, address))
    return tuple(sorted(set(found))) if found else ()


def scaling_of(pod: PodDocument) -> Scaling | None:
    """Return within what a pod is resized; None if it is not, or its annotations cannot be read."""
    notes = pod.metadata.annotations
    if notes is None or notes.minimum is None:
        return None
    texts = {
        MINIMUM_ANNOTATION: notes.minimum,
        MAXIMUM_ANNOTATION: notes.maximum,
        SWITCH_ANNOTATION: notes.switch,
        MOVABLE_ANNOTATION: notes.movable,
        UNIT_ANNOTATION: notes.unit,
        QUEUE_ANNOTATION: notes.queue,
    }
    try:
        scaling = read_scaling({name: text for name, text in texts.items() if text is not None})
    except InvalidRequest:
        return None
    note = PodNote(text=notes.permit or "", namespace=pod.metadata.namespace, name=pod.metadata.name)
    return None if scaling is None else replace(scaling, note=note)

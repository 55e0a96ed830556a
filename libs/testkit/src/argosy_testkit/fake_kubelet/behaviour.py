"""What a fake kubelet makes of a pod: how it behaves, and the statuses it goes through. Values and functions only.

Annotations say how a pod behaves; run time, exit code and start delay mean what they mean to the simulated cluster.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np

from argosy_core.errors import InvalidRequest
from argosy_core.resources import parse_quantity
from argosy_kube.port import EXIT_CODE_ANNOTATION, RUN_TIME_ANNOTATION, START_DELAY_ANNOTATION
from argosy_kube.simulated.recipes import parse_span

__all__ = [
    "LOG_LINES_ANNOTATION",
    "REASON_ANNOTATION",
    "STOP_TIME_ANNOTATION",
    "Behaviour",
    "Pod",
    "deferred_status",
    "ended_status",
    "pod_requests",
    "read_behaviour",
    "refused_status",
    "resized_status",
    "restarted_status",
    "rfc3339",
    "running_status",
    "waiting_status",
]

REASON_ANNOTATION: Final = "argosy.dev/simulated-reason"
"""How a pod of a fake kubelet ends or hangs: OOMKilled, Evicted, ErrImagePull, CreateContainerConfigError, or a reason
for which kubelets refuse pods, as OutOfcpu or UnexpectedAdmissionError."""
STOP_TIME_ANNOTATION: Final = "argosy.dev/simulated-stop-time"
"""How long a pod goes on after its deletion, at most its grace period; 0 s if absent."""
LOG_LINES_ANNOTATION: Final = "argosy.dev/simulated-log-lines"
"""How many lines each container writes, spread over its run time; 3 if absent."""

WAITING_REASONS: Final = frozenset(
    {"CreateContainerConfigError", "CreateContainerError", "ErrImagePull", "InvalidImageName"}
)
"""Reasons for which a container never starts and its pod stays pending."""
REFUSING_REASONS: Final = frozenset(
    {"NodeAffinity", "OutOfcpu", "OutOfephemeral-storage", "OutOfmemory", "OutOfpods", "UnexpectedAdmissionError"}
)
"""Reasons for which a kubelet does not take a pod that was bound to its node."""
_RESIZE_PENDING: Final = "PodResizePending"
"""Condition of a pod whose resize its kubelet has not granted."""
OUT_OF_MEMORY: Final = "OOMKilled"
EVICTED: Final = "Evicted"
_KILLED_CODE: Final = 137


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    annotations: dict[str, str] = {}
    deletion_timestamp: str = ""
    deletion_grace_period_seconds: int = 0


class _Resources(msgspec.Struct):
    requests: dict[str, str | int | float] = {}
    limits: dict[str, str | int | float] = {}


class _Container(msgspec.Struct):
    name: str
    image: str = ""
    resources: _Resources = msgspec.field(default_factory=_Resources)


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""
    restart_policy: str = "Always"
    active_deadline_seconds: int = 0
    containers: list[_Container] = []
    init_containers: list[_Container] = []


class _Status(msgspec.Struct, rename="camel"):
    phase: str = "Pending"
    start_time: str = ""


class Pod(msgspec.Struct):
    """What a fake kubelet reads of a pod."""

    metadata: _Metadata
    """Names, annotations, deletion."""
    spec: _Spec = msgspec.field(default_factory=_Spec)
    """Node, containers."""
    status: _Status = msgspec.field(default_factory=_Status)
    """Phase."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """How a pod behaves."""

    start_delay_s: float = 0.0
    """Time from its binding to its start, seconds."""
    run_time_s: float = 1.0
    """How long it runs, seconds."""
    exit_code: int = 0
    """Exit code of its containers."""
    reason: str = ""
    """How it ends or hangs, if not by itself."""
    stop_time_s: float = 0.0
    """How long it goes on after its deletion, seconds."""
    log_lines: int = 3
    """Lines that each container writes."""


def read_behaviour(annotations: Mapping[str, str], random: np.random.Generator) -> Behaviour:
    """Return how a pod with these annotations behaves; what cannot be read is as if it were absent.

    Args:
        annotations: The pod's.
        random: Draws times that are given as a span.
    """

    def drawn_s(name: str, default: str) -> float:
        try:
            least_us, most_us = parse_span(annotations.get(name, default))
        except InvalidRequest:
            least_us, most_us = parse_span(default)
        return least_us / 1e6 if least_us == most_us else float(random.uniform(least_us, most_us)) / 1e6

    def number(name: str, default: int) -> int:
        text = annotations.get(name, "")
        return int(text) if text.isdecimal() else default

    return Behaviour(
        start_delay_s=drawn_s(START_DELAY_ANNOTATION, "0s"),
        run_time_s=drawn_s(RUN_TIME_ANNOTATION, "1s"),
        exit_code=number(EXIT_CODE_ANNOTATION, 0),
        reason=annotations.get(REASON_ANNOTATION, ""),
        stop_time_s=drawn_s(STOP_TIME_ANNOTATION, "0s"),
        log_lines=number(LOG_LINES_ANNOTATION, 3),
    )


def pod_requests(pod: Pod) -> dict[str, int]:
    """Return what a pod asks for in base units: its containers' sum or its largest init container; 1 of `pods`."""

    def amounts(container: _Container) -> dict[str, int]:
        stated = {**container.resources.limits, **container.resources.requests}
        return {name: parse_quantity(name, str(quantity)) for name, quantity in stated.items()}

    total = {"pods": 1}
    for container in pod.spec.containers:
        for name, amount in amounts(container).items():
            total[name] = total.get(name, 0) + amount
    for container in pod.spec.init_containers:
        for name, amount in amounts(container).items():
            total[name] = max(total.get(name, 0), amount)
    return total


def rfc3339(now_s: float) -> str:
    """Return a time as Kubernetes writes it, in whole seconds."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now_s))


def _conditions(now: str, *, is_initialized: bool, is_ready: bool, reason: str = "") -> list[dict[str, str]]:
    states = {"PodScheduled": True, "Initialized": is_initialized, "ContainersReady": is_ready, "Ready": is_ready}
    return [
        {
            "type": name,
            "status": str(value),
            "lastTransitionTime": now,
            **({"reason": reason} if reason and not value else {}),
        }
        for name, value in states.items()
    ]


def _held(container: _Container) -> dict[str, Any]:
    """Return what a container that runs was given and has: what its spec asks for."""
    stated = {"requests": container.resources.requests, "limits": container.resources.limits}
    held = {kind: amounts for kind, amounts in stated.items() if amounts}
    return {"resources": held, "allocatedResources": held["requests"]} if "requests" in held else {}


def _container_status(container: _Container, state: dict[str, Any], *, restarts: int, is_ready: bool) -> dict[str, Any]:
    return {
        **(_held(container) if "running" in state else {}),
        "name": container.name,
        "image": container.image,
        "imageID": "" if "waiting" in state else f"fake://{container.image}",
        "ready": is_ready,
        "started": is_ready,
        "restartCount": restarts,
        "state": state,
    }


def _init_statuses(pod: Pod, now: str) -> dict[str, Any]:
    if not pod.spec.init_containers:
        return {}
    done = {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": now, "finishedAt": now}}
    return {
        "initContainerStatuses": [
            _container_status(container, done, restarts=0, is_ready=True) for container in pod.spec.init_containers
        ]
    }


def running_status(pod: Pod, now_s: float, *, address: str) -> dict[str, Any]:
    """Return the status of a pod all of whose containers run."""
    now = rfc3339(now_s)
    return {
        "phase": "Running",
        "startTime": now,
        "hostIP": "127.0.0.1",
        "hostIPs": [{"ip": "127.0.0.1"}],
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": _conditions(now, is_initialized=True, is_ready=True),
        **restarted_status(pod, now_s, restarts=0),
        **_init_statuses(pod, now),
    }


def restarted_status(pod: Pod, now_s: float, *, restarts: int) -> dict[str, Any]:
    """Return what changes in the status of a pod whose containers were started again, after so many restarts."""
    state = {"running": {"startedAt": rfc3339(now_s)}}
    return {
        "containerStatuses": [
            _container_status(container, state, restarts=restarts, is_ready=True) for container in pod.spec.containers
        ]
    }


def resized_status(pod: Pod, *, was_deferred: bool) -> dict[str, Any]:
    """Return what changes in the status of a pod that has the size that its spec asks for, as a strategic patch."""
    done = [{"$patch": "delete", "type": _RESIZE_PENDING}] if was_deferred else []
    return {
        "containerStatuses": [{"name": container.name, **_held(container)} for container in pod.spec.containers],
        **({"conditions": done} if done else {}),
    }


def deferred_status(now_s: float, wanted: Mapping[str, int]) -> dict[str, Any]:
    """Return what changes in the status of a pod whose node has no room for the size that its spec asks for."""
    words = f"Node didn't have enough capacity: requested {dict(wanted)}"
    condition = {"type": _RESIZE_PENDING, "status": "True", "reason": "Deferred", "message": words}
    return {"conditions": [{**condition, "lastTransitionTime": rfc3339(now_s)}]}


def waiting_status(pod: Pod, now_s: float, reason: str) -> dict[str, Any]:
    """Return the status of a pod whose containers cannot start."""
    now = rfc3339(now_s)
    return {
        "phase": "Pending",
        "startTime": now,
        "conditions": _conditions(now, is_initialized=True, is_ready=False, reason="ContainersNotReady"),
        "containerStatuses": [
            _container_status(
                container,
                {"waiting": {"reason": reason, "message": f"{reason}: {container.image}"}},
                restarts=0,
                is_ready=False,
            )
            for container in pod.spec.containers
        ],
    }


def refused_status(reason: str, message: str) -> dict[str, Any]:
    """Return the status of a pod that the kubelet did not take, or gave up as a whole (evicted, past its deadline)."""
    return {"phase": "Failed", "reason": reason, "message": message}


def ended_status(
    pod: Pod, started_s: float, ended_s: float, *, exit_code: int, reason: str = "", restarts: int = 0
) -> dict[str, Any]:
    """Return the status of a pod all of whose containers ended.

    Args:
        pod: The pod.
        started_s: When it started, Unix time.
        ended_s: When it ended.
        exit_code: Exit code of every container.
        reason: OOMKilled for a container that was out of memory; Evicted and others are reasons of the whole pod.
        restarts: How often its containers were started again.
    """
    is_out_of_memory = reason == OUT_OF_MEMORY
    code = _KILLED_CODE if is_out_of_memory or (reason and exit_code == 0) else exit_code
    now = rfc3339(ended_s)
    terminated = {
        "exitCode": code,
        "reason": OUT_OF_MEMORY if is_out_of_memory else "Completed" if code == 0 else "Error",
        "startedAt": rfc3339(started_s),
        "finishedAt": now,
    }
    whole = {} if is_out_of_memory or not reason else refused_status(reason, f"the pod ended: {reason}")
    return {
        "phase": "Succeeded" if code == 0 else "Failed",
        "conditions": _conditions(
            now, is_initialized=True, is_ready=False, reason="PodCompleted" if code == 0 else "PodFailed"
        ),
        "containerStatuses": [
            _container_status(container, {"terminated": terminated}, restarts=restarts, is_ready=False)
            for container in pod.spec.containers
        ],
        **whole,
    }

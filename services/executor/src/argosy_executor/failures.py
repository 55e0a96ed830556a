"""What kind of failure the words of Kubernetes mean, and how it is told to people. The table is in docs/failures.md.

Source: design section 5, "Sync" and "Node lost".
"""

from __future__ import annotations

import signal
from typing import Final

from argosy_core.job.states import FAILURE_REASONS, FailureKind
from argosy_kube.port import Detail

__all__ = ["describe_failure", "describe_wait", "failure_of", "waiting_failure_of"]

_NO_DETAIL: Final = Detail()

_EVICTIONS: Final = frozenset({"Evicted", "Preempting"})
"""The pod was sent away: by its node for want of memory, disk or process ids, or by whoever may evict."""
_INFRASTRUCTURE: Final = frozenset(
    {
        "Deleted",
        "NodeLost",
        "NodeShutdown",
        "NodeNotReady",
        "NodeAffinity",
        "Shutdown",
        "TaintToleration",
        "Terminated",
        "UnexpectedAdmissionError",
        "VolumeAttachmentLimitExceeded",
    }
)
"""The node or cluster failed, or a node refused the pod; a reason that begins with OutOf is of this kind as well."""
_OWN: Final = frozenset({"", "Error", "Completed", "ContainerCannotRun", "DeadlineExceeded", "StartError"})
"""The job's own, whatever its exit code."""
_BROKEN_CONTAINERS: Final = frozenset(
    {"CreateContainerConfigError", "CreateContainerError", "CrashLoopBackOff", "PreStartHookError", "RunContainerError"}
)
"""Waiting reasons of containers that cannot be made from what the job says."""
_SIGNAL_BASE: Final = 128


def _lacks_image(reason: str) -> bool:
    return "Image" in reason or reason == "RegistryUnavailable"


def failure_of(reason: str, exit_code: int) -> FailureKind:
    """Return the kind of failure of a failed pod.

    Args:
        reason: As Kubernetes writes it: OOMKilled, Evicted, OutOfcpu, ErrImagePull and so on.
        exit_code: Of the first failed container, 0 if none.
    """
    if reason == "OOMKilled":
        return FailureKind.OUT_OF_MEMORY
    if reason in _EVICTIONS:
        return FailureKind.EVICTED
    if _lacks_image(reason):
        return FailureKind.IMAGE
    if reason in _INFRASTRUCTURE or reason.startswith("OutOf"):
        return FailureKind.INFRASTRUCTURE
    if exit_code or reason in _OWN:
        return FailureKind.EXIT_CODE
    return FailureKind.INFRASTRUCTURE


def waiting_failure_of(reason: str) -> FailureKind:
    """Return what a pod has failed of if it goes on waiting for this reason.

    Args:
        reason: Why a container of it waits, or why it is not scheduled.
    """
    if _lacks_image(reason):
        return FailureKind.IMAGE
    if reason in _BROKEN_CONTAINERS:
        return FailureKind.REJECTED
    return FailureKind.INFRASTRUCTURE


def describe_failure(reason: str, exit_code: int, detail: Detail = _NO_DETAIL) -> str:
    """Return a failure for people: what happened, to which container, and the words of Kubernetes.

    Args:
        reason: As Kubernetes writes it.
        exit_code: Of the first failed container, 0 if none.
        detail: What is known beyond that.
    """
    kind = failure_of(reason, exit_code)
    if reason == "DeadlineExceeded":
        return "the pod ran longer than its activeDeadlineSeconds (DeadlineExceeded)"
    if kind == FailureKind.EXIT_CODE and exit_code:
        whose = f"container {detail.container}" if detail.container else "a container"
        text = f"{whose} ended with exit code {exit_code}{_signal_text(exit_code)}"
        return _with_message(text if reason in {"", "Error"} else f"{text} ({reason})", detail)
    words = [reason] if reason else []
    words += [f"container {detail.container}"] if detail.container else []
    text = FAILURE_REASONS[kind]
    return _with_message(f"{text} ({', '.join(words)})" if words else text, detail)


def describe_wait(reason: str, detail: Detail = _NO_DETAIL) -> str:
    """Return for people what a pod waits for.

    Args:
        reason: As Kubernetes writes it.
        detail: What is known beyond that.
    """
    return _with_message(f"{reason}, container {detail.container}" if detail.container else reason, detail)


def _with_message(text: str, detail: Detail) -> str:
    return f"{text}: {detail.message}" if detail.message else text


def _signal_text(exit_code: int) -> str:
    """Return which signal an exit code stands for."""
    try:
        return f", {signal.Signals(exit_code - _SIGNAL_BASE).name}" if exit_code > _SIGNAL_BASE else ""
    except ValueError:
        return ""

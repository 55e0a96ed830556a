"""The one table of what the words of Kubernetes mean for a pod of ours, and how failures are told to people.

A word is the reason of a pod, of one of its containers, or of a disruption. docs/failures.md shows the table, and a
test compares them; the pods recorded in tests/contract/kube/recorded/pods are read through it.

Source: design section 5, "Sync" and "Node lost".
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final

from argosy_core.job.states import FAILURE_REASONS, FailureKind
from argosy_kube.port import Detail

__all__ = [
    "DISRUPTIONS",
    "FORGOTTEN_END",
    "NODE_LOST",
    "NOT_READY",
    "ORDINARY_ENDS",
    "ORDINARY_WAITS",
    "OWN_LIMIT",
    "POD_DELETED",
    "UNSEEN_END",
    "WORDS",
    "Word",
    "describe_failure",
    "describe_wait",
    "failure_of",
    "waiting_failure_of",
]

NODE_LOST: Final = "NodeLost"
"""Reason of pods whose node is gone, or was declared out of service."""
NOT_READY: Final = "NotReady"
"""Reason of pods that run, and are not ready although other members of their job wait for that."""
POD_DELETED: Final = "Deleted"
"""Reason of pods whose containers failed after somebody, of ours or not, had deleted the pod."""
DISRUPTIONS: Final[Mapping[str, str]] = {
    "DeletionByPodGC": NODE_LOST,
    "DeletionByTaintManager": "NodeNotReady",
    "PreemptionByScheduler": "Preempting",
    "EvictionByEvictionAPI": "Evicted",
    "TerminationByKubelet": "Terminated",
}
"""Words of the condition DisruptionTarget, and the word of the table that each is taken for."""
OWN_LIMIT: Final = "StorageLimit"
"""Reason of pods that a kubelet evicted because they took more storage than their own limits; it writes Evicted."""
ORDINARY_ENDS: Final = frozenset({"", "Error"})
"""Reasons of containers that just ended with an exit code."""
ORDINARY_WAITS: Final = frozenset({"ContainerCreating", "PodInitializing"})
"""Reasons of containers that wait just because they are new."""
UNSEEN_END: Final = "ContainerStatusUnknown"
"""Reason of a container of which its kubelet knows nothing any more."""
FORGOTTEN_END: Final = "Unknown"
"""Reason, with exit code 255, of a container of which its runtime knows nothing after its node was started again."""
_NO_DETAIL: Final = Detail()
_SIGNAL_BASE: Final = 128
_REMEMBERED_WORDS: Final = 1024
"""Anybody who may write a pod's status can make words up."""


@dataclass(frozen=True, slots=True)
class Word:
    """What a word means."""

    pattern: str
    """The word; `*` stands for anything."""
    ended: FailureKind | None
    """Kind of failure of a pod that has failed with it; None if the exit code tells."""
    waiting: FailureKind = FailureKind.INFRASTRUCTURE
    """Kind of failure of a pod that waits for too long with it."""


_OWN, _CLUSTER, _IMAGE = FailureKind.EXIT_CODE, FailureKind.INFRASTRUCTURE, FailureKind.IMAGE

WORDS: Final = (
    # The job's own, whatever its exit code.
    *(Word(word, _OWN) for word in ("", "Error", "Completed", "ContainerCannotRun", "DeadlineExceeded", "StartError")),
    Word(OWN_LIMIT, _OWN),
    Word("OOMKilled", FailureKind.OUT_OF_MEMORY),
    # Sent away: by its node for want of memory, disk or process ids, or by whoever may evict.
    Word("Evicted", FailureKind.EVICTED),
    Word("Preempting", FailureKind.EVICTED),
    Word("*Image*", _IMAGE, _IMAGE),
    Word("RegistryUnavailable", _IMAGE, _IMAGE),
    # Containers that cannot be made from what the job says.
    Word("CreateContainerConfigError", None, FailureKind.REJECTED),
    Word("CreateContainerError", None, FailureKind.REJECTED),
    Word("CrashLoopBackOff", None, FailureKind.REJECTED),
    Word("PreStartHookError", None, FailureKind.REJECTED),
    Word("RunContainerError", None, FailureKind.REJECTED),
    # The node or cluster failed, or a kubelet refused the pod.
    Word(UNSEEN_END, _CLUSTER),
    Word(FORGOTTEN_END, _CLUSTER),
    Word("OutOf*", _CLUSTER),
    Word(POD_DELETED, _CLUSTER),
    Word(NODE_LOST, _CLUSTER),
    Word("NodeShutdown", _CLUSTER),
    Word("NodeNotReady", _CLUSTER),
    Word("NodeAffinity", _CLUSTER),
    Word("Shutdown", _CLUSTER),
    Word("TaintToleration", _CLUSTER),
    Word("Terminated", _CLUSTER),
    Word("UnexpectedAdmissionError", _CLUSTER),
    Word("VolumeAttachmentLimitExceeded", _CLUSTER),
    # A word that nobody knows: the job's own if there is an exit code, and the cluster's otherwise.
    Word("*", None),
)
"""The table; the first that matches counts."""


@lru_cache(maxsize=_REMEMBERED_WORDS)
def _look_up(reason: str) -> Word:
    """Return the first word of the table that matches a reason."""
    return next(word for word in WORDS if fnmatchcase(reason, word.pattern))


def failure_of(reason: str, exit_code: int) -> FailureKind:
    """Return the kind of failure of a failed pod.

    Args:
        reason: As Kubernetes writes it: OOMKilled, Evicted, OutOfcpu, ErrImagePull and so on.
        exit_code: Of the first failed container, 0 if none.
    """
    ended = _look_up(reason).ended
    if ended is None:
        return FailureKind.EXIT_CODE if exit_code else FailureKind.INFRASTRUCTURE
    return ended


def waiting_failure_of(reason: str) -> FailureKind:
    """Return what a pod has failed of if it goes on waiting for this reason.

    Args:
        reason: Why a container of it waits, or why it is not scheduled.
    """
    return _look_up(reason).waiting


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
    if reason == OWN_LIMIT:
        return _with_message("the pod took more ephemeral storage than its limit", detail)
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
    if reason == NOT_READY:
        return _with_message("it runs and is not ready, and other members of the job wait for it (NotReady)", detail)
    return _with_message(f"{reason}, container {detail.container}" if detail.container else reason, detail)


def _with_message(text: str, detail: Detail) -> str:
    return f"{text}: {detail.message}" if detail.message else text


def _signal_text(exit_code: int) -> str:
    """Return which signal an exit code stands for."""
    try:
        return f", {signal.Signals(exit_code - _SIGNAL_BASE).name}" if exit_code > _SIGNAL_BASE else ""
    except ValueError:
        return ""

"""Which container a pod's reason is about, and what is said of it beyond the reason's word.

Source: `argosy_kube.port`, "Detail".
"""

from __future__ import annotations

from argosy_kube.failure_table import ORDINARY_WAITS, POD_DELETED
from argosy_kube.kubernetes.api.documents import Condition, PodDocument
from argosy_kube.kubernetes.reading.pods import containers_of
from argosy_kube.port import MAX_DETAIL_LENGTH, Detail, PodPhase

__all__ = ["detail_of", "one_line"]


def one_line(text: str | None) -> str:
    """Return a text of anybody's as one line that may be shown and stored: bounded, nothing that does not print."""
    if not text:
        return ""
    # A container may write megabytes into its last message; Kubernetes keeps 4 KiB of it.
    shown = "".join(sign if sign.isprintable() else " " for sign in text[: 4 * MAX_DETAIL_LENGTH])
    line = " ".join(shown.split())
    return line if len(line) <= MAX_DETAIL_LENGTH else line[: MAX_DETAIL_LENGTH - 1] + "…"


def detail_of(pod: PodDocument, phase: PodPhase, reason: str) -> Detail | None:
    """Return the detail of what `exit_and_reason` says of a pod, or None if there is none.

    Args:
        pod: What it says.
        phase: Its phase.
        reason: As `exit_and_reason` gave it.
    """
    if phase == PodPhase.FAILED:
        detail = _of_failed(pod, reason)
    elif phase == PodPhase.PENDING and reason:
        detail = _of_waiting(pod)
    else:
        return None
    return detail if detail.container or detail.message else None


def _of_failed(pod: PodDocument, reason: str) -> Detail:
    status = pod.status
    if status.reason:
        return Detail("", one_line(status.message))
    disruption = _find(status.conditions, "DisruptionTarget", "True")
    if disruption is not None:
        return Detail("", one_line(disruption.message))
    for container in containers_of(pod):
        ended = container.state.terminated if container.state else None
        if ended is not None and ended.exit_code:
            return Detail() if reason == POD_DELETED else Detail(container.name, one_line(ended.message))
    return Detail()


def _of_waiting(pod: PodDocument) -> Detail:
    status = pod.status
    for container in containers_of(pod):
        waiting = container.state.waiting if container.state else None
        if waiting is not None and waiting.reason and waiting.reason not in ORDINARY_WAITS:
            return Detail(container.name, one_line(waiting.message))
    unscheduled = _find(status.conditions, "PodScheduled", "False")
    return Detail("", one_line(unscheduled.message if unscheduled is not None else status.message))


def _find(conditions: list[Condition] | None, kind: str, status: str) -> Condition | None:
    """Return the condition of a kind that has a status and a reason."""
    return next((one for one in conditions or () if one.type == kind and one.status == status and one.reason), None)

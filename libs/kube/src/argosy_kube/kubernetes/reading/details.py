"""Which container a pod's reason is about, and what is said of it beyond the reason's word.

Source: `argosy_kube.port`, "Detail".
"""

from __future__ import annotations

from typing import Final

from argosy_kube.failure_table import ORDINARY_WAITS, POD_DELETED
from argosy_kube.kubernetes.api.documents import PodDocument
from argosy_kube.kubernetes.reading.pods import containers_of, disruption_of, first_failed
from argosy_kube.port import MAX_DETAIL_LENGTH, Detail, PodPhase

__all__ = ["detail_of", "one_line"]

_LOOKED_AT: Final = 2 * MAX_DETAIL_LENGTH
"""How much of a text's beginning, and of its end, is looked at."""
_HEAD_LENGTH: Final = MAX_DETAIL_LENGTH // 3
"""How much of the beginning of a line that is too long is kept."""


def one_line(text: str | None) -> str:
    """Return a text of anybody's as one line that may be shown and stored: bounded, nothing that does not print.

    What is too long loses its middle: errors begin with what was tried and end with what went wrong.
    """
    if not text:
        return ""
    # A container may write megabytes into its last message; Kubernetes keeps 4 KiB of it.
    if len(text) > 2 * _LOOKED_AT:
        text = f"{text[:_LOOKED_AT]} {text[-_LOOKED_AT:]}"
    line = " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())
    if len(line) <= MAX_DETAIL_LENGTH:
        return line
    return f"{line[:_HEAD_LENGTH]}…{line[_HEAD_LENGTH + 1 - MAX_DETAIL_LENGTH :]}"


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
    disruption = disruption_of(pod)
    if disruption is not None:
        return Detail("", one_line(disruption.message))
    failed = first_failed(pod)
    if failed is None or reason == POD_DELETED:
        return Detail()
    return Detail(failed[0], one_line(failed[1].message))


def _of_waiting(pod: PodDocument) -> Detail:
    status = pod.status
    for container in containers_of(pod):
        waiting = container.state.waiting if container.state else None
        if waiting is not None and waiting.reason and waiting.reason not in ORDINARY_WAITS:
            return Detail(container.name, one_line(waiting.message))
    for condition in status.conditions or ():
        if condition.type == "PodScheduled" and condition.status == "False" and condition.reason:
            return Detail("", one_line(condition.message))
    return Detail("", one_line(status.message))

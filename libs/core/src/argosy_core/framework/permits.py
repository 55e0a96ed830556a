"""Pods that wait for approval between reservation and binding.

Source: seed 002 "Permit" and "Approving a Pod binding".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from argosy_core.framework.cycle import Assignment, Cycle

__all__ = ["WaitingPod", "WaitingPods"]


@dataclass(slots=True, kw_only=True)
class WaitingPod:
    """A reserved pod that at least one permit plugin told to wait."""

    cycle: Cycle
    """The cycle that reserved it."""
    assignment: Assignment
    """Pod and node."""
    deadline_s: dict[str, float]
    """By plugin that still has to approve: when its patience ends."""


class WaitingPods:
    """Reserved pods in the state "wait", by run key."""

    def __init__(self) -> None:
        """Start without waiting pods."""
        self._pods: dict[int, WaitingPod] = {}

    def __len__(self) -> int:
        """Return how many pods wait."""
        return len(self._pods)

    def __iter__(self) -> Iterator[WaitingPod]:
        """Iterate over the waiting pods in the order in which they were reserved; any plugin may look."""
        return iter(tuple(self._pods.values()))

    def add(self, pod: WaitingPod) -> None:
        """Keep a pod until it is approved, rejected or too late."""
        self._pods[pod.assignment.run_key] = pod

    def approve(self, run_key: int, plugin: str | None = None) -> WaitingPod | None:
        """Approve a pod.

        Args:
            run_key: The pod's run; one that does not wait is ignored.
            plugin: The permit plugin that approves; None approves for all of them.

        Returns:
            The pod if nobody has to approve any more (it no longer waits and goes to pre-bind), otherwise None.
        """
        pod = self._pods.get(run_key)
        if pod is None:
            return None
        if plugin is None:
            pod.deadline_s.clear()
        else:
            pod.deadline_s.pop(plugin, None)
        return self._pods.pop(run_key) if not pod.deadline_s else None

    def withdraw(self, run_key: int) -> WaitingPod | None:
        """Take a pod out because its reservation is cancelled; None if it does not wait."""
        return self._pods.pop(run_key, None)

    def expire(self, now_s: float) -> list[WaitingPod]:
        """Take out and return all pods for which a plugin's time-out has passed, in order of reservation."""
        late = [key for key, pod in self._pods.items() if min(pod.deadline_s.values()) <= now_s]
        return [self._pods.pop(key) for key in late]

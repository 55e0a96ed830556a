"""The whole cycle for one pod, stage by stage, in the order of seed 002.

The services and the simulation run these stages batched and spread over processes, and so far only those that have
plugins: filters and scores at the samplers, filters and scores over clusters in the decision, the reservation of the
ledger (design section 5, "Framework stages map so"). This is the cycle in one place, for plugins' own tests and as the
statement of the order; reserve, permit, bind and event plugins are called here alone until services have them.

Source: seed 002 "Bare bones of scheduling" and "Extension points".
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from argosy_core.framework.cycle import Assignment, Cycle, Fault
from argosy_core.framework.framework import Framework
from argosy_core.framework.permits import WaitingPod, WaitingPods

__all__ = ["CycleOutcome", "CycleStatus", "bind", "cancel", "expire", "schedule"]


class CycleStatus(StrEnum):
    """How a cycle ended."""

    BOUND = "bound"
    WAITING = "waiting"
    UNSCHEDULABLE = "unschedulable"
    ABORTED = "aborted"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleOutcome:
    """How a cycle ended, and why."""

    status: CycleStatus
    """bound; waiting (reserved, for approval); unschedulable (no node); aborted (before a node was reserved);
    rejected (after)."""
    node: int = -1
    """Row of the node that was chosen, or -1."""
    fault: Fault | None = None
    """Who objected."""


def schedule(
    framework: Framework,
    cycle: Cycle,
    run_key: int,
    *,
    waiting: WaitingPods,
    now_s: float,
    rng: np.random.Generator,
) -> CycleOutcome:
    """Choose a node for the one pod of a cycle, reserve it, and bind unless a permit plugin says wait.

    Args:
        framework: What to call.
        cycle: A cycle of one pod.
        run_key: Identity of the pod's run.
        waiting: Where a pod that must wait is kept.
        now_s: Time, seconds.
        rng: Breaks ties between nodes of equal score.
    """
    fault = framework.pre_filter(cycle)
    if fault:
        return CycleOutcome(status=CycleStatus.ABORTED, fault=fault)
    feasible = framework.filter(cycle)[0]
    fault = framework.post_filter(cycle)
    if fault:
        return CycleOutcome(status=CycleStatus.ABORTED, fault=fault)
    if not feasible.any():
        return CycleOutcome(status=CycleStatus.UNSCHEDULABLE)
    scores = framework.score(cycle)[0]
    positions = np.flatnonzero(feasible)
    ranked = positions[np.lexsort((rng.random(len(positions)), -scores[positions]))]
    for node in cycle.nodes[0, ranked].tolist():
        assignment = Assignment(run_key=run_key, pod=0, node=node)
        fault = framework.post_score(cycle, assignment)
        if not fault:
            return _reserve(framework, cycle, assignment, waiting=waiting, now_s=now_s)
    return CycleOutcome(status=CycleStatus.ABORTED, fault=fault)


def _reserve(
    framework: Framework, cycle: Cycle, assignment: Assignment, *, waiting: WaitingPods, now_s: float
) -> CycleOutcome:
    """Reserve the chosen node and ask for permission."""
    fault = framework.reserve(cycle, assignment)
    if fault:
        return CycleOutcome(status=CycleStatus.REJECTED, node=assignment.node, fault=fault)
    fault, waits = framework.permit(cycle, assignment)
    if fault:
        return cancel(framework, cycle, assignment, fault)
    if waits:
        deadline_s = {plugin: now_s + timeout_s for plugin, timeout_s in waits.items()}
        waiting.add(WaitingPod(cycle=cycle, assignment=assignment, deadline_s=deadline_s))
        return CycleOutcome(status=CycleStatus.WAITING, node=assignment.node)
    return bind(framework, cycle, assignment)


def bind(framework: Framework, cycle: Cycle, assignment: Assignment) -> CycleOutcome:
    """Take a reserved and approved pod through pre-bind, bind and post-bind."""
    fault = framework.pre_bind(cycle, assignment) or framework.bind(cycle, assignment)
    if fault:
        return cancel(framework, cycle, assignment, fault)
    framework.post_bind(cycle, assignment)
    return CycleOutcome(status=CycleStatus.BOUND, node=assignment.node)


def cancel(framework: Framework, cycle: Cycle, assignment: Assignment, fault: Fault) -> CycleOutcome:
    """Give a reservation up: call the reject functions and say why."""
    framework.reject(cycle, assignment)
    return CycleOutcome(status=CycleStatus.REJECTED, node=assignment.node, fault=fault)


def expire(framework: Framework, waiting: WaitingPods, now_s: float) -> list[CycleOutcome]:
    """Reject every waiting pod that was not approved in time."""
    return [
        cancel(
            framework,
            pod.cycle,
            pod.assignment,
            Fault(plugin=min(pod.deadline_s, key=pod.deadline_s.__getitem__), reason="not approved in time"),
        )
        for pod in waiting.expire(now_s)
    ]

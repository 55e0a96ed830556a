"""Traces of the agent: one for each decision about a pod's size, from the metrics that led to it to what came of it.

::

    pod.size                  from the read of the metrics to the last confirmation
      metrics.read            the read after which the goal was another one
      pod.permit              from the request to the sampler's answer
      pod.resize              the call of the API server
      pod.confirm             until the node runs the pod with what was asked for

Made only if the process traces; it then looks at each pod's goal once a read of metrics.

Source: design section 9, "Traces"; docs/telemetry.md.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from argosy_core.autoscale import Agent, PodScaling
from argosy_core.autoscale.events import (
    Actions,
    Event,
    MetricsSeen,
    PermitsTold,
    PodGone,
    PodSeen,
    Refused,
    ResizeEnded,
    ResizeOutcome,
    SessionDown,
)
from argosy_runtime.traces import JOB_BATCH_LIMIT, TraceSpan, Tracing, active

__all__ = ["DecisionTraces", "decision_traces"]

_PERMIT: Final = "pod.permit"
_RESIZE: Final = "pod.resize"
_CONFIRM: Final = "pod.confirm"


@dataclass(slots=True)
class _Decision:
    """A decision under way."""

    span: TraceSpan
    """From the read to the last confirmation."""
    steps: dict[str, TraceSpan] = field(default_factory=dict)
    """Spans below it that have not ended, by name."""
    is_to_retry: bool = False
    """Its last resize did not come to pass."""


class DecisionTraces:
    """Makes the agent's spans.

    Args:
        tracing: Makes spans.
        cluster: Name of the cluster.
    """

    def __init__(self, tracing: Tracing, cluster: str) -> None:
        """Have seen no decision."""
        self._tracing = tracing
        self._cluster = cluster
        self._open: dict[str, _Decision] = {}
        self._goals: dict[str, int] = {}
        self._reads: dict[str, tuple[int, int]] = {}
        """When the metrics were read, begin and end in nanoseconds, that gave a pod its goal; until it is acted on."""
        self._touched: set[str] = set()
        self._read_ns = 0

    def begin_read(self) -> None:
        """Note that metrics are being read."""
        self._read_ns = time.time_ns()

    def hear(self, events: Sequence[Event], agent: Agent) -> None:
        """Note what the agent has taken in."""
        for event in events:
            if isinstance(event, MetricsSeen):
                self._measure(event, agent)
            elif isinstance(event, PermitsTold):
                for permit in event.permits:
                    self._permit(permit.uid, agent.pods.get(permit.uid))
            elif isinstance(event, SessionDown | Refused):
                self._deny(event)
            elif isinstance(event, ResizeEnded):
                self._resized(event)
            elif isinstance(event, PodSeen):
                self._see(event.uid, agent.pods[event.uid])
            elif isinstance(event, PodGone):
                self._forget(event.uid)

    def _measure(self, metrics: MetricsSeen, agent: Agent) -> None:
        read = self._read_ns, time.time_ns()
        for uid in metrics.uids:
            pod = agent.pods.get(uid)
            if pod is not None and self._goals.get(uid) != pod.goal_units:
                self._goals[uid] = pod.goal_units
                self._reads[uid] = read
                self._touched.add(uid)

    def _permit(self, uid: str, pod: PodScaling | None) -> None:
        if pod is not None and not pod.is_waiting:
            decision = self._open.get(uid)
            if decision is not None and _PERMIT in decision.steps:
                decision.steps[_PERMIT].note(permitted=str(tuple(pod.permit or ())))
            self._end(uid, _PERMIT)

    def _deny(self, event: SessionDown | Refused) -> None:
        if isinstance(event, Refused):
            self._end(event.uid, _PERMIT, error=event.reason)
            return
        for uid in self._open:
            self._end(uid, _PERMIT, error="the session ended")

    def _resized(self, ended: ResizeEnded) -> None:
        is_accepted = ended.outcome is ResizeOutcome.ACCEPTED
        self._end(ended.uid, _RESIZE, error="" if is_accepted else f"{ended.outcome} {ended.reason}".strip())
        decision = self._open.get(ended.uid)
        if decision is not None:
            decision.is_to_retry = not is_accepted
            if is_accepted and _CONFIRM not in decision.steps:
                self._begin(decision, _CONFIRM)

    def _see(self, uid: str, pod: PodScaling) -> None:
        if pod.is_confirmed():
            self._end(uid, _CONFIRM)
        elif pod.seen.pending and (decision := self._open.get(uid)) is not None:
            decision.span.note(pending=str(pod.seen.pending))

    def _forget(self, uid: str) -> None:
        self._goals.pop(uid, None)
        self._reads.pop(uid, None)
        decision = self._open.pop(uid, None)
        if decision is not None:
            for span in (*decision.steps.values(), decision.span):
                span.end(error="the pod ended")

    def act(self, actions: Actions, agent: Agent) -> None:
        """Note what the agent does now; so many decisions as a batch gives spans to begin with it."""
        left = JOB_BATCH_LIMIT
        steps = [(one.uid, _PERMIT, one.wanted) for one in actions.requests if not one.is_first]
        for uid, name, amounts in (*steps, *((one.uid, _RESIZE, one.amounts) for one in actions.resizes)):
            decision = self._open.get(uid)
            if decision is None:
                if left == 0:
                    continue
                left -= 1
                decision = self._decide(uid, agent.pods[uid])
            self._end(uid, name, error="asked anew")
            self._begin(decision, name).note(wanted=str(tuple(amounts)))
        for uid in self._touched:
            self._close(uid, agent.pods.get(uid))
        self._touched.clear()

    def _decide(self, uid: str, pod: PodScaling) -> _Decision:
        begin_ns, end_ns = self._reads.pop(uid, (None, None))
        span = self._tracing.begin("pod.size", start_ns=begin_ns, cluster=self._cluster, pod=uid)
        span.note(goal_units=pod.goal_units, goal=str(tuple(pod.goal)), actual=str(tuple(pod.seen.actual)))
        decision = self._open[uid] = _Decision(span)
        if begin_ns is not None:
            self._tracing.begin("metrics.read", parent=span.traceparent, start_ns=begin_ns).end(end_ns=end_ns)
        return decision

    def _begin(self, decision: _Decision, name: str) -> TraceSpan:
        span = decision.steps[name] = self._tracing.begin(name, parent=decision.span.traceparent)
        return span

    def _end(self, uid: str, name: str, *, error: str = "") -> None:
        decision = self._open.get(uid)
        if decision is not None:
            self._touched.add(uid)
            if name in decision.steps:
                decision.steps.pop(name).end(error=error)

    def _close(self, uid: str, pod: PodScaling | None) -> None:
        """End a decision of which nothing is under way any more."""
        decision = self._open.get(uid)
        if decision is None or pod is None or decision.steps:
            return
        if not pod.is_waiting and not (decision.is_to_retry and pod.goal != pod.seen.desired):
            del self._open[uid]
            decision.span.note(approved=str(tuple(pod.permit or ())), actual=str(tuple(pod.seen.actual)))
            decision.span.end()


def decision_traces(cluster: str) -> DecisionTraces | None:
    """Return what makes an agent's spans, None if this process does not trace."""
    tracing = active()
    return DecisionTraces(tracing, cluster) if tracing is not None else None

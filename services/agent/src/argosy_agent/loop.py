"""The agent's loop: events go into the machine of the core, and what it wants done is done.

Source: design section 5, "Resize"; docs/autoscale.md "The agent".
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from contextlib import aclosing
from typing import Final, Protocol

from argosy_agent.contract import PodContracts
from argosy_agent.traces import decision_traces
from argosy_core.autoscale import Agent, AgentSettings, next_actions
from argosy_core.autoscale.contract import word_of
from argosy_core.autoscale.events import ContractQuestion, Event, PermitRequest, Resize, StoryEntry
from argosy_core.errors import BackendUnavailable
from argosy_kube.scaler_port import Scaler
from argosy_runtime.channel import Backoff
from argosy_runtime.elapsed import elapsed_s
from argosy_runtime.logs import Logger
from argosy_runtime.metrics import METRICS

__all__ = ["AgentLoop"]

_GATHER_S: Final = 0.01
"""How long events gather before they are acted upon: many come together."""


class Requests(Protocol):
    """Takes what pods want."""

    def send(self, requests: Sequence[PermitRequest]) -> None:
        """Say it to the sampler."""


class AgentLoop:
    """Runs one agent.

    Args:
        agent: The machine.
        scaler: The cluster.
        cluster: Its name, for metrics.
        settings: How long a resize, and a pod's answer, may take.
        log: Where stories are told.
    """

    def __init__(self, agent: Agent, scaler: Scaler, *, cluster: str, settings: AgentSettings, log: Logger) -> None:
        """Have heard of nothing."""
        self._agent = agent
        self._scaler = scaler
        self._cluster = cluster
        self._settings = settings
        self._contracts = PodContracts(scaler.contract_host, settings.contract_timeout_s)
        self._log = log
        self._traces = decision_traces(cluster)
        self._news = asyncio.Event()
        self.listed = asyncio.Event()
        """Set once the pods are known."""

    def tell(self, events: Sequence[Event]) -> None:
        """Take events in."""
        now_s = elapsed_s()
        for event in events:
            self._agent.take(event, now_s)
        if self._traces is not None:
            self._traces.hear(events, self._agent)
        self._news.set()

    async def run(self, requests: Requests) -> None:
        """Do what is next, until cancelled.

        Args:
            requests: Where requests go.
        """
        async with asyncio.TaskGroup() as calls:
            while True:
                self._news.clear()
                actions = next_actions(self._agent, elapsed_s())
                if self._traces is not None:
                    self._traces.act(actions, self._agent)
                requests.send(actions.requests)
                for resize in actions.resizes:  # one for a pod at most, so their number is bounded
                    calls.create_task(self._resize(resize), name="resize")
                for question in actions.questions:  # likewise
                    calls.create_task(self._ask(question), name="contract")
                for entry in actions.reports:
                    self._report(entry)
                METRICS.autoscaled_pods.labels(self._cluster).set(len(self._agent.pods))
                with contextlib.suppress(TimeoutError):
                    wait_s = actions.wake_at_s - elapsed_s()
                    async with asyncio.timeout(None if wait_s == float("inf") else max(wait_s, _GATHER_S)):
                        await self._news.wait()
                await asyncio.sleep(_GATHER_S)

    async def _resize(self, resize: Resize) -> None:
        ended = await self._scaler.resize(resize, self._settings.resize_timeout_s)
        METRICS.pod_resizes.labels(self._cluster, ended.outcome).inc()
        self.tell([ended])

    async def _ask(self, question: ContractQuestion) -> None:
        answered = await self._contracts.ask(question)
        METRICS.contract_answers.labels(self._cluster, word_of(question, answered)).inc()
        self.tell([answered])

    def _report(self, entry: StoryEntry) -> None:
        self._log.info(
            "pod size",
            pod=entry.uid,
            what=entry.what,
            goal=tuple(entry.goal),
            approved=tuple(entry.approved),
            actual=tuple(entry.actual),
        )

    async def follow_pods(self, backoff: Backoff) -> None:
        """Hear of pods, until cancelled; after a failure all of them are listed again.

        Args:
            backoff: Wait between attempts.
        """
        while True:
            try:
                async with aclosing(self._scaler.follow()) as batches:
                    async for batch in batches:
                        self.tell(batch)
                        self.listed.set()
                        backoff.reset()
                reason = "the watch ended"
            except BackendUnavailable as error:
                reason = error.message
            wait_s = backoff.next_wait_s()
            self._log.warning("pods are not followed", reason=reason, wait_s=round(wait_s, 3))
            await asyncio.sleep(wait_s)

    async def read_metrics(self, interval_s: float) -> None:
        """Read what pods use, until cancelled. Without metrics pods may grow and not shrink.

        Args:
            interval_s: How often, seconds.
        """
        was_told = False
        while True:
            await asyncio.sleep(interval_s)
            if self._traces is not None:
                self._traces.begin_read()
            try:
                self.tell([await self._scaler.read_usage()])
                was_told = False
            except BackendUnavailable as error:
                METRICS.usage_failures.labels(self._cluster).inc()
                if not was_told:
                    self._log.warning("no metrics: pods do not shrink", reason=error.message)
                was_told = True

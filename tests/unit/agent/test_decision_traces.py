"""The agent's spans: one trace for each decision, from the metrics that led to it to the node's confirmation."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from argosy_agent.loop import AgentLoop
from argosy_agent.traces import DecisionTraces, decision_traces
from argosy_core.autoscale import Agent, AgentSettings, Amounts, Horizon, PredictorSettings, next_actions
from argosy_core.autoscale.events import (
    Actions,
    Event,
    Leased,
    MetricsSeen,
    Permit,
    PermitRequest,
    PermitsTold,
    PodGone,
    PodSeen,
    Refused,
    ResizeEnded,
    ResizeOutcome,
    ScalingPolicy,
    SessionDown,
    SessionUp,
)
from argosy_kube.opening import open_scaler
from argosy_runtime.elapsed import elapsed_s
from argosy_runtime.logs import get_logger
from argosy_runtime.traces import Tracing, install

UNIT = Amounts(1000, 1 << 30)
FORGETFUL = PredictorSettings(
    horizons=(Horizon(0.1, 1.0),), prior_s=0.0, width_units=1e-9, width_ratio=0.0, equal_ratio=0.0,
    grow_gain_units=0.0, shrink_gain_units=0.0,
)  # fmt: skip


class World:
    """An agent whose decisions are traced; its pod has two units."""

    def __init__(self) -> None:
        """Announce the pod."""
        self.exporter = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.traces = DecisionTraces(Tracing(provider), "c1")
        self.agent, self.now_s = Agent(predictor=FORGETFUL), 1000.0
        size = UNIT.times(2)
        policy = ScalingPolicy(least=UNIT, most=UNIT.times(6))
        self.tell(PodSeen(uid="pod", version=1, policy=policy, desired=size, allocated=size, actual=size), SessionUp(1))
        self.permit(2)

    def tell(self, *events: Event) -> Actions:
        """Tell events, and what is done then."""
        self.now_s += 5.0
        for event in events:
            self.agent.take(event, self.now_s)
        self.traces.hear(events, self.agent)
        actions = next_actions(self.agent, self.now_s)
        self.traces.act(actions, self.agent)
        return actions

    def use(self, cores: float) -> Actions:
        """Read metrics."""
        self.traces.begin_read()
        return self.tell(MetricsSeen(uids=("pod",), load_cores=np.array([cores]), memory_bytes=np.array([0.6e9])))

    def permit(self, count: int) -> Actions:
        """Answer the last request."""
        one = Permit(uid="pod", sequence=self.agent.pods["pod"].sequence, amounts=UNIT.times(count), unit=UNIT)
        return self.tell(PermitsTold(1, (one,)), Leased(1, self.now_s + 1000.0))

    def resized(self, outcome: ResizeOutcome = ResizeOutcome.ACCEPTED) -> Actions:
        """Answer the last resize."""
        pod = self.agent.pods["pod"]
        return self.tell(
            ResizeEnded(uid="pod", number=pod.resize_number, outcome=outcome, version=pod.seen.version + 1)
        )

    def confirm(self) -> Actions:
        """Show the pod with what it desires."""
        seen = self.agent.pods["pod"].seen
        return self.tell(replace(seen, version=seen.version + 1, allocated=seen.desired, actual=seen.desired))

    def told(self) -> list[tuple[str, bool]]:
        """Return the ended spans, in order: their names, and whether they went well; they must be of one trace."""
        spans = self.exporter.get_finished_spans()
        assert len({span.context.trace_id for span in spans}) <= 1
        return [(span.name.removeprefix("argosy."), span.status.is_ok) for span in spans]

    def span(self, name: str) -> ReadableSpan:
        """Return an ended span."""
        (found,) = [one for one in self.exporter.get_finished_spans() if one.name == f"argosy.{name}"]
        return found


def test_growing_is_one_trace_from_the_metrics_to_the_nodes_confirmation() -> None:
    """Each step lies below the decision; the whole begins when the metrics were read."""
    world = World()
    world.use(3.5)
    world.permit(4)
    world.resized()
    assert ("pod.size", True) not in world.told()
    world.confirm()
    names = ["metrics.read", "pod.permit", "pod.resize", "pod.confirm", "pod.size"]
    assert world.told() == [(name, True) for name in names]
    whole, read = world.span("pod.size"), world.span("metrics.read")
    assert whole.start_time == read.start_time
    parents = {span.parent.span_id for span in world.exporter.get_finished_spans() if span.parent is not None}
    assert parents == {whole.context.span_id}
    attributes: dict[str, Any] = dict(whole.attributes or {})
    assert (attributes["argosy.pod"], attributes["argosy.cluster"], attributes["argosy.goal_units"]) == ("pod", "c1", 4)
    assert attributes["argosy.actual"] == str(tuple(UNIT.times(4)))


def test_shrinking_is_one_trace_that_ends_when_what_was_given_up_is_told() -> None:
    """Resize and confirmation come first, the request last."""
    world = World()
    world.use(0.5)
    world.resized()
    world.confirm()
    world.permit(1)
    assert [name for name, _ in world.told()] == ["metrics.read", "pod.resize", "pod.confirm", "pod.permit", "pod.size"]


@pytest.mark.parametrize(
    ("event", "ended"),
    [
        (Refused(session=1, uid="pod", sequence=2, reason="too often"), [("pod.permit", False), ("pod.size", True)]),
        (SessionDown(), [("pod.permit", False), ("pod.size", True)]),
        (PodGone("pod"), [("pod.permit", False), ("pod.size", False)]),
    ],
)
def test_what_does_not_come_to_pass_is_seen_in_its_step(event: Event, ended: list[tuple[str, bool]]) -> None:
    """The step has the reason, and no decision stays open."""
    world = World()
    world.use(3.5)
    world.tell(event)
    assert world.told() == [("metrics.read", True), *ended]


def test_a_resize_that_is_tried_again_is_a_step_more_of_its_decision() -> None:
    """The first says that the pod had changed meanwhile."""
    world = World()
    world.use(3.5)
    world.permit(4)
    world.resized(ResizeOutcome.CONFLICT)
    while world.agent.pods["pod"].resize_ends_s is None:
        world.tell()
    world.resized()
    world.confirm()
    steps = [one for one in world.told() if one[0] == "pod.resize"]
    assert steps == [("pod.resize", False), ("pod.resize", True)]
    assert world.told()[-1] == ("pod.size", True)


def test_a_decision_that_is_given_up_ends_with_the_goal_that_undoes_it() -> None:
    """What was not resized, and need not be any more, is no trace without an end."""
    world = World()
    world.use(3.5)
    world.permit(4)
    world.resized(ResizeOutcome.CONFLICT)
    assert world.told()[-1] == ("pod.resize", False)
    world.use(1.5)
    world.permit(2)
    assert world.told()[-1] == ("pod.size", True)


def test_an_announcement_decides_nothing_and_without_traces_there_is_nothing_to_call() -> None:
    """What changes no size leaves no span; a process that does not trace makes none."""
    world = World()
    world.use(1.5)
    assert world.told() == []
    assert decision_traces("c") is None


async def test_the_loop_of_a_process_that_traces_makes_the_spans(tmp_path: Path) -> None:
    """What the loop hears and does is what is traced."""
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    agent, asked = Agent(predictor=FORGETFUL), asyncio.Event()
    scaler = open_scaler(f"simulated:unix:{tmp_path}/none", installation="one", metrics="metrics-api")
    install(Tracing(provider))
    try:
        loop = AgentLoop(agent, scaler, cluster="c", settings=AgentSettings(), log=get_logger())
    finally:
        install(None)

    class Requests:
        """Hears what is asked for."""

        def send(self, requests: Sequence[PermitRequest]) -> None:
            """Wait for growth."""
            if any(one.wanted == UNIT.times(3) for one in requests):
                asked.set()

    policy = ScalingPolicy(least=UNIT, most=UNIT.times(6))
    loop.tell([PodSeen(uid="pod", version=1, policy=policy, desired=UNIT, allocated=UNIT, actual=UNIT), SessionUp(1)])
    next_actions(agent, elapsed_s())
    loop.tell([PermitsTold(1, (Permit(uid="pod", sequence=1, amounts=UNIT, unit=UNIT),))])
    async with asyncio.timeout(50), asyncio.TaskGroup() as group:
        running = group.create_task(loop.run(Requests()))
        loop.tell([MetricsSeen(uids=("pod",), load_cores=np.array([2.6]), memory_bytes=np.array([0.6e9]))])
        await asked.wait()
        running.cancel()
    loop.tell([SessionDown()])
    await scaler.close()
    assert [span.name for span in exporter.get_finished_spans()] == ["argosy.metrics.read", "argosy.pod.permit"]

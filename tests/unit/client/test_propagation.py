"""The caller's trace goes with its calls."""

from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider

from argosy_client import ArgosyClient, Queue
from argosy_testkit.fake_api import FakeApi


@pytest.fixture
def heard(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Metadata of the calls that the server got."""
    calls: list[dict[str, Any]] = []
    enter = api.enter

    async def note(name: str, request: Any, context: Any) -> None:
        calls.append(dict(context.invocation_metadata()))
        await enter(name, request, context)

    monkeypatch.setattr(api, "enter", note)
    return calls


async def test_call_within_a_span_carries_its_context(client: ArgosyClient, heard: list[dict[str, Any]]) -> None:
    """A program that traces finds the server's spans below its own; each repetition carries the same context."""
    with TracerProvider(shutdown_on_exit=False).get_tracer("test").start_as_current_span("caller") as span:
        await client.create_queue(Queue(name="q"))
    ours = span.get_span_context()

    (call,) = heard
    assert call["traceparent"] == f"00-{ours.trace_id:032x}-{ours.span_id:016x}-{ours.trace_flags:02x}"
    assert ours.trace_flags.sampled


async def test_call_outside_a_span_carries_none(client: ArgosyClient, heard: list[dict[str, Any]]) -> None:
    """Nothing is sent that nobody began."""
    await client.create_queue(Queue(name="q"))

    assert "traceparent" not in heard[0]

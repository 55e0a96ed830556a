"""The executor's spans: one for a batch of creates, and one for each traced job whose objects it made."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from argosy.executor.v1 import executor_pb2
from argosy_core.job.identity import compose_id
from argosy_core.reconcile import Creates
from argosy_executor.create_traces import CreateTraces
from argosy_runtime.columns import pack_column
from argosy_runtime.traces import Tracing


def context(number: int) -> str:
    """A W3C context."""
    return f"00-{number:032x}-{number:016x}-01"


def rows_of(above: int, *handles: int, traced: tuple[int, ...] = ()) -> tuple[executor_pb2.ObjectRows, Any]:
    """A message of rows, and its jobs."""
    message = executor_pb2.ObjectRows(
        traceparent=context(above) if above else "",
        traced=executor_pb2.TracedRuns(
            handle_column=pack_column(list(traced), "int64"), traceparents=[context(100 + one) for one in traced]
        ),
    )
    return message, np.array(handles, dtype=np.int64)


def creates_of(*handles: int) -> Creates:
    """Objects to create, one element per handle."""
    count = len(handles)
    zeros = np.zeros(count, dtype=np.int32)
    return Creates(
        slot_column=np.arange(count),
        body_column=zeros,
        object_column=zeros.astype(np.int16),
        handle_column=np.array(handles, dtype=np.int64),
        ordinal_column=np.ones(zeros.size, dtype=np.int64),
        id_high_column=np.full(count, 5, dtype=np.int64),
        node_column=zeros,
        metadata_column=zeros - 1,
        owner_column=zeros,
        bodies=(b"",),
        nodes=("n1",),
        metadata=(),
        owners=(("q", "s"),),
    )


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    """Where spans go."""
    return InMemorySpanExporter()


@pytest.fixture
def traces(exporter: InMemorySpanExporter) -> CreateTraces:
    """Makes the spans of an executor."""
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return CreateTraces(Tracing(provider), "c1")


def spans(exporter: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    """The ended spans of a name."""
    return [span for span in exporter.get_finished_spans() if span.name == f"argosy.{name}"]


def create(traces: CreateTraces, creates: Creates, exists: list[bool]) -> None:
    """Take creates to their answer."""
    traces.end(traces.begin(creates), creates, np.array(exists))


@pytest.mark.parametrize(
    ("handles", "expected"),
    [((1, 2), (7, [])), ((3,), (8, [])), ((2, 3), (None, [7, 8])), ((9,), (None, []))],
    ids=["one-message", "another", "two-messages", "rows-without-a-trace"],
)
def test_creates_lie_below_their_message_or_are_linked_to_several(
    handles: tuple[int, ...],
    expected: tuple[int | None, list[int]],
    traces: CreateTraces,
    exporter: InMemorySpanExporter,
) -> None:
    """A batch that gathered rows of several messages belongs to each of them."""
    traces.note_rows(*rows_of(7, 1, 2))
    traces.note_rows(*rows_of(8, 3))
    traces.note_rows(*rows_of(0, 9))

    create(traces, creates_of(*handles), [True] * len(handles))

    (span,) = spans(exporter, "objects.create")
    parent = span.parent.span_id if span.parent is not None else None
    assert (parent, [link.context.span_id for link in span.links]) == expected
    attributes = dict(span.attributes or {})
    assert (attributes["argosy.created_count"], attributes["argosy.job_count"]) == (len(handles), len(handles))


def test_traced_job_is_told_again_until_all_its_objects_are_there(
    traces: CreateTraces, exporter: InMemorySpanExporter
) -> None:
    """A create that failed is a failed span in the submitter's trace, and so is each further try; then it is over."""
    traces.note_rows(*rows_of(7, 1, 2, traced=(2,)))

    for exists in ([True, True, False], [True, True, True], [True, True, True]):
        create(traces, creates_of(1, 2, 2), exists)

    jobs = spans(exporter, "job.create")
    assert [span.status.is_ok for span in jobs] == [False, True]
    assert {span.parent.span_id for span in jobs if span.parent is not None} == {102}
    assert {dict(span.attributes or {})["argosy.job_id"] for span in jobs} == {compose_id(5, 2)}
    assert {dict(span.attributes or {})["argosy.object_count"] for span in jobs} == {2}


def test_memory_of_traced_rows_is_bounded(traces: CreateTraces) -> None:
    """Rows that never lead to a create are forgotten."""
    for first in range(0, 12_000, 100):
        handles = tuple(range(first, first + 100))
        traces.note_rows(*rows_of(1, *handles, traced=handles))

    assert len(traces._jobs) == 10_000
    assert len(traces._messages) == 32

"""The leader's spans: few for a batch, some for jobs that their submitter traces, bounded in all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from argosy_core.job.identity import compose_id
from argosy_core.job.tables.members import Members
from argosy_core.scheduler.columns.messages import JobColumns, RoundStateColumns
from argosy_core.scheduler.outgoing.effects import ExecutorRows, LeasePlan
from argosy_runtime.traces import JOB_BATCH_LIMIT, Tracing
from argosy_server.api.codecs.changes_codec import encode_submitted
from argosy_server.leader.log.codec import decode_changes, decode_lease_batch, encode_lease_batch
from argosy_server.leader.show.round_traces import RoundTraces
from argosy_testkit.submissions import make_request

NONE = np.empty(0, dtype=np.int64)
NO_RUNS = Members.of([], [])
NO_STATE = RoundStateColumns(
    queue=NONE, flow=np.empty(0), flow_time_us=0, attempted_handle=NONE,
    failed_attempt=np.empty(0, dtype=np.int32),
)  # fmt: skip


def context(number: int) -> str:
    """A W3C context."""
    return f"00-{number:032x}-{number:016x}-01"


def plan_of(*handles: int) -> LeasePlan:
    """A plan that leases jobs, each on a node of its own."""
    count = len(handles)
    return LeasePlan(
        round_number=7,
        create_time_us=1,
        handle=np.array(handles, dtype=np.int64),
        attempt=np.ones(count, dtype=np.int32),
        cluster=np.zeros(count, dtype=np.int32),
        node=np.arange(count, dtype=np.int32),
        clusters=("c1",),
        nodes=tuple(f"n{number}" for number in range(count)),
        stops=NO_RUNS,
        failed_handle=NONE,
        failed_reasons=(),
        round_state=NO_STATE,
        releases=(),
    )


def jobs_of(*handles: int) -> JobColumns:
    """Accepted jobs."""
    count = len(handles)
    zeros = np.zeros(count, dtype=np.int32)
    return JobColumns(
        handle=np.array(handles, dtype=np.int64),
        id_high=np.full(count, 5, dtype=np.int64),
        queue=zeros.astype(np.int64),
        job_set=zeros.astype(np.int64),
        class_id=zeros,
        priority=zeros,
        submit_time_us=np.full(count, 1_000, dtype=np.int64),
        spec=zeros,
        metadata_index=zeros - 1,
        specs=(),
        metadata=(),
    )


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    """Where spans go."""
    return InMemorySpanExporter()


@pytest.fixture
def traces(exporter: InMemorySpanExporter) -> RoundTraces:
    """Makes the spans of a leader."""
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return RoundTraces(Tracing(provider), "default")


def spans(exporter: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    """The ended spans of a name."""
    return [span for span in exporter.get_finished_spans() if span.name == f"argosy.{name}"]


def attribute(span: ReadableSpan, name: str) -> Any:
    """One attribute."""
    return dict(span.attributes or {})[f"argosy.{name}"]


def lease(traces: RoundTraces, plan: LeasePlan, *, refused: tuple[int, ...] = ()) -> None:
    """Take a plan through its publish and its storing."""
    trace = traces.begin_lease(plan, started_ns=1, phases_ms={"take changes": 1.5})
    trace.published(9)
    trace.stored(np.array(refused, dtype=np.int64))


def test_round_without_traced_jobs_makes_three_spans(traces: RoundTraces, exporter: InMemorySpanExporter) -> None:
    """However many jobs a round leases, it costs its own span, the publish and the storing."""
    lease(traces, plan_of(*range(1, 1001)))

    assert [span.name for span in exporter.get_finished_spans()] == [
        "argosy.round",
        "argosy.lease.publish",
        "argosy.lease.ingest",
    ]
    (round_,) = spans(exporter, "round")
    assert [attribute(round_, name) for name in ("lease_count", "job_count", "phase.take_changes_ms")] == [
        1000,
        1000,
        1.5,
    ]
    assert attribute(round_, "job_ids") == ()
    assert attribute(spans(exporter, "lease.publish")[0], "log_position") == 9


def test_traced_job_tells_where_it_went_and_how_long_it_waited(
    traces: RoundTraces, exporter: InMemorySpanExporter
) -> None:
    """A job's decision begins with its acceptance and lies below its submit."""
    traces.note_jobs(jobs_of(1, 2, 3), {2: context(2)})

    lease(traces, plan_of(3, 2))

    (decide,) = spans(exporter, "job.decide")
    assert decide.parent is not None
    assert (decide.parent.trace_id, decide.parent.span_id, decide.start_time) == (2, 2, 1_000_000)
    assert [attribute(decide, name) for name in ("job_id", "cluster", "node")] == [compose_id(5, 2), "c1", "n1"]


def test_refused_lease_fails_in_its_jobs_trace(traces: RoundTraces, exporter: InMemorySpanExporter) -> None:
    """A lease that met a change request is told as failed, and only that one."""
    traces.note_jobs(jobs_of(1, 2), {1: context(1), 2: context(2)})

    lease(traces, plan_of(1, 2), refused=(2,))

    failed = {attribute(span, "job_id"): not span.status.is_ok for span in spans(exporter, "job.lease")}
    assert failed == {compose_id(5, 1): False, compose_id(5, 2): True}
    assert attribute(spans(exporter, "lease.ingest")[0], "refused_count") == 1


def test_traced_jobs_of_a_batch_are_bounded(traces: RoundTraces, exporter: InMemorySpanExporter) -> None:
    """A caller that traces a hundred thousand jobs does not slow the rounds down."""
    handles = range(1, 3 * JOB_BATCH_LIMIT)
    traces.note_jobs(jobs_of(*handles), {handle: context(handle) for handle in handles})

    lease(traces, plan_of(*handles))

    assert len(spans(exporter, "job.decide")) == JOB_BATCH_LIMIT


def test_memory_of_traced_jobs_is_bounded(traces: RoundTraces) -> None:
    """The oldest are forgotten first."""
    handles = range(1, 10_002)
    traces.note_jobs(jobs_of(*handles), {handle: context(handle) for handle in handles})

    assert traces.find(np.array([1], dtype=np.int64)) == {}
    assert list(traces.find(np.array([2, 10_001, 99_999], dtype=np.int64))) == [2, 10_001]


def test_rows_lie_below_the_publish_that_they_come_from(traces: RoundTraces, exporter: InMemorySpanExporter) -> None:
    """Rows that answer a comparison come from no round and begin a trace."""
    rows = ExecutorRows(
        cluster="c1", handle=np.array([1], dtype=np.int64), attempt=np.ones(1, np.int32), id_high=np.zeros(1, np.int64),
        spec=np.zeros(1, np.int32), specs=(), node=np.zeros(1, np.int32), nodes=("n",),
        metadata_index=np.zeros(1, np.int32), metadata=(), owner=np.zeros(1, np.int32), owners=(("q", "s"),),
        seen=np.zeros(1, np.bool_),
    )  # fmt: skip
    trace = traces.begin_lease(plan_of(1), started_ns=1, phases_ms={})
    trace.published(1)

    for above in (trace, None):
        traces.begin_rows(rows, above).end()

    below, alone = spans(exporter, "rows.send")
    (publish,) = spans(exporter, "lease.publish")
    assert below.parent is not None
    assert publish.context is not None
    assert (below.parent.span_id, alone.parent) == (publish.context.span_id, None)
    assert attribute(below, "row_count") == 1


def test_record_of_the_log_carries_the_context_of_its_publish(
    traces: RoundTraces, exporter: InMemorySpanExporter
) -> None:
    """A next leader that stores the record does so within the trace of the round that decided it."""
    payload = encode_lease_batch(plan_of(1), pool="p", epoch=1, sequence=2, traceparent=context(8))

    traces.begin_replay(decode_lease_batch(payload).traceparent, 4).end()

    (ingest,) = spans(exporter, "lease.ingest")
    assert ingest.parent is not None
    assert (ingest.parent.trace_id, attribute(ingest, "replayed")) == (8, True)
    assert decode_lease_batch(encode_lease_batch(plan_of(1), pool="p", epoch=1, sequence=2)).traceparent == ""


def test_changes_tell_which_jobs_are_traced_at_most_so_many_of_a_request() -> None:
    """Jobs that a repeat did not insert are not news, and so not traced either."""
    mine = replace(make_request(first=1, count=3, day=9), traceparent=context(1))
    many = replace(make_request(first=10, count=2 * JOB_BATCH_LIMIT, day=9), traceparent=context(2))
    other = make_request(first=900, count=2, day=9)
    everything = np.ones(2 * JOB_BATCH_LIMIT, dtype=np.bool_)

    payload = encode_submitted(
        [(mine, np.array([True, False, True])), (many, everything), (other, np.ones(2, dtype=np.bool_))]
    )

    traced = decode_changes(payload).traceparents
    first = int(mine.handles[0])
    assert {handle: text for handle, text in traced.items() if text == context(1)} == {
        first: context(1),
        first + 2: context(1),
    }
    assert len(traced) == 2 + JOB_BATCH_LIMIT
    assert decode_changes(encode_submitted([(other, np.ones(2, dtype=np.bool_))])).traceparents == {}

"""Traces: off and not even loaded unless the standard variables ask for them, and bounded when on."""

import subprocess
import sys
from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from argosy_core.errors import InvalidRequest
from argosy_runtime.traces import LINK_LIMIT, Tracing, active, install, start_tracing

CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
NOT_SAMPLED = CALLER[:-2] + "00"


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    """Where spans go."""
    return InMemorySpanExporter()


@pytest.fixture
def tracing(exporter: InMemorySpanExporter) -> Tracing:
    """Makes spans that go there at once."""
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return Tracing(provider)


@pytest.fixture
def restored() -> Iterator[None]:
    """Whatever a test installs is taken away again."""
    yield
    if (tracing := active()) is not None:
        tracing.close()
    install(None)


def only(exporter: InMemorySpanExporter) -> ReadableSpan:
    """The one span that ended."""
    (span,) = exporter.get_finished_spans()
    return span


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4317"},
        {"OTEL_SDK_DISABLED": "true", "OTEL_TRACES_EXPORTER": "otlp"},
        {"OTEL_SERVICE_NAME": "argosy", "OTEL_TRACES_SAMPLER": "always_on"},
    ],
    ids=["nothing", "none-wins-over-endpoint", "disabled", "no-exporter"],
)
def test_tracing_stays_off_unless_an_exporter_is_asked_for(variables: dict[str, str]) -> None:
    """Off is the default, and the variables that turn the SDK off are heard."""
    assert start_tracing("argosy-test", environment=variables) is None
    assert active() is None


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"OTEL_TRACES_EXPORTER": "jaeger"}, "names 'jaeger'; there are otlp, console"),
        ({"OTEL_TRACES_EXPORTER": "otlp,none"}, "none by itself"),
        ({"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, "over grpc only"),
    ],
    ids=["unknown-exporter", "none-among-others", "protocol"],
)
def test_tracing_refuses_what_it_has_not(variables: dict[str, str], words: str) -> None:
    """A variable that asks for something that is not there is told, with what there is."""
    with pytest.raises(InvalidRequest, match=words):
        start_tracing("argosy-test", environment=variables)


@pytest.mark.parametrize(
    ("variables", "name"),
    [({}, "argosy-test"), ({"OTEL_SERVICE_NAME": "mine"}, "mine")],
    ids=["own-name", "given-name"],
)
@pytest.mark.usefixtures("restored")
def test_exporter_gets_spans_with_the_services_name(
    variables: dict[str, str], name: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The service has its own name unless the variables give one; closing sends what waits."""
    for key, value in variables.items():
        monkeypatch.setenv(key, value)
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "console")

    tracing = start_tracing("argosy-test", instance="c1")
    assert tracing is active()
    assert tracing is not None
    tracing.begin("round").end()
    tracing.close()

    written = capfd.readouterr().out
    assert f'"service.name": "{name}"' in written
    assert '"service.instance.id": "c1"' in written
    assert '"name": "argosy.round"' in written


def test_nothing_of_opentelemetry_is_loaded_while_tracing_is_off() -> None:
    """A process that does not trace pays neither time nor memory for it."""
    program = (
        "import sys\n"
        "from argosy_runtime.traces import start_tracing\n"
        "import argosy_server.app, argosy_server.leader.role, argosy_executor.app, argosy_sampler.app, argosy_client\n"
        "from argosy_client.propagation import trace_metadata\n"
        "assert start_tracing('argosy-test', environment={}) is None and trace_metadata() == ()\n"
        "print(sorted(name for name in sys.modules if name.startswith('opentelemetry')))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_span_lies_below_the_context_that_it_is_given(tracing: Tracing, exporter: InMemorySpanExporter) -> None:
    """A context travels as text; a span's own text leads to it."""
    span = tracing.begin("lease.publish", kind="producer", parent=CALLER, lease_count=3)
    text = span.traceparent
    span.end()

    ended = only(exporter)
    assert ended.parent is not None
    assert f"{ended.parent.trace_id:032x}-{ended.parent.span_id:016x}" == CALLER[3:-3]
    assert text == f"00-{ended.context.trace_id:032x}-{ended.context.span_id:016x}-01"
    assert (ended.name, ended.kind.name, dict(ended.attributes or {})) == (
        "argosy.lease.publish",
        "PRODUCER",
        {"argosy.lease_count": 3},
    )


@pytest.mark.parametrize("text", ["", "nonsense", "00-0-0-01", CALLER[:-1]], ids=["none", "words", "short", "cut"])
def test_unreadable_context_begins_a_trace(text: str, tracing: Tracing, exporter: InMemorySpanExporter) -> None:
    """What cannot be read stands above nothing and is linked to nothing."""
    tracing.begin("round", parent=text, links=[text]).end()

    assert only(exporter).parent is None
    assert only(exporter).links == ()


def test_span_outside_the_callers_own_context_is_not_below_it(tracing: Tracing, exporter: InMemorySpanExporter) -> None:
    """A span of ours never falls under one that somebody left open in the same process."""
    with TracerProvider(shutdown_on_exit=False).get_tracer("somebody").start_as_current_span("open"):
        tracing.begin("round").end()

    assert only(exporter).parent is None


def test_links_and_job_ids_are_bounded(tracing: Tracing, exporter: InMemorySpanExporter) -> None:
    """A batch of a hundred thousand makes a span no larger than one of a hundred."""
    links = [f"00-{number:032x}-{number:016x}-01" for number in range(1, 100)]
    span = tracing.begin("round", links=links)
    span.note_jobs([str(number) for number in range(1000)], 1000)
    span.end()

    ended = only(exporter)
    attributes = dict(ended.attributes or {})
    assert len(ended.links) == LINK_LIMIT
    assert (len(attributes["argosy.job_ids"]), attributes["argosy.job_count"]) == (10, 1000)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ((), (False, [None])),
        ((("traceparent", CALLER),), (True, [CALLER[3:-3]])),
        ((("traceparent", NOT_SAMPLED),), (False, [])),
        ((("traceparent", "nonsense"), ("other-bin", b"\x00")), (False, [None])),
    ],
    ids=["no-context", "sampled", "not-sampled", "unreadable"],
)
def test_caller_traces_only_with_a_sampled_context(
    metadata: tuple[tuple[str, str | bytes], ...],
    expected: tuple[bool, list[str | None]],
    tracing: Tracing,
    exporter: InMemorySpanExporter,
) -> None:
    """Job spans are for callers that record a trace; one that says "not sampled" gets no spans at all."""
    call = tracing.begin_call("submit", metadata)
    call.span.end(error="refused")

    ended = exporter.get_finished_spans()
    parents = [span.parent and f"{span.parent.trace_id:032x}-{span.parent.span_id:016x}" for span in ended]
    assert (call.is_traced, parents) == expected
    assert all((span.status.status_code.name, span.status.description) == ("ERROR", "refused") for span in ended)


def test_span_that_is_not_sampled_gives_no_context() -> None:
    """What the sampler left out costs nothing further down: no context, so no spans of jobs."""
    tracing = Tracing(TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False))

    assert tracing.begin("round").traceparent == ""
    assert not tracing.begin_call("submit", (("traceparent", CALLER),)).is_traced

"""Traces by OpenTelemetry: off unless the standard variables ask for them, and then spans per batch.

Off means that nothing of OpenTelemetry is imported: `active()` answers None, and whoever asks does so once per batch.
On, a span stands for a submit, a round, a record of the log, its storing, a message of rows, a batch of creates, with
counts as attributes and links to what came together. Spans of single jobs are made only for jobs that their submitter
traces (a sampled W3C trace context in the metadata of SubmitJobs), a bounded number per batch, into that trace.

Between processes a context travels as the text of a W3C `traceparent`.

The variables are those of the OpenTelemetry specification: OTEL_TRACES_EXPORTER (otlp, console or none; unset means
otlp if an endpoint is set), OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, OTEL_SERVICE_NAME,
OTEL_RESOURCE_ATTRIBUTES, OTEL_TRACES_SAMPLER, OTEL_PROPAGATORS, OTEL_BSP_*, OTEL_SDK_DISABLED.

Source: design section 9, "Traces".
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from argosy_core.errors import InvalidRequest

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider

__all__ = ["JOB_BATCH_LIMIT", "LINK_LIMIT", "Call", "TraceSpan", "Tracing", "active", "install", "start_tracing"]

Attribute = str | int | float | bool | Sequence[str]

JOB_BATCH_LIMIT: Final = 100
"""Most jobs of one batch that get spans of their own."""
LINK_LIMIT: Final = 32
"""Most links of a span."""
_ID_LIMIT: Final = 10
_EXPORTERS: Final = ("otlp", "console")
_GRPC: Final = "grpc"
_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")


class TraceSpan:
    """A span under way; `end` it."""

    __slots__ = ("_span",)

    def __init__(self, span: Any) -> None:  # noqa: ANN401 - OpenTelemetry's own type is loaded late
        """Hold OpenTelemetry's span."""
        self._span = span

    @property
    def traceparent(self) -> str:
        """The W3C context of the span, for those who make spans below it; empty if it is not sampled."""
        context = self._span.get_span_context()
        if not (context.is_valid and context.trace_flags.sampled):
            return ""
        return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"

    def note(self, **attributes: Attribute) -> None:
        """Set attributes; the names get the prefix `argosy.`."""
        self._span.set_attributes({f"argosy.{name}": value for name, value in attributes.items()})

    def note_jobs(self, job_ids: Sequence[str], count: int) -> None:
        """Set how many jobs the span is about, and the ids of a few."""
        self.note(job_count=count, job_ids=list(job_ids[:_ID_LIMIT]))

    def end(self, *, error: str = "", end_ns: int | None = None) -> None:
        """End the span.

        Args:
            error: Why it failed; empty if it did not.
            end_ns: When it ended, nanoseconds since the Unix epoch; now if not given.
        """
        if error:
            from opentelemetry.trace import Status, StatusCode

            self._span.set_status(Status(StatusCode.ERROR, error))
        self._span.end(end_time=end_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call that is answered within a span."""

    span: TraceSpan
    """The span."""
    is_traced: bool
    """Whether the caller sent a sampled context, and so wants to see what becomes of its jobs."""


class Tracing:
    """Makes spans.

    Args:
        provider: Where they go; its owner is this object, which shuts it down.
    """

    def __init__(self, provider: TracerProvider) -> None:
        """Take over a provider."""
        from opentelemetry.context import Context
        from opentelemetry.trace import Link, SpanKind, get_current_span
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._provider = provider
        self._tracer = provider.get_tracer("argosy")
        self._no_context = Context()
        self._propagator = TraceContextTextMapPropagator()
        self._kinds = {kind.name.lower(): kind for kind in SpanKind}
        self._link = Link
        self._span_of = get_current_span

    def begin(
        self,
        name: str,
        *,
        kind: str = "internal",
        parent: str = "",
        links: Iterable[str] = (),
        start_ns: int | None = None,
        **attributes: Attribute,
    ) -> TraceSpan:
        """Begin a span.

        Args:
            name: Its name; `argosy.` is put before it.
            kind: internal, server, client, producer or consumer.
            parent: W3C context of the span above; empty for the first of a trace, which the sampler then decides on.
            links: W3C contexts of spans that belong to it; unreadable ones and those above the limit are left out.
            start_ns: When it began, nanoseconds since the Unix epoch; now if not given.
            attributes: As for `TraceSpan.note`.
        """
        return self._begin(
            name, self._context(parent), kind=kind, links=links, start_ns=start_ns, attributes=attributes
        )

    def begin_call(self, name: str, metadata: Iterable[tuple[str, str | bytes]] | None) -> Call:
        """Begin the span of a call that came from outside.

        Args:
            name: As for `begin`.
            metadata: Of the call; the propagators that OTEL_PROPAGATORS names read the caller's context from it.
        """
        from opentelemetry.propagate import extract

        carrier = {key: value for key, value in metadata or () if isinstance(value, str)}
        context = extract(carrier, context=self._no_context)
        caller = self._span_of(context).get_span_context()
        span = self._begin(name, context, kind="server", links=(), start_ns=None, attributes={})
        is_traced = caller.is_valid and bool(caller.trace_flags.sampled) and bool(span.traceparent)
        return Call(span=span, is_traced=is_traced)

    def _begin(
        self,
        name: str,
        context: Context,
        *,
        kind: str,
        links: Iterable[str],
        start_ns: int | None,
        attributes: Mapping[str, Attribute],
    ) -> TraceSpan:
        linked = [self._span_of(self._context(text)).get_span_context() for text in tuple(links)[:LINK_LIMIT]]
        return TraceSpan(
            self._tracer.start_span(
                f"argosy.{name}",
                context=context,
                kind=self._kinds[kind],
                links=[self._link(one) for one in linked if one.is_valid],
                start_time=start_ns,
                attributes={f"argosy.{key}": value for key, value in attributes.items()},
            )
        )

    def _context(self, traceparent: str) -> Context:
        """Return what a W3C context says; an unreadable one says nothing."""
        if not traceparent:
            return self._no_context
        return self._propagator.extract({"traceparent": traceparent}, context=self._no_context)

    def close(self) -> None:
        """Send what has not been sent, within the exporter's own deadline; blocks."""
        self._provider.shutdown()


@dataclass(slots=True)
class _Process:
    """What this process traces with."""

    tracing: Tracing | None = None


_PROCESS: Final = _Process()


def active() -> Tracing | None:
    """Return what this process traces with, None if it does not trace."""
    return _PROCESS.tracing


def install(tracing: Tracing | None) -> None:
    """Trace with this from now on; parts that were made before keep what they had."""
    _PROCESS.tracing = tracing


def start_tracing(service: str, *, instance: str = "", environment: Mapping[str, str] | None = None) -> Tracing | None:
    """Trace if the standard variables ask for it; return what was installed, None if nothing was.

    Args:
        service: Name of the service, unless OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES give one.
        instance: Which one of them, as the name of its cluster.
        environment: Where the variables are; those of the process if not given. The SDK reads what is its own
            (endpoints, sampler, batching) from the process in any case.

    Raises:
        InvalidRequest: A variable asks for something that is not there.
    """
    variables = os.environ if environment is None else environment
    exporters = _wanted_exporters(variables)
    if not exporters:
        return None
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter

    named = variables.get("OTEL_SERVICE_NAME") or "service.name=" in variables.get("OTEL_RESOURCE_ATTRIBUTES", "")
    resource = Resource.create(
        {
            **({} if named else {"service.name": service}),
            **({"service.instance.id": instance} if instance else {}),
        }
    )
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    for name in exporters:
        exporter: SpanExporter = ConsoleSpanExporter(out=sys.stdout)
        if name == "otlp":
            from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter

            exporter = OTLPSpanExporter()
        provider.add_span_processor(BatchSpanProcessor(exporter))
    tracing = Tracing(provider)
    install(tracing)
    return tracing


def _wanted_exporters(variables: Mapping[str, str]) -> tuple[str, ...]:
    """Return the exporters that the variables ask for.

    Raises:
        InvalidRequest: One is not there.
    """
    if variables.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return ()
    default = "otlp" if any(variables.get(name) for name in _ENDPOINTS) else "none"
    text = variables.get("OTEL_TRACES_EXPORTER") or default
    names = tuple(dict.fromkeys(name.strip().lower() for name in text.split(",")))
    if names == ("none",):
        return ()
    for name in names:
        if name not in _EXPORTERS:
            raise InvalidRequest(
                f"OTEL_TRACES_EXPORTER names {name!r}; there are {', '.join(_EXPORTERS)}, and none by itself"
            )
    protocol = next((variables[name] for name in _PROTOCOLS if variables.get(name)), _GRPC)
    if "otlp" in names and protocol != _GRPC:
        raise InvalidRequest(
            f"OTLP is sent over {_GRPC} only, not {protocol!r}; set {_PROTOCOLS[1]}={_GRPC} or unset it"
        )
    return names

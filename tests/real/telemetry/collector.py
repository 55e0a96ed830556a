"""A trace collector that keeps what it is sent: OTLP over a real gRPC server."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc


@dataclass(frozen=True, kw_only=True)
class Received:
    """A span as it came."""

    service: str
    """service.name of its process."""
    name: str
    """Name."""
    trace_id: str
    """Trace, hexadecimal."""
    span_id: str
    """Span, hexadecimal."""
    parent_id: str
    """Span above, hexadecimal; empty for the first of a trace."""
    attributes: dict[str, Any]
    """Attributes."""
    linked: tuple[str, ...]
    """Spans it is linked to, hexadecimal."""
    took_ns: int
    """From begin to end, nanoseconds."""
    failed: bool
    """Whether it says so."""


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(one) for one in value.array_value.values]
    return getattr(value, kind) if kind else None


class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    """Keeps spans in the order of their arrival."""

    def __init__(self) -> None:
        """Listen on a free port."""
        self.spans: list[Received] = []
        self._server = grpc.server(ThreadPoolExecutor(4))
        trace_service_pb2_grpc.add_TraceServiceServicer_to_server(self, self._server)
        self.endpoint = f"http://127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        """Value for OTEL_EXPORTER_OTLP_ENDPOINT."""

    def __enter__(self) -> Self:
        """Serve."""
        self._server.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End."""
        self._server.stop(None).wait()

    def Export(  # noqa: N802 - the protocol's name
        self, request: trace_service_pb2.ExportTraceServiceRequest, context: grpc.ServicerContext
    ) -> trace_service_pb2.ExportTraceServiceResponse:
        """Keep the spans of a request."""
        for resource in request.resource_spans:
            names = {one.key: _value(one.value) for one in resource.resource.attributes}
            for scope in resource.scope_spans:
                for span in scope.spans:
                    self.spans.append(
                        Received(
                            service=names["service.name"],
                            name=span.name,
                            trace_id=span.trace_id.hex(),
                            span_id=span.span_id.hex(),
                            parent_id=span.parent_span_id.hex(),
                            attributes={one.key: _value(one.value) for one in span.attributes},
                            linked=tuple(link.span_id.hex() for link in span.links),
                            took_ns=span.end_time_unix_nano - span.start_time_unix_nano,
                            failed=span.status.code == 2,
                        )
                    )
        return trace_service_pb2.ExportTraceServiceResponse()

    def named(self, name: str) -> list[Received]:
        """Return the spans of a name."""
        return [span for span in self.spans if span.name == f"argosy.{name}"]

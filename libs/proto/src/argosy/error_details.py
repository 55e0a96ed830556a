"""What the details of a failed call say, as plain values; servers and the client library make their errors of it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]

__all__ = ["DETAILS_KEY", "DOMAIN", "ErrorDetails", "read_details"]

DOMAIN: Final = "argosy.dev"
"""Domain of our reasons, and of the types of our resources."""
DETAILS_KEY: Final = "grpc-status-details-bin"
"""Trailing metadata key of google.rpc.Status."""


@dataclass(slots=True)
class ErrorDetails:
    """Details of a failed call; what a server did not say is empty or None."""

    reason: str = ""
    """Constant in UPPER_SNAKE, of our domain."""
    violations: tuple[tuple[str, str], ...] = ()
    """(path of a field, what is wrong with it)."""
    retry_delay_s: float | None = None
    """How long to wait before the next attempt, seconds."""
    resource: tuple[str, str] | None = None
    """(kind, name) of what does not exist, is in the way, or is full."""


def read_details(error: grpc.RpcError) -> ErrorDetails:
    """Return what a failed call's google.rpc.Status says; nothing if it has none, or one that cannot be read."""
    metadata: Any = error.trailing_metadata() if hasattr(error, "trailing_metadata") else None
    raw = next((value for key, value in metadata or () if key == DETAILS_KEY), None)
    found = ErrorDetails()
    if not isinstance(raw, bytes):
        return found
    try:
        for detail in status_pb2.Status.FromString(raw).details:
            kind, read = _READERS.get(detail.TypeName(), (None, None))
            if kind is not None and read is not None:
                message = kind()
                detail.Unpack(message)
                read(message, found)
    except (DecodeError, ValueError):  # another server's details are no reason to lose its error
        return ErrorDetails()
    return found


def _read_info(info: Any, found: ErrorDetails) -> None:
    if info.domain == DOMAIN:
        found.reason = info.reason


def _read_bad_request(request: Any, found: ErrorDetails) -> None:
    found.violations = tuple((violation.field, violation.description) for violation in request.field_violations)


def _read_retry(info: Any, found: ErrorDetails) -> None:
    found.retry_delay_s = max(info.retry_delay.ToNanoseconds() / 1e9, 0.0)


def _read_resource(info: Any, found: ErrorDetails) -> None:
    found.resource = (info.resource_type.removeprefix(f"{DOMAIN}/"), info.resource_name)


def _read_quota(failure: Any, found: ErrorDetails) -> None:
    for violation in failure.violations[:1]:
        kind, _, name = violation.subject.removeprefix(f"{DOMAIN}/").partition(":")
        found.resource = (kind, name)


_READERS: Final[dict[str, tuple[Callable[[], Any], Callable[[Any, ErrorDetails], None]]]] = {
    kind.DESCRIPTOR.full_name: (kind, read)
    for kind, read in (
        (error_details_pb2.ErrorInfo, _read_info),
        (error_details_pb2.BadRequest, _read_bad_request),
        (error_details_pb2.RetryInfo, _read_retry),
        (error_details_pb2.ResourceInfo, _read_resource),
        (error_details_pb2.QuotaFailure, _read_quota),
    )
}

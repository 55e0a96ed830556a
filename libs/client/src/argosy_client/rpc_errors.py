"""Failed calls as errors of Argosy's tree.

The table is the client's half of the one in `argosy_runtime.errors`, which a client cannot import (layers); a test
holds them equal. Codes outside the table (UNKNOWN, DATA_LOSS, UNIMPLEMENTED) become `InvariantViolation`.

Source: design section 9, "Errors", "google.rpc details on the wire".
"""

from __future__ import annotations

from typing import Any, Final

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]

from argosy_core.errors import (
    AlreadyExists,
    ArgosyError,
    BackendUnavailable,
    FieldViolation,
    InvalidRequest,
    InvariantViolation,
    NotAllowedNow,
    NotAuthenticated,
    NotFound,
    NotPermitted,
    OutOfRange,
    QuotaExceeded,
    StateConflict,
)

__all__ = ["ERRORS", "RETRIED_CODES", "to_error"]

ERRORS: Final[dict[grpc.StatusCode, type[ArgosyError]]] = {
    grpc.StatusCode.INVALID_ARGUMENT: InvalidRequest,
    grpc.StatusCode.NOT_FOUND: NotFound,
    grpc.StatusCode.ALREADY_EXISTS: AlreadyExists,
    grpc.StatusCode.ABORTED: StateConflict,
    grpc.StatusCode.FAILED_PRECONDITION: NotAllowedNow,
    grpc.StatusCode.RESOURCE_EXHAUSTED: QuotaExceeded,
    grpc.StatusCode.UNAVAILABLE: BackendUnavailable,
    grpc.StatusCode.OUT_OF_RANGE: OutOfRange,
    grpc.StatusCode.UNAUTHENTICATED: NotAuthenticated,
    grpc.StatusCode.PERMISSION_DENIED: NotPermitted,
    grpc.StatusCode.INTERNAL: InvariantViolation,
    grpc.StatusCode.DEADLINE_EXCEEDED: BackendUnavailable,
    grpc.StatusCode.CANCELLED: BackendUnavailable,
}
"""What each code stands for; the last two have no error of their own on the server's side."""

RETRIED_CODES: Final = frozenset(
    {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED}
)
"""Codes that say nothing about whether the call was applied; CANCELLED is a server that went away mid-call (a cancelled
caller gets CancelledError instead)."""

_DETAILS_KEY: Final = "grpc-status-details-bin"


def to_error(error: grpc.RpcError) -> ArgosyError:
    """Return the Argosy error that a failed call stands for, with the violations of its details."""
    code = error.code()
    return ERRORS.get(code, InvariantViolation)(
        error.details() or f"the server answered {code.name} without a message", violations=_violations(error)
    )


def _violations(error: grpc.RpcError) -> tuple[FieldViolation, ...]:
    metadata: Any = error.trailing_metadata() if hasattr(error, "trailing_metadata") else None
    raw = next((value for key, value in metadata or () if key == _DETAILS_KEY), None)
    if not isinstance(raw, bytes):
        return ()
    try:
        status = status_pb2.Status.FromString(raw)
    except DecodeError:  # a foreign server's details are no reason to lose its error
        return ()
    request = error_details_pb2.BadRequest()
    for detail in status.details:
        if detail.Is(request.DESCRIPTOR) and detail.Unpack(request):
            return tuple(FieldViolation(field=v.field, description=v.description) for v in request.field_violations)
    return ()

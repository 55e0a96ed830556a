"""Failed calls as errors of Argosy's tree.

The table is the client's half of the one in `argosy_runtime.errors`, which a client cannot import (layers); a test
holds them equal. Codes outside the table (UNKNOWN, DATA_LOSS, UNIMPLEMENTED) become `InvariantViolation`.

Source: design section 9, "Errors", "google.rpc details on the wire".
"""

from __future__ import annotations

from typing import Final

import grpc

from argosy.error_details import read_details
from argosy_core.errors import (
    AlreadyExists,
    ArgosyError,
    BackendUnavailable,
    DeadlineExceeded,
    FieldViolation,
    InvalidRequest,
    InvariantViolation,
    NotAllowedNow,
    NotAuthenticated,
    NotFound,
    NotPermitted,
    OutOfRange,
    QuotaExceeded,
    Resource,
    StateConflict,
)

__all__ = ["ERRORS", "is_repeatable", "to_error"]

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
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineExceeded,
    grpc.StatusCode.CANCELLED: BackendUnavailable,
}
"""What each code stands for; the last has no error of its own on the server's side."""

_UNSURE_CODES: Final = frozenset(
    {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED}
)
"""Codes that say nothing about whether the call was applied; CANCELLED is a server that went away mid-call (a cancelled
caller gets CancelledError instead)."""


def to_error(error: grpc.RpcError) -> ArgosyError:
    """Return the Argosy error that a failed call stands for, with all that its details say."""
    code = error.code()
    details = read_details(error)
    return ERRORS.get(code, InvariantViolation)(
        error.details() or f"the server answered {code.name} without a message",
        violations=tuple(FieldViolation(field=field, description=text) for field, text in details.violations),
        reason=details.reason,
        resource=Resource(kind=details.resource[0], name=details.resource[1]) if details.resource else None,
        retry_delay_s=details.retry_delay_s,
    )


def is_repeatable(error: grpc.RpcError) -> bool:
    """Return whether the same call is worth another attempt.

    It is if nothing is known of what became of the call, and if a server that is busy said how long to wait. A server
    that says itself that it gave the call up would need as long again.
    """
    code = error.code()
    if code == grpc.StatusCode.DEADLINE_EXCEEDED:
        return not read_details(error).reason
    if code == grpc.StatusCode.RESOURCE_EXHAUSTED:
        return read_details(error).retry_delay_s is not None
    return code in _UNSURE_CODES

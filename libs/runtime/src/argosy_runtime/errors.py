"""Errors on the wire: Argosy's tree to gRPC codes and back, one table both ways.

The interceptor of `argosy_runtime.grpc_server` is the only place that turns errors into codes, and `from_rpc_error` the
only one that turns them back, so a forwarded call answers what the first server said.

Source: design section 9, "Errors", "Errors say what was wrong, where, and what to do".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

import grpc
from google.rpc import code_pb2, error_details_pb2, status_pb2  # type: ignore[import-untyped]

from argosy.error_details import DOMAIN, read_details
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
from argosy_core.job.reading.findings import printable

__all__ = [
    "ERROR_CODES",
    "code_of",
    "compact_violations",
    "details_of",
    "from_rpc_error",
    "message_of",
]

ERROR_CODES: Final[dict[type[ArgosyError], grpc.StatusCode]] = {
    InvalidRequest: grpc.StatusCode.INVALID_ARGUMENT,
    NotFound: grpc.StatusCode.NOT_FOUND,
    AlreadyExists: grpc.StatusCode.ALREADY_EXISTS,
    StateConflict: grpc.StatusCode.ABORTED,
    NotAllowedNow: grpc.StatusCode.FAILED_PRECONDITION,
    QuotaExceeded: grpc.StatusCode.RESOURCE_EXHAUSTED,
    BackendUnavailable: grpc.StatusCode.UNAVAILABLE,
    DeadlineExceeded: grpc.StatusCode.DEADLINE_EXCEEDED,
    OutOfRange: grpc.StatusCode.OUT_OF_RANGE,
    NotAuthenticated: grpc.StatusCode.UNAUTHENTICATED,
    NotPermitted: grpc.StatusCode.PERMISSION_DENIED,
    InvariantViolation: grpc.StatusCode.INTERNAL,
}
"""The one table; it is a bijection."""

_ERRORS: Final = {code: error for error, code in ERROR_CODES.items()}
_CODE_NUMBERS: Final = {code: code_pb2.Code.Value(code.name) for code in grpc.StatusCode}

# Clients drop headers above 8 KiB (default of grpc.max_metadata_size), base64 makes 4 bytes of 3, and the message
# travels twice: in the status and in the details.
_MAX_DETAILS_BYTES: Final = 4096
_MAX_MESSAGE_CHARACTERS: Final = 1024
_MAX_INDEX_CHARACTERS: Final = 1500
_INDEX: Final = re.compile(r"\[(\d+)\]")


def code_of(error: ArgosyError) -> grpc.StatusCode:
    """Return the gRPC code of an error; subclasses take their nearest listed base's, unlisted ones INTERNAL."""
    for base in type(error).__mro__:
        code = ERROR_CODES.get(base)
        if code is not None:
            return code
    return grpc.StatusCode.INTERNAL


def message_of(error: ArgosyError) -> str:
    """Return the status text: the error's message and its first violations, printable, at most 1,024 characters."""
    text = error.message
    if error.violations:
        compact = compact_violations(error.violations)
        text += ": " + "; ".join(f"{violation.field}: {violation.description}" for violation in compact[:5])
        if len(compact) > 5:
            text += f"; and {len(compact) - 5} more kinds of fault, see the details"
    return printable(text if len(text) <= _MAX_MESSAGE_CHARACTERS else text[: _MAX_MESSAGE_CHARACTERS - 3] + "...")


def details_of(error: ArgosyError) -> bytes:
    """Return google.rpc.Status as bytes.

    It holds ErrorInfo with the error's reason; BadRequest with the violations; RetryInfo if waiting helps; and what the
    error is about, as QuotaFailure where a limit was reached, else as ResourceInfo.

    Violations that differ only in their index are joined (`items[0-7,9].queue`) when they would not fit a header; what
    does not fit even then is counted in a last violation.
    """
    code = code_of(error)
    status = status_pb2.Status(code=_CODE_NUMBERS[code], message=printable(error.message[:_MAX_MESSAGE_CHARACTERS]))
    status.details.add().Pack(error_details_pb2.ErrorInfo(reason=error.reason, domain=DOMAIN))
    if error.violations:
        status.details.add().Pack(_bad_request(error.violations))
    if error.retry_delay_s is not None:
        status.details.add().Pack(_retry_info(error.retry_delay_s))
    if error.resource is not None:
        status.details.add().Pack(_subject(error, error.resource))
    return bytes(status.SerializeToString())


def compact_violations(violations: Sequence[FieldViolation]) -> tuple[FieldViolation, ...]:
    """Return the violations with those joined that differ only in the first index of their path.

    Paths become `items[0-7,9].queue`; the order is that of first occurrence.
    """
    groups: dict[tuple[str, str, str], list[int]] = {}
    for violation in violations:
        match = _INDEX.search(violation.field)
        head, index, tail = (
            (violation.field[: match.start()], int(match.group(1)), violation.field[match.end() :])
            if match
            else (violation.field, -1, "")
        )
        groups.setdefault((head, tail, violation.description), []).append(index)
    return tuple(
        FieldViolation(field=f"{head}[{_ranges(indices)}]{tail}" if indices[0] >= 0 else head, description=description)
        for (head, tail, description), indices in groups.items()
    )


def from_rpc_error(error: grpc.RpcError) -> ArgosyError:
    """Return the Argosy error that a failed call stands for, with all that its details say.

    Codes outside the table (UNKNOWN, DEADLINE_EXCEEDED, CANCELLED, DATA_LOSS, UNIMPLEMENTED) become
    `BackendUnavailable` for a passed deadline or a cancelled call and `InvariantViolation` otherwise.
    """
    code = error.code()
    message = error.details() or "no message"
    kind = _ERRORS.get(code)
    if kind is None and code in {grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED}:
        kind = BackendUnavailable
    details = read_details(error)
    return (kind or InvariantViolation)(
        message,
        violations=tuple(FieldViolation(field=field, description=text) for field, text in details.violations),
        reason=details.reason,
        resource=Resource(kind=details.resource[0], name=details.resource[1]) if details.resource else None,
        retry_delay_s=details.retry_delay_s,
    )


def _retry_info(delay_s: float) -> error_details_pb2.RetryInfo:
    info = error_details_pb2.RetryInfo()
    info.retry_delay.FromNanoseconds(int(delay_s * 1e9))
    return info


def _subject(error: ArgosyError, resource: Resource) -> Any:  # noqa: ANN401 - one of two messages
    kind = f"{DOMAIN}/{resource.kind}"
    if isinstance(error, QuotaExceeded):
        failure = error_details_pb2.QuotaFailure()
        failure.violations.add(subject=f"{kind}:{printable(resource.name)}", description=printable(error.message[:512]))
        return failure
    return error_details_pb2.ResourceInfo(resource_type=kind, resource_name=printable(resource.name))


def _bad_request(violations: Sequence[FieldViolation]) -> error_details_pb2.BadRequest:
    size = sum(len(violation.field) + len(violation.description) + 8 for violation in violations)
    return _fill_bad_request(violations if size <= _MAX_DETAILS_BYTES else compact_violations(violations))


def _fill_bad_request(violations: Sequence[FieldViolation]) -> error_details_pb2.BadRequest:
    request = error_details_pb2.BadRequest()
    room = _MAX_DETAILS_BYTES
    for count, violation in enumerate(violations):
        path, description = printable(violation.field), printable(violation.description[:512])
        room -= len(path) + len(description) + 8
        if room < 0:
            request.field_violations.add(
                field="", description=f"and {len(violations) - count} more kinds of fault; mend these first"
            )
            break
        request.field_violations.add(field=path, description=description)
    return request


def _ranges(indices: Iterable[int]) -> str:
    parts: list[str] = []
    start = previous = None
    for index in [*sorted(set(indices)), None]:
        if previous is not None and index == previous + 1:
            previous = index
            continue
        if start is not None:
            parts.append(str(start) if start == previous else f"{start}-{previous}")
        start = previous = index
    text = ",".join(parts)
    return text if len(text) <= _MAX_INDEX_CHARACTERS else text[:_MAX_INDEX_CHARACTERS] + ",..."

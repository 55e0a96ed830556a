"""Tests of errors on the wire."""

from __future__ import annotations

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2

from argosy_core import errors as core_errors
from argosy_core.errors import ArgosyError, FieldViolation, InvalidRequest, QuotaExceeded, Resource, StateConflict
from argosy_runtime.errors import ERROR_CODES, code_of, compact_violations, details_of, from_rpc_error, message_of


class StaleEpoch(StateConflict):
    """A subclass that is not in the table."""


def make_rpc_error(code: grpc.StatusCode, text: str, details: bytes = b"") -> grpc.aio.AioRpcError:
    """Return a failed call as a client sees it."""
    trailing = grpc.aio.Metadata(("grpc-status-details-bin", details)) if details else grpc.aio.Metadata()
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), trailing, text)


def test_error_table_has_every_error_once_and_every_code_once() -> None:
    """The table is a bijection over the whole tree."""
    tree = {getattr(core_errors, name) for name in core_errors.__all__} - {ArgosyError, FieldViolation, Resource}
    assert set(ERROR_CODES) == tree
    assert len(set(ERROR_CODES.values())) == len(ERROR_CODES)


def test_code_of_subclass_is_its_base_code() -> None:
    """A subclass answers as its nearest listed base; the root itself is a fault of ours."""
    assert code_of(StaleEpoch("old")) == grpc.StatusCode.ABORTED
    assert code_of(ArgosyError("?")) == grpc.StatusCode.INTERNAL


@pytest.mark.parametrize("error_type", ERROR_CODES, ids=lambda error: error.__name__)
def test_from_rpc_error_gives_back_what_was_sent(error_type: type[ArgosyError]) -> None:
    """Type, text and all details make the round trip."""
    violations = (FieldViolation(field="items[2].queue", description="is odd"),)
    resource = Resource(kind="Queue", name="red")
    error = error_type("odd", violations=violations, reason="ODD_QUEUE", resource=resource, retry_delay_s=1.5)
    back = from_rpc_error(make_rpc_error(code_of(error), message_of(error), details_of(error)))
    assert type(back) is error_type
    assert back.violations == violations
    assert (back.reason, back.resource, back.retry_delay_s) == ("ODD_QUEUE", resource, 1.5)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (grpc.StatusCode.CANCELLED, core_errors.BackendUnavailable),
        (grpc.StatusCode.UNKNOWN, core_errors.InvariantViolation),
        (grpc.StatusCode.UNIMPLEMENTED, core_errors.InvariantViolation),
    ],
)
def test_from_rpc_error_maps_codes_outside_the_table(code: grpc.StatusCode, expected: type[ArgosyError]) -> None:
    """Codes that only grpc itself makes have a meaning too."""
    assert type(from_rpc_error(make_rpc_error(code, "x"))) is expected


def test_from_rpc_error_survives_details_of_others() -> None:
    """Details that are no google.rpc.Status do not hide the error."""
    back = from_rpc_error(make_rpc_error(grpc.StatusCode.NOT_FOUND, "x", b"\xff\xff"))
    assert type(back) is core_errors.NotFound
    assert back.violations == ()


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (["items[0].queue"], ["items[0].queue"]),
        (["items[0].queue", "items[1].queue", "items[2].queue", "items[5].queue"], ["items[0-2,5].queue"]),
        (["items[1].a", "items[0].b"], ["items[1].a", "items[0].b"]),
        (["name", "items[3].x"], ["name", "items[3].x"]),
    ],
)
def test_compact_violations_joins_those_that_differ_in_index(fields: list[str], expected: list[str]) -> None:
    """Every bad item stays listed, in ranges."""
    violations = [FieldViolation(field=path, description="bad") for path in fields]
    assert [violation.field for violation in compact_violations(violations)] == expected


def test_details_list_every_one_of_thousand_bad_items_within_a_header() -> None:
    """A thousand equal faults become one line that names all of them, small enough for any client."""
    violations = tuple(FieldViolation(field=f"items[{i}].queue", description="no such queue") for i in range(1000))
    details = details_of(InvalidRequest("1000 faults", violations=violations))
    assert len(details) < 6000
    back = from_rpc_error(make_rpc_error(grpc.StatusCode.INVALID_ARGUMENT, "x", details))
    assert [violation.field for violation in back.violations] == ["items[0-999].queue"]


def test_details_say_how_many_kinds_of_fault_they_leave_out() -> None:
    """What does not fit is counted rather than dropped in silence."""
    violations = tuple(FieldViolation(field=f"items[{i}].queue", description=f"odd {i} " * 5) for i in range(1000))
    error = InvalidRequest("1000 faults", violations=violations)
    assert len(details_of(error)) < 6000
    assert len(message_of(error)) <= 1024
    back = from_rpc_error(make_rpc_error(grpc.StatusCode.INVALID_ARGUMENT, "x", details_of(error)))
    shown = len(back.violations) - 1
    assert back.violations[-1].description == f"and {1000 - shown} more kinds of fault; mend these first"


def test_details_are_a_google_rpc_status_with_our_reason() -> None:
    """Clients of any language find code and reason where Google's libraries look."""
    status = status_pb2.Status.FromString(details_of(InvalidRequest("odd")))
    assert (status.code, status.message) == (3, "odd")
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    assert (info.reason, info.domain) == ("INVALID_REQUEST", "argosy.dev")


def test_details_say_which_limit_was_reached_and_when_to_try_again() -> None:
    """A full queue is a QuotaFailure, what does not exist a ResourceInfo, and RetryInfo comes with either."""
    queue = Resource(kind="Queue", name="red")
    full = status_pb2.Status.FromString(details_of(QuotaExceeded("red is full", resource=queue, retry_delay_s=0.25)))
    retry, quota, resource = (
        error_details_pb2.RetryInfo(),
        error_details_pb2.QuotaFailure(),
        error_details_pb2.ResourceInfo(),
    )
    assert full.details[1].Unpack(retry)
    assert retry.retry_delay.ToMilliseconds() == 250
    assert full.details[2].Unpack(quota)
    assert (quota.violations[0].subject, quota.violations[0].description) == ("argosy.dev/Queue:red", "red is full")
    missing = status_pb2.Status.FromString(details_of(core_errors.NotFound("no queue", resource=queue)))
    assert missing.details[1].Unpack(resource)
    assert (resource.resource_type, resource.resource_name) == ("argosy.dev/Queue", "red")
